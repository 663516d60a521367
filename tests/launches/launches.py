"""launches.py BUILD MODELS [--launches | --kernels] [NAME:BATCH ...] - the launches of one training step on a GPU, as a table.

Each model is trained for one step in bf16 with the module of tests/launches in the GPU's place (launches.h lists the counted events).
Column `unaligned` counts matrix products with rows that do not begin at multiples of 16 bytes; the command fails if there are any.
At the batch of the table nothing but the launches is counted, and no kernel's body runs. Bytes come from runs of all bodies at
two smaller batches, extrapolated linearly: traffic of parameters does not depend on the batch, all other traffic grows with it. The
batches are so large that launches have all their blocks. The command fails if a transformer moves more bytes than LIMITS permits.
--launches leaves them out: they take minutes. --kernels lists, kernel by kernel, the traffic beyond one read or write of each
operand.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# Each runs over the elements behind another that has summed over the same operands. A batch's statistics, and the sums that its
# gradient is made of, must be there before the first element can be written.
SECOND_PASSES = ("mp_channel_apply", "mp_channel_gradient")
MODELS = ("resnet50:128", "bert_base:32", "gpt2_small:8")
# Bytes are counted for two batches. This is the smaller one; the other one is twice as large.
COUNTED = {"bert_base": 4, "gpt2_small": 2}
LIMITS = {"bert_base:32": 16.7, "gpt2_small:8": 11.3}  # GB


def run(build: Path, model: Path, batch: int, bodies: bool) -> dict[str, list[int]]:
    """One step: per name launches, bytes moved, bytes of operands once."""
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
            return {
                row["name"]: [int(row["launches"]), int(row["read"]) + int(row["written"]), int(row["least"])]
                for row in csv.DictReader(file)
            }


def traffic(build: Path, model: Path, batch: int) -> dict[str, tuple[float, float]]:
    """Per name GB moved, and GB of operands once: the line through two batches."""
    small = COUNTED.get(model.stem, 1)
    few, many = (run(build, model, b, bodies=True) for b in (small, 2 * small))
    nothing = [0, 0, 0]
    weight = batch / small - 1
    return {
        name: tuple((few.get(name, nothing)[k] * (1 - weight) + many[name][k] * weight) / 1e9 for k in (1, 2)) for name in many
    }


def print_kernels(gigabytes: dict[str, tuple[float, float]]) -> None:
    print("| kernel | GB | operands once, GB | beyond, GB |\n|---|---:|---:|---:|")
    for name, (moved, least) in sorted(gigabytes.items(), key=lambda item: item[1][1] - item[1][0]):
        print(f"| {name} | {moved:.3f} | {least:.3f} | {moved - least:.3f} |")


def main(build: Path, models: Path, option: str, wanted: list[str]) -> int:
    if not models.is_dir():
        print(f"launches: no models in {models}: tests/bench/export_models.py exports them from PyTorch (docs/internals/data.md)", file=sys.stderr)
        return 2
    if option != "--kernels":
        print("| model, batch | launches | own kernels | libraries | unaligned | own kernels' GB | operands once | ratio |", end="")
        print(" second passes | ratio |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    unaligned, too_many = 0, False
    for name, batch in ((name, int(batch)) for name, batch in (w.split(":") for w in wanted)):
        path = models / f"{name}.onnx"
        if option == "--kernels":
            print_kernels(traffic(build, path, batch))
            continue
        full = run(build, path, batch, bodies=False)
        own, libraries = full["own kernels"][0], full["libraries"][0]
        slow = full.get("cublasLtMatmul, unaligned rows", [0])[0]
        unaligned += slow
        line = f"| {name}, {batch} | {own + libraries} | {own} | {libraries} | {slow} |"
        if option == "--launches":
            print(f"{line} | | | | |", flush=True)
            continue
        gigabytes = traffic(build, path, batch)
        moved, least = gigabytes["own kernels"]
        again = sum(m - l for kernel, (m, l) in gigabytes.items() if kernel.startswith(SECOND_PASSES))
        ratios = f"{moved / least:.2f} | {again:.2f} | {moved / (least + again):.2f} |"
        print(f"{line} {moved:.2f} | {least:.2f} | {ratios}", flush=True)
        limit = LIMITS.get(f"{name}:{batch}", moved)
        too_many |= moved > limit
        if moved > limit:
            print(f"launches: {name} moves {moved:.2f} GB, more than {limit} GB", file=sys.stderr)
    if unaligned:
        print(f"launches: {unaligned} matrix products have rows that do not begin at multiples of 16 bytes", file=sys.stderr)
    return 1 if unaligned or too_many else 0


if __name__ == "__main__":
    options = [a for a in sys.argv[1:] if a.startswith("--")]
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    sys.exit(main(Path(arguments[0]), Path(arguments[1]), options[0] if options else "", arguments[2:] or list(MODELS)))
