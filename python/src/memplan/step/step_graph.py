"""A whole training step as one graph: the joint graph with the loss's gradient (ones) and an update per parameter.

The planner sees forward, backward and updates. No tensor crosses from one call to another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import fx

from memplan.costs.measure import Cost
from memplan.costs.roofline import Device
from memplan.errors import NotPlannable
from memplan.graph.capture import MOVED, Capture, Moved, Operation, storage_bytes, storage_key, tensors_of
from memplan.graph.joint import as_eager_runs, flat_outputs, halves, reaching
from memplan.graph.layouts import obeys
from memplan.library.planning import Step
from memplan.memory.host import Pool
from memplan.memory.states import StateOf, device_bytes, require_room
from memplan.plan.emit import Emission
from memplan.plan.emitted import Emitted
from memplan.plan.graph_report import GraphReport
from memplan.plan.options import Options
from memplan.plan.overlapped_collectives import Time
from memplan.plan.planner import GraphPlanner
from memplan.step.updates import UpdateCost, Updates
from memplan.torch_internals.tensors import fake_mode_of

aten = torch.ops.aten


@dataclass(frozen=True)
class Trained:
    """A parameter that the step updates within the graph, with its gradient and update."""

    parameter: torch.Tensor
    node: fx.Node  # the placeholder of the parameter in the joint graph
    gradient: fx.Node
    update: Callable[..., Any]
    cost: UpdateCost
    state: StateOf | None  # functions for the part of the state that is in host memory; None: all state is on the device


class StepGraph:
    """A copy of the joint graph that ends in updates. Raises NotPlannable if the step does not have exactly one loss."""

    def __init__(self, joint: fx.GraphModule, n_forward_outputs: int, updates: Updates) -> None:
        self.joint = joint
        self.n_forward_outputs = n_forward_outputs
        placeholders = [n for n in joint.graph.nodes if n.op == "placeholder"]
        self.given_tangents = [n for n in placeholders if "tangents" in n.name]
        self.primals = [n for n in placeholders if "tangents" not in n.name]
        outputs = flat_outputs(joint.graph)
        self.gradients = outputs[n_forward_outputs:]
        if len(self.given_tangents) != 1 or self.given_tangents[0].meta["val"].numel() != 1:
            raise NotPlannable("a step must end in a single loss, a tensor of one element, and return nothing else")
        if len(self.gradients) < len(self.primals):
            raise NotPlannable("this PyTorch version does not report the parameter of each gradient; use a newer PyTorch")
        self.trained = self._find_trained(updates)
        self.beside_on_host = updates.state_beside(t.parameter for t in self.trained)[1]
        self.updates: dict[fx.Node, Trained] = {}
        self.graph = fx.Graph()
        self._copy(outputs[:n_forward_outputs])
        self.module = fx.GraphModule(joint, self.graph)
        self.module.meta = dict(getattr(joint, "meta", {}))

    def _find_trained(self, updates: Updates) -> list[Trained]:
        """Return the trained parameters that have a gradient in the graph.

        Parameters are matched with the graph's inputs by storage.
        """
        mode: Any = fake_mode_of([n.meta.get("val") for n in self.primals])
        by_key: dict[int, list[int]] = {}
        for k, node in enumerate(self.primals):
            for tensor in tensors_of(node.meta.get("val")):
                by_key.setdefault(storage_key(tensor), []).append(k)
        found = []
        for k_group, parameter in updates.parameters():
            places = by_key.get(storage_key(mode.from_tensor(parameter, static_shapes=True)), [])
            if len(places) > 1:
                raise NotPlannable(f"{self.primals[places[0]].name} shares its memory with another input")
            if places and isinstance(self.gradients[places[0]], fx.Node):
                gradient = self.gradients[places[0]]
                cost = updates.cost(k_group, parameter)
                # the optimizer requires the gradient in the parameter's layout, so the update first makes a copy of this size
                if not obeys(gradient.meta["val"], parameter):
                    cost = replace(cost, workspace_bytes=cost.workspace_bytes + storage_bytes(parameter))
                update = updates.update_of(k_group, parameter)
                state = StateOf(updates.states, parameter) if updates.states is not None and cost.moved else None
                found.append(Trained(parameter, self.primals[places[0]], gradient, update, cost, state))
        if not found:
            raise NotPlannable("no parameter of the optimizer has a gradient")
        return found

    def _copy(self, forward_outputs: list[Any]) -> None:
        """Copy the nodes that forward's outputs and the updates require, and append the updates."""
        needed = reaching([*forward_outputs, *(t.gradient for t in self.trained)])
        backward = set(halves(self.joint.graph, self.given_tangents)[1])
        copies: dict[fx.Node, Any] = {}
        for node in self.joint.graph.nodes:
            if node in self.given_tangents:
                copies[node] = self.tangent = self._ones(node)
            elif node.op == "output":
                for trained in self.trained:
                    arguments = (copies[trained.node], copies[trained.gradient])
                    made = self.graph.call_function(trained.update, arguments)
                    self.updates[made] = trained
                end = self.graph.output([copies.get(o, o) if isinstance(o, fx.Node) else o for o in forward_outputs])
                end.meta = dict(node.meta)
            elif node in needed or node not in backward:
                copies[node] = self.graph.node_copy(node, copies.__getitem__)

    def costs(self) -> dict[fx.Node, Cost]:
        """Return the measured cost of each update, by its node."""
        return {node: Cost(t.cost.seconds, t.cost.workspace_bytes) for node, t in self.updates.items()}

    def _ones(self, tangent: fx.Node) -> fx.Node:
        """Create the gradient of the loss, a tensor of ones."""
        value = tangent.meta["val"]
        kind = {"dtype": value.dtype, "device": value.device, "pin_memory": False}
        node = self.graph.call_function(aten.full.default, (list(value.shape), 1), kind)
        node.meta = dict(tangent.meta)
        return node

    def unused_backward(self) -> fx.GraphModule:
        """Return a graph that takes the place of backward. It returns no gradients and is never called."""
        graph = fx.Graph()
        for node in self.given_tangents:
            graph.node_copy(node)
        graph.output(tuple(None for _ in self.gradients))
        return fx.GraphModule(self.joint, graph)


