#!/usr/bin/env python3
"""copied_ranks.py MEMPLAN WHAT - ranks whose plans copy activations or optimizer state to the host: the meshes of the rank tests, with and without accumulation.

Every training ends with the losses of the same mesh without copies, bit for bit, the parameters of its keep-all run, the planned bytes sent and copied, and memory
as planned. Every run of a pipeline is refused with a sentence. WHAT is `some` (the test suite) or `all`, which prints the number of runs and failures; a build with
sanitizers reports invalid accesses as failures.
"""

from __future__ import annotations

import itertools
import subprocess
import sys

from many_ranks import ENVIRONMENT, MEMPLAN, MPIRUN, WHAT, is_sent_as_planned, run

# Activations and optimizer state of a rank have 1 MiB and more, the least that is copied.
NETWORK = (
    "gpt2 --dim layers=2 --dim width=128 --dim heads=4 --dim feed-forward=512 --dim vocabulary=4096 --dim sequence=64 --batch 8 --random-weights --bucket 1MiB".split()
)
PLAN = ["--budget", "floor+10%", "--effort", "quick", "--steps", "2"]
MESHES = [
    *("dp=2", "dp=3", "dp=4", "tp=2", "tp=2,sp=0", "tp=2,data=1", "tp=4", "dp=2,tp=2"),
    *("shard=2,zero=1", "shard=2,zero=2", "shard=2", "shard=3,zero=1", "shard=3,zero=2", "shard=4,zero=1", "shard=4", "dp=2,shard=2,zero=2", "dp=2,shard=2"),
    *("shard=2,zero=1,tp=2", "shard=2,zero=2,tp=2", "shard=2,tp=2"),
]
PIPELINES = ["pp=2", "pp=3", "dp=2,pp=2", "tp=2,pp=2", "shard=2,zero=1,pp=2", "shard=2,zero=2,pp=2", "shard=2,pp=2"]
SOME = [("dp=2", True, 1), ("shard=2,zero=2", True, 2), ("shard=2", False, 1), ("tp=2", True, 1)]


def size_of(mesh: str) -> int:
    n = 1
    for part in mesh.split(","):
        name, number = part.split("=")
        n *= int(number) if name in ("dp", "shard", "tp", "pp") else 1
    return n


def words(mesh: str, accumulate: int, *more: str) -> list[str]:
    passes = ["--accumulate", str(accumulate)] if accumulate > 1 else []
    return [*MPIRUN, "-n", str(size_of(mesh)), MEMPLAN, "train", *NETWORK, "--mesh", mesh, *PLAN, *passes, *more]


def trained(mesh: str, moves_state: bool, accumulate: int, losses: list[float]) -> None:
    answer = run([*words(mesh, accumulate, "--offload", "host", "--json"), *(["--offload-state"] if moves_state else [])])
    copies = answer["offload"]
    is_sent_as_planned(answer)
    assert answer["identical"] is True, answer
    assert answer["after"]["losses"] == losses, (answer["after"]["losses"], losses)
    assert (copies["bytes_out"], copies["bytes_in"]) == (copies["planned_bytes_out"], copies["planned_bytes_in"]), copies
    assert copies["bytes_out"] > 0 or not moves_state, copies
    for rank in answer["ranks"]["each"]:
        for of in (rank["before"], rank["after"]):
            assert 0 < of["measured_peak_bytes"] <= of["planned_peak_bytes"], rank
    is_one_quantity(answer)


def is_one_quantity(answer: dict) -> None:
    """Both columns of memory are static memory and arena; rank 0's are in the report of its own run, too."""
    of, own = answer["ranks"]["each"][0]["after"], answer["after"]
    assert of["planned_peak_bytes"] == own["static_bytes"] + own["arena_bytes"], (of, own)
    assert of["measured_peak_bytes"] == own["static_bytes"] + own["measured_arena_bytes"], (of, own)


def refused(mesh: str, moves_state: bool) -> None:
    more = ["--micro-batches", "4", "--offload", "host", *(["--offload-state"] if moves_state else [])]
    done = subprocess.run(words(mesh, 1, *more), env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "--offload" in done.stderr and "ignal" not in done.stderr and "Sanitizer" not in done.stderr, done


def main() -> int:
    everything = [(mesh, moves_state, passes) for mesh, moves_state, passes in itertools.product(MESHES, (False, True), (1, 3))]
    trainings = everything if WHAT == "all" else SOME
    refusals = [(mesh, moves_state) for mesh in (PIPELINES if WHAT == "all" else PIPELINES[:1]) for moves_state in (False, True)]
    losses: dict[tuple[str, int], list[float]] = {}
    failures = 0
    for mesh, moves_state, passes in trainings:
        try:
            if (mesh, passes) not in losses:
                losses[mesh, passes] = run([*words(mesh, passes, "--no-before", "--json")])["after"]["losses"]
            trained(mesh, moves_state, passes, losses[mesh, passes])
        except (AssertionError, subprocess.TimeoutExpired) as failure:
            failures += 1
            print(f"FAILED: {mesh}, --offload host{' --offload-state' if moves_state else ''}, --accumulate {passes}: {failure}")
    for mesh, moves_state in refusals:
        try:
            refused(mesh, moves_state)
        except (AssertionError, subprocess.TimeoutExpired) as failure:
            failures += 1
            print(f"FAILED: {mesh}, --offload host{' --offload-state' if moves_state else ''}: {failure}")
    print(f"{len(trainings)} trainings with copies on ranks and {len(refusals)} refusals: {failures} failures")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
