#!/usr/bin/env python3
"""bench_times.py MEMPLAN DATA [CALCULON] - seconds of a step on many devices, predicted beside measured
(DATA/bench/published/published.csv): GPTs on A100 by vTrain (rows VT, 1F1B, everything recomputed) and by Korthikanti et al. 2022,
table 5 (rows K22, of which half recompute all and half the core of attention), and by Narayanan et al. 2021, table 1 (rows SC21).

Each row is asked of `memplan parallel` with its mesh and micro-batch. It is predicted at achieved rates, with the rate of the data
sheet, with the rate that large products have been measured at elsewhere, and with one (--device a100,fp16=TFLOPS) that is fitted on
the rows K22 and tested on the others, of which it has seen none. Scores of attention are kept, operator by operator. Each micro-batch
recomputes the forward of a stage's layers, or their attention cores; recomputation does not lengthen sends between stages. Without sequence
parallelism, each rank of tp sends a part to the next stage (scatter=1): in Megatron-LM (Narayanan et al. 2021, 4.1), and in DeepSpeed by
default ("pipe_partitioned"). For the rows VT, gradients are summed in one bucket after backward, as in DeepSpeed without ZeRO.

CALCULON is a checkout of github.com/calculon-ai/calculon (Isaev et al., SC 2023), which is asked the same; it needs numpy."""

from __future__ import annotations

import csv
import json
import logging
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from measured import is_there

SHEET = 312.0  # TFLOP/s of an A100's products in 16 bits
ACHIEVED = 0.0  # selects the rates that training runs reach
REACHED = 271.2  # by the best of many shapes: github.com/stas00/ml-engineering, compute/accelerator, "Maximum Achievable Matmul FLOPS"
LAYERS = {"megatron-22b": (48, 6144, 64), "megatron-175b": (96, 12288, 96), "megatron-1t": (128, 25600, 160)}  # width, heads
CORE = ("MatMul", "Mul", "Where", "Softmax", "Dropout", "MatMul_2")  # of attention
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

    def dim(self, name: str) -> int:
        return int(dict(part.split("=") for part in self.mesh.split(","))[name])

    def sizes(self) -> tuple[int, int, int]:
        """Layers, width and heads."""
        if len(self.shape) == 1:
            return LAYERS[self.shape[0]]
        named = dict(word.split("=") for word in self.shape[2::2])
        return int(named["layers"]), int(named["width"]), int(named["heads"])


def mesh_of(row: dict[str, str]) -> str:
    mesh = ",".join(f"{dim}={row[dim]}" for dim in ("dp", "tp", "pp"))
    if row["sp"] == "no":
        mesh += ",sp=0" + (",scatter=1" if int(row["tp"]) > 1 and int(row["pp"]) > 1 else "")
    return mesh


def shape_of(row: dict[str, str]) -> tuple[str, ...]:
    if row["id"].startswith("K22-"):
        return (KORTHIKANTI[row["id"].split("-")[2]][0],)
    sizes = {"layers": row["layers"], "width": row["hidden"], "heads": row["heads"], "feed-forward": 4 * int(row["hidden"]),
             "sequence": row["seq"], "vocabulary": 51200}
    return ("gpt2", *(word for name, size in sizes.items() for word in ("--dim", f"{name}={size}")))


def of_narayanan(row: dict[str, str]) -> Row:
    """A row that states FLOP/s, with the FLOPs of an iteration in its note."""
    layers, width, length, words, batch, devices = (int(row[key]) for key in ("layers", "hidden", "seq", "vocab", "global_batch", "devices"))
    flops = 96 * batch * length * layers * width**2 * (1 + length / (6 * width) + words / (16 * layers * width))
    interleaved = re.search(r"interleaved, (\d+) layers", row["note"])
    chunks = layers // int(row["pp"]) // int(interleaved[1]) if interleaved else 1
    return Row(row["id"], shape_of(row), mesh_of(row), devices, batch, int(row["micro_batch"]), True, chunks, "nvlink3+ib200",
               flops / devices / float(row["value"]) / 1e12)


