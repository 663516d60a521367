"""Who is in memory when, in straight-line code that drops every variable at its last use.

This is the second opinion on a plan: it reads the graphs that will run, not the planner's, and shares nothing with it.
The executor takes from here what may be written in place, so that what is counted is what is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import fx

from memplan.graph.capture import allocated, storage_bytes, storage_key, tensors_of
from memplan.graph.layouts import same_layout
from memplan.graph.overwriting import may_write_into_first

WORKSPACE = "memplan_workspace"  # of a node, in its meta
SECONDS = "memplan_seconds"
EARLIER = "memplan_earlier"  # pieces of memory, there before the step, of which a node lets go: their bytes


@dataclass(eq=False)
class Block:
    """A piece of memory, and the variables through which it is reached."""

    n_bytes: int
    is_ours: bool  # made here, so that it may be written into
    stays: bool  # held by somebody else to the end
    holders: list[fx.Node] = field(default_factory=list)


class Event(NamedTuple):
    """A block is given out (its bytes) or taken back (their negative), where this node runs."""

    block: Block
    n_bytes: int
    node: fx.Node


class Liveness:
    """Of one graph. `sizes`: of storages by their key, where they are not what the graph says; `static_keys`: storages that
    are counted elsewhere; `held_keys`: those that others hold."""

    def __init__(
        self,
        graph: fx.Graph,
        sizes: Mapping[int, int] | None = None,
        static_keys: Iterable[int] = (),
        held_keys: Iterable[int] = (),
    ) -> None:
        self.sizes = sizes or {}
        self.nodes = list(graph.nodes)
        self.at = {node: i for i, node in enumerate(self.nodes)}
        self.static_keys, self.held_keys = set(static_keys), set(held_keys)
        self.last_use = dict(self.at)
        for node in self.nodes:
            for a in node.all_input_nodes:
                self.last_use[a] = self.at[node]
        self.in_place: set[fx.Node] = set()
        self.blocks: dict[fx.Node, dict[int, Block]] = {}  # per node: by the key of its tensors' storage
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
        """Whether the first argument's memory ends here, is ours, and has the result's layout."""
        if node.op != "call_function" or not may_write_into_first(node):
            return False
        first = node.args[0]
        if not isinstance(first, fx.Node) or not same_layout(first.meta.get("val"), node.meta.get("val")):
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
        """What is given out and taken back, in the order of the code: first what is there and comes in, then per node its
        results, its workspace, and what ends with it. What the graph returns is not taken back."""
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
        """What was there before the step and is when the graph begins."""
        return [b for blocks in self.earlier.values() for b in blocks]

    def live_bytes(self, before: int = 0) -> list[int]:
        """The most that is live while each node runs, workspaces included; `before`: what others hold throughout. Static
        bytes are not in it."""
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
        """The most of that."""
        return max(self.live_bytes(before), default=before)

    def dying(self, node: fx.Node) -> list[fx.Node]:
        """The variables that nothing reads after this node: its arguments, or itself."""
        i = self.at[node]
        return [n for n in dict.fromkeys([*node.all_input_nodes, node]) if self.last_use[n] == i and n.op != "output"]


def keys_of(nodes: Iterable[Any]) -> set[int]:
    """The storages in which the values of these nodes lie."""
    return {storage_key(t) for n in nodes if isinstance(n, fx.Node) for t in tensors_of(n.meta.get("val"))}


def saved_bytes(backward: fx.Graph, known: Mapping[int, int], static_keys: set[int]) -> int:
    """What a backward graph is given and somebody has to keep for it."""
    sizes = {
        storage_key(t): known.get(storage_key(t), allocated(storage_bytes(t), t.device))
        for n in backward.nodes
        if n.op == "placeholder" and "tangents" not in n.name
        for t in tensors_of(n.meta.get("val"))
    }
    return sum(size for key, size in sizes.items() if key not in static_keys)
