"""Plans for all pipeline stages of one rank within the rank's budget.

The tensors saved by a plan exist once per micro-batch in flight. The budget of a call therefore depends on the plan itself.
A limit on the saved bytes decouples the two: the budget of a call is the rank's budget minus the largest memory besides the
call at this limit. The search varies the limit as a share of the bytes that keep-all saves, with the same share for all
stages. Every candidate is counted over all moments of the schedule. Only candidates within the budget are used.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from memplan.budget import in_units, resolve
from memplan.compiled_modules import place_of
from memplan.errors import BudgetError, FallbackWarning
from memplan.graph.capture import DYNAMIC, Capture
from memplan.graph.shards import GROUPS
from memplan.library.planning import NO_BUDGET
from memplan.plan.emitted import Emitted
from memplan.plan.options import Options
from memplan.plan.planner import GraphPlanner
from memplan.run.budget_feedback import BudgetFeedback
from memplan.run.results import Result, makers_of, sum_of
from memplan.schedules import schedule_events as events
from memplan.schedules.fsdp_groups import Whole
from memplan.schedules.schedule_events import Moment
from memplan.schedules.stage_memory import Needs, bytes_of, static_bytes

if TYPE_CHECKING:
    from memplan.plan.graph_report import GraphReport
    from memplan.report import Report

PROBES = 4  # maximum number of shares of keep-all's saved bytes that the search tries; each trial halves the remaining interval
LEFT = 50  # if more than 1/LEFT of the budget is unused, the limit on saved bytes is too low
CORRECTIONS = 2  # number of corrections of a call's budget by the bytes that are unused or missing over all moments
NO_CALLS = (events.MERGE, events.GATHER, events.SUM)
# the smallest plans are computed for several reserves; a reserve for other stages is one of these shares of keep-all's memory
ROOMS = (0.4, 1.0)


class Plan(NamedTuple):
    """The plan of one pipeline stage: its planner, graphs, and memory needs."""

    planner: GraphPlanner
    emitted: Emitted
    needs: Needs

    def seconds(self) -> float:
        return self.planner.planning.number("planned_ticks") * 1e-9


Plans = dict[int, Plan]  # for each captured stage, by its index: the plan


class Stage(BudgetFeedback):
    """A stage of the rank, or the loss. The schedule gives the memory besides its calls. All stages are planned together."""

    keeps_whole = True

    def __init__(self, rank: Rank, index: int, model: Callable[[], Any]) -> None:
        super().__init__()
        self.rank, self.index, self.model = rank, index, model
        self.captured: GraphPlanner | None = None
        self.smallest: Plan | None = None  # the plan of this stage without regard to the memory of other calls
        self.is_behind = False  # whether the stage still runs a plan made before the other stages were captured
        self.has_reported_stored = False

    def whole(self) -> Whole:
        """Return the memory of the stage's parameters under FSDP2."""
        place = place_of(model) if (model := self.model()) is not None else None
        return Whole([] if place is None or place.sharded is None else [GROUPS[g] for g in place.sharded.groups])

    def plan(self, planner: GraphPlanner, options: Options) -> tuple[GraphPlanner, Emitted, int]:
        """Plan a stage's graph, new or planned before. Return its planner, its graphs and the budget. Raises BudgetError."""
        if self.captured is None or planner.capture is not self.captured.capture:
            self.captured, self.smallest = planner, None
            self.whole().widen(planner.capture)
            self.rank.is_whole = len(self.rank.stages) == 1
            if self.rank.is_whole:
                self.rank.plan([self], options)
            else:  # until all stages are captured, the memory besides a call is unknown, so the stage runs its smallest plan
                self.rank.plans |= self.rank.smallest([self], options)
        self.is_behind = False
        found = self.rank.plans[self.index]
        return found.planner, found.emitted, self.rank.budget_bytes

    def changed(self, options: Options, report: Report, is_shared: bool) -> Options | None:
        """Return options if the next call has a new plan. Raises BudgetError.

        All stages are planned together as soon as all are captured and no call of the rank awaits its backward. A stage
        switches to its new plan when none of its own calls awaits a backward, because such a backward needs the old plan.
        """
        self.rank.plan_whole(options)
        return options if self.is_behind and self.ledger.n_calls == 0 else None

    def reports_stored(self, results: list[Result]) -> bool:
        if not self.has_reported_stored:
            self.has_reported_stored = True
            warnings.warn(
                f"memplan: user code stores tensors of stage {self.index} ({in_units(sum_of(results))}, computed in"
                f" {makers_of(results)}). Plans of pipelines do not count these tensors; count them with reserve=, once per"
                " micro-batch if each micro-batch stores its own",
                FallbackWarning,
                stacklevel=5,
            )
        return True

    def report_alone(self, graph: GraphReport, capture: Capture) -> None:
        """Let the stage's report state the memory of the stage together with the other stages of the rank."""
        super().report_alone(graph, capture)
        rank, graph.in_halves = self.rank, True
        beside = rank.beside_bytes(self.index, {s: p.needs.sizes for s, p in rank.plans.items()})
        graph.planned_bytes = graph.most_bytes = rank.peak_bytes(rank.plans, self.index)
        graph.keep_all_bytes, graph.floor_bytes = rank.keep_all_bytes, graph.floor_bytes - graph.others_bytes
        graph.others_bytes = beside + (graph.saved_bytes if rank.is_split else 0) if rank.is_whole else NO_BUDGET >> 1
        graph.in_flight, graph.is_seen = rank.in_flight.get(self.index, 1), True
        # unknown: the planner's proof does not cover plans with other limits on saved bytes
        graph.proved_overhead = float("nan")


