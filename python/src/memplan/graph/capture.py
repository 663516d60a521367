"""The captured joint graph as storages and operations. `torch_internals/capture.py` captures it.

A storage is one piece of memory; views and tied weights share it. An operation is a node of the joint graph that produces
storages. Views are not operations: they are created where needed. memplan adds three kinds of operations:

- `boundary`: forward's outputs are complete and their gradients arrive.
- `end`: all gradients are returned.
- `return`, before the boundary: an output that backward might read, as a storage of its own, because the caller may overwrite
  it. The two storages share memory if backward does not read the output or recomputes it; otherwise the output is a copy.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import fx
from torch.multiprocessing.reductions import StorageWeakRef

from memplan.errors import NotPlannable
from memplan.graph.joint import as_eager_runs, flat_outputs, halves, in_formula, reaching, refuse, written_inputs
from memplan.graph.layouts import is_dense, obeys, same_layout
from memplan.graph.operators import CHECKPOINT, IN_FORWARD, draws, may_run_again, read_again
from memplan.graph.overwriting import APART, may_write_into_first
from memplan.graph.sizes import is_number, is_sparse, is_symbol
from memplan.torch_internals.tensors import tree_iter

MOVED = "moved state"  # kind of storages: optimizer state that is stored in host memory
# kinds of storages with a limited lifetime; other kinds are static
DYNAMIC = ("activation", "saved", "activation_gradient", "gradient", MOVED)


@dataclass
class Storage:
    name: str
    kind: str
    n_bytes: int


@dataclass
class Operation:
    """One operation for the planner. `source` is its node, or None for return, boundary and end."""

    name: str
    op: str
    phase: str
    source: fx.Node | None
    reads: list[int]
    writes: list[int]
    # in-place pair: the storage of an operand, then the result that may overwrite it
    in_place: list[int] = field(default_factory=list)
    once: bool = False
    workspace_bytes: int = 0  # workspace in bytes, for operations whose source node is not measured


@dataclass(frozen=True)
class Moved:
    """Optimizer state of an update that is stored in host memory."""

    update: fx.Node
    values: tuple[torch.Tensor, ...]  # fake tensors on the device, one per state tensor
    calls: Any  # a memplan.memory.states.StateOf


def tensors_of(value: Any) -> list[torch.Tensor]:
    return [t for t in tree_iter(value) if isinstance(t, torch.Tensor)]


def storage_key(tensor: torch.Tensor) -> int:
    """Return a key that is equal for all tensors of one storage, and unique while one of them is alive."""
    return int(StorageWeakRef(tensor.untyped_storage()).cdata)  # type: ignore[no-untyped-call]


def storage_bytes(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().nbytes())


def allocated(n_bytes: int, device: torch.device) -> int:
    """Return the bytes that a device's allocator occupies for a request of n_bytes."""
    return -(-n_bytes // 512) * 512 if device.type == "cuda" else n_bytes


def device_of_first(values: Any) -> torch.device:
    """Return the device of the first tensor in the values."""
    return next((t.device for t in tensors_of(values)), torch.device("cpu"))


def refuse_values(nodes: Iterable[fx.Node]) -> None:
    """Raise NotPlannable if the size of a value is unknown."""
    for node in nodes:
        value = node.meta.get("val")
        if any(map(is_sparse, tensors_of(value))):
            raise NotPlannable(f"{node.name} is a sparse tensor, whose bytes depend on data")
        if (is_symbol(value) and not is_number(value)) or any(is_symbol(s) for t in tensors_of(value) for s in t.shape):
            raise NotPlannable(f"the size of {node.name} depends on data")


class Capture:
    """A joint graph as input for the planner, with the data that memplan.plan.emit requires to reorder the graph."""

    fuse = "none"  # when updates run, in the planner's terms; "none": updates are not part of the graph
    returns_apart = True  # the caller's outputs are separate storages: the caller may overwrite them before backward
    # for each phase: the kinds of storages that an operator may overwrite
    overwrites: ClassVar = {"forward": ("activation", "saved"), "backward": ("activation_gradient",)}

    def __init__(self, joint: fx.GraphModule, n_forward_outputs: int, static_indices: Iterable[int]) -> None:
        self.joint = joint
        self.n_forward_outputs = n_forward_outputs
        outputs = flat_outputs(joint.graph)
        self.forward_outputs, self.backward_outputs = outputs[:n_forward_outputs], outputs[n_forward_outputs:]
        placeholders = [n for n in joint.graph.nodes if n.op == "placeholder"]
        self.tangents = [n for n in placeholders if "tangents" in n.name]
        self.primals = [n for n in placeholders if "tangents" not in n.name]
        self.static_nodes = [self.primals[i] for i in static_indices]
        written = self._written_outputs()
        self.mutated = set(written.values())
        # Whether recomputation of a checkpoint in eager PyTorch would write a buffer a second time.
        self.writes_under_checkpoint = any(CHECKPOINT in self.forward_outputs[k].meta for k in written)
        self.user_outputs = [o for k, o in enumerate(self.forward_outputs) if k not in written]
        self.storages: list[Storage] = []
        self.operations: list[Operation] = []
        self.places: dict[fx.Node, list[int | None]] = {}  # for each node: the storages of its results
        self.views: set[fx.Node] = set()
        # for each node with several results: the nodes that select one of the results
        self.items: dict[fx.Node, list[fx.Node]] = {}
        # by storage of an output that backward may read: the separate storage that the caller receives
        self.handed: dict[int, int] = {}
        self.moved: dict[int, Moved] = {}  # by storage: the optimizer state in host memory
        self.earlier: dict[fx.Node, int] = {}  # by node: bytes allocated before the step that the node frees
        self.results: int | None = None  # the storage of results of earlier calls that exist during forward
        self.results_bytes = self.new_bytes = 0  # bytes of these results; bytes that hooks allocate at the end of forward
        self.n_random = self.boundary = 0
        self._last_draw: int | None = None
        self._before_boundary: list[int] = []
        self._alive: list[torch.Tensor] = []  # keeps tensors alive, so that storage keys stay unique
        self.sizes: dict[int, int] = {}  # allocated bytes of each storage, by storage key
        refuse_values(joint.graph.nodes)
        self._add_inputs()
        self._add_body()

    def _written_outputs(self) -> dict[int, fx.Node]:
        return written_inputs(self.joint.graph, self.primals, self.n_forward_outputs)

    # ---- storages

    def _add_storage(self, name: str, kind: str, n_bytes: int) -> int:
        self.storages.append(Storage(name, kind, n_bytes))
        return len(self.storages) - 1

    def _add_inputs(self) -> None:
        by_key: dict[int, int] = {}
        static = set(self.static_nodes)
        for node in self.primals + self.tangents:
            kind = "activation_gradient" if node in self.tangents else "parameter" if node in static else "input"
            places: list[int | None] = []
            for tensor in tensors_of(node.meta.get("val")):
                key = storage_key(tensor)
                self._alive.append(tensor)
                if key not in by_key:
                    self.sizes[key] = allocated(storage_bytes(tensor), tensor.device)
                    by_key[key] = self._add_storage(node.name, kind, self.sizes[key])
                places.append(by_key[key])
            self.places[node] = places

    def storages_of(self, nodes: Iterable[Any]) -> list[int]:
        """Return the storages of the nodes' results, without duplicates, in ascending order."""
        return sorted({s for n in nodes if isinstance(n, fx.Node) for s in self.places[n] if s is not None})

    def _place(self, node: fx.Node, kind: str) -> list[int]:
        """Assign storages to the results of a node. Return the new ones."""
        value = node.meta.get("val")
        results = list(value) if isinstance(value, (tuple, list)) else [value]
        known: dict[int, int] = {}
        for argument in node.all_input_nodes:
            for tensor, place in zip(tensors_of(argument.meta.get("val")), self._tensor_places(argument)):
                known[storage_key(tensor)] = place
        made, places = list[int](), list[int | None]()
        for k, result in enumerate(results):
            if result is None or type(result) is int:
                # a number is no storage: it is inserted as a constant where nodes read it
                places.append(None)
                continue
            if not isinstance(result, torch.Tensor):
                raise NotPlannable(f"{node.target} returns a {type(result).__name__} instead of tensors")
            self._alive.append(result)
            key = storage_key(result)
            if key not in known:
                name = node.name if len(results) == 1 else f"{node.name}.{k}"
                self.sizes[key] = allocated(storage_bytes(result), result.device)
                known[key] = self._add_storage(name, kind, self.sizes[key])
                made.append(known[key])
            places.append(known[key])
        self.places[node] = places
        return made

    def _tensor_places(self, node: fx.Node) -> list[int]:
        return [p for p in self.places[node] if p is not None]

    # ---- operations

    def _add_body(self) -> None:
        forward, backward = halves(self.joint.graph, self.tangents)
        first, then = as_eager_runs(self.joint.graph, forward, backward, self.forward_outputs, self.mutated)
        self._add_forward(first)
        self.eager_saves = self._read_in_backward(forward, backward)
        if self.returns_apart:
            self._add_returns()
        self._add_boundary()
        self._add_backward(then, set(backward))
        self._add_end()

    def _add_forward(self, nodes: list[fx.Node]) -> None:
        """Add the forward operations. Results that only backward reads (masks, logarithms) have the kind `saved`."""
        needed = reaching(self.forward_outputs)
        for node in nodes:
            self._add_node(node, "forward", "activation" if node in needed else "saved")

    def _read_in_backward(self, forward: list[fx.Node], backward: list[fx.Node]) -> set[int]:
        """Return the forward storages that backward formulas read. Eager saves them, and raises if the user overwrites one."""
        formulas = [*backward, *(n for n in forward if in_formula(n))]
        read = [*(a for n in formulas for a in n.all_input_nodes), *self.backward_outputs]
        return set(self.storages_of(a for a in read if a in self.places))

    def _add_returns(self) -> None:
        read = {s for o in self.operations for s in o.reads}
        for node in self.makers(set(self.storages_of(self.user_outputs)) & read - self.eager_saves):
            (s,) = self.storages_of([node])
            if self.storages[s].kind in DYNAMIC and is_dense(node.meta.get("val")):
                self.handed[s] = self._add_storage(f"{node.name} returned", "activation", self.storages[s].n_bytes)
                name, writes = f"return {node.name}", [self.handed[s]]
                pair = [s, self.handed[s]]
                self.operations.append(Operation(name, "return", "forward", None, [s], writes, pair, once=True))

    def not_saved_by_eager(self) -> list[fx.Node]:
        """Return the inputs that forward reads and no backward formula reads."""
        return [p for p in self.primals if not self.eager_saves.issuperset(self.storages_of([p]))]

    def devices(self) -> list[torch.device]:
        """Return the devices of the operators' results. Numbers (zero-dimensional tensors) do not count."""
        values = [t for node in self.places if node.op == "call_function" for t in tensors_of(node.meta.get("val"))]
        return sorted({t.device for t in values if t.dim()}, key=str)

    def makers(self, storages: set[int]) -> list[fx.Node]:
        """Return the nodes that produce these storages: inputs, operators, and selections of an operator's result."""
        found: dict[int, fx.Node] = {}
        for node, places in self.places.items():
            if len(places) == 1 and places[0] in storages and node not in self.views:
                found.setdefault(places[0], node)
        return list(found.values())

    def _add_backward(self, nodes: list[fx.Node], of_tangents: Collection[fx.Node]) -> None:
        for node in nodes:  # a backward formula that reads forward values only counts as forward; its execution may be delayed
            self._add_node(node, *(("backward", "activation_gradient") if node in of_tangents else ("forward", "saved")))

    def refuse(self, node: fx.Node) -> None:
        """Raise NotPlannable if memplan cannot move or repeat a node."""
        refuse(node)

    def _add_node(self, node: fx.Node, phase: str, kind: str) -> None:
        self.refuse(node)
        if node.op == "get_attr":
            tensors = tensors_of(getattr(self.joint, str(node.target)))
            self.places[node] = [self._add_storage(node.name, "constant", storage_bytes(t)) for t in tensors]
            return
        if node.target is operator.getitem:
            source: Any = node.args[0]
            index: Any = node.args[1]
            self.places[node] = [self.places[source][index]]
            if source in self.views:
                self.views.add(node)
            else:
                self.items.setdefault(source, []).append(node)
            return
        if is_number(node.meta.get("val")):  # a symbolic number occupies no memory; the number is inserted where it is read
            self.places[node] = []
            self.views.add(node)
            return
        made = self._place(node, kind)
        if not made:
            self.views.add(node)
            return
        operation = Operation(node.name, str(node.target), phase, node, self.storages_of(node.all_input_nodes), made)
        if phase == "forward":
            self._restrain_readers(operation, node)
            operation.once = operation.once or not may_run_again(node)
        self._restrain_draws(operation, node)
        operation.in_place = self._in_place(node, made, "backward" if self.boundary else phase)
        self.operations.append(operation)

    def _restrain_readers(self, operation: Operation, node: fx.Node) -> None:
        """Run an operation before backward if it is marked, or if forward overwrites an operand of it.

        If a rerun would read that operand, the operation also runs once only.
        """
        if IN_FORWARD in node.meta or any(a in self.mutated for a in node.all_input_nodes):
            self._before_boundary.append(self._add_storage(f"{node.name} done", "saved", 0))
            operation.writes.append(self._before_boundary[-1])
            operation.once = any(a in self.mutated for a in read_again(node))

    def _restrain_draws(self, operation: Operation, node: fx.Node) -> None:
        """Keep the order of random draws, so that results do not depend on the plan."""
        if draws(node):
            self.n_random += 1
            kind = "saved" if operation.phase == "forward" else "activation_gradient"
            draw = self._add_storage(f"draw {self.n_random}", kind, 0)
            if self._last_draw is not None:
                operation.reads.append(self._last_draw)
            operation.writes.append(draw)
            self._last_draw = draw

    def _in_place(self, node: fx.Node, made: list[int], phase: str) -> list[int]:
        """Return the in-place pair (from, to) of an operator. Backward may run twice, so it overwrites no saved tensor."""
        first = node.args[0] if node.args else None
        if not may_write_into_first(node) or not isinstance(first, fx.Node):
            return []
        if not same_layout(first.meta.get("val"), node.meta.get("val")):
            return []
        (source,) = self.places[first]
        if source is None or self.storages[source].kind not in self.overwrites.get(phase, ()) or first in self.tangents:
            return []
        is_alone = sum(source in self.places[a] for a in node.all_input_nodes) == 1
        return [source, made[0]] if is_alone and self.storages[source].n_bytes == self.storages[made[0]].n_bytes else []

    def take_sizes(self, node: fx.Node, result_bytes: Iterable[int]) -> None:
        """Replace the sizes of a node's results by measured sizes in bytes."""
        tensors = tensors_of(node.meta.get("val"))
        for tensor, place, n_bytes in zip(tensors, self._tensor_places(node), result_bytes):
            size = allocated(n_bytes, tensor.device)
            if self.storages[place].kind in DYNAMIC and size != self.storages[place].n_bytes:
                self.storages[place].n_bytes = self.sizes[storage_key(tensor)] = size
                self.storages[self.handed.get(place, place)].n_bytes = size

    def keep_apart(self) -> None:
        """Forbid overwriting if argument and result differ in size: a scalar loss would keep all of its argument's memory."""
        for operation in self.operations:
            node = operation.source
            first = node.args[0] if node is not None and node.args else None
            if node is None or not isinstance(first, fx.Node):
                continue
            sizes = {self.storages[s].n_bytes for n in (first, node) for s in self._tensor_places(n)}
            if len(sizes) > 1 and may_write_into_first(node):
                operation.in_place = []
                node.meta[APART] = True

    def _dynamic(self, storages: Iterable[int]) -> list[int]:
        return [s for s in storages if self.storages[s].kind in DYNAMIC]

    def _hold_user_outputs(self) -> set[int]:
        """Mark the producers of user outputs as run once, because the user holds the outputs. Return the outputs' storages."""
        held = {self.handed.get(s, s) for s in self._dynamic(self.storages_of(self.user_outputs))}
        for operation in self.operations:
            operation.once = operation.once or bool(held & set(operation.writes))
        return held

    def _add_boundary(self) -> None:
        """Add the operation `boundary`: it reads the outputs after all random draws, and writes the outputs' gradients."""
        held = self._hold_user_outputs()
        outputs = self._dynamic(self.storages_of(self.forward_outputs))
        reads = {self.handed.get(s, s) for s in outputs} | set(self._before_boundary)
        reads |= {self._last_draw} if self._last_draw is not None else set()
        self._last_draw = None
        self.boundary = len(self.operations)
        self.operations.append(Operation("boundary", "boundary", "loss", None, sorted(reads), self.storages_of(self.tangents)))
        self._held = sorted(held)

    def _call_gradients(self, nodes: Iterable[Any]) -> list[int]:
        """Mark the parameters' gradients as storages of kind "gradient". Return these storages."""
        gradients = self._dynamic(self.storages_of(nodes))
        for s in gradients:
            if self.storages[s].kind == "activation_gradient":
                self.storages[s].kind = "gradient"
        return gradients

    def _add_end(self) -> None:
        """Add the operation `end`, which reads all gradients, and the user's outputs with their gradients."""
        gradients = self._call_gradients(self.backward_outputs)
        reads = sorted({*gradients, *self._held, *self.storages_of(self.tangents)})
        self.end = len(self.operations)
        done = self._add_storage("end", "activation_gradient", 0)
        end = Operation("end", "end", "backward", None, reads, [done], workspace_bytes=self._copied_at_end())
        self.operations.append(end)

    def _copied_at_end(self) -> int:
        """Return the workspace of PyTorch's copies of gradients: for another layout, or for a gradient returned twice."""
        if len(self.backward_outputs) != len(self.primals):
            return 0
        most = growth = 0
        for k, (primal, gradient) in enumerate(zip(self.primals, self.backward_outputs)):
            if not isinstance(gradient, fx.Node):
                continue
            value, wanted = gradient.meta.get("val"), primal.meta.get("val")
            is_shared = any(g is gradient for g in self.backward_outputs[:k])
            if isinstance(value, torch.Tensor) and (is_shared or not obeys(value, wanted)):
                copied = allocated(value.numel() * value.element_size(), value.device)
                most = max(most, copied)
                growth += max(0, copied - (0 if is_shared else self.sizes[storage_key(value)]))
        return most + growth
