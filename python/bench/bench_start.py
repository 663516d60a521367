"""Duration of the first step: torch.compile with Inductor, memplan, and memplan with its cache on disk.

make bench-python BENCH=start [NETWORKS="NAME..."]
Seconds of the clock; `steps`: the median of steps of
eager and of the plan that keeps everything, in turns, in this thread's processor time.

Then how that grows with the blocks of a transformer, in seconds of the processor, in turns: PyTorch's capture by
itself (the backend aot_eager), memplan without and with what is on disk, and the first step with another budget for a model
that was captured.
"""

from __future__ import annotations

import copy
import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import networks
import torch
from against_eager import step_seconds
from bench_rivals import CASES

import memplan
from memplan.costs.measure import Costs
from memplan.run import backend

ROUNDS = 15
BUDGET = "floor+40%"
BLOCKS, BLOCK_ROUNDS = (12, 24, 48, 96), 1
OTHER_BUDGET = "floor+20%"


def first_step(model: Any, inputs: tuple[Any, ...]) -> float:
    start = time.perf_counter()
    model(*inputs).backward()
    return time.perf_counter() - start


def processor_seconds(model: Any, inputs: tuple[Any, ...]) -> float:
    """Of a first step, with those of the search's threads."""
    gc.collect()
    start = time.process_time()
    model(*inputs).backward()
    return time.process_time() - start


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


def of_blocks(n_blocks: int) -> list[float]:
    """Seconds of aot_eager, of memplan with nothing on disk and with all of it, and with another budget."""
    torch.manual_seed(0)
    plain, inputs = networks.Transformer(dropout=0.0, width=64, layers=n_blocks), networks.sequences(batch=4, length=32)
    start_again()
    figures = [processor_seconds(torch.compile(copy.deepcopy(plain), backend="aot_eager"), inputs)]
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            start_again()
            compiled = memplan.compile(copy.deepcopy(plain), BUDGET, cache=folder)
            figures.append(processor_seconds(compiled, inputs))
    compiled.zero_grad()
    memplan.compile(compiled, OTHER_BUDGET, cache="off")
    figures.append(processor_seconds(compiled, inputs))
    return figures


def write_blocks(write: Callable[[str], Any]) -> None:
    of_blocks(2)  # what the first capture of a process imports
    write("\n| blocks | aot_eager s | memplan s | again s | another budget s |\n|---:|---:|---:|---:|---:|\n")
    for n_blocks in BLOCKS:
        rounds = [of_blocks(n_blocks) for _ in range(BLOCK_ROUNDS)]
        figures = " | ".join(f"{statistics.median(times):.1f}" for times in zip(*rounds))
        write(f"| {n_blocks} | {figures} |\n")
        sys.stdout.flush()


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    write = sys.stdout.write
    write("| network | operators | Inductor s | memplan s | again s | of it planned | eager ms | keep all ms | |\n")
    write("|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
    for name in [n for n in names if n != "blocks"] if names else list(CASES):
        with tempfile.TemporaryDirectory() as folder:
            write(row(name, folder))
        sys.stdout.flush()
    if not names or "blocks" in names:
        write_blocks(write)


if __name__ == "__main__":
    main(sys.argv[1:])
