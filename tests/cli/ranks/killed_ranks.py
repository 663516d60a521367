#!/usr/bin/env python3
"""killed_ranks.py MEMPLAN KILLS - ranks are killed or stopped at random moments, two of five while they save, and the remaining files are checked.

Trainings on three ranks that save after every step, by turns one file (dp) and a folder of parts (shard). One rank is killed (SIGKILL), every tenth is stopped
(SIGSTOP) instead. Then all ranks end within ten seconds, or the timeout and ten seconds, none of them is left, the state that was saved last loads, the next
step has the loss of a training that nobody killed, bit for bit, and that run leaves no file but the state's. Runs in the folder of the command line's tests.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from many_ranks import ENVIRONMENT, MEMPLAN, MPIRUN, path, quick, run
from saved_ranks import ALL_AT_ONCE, INDEX, parts, tensors

RANKS, STEPS, TIMEOUT = 3, 500, 3
MESHES = ("shard=3", "dp=3", "shard=3,zero=1")


def words(mesh: str, steps: int, *more: str) -> list[str]:
    return [MEMPLAN, "train", path("mlp"), *ALL_AT_ONCE, *quick("mlp", *ALL_AT_ONCE), "--mesh", mesh, "--steps", str(steps), "--json", *more]


def state_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def children(job: subprocess.Popen) -> list[int]:
    try:
        with open(f"/proc/{job.pid}/task/{job.pid}/children") as file:
            return sorted(map(int, file.read().split()))
    except OSError:
        return []


def saved_step(state: str) -> int:
    """The step of the last save that was made; 0: there is none."""
    try:
        if os.path.isdir(state):
            with open(f"{state}/{INDEX}") as file:
                return int(json.load(file)["metadata"]["step"])
        with open(state, "rb") as file:
            return int(json.loads(file.read(int.from_bytes(file.read(8), "little")))["__metadata__"]["step"])
    except (FileNotFoundError, IsADirectoryError):  # a folder that is made just now
        return 0


def is_saving(state: str) -> bool:
    """True if there are files of a save that is not made."""
    if not os.path.isdir(state):
        folder, name = os.path.split(state)
        return any(n.startswith(f"{name}.") and n.endswith(".tmp") for n in os.listdir(folder))
    return len(parts(state)) > RANKS or any(n.endswith(".tmp") for n in os.listdir(state))


def strike(mesh: str, state: str, rooms: str, draw: random.Random, stops: bool, while_saving: bool) -> tuple[bool, bool, float]:
    """Starts a training and kills or stops a rank; whether it was in time, whether a save was under way, and the seconds until all had ended."""
    launcher = [*MPIRUN, "--mca", "btl_vader_backing_directory", rooms, "-n", str(RANKS)]
    job = subprocess.Popen(
        [*launcher, *words(mesh, STEPS, "--save", state, "--save-every", "1", "--timeout", str(TIMEOUT))],
        env={**ENVIRONMENT, "TMPDIR": rooms}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )
    while job.poll() is None and not saved_step(state):
        time.sleep(0.005)
    end, pids = time.monotonic() + draw.uniform(0, 0.6), children(job)
    while job.poll() is None and (time.monotonic() < end or (while_saving and not is_saving(state))):
        if not while_saving:
            time.sleep(0.001)
    victim = draw.choice(pids) if len(pids) == RANKS else 0
    if job.poll() is not None or not victim:
        job.wait()
        return False, False, 0
    during = is_saving(state)
    os.kill(victim, signal.SIGSTOP if stops else signal.SIGKILL)
    begin = time.monotonic()
    _, said = job.communicate(timeout=60)
    took = time.monotonic() - begin
    if job.returncode == 0:
        return False, False, 0
    assert took < (TIMEOUT if stops else 0) + 10, (mesh, took, said)
    while any(state_of(pid) not in ("", "Z", "X") for pid in pids):  # the launcher does not wait for those that it kills
        assert time.monotonic() - begin < (TIMEOUT if stops else 0) + 10, (mesh, pids, said)
        time.sleep(0.01)
    assert f"process {victim}" in said or not stops, (mesh, victim, said)
    return True, during, took


def main() -> int:
    kills, draw, begin = int(sys.argv[2]), random.Random(1), time.monotonic()
    n_kills = n_stops = n_saving = n_unmade = n_unnamed = 0
    slowest = {False: 0.0, True: 0.0}
    with tempfile.TemporaryDirectory(dir=".") as here:
        folder = os.path.abspath(here)
        never = run([*MPIRUN, "-n", str(RANKS), *words("dp=3", STEPS + 1)])["after"]["losses"]
        while n_kills + n_stops < kills:
            mesh, turn = MESHES[(n_kills + n_stops) % len(MESHES)], n_kills + n_stops
            state, rooms = f"{folder}/state{turn}", f"{folder}/rooms{turn}"
            os.makedirs(rooms, exist_ok=True)
            stops, while_saving = turn % 10 == 9, turn % 5 in (1, 3)
            struck, during, took = strike(mesh, state, rooms, draw, stops, while_saving)
            if not struck:
                subprocess.run(["rm", "-rf", state], check=True)
                continue
            n_kills, n_stops = n_kills + (not stops), n_stops + stops
            n_saving, n_unmade = n_saving + during, n_unmade + is_saving(state)
            slowest[stops] = max(slowest[stops], took)
            n_unnamed += bool(os.listdir(rooms))
            step = saved_step(state)
            more = ["--resume", state, "--save", state] if step else ["--save", state]
            answer = run([*MPIRUN, "-n", str(RANKS), *words(mesh, 1, *more)])["after"]
            assert answer["losses"] == [never[step]], (mesh, step, answer["losses"], never[step])
            if os.path.isdir(state):
                assert len(parts(state)) == RANKS and sorted(os.listdir(state)) == sorted([INDEX, *parts(state)]), os.listdir(state)
            assert saved_step(state) == step + 1 and (os.path.isdir(state) or tensors(state))
            left = [name for name in os.listdir(folder) if name.endswith(".tmp")]
            assert not left, left
    print(
        f"{n_kills} kills and {n_stops} stops, {n_saving} of them during a save, which {n_unmade} times was not made: all states loaded, and the next step was the same. "
        f"All ranks had ended {slowest[False]:.1f} s after a kill and {slowest[True]:.1f} s after a stop (timeout {TIMEOUT} s) at the latest; "
        f"the launcher left files of its own {n_unnamed} times. {time.monotonic() - begin:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
