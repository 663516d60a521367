#!/usr/bin/env python3
"""bench_offload.py MEMPLAN DATA [--links GB,...] [--shares PERCENT,...] [MODEL ...] - the gain by copies to the host's memory, and
whether `auto` chooses better than others between keeping, recomputing and copying.

For every budget and link the extra time in % of a step of the best plan that only recomputes, that only copies, and that may do
both; of three rules of other tools; and the proved bound. Seconds are processor seconds: for the plan without copies, and for
the plan with both. At the end: how often both is above the least of the others, and the median gap to the bound."""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

from measured import Bench, Measured, data_folder, is_there

HERE = Path(__file__).resolve().parent
MODELS = {"resnet50": 8, "densenet121": 8, "unet": 2, "bert_base": 32, "gpt2_small": 8, "vit_b_16": 8, "llama_block": 1}
RULES = ("cheapest-first", "largest-first", "saved-per-second")
SLACK = 0.005  # % of a step: figures that print alike count as equal


def text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def numbers(argument: str) -> list[int]:
    return [int(part) for part in argument.split(",")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("memplan")
    parser.add_argument("data", nargs="?", default="")
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--links", type=numbers, default=[12, 24, 50, 350])
    parser.add_argument("--shares", type=numbers, default=[70, 50, 30, 15])
    asked = parser.parse_args()
    bench = Bench(asked.memplan, None)
    data = data_folder(asked.data)
    above: list[str] = []
    gaps: list[float] = []
    ratios: list[float] = []
    print(f"| net | budget | GB/s | recompute | copy | {' | '.join(RULES)} | both | bound | s | both |\n|{'-|' * 12}")
    for name in asked.models:
        model = str(data / f"models/{name}.onnx")
        if not is_there(model):
            continue
        options = ("--batch", str(MODELS[name]), "--optimizer", "adamw", "--no-offsets")
        for share in asked.shares:
            alone = bench.plan(model, f"floor+{share}%", *options, judges=False)
            for link in asked.links:

                def copying(solver: str, budget: int | None = alone.budget, link: int = link) -> Measured:
                    return bench.plan(model, str(budget), *options, "--offload", "host", "--link", f"{link}GB/s", "--solver", solver,
                                      judges=False)

                copies, both = copying("copy-only"), copying("auto")
                rules = [copying(rule).overhead for rule in RULES]
                row = f"{name}, floor + {share} %, {link} GB/s"
                others = [x for x in (alone.overhead, copies.overhead, *rules) if x is not None]
                if others and (both.overhead is None or both.overhead > min(others) + SLACK):
                    above.append(f"{row}: {text(both.overhead)} instead of {min(others):.2f}")
                if both.overhead is not None and both.bound is not None:
                    gaps.append(both.overhead - both.bound)
                ratios.append(both.processor / alone.processor)
                print(f"| {name} | floor + {share} % | {link} | {text(alone.overhead)} | {text(copies.overhead)} | "
                      f"{' | '.join(text(x) for x in rules)} | **{text(both.overhead)}** | {text(both.bound)} | {alone.processor:.1f} | "
                      f"{both.processor:.1f} |", flush=True)
    print(f"\nBoth is above the least of the others in {len(above)} of {len(ratios)} rows.", *above, sep="\n* " if above else "")
    if gaps:
        print(f"The median gap to what is proved is {statistics.median(gaps):.2f} % of a step, the median ratio of the seconds "
              f"{statistics.median(ratios):.1f}.")
    return int(bool(above))


if __name__ == "__main__":
    sys.exit(main())
