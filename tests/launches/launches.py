"""launches.py BUILD MODELS [--launches] [NAME:BATCH ...] - what one step of training on a GPU launches, as a table, without a GPU.

Each model is trained for one step in bf16 with the module of tests/launches in the GPU's place (launches.h says what it counts).
At the batch of the table nothing but the launches is counted, and no kernel's body runs. Bytes come from runs of all bodies at
batch 1 and 2, drawn as a line through both: what belongs to parameters is there at any batch, all else grows with it. --launches leaves them out: they take minutes, transformers' tens of minutes.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MODELS = ("resnet50:128", "bert_base:32", "gpt2_small:8")


def run(build: Path, model: Path, batch: int, bodies: bool) -> dict[str, list[int]]:
    """One step: per name launches, bytes read, written and asked for."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "launches.csv"
        environment = {**os.environ, "MEMPLAN_MODULES": str(build / "tests/launches"), "MEMPLAN_LAUNCHES": str(out)}
        environment.pop("MEMPLAN_LAUNCHES_ONLY", None)
        if not bodies:
            environment["MEMPLAN_LAUNCHES_ONLY"] = "1"
        line = [build / "memplan", "train", model, "--device", "cuda", "--dtype", "bf16", "--batch", batch, "--steps", 1]
        done = subprocess.run([*map(str, line), "--budget", "100%"], env=environment, capture_output=True, text=True, check=False)
        if done.returncode or not out.exists():
            sys.exit(f"{model} at batch {batch}: {done.stderr.strip() or 'no list of launches was written'}")
        with out.open(encoding="utf-8") as file:
            return {row["name"]: [int(row[k]) for k in ("launches", "read", "written", "asked")] for row in csv.DictReader(file)}


def at_batch(one: int, two: int, batch: int) -> float:
    """The line through batch 1 and 2."""
    return one + (two - one) * (batch - 1)


def main(build: Path, models: Path, only: bool, wanted: list[str]) -> int:
    print("| model, batch | launches | own kernels | libraries | own kernels' GB | operands once, GB | ratio |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, batch in (w.split(":") for w in wanted):
        path = models / f"{name}.onnx"
        full = run(build, path, int(batch), bodies=False)
        own, libraries = full["own kernels"][0], full["libraries"][0]
        line = f"| {name}, {batch} | {own + libraries} | {own} | {libraries} |"
        if only:
            print(f"{line} | | |", flush=True)
            continue
        one, two = (run(build, path, b, bodies=True) for b in (1, 2))
        moved, least = (
            at_batch(sum(one[row][1:3]), sum(two[row][1:3]), int(batch)) / 1e9 for row in ("own kernels", "least")
        )
        print(f"{line} {moved:.2f} | {least:.2f} | {moved / least:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if a != "--launches"]
    sys.exit(main(Path(arguments[0]), Path(arguments[1]), len(arguments) < len(sys.argv) - 1, arguments[2:] or list(MODELS)))
