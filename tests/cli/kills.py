#!/usr/bin/env python3
"""kills.py MEMPLAN KILLS - trainings that save after every step are killed, every second one while it saves, and go on from what was saved.

Right is: the file is whole, and going on ends with the bytes of a training that nobody killed. Runs in the folder of the command line's tests.
"""

from __future__ import annotations

import glob
import json
import os
import random
import subprocess
import sys
import tempfile
import time

STEPS = 400


def saved_step(path: str) -> int:
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return int(json.loads(file.read(length))["__metadata__"]["step"])


def main() -> int:
    memplan, kills = sys.argv[1], int(sys.argv[2])
    words = [memplan, *"train mlp.onnx --batch 4 --budget 100% --no-before -q --loss auto".split()]
    draw = random.Random(1)
    n_saving = n_ended = 0
    with tempfile.TemporaryDirectory(dir=".") as folder:
        good, state, last = (f"{folder}/{name}.safetensors" for name in ("good", "state", "last"))
        begin = time.monotonic()
        subprocess.run([*words, "--steps", str(STEPS), "--save", good, "--save-every", "1"], check=True, capture_output=True)
        whole = time.monotonic() - begin
        with open(good, "rb") as file:
            expected = file.read()
        for k in range(kills):
            for name in glob.glob(f"{state}*"):
                os.unlink(name)
            run = subprocess.Popen([*words, "--steps", str(STEPS), "--save", state, "--save-every", "1"], stdout=subprocess.DEVNULL)
            time.sleep(draw.uniform(0.1, 0.8) * whole)
            while run.poll() is None and (not os.path.exists(state) or (k % 2 and not glob.glob(f"{state}.*.tmp"))):
                pass
            run.kill()
            run.wait()
            n_saving += len(glob.glob(f"{state}.*.tmp"))
            step = saved_step(state)
            n_ended += step == STEPS
            if step < STEPS:
                subprocess.run([*words, "--steps", str(STEPS - step), "--resume", state, "--save", last], check=True, capture_output=True)
            with open(last if step < STEPS else state, "rb") as file:
                if file.read() != expected:
                    print(f"kill {k}, after step {step}: other bytes in the end")
                    return 1
    print(f"{kills} kills, {n_saving} of them while saving, {n_ended} after the last step: all went on to the same bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
