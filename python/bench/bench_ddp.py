"""Replicas (DDP) on two processes: peaks of a rank, wall and processor seconds of a step, of eager DDP, of DDP that
torch.compile cuts at its buckets, and within budgets. Ways take turns, so that what else the machine does slows all of them.

make bench-python BENCH=ddp
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from bench_sharded import MIB, RANKS, Perceptron, step_of
from networks import Transformer
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import memplan
from memplan.costs.measure import peak_of

STEPS, BUCKET_MIB = 15, 2  # the networks are small
BUDGETS = ("100%", "min+50%", "min")


def replica(make: Callable[[], nn.Module]) -> Any:
    torch.manual_seed(0)
    return DistributedDataParallel(make(), bucket_cap_mb=BUCKET_MIB)


def ways(make: Callable[[], nn.Module]) -> dict[str, Any]:
    made = {"eager DDP": replica(make), "torch.compile": torch.compile(replica(make))}
    return made | {f"memplan, {budget}": memplan.compile(replica(make), budget) for budget in BUDGETS}


def peak(model: Any, inputs: tuple[Any, ...]) -> int:
    """Of the rank, with its parameters and the batch; DDP's buckets are there before a step."""
    parameters = list(model.parameters())
    for p in parameters:
        p.grad = None
    buckets = sum(p.nbytes for p in parameters)
    return peak_of(step_of(model, inputs)) + buckets + sum(t.nbytes for t in (*parameters, *inputs))


def timed(step: Callable[[], None]) -> tuple[float, float]:
    """Processor seconds cover the whole process, because gloo and Inductor use separate threads."""
    start = time.perf_counter(), time.process_time()
    step()
    return time.perf_counter() - start[0], time.process_time() - start[1]


def table(name: str, make: Callable[[], nn.Module], inputs: tuple[Any, ...], rank: int) -> None:
    models = ways(make)
    steps = {way: step_of(model, inputs) for way, model in models.items()}
    for step in steps.values():
        for _ in range(3):  # DDP sorts its buckets after the first
            step()
    peaks = {way: peak(model, inputs) for way, model in models.items()}
    seconds: dict[str, list[tuple[float, float]]] = {way: [] for way in models}
    for _ in range(STEPS):
        for way, step in steps.items():
            seconds[way].append(timed(step))
    for way, model in models.items():
        wall, processor = (statistics.median(s) for s in zip(*seconds[way]))
        report = getattr(model, "memplan", None)
        planned = "|" if report is None else f"{report.planned_bytes / MIB:.2f} | +{100 * report.overhead:.1f}%"
        if rank == 0:
            sys.stdout.write(f"| {name}: {way} | {peaks[way] / MIB:.2f} | {planned} | {wall:.4f} | {processor:.4f} |\n")
            sys.stdout.flush()


def process(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    torch.manual_seed(rank)
    table("perceptron, 6 x 256, 512", Perceptron, (torch.randn(512, 256),), rank)
    table("transformer, 4 x 256, 8 x 64", lambda: Transformer(0.0, 256, 4), tuple(torch.randint(50, (2, 8, 64))), rank)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as place:
        torch.multiprocessing.spawn(process, (place,), RANKS)
