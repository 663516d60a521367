#!/usr/bin/env python3
"""rank_reports.py MEMPLAN TEST - the reports of ranks, compared with formulas: bytes of every collective, sums over ranks, a trace with their lanes.

Of n elements a rank of two sends half in a reduce-scatter, and half in an all-gather. Steps of compute follow each other; a message does not end before
it began, and is waited for until it has ended.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from typing import Any

from many_ranks import ENVIRONMENT, MEMPLAN, MPIRUN, WHAT, path

TWO_RANKS = [*MPIRUN, "-n", "2"]
STEPS = 3
PARAMETERS = [(24, 12), (24,), (16, 24), (16,), (8, 16), (8,), (5, 8), (5,)]  # of the test network mlp


def train(*more: str, start: list[str] = TWO_RANKS) -> str:
    words = [*start, MEMPLAN, "train", path("mlp"), "--budget", "100%", "--steps", str(STEPS), *more]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


def halves(rank: int) -> list[int]:
    """Bytes of a rank's half of each parameter: the first one has the odd element."""
    sizes = []
    for shape in PARAMETERS:
        n = shape[0] * (shape[1] if len(shape) > 1 else 1)
        sizes.append(4 * ((n + 1) // 2 if rank == 0 else n // 2))
    return sizes


def reports() -> None:
    for mesh in ("dp=2", "shard=2,zero=1", "shard=2,zero=2"):
        ranks: dict[str, Any] = json.loads(train("--mesh", mesh, "--json"))["ranks"]
        each, together = ranks["each"], ranks["all"]
        assert [of["rank"] for of in each] == [0, 1] and each[0]["process"] != each[1]["process"]
        for rank, of in enumerate(each):
            by_kind = {c["collective"]: c for c in of["collectives"]}
            others, own = STEPS * sum(halves(1 - rank)), STEPS * sum(halves(rank))
            if mesh == "dp=2":
                assert {k: c["sent_bytes"] for k, c in by_kind.items()} == {"all-reduce": others + own}, (rank, by_kind)
            else:
                assert {k: c["sent_bytes"] for k, c in by_kind.items()} == {"reduce-scatter": others, "all-gather": own}, (rank, by_kind)
            assert of["sent_bytes"] == others + own
            for run in (of["before"], of["after"]):
                assert 0 < run["measured_peak_bytes"] <= run["planned_peak_bytes"] < run["process_bytes"], run
            assert 0 <= of["wait_seconds"] <= of["network_seconds"] + 1e-3 and 0 <= of["hidden"] <= 1, of
        for run in ("before", "after"):
            for key in ("planned_peak_bytes", "measured_peak_bytes", "process_bytes"):
                assert together[run][key] == sum(of[run][key] for of in each), (run, key)
        assert together["sent_bytes"] == sum(of["sent_bytes"] for of in each)
        assert abs(together["wait_seconds"] - sum(of["wait_seconds"] for of in each) / 2) < 1e-12
    rows = [line.split() for line in train("--mesh", "dp=2").splitlines()]
    assert [row[0] for row in rows if row and row[0] in ("0", "1", "all")] == ["0", "1", "all"], rows
    assert json.loads(train("--mesh", "dp=2", "--no-before", "--json"))["ranks"]["each"][1]["before"] is None
    split = train("--mesh", "tp=2")
    kinds = [line.strip().removeprefix("rank 0, ").split("  ")[0] for line in split.splitlines() if line.strip().startswith("rank 0, ")]
    assert "of operators" in kinds, split


def traced(start: list[str], *more: str) -> list[list[dict[str, Any]]]:
    """Per process of the trace its events."""
    with tempfile.TemporaryDirectory() as folder:
        train(*more, "--trace", f"{folder}/trace.json", start=start)
        with open(f"{folder}/trace.json", encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
    n = 1 + max(e["pid"] for e in events)
    return [[e for e in events if e["pid"] == k] for k in range(n)]


def traces() -> None:
    for start, more, lanes in ((TWO_RANKS, ("--mesh", "dp=2", "--bucket", "512"), ["compute", "network", "waiting"]), ([], (), ["compute"])):
        processes = traced(start, *more, "--no-before")
        assert len(processes) == (2 if start else 1)
        for rank, events in enumerate(processes):
            lane = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
            title = next(e["args"]["name"] for e in events if e["name"] == "process_name")
            assert [*lane] == lanes and title == (f"rank {rank} of mlp, batch 6" if start else "mlp, batch 6"), (lane, title)
            ran = {name: sorted((e["ts"], e["ts"] + e["dur"], e["name"]) for e in events if e["ph"] == "X" and e["tid"] == k) for name, k in lane.items()}
            assert len(ran["compute"]) > 15 and all(a[1] <= b[0] for a, b in zip(ran["compute"], ran["compute"][1:]))
            if not start:
                continue
            under_way = {name: (begin, end) for begin, end, name in ran["network"]}
            assert len(under_way) > 2, under_way
            assert ran["waiting"] and all(under_way[name][0] <= begin and under_way[name][1] <= end for begin, end, name in ran["waiting"]), ran
            assert all(b[0] >= a[1] or b[0] >= a[0] for a, b in zip(ran["network"], ran["network"][1:]))


if __name__ == "__main__":
    globals()[WHAT]()
