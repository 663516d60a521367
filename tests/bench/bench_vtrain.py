#!/usr/bin/env python3
"""bench_vtrain.py MEMPLAN VTRAIN - all steps that vTrain measured with tp up to 8, predicted as in bench_times.py, and whether these steps agree
with each other. VTRAIN is a checkout of github.com/VIA-Research/vTrain (Bang et al. 2024), whose data/ground_truth_multi.csv has the steps.

Prints three results:
* the errors per model;
* the measured time of a layer and sample: seconds of the step / (passes x micro-batch x layers of a stage). Passes are the micro-batches of a
  rank plus pp - 1 waits for other stages. Meshes with the same tp and micro-batch run the same kernels, so their times should be equal;
* the rank correlation if each step is predicted from measured times of other meshes with the same tp and micro-batch. It shows how well times
  of layers alone order the steps."""

from __future__ import annotations

import csv
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from bench_times import ACHIEVED, Row, of_errors, predict, ranks, shape_of

MOST_TP = 8  # ranks of tp in a node
MODELS = ("3.6", "18.4", "39.1", "175")
COLUMNS = {"# layers": "layers", "hidden size": "hidden", "attention heads": "heads", "sequence length": "seq",
           "tensor parallelism": "tp", "data parallelism": "dp", "pipeline parallelism": "pp"}


def read(path: Path) -> list[Row]:
    rows = []
    with path.open(newline="", encoding="utf-8-sig") as file:
        for number, line in enumerate(csv.DictReader(file), start=2):
            if not line["# GPUs"] or int(line["tensor parallelism"]) > MOST_TP:
                continue
            row = {ours: line[theirs] for theirs, ours in COLUMNS.items()} | {"id": f"VT-r{number}"}
            mesh = f"dp={row['dp']},tp={row['tp']},pp={row['pp']},sp=0" + (",scatter=1" if int(row["tp"]) > 1 and int(row["pp"]) > 1 else "")
            rows.append(Row(f"{line['Parameters (billion)']} row {number}", shape_of(row), mesh, int(line["# GPUs"]), int(line["global batch"]),
                            int(line["micro batch"]), True, 1, "nvlink3+ib100", float(line["iteration time (ms)"]) / 1e3))
    return rows


def work(row: Row) -> float:
    """Passes x micro-batch x layers of a stage."""
    micro_batches = row.batch // row.dim("dp") // row.micro_batch
    return (micro_batches + row.dim("pp") - 1) * row.micro_batch * row.sizes()[0] / row.dim("pp")


def correlation(predicted: list[float], measured: list[float]) -> float:
    return statistics.correlation(ranks(predicted), ranks(measured))


def by_kernels(rows: list[Row]) -> dict[tuple[int, int], list[Row]]:
    alike = defaultdict(list)
    for row in rows:
        alike[row.dim("tp"), row.micro_batch].append(row)
    return alike


def compare(rows: list[Row]) -> None:
    """Prints the time of a layer and sample per mesh, and the order of steps that are predicted from each other."""
    for (tp, micro_batch), alike in sorted(by_kernels(rows).items()):
        times = "  ".join(f"dp={row.dim('dp')},pp={row.dim('pp')}: {1e3 * row.measured / work(row):.2f}" for row in sorted(alike, key=lambda r: r.dim("pp")))
        sys.stdout.write(f"  tp={tp}, micro-batch {micro_batch}, ms per layer and sample: {times}\n")
    pairs = []
    for alike in by_kernels(rows).values():
        for row in alike:
            others = [other.measured / work(other) for other in alike if other is not row]
            if others:
                pairs.append((statistics.geometric_mean(others) * work(row), row.measured))
    sys.stdout.write(f"  {len(pairs)} steps predicted from other meshes: rank correlation "
                     f"{correlation([p for p, _ in pairs], [m for _, m in pairs]):.2f}\n")


def main(memplan: str, checkout: str) -> int:
    rows = read(Path(checkout) / "data/ground_truth_multi.csv")
    for model in MODELS:
        some = [row for row in rows if row.name.startswith(model + " ")]
        seconds = [predict(memplan, row, ACHIEVED) for row in some]
        for row, predicted in zip(some, seconds, strict=True):
            sys.stdout.write(f"  {row.name:<14} {row.mesh:<34} {row.micro_batch:>3} {row.measured:>8.2f} {predicted:>8.2f} "
                             f"{100 * (predicted / row.measured - 1):>+6.1f}%\n")
        found = [predicted / row.measured - 1 for row, predicted in zip(some, seconds, strict=True)]
        sys.stdout.write(f"{model} billion parameters, {len(some)} steps: {of_errors(found)}, rank correlation "
                         f"{correlation(seconds, [row.measured for row in some]):.2f}\n")
        for tp in sorted({row.dim("tp") for row in some}):
            part = [(row.measured, predicted) for row, predicted in zip(some, seconds, strict=True) if row.dim("tp") == tp]
            if len(part) > 2:
                sys.stdout.write(f"  tp={tp}, {len(part)} steps: {of_errors([p / m - 1 for m, p in part])}, rank correlation "
                                 f"{correlation([p for _, p in part], [m for m, _ in part]):.2f}\n")
        compare(some)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
