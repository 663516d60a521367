#!/usr/bin/env python3
"""hybrids.py MEMPLAN TEST - stages of a pipeline whose ranks share their state out (shard), or split operators (tp), judged by one process and by other meshes.

Expected: with zero=1 the losses and parameters of dp beside pp, bit for bit, because every sum has the same order; with zero=2 and 3, where each pass
is summed, those of one process that accumulates as many micro-batches, bit for bit where no parameter is on two stages; with tp those within rounding. The same from run to run, under both schedules, and with a plan that recomputes; memory and bytes sent as
planned on every rank. A state goes to any other mesh, and to one process. Runs in the folder of the command line's tests.
"""

from __future__ import annotations

import struct
import subprocess
import tempfile

from many_ranks import ENVIRONMENT, MEMPLAN, MPIRUN, WHAT, path, ranks, run, tensors
from pipelines import BATCH, MICRO_BATCHES, TIED, ends_when_one_dies, hashes, is_as_planned, near, one, stages, words
from saved_ranks import all_tensors

ALL = ("--budget", "100%", "--no-before")
TIGHT = ("--budget", "floor+50%", "--solver", "chen")
SGD, MOMENTUM = ("--optimizer", "sgd"), ("--optimizer", "momentum")  # Adam turns rounding into steps where a gradient is zero but for it


def static_bytes(answer: dict) -> int:
    return answer["after"]["static_bytes"]


def shared_out() -> None:
    """The optimizer's state in parts: bits of ranks that have all of it, in less memory, whatever the schedule and whatever is recomputed."""
    for network in ("cnn", "gpt"):
        whole = stages(4, network, *ALL, mesh="dp=2,pp=2", steps=3)
        for schedule, budget in (("1f1b", ALL), ("gpipe", TIGHT)):
            many = stages(4, network, "--pipeline-schedule", schedule, *budget, mesh="shard=2,zero=1,pp=2", steps=3)
            is_as_planned(many)
            assert many["after"]["losses"] == whole["after"]["losses"], (network, schedule)
            assert hashes(many) == hashes(whole), (network, schedule)
            if budget == TIGHT:
                assert many["identical"] is True, (network, schedule)
            else:
                assert static_bytes(many) < static_bytes(whole), network


def in_parts() -> None:
    """Gradients in parts, and parameters too: each micro-batch is summed over the ranks, and shared parameters of stages once over the stages. Parameters that forward has gathered and
    another backward has overwritten is gathered again."""
    for network in BATCH:
        with tempfile.TemporaryDirectory(dir=".") as folder:
            mine, single = f"{folder}/ranks", f"{folder}/one"
            whole, static = one(network, *MOMENTUM, "--save", single, passes=2 * MICRO_BATCHES, steps=3), 1 << 40
            for zero in (2, 3):
                mesh = f"shard=2,zero={zero},pp=2"
                many = stages(4, network, *ALL, *MOMENTUM, "--bucket", "1KiB", mesh=mesh, steps=3)
                tight = stages(4, network, "--pipeline-schedule", "gpipe", *TIGHT, *MOMENTUM, "--bucket", "1KiB", "--save", mine, mesh=mesh, steps=3)
                for answer in (many, tight):
                    is_as_planned(answer)
                    assert as_exactly(network, answer["after"]["losses"], whole["losses"]), (network, mesh, answer["after"]["losses"], whole["losses"])
                assert tight["identical"] is True and hashes(many) == hashes(tight), (network, mesh)
                a, b = all_tensors(mine), tensors(single)
                differ = [name for name in b if a[name] != b[name] and "running_" not in name]  # statistics are of the samples of one rank
                assert network in TIED or not differ, (network, mesh, differ)
                same_values(a, b, network)
                assert static_bytes(many) < static, (network, mesh)
                static = static_bytes(many)


def as_exactly(network: str, mine: list[float], others: list[float]) -> bool:
    return mine == others or (network in TIED and near(mine, others, 1e-6))