def read(path: Path) -> list[Row]:
    rows = []
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["id"].startswith("SC21-T1-"):
                rows.append(of_narayanan(row))
            if not row["id"].startswith(("VT-", "K22-T5-")):
                continue
            is_vtrain = row["id"].startswith("VT-")
            rows.append(Row(row["id"], shape_of(row), mesh_of(row), int(row["devices"]), int(row["global_batch"]), int(row["micro_batch"]), "full" in row["ac"],
                            1 if is_vtrain else KORTHIKANTI[row["id"].split("-")[2]][1],
                            "nvlink3+ib100" if is_vtrain else "nvlink3+ib200",  # 800 Gb/s a node, and 200 Gb/s a device
                            float(row["value"]) * SECONDS[row["unit"]]))
    return rows


def run(memplan: str, command: str, row: Row, rate: float, *more: str) -> str:
    speed = ("a100",) if rate == ACHIEVED else (f"a100,fp16={rate:.3f}", "--rates", "peak")
    known = ("--no-fused-attention", "--device", *speed, "--rules", "executor", "--dtype", "fp16")
    return subprocess.run([memplan, command, *row.shape, *known, *more], capture_output=True, text=True, check=True).stdout


@cache
def ask(memplan: str, row: Row, rate: float) -> dict[str, Any]:
    """The step under 1F1B, or with the chunks that were measured, with nothing recomputed."""
    order = ("--pipeline-schedule", "interleaved", "--chunks", str(row.chunks)) if row.chunks > 1 else ("--pipeline-schedule", "1f1b")
    found = run(memplan, "parallel", row, rate, "--network", row.network, "--devices", str(row.devices), "--mesh", row.mesh,
                "--global-batch", str(row.batch), "--micro-batch-size", str(row.micro_batch), "--bucket", "1TiB", *order,
                "--memory", "100TiB", "--json")
    choice: dict[str, Any] = json.loads(found)["best"][0]
    return choice


@cache
def again_seconds(memplan: str, row: Row, rate: float) -> float:
    """Seconds of a layer's forward that are recomputed: all of it, or the core of attention."""
    shape, tp = tuple("layers=1" if word.startswith("layers=") else word for word in row.shape), row.dim("tp")
    one = replace(row, shape=shape if shape != row.shape else (*shape, "--dim", "layers=1"))
    mesh = ("--mesh", f"tp={tp}{',sp=0' if 'sp=0' in row.mesh else ''}") if tp > 1 else ()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "graph.json")
        run(memplan, "graph", one, rate, "--batch", str(row.micro_batch), *mesh, "-o", str(path))
        nodes = json.loads(path.read_text())["nodes"]
    core = {f"layers.0/attention/{name}" for name in CORE}
    return float(sum(node["seconds"] for node in nodes if node["phase"] == "forward"
                     and ("layers.0/" in node["name"] if row.is_recomputed else node["name"] in core)))


def predict(memplan: str, row: Row, rate: float) -> float:
    step, stages = ask(memplan, row, rate), row.dim("pp")
    again = row.sizes()[0] / stages * again_seconds(memplan, row, rate)
    passes = float(step["micro_batches"]) + (stages - 1) / row.chunks  # of a stage, and waits for other stages
    return float(step["seconds"]) + passes * again


def errors(memplan: str, rows: list[Row], rate: float) -> list[float]:
    return [predict(memplan, row, rate) / row.measured - 1 for row in rows]


