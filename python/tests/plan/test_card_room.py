"""Budgets are lowered until the allocator serves the step on the named card."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import memplan
from memplan.library.quantities import try_budgets
from memplan.plan import planner


def test_budgets_are_lowered_by_the_excess() -> None:
    tried: list[int] = []

    def excess(n_bytes: int) -> int:
        tried.append(n_bytes)
        return n_bytes + n_bytes // 4 - 1000

    try_budgets(1000, excess)
    assert tried == [1000, 750]
    tried.clear()
    try_budgets(600, excess)
    assert tried == [600]


def test_errors_of_a_trial_are_raised() -> None:
    def fails(n_bytes: int) -> int:
        raise KeyError(n_bytes)

    with pytest.raises(KeyError, match="7"):
        try_budgets(7, fails)


@pytest.mark.filterwarnings("ignore:memplan. nothing runs on the meta device")
def test_a_step_is_planned_again_if_the_allocator_needs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    budgets: list[int] = []
    within = planner.GraphPlanner.within

    def recorded(self: planner.GraphPlanner, budget: int, options: object) -> object:
        budgets.append(budget)
        return within(self, budget, options)  # type: ignore[arg-type]

    monkeypatch.setattr(planner.GraphPlanner, "within", recorded)
    monkeypatch.setattr(planner, "excess_of", lambda trace, room: 1 << 20 if len(budgets) < 3 else 0)
    with torch.device("meta"):
        model, x = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)), torch.empty(8, 64)
    memplan.estimate(model, (x,), device="h100", budget="auto")
    assert [budgets[0] - n for n in budgets[:3]] == [0, 1 << 20, 2 << 20] and len(budgets) == 3
