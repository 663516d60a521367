#!/usr/bin/env python3
"""kills.py MEMPLAN KILLS - kills runs (SIGKILL), every second one while it writes, and checks the files that they leave.

Trainings that save after every step: the file is whole, and going on ends with the bytes of a training that nobody killed. For every ten of them one kill of
each of `plan`, `sweep` and `draw` over a file that was there: it is as it was, or the whole answer. In all cases the next run ends well and leaves no temporary.
Runs in the folder of the command line's tests.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

STEPS = 40
MODEL = os.path.join(os.path.dirname(__file__), "..", "gradients", "mlp.onnx")
TRAIN = "--budget 100% --no-before -q --loss auto"
OTHERS = {
    "plan": "plan mlp.onnx --batch 64 --budget floor+50% --effort quick -o",
    "sweep": "sweep chain.json -q -o",
    "draw": "draw mlp.onnx --batch 64 -o",
}
ENDINGS = {"plan": "json", "sweep": "svg", "draw": "svg"}
SECONDS = re.compile(rb'"planning_seconds": ?[0-9.e-]+')
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def temporaries(path: str) -> list[str]:
    folder, name = os.path.split(path)
    return [n for n in os.listdir(folder) if n.startswith(f"{name}.") and n.endswith(".tmp")]


def contents(path: str) -> bytes:
    with open(path, "rb") as file:
        return SECONDS.sub(b"", file.read())


def saved_step(path: str) -> int:
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return int(json.loads(file.read(length))["__metadata__"]["step"])


def kill(words: list[str], path: str, delay: float, while_writing: bool) -> tuple[bool, bool]:
    """Starts a run and kills it after the delay, or then as soon as it writes. Whether it had not ended, and whether a temporary was left."""
    run = subprocess.Popen(words, **QUIET)
    end = time.monotonic() + delay
    while run.poll() is None and (time.monotonic() < end or not os.path.exists(path) or (while_writing and not temporaries(path))):
        if not while_writing:
            time.sleep(0.001)
    run.kill()
    return run.wait() == -signal.SIGKILL, bool(temporaries(path))


def main() -> int:
    memplan, kills = sys.argv[1], int(sys.argv[2])
    os.environ["OMP_NUM_THREADS"] = "1"  # a kill is one whatever the number of threads, and a busy machine has few to give
    draw = random.Random(1)
    n_kills = n_writing = n_others = n_others_writing = 0
    with tempfile.TemporaryDirectory(dir=".") as folder:
        good, state = (f"{folder}/{name}.safetensors" for name in ("good", "state"))

        def train(steps: int, *words: str) -> list[str]:
            return [memplan, "train", MODEL, *TRAIN.split(), "--steps", str(steps), *words]

        begin = time.monotonic()
        subprocess.run(train(STEPS, "--save", good, "--save-every", "1"), check=True, **QUIET)
        whole = time.monotonic() - begin
        while n_kills < kills or n_writing < kills // 2:
            if os.path.exists(state):
                os.unlink(state)
            killed, writing = kill(train(STEPS, "--save", state, "--save-every", "1"), state, draw.uniform(0.0, 0.7) * whole, n_writing <= n_kills // 2)
            if not killed:
                continue
            n_kills += 1
            n_writing += writing
            step = saved_step(state)
            if step < STEPS:
                subprocess.run(train(STEPS - step, "--resume", state, "--save", state), check=True, **QUIET)
            if contents(state) != contents(good):
                print(f"kill {n_kills}, after step {step}: other bytes in the end")
                return 1
            if temporaries(state) and step < STEPS:
                print(f"kill {n_kills}, after step {step}: {temporaries(state)} is left by the next run")
                return 1
        for name, command in OTHERS.items():
            answer, path = (f"{folder}/{which}.{ENDINGS[name]}" for which in ("answer", name))
            begin = time.monotonic()
            subprocess.run([memplan, *command.split(), answer], check=True, **QUIET)
            whole = time.monotonic() - begin
            for k in range((kills + 9) // 10):
                with open(path, "wb") as file:
                    file.write(b"old")
                n_others += 1
                n_others_writing += kill([memplan, *command.split(), path], path, draw.uniform(0.0, 0.7) * whole, k % 2 == 0)[1]
                if contents(path) not in (b"old", contents(answer)):
                    print(f"{name}, kill {k}: neither the old file nor the answer")
                    return 1
                subprocess.run([memplan, *command.split(), path], check=True, **QUIET)
                if contents(path) != contents(answer) or temporaries(path):
                    print(f"{name}, kill {k}: the next run leaves {temporaries(path) or 'another answer'}")
                    return 1
    print(f"{n_kills} kills, {n_writing} of them while saving: all went on to the same bytes")
    print(f"{n_others} kills of plan, sweep and draw, {n_others_writing} of them with a temporary: old file or answer, and the next run cleans up")
    return 0


if __name__ == "__main__":
    sys.exit(main())
