#!/usr/bin/env python3
"""many_ranks.py MEMPLAN TEST - trainings of several processes under mpirun, judged by those of one process.

Expected: the losses and parameters of one process that accumulates as many micro-batches, bit for bit, where no statistics are of a batch and no
row of a table or weight is used twice in a step; the same from run to run; memory and bytes sent as planned. And how they end where a rank dies, is stopped,
or has something else to do: all of them, in time, with a sentence that names the rank. Runs in the folder of the command line's tests.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

MEMPLAN, WHAT = sys.argv[1:3]
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
NETWORKS = os.path.join(os.path.dirname(__file__), "..", "..", "gradients")
# Under a sanitizer: plugins that Open MPI has unloaded have left memory behind, of which nothing shows any more whose it was.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "ASAN_OPTIONS": "detect_leaks=0"}
# Gradients that an accumulating process sums row by row, or twice: they round differently from a sum of whole gradients.
ADDED_IN_PARTS = {"gpt": "tokens.weight", "bert": "tokens.weight"}


def path(network: str) -> str:
    file = os.path.join(NETWORKS, f"{network}.onnx")
    return file if os.path.exists(file) else network  # one that is known by name


def run(words: list[str]) -> dict:
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (words, done.returncode, done.stderr)
    return json.loads(done.stdout)


def quick(network: str, *more: str) -> tuple[str, ...]:
    """The searcher where a test names none: all searchers would take more than half of its time, but mlp near the floor needs them to recompute."""
    return () if "--solver" in more or "--plan" in more or (network == "mlp" and "100%" not in more) else ("--solver", "lagrange")


def ranks(n: int, network: str, *more: str, mesh: str = "", steps: int = 5) -> dict:
    words = [MEMPLAN, "train", path(network), "--mesh", mesh or f"dp={n}", "--steps", str(steps), "--json", *more, *quick(network, *more)]
    return run([*MPIRUN, "-n", str(n), *words])


def one(network: str, *more: str, steps: int = 5) -> dict:
    return run([MEMPLAN, "train", path(network), "--steps", str(steps), "--json", *more])


def tensors(file: str) -> dict[str, bytes]:
    with open(file, "rb") as f:
        contents = f.read()
    begin = 8 + struct.unpack("<Q", contents[:8])[0]
    header = json.loads(contents[8:begin])
    return {
        name: contents[begin + of["data_offsets"][0] : begin + of["data_offsets"][1]] for name, of in header.items() if name != "__metadata__"
    }


def is_sent_as_planned(answer: dict) -> None:
    """On every rank; and its collectives, of all kinds, and exchanges of operators have sent all of it."""
    for rank in answer["ranks"]["each"]:
        assert rank["sent_bytes"] == rank["planned_sent_bytes"] > 0, rank
        assert sum(of["sent_bytes"] for of in rank["collectives"]) == rank["sent_bytes"], rank


def is_as_planned(answer: dict) -> None:
    after = answer["after"]
    is_sent_as_planned(answer)
    assert answer["identical"] is True, answer
    assert answer["ranks"]["sent_bytes"] == answer["ranks"]["planned_sent_bytes"] > 0, answer["ranks"]
    assert after["allocations"] == 0, after
    # unused bytes at the top of the arena are alignment
    assert after["measured_arena_bytes"] <= after["arena_bytes"], after


def same_bits() -> None:
    for network, n in (("mlp", 2), ("mlp", 4), ("cnn", 2), ("cnn", 4), ("gpt", 2)):
        many, single = ranks(n, network, "--budget", "floor+30%", "--solver", "auto"), one(network, "--budget", "100%", "--accumulate", str(n))
        again = ranks(n, network, "--budget", "100%", "--no-before")
        is_as_planned(many)
        assert many["after"]["weights_hash"] == again["after"]["weights_hash"], network
        assert many["after"]["losses"] == again["after"]["losses"], network
        assert many["after"]["losses"][0] == single["after"]["losses"][0], network
        if network == "mlp":
            assert many["after"]["measured_arena_bytes"] == many["after"]["arena_bytes"], many["after"]
            assert many["after"]["weights_hash"] == single["after"]["weights_hash"], n
            assert many["after"]["losses"] == single["after"]["losses"], n


def all_but_tables() -> None:
    for network, n in (("gpt", 2), ("gpt", 4), ("bert", 4)):
        with tempfile.TemporaryDirectory() as folder:
            a, b = f"{folder}/ranks.safetensors", f"{folder}/one.safetensors"
            ranks(n, network, "--budget", "100%", "--no-before", "--save", a, steps=1)
            one(network, "--budget", "100%", "--no-before", "--accumulate", str(n), "--save", b, steps=1)
            mine, others = tensors(a), tensors(b)
            differ = [name for name in mine if mine[name] != others[name]]
            assert len(mine) > 50 and all(name.endswith(ADDED_IN_PARTS[network]) for name in differ), (network, n, differ)


def after_every_step() -> None:
    """Parameters are compared over the ranks at the end of a training, here after each of its steps."""
    for steps in range(1, 4):
        assert ranks(4, "cnn", "--budget", "100%", "--no-before", steps=steps)["after"]["losses"]


def more_options() -> None:
    """Clipping, momentum, fused updates, accumulation, a training that goes on, dropout: as one process with as many micro-batches."""
    for more in (["--clip-norm", "0.1"], ["--optimizer", "momentum", "--fuse", "backward"], ["--bucket", "512"]):
        many, single = ranks(2, "mlp", "--budget", "100%", *more), one("mlp", "--budget", "100%", "--accumulate", "2", *[m for m in more if m not in ("--bucket", "512")])
        assert many["after"]["weights_hash"] == single["after"]["weights_hash"], more
    many, single = ranks(2, "mlp", "--budget", "100%", "--accumulate", "2"), one("mlp", "--budget", "100%", "--accumulate", "4")
    assert many["after"]["losses"][0] == single["after"]["losses"][0]
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/saved.safetensors"
        whole = ranks(2, "mlp", "--budget", "100%")
        ranks(2, "mlp", "--budget", "100%", "--no-before", "--save", file, steps=2)
        rest = ranks(2, "mlp", "--budget", "100%", "--resume", file, steps=3)
        assert rest["after"]["weights_hash"] == whole["after"]["weights_hash"]
    many = ranks(2, "../networks/files/dropout_cnn.dynamo", "--batch", "4", "--budget", "100%")
    single = one("../networks/files/dropout_cnn.dynamo", "--batch", "4", "--budget", "100%", "--accumulate", "2")
    assert many["after"]["losses"] == single["after"]["losses"]


def shared_out() -> None:
    """State, gradients and parameters in parts: the bits of ranks that have all of it, in less memory; with parameters in parts a plan gathers again."""
    for network in ("mlp", "gpt"):
        whole = ranks(2, network, "--budget", "100%", "--bucket", "1KiB", "--no-before")["after"]
        static = whole["static_bytes"]
        for zero in (1, 2, 3):
            for budget in ("100%", "floor+30%"):
                searcher = ("--solver", "auto") if zero == 3 else ()  # whose plan gathers again
                answer = ranks(2, network, "--budget", budget, "--bucket", "1KiB", *searcher, mesh=f"shard=2,zero={zero}")
                is_as_planned(answer)
                assert answer["after"]["losses"] == whole["losses"], (network, zero, budget)
                assert zero == 3 or answer["after"]["weights_hash"] == whole["weights_hash"], (network, zero, budget)
                assert answer["after"]["static_bytes"] < static, (network, zero, answer["after"], static)
            static = answer["after"]["static_bytes"] + (zero == 1)
        again = answer["ranks"]["sent_bytes"]
        assert again > ranks(2, network, "--budget", "100%", "--bucket", "1KiB", "--no-before", mesh="shard=2")["ranks"]["sent_bytes"]
    whole = ranks(4, "mlp", "--budget", "100%", "--no-before")["after"]
    for mesh in ("shard=4,zero=1", "shard=4", "dp=2,shard=2,zero=2"):
        answer = ranks(4, "mlp", "--budget", "100%", mesh=mesh)
        is_as_planned(answer)
        same = [a == b for a, b in zip(answer["after"]["losses"], whole["losses"])]
        assert all(same) if "dp" not in mesh else same[0], mesh


def frozen() -> None:
    """Frozen parameters in parts: the losses and the saved parameters of ranks that hold all of them, in less static memory. Bytes sent are as planned."""
    for n, network, more in (
        (2, "mlp", ["--freeze", "layers.1.*"]),
        (3, "mlp", ["--freeze", "*weight"]),
        (2, "gpt", ["--lora", "2:*"]),
        (2, "gpt", ["--lora", "2:*", "--dtype", "bf16"]),
    ):
        with tempfile.TemporaryDirectory() as folder:
            files = [f"{folder}/{name}" for name in ("whole.safetensors", "parts", "again.safetensors")]
            whole = ranks(n, network, "--budget", "100%", "--no-before", "--save", files[0], *more)["after"]
            for budget in ("100%", "floor+30%"):
                answer = ranks(n, network, "--budget", budget, "--save", files[1], *more, mesh=f"shard={n}")
                is_as_planned(answer)
                assert answer["after"]["losses"] == whole["losses"], (network, more, budget, answer["after"]["losses"], whole["losses"])
                # of LoRA nearly all are frozen weights: a half of them, and batch and constants
                share = 0.7 if network == "gpt" else 1
                assert answer["after"]["static_bytes"] < share * whole["static_bytes"], (network, more, answer["after"], whole)
            rest = ranks(n, network, "--budget", "100%", "--no-before", "--resume", files[0], "--save", files[2], *more, steps=1)["after"]
            resumed = ranks(n, network, "--budget", "100%", "--no-before", "--resume", files[1], *more, steps=1, mesh=f"shard={n}")["after"]
            assert rest["losses"] == resumed["losses"], (network, more)
    single = one("mlp", "--budget", "100%", "--no-before", "--freeze", "layers.[23].*", "--accumulate", "4")["after"]
    answer = ranks(2, "mlp", "--budget", "floor+30%", "--freeze", "layers.[23].*", "--accumulate", "2", mesh="shard=2")
    is_as_planned(answer)
    assert answer["after"]["losses"] == single["losses"], (answer["after"]["losses"], single["losses"])


def shared_out_with_options() -> None:
    """With parts: clipping by the norm of all of them, master copies of 16-bit parameters, micro-batches. As with all of it on every rank."""
    for n, network, more, zeros in (
        (3, "mlp", ["--clip-norm", "0.1"], (1, 2, 3)),
        (2, "cnn", ["--clip-norm", "0.5", "--optimizer", "momentum"], (2,)),
        (3, "mlp", ["--dtype", "bf16"], (1, 2, 3)),
        (2, "mlp", ["--dtype", "bf16", "--optimizer", "sgd"], (3,)),
        (2, "gpt", ["--dtype", "bf16", "--clip-norm", "0.1"], (3,)),
    ):
        whole = ranks(n, network, "--budget", "100%", "--no-before", *more)["after"]
        for zero in zeros:
            answer = ranks(n, network, "--budget", "floor+30%", *more, mesh=f"shard={n},zero={zero}")
            is_as_planned(answer)
            assert answer["after"]["losses"] == whole["losses"], (network, more, n, zero, answer["after"]["losses"], whole["losses"])
            assert zero == 3 or answer["after"]["weights_hash"] == whole["weights_hash"], (network, more, n, zero)
    whole = ranks(2, "mlp", "--budget", "100%", "--no-before", "--accumulate", "3")["after"]
    assert ranks(2, "mlp", "--budget", "100%", "--accumulate", "3", mesh="shard=2,zero=1")["after"]["losses"] == whole["losses"]


def shared_out_sums() -> None:
    """Ranks that keep parts of gradients sum each micro-batch, and add it to their parts: the bits of one process that runs all micro-batches of all ranks,
    where gradients are added whole. With dp beside it ranks of shard sum first."""
    for n, network, passes, more, zeros in ((3, "mlp", 2, ["--optimizer", "momentum", "--clip-norm", "0.1"], (2, 3)), (2, "mlp", 3, [], (2,)), (2, "cnn", 2, [], (2, 3))):
        single = one(network, "--budget", "100%", "--no-before", "--accumulate", str(n * passes), *more)["after"]
        for zero in zeros:
            answer = ranks(n, network, "--budget", "floor+30%", "--bucket", "1KiB", "--accumulate", str(passes), *more, mesh=f"shard={n},zero={zero}")
            is_as_planned(answer)
            assert answer["after"]["losses"] == single["losses"], (network, n, zero, answer["after"]["losses"], single["losses"])
            assert zero == 3 or network == "cnn" or answer["after"]["weights_hash"] == single["weights_hash"], (network, n)
    parts = [ranks(2, "mlp", "--budget", "100%", "--no-before", "--accumulate", "3", mesh=f"shard=2,zero={zero}") for zero in (1, 2)]
    assert parts[1]["after"]["static_bytes"] < parts[0]["after"]["static_bytes"] and parts[1]["ranks"]["sent_bytes"] > parts[0]["ranks"]["sent_bytes"]
    single = one("mlp", "--budget", "100%", "--no-before", "--accumulate", "8")["after"]
    for n, mesh, passes in ((4, "dp=2,shard=2,zero=2", "2"), (4, "dp=2,shard=2", "2"), (4, "shard=2,zero=2,tp=2", "4")):
        answer = ranks(n, "mlp", "--budget", "floor+30%", "--accumulate", passes, mesh=mesh)
        is_as_planned(answer)
        assert all(abs(a - b) <= 1e-6 * abs(b) for a, b in zip(answer["after"]["losses"], single["losses"])), (mesh, answer["after"]["losses"], single["losses"])


def fast() -> None:
    many, single = ranks(2, "cnn", "--budget", "100%", "--reduce", "fast"), ranks(2, "cnn", "--budget", "100%")
    assert many["ranks"]["reduce"] == "fast" and single["ranks"]["reduce"] == "ordered"
    sharded = ranks(2, "cnn", "--budget", "100%", "--reduce", "fast", mesh="shard=2")
    for answer in (many, sharded):
        for a, b in zip(answer["after"]["losses"], single["after"]["losses"]):
            assert abs(a - b) <= 1e-5 * abs(b)


def started(n: int, *more: str) -> subprocess.Popen:
    words = [*MPIRUN, "-n", str(n), MEMPLAN, "train", path("cnn"), "--mesh", f"dp={n}", "--budget", "100%", "--no-before", "--steps", "1000000000", *more]
    return subprocess.Popen(words, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def processes(job: subprocess.Popen, n: int) -> list[int]:
    """The processes of the ranks, in the order in which they were started, once all of them train."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = []
        for entry in os.listdir("/proc"):
            try:
                with open(f"/proc/{entry}/stat") as file:
                    if entry.isdigit() and int(file.read().rsplit(")", 1)[1].split()[1]) == job.pid:
                        found.append(int(entry))
            except (OSError, IndexError):
                continue
        if len(found) == n:
            time.sleep(1.5)
            return sorted(found)
        time.sleep(0.02)
    raise AssertionError("the ranks did not start")


