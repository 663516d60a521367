#!/usr/bin/env python3
"""tuning.py [write] - docs/internals/tuning.md is made from planner/math/tuning.def: compares it, or writes it anew."""

from __future__ import annotations

import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE, PAGE = "planner/math/tuning.def", "docs/internals/tuning.md"
ROW = re.compile(r'(?:INTEGER|REAL)\((\w+), (.+), "([^"]*)", "([^"]*)"\)')
GROUP = re.compile(r"/\* ---- (.*) ---- \*/")
HEAD = """# The constants of the planner

For developers. `make docs` makes this page from [`planner/math/tuning.def`](../../planner/math/tuning.def).

The constants trade the quality of plans and bounds for time and memory. A larger limit gives better results and takes
longer, unless its text says otherwise. Every value yields plans that pass the checker. A change can select other
plans, so it changes golden outputs and the tables of [BENCHMARKS.md](../../BENCHMARKS.md).

An entry has the form `NAME=N`: meaning (origin). N is the value. The origin is the table in `tests/bench/tables` that
set the value, or the commit whose message has the figures (`git show`). Constants without an origin were never measured
alone. "%" means percent of moves, "part of a step" a fraction of the time of a step of keep-all.

To try a value, change its row in `tuning.def`, build, and run `make bench`. If a constant was never measured alone and
only one file uses it, it is defined in that file and not in this list.
"""


def page() -> str:
    parts = [HEAD]
    for n, line in enumerate((ROOT / TABLE).read_text().splitlines(), 1):
        if group := GROUP.fullmatch(line):
            parts.append(f"\n## {group[1]}\n\n")
        if not line.startswith(("INTEGER(", "REAL(")):
            continue
        row = ROW.fullmatch(line)
        if not row:
            raise SystemExit(f'tuning: {TABLE}:{n} is not INTEGER(NAME, value, "meaning", "origin")')
        name, value, meaning, origin = row.groups()
        for source in re.findall(r"(\w+)\.csv", origin):
            if not (ROOT / f"tests/bench/tables/{source}.csv").exists():
                raise SystemExit(f"tuning: {TABLE}:{n}: there is no table {source}.csv")
        measured = ", ".join(source for source in origin.split(", ") if "prototype" not in source)
        text = f"`{name}={value}`: {meaning}" + (f" ({measured})" if measured else "")
        parts.append("\n".join(textwrap.wrap(text, 118, initial_indent="* ", subsequent_indent="  ", break_on_hyphens=False)))
        parts.append("\n")
    return "".join(parts)


def main(mode: str) -> int:
    if mode == "write":
        (ROOT / PAGE).write_text(page())
    elif page() != (ROOT / PAGE).read_text():
        print(f"{PAGE} is out of date: make docs")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
