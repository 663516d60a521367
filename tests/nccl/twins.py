#!/usr/bin/env python3
"""twins.py MEMPLAN TEST - trainings on devices that NCCL joins, without GPUs, beside the same trainings on CPUs that MPI joins.

The module that calls NCCL is the real one. In the places of the GPU and of libnccl.so.2 are a device in the host's memory, with streams on which nothing
runs before it is waited for, and a library that does NCCL's work on such a stream through MPI. The test compares the requests to NCCL, their order and their
streams with the requests to MPI by the same plan, message by message. Losses and parameters must have the same bits.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

MEMPLAN, WHAT = sys.argv[1:3]
TWIN = os.path.join(os.path.dirname(os.path.abspath(MEMPLAN)), "tests", "nccl")
NETWORKS = os.path.join(os.path.dirname(__file__), "..", "gradients")
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n"]
MODELS = ("mlp", "cnn", "unet", "bert", "gpt", "recurrent", "control", "control_newer", "fixed")
Call = tuple[int, str, int, int]  # of which channel or collective, kind, with which rank, bytes


def path(network: str) -> str:
    return os.path.join(NETWORKS, f"{network}.onnx")


def environment(**more: str) -> dict[str, str]:
    loaded_before = {"ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"}  # the library that notes MPI's calls is loaded before a sanitizer's library; MPI leaks memory
    return {**os.environ, **loaded_before, "OMP_NUM_THREADS": "1", "MEMPLAN_MODULES": TWIN, "LD_LIBRARY_PATH": TWIN, **more}


def words(n: int, network: str, mesh: str, *more: str, device: str = "cuda") -> list[str]:
    steps = [] if "--steps" in more else ["--steps", "3"]
    loaded = ["-x", f"LD_PRELOAD={TWIN}/mpi_calls.so"] if device == "cpu" else []
    budget = [] if "--budget" in more else ["--budget", "100%"]
    searcher = ["--solver", "lagrange"] if network != "mlp" else []  # all searchers would take most of the time
    return [*MPIRUN, str(n), *loaded, MEMPLAN, "train", path(network), "--device", device, "--mesh", mesh, "--no-before", *steps, *budget, *searcher, *more]


def train(n: int, network: str, mesh: str, *more: str, device: str = "cuda") -> tuple[dict, list[list[Call]]]:
    """The answer, and the calls of each rank."""
    with tempfile.TemporaryDirectory() as folder:
        line = words(n, network, mesh, "--json", *more, device=device)
        done = subprocess.run(line, env=environment(MEMPLAN_CALLS=f"{folder}/calls"), capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, (line, done.returncode, done.stderr)
        calls = []
        for rank in range(n):
            with open(f"{folder}/calls.{rank}") as file:
                calls.append([(int(w[0]), w[1], int(w[2]), int(w[3])) for w in map(str.split, file)])
        return json.loads(done.stdout), calls


def whole(calls: list[Call], n: int) -> list[Call]:
    """Where NCCL has no collective for parts that differ, one for each rank stands for it."""
    out: list[Call] = []
    root = 0
    for channel, kind, peer, size in calls:
        name = {"reduce": "reduce-scatter", "broadcast": "all-gather"}.get(kind)
        if name and 0 < peer < n and root == peer - 1 and out and out[-1][1] == name:
            out[-1] = (channel, name, -1, out[-1][3] + size)
        else:
            out.append((channel, name, -1, size) if name else (channel, kind, peer, size))
        root = peer
    return out


def compare(n: int, network: str, mesh: str, *more: str) -> None:
    """Calls, bits, and bytes, of a training on devices and one on CPUs."""
    what = (network, mesh, *more)
    here, on_stream = train(n, network, mesh, "--no-graph", *more)
    there, messages = train(n, network, mesh, *more, device="cpu")
    for rank in range(n):
        asked = sorted(messages[rank], key=lambda call: call[0])  # by collective: MPI moves several on side by side
        enqueued = whole(on_stream[rank], n)
        assert len(asked) > 3 and [call[1:] for call in enqueued] == [call[1:] for call in asked], (what, rank)
        channels = {call[0] for call in enqueued}
        assert len(channels) == 1 and channels != {0}, (what, rank, channels)  # one stream, that of the network
    sent = sum(size for _, kind, _, size in on_stream[0] if kind == "send")
    if "fast" not in more:
        assert here["after"]["losses"] == there["after"]["losses"], what
        assert here["after"]["weights_hash"] == there["after"]["weights_hash"], what
        assert here["ranks"]["sent_bytes"] == here["ranks"]["planned_sent_bytes"] == sent, (what, here["ranks"], sent)
    else:
        assert all(abs(a - b) <= 1e-5 * abs(b) for a, b in zip(here["after"]["losses"], there["after"]["losses"])), what
    assert here["ranks"]["network"].startswith("NCCL ") and here["after"]["arena_bytes"] == there["after"]["arena_bytes"], what


def same_calls() -> None:
    for network in MODELS:
        compare(2, network, "dp=2")


def same_calls_of_parts() -> None:
    for zero in (1, 2, 3):
        compare(2, "gpt", f"shard=2,zero={zero}", "--bucket", "1KiB")
    compare(2, "mlp", "shard=2", "--bucket", "1KiB", "--budget", "floor+30%")  # gathers again
    compare(4, "mlp", "dp=2,shard=2")
    compare(4, "cnn", "dp=4", "--bucket", "512")
    compare(2, "mlp", "dp=2", "--accumulate", "2")
    compare(2, "mlp", "shard=2,zero=2", "--accumulate", "2")


def same_calls_of_the_library() -> None:
    for network, mesh in (("mlp", "dp=2"), ("cnn", "dp=2"), ("mlp", "shard=2,zero=1"), ("cnn", "shard=2,zero=2"), ("gpt", "shard=2")):
        compare(2, network, mesh, "--reduce", "fast")
    compare(2, "mlp", "shard=2", "--reduce", "fast", "--accumulate", "2")


def captured() -> None:
    """A replayed step has the same exchanges as the recorded one."""
    for network, mesh, *more in (("mlp", "dp=2"), ("gpt", "shard=2"), ("mlp", "dp=2", "--accumulate", "2"), ("mlp", "shard=2,zero=2", "--accumulate", "3"), ("cnn", "dp=2", "--fuse", "backward")):
        here, calls = train(2, network, mesh, "--steps", "6", *more)
        there, _ = train(2, network, mesh, "--steps", "6", *more, device="cpu")
        assert here["after"]["recordings"] > 0, (network, mesh)
        assert here["after"]["losses"] == there["after"]["losses"] and here["after"]["weights_hash"] == there["after"]["weights_hash"], (network, mesh)
        assert here["ranks"]["sent_bytes"] == here["ranks"]["planned_sent_bytes"], (network, mesh, here["ranks"])
        enqueued = sum(size for _, kind, _, size in calls[0] if kind == "send")
        assert enqueued == here["ranks"]["sent_bytes"] // 3, (network, mesh)  # once call by call, and once when it was recorded


def fails() -> None:
    done = subprocess.run(words(2, "cnn", "dp=2"), env=environment(MEMPLAN_NCCL_FAILS="3"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and re.search(r"memplan: rank \d: .*NCCL: it was told to fail \(in nccl(Send|Recv)\)", done.stderr), done
    with tempfile.TemporaryDirectory() as folder:
        for module in ("cuda", "mpi"):
            os.symlink(f"{TWIN}/memplan_{module}.so", f"{folder}/memplan_{module}.so")
        done = subprocess.run(words(2, "cnn", "dp=2"), env=environment(MEMPLAN_MODULES=folder), capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and "many GPUs: this build has no NCCL module (make CUDA=1)" in done.stderr, done


def nothing_hangs() -> None:
    """A device on which nothing ends, as where another rank's never comes: by the timeout, or when that rank is gone, all have ended."""
    begin = time.monotonic()
    line = words(2, "mlp", "dp=2", "--timeout", "2")
    done = subprocess.run(line, env=environment(MEMPLAN_TWIN_HANGS="1"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "a rank has not answered in the collectives of a step for 2 s" in done.stderr, done
    assert time.monotonic() - begin < 20
    job = subprocess.Popen(words(2, "mlp", "dp=2"), env=environment(MEMPLAN_TWIN_HANGS="1"), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    time.sleep(4)
    with open(f"/proc/{job.pid}/task/{job.pid}/children") as file:
        ranks = [int(pid) for pid in file.read().split()]
    os.kill(ranks[1], signal.SIGKILL)
    _, said = job.communicate(timeout=20)
    assert job.returncode != 0 and re.search(rf"rank 1 of 2 has ended \(process {ranks[1]} on .*\) while other ranks waited for it in the collectives of a step", said), said


def one_rank() -> None:
    """The program that runs on one real GPU."""
    program = os.path.join(os.path.dirname(TWIN), "test_nccl_alone")
    done = subprocess.run([*MPIRUN, "1", program], env=environment(MEMPLAN_TEST_BACKEND="cuda"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "[  PASSED  ] 1 test(s)" in done.stdout + done.stderr, done


if __name__ == "__main__":
    globals()[WHAT]()
