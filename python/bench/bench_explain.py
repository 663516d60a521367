"""The cost of explain_oom in a step without a failure.

make bench-python BENCH=explain

Steps with and without explain_oom run alternately. Their times are processor seconds of all threads. The cost of the hook
alone is measured separately.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import nn

import memplan

PAIRS, CALLS = 301, 2000


def seconds_of(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def with_it(step: Callable[[], object]) -> float:
    watching = memplan.explain_oom()
    try:
        step()  # the first is the one in which it is new
        return seconds_of(step)
    finally:
        watching.remove()


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 2, 128, batch_first=True)
    model, x = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False), torch.randn(4, 32, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    pairs = []
    for k in range(PAIRS):
        without = seconds_of(step) if k % 2 else 0.0
        ours = with_it(step)
        pairs.append((ours, without or seconds_of(step)))
    low, middle, high = statistics.quantiles([ours / without for ours, without in pairs], n=4)
    milliseconds = 1e3 * statistics.median(without for _, without in pairs)
    sys.stdout.write(
        f"a step of {milliseconds:.1f} ms, {PAIRS} pairs: {middle:.3f} times, half of them {low:.3f} to {high:.3f}\n"
    )

    small, one = nn.Linear(8, 8), torch.ones(1, 8)
    optimizer = torch.optim.SGD(small.parameters(), lr=0.0)  # without gradients its step is only its hooks

    def steps() -> None:
        for _ in range(CALLS):
            small(one)
            optimizer.step()

    def watched_steps() -> None:
        with memplan.explain_oom():
            steps()

    found = [(seconds_of(watched_steps) - seconds_of(steps)) / CALLS for _ in range(9)]
    sys.stdout.write(f"the hook: {1e6 * statistics.median(found):.0f} microseconds a step\n")


if __name__ == "__main__":
    main()
