#!/usr/bin/env python3
"""sent_bytes.py MEMPLAN TEST - one number for the bytes that a rank sends: in `estimate`, `plan`, the report of `train`, and as measured by MPI.

Expected: on every rank the measured bytes equal the planned ones. Their mean over the ranks with one graph equals `plan` at the same budget. Without
recomputation it equals `estimate`. The classes of a loss count 16 bytes per position for every other rank, beside a hand calculation.
"""

from __future__ import annotations

import subprocess

from many_ranks import MEMPLAN, MPIRUN, WHAT, is_sent_as_planned, path, run

STEPS = 2
ALL = ("--budget", "100%", "--solver", "none", "--optimizer", "sgd")
TWO_PASSES = ("--accumulate", "2")
TWO_TURNS = ("--batch", "6", "--micro-batches", "2")  # of a network whose micro-batch has 3 samples
CASES = (
    ("mlp", "dp=2", ()),
    ("mlp", "dp=2", TWO_PASSES),
    ("gpt", "shard=2,zero=1", TWO_PASSES),
    ("gpt", "shard=2,zero=2", TWO_PASSES),
    ("gpt", "shard=2,zero=3", TWO_PASSES),
    ("gpt", "tp=2", ()),  # the classes of the loss are split
    ("cnn", "tp=2", TWO_PASSES),
    ("bert", "tp=2", ()),
    ("gpt", "tp=2,sp=0", TWO_PASSES),
    ("gpt", "dp=2,shard=2,zero=1", ()),
    ("gpt", "dp=2,shard=2,zero=3", TWO_PASSES),
    ("gpt", "shard=2,tp=2", TWO_PASSES),
    ("gpt", "pp=2", TWO_TURNS),
    ("gpt", "pp=2", (*TWO_TURNS, "--pipeline-schedule", "gpipe")),
    ("gpt", "dp=2,pp=2", TWO_TURNS),
    ("gpt", "shard=2,zero=2,pp=2", TWO_TURNS),
    ("gpt", "shard=2,zero=3,pp=2", TWO_TURNS),  # parameters are gathered again for the second backward
    ("gpt", "tp=2,pp=2", TWO_TURNS),
)


def size_of(mesh: str) -> tuple[int, int]:
    """Number of ranks, and of pipeline stages."""
    sizes = dict(part.split("=") for part in mesh.split(","))
    n, stages = 1, int(sizes.get("pp", "1"))
    for name in ("dp", "shard", "tp", "pp"):
        n *= int(sizes.get(name, "1"))
    return n, stages


def planned(command: str, network: str, mesh: str, stage: str | None, *more: str) -> int:
    place = () if stage is None else ("--rank", stage)
    return run([MEMPLAN, command, path(network), "--mesh", mesh, "--device", "cpu", "--rules", "executor", *more, *place, "--json"])["ranks"]["sent_bytes"]


def everywhere() -> None:
    differ = []
    for network, mesh, more in CASES:
        n, stages = size_of(mesh)
        words = [path(network), "--mesh", mesh, *more, *ALL]
        train = run([*MPIRUN, "-n", str(n), MEMPLAN, "train", *words, "--no-before", "--steps", str(STEPS), "--json"])
        is_sent_as_planned(train)
        each = [rank["sent_bytes"] for rank in train["ranks"]["each"]]
        for stage in range(stages):
            of_stage = each[stage * n // stages : (stage + 1) * n // stages]
            measured = sum(of_stage) / len(of_stage) / STEPS
            name = str(stage) if stages > 1 else None
            estimated = planned("estimate", network, mesh, name, *more, "--optimizer", "sgd")
            by_plan = planned("plan", network, mesh, name, *more, *ALL)
            if not measured == estimated == by_plan:
                differ.append((network, mesh, more, stage, {"measured": measured, "estimate": estimated, "plan": by_plan}))
    assert not differ, "\n".join(map(str, differ))


def recomputed() -> None:
    """A plan that repeats collectives sends more than keep-all, and the ranks send as much as the plan says."""
    for network, mesh in (("gpt", "tp=2"), ("bert", "tp=2")):
        tight = ("--budget", "floor+30%", "--solver", "chen", "--optimizer", "sgd")
        train = run([*MPIRUN, "-n", "2", MEMPLAN, "train", path(network), "--mesh", mesh, *tight, "--no-before", "--steps", str(STEPS), "--json"])
        is_sent_as_planned(train)
        sent = sum(rank["sent_bytes"] for rank in train["ranks"]["each"]) / 2 / STEPS
        assert sent == planned("plan", network, mesh, None, *tight), (network, mesh, sent)
        assert sent > planned("estimate", network, mesh, None, "--optimizer", "sgd"), (network, mesh, sent)


def by_block() -> None:
    """`parallel` counts the collectives of the operators from the same records: of one stage on tp=2 with one micro-batch, exactly, whether tp splits samples or not."""
    words = ["gpt2", "--dim", "layers=2", "--dim", "width=64", "--dim", "heads=4", "--dim", "vocabulary=512", "--dim", "sequence=64"]
    card = ["--device", "h100", "--optimizer", "sgd"]
    found = run([MEMPLAN, "parallel", *words, *card, "--devices", "2", "--mesh", "tp=2", "--global-batch", "4", "--micro-batch-size", "4", "--json"])
    kinds = set()
    for choice in found["best"]:
        mesh = f"tp=2,data={choice['mesh']['data']}"
        rank = run([MEMPLAN, "estimate", *words, *card, "--mesh", mesh, "--batch", "4", "--json"])["ranks"]
        assert choice["stages"][0]["sent_bytes"] == rank["sent_bytes"], (mesh, choice["stages"][0], rank)
        kinds.add(mesh)
    assert len(kinds) == 2, kinds


try:
    globals()[WHAT]()
except subprocess.TimeoutExpired as late:
    raise SystemExit(f"late: {late.cmd}") from late
