"""Plans of one rank's stages within the rank's budget, whose calls run beside each other's micro-batches.

What a plan saves is there once for every micro-batch in flight, so the budget of a call depends on the plan. Both are held
together by a limit on what a plan saves: a call then has the budget less the most that is beside it at this limit. The limit is
searched, as a share of what keeping everything saves, the same share for all stages of the rank; whatever is found is counted
anew over all moments of the schedule, and only what is within the budget is taken.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from memplan.budget import in_units, resolve
from memplan.errors import BudgetError, FallbackWarning
from memplan.graph.capture import DYNAMIC, Capture
from memplan.graph.shards import GROUPS
from memplan.in_place import place_of
from memplan.library.planning import NO_BUDGET
from memplan.plan.options import Options
from memplan.plan.planner import Emitted, GraphPlanner
from memplan.run.learned import Learned
from memplan.schedules import replay
from memplan.schedules.needs import Needs, bytes_of, static_bytes
from memplan.schedules.replay import Moment
from memplan.schedules.whole import Whole

if TYPE_CHECKING:
    from memplan.plan.graph_report import GraphReport
    from memplan.report import Report

PROBES = 4  # of shares of what keeping everything saves, each halving what is left
LEFT = 50  # a share of the budget that is left makes a limit too low
CORRECTIONS = 2  # of a call's budget by what the count over all moments leaves or lacks
NO_CALLS = (replay.MERGE, replay.GATHER, replay.SUM)
ROOMS = (0.4, 1.0)  # for others, of what keeping everything takes, for which smallest plans are found


class Plan(NamedTuple):
    """Of one stage."""

    planner: GraphPlanner
    emitted: Emitted
    needs: Needs

    def seconds(self) -> float:
        return self.planner.planning.number("planned_ticks") * 1e-9


Plans = dict[int, Plan]  # per stage that is captured


class Stage(Learned):
    """One of the rank's, or the loss. What is beside its calls is known from the schedule, and its plan is made with those of
    the rank's other stages."""

    keeps_whole = True

    def __init__(self, rank: Rank, index: int, model: Callable[[], Any]) -> None:
        super().__init__()
        self.rank, self.index, self.model = rank, index, model
        self.captured: GraphPlanner | None = None
        self.smallest: Plan | None = None  # without regard to what is beside it
        self.is_behind = False  # it runs a plan that was made before the others were known

    def whole(self) -> Whole:
        """What FSDP2 has sharded of it."""
        place = place_of(model) if (model := self.model()) is not None else None
        return Whole([] if place is None or place.sharded is None else [GROUPS[g] for g in place.sharded.groups])

    def plan(self, planner: GraphPlanner, options: Options) -> tuple[GraphPlanner, Emitted, int]:
        """Of a graph that was captured, or is planned again. BudgetError."""
        if self.captured is None or planner.capture is not self.captured.capture:
            self.captured, self.smallest = planner, None
            self.whole().widen(planner.capture)
            self.rank.is_whole = len(self.rank.stages) == 1
            if self.rank.is_whole:
                self.rank.plan([self], options)
            else:  # the smallest plan, as what is beside its first calls is not known
                self.rank.plans |= self.rank.smallest([self], options)
        self.is_behind = False
        found = self.rank.plans[self.index]
        return found.planner, found.emitted, self.rank.budget_bytes

    def changed(self, options: Options, report: Report, is_shared: bool) -> Options | None:
        """Whether its next call has another plan. All stages are planned together once they are known and no call of the rank
        waits; each then takes its plan when none of its own does, which would need the old one. BudgetError."""
        self.rank.plan_whole(options)
        return options if self.is_behind and self.ledger.n_calls == 0 else None

    def report_alone(self, graph: GraphReport, capture: Capture) -> None:
        """Says what the stage takes among the others, of which its plan knows but what was beside it."""
        super().report_alone(graph, capture)
        rank, graph.in_halves = self.rank, True
        beside = rank.beside_bytes(self.index, {s: p.needs.sizes for s, p in rank.plans.items()})
        graph.planned_bytes = graph.most_bytes = rank.peak_bytes(rank.plans, self.index)
        graph.keep_all_bytes, graph.floor_bytes = rank.keep_all_bytes, graph.floor_bytes - graph.others_bytes
        graph.others_bytes = beside + (graph.saved_bytes if rank.is_split else 0) if rank.is_whole else NO_BUDGET >> 1
        graph.in_flight, graph.is_seen = rank.in_flight.get(self.index, 1), True
        graph.proved_overhead = float("nan")  # of other limits on what is saved nothing is proved


