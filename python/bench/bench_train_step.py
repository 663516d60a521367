"""The tables of whole steps in docs/reference/python.md: planned and measured peak and extra time with AdamW(fused=True), on
the CPU; and the smallest plans with the optimizer's state on the device and on the host. Losses, weights, buffers and the
optimizer's state are eager's bits, else it stops.

make bench-python BENCH=train_step [NETWORKS="NAME..."]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import networks
import torch
import zoo
from step_pair import OPTIMIZERS, Pair

ROUNDS = 6
MIB = 1 << 20


def seconds_of(step: Callable[..., Any], inputs: tuple[Any, ...]) -> float:
    start = time.thread_time()
    step(*inputs)
    return time.thread_time() - start


def extra_time(pair: Pair, inputs: tuple[Any, ...]) -> float:
    """Of the fastest steps in processor time, taken in turns."""
    rounds = [(seconds_of(pair.eager_step, inputs), seconds_of(pair.step, inputs)) for _ in range(ROUNDS)]
    return min(ours for _, ours in rounds) / min(theirs for theirs, _ in rounds) - 1


def transformer(batch: int) -> zoo.Made:
    return networks.Transformer(0.1, 256, 6, 1000), networks.sequences(batch, 64, 1000)


CASES: dict[str, Callable[[], zoo.Made]] = {
    "transformer, 6 x 256, 1 x 64": lambda: transformer(1),
    "transformer, 6 x 256, 8 x 64": lambda: transformer(8),
    **{name: zoo.ZOO[name] for name in ("resnet18", "vision_transformer", "bert", "gpt2", "llama", "t5")},
}
STATE: dict[str, dict[str, Any]] = {
    "on the device": {},
    "on the host": {"offload": "4GiB", "offload_state": True},
}
ROWS = (("after", "100%"), ("after", "floor+50%"), ("backward", "floor+50%"), ("backward", "floor+20%"))


def checked(name: str, **options: Any) -> tuple[Pair, tuple[Any, ...]]:
    """A pair whose first steps were eager's."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, inputs = CASES[name]()
    pair = Pair(model, OPTIMIZERS["AdamW, fused"], **options)
    pair.check(*inputs, steps=2)
    return pair, inputs


def write_smallest(names: list[str]) -> None:
    write = sys.stdout.write
    write("| network | state | planned MiB | measured MiB | on the host MiB |\n")
    write("|---|---|---:|---:|---:|\n")
    for name in names:
        for k, (where, options) in enumerate(STATE.items()):
            pair, inputs = checked(name, budget="min", effort="normal", **options)
            report, peak = pair.step.memplan, pair.measured(*inputs)
            write(
                f"| {'' if k else name} | {where} | {report.planned_bytes / MIB:.2f} | {peak / MIB:.2f} |"
                f" {report.host_bytes / MIB:.2f} |\n"
            )
            sys.stdout.flush()


def write_budgets(names: list[str]) -> None:
    write = sys.stdout.write
    write("| network | updates | budget | planned MiB | measured MiB | planned | measured |\n")
    write("|---|---|---|---:|---:|---:|---:|\n")
    for name in names:
        for k, (fuse, budget) in enumerate(ROWS):
            options = {"fuse": fuse, "budget": budget, "effort": "normal", "on_infeasible": "smallest"}
            pair, inputs = checked(name, **options)
            if k == 0:
                write(f"| {name} | eager | | | {pair.eager_measured(*inputs) / MIB:.2f} | | |\n")
            report, peak = pair.step.memplan, pair.measured(*inputs)
            write(
                f"| | {fuse} | {budget} | {report.planned_bytes / MIB:.2f} | {peak / MIB:.2f} |"
                f" {report.overhead:+.1%} | {extra_time(pair, inputs):+.1%} |\n"
            )
            sys.stdout.flush()


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    for table in (write_budgets, write_smallest):
        table(names or list(CASES))


if __name__ == "__main__":
    main(sys.argv[1:])
