"""Under FSDP2 on two processes, at the same peak of a rank: a checkpoint around each block, torchtitan's selection of
operators in it, activation_memory_budget in each block, and memplan.

make bench-python BENCH=rivals_sharded [NETWORKS="NAME..."]
Peak: of the rank with its shards and the batch, by PyTorch's memory events. Time: this thread's processor time of a step,
median over rounds in which all routes take turns, on both ranks.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import rivals
import torch
from sharded_networks import NETWORKS, Made, bert, gpt, peak, sharded, vision_transformer

import memplan

RANKS, ROUNDS, SIZE = 2, 7, 4
SHARES = (0.5, 0.2)
MIB = 2**20
CASES: dict[str, Callable[[], Made]] = {
    "gpt": lambda: gpt(SIZE, 0.0),
    "llama": lambda: NETWORKS["llama"](SIZE),
    "bert": lambda: bert(SIZE, 0.0),
    "vision transformer": lambda: vision_transformer(SIZE, 0.0),
}
Change = Callable[[Any], Any]  # of a block, before it is sharded


def compiled(share: float) -> Change:
    return lambda block: block.compile(backend=rivals.min_cut(share), dynamic=False)


WAYS: dict[str, Change] = {
    "checkpoint per block": rivals.checkpointed,
    "every second matmul and attention": rivals.selected,
    **{f"activation_memory_budget {share}": compiled(share) for share in SHARES},
}


class Route:
    """One way to run a step."""

    def __init__(self, name: str, model: Any, inputs: tuple[Any, ...]) -> None:
        self.name, self.model, self.inputs = name, model, inputs
        self.times: list[float] = []
        for _ in range(2):
            model(*inputs).backward()
        self.peak = of_all(peak(model, inputs), max)

    def step(self) -> None:
        for p in self.model.parameters():
            p.grad = None
        torch.distributed.barrier()
        start = time.thread_time()
        self.model(*self.inputs).backward()
        self.times.append(time.thread_time() - start)

    def seconds(self) -> float:
        """Of both ranks."""
        return of_all(statistics.median(self.times), sum)


def of_all(value: Any, made: Callable[[Any], Any]) -> Any:
    known: list[Any] = [None] * RANKS
    torch.distributed.all_gather_object(known, value)
    return made(known)


def model_of(name: str, change: Change | None = None) -> tuple[Any, tuple[Any, ...]]:
    torch.manual_seed(0)
    model, blocks, inputs = CASES[name]()
    blocks = list(blocks)
    for block in blocks if change is not None else ():
        change(block)
    return sharded((model, blocks, inputs)), inputs()


def table_of(name: str) -> str:
    eager = Route("FSDP2", *model_of(name))
    theirs, said = [], []
    for way, change in WAYS.items():
        try:
            theirs.append(Route(way, *model_of(name, change)))
        except Exception as error:  # on all ranks
            said.append(f"| | {way} | does not run: {str(error).strip().splitlines()[0]} | | | |")
    ours = {}
    for budget in sorted({r.peak for r in theirs}):
        model, inputs = model_of(name)
        memplan.compile(model, budget, on_infeasible="smallest", effort="quick", cache="off")
        ours[budget] = Route("memplan", model, inputs)
    routes: list[Route] = [eager, *theirs, *ours.values()]
    for _ in range(ROUNDS):
        for route in routes:
            route.step()
    base = eager.seconds()
    table = [f"| {name} | FSDP2 | {eager.peak / MIB:.2f} | {1e3 * base / RANKS:.0f} ms | | |"]
    for rival in theirs:
        plan = ours[rival.peak]
        extra, own = rival.seconds() / base - 1, plan.seconds() / base - 1
        mark = "" if plan.peak <= rival.peak else f" ({plan.peak / MIB:.2f} MiB)"
        planned = f"{plan.model.memplan.overhead:+.1%}"
        table.append(f"| | {rival.name} | {rival.peak / MIB:.2f} | {extra:+.1%} | {own:+.1%}{mark} | {planned} |")
    return "\n".join([*table, *said]) + "\n"


def process(rank: int, folder: str, names: list[str]) -> None:
    torch.set_num_threads(1)
    torch._dynamo.config.cache_size_limit = 64  # all routes are of one class of model
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    for name in names:
        torch._dynamo.reset()
        table = table_of(name)
        if rank == 0:
            sys.stdout.write(table)
            sys.stdout.flush()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.stdout.write(
        "| network | means | peak MiB | over FSDP2 | memplan at this peak | planned |\n|---|---|---:|---:|---:|---:|\n"
    )
    with tempfile.TemporaryDirectory() as place:
        torch.multiprocessing.spawn(process, (place, sys.argv[1:] or list(CASES)), RANKS)
