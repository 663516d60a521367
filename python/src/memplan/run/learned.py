"""What steps have had beside the calls of one compiled model, and what its next plans do about it: they count that from the
start, and where others need the room while its calls wait for their backward, they keep less.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from typing import TYPE_CHECKING, Any

from memplan.budget import Budget
from memplan.errors import FallbackWarning
from memplan.graph.capture import DYNAMIC, Capture
from memplan.plan.graph_report import GraphReport
from memplan.plan.options import Options
from memplan.plan.planner import Emitted, GraphPlanner
from memplan.run.ledger import Beside, Ledger, Owner

if TYPE_CHECKING:
    from memplan.report import Report

MOST_TIMES = 4  # that steps are planned again for what was beside them


class Learned:
    """Of one budget. A backend asks here for its plans, and whether it is to make others. `keeps_whole`: what FSDP2 has sharded
    is whole for several calls."""

    keeps_whole = False

    def __init__(self) -> None:
        self.ledger = Ledger()  # of the model's own calls
        self.n_bytes = self.n_times = 0  # that plans count since, and how often they were made again
        self.uncounted_bytes = 0  # that steps had beside a call, and no plan has counted yet
        self.most_kept: dict[Any, int] = {}  # per frame of the user's code: what its graphs may keep for backward
        self.is_beyond = False  # whether that, or what is uncounted, has changed since plans were made
        self.alone: dict[Any, tuple[int, int]] = {}  # per frame and sizes: what keep-all and the floor are without others
        self.causes: set[tuple[bool, ...]] = set()  # that were said

    def owner(self, is_shared: bool) -> Owner:
        return Owner(self.ledger, functools.partial(self.take_over, is_shared=is_shared), self.keep_less)

    def take_over(self, graph: GraphReport, beside: Beside, is_shared: bool = False) -> None:
        """A call goes beyond its budget: that is said once per cause, and the next step is planned for it; not where the plan
        is that of several ranks."""
        is_stuck = graph.waiting_bytes > self.most_kept.get(graph.frame, graph.waiting_bytes)  # not reached
        can_learn = beside.learned_bytes > 0 or (beside.kept_less > 0 and not is_stuck)
        is_last = self.n_times == MOST_TIMES or not can_learn
        ends = "no smaller plan was found" if is_last else "the next step is planned with that"
        if is_shared:
            ends = "ranks have one plan, which stays; a budget that is so much smaller leaves room for it"
        cause = (*beside.causes(), is_last)
        if cause not in self.causes:
            self.causes.add(cause)
            warnings.warn(f"memplan: {beside.sentence(graph, ends)}", FallbackWarning, stacklevel=4)
        if beside.learned_bytes > self.uncounted_bytes:
            self.uncounted_bytes, self.is_beyond = beside.learned_bytes, True
        if beside.kept_less:
            self.keep_less(graph, beside.kept_less)

    def keep_less(self, graph: GraphReport, n_bytes: int) -> None:
        """Plans of this graph's frame keep so much less from forward to backward."""
        before = self.most_kept.get(graph.frame, graph.waiting_bytes)
        self.most_kept[graph.frame] = max(0, min(before, graph.waiting_bytes - n_bytes))
        self.is_beyond = self.is_beyond or n_bytes > 0

    def plan(self, planner: GraphPlanner, options: Options) -> tuple[GraphPlanner, Emitted, int]:
        """Of a graph: who has made it, its graphs, and the budget. BudgetError."""
        return planner, *planner.solve(options, is_first=self.n_times == 0)

    def changed(self, options: Options, report: Report, is_shared: bool) -> Options | None:
        """With which plans are made again, None: they stay. That is when no call of the model waits: they then count what was
        beside it. `is_shared`: plans are those of several ranks, which would not learn the same."""
        if not self.is_beyond or is_shared or self.ledger.n_calls or self.n_times == MOST_TIMES:
            return None
        self.n_times += 1
        self.n_bytes += self.uncounted_bytes
        self.uncounted_bytes, self.is_beyond = 0, False
        return dataclasses.replace(options, budget=max(g.budget_bytes for g in report.graphs), on_infeasible="smallest")

    def leave_room(self, capture: Capture, frame: Any, budget: Budget, outside_bytes: int) -> None:
        """For what others take while the graph's calls wait for their backward: then it keeps so much less."""
        most, room = self.most_kept.get(frame), 0
        if most is not None and isinstance(budget, int):
            static = sum(s.n_bytes for s in capture.storages if s.kind not in DYNAMIC) + outside_bytes
            room = max(0, budget - static - most)
        capture.operations[capture.boundary].workspace_bytes = room

    def report_alone(self, graph: GraphReport, capture: Capture) -> None:
        """What the graph needs with nothing beside it is what it needed at first."""
        sizes = tuple(s.n_bytes for s in capture.storages if s.kind == "input")
        alone = self.alone.setdefault((graph.frame, sizes), (graph.keep_all_bytes, graph.floor_bytes))
        graph.keep_all_bytes, graph.floor_bytes = alone
