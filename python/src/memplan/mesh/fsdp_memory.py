"""The memory of FSDP2 without a plan: its hooks gather and reduce by fixed rules, and torch.utils.checkpoint recomputes.

    reshard after forward    the parameters are gathered again at their first reader in backward. Otherwise they stay gathered.
    gather in backward       the next group's gather begins when the current one ends, and holds the buffer of all ranks.
    gathered parameters      stay until the gradients of the group are reduced.
    reduction                its buffer is held until the next group's gradients exist.
    checkpoint               recomputed as a whole at the first reader in backward.

In forward, a group's gather ends before its module runs, as on a CPU. On a GPU, one further gather may be in progress.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

from memplan.graph.capture import Capture
from memplan.graph.operators import CHECKPOINT
from memplan.graph.shards import GATHER, GROUPS, PACK, REDUCE, apart
from memplan.library.planning import Step
from memplan.plan.emitted import Emitted
from memplan.plan.overlapped_collectives import Time, rewrite
from memplan.plan.planner import GraphPlanner

AGAIN = (CheckpointPolicy.PREFER_RECOMPUTE, CheckpointPolicy.MUST_RECOMPUTE)


def gathers(capture: Capture) -> list[int]:
    return [k for k, o in enumerate(capture.operations) if o.source is not None and o.source.target is GATHER]


def group_of(node: fx.Node) -> int:
    number: Any = node.args[-1]
    return int(number)


class Again:
    """The forward operators that run again for backward. A gather runs again alone, a checkpoint as a whole.

    Results of a checkpoint that forward operators outside of it read are kept.
    """

    def __init__(self, capture: Capture) -> None:
        self.capture, self.operations = capture, capture.operations
        self.parts = {k: part for k in range(capture.boundary) if (part := self._part(k)) is not None}
        of_storage = {s: k for k in self.parts for s in self.operations[k].writes}
        for k in range(capture.boundary):
            for s in self.operations[k].reads:
                if s in of_storage and not self._is_gather(of_storage[s]) and self.parts[of_storage[s]] != self.parts.get(k):
                    del of_storage[s]
        for s in capture.storages_of(capture.forward_outputs):
            of_storage.pop(s, None)
        self.makers = of_storage
        self.needed = self._needed()
        self.made: set[Any] = set()  # the gathers and checkpoints that `steps` has already inserted a second time

    def _is_gather(self, k: int) -> bool:
        source = self.operations[k].source
        return source is not None and source.target is GATHER

    def _part(self, k: int) -> Any:
        source = self.operations[k].source
        if source is None or self._is_gather(k):
            return None if source is None or not GROUPS[group_of(source)].reshards else source
        is_marked = source.meta.get("recompute") in AGAIN and not self.operations[k].once
        return source.meta.get(CHECKPOINT) if is_marked else None

    def _needed(self) -> dict[Any, list[int]]:
        """Return for each gather or checkpoint the operators that run again for backward, with the operators they depend on."""
        wanted = {s for o in self.operations[self.capture.boundary + 1 :] for s in o.reads}
        found: dict[Any, list[int]] = {}
        for k in sorted(self.parts, reverse=True):
            if any(s in wanted and self.makers.get(s) == k for s in self.operations[k].writes):
                wanted.update(self.operations[k].reads)
                found.setdefault(self.parts[k], []).insert(0, k)
        return found

    def _before(self, k: int) -> Iterator[int]:
        """Yield the operators whose results operator k reads and that must run again before k."""
        for s in self.operations[k].reads:
            part = self.parts[self.makers[s]] if s in self.makers else None
            if part is not None and part not in self.made and part != self.parts.get(k):
                self.made.add(part)
                for again in self.needed[part]:
                    yield from self._before(again)
                    yield again

    def steps(self) -> list[Step]:
        """Return all operators in order, with the repeated ones inserted."""
        first = self.capture.boundary + 1
        behind = range(first, len(self.operations))
        return [*range(first), *(step for k in behind for step in (*self._before(k), k))]


@contextlib.contextmanager
def whole_until_summed(capture: Capture) -> Iterator[None]:
    """Within the context, the pack of a group's gradients reads all parameters of the group, so these stay gathered."""
    # by parameter shapes of a group: its gathers in forward order; backward removes the last one first
    whole: dict[Any, list[fx.Node]] = {}
    packs: dict[fx.Node, Any] = {}
    for source in (o.source for o in capture.operations if o.source is not None):
        if source.target not in (GATHER, PACK):
            continue
        # groups are matched by shapes, because an inserted copy of a block has the group number of the original
        alike = tuple(GROUPS[group_of(source)].padded)
        if source.target is GATHER:
            whole.setdefault(alike, []).append(source)
        elif of_group := whole.get(alike):
            gradients, *others = packs[source] = source.args
            source.args = ([*gradients, *of_group.pop().users], *others)  # type: ignore[misc]
    try:
        yield
    finally:
        for source, args in packs.items():
            source.args = args


def held(*parameters: torch.Tensor) -> None:
    """Do nothing. As an operator of the counted graph, this function reads parameters and so extends their lifetime."""


def run_as_its_hooks_do(graph: fx.Graph) -> None:
    """Free the parameters of a group before its gradients are packed."""
    nodes = list(graph.nodes)
    for node in nodes:
        if node.target is PACK:
            read, which, group = node.args
            with graph.inserting_before(node):
                graph.call_function(held, tuple(read[len(which) :]))
            node.args = (read[: len(which)], which, group)
    calls = [n for n in nodes if n.target is GATHER]
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
    with whole_until_summed(planner.capture):
        emitted = planner.emit(Again(planner.capture).steps()).finished()
    run_as_its_hooks_do(emitted.backward.graph)
    return planner.counted(emitted.forward, emitted.backward, 0, Time())
