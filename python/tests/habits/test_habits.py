"""Every row of the table of habits in docs/reference/habits.md is run, and the table is made from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from habits import calls, frameworks, gradients, loops, models, precision
from habits.trial import HABITS, Habit, faults, table

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "habits.md"
ROOMS = (loops, gradients, models, calls, precision, frameworks)  # whose import fills HABITS


@pytest.mark.parametrize("habit", HABITS, ids=[h.what for h in HABITS])
def test_a_habit_is_as_the_table_says(habit: Habit) -> None:
    for package in habit.needs:
        pytest.importorskip(package, exc_type=ImportError)
    assert faults(habit) == []


def test_the_document_has_the_table() -> None:
    assert len(HABITS) >= 60
    assert table(HABITS) in DOCUMENT.read_text(), "python/tests/habits: write the table anew, `python3 -m habits`"
