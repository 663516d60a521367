"""Memory observed besides the calls of one compiled model, and its consequences for later plans.

Later plans count this memory from the start. If other calls need memory while the model's calls are pending, the model's calls
save less.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any

from memplan.budget import Budget
from memplan.errors import FallbackWarning
from memplan.graph.capture import DYNAMIC, Capture
from memplan.graph.earlier_gradients import hold_results
from memplan.plan.emitted import Emitted
from memplan.plan.graph_report import GraphReport
from memplan.plan.options import Options
from memplan.plan.planner import GraphPlanner
from memplan.run.ledger import Beside, Ledger
from memplan.run.results import Result, Results, ReturnedKeys

if TYPE_CHECKING:
    from memplan.report import Report

NO_SMALLER = -1  # entry of `causes` for the warning that no smaller plan was found
MOST_TIMES = 4  # maximum number of times that steps are planned again


class BudgetFeedback:
    """Observations for one budget. A backend asks this object for plans, and whether to make new ones.

    `keeps_whole`: whether FSDP2's gathered parameters persist over several calls.
    """

    keeps_whole = False

    def __init__(self) -> None:
        self.ledger = Ledger()  # the pending calls of this model, not of all models in the process
        self.results = Results()  # the results of finished calls of this model
        self.n_bytes = self.n_times = 0  # n_bytes: observed bytes that plans count; n_times: how often steps were planned again
        self.uncounted_bytes = 0  # observed bytes that no plan counts yet
        self.most_kept: dict[Any, int] = {}  # for each frame of user code: limit on the bytes that its graphs save for backward
        # for each frame of user code: bytes of earlier results that exist during its forward
        self.results_bytes: dict[Any, int] = {}
        self.new_bytes = 0  # bytes that hooks of the model allocate at the end of forward
        self.is_beyond = False  # whether uncounted_bytes, results_bytes or most_kept has changed since the last plans were made
        # for each frame and its input sizes: the bytes of keep-all and of the floor, without memory of other calls
        self.alone: dict[Any, tuple[int, int]] = {}
        self.causes: set[int] = set()  # causes that were reported, as indices into Beside.causes()

    def take_over(self, graph: GraphReport, beside: Beside, is_shared: bool = False) -> None:
        """Record that a call exceeds its budget. Warn once per cause. The plan of the next step counts the memory of this call.

        Plans of several ranks do not change, because other ranks would not observe the same memory.
        """
        # the last plan saves more than its limit, so another plan would not save less
        is_stuck = graph.waiting_bytes > self.most_kept.get(graph.frame, graph.waiting_bytes)
        is_known = beside.replaced_bytes <= self.results_bytes.get(graph.frame, 0)
        can_learn = beside.learned_bytes > 0 or (beside.kept_less > 0 and not is_stuck) or not is_known
        is_last = self.n_times == MOST_TIMES or not can_learn
        ends = "no smaller plan was found" if is_last else "the next step is planned with this memory"
        if is_shared:
            ends = "the ranks keep their common plan; reduce the budget by this amount"
        causes = {NO_SMALLER} if is_last else {k for k, is_one in enumerate(beside.causes()) if is_one}
        if not causes <= self.causes:
            self.causes |= causes
            warnings.warn(f"memplan: {beside.sentence(graph, ends)}", FallbackWarning, stacklevel=4)
        if beside.learned_bytes > self.uncounted_bytes:
            self.uncounted_bytes, self.is_beyond = beside.learned_bytes, True
        if beside.kept_less:
            self.keep_less(graph, beside.kept_less)
        self.new_bytes = max(self.new_bytes, beside.new_bytes)
        self.carry(graph, beside.replaced_bytes)

    def has_called(self, report: Report, returned: ReturnedKeys, result: Any) -> None:
        """Take note of a call of the model that has returned `result`."""

    def carry(self, graph: GraphReport, n_bytes: int) -> None:
        """Plan the next step of this user code with n_bytes of earlier results during forward."""
        if n_bytes > self.results_bytes.get(graph.frame, 0):
            self.results_bytes[graph.frame], self.is_beyond = n_bytes, True

    def reports_stored(self, results: list[Result]) -> bool:
        """Report tensors that user code stores, if plans cannot count them. Return whether this is the case."""
        return False

    def keep_less(self, graph: GraphReport, n_bytes: int) -> None:
        """Limit the bytes that later plans of this user code (the graph's frame) save for backward."""
        before = self.most_kept.get(graph.frame, graph.waiting_bytes)
        self.most_kept[graph.frame] = max(0, min(before, graph.waiting_bytes - n_bytes))
        self.is_beyond = self.is_beyond or n_bytes > 0

    def plan(self, planner: GraphPlanner, options: Options) -> tuple[GraphPlanner, Emitted, int]:
        """Plan a graph. Return the planner, the graphs of the plan, and the budget. Raises BudgetError."""
        if planner.choice is not None:
            found: tuple[GraphPlanner, Emitted, int] = planner.choice.solve(options, self.n_times == 0)
            return found
        return planner, *planner.solve(options, is_first=self.n_times == 0)

    def changed(self, options: Options, report: Report, is_shared: bool) -> Options | None:
        """Return the options for new plans, or None to keep the plans.

        New plans require that no call of the model is pending. They count the memory observed besides the model's calls.

        Args:
            options: the present options.
            report: the report of the present plans.
            is_shared: whether several ranks share the plans. Such plans remain, because ranks would observe different memory.
        """
        if not self.is_beyond or is_shared or self.ledger.n_calls or self.n_times == MOST_TIMES:
            return None
        self.n_times += 1
        self.n_bytes += self.uncounted_bytes
        self.uncounted_bytes, self.is_beyond = 0, False
        return dataclasses.replace(options, budget=max(g.budget_bytes for g in report.graphs), on_infeasible="smallest")

    def leave_room(self, capture: Capture, frame: Any, budget: Budget, outside_bytes: int) -> None:
        """Reserve memory at the end of forward for other calls, so that the graph saves less.

        Results of earlier calls become a storage of the graph.
        """
        hold_results(capture, self.results_bytes.get(frame, 0))
        most, room = self.most_kept.get(frame), self.new_bytes
        capture.new_bytes = self.new_bytes
        if most is not None and isinstance(budget, int):
            static = sum(s.n_bytes for s in capture.storages if s.kind not in DYNAMIC) + outside_bytes
            room = max(room, budget - static - most)
        capture.operations[capture.boundary].workspace_bytes = room

    def report_alone(self, graph: GraphReport, capture: Capture) -> None:
        """Let the report state keep-all and floor of the graph's first plan, which counts no memory of other calls."""
        sizes = tuple(s.n_bytes for s in capture.storages if s.kind == "input")
        alone = self.alone.setdefault((graph.frame, sizes), (graph.keep_all_bytes, graph.floor_bytes))
        graph.keep_all_bytes, graph.floor_bytes = alone
