"""A joint graph of few equal blocks, made one of many: what a capture of all of them would be, in a fraction of the time.

A network of 80 blocks is captured with four: 0, 1, 78 and 79. Forward, and backward from last to first, are then lists in
which a part comes again, and it is put in between as often as there are blocks left out:

    captured          f0 f1 f2 f3 | b3 b2 b1 b0
    for two more      f0 f1 F F f2 f3 | b3 b2 B B b1 b0

F is f2 with arguments from the part before it, as f2 has of f1; B is b1, with arguments from the part before it and from its
own part of forward. Parts need not begin where blocks do: they are as long as from a block's first operator to that of the
next. An argument is the same in two parts or as far away in both; where it is neither, the blocks are not equal. New
parameters and their gradients follow in the same way. Values lie in memory of their own: the graph is one to be counted, and
cannot run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from memplan.errors import MemplanError
from memplan.graph.capture import storage_key, tensors_of
from memplan.graph.joint import flat_outputs
from memplan.graph.operators import CHECKPOINT
from memplan.graph.shards import REDUCE, is_ours
from memplan.torch_internals.tensors import tree_iter

Position = int
MARK = "of__block"  # in the name of a new parameter
VIEWS = ("aten.slice", "aten.view", "aten.as_strided", "aten.narrow", "aten.reshape")


class Unequal(MemplanError):
    """Blocks that look alike are not, in a graph."""


@dataclass(frozen=True)
class Parts:
    """Where the two parts begin and how long they are, in a list of nodes, that come again."""

    first: Position
    length: int

    @property
    def second(self) -> Position:
        return self.first + self.length

    @property
    def end(self) -> Position:
        return self.first + 2 * self.length

    def has(self, place: Position) -> bool:
        return self.first <= place < self.end


def listed(graph: fx.Graph) -> list[fx.Node]:
    """All nodes in their order, an input before its first reader; but for the output."""
    found: dict[fx.Node, None] = {}
    for node in graph.nodes:
        if node.op not in ("placeholder", "output"):
            found.update(dict.fromkeys(a for a in node.all_input_nodes if a.op == "placeholder"))
            found[node] = None
    return list(found)


def primals_of(graph: fx.Graph) -> list[fx.Node]:
    """Parameters, buffers and the batch, and meshes of ranks."""
    return [n for n in graph.nodes if n.op == "placeholder" and "tangents" not in n.name]


def views_follow_sums(graph: fx.Graph) -> None:
    """Views of a sum of gradients stand right behind it, and not at the end of backward."""
    for node in [n for n in graph.nodes if n.target is REDUCE]:
        at, todo = node, [node]
        while todo:
            for user in list(todo.pop(0).users):
                if user.op == "call_function" and str(user.target).startswith(VIEWS):
                    at.append(user)
                    at = user
                    todo.append(user)


def described(node: fx.Node) -> Any:
    """Equal for nodes that do the same."""
    layouts = [(tuple(t.shape), t.stride(), t.dtype) for t in tensors_of(node.meta.get("val"))]
    if node.op == "placeholder":
        return node.op, layouts
    plain = fx.node.map_aggregate((node.args, node.kwargs), lambda a: "" if isinstance(a, fx.Node) else a)
    return str(node.target), layouts, "" if is_ours(node) else str(plain)


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Unequal(f"its blocks are not equal in its graph: {what}")


class Unrolled:
    """`starts`: the first node of the second block that was captured in forward, of the third, and so in backward."""

    def __init__(
        self, graph: fx.Graph, n: int, n_forward_outputs: int, starts: Callable[[list[fx.Node]], list[Position]]
    ) -> None:
        views_follow_sums(graph)
        self.graph, self.n = graph, n
        self.nodes, self.given = listed(graph), primals_of(graph)
        self.at: dict[Any, int] = {node: i for i, node in enumerate(self.nodes)}
        self.values = {node: node.meta.get("val") for node in self.nodes}
        self.inputs = {node: list(node.all_input_nodes) for node in self.nodes}
        f1, f2, b2, b1 = starts(self.nodes)
        self.forward, self.backward = Parts(f1, f2 - f1), Parts(b2, b1 - b2)
        require(self.forward.length > 0 and self.backward.length > 0 and self.forward.end <= b2, "they are not in order")
        require(self.backward.end <= len(self.nodes), "the last in backward has no end")
        for parts in (self.forward, self.backward):
            for k in range(parts.first, parts.second):
                here, there = self.nodes[k], self.nodes[k + parts.length]
                require(described(here) == described(there), f"{here.name} and {there.name}")
        self.owners = self._owners()
        p, q = n * self.forward.length, n * self.backward.length
        self.beyond = (p, q)  # how much later what comes behind the new parts is
        cut, again = self.forward.second, self.backward.second
        self.made: list[fx.Node | None] = [
            *self.nodes[:cut],
            *[None] * p,
            *self.nodes[cut:again],
            *[None] * q,
            *self.nodes[again:],
        ]
        self._write(n_forward_outputs)

    def place(self, old: Position) -> Position:
        """Of a node of the captured graph, in the new list."""
        return old + self.beyond[0] * (old >= self.forward.second) + self.beyond[1] * (old >= self.backward.second)

    def _owners(self) -> dict[int, tuple[Position, int]]:
        """Per memory: the node that has it first, and as which of its results."""
        found: dict[int, tuple[Position, int]] = {}
        for i, node in enumerate(self.nodes):
            for k, tensor in enumerate(tensors_of(node.meta.get("val"))):
                found.setdefault(storage_key(tensor), (i, k))
        return found

    def argument(self, parts: Parts, k: Position, in_first: Position, in_second: Position, copy: int) -> Position:
        """Where the argument of a part's node k is in the new list, by its places for the first part and for the second;
        `copy`: which of the new parts, 0 the first of the captured ones, n + 1 the second."""
        if in_first == in_second:
            return self.place(in_first)
        if parts is self.forward:
            require(in_second - in_first == parts.length, self.nodes[parts.first + k].name)
            return in_first + copy * parts.length
        if in_second - in_first == parts.length:
            return in_first + self.beyond[0] + copy * parts.length
        require(in_first - in_second == self.forward.length, self.nodes[parts.first + k].name)
        return in_second + (self.n + 1 - copy) * self.forward.length  # the first of backward is the last of forward

    def _write(self, n_forward_outputs: int) -> None:
        behind = self.graph.output_node()
        for parts in (self.forward, self.backward):
            for copy in range(1, self.n + 1):
                for k in range(parts.length):
                    self._copy(parts, k, copy)
        for parts in (self.forward, self.backward):
            for copy in (0, self.n + 1):
                for k in range(parts.length):
                    self._point_again(parts, k, copy)
        self._check_others()
        self._return(behind, n_forward_outputs)

    def _pairs(self, parts: Parts, k: int) -> tuple[fx.Node, fx.Node]:
        return self.nodes[parts.first + k], self.nodes[parts.second + k]

    def _found(self, place: Position) -> fx.Node:
        node = self.made[place]
        assert node is not None
        return node

    def _arguments(self, parts: Parts, k: int, copy: int) -> Callable[[Any], Any]:
        """The new argument for each of the second part's node, or the first's for the first of the captured parts."""
        first, second = self._pairs(parts, k)
        require(len(self.inputs[first]) == len(self.inputs[second]), first.name)
        places = {
            (of_first if copy == 0 else of_second): self._found(
                self.argument(parts, k, self.at[of_first], self.at[of_second], copy)
            )
            for of_first, of_second in zip(self.inputs[first], self.inputs[second])
        }
        return lambda node: places[node]

    def _copy(self, parts: Parts, k: int, copy: int) -> None:
        second = self.nodes[parts.second + k]
        start = self.forward.second if parts is self.forward else self.backward.second + self.beyond[0]
        place = start + (copy - 1) * parts.length + k
        if second.op == "placeholder":
            with self.graph.inserting_before(second):
                made = self.graph.placeholder(second.name + MARK)
        else:
            new = self._arguments(parts, k, copy)
            with self.graph.inserting_before(self.nodes[parts.second]):
                made = self.graph.node_copy(second, new)
        made.meta = {name: value for name, value in second.meta.items() if name != "desc"}
        made.meta["val"] = self._value(parts, k, copy)
        if CHECKPOINT in made.meta:  # each copy has its own
            made.meta[CHECKPOINT] = (made.meta[CHECKPOINT], copy)
        self.made[place] = made

    def _value(self, parts: Parts, k: int, copy: int) -> Any:
        """A value like the second part's, in memory of its own or in that of an argument."""
        first, second = self._pairs(parts, k)
        fresh: dict[int, torch.UntypedStorage] = {}
        like_first = iter(tensors_of(self.values[first]))

        def one(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            key, key_of_first = storage_key(value), storage_key(next(like_first))
            (owner, which), (owner_of_first, _) = self.owners[key], self.owners[key_of_first]
            if owner == parts.second + k:
                n_bytes = value.untyped_storage().nbytes()
                storage = fresh.get(key) or torch.empty(n_bytes, dtype=torch.uint8, device="meta").untyped_storage()
                fresh[key] = storage
            else:
                at = self.argument(parts, k, owner_of_first, owner, copy)
                results = tensors_of(self._found(at).meta["val"])
                require(which < len(results), first.name)
                storage = results[which].untyped_storage()
            made = torch.empty(0, dtype=value.dtype, device="meta")
            return made.set_(storage, value.storage_offset(), value.shape, value.stride())

        return fx.node.map_aggregate(self.values[second], one)

    def _point_again(self, parts: Parts, k: int, copy: int) -> None:
        """A captured node reads what is now before it, and a view lies there."""
        node = self._pairs(parts, k)[0 if copy == 0 else 1]
        if node.op == "placeholder":
            return
        new = self._arguments(parts, k, copy)
        node.args, node.kwargs = fx.node.map_arg((node.args, node.kwargs), new)
        owners = {self.owners[storage_key(t)][0] for t in tensors_of(self.values[node])}
        if self.at[node] not in owners:
            node.meta["val"] = self._value(parts, k, copy)

    def _check_others(self) -> None:
        """Nothing else reads over what was put in between."""
        cut, again = self.forward.second, self.backward.second
        for i, node in enumerate(self.nodes):
            if self.forward.has(i) or self.backward.has(i):
                continue
            for a in node.all_input_nodes:
                at = self.at.get(a, -1)
                of_forward = self.forward.first <= at < cut <= i and not i >= again
                of_backward = self.backward.first <= at < again <= i or (cut <= at < self.forward.end and i >= again)
                require(not of_forward and not of_backward, f"{node.name} reads {a.name}")

    def _return(self, output: fx.Node, n_forward_outputs: int) -> None:
        """Forward's outputs, and a gradient for each input."""
        outputs = flat_outputs(self.graph)
        primals = primals_of(self.graph)
        gradients: dict[Any, Any] = dict(zip(self.given, outputs[n_forward_outputs:]))
        for k in range(self.forward.length):
            first, second = self._pairs(self.forward, k)
            if first.op != "placeholder" or not isinstance(gradients.get(first), fx.Node):
                continue
            late, early = (self.at.get(gradients.get(n), -1) for n in (first, second))
            require(early >= 0 and late - early == self.backward.length, f"gradients of {first.name}")
            for copy in range(self.n + 2):  # of forward's parts: the first is backward's last
                place = early + self.beyond[0] + (self.n + 1 - copy) * self.backward.length
                of = self._found(self.forward.first + copy * self.forward.length + k)
                gradients[of] = self._found(place)
        output.args = ((*outputs[:n_forward_outputs], *(gradients.get(p) for p in primals)),)
        if len(known := list(tree_iter(output.meta.get("desc")))) == len(outputs):
            output.meta["desc"] = known[:n_forward_outputs] + known[-1:] * len(primals)


def unroll(joint: fx.GraphModule, n: int, n_forward_outputs: int, starts: Callable[[list[fx.Node]], list[Position]]) -> None:
    Unrolled(joint.graph, n, n_forward_outputs, starts)
    joint.graph.lint()


def new_static(graph: fx.Graph, nodes: Iterable[fx.Node]) -> list[int]:
    """The numbers of these inputs, and of those that were made from them."""
    kept = {n.name for n in nodes}
    return [k for k, n in enumerate(primals_of(graph)) if n.name in kept or n.name.partition(MARK)[0] in kept]
