"""What FSDP2 takes by itself, without a plan: nothing is computed again, and its hooks gather and sum by rules of their own.

    resharded after forward     gathered once more where backward first reads it
    gathered in backward        the next group's gather begins as soon as this one's is done, and holds what all ranks send
    whole                       all parameters of a group until its gradients are summed
    summed                      what a group sends is held until the next group's gradients are there

In forward a group's gather is done before its module runs, as on a CPU; on a GPU one more may be on its way.
"""

from __future__ import annotations

import torch
from torch import fx

from memplan.graph.capture import Capture
from memplan.graph.shards import GATHER, GROUPS, PACK, REDUCE, apart
from memplan.library.planning import Step
from memplan.plan.ahead import Time, rewrite
from memplan.plan.planner import Emitted, GraphPlanner


def gathers(capture: Capture) -> list[int]:
    return [k for k, o in enumerate(capture.operations) if o.source is not None and o.source.target is GATHER]


def steps_of(capture: Capture) -> list[Step]:
    """All operators in their order, and gathers once more."""
    again: dict[int, list[int]] = {}
    for k in gathers(capture):
        gather = capture.operations[k]
        assert gather.source is not None
        if GROUPS[gather.source.args[-1]].reshards:  # type: ignore[index]
            made = set(gather.writes)
            behind = range(capture.boundary + 1, len(capture.operations))
            first = next((b for b in behind if made & set(capture.operations[b].reads)), None)
            if first is not None:
                again.setdefault(first, []).append(k)
    return [step for k in range(len(capture.operations)) for step in (*again.get(k, []), k)]


def held(*parameters: torch.Tensor) -> None:
    """Nothing is done: it reads them."""


def run_as_its_hooks_do(graph: fx.Graph) -> None:
    """Of a backward."""
    nodes = list(graph.nodes)
    calls = [n for n in nodes if n.target is GATHER]
    whole: dict[object, fx.Node] = {}  # the last gather of a group: blocks that stand for others share its number
    for node in nodes:
        if node.target is GATHER:
            whole[node.args[-1]] = node
        elif node.target is PACK and (gather := whole.pop(node.args[-1], None)) is not None:
            with graph.inserting_before(node):
                graph.call_function(held, tuple(gather.users))
    for before, node in zip(calls, calls[1:]):
        if (two := apart(node)) is not None:
            rewrite(graph, node, two, (before.next, 0), (node, 0))
    packs, sums = ([n for n in nodes if n.target is target] for target in (PACK, REDUCE))
    for node, behind in zip(sums, packs[1:]):
        at = {n: i for i, n in enumerate(graph.nodes)}
        two = apart(node)
        if two is not None and all(at[u] > at[behind] for u in node.users):
            rewrite(graph, node, two, (node, 0), (behind, 0))


def by_itself(planner: GraphPlanner) -> Emitted:
    emitted = planner.emit(steps_of(planner.capture))
    run_as_its_hooks_do(emitted.backward.graph)
    return planner.counted(emitted.forward, emitted.backward, 0, Time())