def split() -> None:
    """The heads, columns and rows of each stage on two ranks, the sequence between them too; losses, parameters and moments within rounding of one process."""
    for network in BATCH:
        with tempfile.TemporaryDirectory(dir=".") as folder:
            mine, single = f"{folder}/ranks", f"{folder}/one"
            whole = one(network, *MOMENTUM, "--save", single, steps=4)
            many = stages(4, network, *TIGHT, *MOMENTUM, "--save", mine, mesh="tp=2,pp=2", steps=4)
            is_as_planned(many)
            assert many["identical"] is True and near(many["after"]["losses"], whole["losses"], 1e-6), (network, many["after"]["losses"], whole["losses"])
            same_values(all_tensors(mine), tensors(single), network)
            again = stages(4, network, "--pipeline-schedule", "gpipe", *ALL, *MOMENTUM, mesh="tp=2,pp=2", steps=4)
            is_as_planned(again)
            assert again["after"]["losses"] == many["after"]["losses"] and hashes(again) == hashes(many), network
            if network == "gpt":
                assert static_bytes(again) < static_bytes(stages(2, network, "--pipeline-schedule", "gpipe", *ALL, *MOMENTUM, steps=1))
    for mesh, network in (("tp=2,sp=0,pp=2", "gpt"), ("tp=2,data=1,pp=2", "mlp")):
        many = stages(4, network, *TIGHT, *SGD, mesh=mesh)
        is_as_planned(many)
        assert near(many["after"]["losses"], one(network, *SGD)["losses"], 1e-6), (mesh, many["after"]["losses"])


def same_values(mine: dict[str, bytes], others: dict[str, bytes], what: str) -> None:
    assert mine.keys() == others.keys() and any(name.startswith("optimizer.1:") for name in mine), (what, mine.keys() ^ others.keys())
    for name in mine:
        if "running_" in name:
            continue
        a, b = (struct.unpack(f"<{len(of[name]) // 4}f", of[name]) for of in (mine, others))
        assert len(a) == len(b) and max(abs(x - y) / max(1, abs(y)) for x, y in zip(a, b)) <= 1e-6, (what, name)


def more_ranks() -> None:
    """Four stages of two ranks, and three dimensions at once: 8 ranks. A sum over ranks with different data counts as that many more micro-batches."""
    of_two = ("shard=2,zero=1,pp=4", "dp=2,tp=2,pp=2", "shard=2,zero=1,tp=2,pp=2", "shard=2,tp=2,pp=2")
    for mesh, passes in (("tp=2,pp=4", 1), *((mesh, 2) for mesh in of_two), ("dp=2,shard=2,zero=2,pp=2", 4), ("dp=2,shard=2,pp=2", 4)):
        many = stages(8, "gpt", *TIGHT, *SGD, mesh=mesh, steps=3)
        is_as_planned(many)
        assert many["identical"] is True, mesh
        assert near(many["after"]["losses"], one("gpt", *SGD, passes=passes * MICRO_BATCHES, steps=3)["losses"], 1e-6), (mesh, many["after"]["losses"])


def more_options() -> None:
    """Fused updates, mixed precision, clipping, statistics of all ranks, dropout, and one micro-batch alone."""
    clipped = (*SGD, "--lr", "0.1", "--clip-norm", "0.05")
    for mesh, passes in (("tp=2,pp=2", 4), ("shard=2,pp=2", 8)):
        many = stages(4, "gpt", *ALL, *clipped, mesh=mesh, steps=3)
        is_as_planned(many)
        assert near(many["after"]["losses"], one("gpt", *clipped, passes=passes, steps=3)["losses"], 1e-6), (mesh, many["after"]["losses"])
    for more in (["--fuse", "backward", *MOMENTUM], ["--dtype", "bf16"]):
        many, other = (stages(4, "bert", *ALL, *more, mesh=mesh, steps=3) for mesh in ("shard=2,zero=1,pp=2", "dp=2,pp=2"))
        is_as_planned(many)
        assert many["after"]["losses"] == other["after"]["losses"] and hashes(many) == hashes(other), more
    for mesh, passes in (("tp=2,pp=2", 4), ("shard=2,pp=2", 8)):
        many = stages(4, "bert", *ALL, "--fuse", "backward", *MOMENTUM, mesh=mesh, steps=3)
        is_as_planned(many)
        assert near(many["after"]["losses"], one("bert", *MOMENTUM, passes=passes, steps=3)["losses"], 1e-6), mesh
    for zero in (2, 3):
        many = stages(4, "mlp", *ALL, "--dtype", "bf16", mesh=f"shard=2,zero={zero},pp=2", steps=3)
        is_as_planned(many)
        other = ranks(2, "mlp", *ALL, "--dtype", "bf16", "--accumulate", "4", mesh=f"shard=2,zero={zero}", steps=3)
        assert many["after"]["losses"] == other["after"]["losses"], zero
    for mesh in ("tp=2,pp=2", "shard=2,zero=1,pp=2", "shard=2,pp=2"):
        many = stages(4, "gpt", *ALL, *SGD, mesh=mesh, micro_batches=1)
        is_as_planned(many)
        assert near(many["after"]["losses"], one("gpt", *SGD, passes=1 if "tp" in mesh else 2)["losses"], 1e-6), mesh
    many = stages(4, "cnn", *ALL, *SGD, "--sync-batchnorm", mesh="tp=2,pp=2", steps=3)
    is_as_planned(many)
    dropout = "../networks/files/dropout_cnn.dynamo"
    many = run([*MPIRUN, "-n", "4", MEMPLAN, "train", path(dropout), "--mesh", "tp=2,pp=2", "--batch", "16", "--micro-batches", "4", *TIGHT, *SGD, "--steps", "3", "--json"])
    is_as_planned(many)
    assert near(many["after"]["losses"], one(dropout, "--batch", "4", *SGD, steps=3)["losses"], 1e-6)


