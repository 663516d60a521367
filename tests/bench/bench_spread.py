#!/usr/bin/env python3
"""bench_spread.py MEMPLAN DATA [--runs N] [--effort HOW] - plans with offsets under time limits of 1, 2 and 3 s, N runs of
each (50): the least, the median and the largest extra time in % of a step. A time limit may cut a search short, so runs
differ; no run may fall off a cliff: the last column is the worst over the median."""

from __future__ import annotations

import argparse
import statistics
import sys

from measured import Bench, data_folder, is_there

LIMITS = (1, 2, 3)
ROWS = (("kusumoto_densenet", None, "30%"), ("kusumoto_resnet50", None, "30%"), ("resnet50", 8, "floor+30%"),
        ("inception_v3", 8, "floor+30%"), ("convnext_tiny", 2, "floor+50%"), ("vit_b_16", 2, "floor+50%"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("memplan")
    parser.add_argument("data", type=data_folder)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--effort", default="thorough")
    asked = parser.parse_args()
    bench = Bench(asked.memplan, None)
    cliffs = 0
    print(f"| graph | budget | limit | runs | no plan | least | median | worst | worst / median |\n|{'-|' * 9}")
    for name, batch, budget in ROWS:
        graph = asked.data / (f"models/{name}.onnx" if batch else f"bench/graphs/{name}.json")
        if not is_there(graph):
            continue
        shape = ["--batch", str(batch)] if batch else []
        for limit in LIMITS:
            found = [bench.plan(str(graph), budget, *shape, "--effort", asked.effort, "--time-limit", str(limit), judges=False).overhead
                     for _ in range(asked.runs)]
            plans = [x for x in found if x is not None]
            none = len(found) - len(plans)
            middle = statistics.median(plans) if plans else 0
            cliffs += none > 0 or (bool(plans) and max(plans) > 1.1 * middle)
            cells = f"{min(plans):.2f} | {middle:.2f} | {max(plans):.2f} | {max(plans) / middle if middle else 1:.2f}" if plans else "- | - | - | -"
            print(f"| {name} | {budget} | {limit} s | {len(found)} | {none} | {cells} |", flush=True)
    print(f"\n{cliffs} rows with a run that found no plan or one dearer by more than a tenth than the median.")
    return int(cliffs > 0)


if __name__ == "__main__":
    sys.exit(main())
