#!/usr/bin/env python3
"""bench_rates.py MEMPLAN DATA - plans chosen with data-sheet peaks beside plans chosen with achieved rates, for six networks that timm
trained on an RTX 3090 (DATA/bench/published/timm-train-rtx3090.csv: NCHW, automatic mixed precision, the published batch).

Prints per network the error of keep-all's seconds against the published step, whether the plans at 60 % of
keep-all's memory differ, and the extra time of both plans at achieved rates."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

NETWORKS = {"resnet50": "tv_resnet50", "vgg16": "vgg16", "densenet121": "densenet121", "mobilenet_v2": "mobilenetv2_100",
            "mobilenet_v3_large": "mobilenetv3_large_100", "vit_b_16": "vit_base_patch16_224"}
SETTINGS = ("--device", "rtx3090", "--amp", "fp16", "--optimizer", "momentum")


def run(memplan: str, command: str, model: Path, batch: str, rates: str, *more: str) -> str:
    words = [memplan, command, str(model), "--batch", batch, *SETTINGS, "--rates", rates, *more]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def main(memplan: str, data: str) -> None:
    with Path(data, "bench/published/timm-train-rtx3090.csv").open(newline="") as file:
        rows = {row["model"]: row for row in csv.DictReader(file) if row["layout"] == "nchw"}
    print(f"{'network':20} {'batch':>5}  {'measured':>9}  {'at peak':>8}  {'achieved':>8}  plans      extra of peak's plan, of achieved's")
    for name, measured in NETWORKS.items():
        row, model = rows[measured], Path(data, f"models/{name}.onnx")
        steps: dict[str, list[tuple[int, bool]]] = {}
        errors = []
        with tempfile.TemporaryDirectory() as folder:
            for rates in ("peak", "achieved"):
                path = Path(folder, "plan.json")
                run(memplan, "plan", model, row["batch"], rates, "--budget", "60%", "-o", str(path))
                plan: dict[str, Any] = json.loads(path.read_text())
                errors.append(1e3 * plan["baseline_seconds"] / float(row["step_ms"]) - 1)
                steps[rates] = [(step["node"], step["recompute"]) for step in plan["steps"]]
            path = Path(folder, "graph.json")
            run(memplan, "graph", model, row["batch"], "achieved", "-o", str(path))
            seconds = {node["id"]: node["seconds"] for node in json.loads(path.read_text())["nodes"]}
        whole = sum(seconds.values())
        extra = {rates: sum(seconds[node] for node, _ in chosen) / whole - 1 for rates, chosen in steps.items()}
        again = [{node for node, is_again in steps[rates] if is_again} for rates in ("peak", "achieved")]
        alike = "equal" if again[0] == again[1] else f"{len(again[0] & again[1])} of {len(again[0] | again[1])}"
        print(f"{name:20} {row['batch']:>5}  {float(row['step_ms']):6.0f} ms  {errors[0]:+8.1%}  {errors[1]:+8.1%}  {alike:10} "
              f"{extra['peak']:+.2%}, {extra['achieved']:+.2%}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
