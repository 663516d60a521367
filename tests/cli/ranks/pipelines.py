#!/usr/bin/env python3
"""pipelines.py MEMPLAN TEST - trainings of pipelines under mpirun, judged by those of one process.

Expected: the losses and parameters of one process that accumulates as many micro-batches, bit for bit where no parameter is on two stages, and where one
is, to 1e-6: its gradient is summed over micro-batches first, and then over stages. The same from run to run, and with a plan that recomputes; memory and bytes sent
as planned on every rank. Runs in the folder of the command line's tests.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import struct
import subprocess
import tempfile
import time

from many_ranks import ENVIRONMENT, MEMPLAN, MPIRUN, WHAT, is_sent_as_planned, path, quick, run, tensors
from saved_ranks import all_tensors, parts

BATCH = {"mlp": 6, "cnn": 4, "gpt": 3, "bert": 3}  # of the files, which is that of a micro-batch
TIED = {"gpt", "bert"}  # their first and last stage have one table of words
MICRO_BATCHES = 4


def words(n: int, network: str, *more: str, mesh: str = "", micro_batches: int = MICRO_BATCHES) -> list[str]:
    batch = str(BATCH[network] * micro_batches)
    return [*MPIRUN, "-n", str(n), MEMPLAN, "train", path(network), "--mesh", mesh or f"pp={n}", "--batch", batch, "--micro-batches", str(micro_batches), *more, *quick(network, *more)]


def stages(n: int, network: str, *more: str, mesh: str = "", micro_batches: int = MICRO_BATCHES, steps: int = 5) -> dict:
    return run([*words(n, network, *more, mesh=mesh, micro_batches=micro_batches), "--steps", str(steps), "--json"])


def one(network: str, *more: str, passes: int = MICRO_BATCHES, steps: int = 5) -> dict:
    return run([MEMPLAN, "train", path(network), "--budget", "100%", "--no-before", "--accumulate", str(passes), "--steps", str(steps), "--json", *more])["after"]


def is_as_planned(answer: dict) -> None:
    """On every rank: bytes sent are those of the plan, and the arena is no larger; unused bytes at its top are alignment."""
    is_sent_as_planned(answer)
    for rank in answer["ranks"]["each"]:
        assert 0 < rank["after"]["measured_peak_bytes"] <= rank["after"]["planned_peak_bytes"], rank
    assert answer["after"]["allocations"] == 0, answer["after"]


def hashes(answer: dict) -> list[str]:
    return [rank["weights_hash"] for rank in answer["ranks"]["each"]]


def near(mine: list[float], others: list[float], within: float) -> bool:
    return len(mine) == len(others) and all(abs(a - b) <= within * abs(b) for a, b in zip(mine, others))


def as_one_process() -> None:
    """Of all networks the losses, and of those without a table on two stages all parameters too."""
    for network, n in itertools.product(BATCH, (2, 4)):
        single = one(network)
        schedule = "gpipe" if n == 2 else "1f1b"
        many = stages(n, network, "--pipeline-schedule", schedule, "--budget", "100%", "--no-before")
        is_as_planned(many)
        assert many["after"]["losses"] == single["losses"], (network, n, many["after"]["losses"], single["losses"])


def same_bits() -> None:
    """From run to run, under both schedules, and within a budget for which each stage computes something again."""
    for network in ("cnn", "gpt"):
        seen = []
        for schedule, budget in (("gpipe", "100%"), ("1f1b", "100%"), ("1f1b", "floor+50%"), ("gpipe", "floor+50%"), ("1f1b", "100%")):
            many = stages(2, network, "--pipeline-schedule", schedule, "--budget", budget, "--solver", "chen", steps=3)
            is_as_planned(many)
            assert many["identical"] is True, (network, schedule, budget)
            if budget != "100%":
                assert many["after"]["planned_peak_bytes"] < many["before"]["planned_peak_bytes"], (network, schedule, budget)
            seen.append((many["after"]["losses"], hashes(many)))
        assert all(s == seen[0] for s in seen), (network, seen)


def more_options() -> None:
    """Optimizers, fused updates, mixed precision, and one micro-batch alone."""
    for more in (["--optimizer", "momentum", "--fuse", "backward"], ["--dtype", "bf16"], ["--optimizer", "sgd", "--weight-decay", "0.1"]):
        for network in ("mlp", "bert"):
            many = stages(2, network, "--budget", "100%", "--no-before", *more, steps=3)
            is_as_planned(many)
            assert many["after"]["losses"] == one(network, *more, steps=3)["losses"], (network, more)
    many = stages(2, "cnn", "--budget", "100%", micro_batches=1)
    assert many["after"]["losses"] == one("cnn", passes=1)["losses"]


def beside_data() -> None:
    """With dp each stage sums over its own ranks; with one micro-batch each the result equals that of one process that accumulates, with more only the first loss does."""
    for network in ("mlp", "gpt"):
        many = stages(4, network, "--budget", "100%", "--optimizer", "sgd", mesh="dp=2,pp=2", micro_batches=1)
        is_as_planned(many)
        single = one(network, "--optimizer", "sgd", passes=2)
        assert many["after"]["losses"] == single["losses"] or (network in TIED and near(many["after"]["losses"], single["losses"], 1e-6)), network
    for network in ("cnn", "gpt"):
        many = stages(4, network, "--budget", "floor+50%", "--solver", "chen", mesh="dp=2,pp=2")
        is_as_planned(many)
        assert many["identical"] is True
        single = one(network, "--optimizer", "sgd", passes=8)
        other = stages(4, network, "--budget", "100%", "--no-before", "--optimizer", "sgd", mesh="dp=2,pp=2")
        assert many["after"]["losses"][0] == single["losses"][0], network
        assert near(other["after"]["losses"], single["losses"], 1e-6), (network, other["after"]["losses"], single["losses"])


def clipped() -> None:
    """By the global norm over all stages, in which a table on two stages counts once: the losses of one process with the same limit, bit for bit, whatever each stage computes
    again; with dp after the sums over ranks."""
    usual = ("--optimizer", "momentum", "--lr", "0.1", "--clip-norm", "0.05")
    for network, n in itertools.product(BATCH, (2, 4)):
        single = one(network, *usual)
        budget = ("--budget", "100%", "--no-before") if n == 2 else ("--budget", "floor+50%", "--solver", "chen", "--pipeline-schedule", "gpipe")
        many = stages(n, network, *budget, *usual)
        is_as_planned(many)
        assert many["identical"] is not False and many["after"]["losses"] == single["losses"], (network, n, many["after"]["losses"], single["losses"])
        free = one(network, *usual[:4])["losses"]
        assert abs(free[-1] / single["losses"][-1] - 1) > 1e-3, (network, "the limit is above the norm")
    for network, micro_batches, within in (("mlp", 1, 0), ("cnn", 2, 1e-6), ("gpt", 1, 1e-6)):
        many = stages(4, network, "--budget", "100%", "--no-before", *usual, mesh="dp=2,pp=2", micro_batches=micro_batches)
        is_as_planned(many)
        assert near(many["after"]["losses"], one(network, *usual, passes=2 * micro_batches)["losses"], within), (network, many["after"]["losses"])
    for rank, last in enumerate(("sum over stages of gradient of tokens.weight", "send gradients to stage 0", "sum over stages of gradient of tokens.weight")):
        of_rank = ["--device", "cpu", "--mesh", "pp=3", "--batch", "12", "--micro-batches", "4", "--rank", str(rank)]
        graph = run([MEMPLAN, "graph", path("gpt"), *of_rank, "--clip-norm", "1"])
        nodes = {node["name"]: node for node in graph["nodes"]}
        assert set(nodes[last]["writes"]) & set(nodes["global norm"]["reads"]), (rank, "all others may wait for what comes after this")


def by_plan() -> None:
    """A plan for each stage, made before, and read by its rank."""
    usual = [path("cnn"), "--device", "cpu", "--mesh", "pp=2", "--batch", "16", "--micro-batches", "4", "--effort", "quick"]
    run([MEMPLAN, "plan", *usual, "--budget", "98%", "-o", "stages.json", "--json"])
    many = run([*MPIRUN, "-n", "2", MEMPLAN, "train", path("cnn"), "--mesh", "pp=2", "--plan", "stages.json", "--steps", "3", "--json"])
    is_as_planned(many)
    assert many["identical"] is True and many["after"]["losses"] == one("cnn", steps=3)["losses"]


def tied() -> None:
    """A table on the first and the last stage: its gradient is that of both ends, within rounding of one process's, and all others have its bits. That both stages
    have the same table is compared at the end of each training, here after every step."""
    for network, n in (("gpt", 2), ("bert", 3)):
        with tempfile.TemporaryDirectory(dir=".") as folder:
            mine, single = f"{folder}/state", f"{folder}/one"
            usual = ("--optimizer", "momentum", "--lr", "0.1")
            stages(n, network, *usual, "--budget", "100%", "--no-before", "--save", mine, steps=1)
            one(network, *usual, "--save", single, steps=1)
            a, b = all_tensors(mine), tensors(single)
            table = next(name for name in b if name.startswith("optimizer.1:") and name.endswith("tokens.weight"))
            assert [name for name in b if a[name] != b[name]] in ([], [table], [table.split(":")[1], table], [table, table.split(":")[1]]), network
            gradients = [struct.unpack(f"<{len(of[table]) // 4}f", of[table]) for of in (a, b)]
            largest = max(map(abs, gradients[1]))
            assert largest > 1e-3 and max(abs(x - y) for x, y in zip(*gradients)) <= 1e-6 * largest, (network, largest)
            for steps in (2, 3):
                assert stages(n, network, *usual, "--budget", "100%", "--no-before", steps=steps)["after"]["losses"], steps


def saved() -> None:
    """All ranks write the tensors of their stages, and none twice: the tensors of one process, but for a table on two stages. Other stages, one process and other
    meshes go on with it, with the losses of a training that was never stopped."""
    usual = ("--budget", "100%", "--no-before")
    with tempfile.TemporaryDirectory(dir=".") as folder:
        for network in ("cnn", "gpt"):
            state, never, single = f"{folder}/{network}", one(network, steps=4)["losses"], f"{folder}/{network}.safetensors"
            stages(2, network, *usual, "--save", state, steps=2)
            one(network, "--save", single, steps=2)
            mine, others = all_tensors(state), tensors(single)
            assert mine.keys() == others.keys() and len(parts(state)) == 2
            assert all(mine[name] == others[name] or (network == "gpt" and name.endswith("tokens.weight")) for name in mine), network
            assert stages(4, network, *usual, "--resume", state, "--save", state, steps=1)["after"]["losses"] == never[2:3], network
            assert len(parts(state)) == 4
            assert one(network, "--resume", state, steps=1)["losses"] == never[3:], network
        state, sgd = f"{folder}/both", ("--optimizer", "momentum")
        never = one("cnn", *sgd, steps=4)["losses"]
        many = stages(4, "cnn", *usual, *sgd, "--save", state, mesh="dp=2,pp=2", micro_batches=2, steps=2)
        rest = stages(2, "cnn", *usual, *sgd, "--resume", state, steps=2)
        assert len(parts(state)) == 4 and near(many["after"]["losses"] + rest["after"]["losses"], never, 1e-6)
        with open(f"{folder}/file", "w") as file:
            file.write("old")
        refused("ranks that have stages of a pipeline (pp) save into a folder, but this is a file", "--save", f"{folder}/file")


def refused(said: str, *more: str, network: str = "cnn") -> None:
    done = subprocess.run(words(2, network, "--budget", "100%", *more), env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and said in done.stderr, (more, done.returncode, done.stderr)


def refusals() -> None:
    refused("the schedule zb-h1 can be planned but not trained yet", "--pipeline-schedule", "zb-h1")
    refused("--reduce fast with pp can be planned but not trained yet", "--reduce", "fast")
    refused("--accumulate does not apply to a pipeline; use --micro-batches", "--accumulate", "2")
    usual = words(2, "cnn", "--budget", "100%", "--no-before")
    own = usual[: len(MPIRUN)] + ["-n", "1"] + usual[len(MPIRUN) + 2 :]
    for more, what in ((["--pipeline-schedule", "gpipe"], "schedule"), (["--stages", "0,3"], "cut of the network into stages"), (["--seed", "1"], "value of --seed")):
        done = subprocess.run([*own, ":", "-n", "1", *usual[len(MPIRUN) + 2 :], *more], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
        assert done.returncode != 0 and f"rank 1 of 2 has another {what} than rank 0" in done.stderr, (more, done.stderr)


def a_stage_dies() -> None:
    ends_when_one_dies(words(2, "cnn", "--budget", "100%", "--no-before", "--steps", "1000000000"), 2)


def ends_when_one_dies(command: list[str], n: int) -> None:
    job = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    killed = last_child(job, n)
    os.kill(killed, signal.SIGKILL)
    begin = time.monotonic()
    _, said = job.communicate(timeout=60)
    assert time.monotonic() - begin < 10 and job.returncode != 0, said
    assert re.search(rf"memplan: rank \d: .*rank \d of {n} has ended \(process {killed} on .*\) while other ranks waited for it in ", said), said


def last_child(job: subprocess.Popen, n: int) -> int:
    """The process of the last rank, once all n of them train."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/stat") as file:
                    if int(file.read().rsplit(")", 1)[1].split()[1]) == job.pid:
                        found.append(int(entry))
            except (OSError, IndexError):
                continue
        if len(found) == n:
            time.sleep(1.5)
            return max(found)
        time.sleep(0.02)
    raise AssertionError("the ranks did not start")


if __name__ == "__main__":
    globals()[WHAT]()
