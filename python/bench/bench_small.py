"""The table of docs/reference/python.md: planned and measured peak, planned and measured extra time, on the CPU.

make bench-python BENCH=small
"""

from __future__ import annotations

import copy
import sys
import time
from typing import Any

import networks
import torch
from against_eager import peak_of_step, static_bytes, step_seconds

import memplan

ROUNDS = 6
MIB = 1 << 20


def extra_time(model: Any, eager: Any, inputs: tuple[Any, ...]) -> float:
    """Of the fastest steps in processor time, taken in turns."""
    rounds = [(step_seconds(eager, inputs), step_seconds(model, inputs)) for _ in range(ROUNDS)]
    return min(ours for _, ours in rounds) / min(theirs for theirs, _ in rounds) - 1


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    cases = {
        "convolutions, 64 channels, 16 x 64 x 64": (networks.Convolutions(64), networks.images(16, 64)),
        "U-Net, 32 channels, 4 x 128 x 128": (networks.UNet(32), networks.pictures(4, 128)),
        "transformer, 6 x 256, 8 x 64": (networks.Transformer(0.1, 256, 6, 1000), networks.sequences(8, 64, 1000)),
    }
    write = sys.stdout.write
    write("| network | budget | planned MiB | measured MiB | planned | proved | measured | first step s |\n")
    write("|---|---|---:|---:|---:|---:|---:|---:|\n")
    for name, (model, inputs) in cases.items():
        eager = copy.deepcopy(model)
        base = static_bytes(model, inputs)
        write(f"| {name} | eager | | {(base + peak_of_step(eager, inputs)) / MIB:.2f} | | | | |\n")
        for budget in ("100%", "floor+50%", "floor+20%"):
            torch._dynamo.reset()
            start = time.perf_counter()
            compiled = memplan.compile(copy.deepcopy(model), budget, on_infeasible="smallest")
            compiled(*inputs).backward()
            first = time.perf_counter() - start
            report = compiled.memplan
            peak = base + peak_of_step(compiled, inputs)
            extra = extra_time(compiled, eager, inputs)
            write(
                f"| | {budget} | {report.planned_bytes / MIB:.2f} | {peak / MIB:.2f} | {report.overhead:+.1%} |"
                f" {report.proved_overhead:+.1%} | {extra:+.1%} | {first:.1f} |\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
