"""Under FSDP2 on two processes, at the same peak of a rank: a checkpoint around each block, torchtitan's selection of
operators in it, activation_memory_budget in each block, and memplan.

make bench-python BENCH=rivals_sharded [NETWORKS="NAME..."]
Peak: of the rank with its shards and the batch, by PyTorch's memory events. Time: this thread's processor time of a step,
median over rounds in which FSDP2, the other means and memplan take turns, on both ranks.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import rivals
import torch
from sharded_networks import NETWORKS, Made, bert, gpt, peak, sharded, vision_transformer

import memplan

RANKS, ROUNDS, SIZE = 2, 15, 4
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


def of_all(value: Any, made: Callable[[Any], Any]) -> Any:
    known: list[Any] = [None] * RANKS
    torch.distributed.all_gather_object(known, value)
    return made(known)


def seconds(routes: list[Route]) -> list[float]:
    """Of a step on both ranks, from rounds in which these take turns."""
    for route in routes:
        route.times.clear()
    for _ in range(ROUNDS):
        for route in routes:
            route.step()
    return [of_all(statistics.median(route.times), sum) for route in routes]


def model_of(name: str, change: Change | None = None) -> tuple[Any, tuple[Any, ...]]:
    torch.manual_seed(0)
    model, blocks, inputs = CASES[name]()
    blocks = list(blocks)
    for block in blocks if change is not None else ():
        change(block)
    return sharded((model, blocks, inputs)), inputs()


def lines_of(name: str) -> Iterator[str]:
    """One model of ours has all budgets, and what was captured for the first is planned again for the others."""
    eager, ours = Route("FSDP2", *model_of(name)), model_of(name)
    (alone,) = seconds([eager])
    yield f"| {name} | FSDP2 | {eager.peak / MIB:.2f} | {1e3 * alone / RANKS:.0f} ms | | | |"
    for way, change in WAYS.items():
        try:
            rival = Route(way, *model_of(name, change))
        except Exception as error:  # on all ranks
            yield f"| | {way} | does not run: {str(error).strip().splitlines()[0]} | | | | |"
            continue
        memplan.compile(ours[0], rival.peak, on_infeasible="smallest", effort="quick", cache="off")
        plan = Route("memplan", *ours)
        base, theirs, own = seconds([eager, rival, plan])
        mark = "" if plan.peak <= rival.peak else f" ({plan.peak / MIB:.2f} MiB)"
        graph = ours[0].memplan.graphs[-1]
        planned = f"{graph.overhead:+.1%} | {graph.proved_overhead:+.1%}"
        yield f"| | {way} | {rival.peak / MIB:.2f} | {theirs / base - 1:+.1%} | {own / base - 1:+.1%}{mark} | {planned} |"


def process(rank: int, folder: str, names: list[str]) -> None:
    torch.set_num_threads(1)
    torch._dynamo.config.cache_size_limit = 64  # all routes are of one class of model
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    for name in names:
        torch._dynamo.reset()
        for line in lines_of(name):
            if rank == 0:
                sys.stdout.write(line + "\n")
                sys.stdout.flush()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.stdout.write(
        "| network | means | peak MiB | over FSDP2 | memplan at this peak | planned | no plan takes less |\n"
        "|---|---|---:|---:|---:|---:|---:|\n"
    )
    with tempfile.TemporaryDirectory() as place:
        torch.multiprocessing.spawn(process, (place, sys.argv[1:] or list(CASES)), RANKS)
