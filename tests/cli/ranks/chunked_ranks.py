#!/usr/bin/env python3
"""chunked_ranks.py MEMPLAN TEST - chunks of rows (--row-chunks) on several ranks, judged by one process with the same chunks.

Losses are within rounding of one process's, also of one process with whole rows where nothing random is cut. Memory and bytes sent are as planned.
"""

from __future__ import annotations

import subprocess

from many_ranks import ENVIRONMENT, MEMPLAN, MPIRUN, WHAT, is_as_planned, is_sent_as_planned, one, ranks, run
from split_ranks import same_losses

SIZES = ("layers=2", "vocabulary=512", "sequence=32", "width=64", "heads=4", "feed-forward=128")
MORE = {"gpt2": (), "llama3-8b": ("key-value-heads=2",)}
USUAL = ("--random-weights", "--optimizer", "momentum", "--budget", "100%", "--no-before")
STEPS, MICRO_BATCHES = 3, 4


def words(network: str, chunks: str = "") -> list[str]:
    sizes = [word for size in (*SIZES, *MORE[network]) for word in ("--dim", size)]
    return [*sizes, *USUAL, *(("--row-chunks", chunks) if chunks else ())]


def single(network: str, passes: int, chunks: str = "") -> dict:
    return one(network, *words(network, chunks), "--batch", "2", "--accumulate", str(passes), steps=STEPS)


def is_as_one(n: int, mesh: str, network: str, chunks: str, *more: str, passes: int = 1) -> None:
    many = ranks(n, network, *words(network, chunks), "--batch", "2", *more, mesh=mesh, steps=STEPS)
    is_as_planned({**many, "identical": True})
    same_losses(many, single(network, passes, chunks), (mesh, network, chunks))
    if network != "gpt2" or "mlp" not in chunks:  # dropout in a chunk draws other numbers
        same_losses(many, single(network, passes), (mesh, network, chunks, "whole rows"))


def data() -> None:
    for network, chunks in (("gpt2", "head=4"), ("gpt2", "mlp=2"), ("llama3-8b", "head=3,mlp=2")):
        for mesh in ("dp=2", "shard=2", "shard=2,zero=1"):
            is_as_one(2, mesh, network, chunks, passes=2)
    is_as_one(2, "dp=2", "llama3-8b", "head=4", "--accumulate", "2", passes=4)


def split() -> None:
    for network, chunks in (("gpt2", "head=4"), ("gpt2", "mlp=2"), ("llama3-8b", "head=3,mlp=2")):
        for mesh in ("tp=2", "tp=2,sp=0", "tp=2,data=1"):
            is_as_one(2, mesh, network, chunks)
    is_as_one(4, "dp=2,tp=2", "llama3-8b", "head=4", passes=2)
    is_as_one(2, "tp=2", "gpt2", "head=4", "--accumulate", "2", passes=2)


def stages() -> None:
    for network, chunks in (("gpt2", "head=4"), ("llama3-8b", "head=3,mlp=2")):
        for n, mesh, schedule in ((2, "pp=2", "gpipe"), (2, "pp=2", "1f1b"), (4, "pp=2,tp=2", "1f1b"), (4, "dp=2,pp=2", "1f1b")):
            how = ("--mesh", mesh, "--pipeline-schedule", schedule, "--batch", str(2 * MICRO_BATCHES), "--micro-batches", str(MICRO_BATCHES))
            many = run([*MPIRUN, "-n", str(n), MEMPLAN, "train", network, *how, "--steps", str(STEPS), "--json", *words(network, chunks)])
            is_sent_as_planned(many)
            same_losses(many, single(network, MICRO_BATCHES * (2 if "dp" in mesh else 1), chunks), (mesh, network, chunks))
            for rank in many["ranks"]["each"]:
                assert 0 < rank["after"]["measured_peak_bytes"] <= rank["after"]["planned_peak_bytes"], (mesh, rank)


def automatic() -> None:
    """In a budget for which whole regions have no plan, memplan chooses the numbers. Losses equal those of one process."""
    sizes = [word for size in ("layers=4", "vocabulary=4096", *SIZES[2:], *MORE["llama3-8b"]) for word in ("--dim", size)]
    for mesh, n in (("pp=2", 2), ("pp=4", 4)):
        usual = ["llama3-8b", *sizes, "--device", "cpu", "--optimizer", "momentum", "--mesh", mesh, "--batch", str(2 * MICRO_BATCHES), "--micro-batches", str(MICRO_BATCHES)]
        budget = max(rank["peak_bytes"] for rank in run([MEMPLAN, "estimate", *usual, "--json"])["ranks"]) * 85 // 100
        asked = [MEMPLAN, "plan", *usual, "--budget", f"{budget}B", "--effort", "quick", "--solver", "lagrange"]
        found = run([*asked, "--row-chunks", "auto", "--json", "-o", "auto.json"])
        assert all(rank["peak_bytes"] <= budget for rank in found["ranks"]), found
        assert subprocess.run([*asked, "-q"], env=ENVIRONMENT, capture_output=True).returncode != 0, mesh
        many = run([*MPIRUN, "-n", str(n), MEMPLAN, "train", "llama3-8b", "--mesh", mesh, "--plan", "auto.json", "--random-weights", "--steps", str(STEPS), "--json"])
        chunks = ",".join(f"{kind}={number}" for kind, number in found["row_chunks"].items())
        single = one("llama3-8b", *sizes, *USUAL, "--row-chunks", chunks, "--batch", "2", "--accumulate", str(MICRO_BATCHES), steps=STEPS)
        same_losses(many, single, (mesh, chunks))
        is_sent_as_planned(many)


if __name__ == "__main__":
    globals()[WHAT]()
