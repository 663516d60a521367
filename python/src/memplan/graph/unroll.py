"""Extension of a joint graph of a few equal blocks to many blocks, in a fraction of the time of a full capture.

A network of 80 blocks is captured with the four blocks 0, 1, 78 and 79. In forward, and in backward from last to first, a part
of the node list then occurs twice. This part is inserted as often as there are omitted blocks:

    captured          f0 f1 f2 f3 | b3 b2 b1 b0
    for two more      f0 f1 F F f2 f3 | b3 b2 B B b1 b0

F is a copy of f2 that reads from the previous part, as f2 reads from f1. B is a copy of b1 that reads from the previous part
and from its own part of forward. Parts need not begin at block boundaries; their length is the distance between the first
operators of two blocks. An argument must be either the same node in both parts, or at the same distance. Otherwise the blocks
are not equal. New parameters and their gradients are inserted in the same way. Values have separate memory. The graph is for
counting only and cannot run.
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
MARK = "of__block"  # part of the names of parameters that belong to omitted blocks
VIEWS = ("aten.slice", "aten.view", "aten.as_strided", "aten.narrow", "aten.reshape")


class Unequal(MemplanError):
    """Raised if blocks of a model that look equal differ in the captured graph."""


@dataclass(frozen=True)
class Parts:
    """Two equal parts of a node list: the position of the first part, and the length of each."""

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
    """Return all nodes except the output in order. An input comes directly before its first reader."""
    found: dict[fx.Node, None] = {}
    for node in graph.nodes:
        if node.op not in ("placeholder", "output"):
            found.update(dict.fromkeys(a for a in node.all_input_nodes if a.op == "placeholder"))
            found[node] = None
    return list(found)


def primals_of(graph: fx.Graph) -> list[fx.Node]:
    """Return the placeholders except tangents: parameters, buffers, the batch, and device meshes."""
    return [n for n in graph.nodes if n.op == "placeholder" and "tangents" not in n.name]


def views_follow_sums(graph: fx.Graph) -> None:
    """Move views of a reduced gradient directly behind the reduction, instead of the end of backward."""
    for node in [n for n in graph.nodes if n.target is REDUCE]:
        at, todo = node, [node]
        while todo:
            for user in list(todo.pop(0).users):
                if user.op == "call_function" and str(user.target).startswith(VIEWS):
                    at.append(user)
                    at = user
                    todo.append(user)


def plain_arguments(node: fx.Node) -> str:
    """Return the arguments of a node, with the number of an operand in the place of each operand."""
    numbers = {a: k for k, a in enumerate(node.all_input_nodes)}
    return str(fx.node.map_aggregate((node.args, node.kwargs), lambda a: (numbers[a],) if isinstance(a, fx.Node) else a))


def described(node: fx.Node) -> Any:
    """Return the operation of a node without its operands. The result is equal for corresponding nodes of equal blocks."""
    layouts = [(tuple(t.shape), t.stride(), t.dtype) for t in tensors_of(node.meta.get("val"))]
    if node.op == "placeholder":
        return node.op, layouts
    return str(node.target), layouts, "" if is_ours(node) else plain_arguments(node)


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Unequal(f"its blocks have different graphs: {what}")


class Unrolled:
    """A joint graph that is extended by the omitted blocks.

    `starts` returns the first nodes of the second and third captured block, in forward and in backward.
    """

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
        require(self.forward.length > 0 and self.backward.length > 0 and self.forward.end <= b2, "the blocks are not in order")
        require(self.backward.end <= len(self.nodes), "the last block has no end in backward")
        for parts in (self.forward, self.backward):
            for k in range(parts.first, parts.second):
                here, there = self.nodes[k], self.nodes[k + parts.length]
                require(self._are_alike(here, there), f"{here.name} and {there.name}")
        self.owners = self._owners()
        p, q = n * self.forward.length, n * self.backward.length
        self.beyond = (p, q)  # number of nodes inserted into forward, and into backward
        cut, again = self.forward.second, self.backward.second
        self.made: list[fx.Node | None] = [
            *self.nodes[:cut],
            *[None] * p,
            *self.nodes[cut:again],
            *[None] * q,
            *self.nodes[again:],
        ]
        self._prepare()
        self._write(n_forward_outputs)

    def _are_alike(self, here: fx.Node, there: fx.Node) -> bool:
        return bool(described(here) == described(there))

    def _prepare(self) -> None:
        """Prepare `made` before nodes are inserted."""

    def place(self, old: Position) -> Position:
        """Return the position of a captured node in the node list of the extended graph."""
        return old + self.beyond[0] * (old >= self.forward.second) + self.beyond[1] * (old >= self.backward.second)

    def _owners(self) -> dict[int, tuple[Position, int]]:
        """Return for each storage the first node with this storage, and the index of the storage among the node's results."""
        found: dict[int, tuple[Position, int]] = {}
        for i, node in enumerate(self.nodes):
            for k, tensor in enumerate(tensors_of(node.meta.get("val"))):
                found.setdefault(storage_key(tensor), (i, k))
        return found

    def argument(self, parts: Parts, k: Position, in_first: Position, in_second: Position, copy: int) -> Position:
        """Return the position, in the extended graph, of an argument of node k of a part.

        Args:
            parts: the two equal parts.
            k: the index within the part.
            in_first: the position of the argument of the first part's node.
            in_second: the same for the second part.
            copy: 0 for the first captured part, 1 to n for new parts, n + 1 for the second captured part.
        """
        if in_first == in_second:
            return self.place(in_first)
        if parts is self.forward:
            require(in_second - in_first == parts.length, self.nodes[parts.first + k].name)
            return in_first + copy * parts.length
        if in_second - in_first == parts.length:
            return in_first + self.beyond[0] + copy * parts.length
        require(in_first - in_second == self.forward.length, self.nodes[parts.first + k].name)
        # backward runs the blocks in reverse order: its first part belongs to the last part of forward
        return in_second + (self.n + 1 - copy) * self.forward.length

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
        """Return a function from an argument of a captured node to the argument of its copy in the extended graph.

        The captured node is node k of the second part, or for copy 0 node k of the first part.
        """
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
        start = self.forward.second if parts is self.forward else self.backward.second + self.beyond[0]
        is_input = self.nodes[parts.second + k].op == "placeholder"
        made = self._input(parts, k, copy) if is_input else self._operator(parts, k, copy)
        self.made[start + (copy - 1) * parts.length + k] = made

    def _input(self, parts: Parts, k: int, copy: int) -> fx.Node:
        """Return the input of a copied part at the position of input k of the captured parts."""
        second = self.nodes[parts.second + k]
        with self.graph.inserting_before(second):
            return self._noted(self.graph.placeholder(second.name + MARK), parts, k, copy)

    def _operator(self, parts: Parts, k: int, copy: int) -> fx.Node:
        """Insert a copy of operator k of the captured parts."""
        new = self._arguments(parts, k, copy)
        with self.graph.inserting_before(self.nodes[parts.second]):
            return self._noted(self.graph.node_copy(self.nodes[parts.second + k], new), parts, k, copy)

    def _noted(self, made: fx.Node, parts: Parts, k: int, copy: int) -> fx.Node:
        made.meta = {name: value for name, value in self.nodes[parts.second + k].meta.items() if name != "desc"}
        made.meta["val"] = self._value(parts, k, copy)
        if CHECKPOINT in made.meta:  # the operators of each inserted block belong to a checkpoint of their own
            made.meta[CHECKPOINT] = (made.meta[CHECKPOINT], copy)
        return made

    def _value(self, parts: Parts, k: int, copy: int) -> Any:
        """Return a fake value with the captured layout for node k of a copied part. A view shares its argument's memory."""
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
            return self._like(value, storage)

        return fx.node.map_aggregate(self.values[second], one)

    def _like(self, value: torch.Tensor, storage: Any) -> Any:
        """Return a tensor with the layout of a fake value, in this storage."""
        made = torch.empty(0, dtype=value.dtype, device="meta")
        return made.set_(storage, value.storage_offset(), value.shape, value.stride())

    def _point_again(self, parts: Parts, k: int, copy: int) -> None:
        """Update the arguments of a captured node.

        If the node is a view, its value refers to the memory of the new argument.
        """
        node = self._pairs(parts, k)[0 if copy == 0 else 1]
        if node.op == "placeholder":
            return
        new = self._arguments(parts, k, copy)
        node.args, node.kwargs = fx.node.map_arg((node.args, node.kwargs), new)
        owners = {self.owners[storage_key(t)][0] for t in tensors_of(self.values[node])}
        if self.at[node] not in owners:
            node.meta["val"] = self._value(parts, k, copy)

    def _check_others(self) -> None:
        """Check that no node outside of the repeated parts reads a value from before the inserted parts."""
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
        """Set the outputs: forward's outputs, and a gradient for each input."""
        outputs = flat_outputs(self.graph)
        primals = primals_of(self.graph)
        gradients: dict[Any, Any] = dict(zip(self.given, outputs[n_forward_outputs:]))
        for k in range(self.forward.length):
            first, second = self._pairs(self.forward, k)
            if first.op != "placeholder" or not isinstance(gradients.get(first), fx.Node):
                continue
            late, early = (self.at.get(gradients.get(n), -1) for n in (first, second))
            require(early >= 0 and late - early == self.backward.length, f"gradients of {first.name}")
            for copy in range(self.n + 2):  # copy: the number of the part in forward; backward runs the parts in reverse order
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
    """Return the indices of the given inputs, and of their copies for the omitted blocks."""
    kept = {n.name for n in nodes}
    return [k for k, n in enumerate(primals_of(graph)) if n.name in kept or n.name.partition(MARK)[0] in kept]
