#!/usr/bin/env python3
"""by_workload.py MEMPLAN all - examples/rank_train.c, which uses public functions only, plans, checks and trains every mesh of the rank tests.

Expected: the losses of one process that accumulates as many micro-batches: bit for bit if no operator is split, otherwise within rounding. Each rank stays within
its plan and sends the planned bytes, and the ranks with equal parameters have equal weights. Runs in the folder of the command line's tests.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess

from copied_ranks import meshes, size_of, sizes
from many_ranks import ENVIRONMENT, MEMPLAN, MPIRUN, path
from pipelines import BATCH, TIED, near, one

BUILD = os.path.dirname(os.path.abspath(MEMPLAN))
PROGRAM = os.path.join(BUILD, "examples", "rank_train")
STEPS, MICRO_BATCHES = 3, 4
# Percent of keep-all's peak for which these ranks recompute.
TIGHT = (("gpt", "dp=2", 95), ("gpt", "shard=2", 90), ("gpt", "tp=2", 98), ("cnn", "dp=2", 95), ("cnn", "dp=2,pp=2", 98))
RANK = re.compile(r"rank (\d+): planned (\d+) bytes, measured (\d+); sends (\d+) bytes, planned (\d+); weights (\w+)")


@functools.cache
def single(network: str, passes: int) -> list[float]:
    return one(network, "--optimizer", "momentum", passes=passes, steps=STEPS)["losses"]


def check(network: str, mesh: str, percent: int) -> None:
    of = sizes(mesh)
    micro_batches = MICRO_BATCHES if of.get("pp", 1) > 1 else 1
    words = [path(network), str(BATCH[network] * micro_batches), mesh, str(percent), str(micro_batches), str(STEPS)]
    done = subprocess.run(
        [*MPIRUN, "-n", str(size_of(mesh)), PROGRAM, *words],
        env={**ENVIRONMENT, "MEMPLAN_MODULES": BUILD},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, (network, mesh, done.stderr)
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", done.stdout)]
    expected = single(network, micro_batches * of.get("dp", 1) * of.get("shard", 1))
    is_exact = network not in TIED and of.get("tp", 1) == 1 and not {"dp", "shard"} <= of.keys()  # sums in one order
    assert (losses == expected if is_exact else near(losses, expected, 1e-6)), (network, mesh, losses, expected)
    rows = sorted((int(rank), *map(int, row), weights) for rank, *row, weights in RANK.findall(done.stdout))
    assert [row[0] for row in rows] == list(range(size_of(mesh))), (mesh, done.stdout)
    for _, planned, measured, sent, planned_sent, _ in rows:
        assert 0 < measured <= planned and 0 < sent == planned_sent, (network, mesh, rows)
    if network != "cnn" and not {"shard", "tp", "pp"} & of.keys():  # its running statistics are of each rank
        assert len({row[-1] for row in rows}) == 1, (network, mesh, rows)


def test() -> None:
    every = [mesh for mesh in meshes() if not sizes(mesh).get("scatter")]  # scatter=1 can only be planned
    assert len(every) >= 30, every
    for mesh in every:
        check("mlp", mesh, 100)
    for network, mesh, percent in TIGHT:
        check(network, mesh, percent)


if __name__ == "__main__":
    test()
