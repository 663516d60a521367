"""Processor time of `memplan.estimate` for networks of timm in NCHW.

    MEMPLAN_LIBRARY=... OMP_NUM_THREADS=1 PYTHONPATH=python/src python python/bench/bench_estimate.py [--check] [NETWORK...]

Each network runs in a new process. The time excludes imports and the construction of the network. `--check`: exit with 1 if
the estimate of a network takes more than TARGET seconds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings

import timm
import torch

import memplan

TARGET = 10.0
BATCH = 32
NETWORKS = (
    "resnet50",
    "densenet121",
    "resnest101e",
    "convnext_base",
    "swin_base_patch4_window7_224",
    "efficientnet_b4",
    "vit_large_patch16_224",
)


def estimate_seconds(name: str) -> tuple[float, int]:
    """Return the processor time in seconds, and the number of operators in the plan."""
    warnings.filterwarnings("ignore")
    with torch.device("meta"):
        model = timm.create_model(name).train()
        x = torch.empty(BATCH, *model.default_cfg["input_size"])
    before = time.process_time()
    report = memplan.estimate(model, (x,), device="rtx3090", cache="off")
    return time.process_time() - before, sum(graph.n_operators for graph in report.graphs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--here", action="store_true", help="in this process: print seconds and operators of one network")
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    given = parser.parse_args()
    if given.here:
        sys.stdout.write("{:.1f} {}\n".format(*estimate_seconds(given.networks[0])))
        return 0
    worst = 0.0
    sys.stdout.write("| network | operators | processor seconds |\n|---|---:|---:|\n")
    for name in given.networks:
        call = [sys.executable, __file__, "--here", name]
        seconds, operators = subprocess.run(call, check=True, capture_output=True, text=True).stdout.split()[-2:]
        worst = max(worst, float(seconds))
        sys.stdout.write(f"| {name} | {operators} | {seconds} |\n")
        sys.stdout.flush()
    return int(given.check and worst > TARGET)


if __name__ == "__main__":
    sys.exit(main())
