#!/usr/bin/env python3
"""interrupts.py MEMPLAN N - trainings under mpirun are interrupted N times: SIGINT and SIGTERM, to mpirun and to single ranks, at varied times.

Each one ends in time and saves the step, or reports that it could not. Exactly one sentence says so, without colours. A saved state has the step of the sentence,
a training goes on with it, and the first saved state of each mesh has the bits of a training of as many steps that nobody interrupted. A fourth comes in the search
for a plan, and a fourth in a step that takes longer than the launcher waits.
"""

from __future__ import annotations

import collections
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MODEL = os.path.join(TESTS, "gradients", "mlp.onnx")
SHORT, PLANNING, LONG = "short steps", "planning", "a long step"
LARGE = "gpt2 --dim layers=4 --dim width=512 --dim heads=4 --dim feed-forward=2048 --dim vocabulary=1024 --dim sequence=128 --batch 64 --random-weights".split()
WORK = {
    SHORT: [MODEL, "--budget", "100%"],
    PLANNING: [os.path.join(TESTS, "..", "examples", "resnet50.onnx"), "--batch", "32", "--budget", "floor+20%", "--effort", "thorough", "--random-weights"],
    LONG: [*LARGE, "--budget", "100%"],
}
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
MESHES = {"dp=2": 2, "shard=2": 2, "pp=2": 2, "tp=2": 2, "dp=2,shard=2": 4}
ENDLESS = "1000000000"
INDEX = "model.safetensors.index.json"
SAVED = re.compile(r"^memplan: the training was interrupted after step (\d+): '.*' has parameters and state after it")
REPORTED = re.compile(
    r"^memplan: (stopped before it was done$|the launcher ends the ranks |the training was interrupted after step|rank \d: .* (has ended|the launcher ended all ranks while) )"
)


def start(memplan: str, work: str, mesh: str, *more: str) -> subprocess.Popen:
    micro_batches = ["--batch", "24", "--micro-batches", "4"] if "pp" in mesh else []
    words = [*MPIRUN, "-n", str(MESHES[mesh]), memplan, "train", *WORK[work], "--mesh", mesh, "--no-before", *micro_batches, *more]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ASAN_OPTIONS": "detect_leaks=0"}
    return subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def children(parent: int) -> list[int]:
    with open(f"/proc/{parent}/task/{parent}/children") as file:
        return sorted(int(child) for child in file.read().split())


def catches(process: int) -> bool:
    """Whether it handles SIGTERM: so does memplan from its first line on, and no launcher's copy before."""
    try:
        with open(f"/proc/{process}/status") as file, open(f"/proc/{process}/comm") as name:
            mask = re.search(r"SigCgt:\s*([0-9a-f]+)", file.read())
            return name.read().strip() == "memplan" and bool(mask) and bool(int(mask[1], 16) >> (signal.SIGTERM - 1) & 1)
    except OSError:
        return False


def ranks_of(job: subprocess.Popen, n: int) -> list[int]:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = children(job.pid)
        if len(found) == n and all(catches(pid) for pid in found):
            return found
        time.sleep(0.01)
    raise AssertionError("the ranks did not start")


def step_of(state: str) -> int:
    if os.path.isdir(state):
        with open(f"{state}/{INDEX}") as file:
            return int(json.load(file)["metadata"]["step"])
    with open(state, "rb") as file:
        return int(json.loads(file.read(int.from_bytes(file.read(8), "little")))["__metadata__"]["step"])


def tensors(state: str) -> dict[str, bytes]:
    found = {}
    files = [f"{state}/{name}" for name in os.listdir(state) if name != INDEX] if os.path.isdir(state) else [state]
    for part in files:
        with open(part, "rb") as file:
            contents = file.read()
        begin = 8 + int.from_bytes(contents[:8], "little")
        for name, of in json.loads(contents[8:begin]).items():
            if name != "__metadata__":
                found[name] = contents[begin + of["data_offsets"][0] : begin + of["data_offsets"][1]]
    return found


