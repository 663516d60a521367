#!/usr/bin/env python3
"""one_plan.py MEMPLAN TEST - ranks with one graph have one plan, wherever their searches would have been cut short; and where there is none, one sentence.

A rank whose clock goes twenty times as fast (fast_clock.c) is one that other work slows down: with a time limit it ends its search long before the others would.
By itself it finds another plan, which is looked at first. Runs in the folder of the command line's tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from typing import Any

from many_ranks import ENVIRONMENT, MEMPLAN, MPIRUN, WHAT, is_as_planned, path, run
from pipelines import hashes

FAST_CLOCK = ["env", f"LD_PRELOAD={os.path.dirname(MEMPLAN)}/tests/modules/fast_clock.so", "CLOCK_FACTOR=20"]
CUT_SHORT = ["--budget", "floor+20%", "--time-limit", "4"]  # a fifth of a second; a whole search takes seconds
WAITING = ["--timeout", "600"]  # half a minute


def each(*ranks: list[str]) -> list[str]:
    """The line that starts these processes as ranks."""
    line = [*MPIRUN]
    for k, of_rank in enumerate(ranks):
        line += [*([":"] if k else []), "-n", "1", *of_rank]
    return line


def train(network: str, mesh: str, *more: str) -> list[str]:
    return [MEMPLAN, "train", path(network), "--mesh", mesh, "--steps", "3", "--json", *more]


def steps_of_plan(start: list[str], folder: str, *more: str) -> Any:
    file = f"{folder}/plan.json"
    words = [*start, MEMPLAN, "plan", path("cnn"), "--mesh", "dp=3", "--device", "cpu", "-q", "-o", file, *more]
    subprocess.run(words, env=ENVIRONMENT, check=True, capture_output=True, timeout=100)
    with open(file, encoding="utf-8") as f:
        return json.load(f)["steps"]


def cut_short() -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert steps_of_plan(FAST_CLOCK, folder, *CUT_SHORT) != steps_of_plan([], folder, *CUT_SHORT), "the search is over before it is cut short: nothing is shown"
    words = train("cnn", "dp=3", *CUT_SHORT, *WAITING)
    whole = run(each(words, words, words))
    for slow in range(2):  # the first rank, which searches, and another one
        answer = run(each(*(([*FAST_CLOCK, *words] if k == slow else words) for k in range(3))))
        is_as_planned(answer)
        assert hashes(answer) == hashes(whole) and answer["after"]["losses"] == whole["after"]["losses"], slow
        assert len({of["after"]["planned_peak_bytes"] for of in answer["ranks"]["each"]}) == 1, answer["ranks"]


def of_stages() -> None:
    """The first rank of each stage searches, ranks 0 and 2; rank 3 takes the plan of rank 2."""
    words = train("mlp", "dp=2,pp=2", "--batch", "12", "--micro-batches", "2", *CUT_SHORT, *WAITING)
    whole = run(each(words, words, words, words))
    for slow in (0, 2, 3):
        answer = run(each(*(([*FAST_CLOCK, *words] if k == slow else words) for k in range(4))))
        assert hashes(answer) == hashes(whole), slow
        for first in (0, 2):
            here, beside = (of["after"]["planned_peak_bytes"] for of in answer["ranks"]["each"][first : first + 2])
            assert here == beside, (slow, first, here, beside)


def none_is_found() -> None:
    """One rank of each graph says why; status 1 where it is proved that there is none, and 3 where none was found."""
    for mesh, n, status, stages in (("dp=3", 3, 1, 1), ("pp=2", 2, 3, 2)):
        micro = ["--batch", "12", "--micro-batches", "2"] if stages > 1 else []
        words = train("mlp", mesh, *micro, "--budget", "1KiB")
        done = subprocess.run(each(*[words] * n), env=ENVIRONMENT, capture_output=True, text=True, timeout=100)
        said = sorted(line for line in done.stderr.splitlines() if line.startswith("memplan: "))
        assert done.returncode == status and not done.stdout.strip(), (mesh, done)
        assert [line.split(": ")[1] for line in said] == [f"rank {k}" for k in range(stages)] and all("within" in line or "nothing fits" in line for line in said), (mesh, said)


if __name__ == "__main__":
    globals()[WHAT]()
