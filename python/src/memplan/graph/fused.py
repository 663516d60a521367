"""Prepare Inductor's joint graphs for the planner: fused results need no memory, and Inductor itself writes into inputs."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import fx

from memplan.errors import NotPlannable
from memplan.graph.capture import Capture, Operation, storage_key, tensors_of
from memplan.graph.joint import flat_outputs
from memplan.graph.operators import is_random
from memplan.torch_internals.dispatch import OPERATOR

REDUCTIONS = frozenset({"sum", "mean", "var_mean", "var", "amax", "amin", "argmax", "argmin", "any", "prod"})
# operators whose results Inductor can compute wherever they are read, from little or no memory
MADE_ANYWHERE = frozenset({"full", "iota", "inductor_lookup_seed", "inductor_random"})
VIEWS = frozenset({"view", "reshape", "permute", "expand", "unsqueeze", "squeeze", "slice", "select", "t", "transpose"})


def operator_name(node: fx.Node) -> str:
    return str(getattr(node.target, "overloadpacket", node.target)).rpartition(".")[2]


def is_pointwise(node: fx.Node) -> bool:
    tags = getattr(node.target, "tags", ())
    return isinstance(node.target, OPERATOR) and (torch.Tag.pointwise in tags or operator_name(node) in MADE_ANYWHERE)


def fuses(reader: fx.Node) -> bool:
    """Whether Inductor fuses the computation of a node's operand into the node itself."""
    if operator_name(reader) in VIEWS:
        return len(reader.users) == 1 and fuses(next(iter(reader.users)))
    return is_pointwise(reader) or operator_name(reader) in REDUCTIONS


def fused_nodes(graph: fx.Graph) -> frozenset[fx.Node]:
    """Return the nodes whose results need no memory, because Inductor fuses them into their only reader."""
    found = (n for n in graph.nodes if n.op == "call_function" and is_pointwise(n) and len(n.users) == 1)
    return frozenset(n for n in found if fuses(next(iter(n.users))))


def take_out_writes(joint: fx.GraphModule, n_forward_outputs: int) -> dict[int, fx.Node]:
    """Replace writes into inputs by additional forward outputs. Return a map from the index of each output to its input."""
    output = next(iter(reversed(joint.graph.nodes)))
    writes = [n for n in joint.graph.nodes if n.target is torch.ops.aten.copy_.default]
    if any(w.users or w.args[0].op != "placeholder" for w in writes):
        raise NotPlannable(
            "the graph reads a value again that it has written into an input, which inductor=True does not support"
        )
    outputs, values = flat_outputs(joint.graph), [w.args[1] for w in writes]
    descriptions = list(output.meta.get("desc") or [None] * len(outputs))
    output.args = ((*outputs[:n_forward_outputs], *values, *outputs[n_forward_outputs:]),)
    extra = [descriptions[0]] * len(values)
    output.meta["desc"] = descriptions[:n_forward_outputs] + extra + descriptions[n_forward_outputs:]
    written = {n_forward_outputs + k: w.args[0] for k, w in enumerate(writes)}
    for w in writes:
        joint.graph.erase_node(w)
    return written


def put_in_writes(forward: fx.GraphModule, written: dict[int, fx.Node]) -> None:
    """Undo take_out_writes in the forward graph: write each additional output into its input, and remove the output."""
    graph = forward.graph
    output = next(iter(reversed(graph.nodes)))
    outputs = flat_outputs(graph)
    inputs = {n.target: n for n in graph.nodes if n.op == "placeholder"}
    with graph.inserting_before(output):
        for k, node in written.items():
            value = outputs[k]
            copied = graph.call_function(torch.ops.aten.copy_.default, (inputs[node.target], value))
            copied.meta = {"val": node.meta["val"]}
    output.args = (tuple(o for k, o in enumerate(outputs) if k not in written),)
    if (descriptions := output.meta.get("desc")) is not None:
        output.meta["desc"] = [d for k, d in enumerate(descriptions) if k not in written]
    forward.recompile()


class FusedCapture(Capture):
    """A capture for Inductor. Fused nodes are treated like views of their operands. Random operators run once.

    `written`: the forward outputs to be written into inputs.
    """

    returns_apart = False  # Inductor decides whether outputs are copied

    def __init__(
        self, joint: fx.GraphModule, n_forward_outputs: int, static_indices: Iterable[int], written: dict[int, fx.Node]
    ) -> None:
        self.written = written
        self.fused = set(fused_nodes(joint.graph))
        super().__init__(joint, n_forward_outputs, static_indices)

    def _written_outputs(self) -> dict[int, fx.Node]:
        return self.written

    def _add_node(self, node: fx.Node, phase: str, kind: str) -> None:
        if node in self.fused or self._lies_in_fused(node):
            self.fused.add(node)
            self.views.add(node)
            self.places[node] = [*self.storages_of(node.all_input_nodes)]
        else:
            super()._add_node(node, phase, kind)

    def _lies_in_fused(self, node: fx.Node) -> bool:
        """Whether a node is a view of a fused node."""
        fused = {storage_key(t) for a in node.all_input_nodes if a in self.fused for t in tensors_of(a.meta.get("val"))}
        return any(storage_key(t) in fused for t in tensors_of(node.meta.get("val")))

    def _restrain_draws(self, operation: Operation, node: fx.Node) -> None:
        super()._restrain_draws(operation, node)
        operation.once = operation.once or is_random(node)

    def _in_place(self, node: fx.Node, made: list[int], phase: str) -> list[int]:
        """Return the in-place pair of an operator.

        Inductor reuses any buffer of equal size whose lifetime ends at the operator.
        """
        if not is_pointwise(node):
            return []
        kinds, tangents = self.overwrites.get(phase, ()), self.storages_of(self.tangents)
        size = self.storages[made[0]].n_bytes
        read = [s for s in self.storages_of(node.all_input_nodes) if s not in tangents and self.storages[s].kind in kinds]
        same = [s for s in read if self.storages[s].n_bytes == size]
        return [same[-1], made[0]] if same else []
