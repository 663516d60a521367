"""Liveness of straight-line code that drops every variable after its last use.

This is a second opinion on a plan: it reads the final graphs instead of the planner's, and shares no code with the planner. The
executor uses the in-place decisions of this module, so that the count matches the execution.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import fx

from memplan.graph.capture import allocated, storage_bytes, storage_key, tensors_of
from memplan.graph.layouts import same_layout
from memplan.graph.overwriting import may_write_into_first

WORKSPACE = "memplan_workspace"  # key in a node's meta: workspace in bytes
SECONDS = "memplan_seconds"
EARLIER = "memplan_earlier"  # key in a node's meta: sizes of blocks that exist before the step and that the node frees


@dataclass(eq=False, slots=True)
class Line:
    """A node of a graph that has not been built, with the attributes of fx.Node that this module reads."""

    name: str
    op: str
    target: Any
    args: tuple[Any, ...]
    all_input_nodes: list[Any]
    meta: dict[str, Any]


@dataclass(eq=False)
class Block:
    """A piece of memory, with the variables of the code that refer to it."""

    n_bytes: int
    is_ours: bool  # whether the graph itself allocates the block; only such blocks may be overwritten
    stays: bool  # whether something outside of the graph holds the block until the graph ends
    holders: list[fx.Node] = field(default_factory=list)


class Event(NamedTuple):
    """An allocation (positive bytes) or a release (negative bytes) while this node runs."""

    block: Block
    n_bytes: int
    node: fx.Node


class LastUses:
    """The last use of each variable of a graph. It needs no sizes, which a graph of several input sizes does not have."""

    def __init__(self, graph: fx.Graph) -> None:
        self.nodes = list(graph.nodes)
        self.at = {node: i for i, node in enumerate(self.nodes)}
        self.last_use = dict(self.at)
        for node in self.nodes:
            for a in node.all_input_nodes:
                self.last_use[a] = self.at[node]
        self.in_place: set[fx.Node] = set()  # nodes that overwrite their first argument

    def dying(self, node: fx.Node) -> list[fx.Node]:
        """Return the variables without a reader after this node: arguments, or the node itself."""
        i = self.at[node]
        return [n for n in dict.fromkeys([*node.all_input_nodes, node]) if self.last_use[n] == i and n.op != "output"]


class Liveness(LastUses):
    """The liveness of one graph.

    Args:
        graph: the graph.
        sizes: sizes of storages by key, if they differ from the fake tensors' sizes.
        static_keys: storages of static memory, which is not counted here.
        held_keys: storages that others hold.
    """

    def __init__(
        self,
        graph: fx.Graph,
        sizes: Mapping[int, int] | None = None,
        static_keys: Iterable[int] = (),
        held_keys: Iterable[int] = (),
    ) -> None:
        super().__init__(graph)
        self.sizes = sizes or {}
        self.static_keys, self.held_keys = set(static_keys), set(held_keys)
        self.blocks: dict[fx.Node, dict[int, Block]] = {}  # for each node: the blocks of its results, by storage key
        self.made: dict[fx.Node, list[Block]] = {}
        for node in self.nodes:
            if node.op != "output":
                self._find_blocks(node)
        self.earlier = {n: [Block(size, False, False) for size in n.meta.get(EARLIER, ())] for n in self.nodes}

    def _find_blocks(self, node: fx.Node) -> None:
        known = {k: b for a in node.all_input_nodes for k, b in self.blocks[a].items()}
        found: dict[int, Block] = {}
        made: list[Block] = []
        for tensor in tensors_of(node.meta.get("val")):
            key = storage_key(tensor)
            block = found.get(key) or known.get(key)
            if block is None and self._takes_over(node):
                self.in_place.add(node)
                first: Any = node.args[0]
                (block,) = self.blocks[first].values()
            if block is None:
                static = key in self.static_keys or node.op == "get_attr"
                n_bytes = 0 if static else self.sizes.get(key, allocated(storage_bytes(tensor), tensor.device))
                block = Block(n_bytes, node.op == "call_function", node.op == "placeholder" and key in self.held_keys)
                made.append(block)
            found[key] = block
        for block in found.values():
            block.holders.append(node)
        self.blocks[node], self.made[node] = found, made

    def _takes_over(self, node: fx.Node) -> bool:
        """Whether the result may overwrite the first argument: same layout, no later reader, allocated in the graph."""
        if node.op != "call_function" or not may_write_into_first(node):
            return False
        first = node.args[0]
        if not isinstance(first, (fx.Node, Line)) or not same_layout(first.meta.get("val"), node.meta.get("val")):
            return False
        blocks = list(self.blocks[first].values())
        if len(blocks) != 1 or not blocks[0].is_ours or blocks[0].stays:
            return False
        others = [a for a in node.args[1:] if a is first]
        readers = [a for a in node.all_input_nodes if blocks[0] in self.blocks[a].values()]
        return not others and len(readers) == 1 and self._ends(blocks[0], self.at[node])

    def _ends(self, block: Block, step: int) -> bool:
        return not block.stays and all(self.last_use[h] <= step for h in block.holders)

    def events(self) -> Iterator[Event]:
        """Yield allocations and releases in the order of the code.

        Existing memory and inputs come first. Each node then allocates its results and workspace, and frees memory after its
        run. Memory that the graph returns is not freed.
        """
        alive: set[Block] = set()
        yield from (Event(b, b.n_bytes, self.nodes[0]) for b in self.earlier_blocks())
        for node in self.nodes:
            if node.op == "placeholder":
                yield from (Event(b, b.n_bytes, node) for b in self.made[node])
                alive.update(self.made[node])
        for i, node in enumerate(self.nodes):
            if node.op != "placeholder":
                yield from (Event(b, b.n_bytes, node) for b in self.made.get(node, []))
                alive.update(self.made.get(node, []))
                if workspace := int(node.meta.get(WORKSPACE, 0)):
                    passing = Block(workspace, True, False)
                    yield from (Event(passing, workspace, node), Event(passing, -workspace, node))
            if node.op == "output":
                continue
            yield from (Event(b, -b.n_bytes, node) for b in self.earlier[node])
            touched = [node, *node.all_input_nodes]
            for block in dict.fromkeys(b for n in touched for b in self.blocks[n].values()):
                if block in alive and self._ends(block, i):
                    alive.discard(block)
                    yield Event(block, -block.n_bytes, node)

    def earlier_blocks(self) -> list[Block]:
        """Return the blocks that exist before the step and still exist when the graph begins."""
        return [b for blocks in self.earlier.values() for b in blocks]

    def live_bytes(self, before: int = 0) -> list[int]:
        """Return the peak of live bytes while each node runs, with workspaces and without static memory.

        `before`: bytes held by others during the whole graph.
        """
        most: dict[fx.Node, int] = {}
        after: dict[fx.Node, int] = {}
        live = before
        for event in self.events():
            most[event.node] = max(most.get(event.node, live), live + event.n_bytes)
            live += event.n_bytes
            after[event.node] = live
        found, live = [], before
        for node in self.nodes:
            found.append(most.get(node, live))
            live = after.get(node, live)
        return found

    def peak_bytes(self, before: int = 0) -> int:
        """Return the peak of a graph in bytes: the maximum of `live_bytes`."""
        return max(self.live_bytes(before), default=before)


def keys_of(nodes: Iterable[Any]) -> set[int]:
    """Return the storage keys of the values of these nodes."""
    return {storage_key(t) for n in nodes if isinstance(n, (fx.Node, Line)) for t in tensors_of(n.meta.get("val"))}


def saved_bytes(backward: fx.Graph, known: Mapping[int, int], static_keys: set[int]) -> int:
    """Return the bytes of a backward graph's inputs: the tensors that have to be kept from forward."""
    sizes = {
        storage_key(t): known.get(storage_key(t), allocated(storage_bytes(t), t.device))
        for n in backward.nodes
        if n.op == "placeholder" and "tangents" not in n.name
        for t in tensors_of(n.meta.get("val"))
    }
    return sum(size for key, size in sizes.items() if key not in static_keys)
