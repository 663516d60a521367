#!/usr/bin/env python3
"""bench_ablation.py MEMPLAN DATA [--rows NAME ...] [--part stages|searchers ...] [--effort HOW] [--searcher NAME] [--log FILE] -
the gain by each stage of the bound and each searcher of `auto`, which are switched off one by one (`plan --without`), in Markdown
tables.

Stages are judged by the bound, searchers by the plan. The bound does not depend on the plan, but its late stages run
only while a plan is at hand that they may meet, so that the search runs too: `auto`, or --searcher, which is quicker. Both
figures are the same on every machine; only the processor seconds of the process depend on other
programs. A difference below 0.005 % of a step, half a digit of BENCHMARKS.md, is no difference. --log stores the measurements
row by row, and continues after them: a file for each effort and searcher."""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from depth_first import write_depth_first
from measured import data_folder, is_there

STAGES = ("floor", "interval", "disjoint", "couple", "overlap", "tree", "settle", "demand")
SEARCHERS = ("exact", "ilp", "chain", "lagrange", "anneal")
THRESHOLD = 0.005  # % of a step
SMALL = ("exact", "ilp")  # they take part in `auto` on tiny graphs only
Budgets = dict[str, dict[str, tuple[int, ...]]]
KUSUMOTO: Budgets = {  # of the stages, and of the searchers, whose runs take longer
    "stages": {"vgg19": (80, 70, 60), "unet": (80, 70, 60, 50, 40), "resnet50": (80, 60, 50, 40, 30, 25, 20, 15),
               "densenet": (80, 60, 50, 40, 30, 20, 10)},
    "searchers": {"unet": (50, 40), "resnet50": (50, 30, 20), "densenet": (50, 20)},
}
DAGS: Budgets = {
    "stages": {"RL_n100": (60,), "RL_n500": (60,), "checkmate_resnet50_train_b256": (40, 20),
               "checkmate_mobilenet_train_b512": (40, 20), "checkmate_vgg_unet_train_b32": (40,)},
    "searchers": {"RL_n100": (60,), "checkmate_mobilenet_train_b512": (20,)},
}
PARTS: dict[str, tuple[int, ...]] = {"stages": (50, 30, 15), "searchers": (15,)}  # of the way from floor to keep-all's peak
MODELS = ("resnet50", "mobilenet_v2", "unet", "inception_v3", "bert_base", "gpt2_small")
TINY = ("mlp4", "fashion_cnn")
GROUPS = ("kept", "free", "dags", "models", "tiny")


@dataclass(frozen=True)
class Row:
    """A graph and a budget."""

    name: str
    command: tuple[str, ...]
    is_tiny: bool = False


@dataclass(frozen=True)
class Found:
    """Extra time in % of a step, None: no plan, no bound; and the seconds of the processor that it took."""

    overhead: float | None
    bound: float | None
    seconds: float
    idle: tuple[str, ...] = ()  # stages that had nothing to do: without them all is the same


def batches(data: Path) -> dict[str, int]:
    """The largest batch of each model in the table of true sizes, as bench_search.py takes it."""
    found: dict[str, int] = {}
    with open(os.path.join(data, "truth/truth.csv")) as file:
        for row in csv.reader(file):
            if len(row) > 1 and row[1].isdigit():
                found[row[0]] = max(int(row[1]), found.get(row[0], 0))
    return found


def rows_of(group: str, part: str, data: Path, folder: str) -> list[Row]:
    rows: list[Row] = []
    if group in ("kept", "free"):
        for name, budgets in KUSUMOTO[part].items():
            graph = os.path.join(data, f"bench/graphs/kusumoto_{name}.json")
            if group == "kept":
                write_depth_first(graph, os.path.join(folder, f"{name}.json"))
                graph = os.path.join(folder, f"{name}.json")
            order = ("--keep-order",) if group == "kept" else ()
            rows += [Row(f"{name} {budget} %, {group}", (graph, "--budget", f"{budget}%", *order)) for budget in budgets]
    elif group == "dags":
        for name, budgets in DAGS[part].items():
            graph = os.path.join(data, f"bench/graphs/{name}.json")
            short = name.split("_train")[0].replace("checkmate", "cm")
            rows += [Row(f"{short} {budget} %", (graph, "--budget", f"{budget}%")) for budget in budgets]
    elif group == "models":
        sizes = batches(data)
        for name in MODELS:
            model = os.path.join(data, f"models/{name}.onnx")
            if not is_there(model):
                continue
            rows += [Row(f"{name} floor + {share} %", (model, "--batch", str(sizes[name]), "--budget", f"floor+{share}%"))
                     for share in PARTS[part]]
    else:
        here = os.path.dirname(os.path.abspath(__file__))
        for name in TINY:
            model = os.path.join(here, f"../../examples/{name}.onnx")
            rows += [Row(f"{name} floor + {share} %", (model, "--batch", "64", "--fuse", "backward", "--budget", f"floor+{share}%"),
                         is_tiny=True) for share in (50, 15)]
    return rows


