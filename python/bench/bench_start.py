"""What the first step takes: torch.compile with Inductor, memplan, and memplan once more with what it has kept on disk.

make bench-python BENCH=start [NETWORKS="NAME..."]
Seconds of the clock; `steps`: the median of steps of
eager and of the plan that keeps everything, in turns, in this thread's processor time.
"""

from __future__ import annotations

import copy
import os
import statistics
import sys
import tempfile
import time
from typing import Any

import torch
from against_eager import step_seconds
from bench_rivals import CASES

import memplan
from memplan.costs.measure import Costs
from memplan.run import backend

ROUNDS = 15
BUDGET = "floor+40%"


def first_step(model: Any, inputs: tuple[Any, ...]) -> float:
    start = time.perf_counter()
    model(*inputs).backward()
    return time.perf_counter() - start


def start_again() -> None:
    """As in a new process."""
    torch._dynamo.reset()
    backend.COSTS = Costs()


def row(name: str, folder: str) -> str:
    torch.manual_seed(0)
    model, inputs = CASES[name][0]()
    eager = copy.deepcopy(model)
    first_step(eager, inputs)
    figures = []
    for _ in range(2):
        start_again()
        compiled = memplan.compile(copy.deepcopy(model), BUDGET, cache=folder, on_infeasible="smallest")
        figures.append(first_step(compiled, inputs))
    graph = compiled.memplan.graph
    start_again()
    keep_all = memplan.compile(copy.deepcopy(model), "100%", cache=folder, on_infeasible="smallest")
    first_step(keep_all, inputs)
    rounds = [(step_seconds(eager, inputs), step_seconds(keep_all, inputs)) for _ in range(ROUNDS)]
    theirs, ours = (statistics.median(times) for times in zip(*rounds))
    torch._dynamo.reset()
    with tempfile.TemporaryDirectory() as fresh:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = fresh
        inductor = first_step(torch.compile(copy.deepcopy(model), dynamic=False), inputs)
    return (
        f"| {name} | {graph.n_operators} | {inductor:.1f} | {figures[0]:.1f} | {figures[1]:.1f} | {graph.plan_seconds:.2f} |"
        f" {theirs * 1e3:.0f} | {ours * 1e3:.0f} | {ours / theirs - 1:+.1%} |\n"
    )


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    write = sys.stdout.write
    write("| network | operators | Inductor s | memplan s | again s | of it planned | eager ms | keep all ms | |\n")
    write("|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
    for name in names or list(CASES):
        with tempfile.TemporaryDirectory() as folder:
            write(row(name, folder))
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
