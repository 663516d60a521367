"""Models that `fully_shard` shards, on two processes: peaks of a rank and seconds of a step, of FSDP2 alone, with a checkpoint
around each block, and within budgets.

make bench-python BENCH=sharded
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from networks import Transformer
from torch import nn
from torch.utils.checkpoint import checkpoint

import memplan
from memplan.costs.measure import peak_of

RANKS, STEPS = 2, 7
MIB = 2**20


class Perceptron(nn.Module):
    def __init__(self, width: int = 256, layers: int = 6) -> None:
        super().__init__()
        blocks = (nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(layers))
        self.layers = nn.ModuleList(blocks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x.square().mean()


def sharded(make: Callable[[], nn.Module], is_checkpointed: bool = False) -> Any:
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model: Any = make()
    for layer in model.layers:
        if is_checkpointed:
            layer.forward = lambda x, run=layer.forward: checkpoint(run, x, use_reentrant=False)
        fully_shard(layer)
    return fully_shard(model)


def step_of(model: Any, inputs: tuple[Any, ...]) -> Callable[[], None]:
    def step() -> None:
        for p in model.parameters():
            p.grad = None
        torch.distributed.barrier()
        model(*inputs).backward()

    return step


def row(name: str, model: Any, inputs: tuple[Any, ...], rank: int) -> tuple[int, float]:
    """Prints the peak of the rank, with its shards and the batch, and the processor seconds of a step."""
    step = step_of(model, inputs)
    step()
    shards = sum(p.to_local().untyped_storage().nbytes() for p in model.parameters())
    for p in model.parameters():
        p.grad = None
    peak = peak_of(step) + shards + sum(i.nbytes for i in inputs)
    seconds = []
    for _ in range(STEPS):
        start = time.thread_time()
        step()
        seconds.append(time.thread_time() - start)
    median = sorted(seconds)[STEPS // 2]
    if rank == 0:
        report = getattr(model, "memplan", None)
        planned = "|" if report is None else f"{report.planned_bytes / MIB:.2f} | +{100 * report.overhead:.1f}%"
        sys.stdout.write(f"| {name} | {peak / MIB:.2f} | {planned} | {median:.4f} |\n")
        sys.stdout.flush()
    return peak, median


def process(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    torch.manual_seed(rank)
    cases: list[tuple[str, Callable[[], nn.Module], tuple[Any, ...]]] = [
        ("perceptron, 6 x 256, 512", Perceptron, (torch.randn(512, 256),)),
        ("transformer, 4 x 256, 8 x 64", lambda: Transformer(0.0, 256, 4), tuple(torch.randint(50, (2, 8, 64)))),
    ]
    for name, make, inputs in cases:
        row(f"{name}: FSDP2", sharded(make), inputs, rank)
        peak, _ = row("checkpoint per block", sharded(make, True), inputs, rank)
        known = [peak]  # ranks measure it for themselves
        torch.distributed.broadcast_object_list(known)
        for budget in (*known, "min"):
            with tempfile.TemporaryDirectory() as cache:
                model = memplan.compile(sharded(make), budget, cache=cache, on_infeasible="smallest")
                row("memplan at that peak" if budget != "min" else "memplan, min", model, inputs, rank)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as place:
        torch.multiprocessing.spawn(process, (place,), RANKS)