class StepCapture(Capture):
    """A capture of a whole step.

    PyTorch writes the new values of buffers after the step, so an operator that reads a buffer may run at any time in the step.
    Backward may overwrite values of forward after their last reader.
    """

    returns_apart = False
    overwrites: ClassVar = {
        "forward": ("activation", "saved"),
        "backward": ("activation", "saved", "activation_gradient"),
    }

    def __init__(self, step: StepGraph, static_indices: Iterable[int], fuse: str, optimizer: str) -> None:
        self.step, self.fuse, self.optimizer = step, fuse, optimizer
        super().__init__(step.module, step.n_forward_outputs, static_indices)

    def _add_body(self) -> None:
        forward, backward = halves(self.step.graph, [self.step.tangent])
        first, then = as_eager_runs(self.step.graph, forward, backward, self.forward_outputs)
        self._add_forward([n for n in first if n not in self.step.updates])
        self.boundary = len(self.operations)
        self._add_node(self.step.tangent, "loss", "activation_gradient")
        self.operations[-1].reads = self._dynamic(self.storages_of(self.user_outputs))
        self._add_backward([n for n in then if n not in self.step.updates], set(backward))
        self._call_gradients(node.args[1] for node in self.step.updates)
        self._add_end()
        for node, trained in self.step.updates.items():
            self._add_update(node, trained)

    def _restrain_readers(self, operation: Operation, node: fx.Node) -> None:
        pass

    def not_saved_by_eager(self) -> list[fx.Node]:
        """Return no inputs: within one call of a whole step, the caller cannot write between forward and backward."""
        return []

    def _add_end(self) -> None:
        """Add the end. Outputs for the user and for buffers are held until backward ends."""
        self._hold_user_outputs()
        read = {s for o in self.operations for s in o.reads}
        held = self._dynamic(self.storages_of(self.forward_outputs))
        done = []
        for operation in self.operations[self.boundary :]:
            if not read & set(operation.writes):
                done.append(self._add_storage(f"{operation.name} done", "activation_gradient", 0))
                operation.writes = [*operation.writes, done[-1]]
        self.end = len(self.operations)
        last = self._add_storage("end", "activation_gradient", 0)
        self.operations.append(Operation("end", "end", "backward", None, sorted({*held, *done}), [last]))

    def _add_update(self, node: fx.Node, trained: Trained) -> None:
        parameter, gradient = node.args
        changed = self.storages_of([parameter])
        if set(changed) & set(self.storages_of([*self.forward_outputs, *self.mutated])):
            raise NotPlannable(f"{trained.node.name} is a parameter, but forward returns it or writes into it")
        for s in changed:
            self.storages[s].kind = "parameter"
        name = trained.node.name
        rest = f"rest of the state of {name}" if trained.state is not None else f"state of {name}"
        changed.append(self._add_storage(rest, "optimizer_state", trained.cost.state_bytes))
        if trained.state is not None:
            like: Any = trained.node.meta["val"]
            moved = trained.cost.moved
            values = tuple(like.new_empty_strided(m.shape, m.stride, dtype=m.dtype) for m in moved)
            changed.append(self._add_storage(f"state of {name}", MOVED, device_bytes(moved, like.device)))
            self.moved[changed[-1]] = Moved(node, values, trained.state)
        reads = sorted({*changed, *self.storages_of([gradient])})
        self.places[node] = []
        self.operations.append(Operation(node.name, self.optimizer, "update", node, reads, changed))


