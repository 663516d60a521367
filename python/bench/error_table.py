"""A row of a table in docs/reference/accuracy.md: the errors of estimates beside published figures."""

from __future__ import annotations

import statistics


def summary(part: str, errors: list[float]) -> str:
    """Return the row of one part of the published rows. Errors are shares: 0.01 is 1 % above the published figure."""
    if not errors:
        return f"| {part} | 0 | | | |\n"
    size, bias = statistics.median(map(abs, errors)), statistics.median(errors)
    return f"| {part} | {len(errors)} | {size:.1%} | {bias:+.1%} | {min(errors):+.1%} to {max(errors):+.1%} |\n"