class Rank:
    """`moments`: of its schedule; `n_parts`: micro-batches; `counted_bytes`: of what else there is."""

    def __init__(
        self, moments: Sequence[Moment], in_flight: dict[int, int], n_parts: int, counted_bytes: int, is_split: bool, last: int
    ) -> None:
        self.moments, self.in_flight, self.n_parts = moments, in_flight, n_parts
        self.counted_bytes, self.is_split, self.last = counted_bytes, is_split, last
        self.stages: dict[int, Stage] = {}
        self.plans: Plans = {}
        self.is_whole = False  # whether they were made together
        self.budget_bytes = self.keep_all_bytes = 0
        self.defers = False  # whether a budget that cannot be met is said behind the step, as other ranks wait in it
        self.trouble: BudgetError | None = None  # which is to be said

    def add(self, index: int, model: Callable[[], Any]) -> Stage:
        self.stages[index] = Stage(self, index, model)
        return self.stages[index]

    def n_waiting(self) -> int:
        return sum(s.ledger.n_calls for s in self.stages.values())

    @property
    def planned_bytes(self) -> int:
        """The most that the rank takes in a step."""
        return self.peak_bytes(self.plans)

    # What is there

    def static(self) -> int:
        known = [(s.captured.capture, s.model(), s.whole()) for s in self.stages.values() if s.captured is not None]
        return self.counted_bytes + sum(static_bytes(c, model, self.n_parts, whole) for c, model, whole in known)

    def beside_bytes(self, index: int, sizes: dict[int, dict[str, int]]) -> int:
        """The most that is beside a call of a stage. A stage that is not known yet is taken to be like this one."""
        like = sizes[index]
        beside = [m.beside for m in self.moments if m.stage == index and m.phase not in NO_CALLS]
        return max(
            (sum(n * self._sizes(sizes, s, like)[what] for (s, what), n in found.items()) for found in beside), default=0
        )

    def _sizes(self, sizes: dict[int, dict[str, int]], stage: int, like: dict[str, int]) -> dict[str, int]:
        return sizes.get(stage, like if stage <= self.last else dict.fromkeys(like, 0))

    def peak_bytes(self, plans: Plans, index: int | None = None) -> int:
        """The most that there is in a step, or while one stage runs."""
        static, sizes = self.static(), {s: p.needs.sizes for s, p in (self.plans | plans).items()}
        most = 0
        for moment in self.moments:
            if moment.stage in plans and index in (None, moment.stage):
                needs = plans[moment.stage].needs
                beside = sum(n * self._sizes(sizes, s, needs.sizes)[what] for (s, what), n in moment.beside.items())
                own = self.n_parts * needs.sizes[replay.OUTPUT] if moment.phase == replay.MERGE else needs.bytes_of(moment)
                most = max(most, static + beside + own)
        return most

    # Plans

    def plan_whole(self, options: Options) -> None:
        """Plans all stages together where they are known, and not planned so yet, and no call waits. BudgetError."""
        known = [s for s in self.stages.values() if s.captured is not None]
        if known and not self.is_whole and self.n_waiting() == 0:
            with torch.no_grad():
                self.plan(known, options)
            self.is_whole = True

    def plan(self, stages: Sequence[Stage], options: Options) -> None:
        """Plans these together. BudgetError, unless it is said later."""
        self.trouble = None
        everything = self._plans(stages, {}, options, lambda planner: planner.within(NO_BUDGET, options))
        assert everything is not None
        self.keep_all_bytes = self.peak_bytes(everything)
        smallest: list[Plans] = []

        def least() -> int:
            smallest[:] = smallest or [self._least(stages, everything, options)]
            return self.peak_bytes(smallest[0])

        def free() -> int:
            first = everything[stages[0].index].planner
            return self.static() + first.auto_bytes(options.device) - first.static_bytes

        budget = self.budget_bytes = resolve(options.budget, self.keep_all_bytes, least, free)
        found: Plans | None = everything
        if self.keep_all_bytes > budget:
            found = self._within(stages, budget, everything, options)
        if found is None:
            found = self._infeasible(budget, least(), smallest[0], options)
        self.plans |= found
        for stage in stages:
            stage.is_behind = True

    def _plans(
        self,
        stages: Sequence[Stage],
        limits: dict[int, int],
        options: Options,
        find: Callable[[GraphPlanner], Emitted | None],
        room: float = 0.0,
    ) -> Plans | None:
        """Plans of these stages, each by itself; None: one has none. `limits`: of what they save; `room`: instead, bytes that
        others want where forward ends."""
        found: Plans = {}
        for stage in stages:
            planner = self._planner(stage, limits, room)
            planner.ready(options)
            if (emitted := find(planner)) is None:
                return None
            found[stage.index] = Plan(planner, emitted, self._needs(stage.index, planner, emitted))
        return found

    def _needs(self, index: int, planner: GraphPlanner, emitted: Emitted) -> Needs:
        is_split = self.is_split and 0 < index <= self.last
        return Needs(planner, emitted, is_split, index == self.last, self.stages[index].whole())

    def _planner(self, stage: Stage, limits: dict[int, int], room: float) -> GraphPlanner:
        """With what is beside the stage at these limits, and the room at the end of forward that keeps it to its own."""
        known = stage.captured
        assert known is not None
        capture = known.capture
        here = sum(s.n_bytes for s in capture.storages if s.kind not in DYNAMIC)
        outside = self.static() - here
        if limits:
            outside += self.target - self._room(stage.index, limits, self.target)
            arriving = bytes_of(capture, capture.tangents) + self.limited[stage.index][replay.OUTPUT]
            room = max(0, self.target - here - outside - limits[stage.index] - arriving)
        capture.operations[capture.boundary].workspace_bytes = int(room)
        return known.again(max(0, outside))

    def _within(self, stages: Sequence[Stage], budget: int, everything: Plans, options: Options) -> Plans | None:
        """The quickest that were found, of which all that is there at once is within the budget. A limit that leaves some of it
        is too low, and one for which a call is left less than its smallest plan takes is too high."""
        self.limited = {s: p.needs.sizes for s, p in everything.items()}
        quick = dataclasses.replace(options, effort="quick")
        smallest = self.smallest(stages, options)
        low, high, at_best = 0.0, 1.0, 0.0
        best: Plans | None = None
        for _ in range(PROBES):
            share = (low + high) / 2
            limits = self._limits(share)
            found = self._at(limits, stages, budget, budget, quick, CORRECTIONS if self.is_split else 1)
            if found is not None and seconds_of(found) <= seconds_of(best):
                best, at_best = found, share
            if found is not None:
                is_low = budget - self.peak_bytes(found) > budget // LEFT
            else:
                is_low = all(self._alone(p) <= self._room(s, limits, budget) for s, p in smallest.items())
            low, high = (share, high) if is_low else (low, share)
        target = budget
        for _ in range(CORRECTIONS if best is not None else 0):
            found = self._at(self._limits(at_best), stages, target, budget, options, CORRECTIONS)
            if found is None:
                break
            best = min((found, best), key=seconds_of)
            target += budget - self.peak_bytes(found)
        return best

    def _limits(self, share: float) -> dict[int, int]:
        return {s: int(share * sizes[replay.SAVED]) for s, sizes in self.limited.items()}

    def _alone(self, plan: Plan) -> int:
        """What a plan takes where nothing is beside it."""
        return self.static() + plan.needs.sizes[replay.WHOLE] + plan.emitted.peak_bytes - plan.planner.static_bytes

    def _room(self, index: int, limits: dict[int, int], budget: int) -> int:
        """What a call has at these limits."""
        sizes = {s: self.limited[s] | {replay.SAVED: limit} for s, limit in limits.items()}
        return budget - self.beside_bytes(index, sizes)

    def _at(
        self, limits: dict[int, int], stages: Sequence[Stage], target: int, budget: int, options: Options, rounds: int
    ) -> Plans | None:
        """Plans with these limits, of calls within the target, which is lowered until all moments are within the budget."""
        for _ in range(rounds):
            self.target = target
            found = self._plans(stages, limits, options, lambda planner: planner.within(target, options))  # noqa: B023
            if found is None or (over := self.peak_bytes(found) - budget) <= 0:
                return found
            target -= over
        return None

    def smallest(self, stages: Sequence[Stage], options: Options) -> Plans:
        """Of each stage the plan that takes least by itself."""
        for stage in stages:
            if stage.smallest is None:
                found = self._plans([stage], {}, options, lambda planner: planner.smallest(options))
                assert found is not None
                stage.smallest = found[stage.index]
        return {s.index: s.smallest for s in stages if s.smallest is not None}

    def _least(self, stages: Sequence[Stage], everything: Plans, options: Options) -> Plans:
        """Of the smallest plans for several rooms that others want the ones that take least together."""
        dynamic = max(p.emitted.peak_bytes - p.planner.static_bytes for p in everything.values())
        found = [self.smallest(stages, options)]
        for share in ROOMS:
            plans = self._plans(stages, {}, options, lambda planner: planner.smallest(options), share * dynamic)
            assert plans is not None
            found.append(plans)
        return min(found, key=self.peak_bytes)

    def _infeasible(self, budget: int, least_bytes: int, smallest: Plans, options: Options) -> Plans:
        """The smallest, where they fit or are wanted, or a step of all ranks has to end first; BudgetError."""
        if least_bytes > budget:
            sentence = (
                f"a budget of {in_units(budget)} ({budget} bytes) cannot be met by this rank's stages"
                f" {', '.join(str(s) for s in smallest if s <= self.last)} with {max(self.in_flight.values())} micro-batches in"
                f" flight: the smallest plans found need {in_units(least_bytes)} ({least_bytes} bytes)"
            )
            if options.on_infeasible == "smallest":
                warnings.warn(sentence + "; they run with the smallest", FallbackWarning, stacklevel=2)
            else:
                self.trouble = BudgetError(sentence, budget_bytes=budget, smallest_bytes=least_bytes)
                if not self.defers:
                    raise self.trouble
        return smallest


def seconds_of(plans: Plans | None) -> float:
    return float("inf") if plans is None else sum(p.seconds() for p in plans.values())
