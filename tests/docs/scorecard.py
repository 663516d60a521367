#!/usr/bin/env python3
"""scorecard.py [write] - docs/internals/scorecard.md, computed from the recorded tables: compares it, or writes it anew.

Each row has a claim, its figures, the table from which they are computed, and the command that measures this table.
"""

from __future__ import annotations

import csv
import pathlib
import re
import sys
import textwrap
from statistics import median

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "docs/internals/scorecard.md"
FOLDERS = {"planner": "tests/bench/tables", "pytorch": "python/bench/tables"}
HEAD = """# Scorecard

For developers and for readers who compare memplan with other programs: measured results, one per line. `make docs`
computes this page from CSV files in `tests/bench/tables` and `python/bench/tables`.
[BENCHMARKS.md](../../BENCHMARKS.md) explains the experiments and shows rows of the tables.

Extra time is in % of a step without recomputation. A gap is the extra time of a plan minus a proved lower bound on it.
The brackets name the table and the command that measures it. Scripts without a folder are in `tests/bench`. Most of
them need [external data](data.md). `make bench-python` installs PyTorch.
"""

Row = dict[str, str]
HALF = 1e-9  # an exact half is rounded up


def table(name: str) -> list[Row]:
    folder = next(f for f in FOLDERS.values() if (ROOT / f / f"{name}.csv").exists())
    with open(ROOT / folder / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def number(text: str) -> float | None:
    """The first number of a cell: "+5.7%", "1,228", "-27.7 %"; None: it has none."""
    match = re.search(r"[+-]?\d[\d,]*\.?\d*", text or "")
    return float(match[0].replace(",", "")) if match else None


def numbers(rows: list[Row], *columns: str) -> list[float]:
    found = [number(row[c]) for row in rows for c in columns]
    return [x for x in found if x is not None]


def gaps(rows: list[Row], column: str) -> list[float]:
    """Differences between a column and the bound, in the rows that have both."""
    pairs = [(number(row[column]), number(row["bound"])) for row in rows]
    return [a - b for a, b in pairs if a is not None and b is not None]


def better_equal_worse(rows: list[Row]) -> str:
    pairs = [(number(r["thorough"]), number(r["best known"])) for r in rows]
    signs = [(a > b) - (a < b) for a, b in pairs if a is not None and b is not None]
    return f"better in {signs.count(-1)}, equal in {signs.count(0)}, worse in {signs.count(1)} rows"


# ---- one function per claim: the figures ----


def real_networks(rows: list[Row]) -> str:
    others = ("chen", "segments", "lower-set", "chain", "lagrange")
    cheaper = sum(min(numbers([r], *others), default=1e9) < numbers([r], "normal")[0] for r in rows if numbers([r], "normal"))
    found = gaps(rows, "normal")
    gap = f"gap {median(found) + HALF:.2f} median, {max(found):.2f} largest"
    return f"{len(found)} of {len(rows)} rows have a plan; {gap}; another searcher is cheaper in {cheaper}"


def seconds_of_effort(rows: list[Row]) -> str:
    found = [float(x) for row in rows for cell in row.values() for x in re.findall(r"([\d.]+) s$", cell)]
    return f"{median(found):.1f} s median, {max(found):.1f} s longest, of {len(found)} plans"


def kusumoto(_: list[Row]) -> str:
    rows = table("kusumoto_kept") + table("kusumoto_free")
    return f"{better_equal_worse(rows)}; gap {median(gaps(rows, 'thorough')):.2f} median"


def without_backward(rows: list[Row]) -> str:
    return better_equal_worse(rows)


def copies(rows: list[Row]) -> str:
    parts = []
    for rate in dict.fromkeys(r["GB/s"] for r in rows):
        some = [r for r in rows if r["GB/s"] == rate]
        parts.append(f"{rate} GB/s: {median(numbers(some, 'both')):.2f} instead of {median(numbers(some, 'recompute')):.2f}")
    return "median extra time at " + "; ".join(parts)


def large_graphs(rows: list[Row]) -> str:
    found = gaps(rows, "auto")
    return f"up to {max(numbers(rows, 'nodes')):,.0f} nodes: {max(numbers(rows, 'seconds')):.1f} s, {max(numbers(rows, 'MiB')):.0f} MiB, gap {max(found):.2f} at most"


def largest_batch(rows: list[Row]) -> str:
    ratios = [numbers([r], "recompute")[0] / numbers([r], "Checkmate")[0] for r in rows]
    return f"{min(ratios):.1f} to {max(ratios):.1f} times the batch of Checkmate's paper in {len(rows)} networks"


def packing(rows: list[Row]) -> str:
    placed = len(numbers(rows, "height"))
    return f"{placed} of {len(rows)} instances placed within their capacity, {max(numbers(rows, 'seconds')):.2f} s at most"


def spread(rows: list[Row]) -> str:
    return f"the worst of 8 runs is at most {max(numbers(rows, 'worst / median')):.2f} times the median, in {len(rows)} rows"


def sequences(rows: list[Row]) -> str:
    exact = [r for r in rows if numbers([r], "more")[0] == 0]
    return f"optimal in {len(exact)} of {len(rows)} rows, {max(numbers(rows, 'more')):.2f} % more runs at most"


def transformers(rows: list[Row]) -> str:
    found = numbers(rows, "ratio")
    return f"{min(found):.2f} to {max(found):.2f} of PyTorch's time, in {len(rows)} rows"


def exports(rows: list[Row]) -> str:
    tried, trained = rows[0], rows[-1]
    return "; ".join(f"{name}: {trained[name]} of {tried[name]}" for name in tried if name != "source")


def strangers(rows: list[Row]) -> str:
    total = {c: int(sum(numbers(rows, c))) for c in ("rows", "kept", "told", "silent")}
    return f"{total['rows']} rows: {total['kept']} keep the planned peak and all bits, {total['told']} warn before, {total['silent']} fail silently"


def zoo(rows: list[Row]) -> str:
    extra = "floor + 10 % extra"
    found = gaps([{"extra": r[extra], "bound": r["proved"]} for r in rows], "extra")
    return f"{len(rows)} networks at floor + 10 %: extra time {median(numbers(rows, extra)):.1f} median, gap {median(found):.1f} median"


def rivals(rows: list[Row]) -> str:
    parts = []
    for rival in ("checkpoint per block", "activation_memory_budget"):
        some = [r for r in rows if r["means"].startswith(rival) and numbers([r], "memplan at this peak")]
        wins = sum(numbers([r], "memplan at this peak")[0] < numbers([r], "over eager")[0] for r in some)
        parts.append(f"faster than `{rival.replace('checkpoint per block', 'checkpoint')}` in {wins} of {len(some)} rows")
    return "; ".join(parts)


def start(rows: list[Row]) -> str:
    return f"{median(numbers(rows, 'memplan s')):.1f} s median, with `torch.compile` {median(numbers(rows, 'Inductor s')):.1f} s"


def whole_steps(rows: list[Row]) -> str:
    pairs = [(number(r["planned MiB"]), number(r["measured MiB"])) for r in rows]
    errors = [abs(b - a) / a * 100 for a, b in pairs if a is not None and b is not None]
    return f"planned and measured peak differ by at most {max(errors):.2f} % in {len(errors)} rows"


def formulas(rows: list[Row]) -> str:
    return "; ".join(f"{r['source']} {r['median here']} off in the median" for r in rows if r["source"] != "both")


def one_rank(rows: list[Row]) -> str:
    found = [abs(x) for x in numbers(rows, "error")]
    return f"{median(found):.1f} % off in the median, {max(found):.1f} % at most, in {len(found)} rows"


SEARCH, PYTHON = "bench_search.py", "make bench-python BENCH="
CLAIMS = {
    "Plans": [
        ("12 networks at four budgets, near the proved bound", real_networks, "models", SEARCH),
        ("processor seconds of a search", seconds_of_effort, "effort", SEARCH),
        ("Kusumoto's graphs, against the best plan of long runs", kusumoto, "kusumoto_kept", SEARCH),
        ("graphs without a backward phase, against the best known plan", without_backward, "dags", SEARCH),
        ("recomputing and copying together, against recomputing only", copies, "offload", "bench_offload.py"),
        ("large graphs", large_graphs, "large", SEARCH),
        ("the largest batch in 16e9 bytes", largest_batch, "largest_batch", "examples/largest_batch/run.sh"),
        ("MiniMalloc's packing instances", packing, "minimalloc", "bench_pack.sh"),
        ("repeated runs under a time limit", spread, "spread", "bench_spread.py"),
        ("backpropagation through 1,000 steps, against the optimum", sequences, "sequences", "bench_sequences.py"),
    ],
    "PyTorch": [
        ("networks drawn by a fixed seed", strangers, "strangers", PYTHON + "strangers"),
        ("networks of libraries", zoo, "zoo", PYTHON + "zoo"),
        ("at the same measured peak as another method", rivals, "rivals", PYTHON + "rivals"),
        ("seconds of the first step", start, "start", PYTHON + "start"),
        ("whole steps with the optimizer", whole_steps, "train_step", PYTHON + "train_step"),
    ],
    "Training and estimates": [
        ("keep-all steps of transformers on the CPU", transformers, "transformers_cpu", "bench_training.sh"),
        ("exported networks, trained with the same bits", exports, "exports", "tests/exports.py"),
        ("published peaks of torchtitan and torchtune", formulas, "formulas_errors", "bench_formulas.py"),
        ("peak of one rank, against published peaks", one_rank, "mesh", PYTHON + "mesh"),
    ],
}


def page() -> str:
    parts = [HEAD]
    for title, claims in CLAIMS.items():
        parts.append(f"\n## {title}\n\n")
        for claim, figures, name, command in claims:
            text = f"**{claim}**: {figures(table(name))} (`{name}.csv`; `{command}`)"
            parts.append(
                "\n".join(textwrap.wrap(text, 118, initial_indent="* ", subsequent_indent="  ", break_long_words=False)) + "\n"
            )
    return "".join(parts)


def main(mode: str) -> int:
    if mode == "write":
        (ROOT / PAGE).write_text(page())
    elif not (ROOT / PAGE).exists() or page() != (ROOT / PAGE).read_text():
        print(f"{PAGE} is out of date: make docs")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