def end_of(job: subprocess.Popen, within: float) -> str:
    begin = time.monotonic()
    _, said = job.communicate(timeout=60)
    took = time.monotonic() - begin
    assert took < within, (took, said)
    assert job.returncode != 0, said
    return said


def gone(pids: list[int]) -> None:
    time.sleep(0.2)
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat") as file:
                assert file.read().rsplit(")", 1)[1].split()[0] in "ZX", pid
        except OSError:
            pass


def a_rank_dies() -> None:
    job = started(4)
    pids = processes(job, 4)
    os.kill(pids[1], signal.SIGKILL)
    said = end_of(job, 10)
    assert re.search(rf"memplan: rank \d: .*rank \d of 4 has ended \(process {pids[1]} on .*\) while other ranks waited for it in ", said), said
    gone(pids)


def a_rank_is_stopped() -> None:
    job = started(2, "--timeout", "3")
    pids = processes(job, 2)
    os.kill(pids[1], signal.SIGSTOP)
    said = end_of(job, 13)
    assert re.search(rf"memplan: rank \d: .*rank \d of 2 has been stopped \(process {pids[1]} on .*\); other ranks waited for it in .* for 3 s", said), said
    gone(pids)


def ranks_differ() -> None:
    usual = ["--budget", "100%", "--no-before", "--mesh", "dp=2"]
    for more, what in (
        (["--seed", "1"], "value of --seed"),
        (["--optimizer", "sgd"], "training graph"),
        (["--reduce", "fast"], "training graph"),
        (["--lr", "0.5"], "value of --lr"),
        (["--steps", "3"], "value of --steps"),
        (["--budget", "floor+20%"], "value of --budget"),
        (["--effort", "thorough"], "value of --effort"),
    ):
        other = [w for w in usual if not (more[0] == "--budget" and w in usual[:2])]
        words = [*MPIRUN, "-n", "1", MEMPLAN, "train", path("cnn"), *usual, ":", "-n", "1", MEMPLAN, "train", path("cnn"), *other, *more]
        done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
        assert done.returncode != 0 and f"rank 1 of 2 has another {what} than rank 0" in done.stderr, (more, done.stderr)


