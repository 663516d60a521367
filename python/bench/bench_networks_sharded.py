"""Six kinds of networks under FSDP2 on two processes, larger than the tests': bits after five steps, and peaks of a rank.

make bench-python BENCH=networks_sharded [NETWORKS="NAME..."]
"""

from __future__ import annotations

import os
import sys
import tempfile

import torch
from sharded_networks import NETWORKS, rows

RANKS, SIZE = 2, 2
MIB = 2**20


def process(rank: int, folder: str, names: list[str]) -> None:
    torch.set_num_threads(1)
    os.environ["MEMPLAN_CACHE"] = f"{folder}/cache{rank}"
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    for name in names:
        torch._dynamo.reset()
        found = rows(name, SIZE, rank)
        of_all = [[None] * len(found)] * RANKS
        torch.distributed.all_gather_object(of_all, found)
        for k, row in enumerate(found if rank == 0 else ()):
            others = [ranks[k] for ranks in of_all]
            peak = max(o.measured_bytes for o in others)
            bits = "; ".join(t for o in others for t in o.troubles()) or "FSDP2's"
            of_fsdp = f"{max(o.of_fsdp_bytes for o in others) / MIB:.2f}" if k == 0 else ""
            numbers = f"{row.budget_bytes / MIB:.3f} | {row.planned_bytes / MIB:.3f} | {peak / MIB:.3f}"
            sys.stdout.write(f"| {name if k == 0 else ''} | {of_fsdp} | {row.budget} | {numbers} | {bits} |\n")
            sys.stdout.flush()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.stdout.write("| network | FSDP2 | budget | of MiB | planned | measured | bits |\n|---|---:|---|---:|---:|---:|---|\n")
    sys.stdout.flush()
    with tempfile.TemporaryDirectory() as place:
        torch.multiprocessing.spawn(process, (place, sys.argv[1:] or list(NETWORKS)), RANKS)
