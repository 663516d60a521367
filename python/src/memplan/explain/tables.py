"""Tables of bytes and shares as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from memplan.budget import in_units

NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)|^\d+(?=\.|$)")  # pattern of a block's number within a module name
MOST_LINES = 10  # maximum number of lines per table


def together(rows: dict[str, int]) -> list[tuple[str, int]]:
    """Merge rows of modules whose names differ in a number only."""
    found: dict[str, list[tuple[str, int]]] = {}
    for name, n in rows.items():
        found.setdefault(NUMBER.sub("*", name), []).append((name, n))
    all_of = [
        (f"{pattern}, {len(those)} of them" if len(those) > 1 else those[0][0], sum(n for _, n in those))
        for pattern, those in found.items()
    ]
    return sorted(all_of, key=lambda row: -row[1])


def table(title: str, rows: Iterable[tuple[str, int]], total: int, nameless: str = "") -> Iterator[str]:
    filled = [(name or nameless, n) for name, n in rows if n > 0]
    shown, rest = filled[:MOST_LINES], filled[MOST_LINES:]
    if rest:
        shown.append((f"{len(rest)} more", sum(n for _, n in rest)))
    yield from ("", f"  {title}")
    yield from (f"    {in_units(n):>12} {n / max(1, total):6.1%}  {name}" for name, n in shown)
