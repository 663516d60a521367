"""The number of chunks in which the head of a network is computed (option `chunks`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from memplan.budget import is_smallest, resolve
from memplan.errors import MemplanError
from memplan.graph.heads import n_chunks
from memplan.graph.row_rules import Refused
from memplan.plan.emitted import Emitted
from memplan.plan.options import Options
from memplan.plan.planner import GraphPlanner

NUMBERS = (1, 2, 4, 8, 16, 32, 64)  # the numbers that "auto" tries


class Choice:
    """The planners of one captured graph, by number of chunks.

    Args:
        wanted: the number of chunks; None: the number whose plan is the fastest.
        build: returns the planner for a number of chunks. Raises Refused.
    """

    def __init__(self, wanted: int | None, build: Callable[[int], GraphPlanner]) -> None:
        self.wanted, self.build = wanted, build
        self.planners: dict[int, GraphPlanner] = {}
        self.reason = ""  # the reason why the logits must stay whole

    def planner(self, n: int) -> GraphPlanner:
        if n not in self.planners:
            self.planners[n] = self.build(n)
            self.planners[n].choice = self
        return self.planners[n]

    def first(self) -> GraphPlanner:
        """Return the planner with the wanted number, or with whole logits. Raises MemplanError if the logits cannot be cut."""
        try:
            return self.planner(self.wanted or 1)
        except Refused as reason:
            raise MemplanError(f"chunks={{'head': {self.wanted}}}: {reason}; use chunks=\"off\"") from None

    def renew(self, again: Callable[[GraphPlanner], GraphPlanner]) -> GraphPlanner:
        """Replace all planners by planners of the same graphs. Return the first."""
        self.planners = {n: again(planner) for n, planner in self.planners.items()}
        for planner in self.planners.values():
            planner.choice = self
        return self.first()

    def all(self) -> list[GraphPlanner]:
        """Return the planners for all numbers that "auto" tries."""
        found = [self.planner(1)]
        for n in NUMBERS[1:]:
            try:
                found.append(self.planner(n))
            except Refused as reason:
                self.reason = str(reason)
                break
            if n_chunks(found[-1].capture.joint.graph) < n:  # the logits have fewer rows
                found.pop()
                break
        return found

    def solve(self, options: Options, is_first: bool) -> tuple[GraphPlanner, Emitted, int]:
        """Return the planner with the fastest plan, the graphs of this plan, and the budget. Raises BudgetError."""
        if self.wanted is not None:
            planner = self.first()
            return planner, *planner.solve(options, is_first)
        whole = self.planner(1)
        keep_all = whole.planning.number("keep_all_bytes")
        quick = dataclasses.replace(options, effort="quick", time_limit=options.time_limit / len(NUMBERS))

        def least(planner: GraphPlanner) -> int:
            planner.ready(quick)
            return planner.least_bytes(quick)

        budget = resolve(
            options.budget,
            keep_all,
            lambda: min(map(least, self.all())),
            lambda is_whole: whole.auto_bytes(options.device, is_whole),
        )
        planner = whole if budget >= keep_all else self._fastest(budget, quick) or min(self.all(), key=least)
        if is_smallest(options.budget):
            return planner, *planner.solve(options, is_first)
        return planner, *planner.solve(dataclasses.replace(options, budget=budget), is_first)

    def _fastest(self, budget: int, options: Options) -> GraphPlanner | None:
        """Return the planner whose plan within the budget is the fastest, or None. Among equal plans, fewer chunks win."""
        best: tuple[int, GraphPlanner] | None = None
        for planner in self.all():
            # no plan takes less time than one run of each operator
            if best is not None and planner.planning.number("keep_all_ticks") >= best[0]:
                continue
            planner.ready(options)
            if planner.within(budget, options) is None:
                continue
            ticks = planner.planning.number("planned_ticks")
            if best is None or ticks < best[0]:
                best = ticks, planner
        return best[1] if best is not None else None


def again_with(planner: GraphPlanner, wanted: int | None, again: Callable[[GraphPlanner], GraphPlanner]) -> GraphPlanner:
    """Return a planner of the same graph for other options. `again` returns such a planner for one number of chunks."""
    choice: Choice | None = planner.choice
    if choice is None:
        return again(planner)
    choice.wanted = wanted
    return choice.renew(again)