def by_plan() -> None:
    """A plan for each stage, made before, in which its ranks take part: those next to each other, as `plan` counts them."""
    for mesh in ("tp=2,pp=2", "shard=2,pp=2"):
        usual = [path("gpt"), "--device", "cpu", "--mesh", mesh, "--batch", "12", "--micro-batches", "4", *SGD]
        run([MEMPLAN, "plan", *usual, "--budget", "100%", "--effort", "quick", "-o", "hybrid.json", "--json"])
        many = run([*MPIRUN, "-n", "4", MEMPLAN, "train", path("gpt"), "--mesh", mesh, "--plan", "hybrid.json", "--steps", "3", "--json"])
        is_as_planned(many)
        assert many["identical"] is True, mesh
        sent = [rank["planned_sent_bytes"] for rank in many["ranks"]["each"]]
        assert sent[0] == sent[1] != sent[2] == sent[3], sent


def saved() -> None:
    """All ranks write, nothing twice; other stages, one process and other meshes go on with it."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        for k, (network, mesh, sharers) in enumerate((("gpt", "shard=2,zero=1,pp=2", 2), ("gpt", "tp=2,pp=2", 1), ("cnn", "shard=2,pp=2", 2))):
            state, single = f"{folder}/state{k}", f"{folder}/one{k}"
            passes = sharers * MICRO_BATCHES
            never = one(network, *MOMENTUM, passes=passes, steps=5)["losses"]
            first = stages(4, network, *ALL, *MOMENTUM, "--save", state, mesh=mesh, steps=2)["after"]["losses"]
            one(network, *MOMENTUM, "--save", single, passes=passes, steps=2)
            same_values(all_tensors(state), tensors(single), mesh)
            second = stages(4, network, *ALL, *MOMENTUM, "--resume", state, "--save", state, mesh="tp=2,pp=2", micro_batches=passes, steps=1)["after"]["losses"]
            third = stages(4, network, *ALL, *MOMENTUM, "--resume", state, "--save", state, mesh="shard=2,zero=2,pp=2", micro_batches=passes // 2, steps=1)["after"]["losses"]
            last = one(network, *MOMENTUM, "--resume", state, passes=passes, steps=1)["losses"]
            assert near(first + second + third + last, never, 1e-6), (network, mesh, first, second, third, last, never)
            back = stages(4, network, *ALL, *MOMENTUM, "--resume", single, mesh=mesh, steps=3)["after"]["losses"]
            assert near(back, never[2:], 1e-6), (network, mesh, back)


def refused() -> None:
    for mesh, more, said in (
        ("tp=2,pp=2", ["--pipeline-schedule", "zb-h1"], "the schedule zb-h1 can be planned but not trained yet"),
        ("tp=2,sp=0,pp=2,scatter=1", [], "scatter=1 can be planned but not trained yet (mesh tp=2,sp=0,pp=2,scatter=1)"),
        ("shard=2,zero=1,pp=2", ["--reduce", "fast"], "--reduce fast with pp can be planned but not trained yet (mesh shard=2,zero=1,pp=2)"),
        ("tp=2,pp=2", ["--device", "a100"], "the device 'a100' is a profile for planning"),
    ):
        done = subprocess.run(words(4, "gpt", "--budget", "100%", *more, mesh=mesh), env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and said in done.stderr, (mesh, more, done.returncode, done.stderr)


def a_rank_dies() -> None:
    for mesh in ("tp=2,pp=2", "shard=2,pp=2"):
        ends_when_one_dies(words(4, "gpt", *ALL, "--steps", "1000000000", mesh=mesh), 4)


if __name__ == "__main__":
    globals()[WHAT]()
