#!/usr/bin/env python3
"""bench_mfu.py MEMPLAN - model FLOPs utilisation of four trainings, beside the figures of their reports.

Everything is kept, so each device has 100 TiB here. The utilisation is `flops_share` of `memplan parallel`, at peak and at achieved rates.
"""

from __future__ import annotations

import json
import subprocess
import sys

ROWS = (
    ("gpt3-175b", "64", "a100", "tp=8,pp=8", "51.4 %", "--global-batch 64 --micro-batch-size 1 --pipeline-schedule interleaved --chunks 3"),
    ("llama3-405b", "8192", "h100", "dp=64,tp=8,pp=16", "43 %", "--global-batch 2048 --pipeline-schedule 1f1b"),
    ("llama3-70b", "512", "h100", "shard=64,zero=3,tp=8,data=0", "none", ""),
    ("llama3-8b", "8", "h100", "shard=8", "36 % eager, 41 % compiled", ""),
)


def utilisation(memplan: str, network: str, devices: str, card: str, mesh: str, more: str, rates: str) -> float:
    words = [memplan, "parallel", network, "--devices", devices, "--device", card, "--mesh", mesh, "--rates", rates]
    words += ["--dtype", "bf16", "--memory", "100TiB", "--json", *more.split()]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["best"][0]["flops_share"])


def main() -> None:
    print(f"{'network':12} {'devices':>7}  {'mesh':28} {'at peak':>8} {'achieved':>8}  report")
    for network, devices, card, mesh, report, more in ROWS:
        peak, achieved = (utilisation(sys.argv[1], network, devices, card, mesh, more, rates) for rates in ("peak", "achieved"))
        print(f"{network:12} {devices:>7}  {mesh:28} {peak:8.1%} {achieved:8.1%}  {report}", flush=True)


if __name__ == "__main__":
    main()