def of_calculon(checkout: Path, rows: list[Row]) -> list[float]:
    """Seconds by Calculon's A100, with memory enough, and the same network between nodes; the faster of its two for stages."""
    sys.path.insert(0, str(checkout))
    from calculon.llm import Llm
    from calculon.system import System
    known = json.loads((checkout / "systems/a100_80g.json").read_text())
    known["mem1"]["GiB"] = 1 << 20

    def seconds(row: Row, between_stages: int) -> float:
        (layers, width, heads), dims = row.sizes(), {f"{long}_par": row.dim(short) for long, short in (
            ("tensor", "tp"), ("pipeline", "pp"), ("data", "dp"))}
        known["networks"][1]["bandwidth"] = 12.5 if row.network.endswith("ib100") else 25
        network = Llm.Application({"name": row.name, "hidden": width, "feedforward": 4 * width, "seq_size": 2048, "attn_heads": heads,
                                   "attn_size": width // heads, "num_blocks": layers})
        execution = {
            **dims, "num_procs": row.devices, "tensor_par_net": 0, "pipeline_par_net": between_stages, "data_par_net": int(row.dim("dp") > 1),
            "batch_size": row.batch, "microbatch_size": row.micro_batch, "datatype": "float16", "fused_activation": True,
            "attention_type": "multihead", "activation_recompute": "full" if row.is_recomputed else "attn_only",
            "pipeline_interleaving": row.chunks, "optimizer_sharding": False, "tensor_par_comm_type": "ar" if row.is_recomputed else "rs_ag",
            "tensor_par_overlap": "none", "seq_par_ag_redo": not row.is_recomputed, "data_par_overlap": False, "weight_offload": False,
            "activations_offload": False, "optimizer_offload": False, "training": True}
        model, system = Llm(network, logging.getLogger("silent")), System(known)
        try:
            model.compile(system, Llm.Execution.from_json(execution))
            model.run(system)
        except Llm.Error:
            return float("inf")
        return float(model.get_stats_json(False)["total_time"])

    return [min(seconds(row, between) for between in (0, 1)) for row in rows]


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


def spearman(predicted: list[float], rows: list[Row]) -> float:
    return statistics.correlation(ranks(predicted), ranks([row.measured for row in rows]))


def of_errors(found: list[float]) -> str:
    sizes, ordered, outside = [abs(e) for e in found], sorted(found), len(found) // 40  # at each end of 19 of 20
    return (f"mean error {100 * statistics.fmean(sizes):.1f} %, median {100 * statistics.median(sizes):.1f} %, worst "
            f"{100 * max(sizes):.1f} %, in the mean {100 * statistics.fmean(found):+.1f} %, 19 of 20 within {100 * ordered[outside]:+.0f} to "
            f"{100 * ordered[-1 - outside]:+.0f} %")


def judged(name: str, rows: list[Row], predicted: list[float]) -> None:
    """Prints errors, and how well the meshes of each model are ordered."""
    for prefix in ("K22-", "VT-", "SC21-", ""):
        found = [seconds / row.measured - 1 for row, seconds in zip(rows, predicted, strict=True) if row.name.startswith(prefix)]
        print(f"{prefix[:-1] or 'all'}, {name}: {of_errors(found)}")
    for model in ("VT-3.6B", "VT-39.1B", "VT-175B", "VT", "K22", "SC21"):
        some = [(row, seconds) for row, seconds in zip(rows, predicted, strict=True) if row.name.startswith(model + "-")]
        print(f"rank correlation of {len(some)} meshes of {model}, {name}: {spearman([s for _, s in some], [r for r, _ in some]):.2f}")


def main(memplan: str, data: str, calculon: str = "") -> int:
    path = Path(data) / "bench/published/published.csv"
    if not is_there(path):
        return 0
    rows = read(path)
    rates = (ACHIEVED, SHEET, REACHED, fit(memplan, [row for row in rows if row.name.startswith("K22-")]))
    columns = [(f"{rate:.0f} TFLOP/s" if rate else "achieved", [predict(memplan, row, rate) for row in rows]) for rate in rates]
    if calculon:
        columns.append(("Calculon", of_calculon(Path(calculon).resolve(), rows)))
    print(f"{'row':<18} {'mesh':<22} {'micro-batch':>11} {'measured':>9}" + "".join(f"{name:>12} {'error':>7}" for name, _ in columns))
    for k, row in enumerate(rows):
        found = "".join(f"{seconds[k]:>12.2f} {100 * (seconds[k] / row.measured - 1):>+6.1f}%" for _, seconds in columns)
        print(f"{row.name:<18} {row.mesh:<22} {row.micro_batch:>11} {row.measured:>9.2f}{found}")
    for name, seconds in columns:
        judged(name, rows, seconds)
    return 0


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
