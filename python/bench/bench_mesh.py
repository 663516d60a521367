"""Before renting: what others measured on many devices (torchtitan, torchtune, PyTorch's pull requests) beside what is
estimated here for one rank, without them.

make bench-python BENCH=mesh DATA=FOLDER [NETWORKS="FSDP2 TT24-T1"]

The figures are those of FOLDER/bench/published/published.csv. Where nothing is computed again, `FSDP2` is what it takes
by its own rules, and `keep all` what a plan does that gathers nothing twice; where they compute again (checkpoints), what they
take has to lie between `min` and `keep all`, and `extra` is how much longer a plan within their bytes takes.
"""

from __future__ import annotations

import csv
import os
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from networks import Llama

import memplan

GIB = 1 << 30
EIGHT = (32, 4096, 32, 8, 14336, 128256)  # billions of parameters
THREE = (28, 3072, 24, 8, 8192, 128256)


@dataclass(frozen=True)
class Setup:
    """`rows`: of the table, with how they were measured; `without`: kinds that are not there yet."""

    network: tuple[int, ...]
    batch: int
    length: int
    mesh: dict[str, int] | None
    device: str
    rows: dict[str, str]
    dtype: torch.dtype = torch.float32
    without: dict[str, str] = field(default_factory=dict)

    def estimated(self, budget: Any) -> Any:
        with torch.device("meta"):
            model = Llama(*self.network, self.length).to(self.dtype)
            batch = tuple(torch.empty(self.batch, self.length, dtype=torch.int64) for _ in range(2))
        options: dict[str, Any] = {"device": self.device, "budget": budget, "on_infeasible": "smallest", "effort": "quick"}
        options["optimizer"] = torch.optim.AdamW(model.parameters())
        if self.mesh is None:
            return memplan.estimate(model, batch, mesh={"dp": 1}, **options)
        from torch.distributed.fsdp import MixedPrecisionPolicy

        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
        return memplan.estimate(model, batch, mesh=self.mesh, shard={"mp_policy": policy}, **options)


SETUPS = (
    Setup(
        EIGHT,
        1,
        8192,
        {"shard": 8},
        "h100",
        {"FSDP2-129721-after-s1": "nothing again, step 1", "FSDP2-129721-after-s2": "nothing again, step 2"},
        without={"FSDP2-129721-after-s1": "OptState"},
    ),
    Setup(EIGHT, 2, 8192, {"shard": 8}, "h100", {"TT24-T1-0-mem": "selective", "TT24-T1-1-mem": "selective, Inductor"}),
    Setup(EIGHT, 2, 8192, {"shard": 128}, "h100", {"TT24-T3-0-mem": "selective", "TT24-T3-1-mem": "selective, Inductor"}),
    Setup(
        THREE,
        2,
        4096,
        None,
        "a100",
        {"TUNE-3B-1": "nothing again", "TUNE-3B-2": "nothing again, Inductor", "TUNE-3B-4": "per block, Inductor"},
        torch.bfloat16,
    ),
)


def measured(folder: Path) -> dict[str, float]:
    with open(folder / "published.csv", encoding="utf-8", newline="") as lines:
        return {row["id"]: float(row["value"]) for row in csv.DictReader(lines) if row["unit"] == "GiB"}


def main() -> None:
    folder = Path(os.environ.get("DATA", "")) / "bench" / "published"
    if not (folder / "published.csv").exists():
        sys.stdout.write("mesh: skipped, as DATA= names no folder with bench/published/published.csv\n")
        return
    wanted, known, errors = sys.argv[1:], measured(folder), []
    sys.stdout.write("| row | of it | measured GiB | FSDP2 | keep all | min | within it, extra | processor s |\n")
    sys.stdout.write("|---|---|---:|---:|---:|---:|---:|---:|\n")
    for setup in SETUPS:
        for name, what in setup.rows.items():
            if wanted and not any(name.startswith(w) for w in wanted):
                continue
            keeps_all = what.startswith("nothing")
            start = time.process_time()
            report = setup.estimated("100%" if keeps_all else int(known[name] * GIB))
            absent = report.kinds.get(setup.without.get(name, ""), 0)
            alone = (report.fsdp_bytes or report.keep_all_bytes) - absent
            here = [alone if keeps_all else None, report.keep_all_bytes - absent]
            here += [None if keeps_all else report.smallest_bytes]
            cells = [f"{n / GIB:.2f}" if n is not None else "" for n in here]
            extra = "" if keeps_all else f"{report.overhead:+.1%}"
            row = [name, what, f"{known[name]:.2f}", *cells, extra, f"{time.process_time() - start:.0f}"]
            sys.stdout.write("| " + " | ".join(row) + " |\n")
            sys.stdout.flush()
            if keeps_all:
                errors.append(alone / GIB / known[name] - 1)
    if errors:
        worst = max(errors, key=abs)
        median = statistics.median(map(abs, errors))
        sys.stdout.write(f"\nFSDP2 beside measured, of {len(errors)}: median {median:.1%}, worst {worst:+.1%}\n")


if __name__ == "__main__":
    main()
