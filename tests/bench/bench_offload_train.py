#!/usr/bin/env python3
"""bench_offload_train.py MEMPLAN [--links RATE,...] [--budgets BUDGET,...] [--steps N] [MODEL[:BATCH] ...] - how far a step with copies
that are held to a link takes as long as planned.

The plan is made with measured seconds (`profile`). A row has the seconds of the plan and of the median step, and of waiting for
copies in both; their ratio; how much longer a step that keeps all took in the same run than planned, which other programs on the
machine may cause; and the ratio to the time of the same plan if all compute takes that much longer. This time is computed here,
by the rules of docs/internals/plan-rules.md. For the unchanged plan the same computation must give the plan's own time."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RUNS = 3  # the one whose last ratio is the median counts
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def makespan(graph: dict[str, Any], plan: dict[str, Any], longer: float) -> float:
    """Seconds of the plan's steps where computing takes so much longer."""
    nodes = {node["id"]: node for node in graph["nodes"]}
    free: dict[str, float] = {}
    ends: list[float] = []
    waiting: dict[int, list[int]] = {}
    computed = ready = 0.0
    for k, step in enumerate(plan["steps"]):
        ready = max([ready, *(ends[t] for t in waiting.pop(k, []))])
        node = nodes[step["node"]]
        way = {**node, **node["alternatives"][step["alternative"] - 1]} if step.get("alternative") else node
        channel = way.get("channel", "compute") if step.get("alternative") or "optional" in node.get("flags", []) else "compute"
        computes = channel == "compute"
        begin = max(free.get(channel, 0.0), ready, 0.0 if computes else computed)
        ends.append(begin + way["seconds"] * (longer if computes else 1))
        free[channel] = ends[-1]
        if computes:
            computed = ends[-1]
        waiting.setdefault(step.get("until", k + 1), []).append(k)
    return max(ends)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("memplan")
    parser.add_argument("models", nargs="*", default=[f"{EXAMPLES}/fashion_cnn.onnx:64"])
    parser.add_argument("--links", type=lambda text: text.split(","), default=["300MB/s", "100MB/s"])
    parser.add_argument("--budgets", type=lambda text: text.split(","), default=["60%", "45%"])
    parser.add_argument("--steps", default="20")
    asked = parser.parse_args()
    asked.memplan = str(Path(asked.memplan).resolve())
    ratios: list[float] = []
    print("| model | budget | link | planned | waits | measured | waits | ratio | computing | ratio with it |\n|" + "-|" * 10)
    with tempfile.TemporaryDirectory() as folder:

        def memplan(command: str, *words: str) -> str:
            done = subprocess.run([asked.memplan, command, *words], capture_output=True, text=True, check=False, cwd=folder)
            if done.returncode:
                sys.exit(done.stderr or done.stdout)
            return done.stdout

        def trained(path: str) -> Any:
            return json.loads(memplan("train", path, "--plan", "plan.json", "--steps", asked.steps, "--json"))

        for model in asked.models:
            path, _, batch = model.partition(":")
            path = str(Path(path).resolve())
            sized = ["--batch", batch] if batch else []
            memplan("profile", path, *sized, "--steps", asked.steps, "-o", "costs.json")
            for budget in asked.budgets:
                for link in asked.links:
                    shape = [*sized, "--device", "cpu", "--costs", "costs.json", "--offload", ".", "--link", link]
                    memplan("plan", path, *shape, "--budget", budget, "-o", "plan.json")
                    memplan("graph", path, *shape, "-o", "graph.json")
                    graph, plan = (json.loads(Path(folder, name).read_text()) for name in ("graph.json", "plan.json"))
                    planned = makespan(graph, plan, 1)
                    if abs(planned / plan["seconds"] - 1) > 1e-6:
                        sys.exit(f"{path}: the plan takes {plan['seconds']} s, and by its rules {planned} s")
                    runs = [trained(path) for _ in range(RUNS)]
                    longer_in = [run["before"]["step_seconds"] / plan["baseline_seconds"] for run in runs]
                    ratio_of = [run["after"]["step_seconds"] / makespan(graph, plan, x) for run, x in zip(runs, longer_in, strict=True)]
                    k = sorted(range(RUNS), key=ratio_of.__getitem__)[RUNS // 2]
                    copies, took, longer = runs[k]["offload"], runs[k]["after"]["step_seconds"], longer_in[k]
                    ratios.append(ratio_of[k])
                    print(f"| {Path(path).stem} | {budget} | {link} | {planned:.4f} | {copies['planned_wait_seconds']:.4f} | {took:.4f} | "
                          f"{copies['wait_seconds']:.4f} | {took / planned:.2f} | {longer:.2f} | {ratios[-1]:.2f} |", flush=True)
    print(f"\nThe median of the last column is {statistics.median(ratios):.2f}, and {sum(abs(r - 1) <= 0.15 for r in ratios)} of "
          f"{len(ratios)} are within 15 %.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