def run(memplan: Sequence[str], row: Row, part: str, without: str) -> Found:
    """One answer of `plan`, run alone. The operating system provides its processor seconds."""
    command = [*memplan, *row.command, "--no-offsets", "--json"]
    command += ["--explain-bound"] if part == "stages" else []
    command += ["--without", without] if without else []
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        status, usage = os.wait4(child.pid, 0)[1:]
        if os.waitstatus_to_exitcode(status) not in (0, 1, 3):  # 3: not known whether anything fits
            raise SystemExit(f"bench: {' '.join(command)}: status {status}")
        out.seek(0)
        answer: dict[str, Any] = json.load(out)
    base = answer["baseline_seconds"]
    stages = answer["bound"]["stages"] if part == "stages" else []
    idle = SMALL if part == "searchers" and not row.is_tiny else tuple(s["stage"] for s in stages if not (s["cuts"] or s["pivots"] or s["states"] or s["infeasible"]))
    bound = answer["bound"]["seconds"] if part == "stages" else answer["lower_bound_seconds"]
    return Found(overhead=100 * answer["overhead"] if answer["feasible"] else None,
                 bound=None if bound is None else 100 * (bound / base - 1), seconds=usage.ru_utime, idle=idle)


class Log:
    """The measurements, one JSON line each."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.known: dict[tuple[str, str, str], Found] = {}
        if path and os.path.exists(path):
            with open(path) as file:
                for line in file:
                    part, row, without, overhead, bound, seconds, idle = json.loads(line)
                    self.known[part, row, without] = Found(overhead, bound, seconds, tuple(idle))

    def find(self, memplan: Sequence[str], row: Row, part: str, without: str) -> Found:
        key = (part, row.name, without)
        if key not in self.known:
            found = run(memplan, row, part, without)
            self.known[key] = found
            if self.path:
                with open(self.path, "a") as file:
                    file.write(json.dumps([*key, found.overhead, found.bound, found.seconds, found.idle]) + "\n")
        return self.known[key]


def difference(part: str, whole: Found, found: Found) -> float | None:
    """How much worse it is without: of a bound how much lower, of a plan how much dearer; None: there is no plan any more."""
    if part == "stages":
        return (whole.bound or 0) - (found.bound or 0)
    if found.overhead is None:
        return None if whole.overhead is not None else 0.0
    return found.overhead - whole.overhead if whole.overhead is not None else float("-inf")


def text(value: float | None) -> str:
    if value is None:
        return "no plan"
    if value == float("-inf"):
        return "a plan"
    return "" if abs(value) < THRESHOLD else f"{value:+.2f}"


def table(memplan: Sequence[str], part: str, rows: list[Row], log: Log) -> None:
    names = STAGES if part == "stages" else SEARCHERS
    what = "bound" if part == "stages" else "auto"
    print(f"| row | {what} | seconds | {' | '.join(names)} |\n|{'-|' * (len(names) + 3)}")
    moved = dict.fromkeys(names, 0)
    better = dict.fromkeys(names, 0)
    total = dict.fromkeys(names, 0.0)
    seconds = dict.fromkeys(("", *names), 0.0)
    for row in rows:
        whole = log.find(memplan, row, part, "")
        value = whole.bound if part == "stages" else whole.overhead
        seconds[""] += whole.seconds
        cells: list[str] = []
        for name in names:
            found = whole if name in whole.idle else log.find(memplan, row, part, name)
            worse = difference(part, whole, found)
            cells.append(text(worse))
            seconds[name] += found.seconds
            moved[name] += bool(cells[-1]) and (worse is None or worse > 0)
            better[name] += bool(cells[-1]) and worse is not None and worse < 0
            total[name] += worse if worse is not None and abs(worse) != float("inf") else 0.0
        print(f"| {row.name} | {'-' if value is None else f'{value:.2f}'} | {whole.seconds:.1f} | {' | '.join(cells)} |", flush=True)
    print(f"| rows that are worse without | | | {' | '.join(str(moved[name]) for name in names)} |")
    print(f"| rows that are better without | | | {' | '.join(str(better[name]) for name in names)} |")
    print(f"| sum of differences | | | {' | '.join(f'{total[name]:+.2f}' for name in names)} |")
    print(f"| processor seconds | | {seconds['']:.0f} | {' | '.join(f'{seconds[name]:.0f}' for name in names)} |\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("memplan")
    parser.add_argument("data", type=data_folder)
    parser.add_argument("--rows", nargs="+", choices=GROUPS, default=GROUPS)
    parser.add_argument("--part", nargs="+", choices=("stages", "searchers"), default=("stages", "searchers"))
    parser.add_argument("--effort", default="normal", choices=("quick", "normal", "thorough"))
    parser.add_argument("--searcher", default="auto", help="of the plans beside which stages are judged")
    parser.add_argument("--log")
    asked = parser.parse_args()
    log = Log(asked.log)
    with tempfile.TemporaryDirectory() as folder:
        for part in asked.part:
            rows = [row for group in asked.rows for row in rows_of(group, part, asked.data, folder)]
            searcher = ("--solver", asked.searcher) if part == "stages" else ()
            table((asked.memplan, "plan", "--effort", asked.effort, *searcher), part, rows, log)


if __name__ == "__main__":
    main()
