"""A pipeline of two processes, 1F1B: peaks of each rank and processor seconds of a step, of eager PyTorch, with a checkpoint
around each block, and within the peaks that these have.

make bench-python BENCH=pipeline
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from typing import Any

import torch
import torch.nn.functional as F
from networks import Layer
from torch import nn
from torch.utils.checkpoint import checkpoint

import memplan
from memplan.costs.measure import peak_of

RANKS, STEPS, PARTS, ROWS, WORDS, WIDTH, LAYERS = 2, 7, 6, 4, 64, 128, 3
MIB = 2**20


class Blocks(nn.Module):
    """The first stage embeds words, the last one scores them."""

    def __init__(self, rank: int, is_checkpointed: bool) -> None:
        super().__init__()
        self.before = nn.Embedding(50, WIDTH) if rank == 0 else nn.Identity()
        self.blocks = nn.ModuleList(Layer(WIDTH, 0.0) for _ in range(LAYERS))
        self.behind = nn.Linear(WIDTH, 50) if rank == RANKS - 1 else nn.Identity()
        self.is_checkpointed = is_checkpointed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.before(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.is_checkpointed else block(x)
        return self.behind(x)  # type: ignore[no-any-return]


def loss(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(out.flatten(0, 1), y.flatten())


def row(name: str, rank: int, budget: int | str | None = None, is_checkpointed: bool = False) -> int:
    """Prints, in the order of ranks, what a rank takes, with its parameters and the batch. Returns its peak."""
    from torch.distributed import pipelining

    torch.manual_seed(rank)
    model = Blocks(rank, is_checkpointed)
    stage = pipelining.PipelineStage(model, rank, RANKS, torch.device("cpu"))
    kind: Any = pipelining.Schedule1F1B
    if budget is None:
        schedule = kind(stage, PARTS, loss_fn=loss)
    else:
        schedule = memplan.pipeline(kind, stage, PARTS, budget, loss_fn=loss, on_infeasible="smallest", cache="off")
    batch = torch.randint(50, (PARTS * ROWS, WORDS))

    def step() -> None:
        for p in model.parameters():
            p.grad = None
        torch.distributed.barrier()
        schedule.step(*((batch,) if rank == 0 else ()), **({"target": batch, "losses": []} if rank == RANKS - 1 else {}))

    for _ in range(2):
        step()
    for p in model.parameters():
        p.grad = None
    peak = peak_of(step) + sum(p.nbytes for p in model.parameters()) + batch.nbytes
    seconds = []
    for _ in range(STEPS):
        start = time.thread_time()
        step()
        seconds.append(time.thread_time() - start)
    plan = getattr(schedule, "memplan", None)
    extra = "" if plan is None else " | ".join(f"+{100 * r.overhead:.1f}%" for r in plan.stages.values())
    planned = "" if plan is None else f"{plan.planned_bytes / MIB:.2f}"
    found: list[Any] = [None] * RANKS
    line = f"| {name} | {rank} | {peak / MIB:.2f} | {planned} | {extra} | {sorted(seconds)[STEPS // 2]:.4f} |\n"
    torch.distributed.all_gather_object(found, line)
    if rank == 0:
        sys.stdout.write("".join(found))
        sys.stdout.flush()
    return peak


def process(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    everything = row("1F1B", rank)
    peak = row("checkpoint per block", rank, is_checkpointed=True)
    row("memplan at that peak", rank, peak)
    row("memplan, half of the way", rank, (peak + everything) // 2)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as place:
        torch.multiprocessing.spawn(process, (place,), RANKS)