class StepEmission(Emission):
    """Writes the steps of a plan as a single graph that ends in the outputs of the step."""

    def _take(self, step: int) -> None:
        if step != self.capture.end:
            self._run(step)

    def _run(self, step: int) -> None:
        super()._run(step)
        node = self.capture.operations[step].source
        if self.on_host is not None and node is not None:
            self.on_host.give_state(node, self.now[node])

    def _end(self) -> None:
        self.forward_outputs = [self._output(o) for o in self.capture.forward_outputs]
        self.graph.output(tuple(self.forward_outputs))
        self.graph.lint()


class StepPlanner(GraphPlanner):
    """Plans a StepCapture. The whole step counts as forward, and backward is not called."""

    capture: StepCapture

    def graphs(self, steps: list[Step]) -> tuple[fx.GraphModule, fx.GraphModule, int]:
        emission = StepEmission(self.capture, steps, self.costs, self.state_like, host=self.host)
        whole = fx.GraphModule(self.capture.joint, emission.graph)
        return whole, self.capture.step.unused_backward(), emission.host_bytes + self.moved_bytes()

    def emit(self, steps: list[Step]) -> Emitted:
        return self.counted(*self.graphs(steps), Time())

    def moved_bytes(self) -> int:
        """Return the bytes of optimizer state in host memory."""
        return sum(storage_bytes(t) for moved in self.capture.moved.values() for t in moved.values)

    def offload(self, pool: Pool, taken_bytes: int, options: Options) -> None:
        beside = self.capture.step.beside_on_host
        require_room(self.moved_bytes() + beside, pool, taken_bytes)
        super().offload(pool, taken_bytes + beside, options)

    def report(self, emitted: Emitted, budget: int, plan_seconds: float, options: Options) -> GraphReport:
        graph = super().report(emitted, budget, plan_seconds, options)
        graph.state_bytes = self.moved_bytes() + self.capture.step.beside_on_host
        graph.host_bytes = emitted.host_bytes + self.capture.step.beside_on_host
        return graph

    def auto_bytes(self, meant: Device | None, whole: bool = False) -> int:
        """Return the memory for "auto" or "device", minus the optimizer state that the first step will allocate."""
        return super().auto_bytes(meant, whole) - sum(t.cost.missing_bytes for t in self.capture.step.trained)
