#!/usr/bin/env python3
"""bench_sequences.py MEMPLAN [--steps T] [--slots M ...] - backpropagation through time: memplan's plans beside the table of
Gruslys, Danihelka, Lanctot, Graves and Munos, "Memory-Efficient Backpropagation Through Time" (NIPS 2016).

Their problem as a graph: step t makes the hidden state t from the one before, and backward of step t runs the step once more
(its inside is workspace) and needs the state before it; m states fit into memory. Their cost counts runs of a step, forward and
inside backward, and their dynamic programme finds its minimum C(t, m) among the orders that keep states as checkpoints:

    C(t, 1) = t (t + 1) / 2      C(t, m) = 2 t - 1 for m >= t      C(t, m) = min over y of y + C(y, m) + C(t - y, m - 1)

memplan gets the graph and a budget of m states, and knows nothing of sequences. Prints a Markdown table."""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

STATE = 1 << 16  # bytes of a hidden state; all else of the graph is less than a quarter of one
SMALL = 64


def least_runs(steps: int, most: int) -> list[list[int]]:
    """C[m][t] for m up to `most`. The best y moves up with t (by one at most): O(steps * most) comparisons, a few each."""
    cost = [[0] * (steps + 1), [t * (t + 1) // 2 for t in range(steps + 1)]]
    for m in range(2, most + 1):
        row = [0, 1] + [0] * (steps - 1)
        best = 1
        for t in range(2, steps + 1):
            if m >= t:
                row[t] = 2 * t - 1
                continue

            def runs(y: int, t: int = t, m: int = m, row: list[int] = row) -> int:
                return y + row[y] + cost[m - 1][t - y]

            while best + 1 < t and runs(best + 1) <= runs(best):
                best += 1
            row[t] = runs(best)
        cost.append(row)
    return cost


def graph(steps: int) -> dict[str, Any]:
    """States 1 to steps - 1 are made forward; a step's gradient takes the place of the one behind it."""
    storages: list[dict[str, Any]] = [{"id": 0, "name": "x", "bytes": SMALL, "kind": "input"}]
    nodes: list[dict[str, Any]] = []

    def storage(name: str, size: int, kind: str) -> int:
        storages.append({"id": len(storages), "name": name, "bytes": size, "kind": kind})
        return len(storages) - 1

    def node(name: str, phase: str, reads: list[int], writes: list[int], **more: Any) -> None:
        nodes.append({"id": len(nodes), "name": name, "op": "Step", "phase": phase, "seconds": 1.0, "reads": reads,
                      "writes": writes, **more})

    states = [0]
    for t in range(1, steps):
        states.append(storage(f"state {t}", STATE, "activation"))
        place = {"in_place": [[states[t - 1], states[t]]]} if t > 1 else {}
        node(f"step {t}", "forward", [states[t - 1]], [states[t]], **place)
    gradient = None
    for t in range(steps, 0, -1):
        before = gradient
        gradient = storage(f"gradient {t - 1}", SMALL, "activation_gradient")
        reads = [states[t - 1]] + ([before] if before is not None else [])
        place = {"in_place": [[before, gradient]]} if before is not None else {}
        node(f"backward {t}", "backward", reads, [gradient], **place)
    return {"format": "memplan-graph", "version": 1, "name": f"bptt{steps}", "tick_seconds": 0.001, "alignment": SMALL,
            "storages": storages, "nodes": nodes}


def plan(memplan: str, path: Path, slots: int, limit: str | None) -> tuple[dict[str, Any], float]:
    command = [memplan, "plan", str(path), "--budget", str(slots * STATE + STATE // 4), "--json"]
    start = time.monotonic()
    run = subprocess.run(command + (["--time-limit", limit] if limit else []), capture_output=True, text=True, check=False)
    if not run.stdout:
        raise SystemExit(run.stderr)
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer, time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memplan")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--slots", type=int, nargs="+", default=[500, 200, 100, 50, 20, 10, 5])
    parser.add_argument("--time-limit", help="of each search, in seconds")
    arguments = parser.parse_args()
    table = least_runs(arguments.steps, min(max(arguments.slots), arguments.steps))
    print("| states that fit | their least runs | memplan's | more | proved: at least | seconds |")
    print("|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bptt.json"
        path.write_text(json.dumps(graph(arguments.steps)))
        for slots in arguments.slots:
            theirs = table[min(slots, arguments.steps)][arguments.steps]
            answer, seconds = plan(arguments.memplan, path, slots, arguments.time_limit)
            bound = answer.get("lower_bound_seconds")
            proved = f"{bound:,.0f}" if bound else "-"
            if not answer["feasible"]:
                print(f"| {slots} | {theirs:,} | none found | | {proved} | {seconds:.1f} |", flush=True)
                continue
            ours = answer["seconds"]
            print(f"| {slots} | {theirs:,} | {ours:,.0f} | {100 * (ours / theirs - 1):+.2f} % | {proved} | {seconds:.1f} |",
                  flush=True)


if __name__ == "__main__":
    main()
