"""The backend of a stage: its rank has the plan, which is made with those of the rank's other stages."""

from __future__ import annotations

import functools
from typing import Any

from torch import fx

from memplan.run.backend import Backend
from memplan.run.captured import Captured


class StageBackend(Backend):
    stage: Any = None  # schedules.rank.Stage

    def captures_again(self) -> bool:
        self.generation += self.stage.is_to_be_planned(self.options)
        return False

    def graphs_of_plan(self, captured: Captured, start: float) -> tuple[fx.GraphModule, fx.GraphModule]:
        known = captured.planner
        assert known is not None
        known.solve = functools.partial(self._solve, captured, known)  # type: ignore[method-assign]
        graphs = super().graphs_of_plan(captured, start)
        if captured.graph is not None and (graph := captured.graph()) is not None:
            self.stage.report_alone(graph, known.capture)
        return graphs

    def _solve(self, captured: Captured, known: Any, options: Any, is_first: bool = True) -> Any:
        planner, emitted, budget = self.stage.plan(known, options)
        known.planning, known.static_bytes, known.outside_bytes = planner.planning, planner.static_bytes, planner.outside_bytes
        return emitted, budget