def wrong_numbers() -> None:
    done = subprocess.run([*MPIRUN, "-n", "2", MEMPLAN, "train", path("mlp"), "--budget", "100%", "--mesh", "dp=4"], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("the mesh dp=4 needs 4 ranks, but 2 processes were started; run mpirun -n 4 memplan ...") == 1, done
    done = subprocess.run([MEMPLAN, "train", path("mlp"), "--budget", "100%", "--mesh", "dp=2"], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 2 and "the mesh dp=2 needs 2 ranks, but 1 process was started" in done.stderr, done
    nowhere = {**ENVIRONMENT, "MEMPLAN_MODULES": "/"}
    done = subprocess.run([MEMPLAN, "train", path("mlp"), "--budget", "100%", "--mesh", "dp=2"], env=nowhere, capture_output=True, text=True)
    assert done.returncode == 2 and "many ranks: this build has no MPI module (make MPI=1)" in done.stderr, done


def a_file_is_missing() -> None:
    words = ["train", path("cnn"), "--budget", "100%", "--mesh", "dp=2"]
    done = subprocess.run(
        [*MPIRUN, "-n", "1", MEMPLAN, *words, ":", "-n", "1", MEMPLAN, *words, "--data", "input=nowhere.npy"], env=ENVIRONMENT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0 and re.search("memplan: rank 1: nowhere.npy: ", done.stderr), done.stderr


def network_is_measured() -> None:
    """The file has the least-squares line of the measurements, and other commands compute the cost of collectives from it."""
    with tempfile.TemporaryDirectory() as folder:
        for n in (2, 4):
            file = f"{folder}/network{n}.json"
            done = subprocess.run([*MPIRUN, "-n", str(n), MEMPLAN, "profile", "network", "-o", file], env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0 and done.stdout.count("all-reduce") == 1, done
            shutil.copy(file, "network.json")  # for its schema
            with open(file) as f:
                network = json.load(f)
            (level,) = network["levels"]
            assert level["devices"] == n and len(network["collectives"]) == 30
            steps = math.ceil(math.log2(n))
            factors = {"all-reduce": (2 * (n - 1), 2 * (n - 1) / n), "broadcast": (steps, steps), "send": (1, 1)}
            rows = [(*factors.get(c["collective"], (n - 1, (n - 1) / n)), c["bytes"], c["seconds"]) for c in network["collectives"]]
            latency, rate = level["latency_seconds"], level["bytes_per_second"]

            def away(latency: float, rate: float) -> float:
                return sum(((a * latency + b * size / rate) / t - 1) ** 2 for a, b, size, t in rows)

            least = away(latency, rate)
            assert rate > 1e6 and all(away(latency * (1 + x), rate * (1 + y)) >= least for x, y in ((0.01, 0), (-0.01, 0), (0, 0.01), (0, -0.01)))
            answer = run([MEMPLAN, "estimate", path("mlp"), "--mesh", f"dp={n}", "--network", file, "--json"])
            assert answer["ranks"]["collectives"] == 1
            sent = answer["ranks"]["sent_bytes"]  # 2 (n - 1) / n of the bytes
            ring, tree = 2 * (n - 1) * latency + sent / rate, 2 * steps * latency + sent * n / (n - 1) / rate
            assert abs(answer["ranks"]["collective_seconds"] / min(ring, tree) - 1) < 1e-9, (answer["ranks"], ring, tree)
    done = subprocess.run([MEMPLAN, "profile", "network"], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 2 and "measuring a network needs two processes or more; run mpirun -n 2 memplan ..." in done.stderr, done


if __name__ == "__main__":
    globals()[WHAT]()
