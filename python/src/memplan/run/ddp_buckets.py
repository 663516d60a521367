"""Early handover of gradients to DDP during backward.

DDP sends a bucket of gradients as soon as it is complete. But autograd hands over all results of a node at once. For a graph
that is compiled as a whole, this would be the end of backward.

memplan therefore splits backward where a share of a bucket is complete. AOTAutograd runs the first part. For each further part,
memplan inserts an autograd node between the part's inputs and the graph. The node runs its part. Autograd reaches the nodes in
order of the parts, and calls DDP's hooks on the gradients of one part before the next part runs.

    input of part 3 -> node 3 -------------------+
                         |                       v
    input of part 2 -> node 2 -----------> the graph -> outputs
    input of part 1 -------------------------^
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from memplan.graph.capture import storage_bytes, tensors_of
from memplan.graph.joint import flat_outputs, reaching
from memplan.graph.sizes import has_unknown_sizes
from memplan.memory.liveness import keys_of
from memplan.run.execute import Part, Run, compile_parts
from memplan.run.second_order import node_of

PARTS = 4  # number of parts of backward per bucket
FEWEST = 2  # minimum number of parts of a backward


def complete(graph: fx.Graph) -> dict[int, int]:
    """Return for each result the position from which on autograd may take it over: it is complete and has no further reader."""
    at = {node: i for i, node in enumerate(graph.nodes)}
    results = flat_outputs(graph)
    return {
        k: max(at[n] for n in (result, *result.users) if n.op != "output")
        for k, result in enumerate(results)
        if isinstance(result, fx.Node)
    }


def shares(graph: fx.Graph, caps: Sequence[int]) -> list[list[int]]:
    """Divide the results of backward into groups, in order of completion.

    Each group is a share of a bucket, and one part of backward computes it. Autograd hands over the results of a part in any
    order. A bucket that ends within a part is sent with the next part.
    """
    at, results = complete(graph), flat_outputs(graph)
    order = sorted(at, key=lambda k: at[k])
    found: list[list[int]] = [[]]
    full, n_bytes = 0, 0
    for k in order:
        found[-1].append(k)
        n_bytes += sum(storage_bytes(t) for t in tensors_of(results[k].meta.get("val")))
        if n_bytes * PARTS >= caps[min(full // PARTS, len(caps) - 1)]:
            found.append([])
            full, n_bytes = full + 1, 0
    return [share for share in found if share]


def hasten(graph: fx.Graph) -> None:
    """Move each view that is a result directly behind the node it views. A plan creates these views at the end of backward."""
    at = {node: i for i, node in enumerate(graph.nodes)}
    results = {r for r in flat_outputs(graph) if isinstance(r, fx.Node)}
    wanted = reaching(results)
    for node in [n for n in graph.nodes if n in wanted and n.op == "call_function" and n.all_input_nodes]:
        is_view = keys_of([node]) <= keys_of(node.all_input_nodes)
        if is_view and all(u in wanted or u.op == "output" for u in node.users):
            last = max(node.all_input_nodes, key=at.__getitem__)
            last.append(node)
            at[node] = at[last]


class Waiting:
    """The parts of one call's backward that have not run yet, with the values that they need."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.values: list[Any] | None = None  # inputs of the next part of backward

    def begin(self, runs: list[Run], values: list[Any]) -> None:
        self.runs, self.values = runs, values

    def take(self, n: int) -> list[Any] | None:
        """Run one part of backward and return its gradients. Return None if the first part has not run."""
        if self.values is None:
            return None
        gradients: list[Any]
        gradients, self.values = self.runs[n](self.values)
        return gradients


class Later(torch.autograd.Function):
    """Returns its inputs unchanged; backward returns the gradients that a later part of backward has computed.

    `after`: an output of the next part's node, so that autograd runs the parts in order.
    """

    @staticmethod
    def forward(ctx: Any, waiting: Waiting, n: int, after: Any, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.waiting, ctx.n = waiting, n
        return torch.empty(0), *inputs

    @staticmethod
    def backward(ctx: Any, _: Any, *given: Any) -> tuple[Any, ...]:
        """Return the gradients of this part.

        `given`: gradients of the outputs. All are None, unless the graph ran eagerly for second-order gradients or an input is
        an output.
        """
        made = ctx.waiting.take(ctx.n) if not torch.is_grad_enabled() else None
        if made is None:
            return None, None, None, *given
        return None, None, None, *(m if g is None else g if m is None else g + m for g, m in zip(given, made))


class DdpBuckets:
    """The handover of gradients for one graph. `groups`: the inputs of each part."""

    def __init__(self, groups: list[list[int]]) -> None:
        self.groups = groups
        self.now = threading.local()  # for each thread: the call whose backward is about to run

    def note(self) -> str:
        return (
            f"DDP receives the gradients in {len(self.groups)} parts, each when it is complete, and communicates them"
            " during backward"
        )

    def run_of(self, graph: fx.GraphModule) -> Run:
        """Return the first part, which AOTAutograd runs as backward."""
        at, nodes, n_results = complete(graph.graph), list(graph.graph.nodes), len(flat_outputs(graph.graph))
        end = sum(node.op == "placeholder" for node in nodes) - 1
        parts = []
        for group in self.groups:
            end = max((end, *(at.get(k, -1) for k in group)))  # a result without a position is a gradient that is not requested
            parts.append(Part(nodes[end], group))
        first, *others = compile_parts(graph, parts)

        def run(arguments: list[Any]) -> list[Any]:
            made: list[Any] = [None] * n_results
            gradients, values = first(arguments)
            self.now.waiting.begin(others, values)
            for k, gradient in zip(self.groups[0], gradients):
                made[k] = gradient
            return made

        return run

    def around(self, compiled: Callable[..., Any], metadata: Any) -> Callable[..., Any]:
        """Wrap the compiled graph with the nodes of further parts."""

        def call(*inputs: Any) -> Any:
            if not torch.is_grad_enabled():
                return compiled(*inputs)
            waiting, given, after = Waiting(), list(inputs), None
            for n in reversed(range(len(self.groups) - 1)):
                group = self.groups[n + 1]
                after, *through = Later.apply(waiting, n, after, *(given[k] for k in group))
                for k, tensor in zip(group, through):
                    given[k] = tensor
            outputs = compiled(*given)
            if (node := node_of(outputs, metadata)) is not None:
                node.register_prehook(lambda _: setattr(self.now, "waiting", waiting))
            return outputs

        return call


def buckets_of(backward: fx.Graph, n_inputs: int, caps: Sequence[int]) -> DdpBuckets | None:
    """Return the handover for this backward, or None to hand over all gradients at the end."""
    if has_unknown_sizes(backward) or len(flat_outputs(backward)) != n_inputs or not caps:
        return None
    hasten(backward)
    at = complete(backward)
    groups: list[list[int]] = []
    before = -1
    for share in shares(backward, caps):
        end = max(at[k] for k in share)
        if groups and end <= before:
            groups[-1] += share
        else:
            groups.append(share)
        before = max(before, end)
    return DdpBuckets(groups) if len(groups) >= FEWEST else None
