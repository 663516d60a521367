#!/usr/bin/env python3
"""bench_rounding.py MEMPLAN - how far rounding goes in ResNet-50 with 100,000 classes: two ranks of tp, and one process whose pictures differ in their last bits,
beside one process. Prints the relative difference of each step's loss. Needs protoc-c and mpirun; a minute, and 8 GiB.
"""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

BATCH, STEPS, SIZE, CLASSES = 4, 3, 64, 100_000
NUDGE = 2.0**-22  # of each value
PROTO = ["--proto_path=/usr/include/onnx", "onnx.proto"]
TWO_RANKS = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"]


def write_npy(path: Path, kind: str, code: str, shape: tuple[int, ...], values: list[float]) -> None:
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}{code}", *values))


def write_network(path: Path) -> None:
    network = Path(__file__).parents[2] / "examples" / "resnet50.onnx"
    text = subprocess.run(["protoc-c", "--decode=onnx.ModelProto", *PROTO], input=network.read_bytes(), capture_output=True, check=True).stdout
    text = text.replace(b"dim_value: 1000\n", b"dim_value: %d\n" % CLASSES).replace(b"dim_value: 224\n", b"dim_value: %d\n" % SIZE)
    path.write_bytes(subprocess.run(["protoc-c", "--encode=onnx.ModelProto", *PROTO], input=text, capture_output=True, check=True).stdout)


def losses(memplan: str, folder: Path, pictures: str, mesh: str = "") -> list[float]:
    words = [*(TWO_RANKS if mesh else []), memplan, "train", str(folder / "wide.onnx"), "--batch", str(BATCH), "--steps", str(STEPS), "--optimizer", "sgd"]
    words += ["--lr", "0.0005", "--budget", "100%", "--no-before", "--data", f"input={folder}/{pictures}", "--data", f"target={folder}/classes.npy", "--json"]
    done = subprocess.run([*words, *(["--mesh", mesh] if mesh else [])], capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return json.loads(done.stdout)["after"]["losses"]


def main() -> None:
    memplan = sys.argv[1]
    draw = random.Random(0)
    n = BATCH * STEPS
    values = [draw.gauss(0, 1) for _ in range(n * 3 * SIZE * SIZE)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_network(folder / "wide.onnx")
        write_npy(folder / "pictures.npy", "<f4", "f", (n, 3, SIZE, SIZE), values)
        write_npy(folder / "nudged.npy", "<f4", "f", (n, 3, SIZE, SIZE), [v * (1 + draw.choice((-1, 1)) * NUDGE) for v in values])
        write_npy(folder / "classes.npy", "<i8", "q", (n,), [draw.randrange(CLASSES) for _ in range(n)])
        plain = losses(memplan, folder, "pictures.npy")
        for what, found in (
            ("two ranks, tp=2", losses(memplan, folder, "pictures.npy", "tp=2")),
            ("one process, pictures nudged", losses(memplan, folder, "nudged.npy")),
        ):
            sys.stdout.write(f"{what:30}" + "".join(f"{abs(a - b) / b:10.1e}" for a, b in zip(found, plain)) + "\n")


if __name__ == "__main__":
    main()
