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


def refused() -> None:
    asked = [MEMPLAN, "plan", "gpt2", "--mesh", "pp=2", "--batch", "4", "--row-chunks", "auto", "--budget", "60%"]
    done = subprocess.run(asked, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 2 and "--row-chunks auto applies to one graph; choose it with --rank" in done.stderr, done


if __name__ == "__main__":
    globals()[WHAT]()
