"""The numbers of chunks in which regions of a network are computed (option `chunks`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from memplan.budget import is_smallest, resolve
from memplan.errors import MemplanError
from memplan.graph.row_regions import Chunks
from memplan.graph.row_rules import Refused
from memplan.plan.emitted import Emitted
from memplan.plan.options import Options
from memplan.plan.other_sizes import OtherSizes
from memplan.plan.planner import GraphPlanner

NUMBERS = (1, 2, 4, 8, 16, 32, 64)  # the numbers of chunks that "auto" tries
LEAST_GAIN = 1 / 16  # a number of chunks is tried only if half of it has saved more than this share
MOST_ROUNDS = 2  # maximum number of changes of all kinds of regions
MOST_SEARCHES = 3  # maximum number of searches that compare numbers of chunks, unless none of them finds a plan


class Choice:
    """The planners of one captured graph, by numbers of chunks.

    Args:
        wanted: the numbers of chunks; None: the numbers whose plan is the fastest.
        build: returns the planner for numbers of chunks. Raises Refused.
        instead: the value of the option that messages recommend. With graph breaks, "auto" cuts the parts that have regions.
    """

    def __init__(self, wanted: Chunks | None, build: Callable[[Chunks], GraphPlanner], instead: str = "off") -> None:
        self.wanted, self.build, self.instead = wanted, build, instead
        self.planners: dict[Chunks, GraphPlanner | Refused] = {}

    @property
    def reason(self) -> str:
        """The reason why the logits must stay whole, if "auto" has tried to cut them."""
        refused = [str(p) for of, p in self.planners.items() if isinstance(p, Refused) and of.head > 1]
        return refused[0] if refused else ""

    def planner(self, chunks: Chunks) -> GraphPlanner:
        """Return the planner for these numbers. Raises Refused."""
        if chunks not in self.planners:
            try:
                made = self.build(chunks)
                made.choice = self
                self.planners[chunks] = made
            except Refused as reason:
                self.planners[chunks] = reason
        found = self.planners[chunks]
        if isinstance(found, Refused):
            raise found
        return found

    def first(self) -> GraphPlanner:
        """Return the planner with the wanted numbers, or with whole regions. Raises MemplanError if a region cannot be cut."""
        wanted = self.wanted or Chunks()
        try:
            return self.planner(wanted)
        except Refused as reason:
            raise MemplanError(f'chunks={wanted.option()}: {reason}; use chunks="{self.instead}"') from None

    def renew(self, again: Callable[[GraphPlanner], GraphPlanner]) -> GraphPlanner:
        """Replace all planners by planners of the same graphs. Return the first."""
        self.planners = {n: p if isinstance(p, Refused) else again(p) for n, p in self.planners.items()}
        for planner in self.planners.values():
            if not isinstance(planner, Refused):
                planner.choice = self
        return self.first()

    def descend(self, size: Callable[[GraphPlanner], int], enough: int = 0) -> list[GraphPlanner]:
        """Double the number of chunks of one kind after the other, as long as this makes graphs smaller.

        Args:
            size: the bytes to reduce, static bytes included.
            enough: the size at which no further chunks are needed.

        Returns: the planners on the way, from whole regions to the smallest size.
        """
        way = [self.planner(Chunks())]
        best = Chunks()
        for _ in range(MOST_ROUNDS):
            before = best
            for kind in Chunks._fields:
                for n in NUMBERS:
                    here = way[-1]
                    if size(here) <= enough:
                        return way
                    if n <= getattr(best, kind):
                        continue
                    wanted = best._replace(**{kind: n})
                    try:
                        made = self.planner(wanted)
                    except Refused:
                        break
                    gained = size(here) - size(made)
                    is_new = made.chunks == wanted  # otherwise the regions have fewer rows
                    if not is_new or gained <= LEAST_GAIN * (size(here) - here.static_bytes):
                        break
                    best = wanted
                    way.append(made)
            if best == before:
                break
        return way

    def solve(self, options: Options, is_first: bool) -> tuple[GraphPlanner, Emitted, int]:
        """Return the planner with the fastest plan, the graphs of this plan, and the budget. Raises BudgetError."""
        if self.wanted is not None:
            planner = self.first()
            return planner, *planner.solve(options, is_first)
        whole = self.planner(Chunks())
        keep_all = whole.planning.number("keep_all_bytes")
        smallest: list[GraphPlanner] = []

        def least() -> int:
            smallest[:] = self.descend(floor_bytes)[-1:]
            smallest[0].ready(options)
            return smallest[0].least_bytes(options)

        budget = resolve(options.budget, keep_all, least, lambda is_whole: whole.auto_bytes(options.device, is_whole))
        if is_smallest(options.budget):
            return self._smallest(smallest[0], options, is_first)
        fastest = whole if budget >= keep_all else self._fastest(budget, options)
        planner = fastest or (smallest or self.descend(floor_bytes))[-1]
        return planner, *planner.solve(dataclasses.replace(options, budget=budget), is_first)

    def _smallest(self, planner: GraphPlanner, options: Options, is_first: bool) -> tuple[GraphPlanner, Emitted, int]:
        """Return the smallest plan of a planner, or with whole regions if that plan needs no more memory."""
        found = planner, *planner.solve(options, is_first)
        whole = self.planner(Chunks())
        if planner is not whole and floor_bytes(whole) < found[1].peak_bytes:
            other = whole, *whole.solve(options, is_first)
            if other[1].peak_bytes <= found[1].peak_bytes:
                return other
        return found

    def _fastest(self, budget: int, options: Options) -> GraphPlanner | None:
        """Return the planner whose plan within the budget is the fastest, or None. Among equal plans, fewer chunks win."""
        way = self.descend(lambda planner: planner.planning.number("keep_all_bytes"), budget)
        if len(way) == 1:
            return way[0] if floor_bytes(way[0]) <= budget else None
        # the final search replays none of these plans
        quick = dataclasses.replace(
            options, effort="quick", time_limit=options.time_limit / MOST_SEARCHES, other_sizes=OtherSizes()
        )
        best: tuple[int, int, GraphPlanner] | None = None
        n_searches = 0
        for planner in dict.fromkeys((way[-1], way[0], *reversed(way))):
            # no plan takes less time than one run of each operator
            if best is not None and planner.planning.number("keep_all_ticks") > best[0]:
                continue
            if floor_bytes(planner) > budget:
                continue
            if best is not None and n_searches >= MOST_SEARCHES:
                break
            n_searches += 1
            if (ticks := ticks_within(planner, budget, quick)) is None:
                continue
            found = ticks, way.index(planner), planner
            best = found if best is None else min(best, found)
        return best[2] if best is not None else None


def ticks_within(planner: GraphPlanner, budget: int, options: Options) -> int | None:
    """Return the ticks of a plan within the budget, or None if there is none."""
    planner.ready(options)
    if planner.within(budget, options) is None and planner.smallest(options).peak_bytes > budget:
        return None
    return planner.planning.number("planned_ticks")


def floor_bytes(planner: GraphPlanner) -> int:
    return planner.planning.number("floor_bytes")


def again_with(planner: GraphPlanner, wanted: Chunks | None, again: Callable[[GraphPlanner], GraphPlanner]) -> GraphPlanner:
    """Return a planner of the same graph for other options. `again` returns such a planner for one number of chunks."""
    choice: Choice | None = planner.choice
    if choice is None:
        return again(planner)
    choice.wanted = wanted
    return choice.renew(again)
