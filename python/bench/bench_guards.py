"""The cost of the guards in a step: ledger, version comparisons, detection of second-order gradients, modes and hooks.

make bench-python BENCH=guards

Steps with and without guards run alternately with the same plan. Their times are processor seconds of all threads.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import networks
import torch
from torch import nn

import memplan
from memplan.run import fallback, saved_tensors
from memplan.run.ledger import MeasuredCall
from memplan.run.second_order import Differentiable

PAIRS = 31


def straight(self: Any, *inputs: Any) -> Any:
    return self.compiled(*inputs)


@contextlib.contextmanager
def without_guards() -> Iterator[None]:
    with (
        mock.patch.object(MeasuredCall, "__call__", straight),
        mock.patch.object(Differentiable, "__call__", straight),
        mock.patch.object(saved_tensors, "node_of", lambda *_: None),
        mock.patch.object(fallback, "beyond_capture", lambda: None),
    ):
        yield


def resnet18() -> tuple[nn.Module, tuple[Any, ...]]:
    from torchvision.models import resnet18 as make

    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = make()

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return nn.functional.cross_entropy(self.body(x), y)

    return WithLoss(), (torch.randn(8, 3, 224, 224), torch.randint(1000, (8,)))


def seconds_of(step: Callable[[], None]) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    cases = {
        "transformer, 12 x 256, 8 x 64": (networks.Transformer(0.1, 256, 12, 1000), networks.sequences(8, 64, 1000)),
        "resnet18, 8 x 224 x 224": resnet18(),
    }
    sys.stdout.write("| network | a step | its guards | half of the pairs between |\n|---|---:|---:|---:|\n")
    for name, (model, inputs) in cases.items():
        compiled = memplan.compile(model, "floor+50%", on_infeasible="smallest")

        def step(model: Any = compiled, inputs: Any = inputs) -> None:
            for p in model.parameters():
                p.grad = None
            model(*inputs).backward()

        step()
        step()
        plain, more = [], []
        for k in range(2 * PAIRS):
            guarded = seconds_of(step) if k % 2 else 0.0
            with without_guards():
                bare = seconds_of(step)
            guarded = guarded or seconds_of(step)
            plain.append(bare)
            more.append(guarded - bare)
        low, middle, high = (q / statistics.median(plain) for q in statistics.quantiles(more, n=4))
        sys.stdout.write(f"| {name} | {statistics.median(plain):.3f} s | {middle:+.2%} | {low:+.2%} to {high:+.2%} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
