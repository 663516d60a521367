"""Margins of published rows."""

from __future__ import annotations

import pytest
from published_rows import margin_line, margin_of


def test_19_of_20_rows_need_at_most_the_margin() -> None:
    """Estimates of 100 bytes; two of 40 measured jobs need more than the margin allows."""
    measured = [100.0] * 30 + [90.0] * 7 + [104.0, 130.0, 150.0]
    margin = margin_of([100 / m - 1 for m in measured])
    assert margin == pytest.approx(0.04)
    assert margin_of([0.1, 0.2]) == 0


def test_a_margin_is_judged_by_other_rows() -> None:
    line = margin_line("kind", [100 / 104 - 1], [100 / 103 - 1, 100 / 105 - 1])
    assert "4.0%" in line and "1 of 2 others" in line
