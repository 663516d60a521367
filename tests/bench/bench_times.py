#!/usr/bin/env python3
"""bench_times.py MEMPLAN DATA - seconds of a step on many devices, predicted beside measured (DATA/bench/published/published.csv):
GPTs on A100 by vTrain (rows VT, 1F1B, everything recomputed) and by Korthikanti et al. 2022, table 5 (rows K22).

Each row is asked of `memplan parallel` with its mesh and micro-batch. It is predicted twice: with the rate of the data sheet, and with
one rate of products (--device a100,fp16=TFLOPS) that is fitted on the rows K22 and tested on the rows VT, of which it has seen none.
Scores of attention are kept, operator by operator, as these programs did. What is recomputed as a whole is each stage's forward once more."""

from __future__ import annotations

import csv
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from measured import is_there

SHEET = 312.0  # TFLOP/s of an A100's products in 16 bits
KORTHIKANTI = {"22B": ("megatron-22b", 1), "175B": ("megatron-175b", 3), "1T": ("megatron-1t", 1)}  # chunks of a stage
SECONDS = {"s": 1.0, "ms": 1e-3}


@dataclass(frozen=True)
class Row:
    name: str
    shape: tuple[str, ...]
    mesh: str
    devices: int
    batch: int
    micro_batch: int
    is_recomputed: bool
    chunks: int
    network: str
    measured: float


def shape_of(row: dict[str, str]) -> tuple[str, ...]:
    if row["id"].startswith("K22-"):
        return (KORTHIKANTI[row["id"].split("-")[2]][0],)
    sizes = {"layers": row["layers"], "width": row["hidden"], "heads": row["heads"], "feed-forward": 4 * int(row["hidden"]),
             "sequence": row["seq"], "vocabulary": 51200}
    return ("gpt2", *(word for name, size in sizes.items() for word in ("--dim", f"{name}={size}")))


def read(path: Path) -> list[Row]:
    rows = []
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if not row["id"].startswith(("VT-", "K22-T5-")):
                continue
            is_vtrain = row["id"].startswith("VT-")
            mesh = ",".join(f"{dim}={row[dim]}" for dim in ("dp", "tp", "pp"))
            rows.append(Row(row["id"], shape_of(row), mesh + (",sp=0" if row["sp"] == "no" else ""), int(row["devices"]),
                            int(row["global_batch"]), int(row["micro_batch"]), "full" in row["ac"],
                            1 if is_vtrain else KORTHIKANTI[row["id"].split("-")[2]][1],
                            "nvlink3+ib100" if is_vtrain else "nvlink3+ib200",  # 800 Gb/s a node, and 200 Gb/s a device
                            float(row["value"]) * SECONDS[row["unit"]]))
    return rows


@cache
def ask(memplan: str, row: Row, rate: float) -> dict[str, Any]:
    """The step under 1F1B, or with the chunks that were measured, with nothing recomputed."""
    order = ["--pipeline", "interleaved", "--chunks", str(row.chunks)] if row.chunks > 1 else ["--pipeline", "1f1b"]
    found = subprocess.run(
        [memplan, "parallel", *row.shape, "--no-fused-attention", "--device", f"a100,fp16={rate:.3f}", "--dtype", "fp16", "--network", row.network,
         "--devices", str(row.devices), "--mesh", row.mesh, "--global-batch", str(row.batch), "--micro-batch",
         str(row.micro_batch), *order, "--memory", "100TiB", "--json"], capture_output=True, text=True, check=True)
    choice: dict[str, Any] = json.loads(found.stdout)["best"][0]
    return choice


def predict(memplan: str, row: Row, rate: float) -> float:
    step = ask(memplan, row, rate)
    forward = max(stage["forward_seconds"] for stage in step["stages"])
    once = max(stage["forward_seconds"] + stage["backward_seconds"] for stage in step["stages"])
    exposed = float(step["exposed_seconds"])
    compute = float(step["seconds"]) - exposed
    if not row.is_recomputed:
        return compute + exposed
    return compute * (once + forward) / once + max(0.0, exposed - forward)  # a longer backward hides more


def errors(memplan: str, rows: list[Row], rate: float) -> list[float]:
    return [predict(memplan, row, rate) / row.measured - 1 for row in rows]


def fit(memplan: str, rows: list[Row]) -> float:
    """The rate at which the errors of these rows are zero in the mean."""
    low, high = SHEET / 4, SHEET
    for _ in range(8):
        middle = (low + high) / 2
        if statistics.fmean(errors(memplan, rows, middle)) > 0:
            low = middle
        else:
            high = middle
    return high


def ranks(values: list[float]) -> list[float]:
    return [sum(w < v for w in values) + (sum(w == v for w in values) - 1) / 2 for v in values]


def spearman(memplan: str, rows: list[Row], rate: float) -> float:
    return statistics.correlation(ranks([predict(memplan, row, rate) for row in rows]), ranks([row.measured for row in rows]))


def of_errors(found: list[float]) -> str:
    sizes = [abs(e) for e in found]
    return (f"mean error {100 * statistics.fmean(sizes):.1f} %, worst {100 * max(sizes):.1f} %, in the mean "
            f"{100 * statistics.fmean(found):+.1f} %")


def main(memplan: str, data: str) -> int:
    path = Path(data) / "bench/published/published.csv"
    if not is_there(path):
        return 0
    rows = read(path)
    known, unseen = ([row for row in rows if row.name.startswith(prefix)] for prefix in ("K22-", "VT-"))
    fitted = fit(memplan, known)
    print(f"{'row':<18} {'mesh':<22} {'micro-batch':>11} {'measured':>9} {SHEET:>9.0f} {'error':>8} {fitted:>9.0f} {'error':>8}")
    for row in rows:
        sheet, own = predict(memplan, row, SHEET), predict(memplan, row, fitted)
        print(f"{row.name:<18} {row.mesh:<22} {row.micro_batch:>11} {row.measured:>9.2f} {sheet:>9.2f} "
              f"{100 * (sheet / row.measured - 1):>+7.1f}% {own:>9.2f} {100 * (own / row.measured - 1):>+7.1f}%")
    for name, some in (("K22", known), ("VT", unseen)):
        for rate in (SHEET, fitted):
            print(f"{name}, {rate:.0f} TFLOP/s: {of_errors(errors(memplan, some, rate))}")
    models = sorted({row.name.split("-")[1] for row in unseen}, key=lambda name: float(name[:-1]))
    for model in models:
        some = [row for row in unseen if row.name.split("-")[1] == model]
        print(f"rank correlation of {len(some)} meshes of {model}: {spearman(memplan, some, fitted):.2f}")
    print(f"rank correlation of all {len(unseen)} rows VT: {spearman(memplan, unseen, fitted):.2f}")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2]))