class Rank:
    """The stages of one rank.

    Args:
        moments: the calls of the schedule, from the replay.
        in_flight: the largest number of micro-batches in flight, by stage.
        n_parts: the number of micro-batches.
        counted_bytes: further memory, named by the user.
        is_split: whether weight gradients run separately.
        last: the last stage.
    """

    def __init__(
        self, moments: Sequence[Moment], in_flight: dict[int, int], n_parts: int, counted_bytes: int, is_split: bool, last: int
    ) -> None:
        self.moments, self.in_flight, self.n_parts = moments, in_flight, n_parts
        self.counted_bytes, self.is_split, self.last = counted_bytes, is_split, last
        self.stages: dict[int, Stage] = {}
        self.plans: Plans = {}
        self.is_whole = False  # whether all stages of the rank have been planned together
        self.budget_bytes = self.keep_all_bytes = 0
        # whether a BudgetError is raised after the step only, because other ranks wait for this rank within the step
        self.defers = False
        self.trouble: BudgetError | None = None  # the deferred BudgetError, which is raised after the step

    def add(self, index: int, model: Callable[[], Any]) -> Stage:
        self.stages[index] = Stage(self, index, model)
        return self.stages[index]

    def n_waiting(self) -> int:
        return sum(s.ledger.n_calls for s in self.stages.values())

    @property
    def planned_bytes(self) -> int:
        """The peak memory of this rank in a step, over all its stages."""
        return self.peak_bytes(self.plans)

    # ---- memory

    def static(self) -> int:
        known = [(s.captured.capture, s.model(), s.whole()) for s in self.stages.values() if s.captured is not None]
        return self.counted_bytes + sum(static_bytes(c, model, self.n_parts, whole) for c, model, whole in known)

    def beside_bytes(self, index: int, sizes: dict[int, dict[str, int]]) -> int:
        """Return the largest memory besides a call of a stage.

        A stage that has not been captured yet is assumed to need as much memory as the stage `index`.
        """
        like = sizes[index]
        beside = [m.beside for m in self.moments if m.stage == index and m.phase not in NO_CALLS]
        return max(
            (sum(n * self._sizes(sizes, s, like)[what] for (s, what), n in found.items()) for found in beside), default=0
        )

    def _sizes(self, sizes: dict[int, dict[str, int]], stage: int, like: dict[str, int]) -> dict[str, int]:
        return sizes.get(stage, like if stage <= self.last else dict.fromkeys(like, 0))

    def peak_bytes(self, plans: Plans, index: int | None = None) -> int:
        """Return the peak of a step with the given plans, or, with `index`, the peak over the calls of one stage."""
        static, sizes = self.static(), {s: p.needs.sizes for s, p in (self.plans | plans).items()}
        most = 0
        for moment in self.moments:
            if moment.stage in plans and index in (None, moment.stage):
                needs = plans[moment.stage].needs
                beside = sum(n * self._sizes(sizes, s, needs.sizes)[what] for (s, what), n in moment.beside.items())
                own = self.n_parts * needs.sizes[events.OUTPUT] if moment.phase == events.MERGE else needs.bytes_of(moment)
                most = max(most, static + beside + own)
        return most

    # ---- plans

    def plan_whole(self, options: Options) -> None:
        """Plan all captured stages together, once, when no call awaits its backward. Raises BudgetError."""
        known = [s for s in self.stages.values() if s.captured is not None]
        if known and not self.is_whole and self.n_waiting() == 0:
            with torch.no_grad():
                self.plan(known, options)
            self.is_whole = True

    def plan(self, stages: Sequence[Stage], options: Options) -> None:
        """Plan these stages together. Raises BudgetError, unless the rank defers it."""
        self.trouble = None
        everything = self._plans(stages, {}, options, lambda planner: planner.within(NO_BUDGET, options))
        assert everything is not None
        self.keep_all_bytes = self.peak_bytes(everything)
        smallest: list[Plans] = []

        def least() -> int:
            smallest[:] = smallest or [self._least(stages, everything, options)]
            return self.peak_bytes(smallest[0])

        def room(whole: bool) -> int:
            first = everything[stages[0].index].planner
            n_bytes = first.auto_bytes(options.device, whole)
            return n_bytes if whole else self.static() + n_bytes - first.static_bytes

        budget = self.budget_bytes = resolve(options.budget, self.keep_all_bytes, least, room)
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
        """Plan each of these stages by itself.

        Args:
            stages: the stages.
            limits: the largest number of saved bytes, by stage.
            options: the options.
            find: searches a plan with a planner.
            room: used instead of limits: bytes that other stages need at the end of forward.

        Returns:
            The plans, or None if a stage has no plan.
        """
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
        """Return a planner for a stage that saves at most its limit.

        The planner counts the memory besides the stage if all stages save up to their limits.
        """
        known = stage.captured
        assert known is not None
        capture = known.capture
        here = sum(s.n_bytes for s in capture.storages if s.kind not in DYNAMIC)
        outside = self.static() - here
        if limits:
            outside += self.target - self._room(stage.index, limits, self.target)
            arriving = bytes_of(capture, capture.tangents) + self.limited[stage.index][events.OUTPUT]
            room = max(0, self.target - here - outside - limits[stage.index] - arriving)
        capture.operations[capture.boundary].workspace_bytes = int(room)
        return known.again(max(0, outside))

    def _within(self, stages: Sequence[Stage], budget: int, everything: Plans, options: Options) -> Plans | None:
        """Return the fastest plans found whose total memory is within the budget.

        A limit that leaves budget unused is too low. A limit is too high if it leaves a call less than the call's smallest plan
        needs.
        """
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
        return {s: int(share * sizes[events.SAVED]) for s, sizes in self.limited.items()}

    def _alone(self, plan: Plan) -> int:
        """Return the peak of a plan when no other micro-batch is in memory."""
        return self.static() + plan.needs.sizes[events.WHOLE] + plan.emitted.peak_bytes - plan.planner.static_bytes

    def _room(self, index: int, limits: dict[int, int], budget: int) -> int:
        """Return the bytes that a call of the stage may use if all stages save up to these limits."""
        sizes = {s: self.limited[s] | {events.SAVED: limit} for s, limit in limits.items()}
        return budget - self.beside_bytes(index, sizes)

    def _at(
        self, limits: dict[int, int], stages: Sequence[Stage], target: int, budget: int, options: Options, rounds: int
    ) -> Plans | None:
        """Return plans that save at most the given number of bytes per stage.

        The target of the calls is lowered until all moments are within the budget.
        """
        for _ in range(rounds):
            self.target = target
            found = self._plans(stages, limits, options, lambda planner: planner.within(target, options))  # noqa: B023
            if found is None or (over := self.peak_bytes(found) - budget) <= 0:
                return found
            target -= over
        return None

    def smallest(self, stages: Sequence[Stage], options: Options) -> Plans:
        """Return the smallest plan of each stage by itself."""
        for stage in stages:
            if stage.smallest is None:
                found = self._plans([stage], {}, options, lambda planner: planner.smallest(options))
                assert found is not None
                stage.smallest = found[stage.index]
        return {s.index: s.smallest for s in stages if s.smallest is not None}

    def _least(self, stages: Sequence[Stage], everything: Plans, options: Options) -> Plans:
        """Return the set of smallest plans with the lowest total peak.

        The candidate sets reserve different amounts of memory for other stages.
        """
        dynamic = max(p.emitted.peak_bytes - p.planner.static_bytes for p in everything.values())
        found = [self.smallest(stages, options)]
        for share in ROOMS:
            plans = self._plans(stages, {}, options, lambda planner: planner.smallest(options), share * dynamic)
            assert plans is not None
            found.append(plans)
        return min(found, key=self.peak_bytes)

    def _infeasible(self, budget: int, least_bytes: int, smallest: Plans, options: Options) -> Plans:
        """Return the smallest plans if they fit or the user accepts them, or if the error is deferred. Raises BudgetError."""
        if least_bytes > budget:
            sentence = (
                f"a budget of {in_units(budget)} ({budget} bytes) cannot be met by this rank's stages"
                f" {', '.join(str(s) for s in smallest if s <= self.last)} with {max(self.in_flight.values())} micro-batches in"
                f" flight: the smallest plans found need {in_units(least_bytes)} ({least_bytes} bytes)"
            )
            if options.on_infeasible == "smallest":
                warnings.warn(sentence + "; they run with the smallest plans", FallbackWarning, stacklevel=2)
            else:
                self.trouble = BudgetError(sentence, budget_bytes=budget, smallest_bytes=least_bytes)
                if not self.defers:
                    raise self.trouble
        return smallest


def seconds_of(plans: Plans | None) -> float:
    return float("inf") if plans is None else sum(p.seconds() for p in plans.values())
