"""The memory of a process against xMem's published runs: errors of the estimate, and jobs that fail with it.

    PYTHONPATH=python/src python python/bench/bench_xmem.py ROWS.csv [CACHE.json]

ROWS.csv has xMem's runs, with the columns id, path, model, batch, input, optimizer, zero_grad_position, gpu, gpu_bytes,
truth_peak_bytes, oom, xmem_bytes and note. Rows are split by a hash of their id: two thirds fit the constants in
estimator/training/process.def, one third is unseen. CACHE.json keeps the estimates between runs. Rows with Adafactor are
skipped, because they do not state which implementation they used.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import statistics
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from xmem_jobs import VISION, job

import memplan
from memplan.library.quantities import process_memory

MIB = 1 << 20
CARDS = {"NVIDIA GeForce RTX 3060": "rtx3060", "NVIDIA GeForce RTX 4060": "rtx4060", "NVIDIA A100-SXM4-40GB": "a100"}
LEAST_BATCH = 15  # smaller batches of texts have fewer than 128 tokens per line, and the rows do not state how many
OUTCOME = re.compile(r"[xdsl]@([0-9.]+)=(ok|oom)")


@dataclass
class Row:
    """A run with its estimate. `likely_bytes`: the figure for 19 of 20 jobs, without the context, like the truth."""

    id: str
    model: str
    truth_bytes: int
    xmem_bytes: float
    card_bytes: int
    tensors_bytes: int
    reserved_bytes: int
    likely_bytes: int
    capped: list[tuple[float, bool]]
    group: str

    @property
    def error(self) -> float:
        return self.reserved_bytes / self.truth_bytes - 1

    @property
    def is_unseen(self) -> bool:
        return int(hashlib.sha256(f"split {self.id}".encode()).hexdigest(), 16) % 3 == 0

    def fails(self, n_bytes: float) -> bool:
        """Whether the job dies if the allocator may reserve these bytes.

        It runs with the measured peak, or with a cap at which a rerun ran. A cap is a hundredth of the card.
        """
        cap = round(n_bytes / self.card_bytes, 2)
        return n_bytes < self.truth_bytes and not any(ran and cap >= fraction for fraction, ran in self.capped)


def group_of(row: dict[str, str]) -> str:
    """Return the group under which a row is reported."""
    if row["path"].startswith("plot/data/ANOVA"):
        return "unknown: legacy runs, whose peak differs from their rerun's"
    if row["model"] in VISION:
        return "convolution"
    if int(row["batch"]) < LEAST_BATCH and "padded" not in row["input"]:
        return "unknown: number of tokens"
    return "transformer"


def estimated(row: dict[str, str]) -> tuple[int, int]:
    clears_at = int(row["zero_grad_position"][0]) if row["zero_grad_position"][0].isdigit() else 0
    train = job(row["model"], row["optimizer"], int(row["batch"]), clears_at)
    needs = memplan.estimate(train, (), device=CARDS[row["gpu"]], calls=1, memory=int(row["gpu_bytes"])).needs
    assert needs is not None
    return needs.tensors_bytes, needs.reserved_bytes


def rows_of(path: str, cache: Path | None) -> list[Row]:
    known: dict[str, list[int]] = json.loads(cache.read_text()) if cache is not None and cache.exists() else {}
    found = []
    with open(path, encoding="utf-8", newline="") as file:
        given = [row for row in csv.DictReader(file) if row["oom"] == "no" and row["optimizer"] != "Adafactor"]
    for row in given:
        if row["id"] not in known:
            known[row["id"]] = list(estimated(row))
            sys.stderr.write(f"{row['id']} {row['model']} {known[row['id']]}\n")
            if cache is not None:
                cache.write_text(json.dumps(known))
        tensors_bytes, reserved_bytes = known[row["id"]]
        group = group_of(row)
        family = "convolution" if row["model"] in VISION else "transformer"
        memory = process_memory(CARDS[row["gpu"]], family, reserved_bytes)
        assert memory is not None
        found.append(
            Row(
                row["id"],
                row["model"],
                int(row["truth_peak_bytes"]),
                float(row["xmem_bytes"] or "nan"),
                int(row["gpu_bytes"]),
                tensors_bytes,
                reserved_bytes,
                memory.likely_bytes - memory.context_bytes,
                [(float(cap), how == "ok") for cap, how in OUTCOME.findall(row["note"])],
                group,
            )
        )
    return found


def summary(name: str, rows: list[Row]) -> str:
    if not rows:
        return f"| {name} | 0 | | | | | |"
    errors = [r.error for r in rows]
    theirs = statistics.median(abs(r.xmem_bytes / r.truth_bytes - 1) for r in rows)
    short = sum(r.truth_bytes > r.likely_bytes for r in rows)
    return (
        f"| {name} | {len(rows)} | {statistics.median(map(abs, errors)):.1%} | {statistics.median(errors):+.1%} |"
        f" {theirs:.1%} | {short} | {sum(r.fails(r.likely_bytes) for r in rows)} |"
    )


def write(lines: Iterable[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def main() -> None:
    rows = rows_of(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None)
    scored = [r for r in rows if not r.group.startswith("unknown")]
    write(
        f"{r.id} {r.model:42} measured {r.truth_bytes / MIB:6.0f} MiB, tensors {r.tensors_bytes / MIB:6.0f}, reserved"
        f" {r.reserved_bytes / MIB:6.0f} ({r.error:+.1%}), {r.group}{', unseen' if r.is_unseen else ''}"
        f"{', short' if r.truth_bytes > r.likely_bytes else ''}{', fails' if r.fails(r.likely_bytes) else ''}"
        for r in rows
    )
    write(["", "| jobs | n | median error | bias | xMem's median error | above the 19-of-20 figure | fail with it |"])
    write(["|---|---:|---:|---:|---:|---:|---:|"])
    for part, those in (
        ("all", scored),
        ("fitted", [r for r in scored if not r.is_unseen]),
        ("unseen", [r for r in scored if r.is_unseen]),
    ):
        for group in ("", "convolution", "transformer"):
            name = f"{part}, {group}" if group else part
            write([summary(name, [r for r in those if not group or r.group == group])])
    for group in sorted({r.group for r in rows if r.group.startswith("unknown")}):
        write([summary(group, [r for r in rows if r.group == group])])


if __name__ == "__main__":
    main()