def goes_on(memplan: str, work: str, state: str) -> bool:
    words = [memplan, "train", *WORK[work], "--no-before", "--steps", "1", "--resume", state, "-q"]
    return subprocess.run(words, capture_output=True, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}).returncode == 0


def all_have_ended(pids: list[int]) -> bool:
    end = time.monotonic() + 3
    while any(catches(pid) for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def main() -> int:
    memplan, n = sys.argv[1], int(sys.argv[2])
    draw, table, failures, compared = random.Random(7), collections.Counter(), 0, set()
    cases = list(itertools.product((SHORT, PLANNING, SHORT, LONG), (signal.SIGINT, signal.SIGTERM), (True, False)))
    with tempfile.TemporaryDirectory(dir=".") as folder:
        for k in range(n):
            work, sent, to_mpirun = cases[k * 5 % len(cases)]
            mesh = draw.choice(list(MESHES)) if work == SHORT else "dp=2"
            delay = draw.uniform(0, 1) if k % 5 == 0 and work == SHORT else draw.uniform(1, 4) if work == SHORT else draw.uniform(2, 4)
            in_folder = MESHES[mesh] != 2 or mesh in ("shard=2", "pp=2")
            state = f"{folder}/state{k}" + ("" if in_folder else ".safetensors")
            job = start(memplan, work, mesh, "--steps", ENDLESS, "--save", state)
            pids = ranks_of(job, MESHES[mesh])
            time.sleep(delay)
            begin = time.monotonic()
            os.kill(job.pid if to_mpirun else draw.choice(pids), sent)
            out, said = job.communicate(timeout=120)
            took = time.monotonic() - begin
            sentences = [line for line in said.splitlines() if re.match("memplan: (?!progress: )", line)]
            saved = [match for match in map(SAVED.match, sentences) if match]
            what = f"interrupt {k}, {sent.name} to {'mpirun' if to_mpirun else 'a rank'} after {delay:.2f} s, {work}, {mesh}"
            problems = []
            if len(sentences) != 1 or not REPORTED.match(sentences[0]):
                problems.append(f"{len(sentences)} sentences")
            if "\033[" in out + said or "\r" in said:
                problems.append("colours in a log")
            if not all_have_ended(pids):
                problems.append("a rank is left")
            if saved:
                step = int(saved[0][1])
                if step_of(state) != step or not goes_on(memplan, work, state):
                    problems.append(f"the state of step {step} is not the one that was saved")
                elif work == SHORT and mesh not in compared and step < 20000:
                    compared.add(mesh)
                    other = f"{folder}/other{k}" + (".safetensors" if state.endswith(".safetensors") else "")
                    start(memplan, work, mesh, "--steps", str(step), "--save", other).communicate()
                    if tensors(state) != tensors(other):
                        problems.append(f"{step} steps without an interrupt save other bits")
            elif os.path.exists(state) and (not os.path.isdir(state) or INDEX in os.listdir(state)):
                problems.append("a state was saved, and no sentence reports it")
            if not saved and work == SHORT and not to_mpirun and delay > 1:
                problems.append("nothing was saved, and nothing limited the time to save")
            table[work, sent.name, "mpirun" if to_mpirun else "a rank", "saved" if saved else "reported"] += 1
            failures += bool(problems)
            if problems:
                print(f"FAILED: {what}, {took:.1f} s: {'; '.join(problems)}\n{said}")
            if in_folder:
                shutil.rmtree(state, ignore_errors=True)
            elif os.path.exists(state):
                os.unlink(state)
    for (work, sent, to, outcome), count in sorted(table.items()):
        print(f"{work:12} {sent:8} to {to:7} {outcome:9} {count:3}")
    saved = sum(count for row, count in table.items() if row[3] == "saved")
    print(f"{n} interrupts: {saved} saved, {n - saved} reported, {failures} failures; bits compared on {', '.join(sorted(compared)) or 'none'}")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
