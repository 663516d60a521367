"""Before renting: what others measured on many devices (torchtitan, torchtune, llm-foundry, PyTorch's pull requests) beside
what is estimated here for one rank, without them.

make bench-python BENCH=mesh DATA=FOLDER [NETWORKS="FSDP2 TT24-T1"]

The figures are those of FOLDER/bench/published/published.csv. `by itself` is what the run takes without a plan: FSDP2's own
rules, and the checkpoints that it had. `keep all` is what a plan does that gathers and computes nothing twice. Where bytes of
checkpoints were measured a plan needs at least `min`, and `extra` is how much longer a plan within them takes. Of MPTs
(llm-foundry) it is known that they fitted into 80 GB.
"""

from __future__ import annotations

import csv
import functools
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rivals
import torch
import torch.nn.functional as F
from networks import Llama
from torch import nn

import memplan
from memplan.mesh.fsdp_memory import by_itself

GIB = 1 << 30
EIGHT = (32, 4096, 32, 8, 14336, 128256)  # billions of parameters
THREE = (28, 3072, 24, 8, 8192, 128256)
MPTS = {"1B": (24, 2048, 16), "3B": (32, 2560, 20), "7B": (32, 4096, 32), "13B": (40, 5120, 40), "70B": (80, 8192, 64)}
FIT_BYTES = 80e9


class MptBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before, self.middle, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, w = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.before(x)).chunk(3, -1))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, w))
        return x + self.down(F.gelu(self.up(self.middle(x))))


class Mpt(nn.Module):
    """Its rows' numbers of parameters are those of one matrix for embedding and output, places that are learned, and biases."""

    def __init__(self, layers: int, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50368, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(MptBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = self.words(x) + self.places.weight
        for layer in self.layers:
            h = layer(h)
        return F.cross_entropy(F.linear(self.norm(h), self.words.weight).flatten(0, 1), y.flatten())


class Chunked(Llama):
    """With torchtune's loss, which has the scores of one piece of the sequences in fp32 at a time."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = self.words(x)
        for layer in self.layers:
            h = layer(h, self.cos, self.sin)
        scores = [self.head(piece) for piece in self.norm(h).chunk(8, 1)]
        parts = zip(scores, y.chunk(8, 1))
        return torch.stack([F.cross_entropy(s.flatten(0, 1).float(), t.flatten()) for s, t in parts]).mean()


@dataclass(frozen=True)
class Row:
    """`again`: the checkpoints that the run had; `without`: a kind that is not there yet; `shard`: None, and one device."""

    id: str
    what: str
    make: Callable[[], nn.Module]
    batch: int
    length: int
    shard: int | None
    again: Callable[[Any], Any] | None = None
    device: str = "h100"
    dtype: torch.dtype = torch.float32
    without: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    of_shards: dict[str, Any] = field(default_factory=dict)

    def estimated(self, budget: Any) -> Any:
        with torch.device("meta"):
            model = self.make().to(self.dtype)
            batch = tuple(torch.empty(self.batch, self.length, dtype=torch.int64) for _ in range(2))
        if self.again is not None:
            layers: Any = model.layers
            for layer in layers:
                self.again(layer)
        options: dict[str, Any] = {"device": self.device, "budget": budget, "on_infeasible": "smallest", "effort": "quick"}
        options |= {"optimizer": torch.optim.AdamW(model.parameters()), **self.options}
        if self.shard is None:
            return memplan.estimate(model, batch, mesh={"dp": 1}, **options)
        from torch.distributed.fsdp import MixedPrecisionPolicy

        shard = {"mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.float32), **self.of_shards}
        return memplan.estimate(model, batch, mesh={"shard": self.shard}, shard=shard, **options)


def llama(size: tuple[int, ...], length: int, kind: type[Llama] = Llama) -> Callable[[], nn.Module]:
    return lambda: kind(*size, length)


def mpt(name: str, micro_batches: int, batch: int, again: Any = None, **of_shards: Any) -> Row:
    """Of a row that says which network, how long its sequences are and how many devices it had."""
    _, size, length, devices = name.split("-")
    what = ("per block" if again else "nothing again") + f", {devices} ranks"
    options = {"accumulate": True} if micro_batches > 1 else {}
    make = functools.partial(Mpt, *MPTS[size], int(length))
    return Row(name, what, make, batch, int(length), int(devices), again, options=options, of_shards=of_shards)


def tune(n: int, what: str, kind: type[Llama] = Llama, again: Any = None) -> Row:
    return Row(f"TUNE-3B-{n}", what, llama(THREE, 4096, kind), 2, 4096, None, again, "a100", torch.bfloat16)


BIG = llama(EIGHT, 8192)
ROWS = (
    Row("FSDP2-129721-after-s1", "nothing again, step 1", BIG, 1, 8192, 8, without="OptState"),
    Row("FSDP2-129721-after-s2", "nothing again, step 2", BIG, 1, 8192, 8),
    tune(1, "nothing again, one device"),
    tune(2, "nothing again, Inductor"),
    tune(3, "the same, loss in chunks", Chunked),
    tune(4, "per block", Chunked, rivals.checkpointed),
    Row("TT24-T1-0-mem", "selective", BIG, 2, 8192, 8, rivals.selected),
    Row("TT24-T1-1-mem", "selective, Inductor", BIG, 2, 8192, 8, rivals.selected),
    Row("TT24-T3-0-mem", "selective, 128 ranks", BIG, 2, 8192, 128, rivals.selected),
    Row("TT24-T3-1-mem", "the same, Inductor", BIG, 2, 8192, 128, rivals.selected),
    Row("TT24-T2-0-mem", "per block, float8", llama(EIGHT, 32768), 1, 32768, 8, rivals.checkpointed),
    mpt("MPT-1B-2048-8", 1, 14),
    mpt("MPT-3B-2048-128", 1, 8, reshard_after_forward=False),
    mpt("MPT-7B-2048-8", 1, 6),
    mpt("MPT-7B-4096-8", 2, 16, rivals.checkpointed),
    mpt("MPT-7B-8192-8", 2, 8, rivals.checkpointed),
    mpt("MPT-7B-65536-8", 2, 1, rivals.checkpointed),
    mpt("MPT-13B-2048-8", 1, 2),
    mpt("MPT-13B-4096-8", 3, 10, rivals.checkpointed),
    mpt("MPT-70B-2048-32", 16, 2, rivals.checkpointed),
    mpt("MPT-70B-2048-64", 4, 8, rivals.checkpointed),
)


def measured(folder: Path) -> dict[str, float]:
    """GiB by the row; of what only fitted, all that it had."""
    with open(folder / "published.csv", encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    known = {row["id"]: float(row["value"]) for row in rows if row["unit"] == "GiB"}
    return known | {row["id"]: FIT_BYTES / GIB for row in rows if row["id"].startswith("MPT-")}


def line_of(row: Row, known: float) -> tuple[str, float]:
    """And what it takes by itself, GiB."""
    start, only_fits = time.process_time(), row.id.startswith("MPT-")
    is_planned = row.again is not None and not only_fits
    report = row.estimated(int(known * GIB) if is_planned else "100%")
    absent = report.kinds.get(row.without, 0)
    alone = (by_itself(report.planner).peak_bytes - absent) / GIB
    cells = [f"{alone:.2f}", f"{(report.keep_all_bytes - absent) / GIB:.2f}"]
    cells += [f"{report.smallest_bytes / GIB:.2f}", f"{report.overhead:+.1%}"] if is_planned else ["", ""]
    limit = f"at most {known:.2f}" if only_fits else f"{known:.2f}"
    return "| " + " | ".join([row.id, row.what, limit, *cells, f"{time.process_time() - start:.0f}"]) + " |\n", alone


def main() -> None:
    folder = Path(os.environ.get("DATA", "")) / "bench" / "published"
    if not (folder / "published.csv").exists():
        sys.stdout.write("mesh: skipped, as DATA= names no folder with bench/published/published.csv\n")
        return
    wanted, known = sys.argv[1:], measured(folder)
    errors, fit = [], []
    sys.stdout.write("| row | of it | measured GiB | by itself | keep all | min | within it, extra | processor s |\n")
    sys.stdout.write("|---|---|---:|---:|---:|---:|---:|---:|\n")
    for row in ROWS:
        if wanted and not any(row.id.startswith(w) for w in wanted):
            continue
        line, alone = line_of(row, known[row.id])
        sys.stdout.write(line)
        sys.stdout.flush()
        if row.id.startswith("MPT-"):
            fit.append(alone <= known[row.id])
        else:
            errors.append(alone / known[row.id] - 1)
    if errors:
        worst, median = max(errors, key=abs), statistics.median(map(abs, errors))
        sys.stdout.write(f"\nby itself beside measured, of {len(errors)}: median {median:.1%}, worst {worst:+.1%}\n")
    if fit:
        sys.stdout.write(f"of {len(fit)} MPTs that fitted, {sum(fit)} do by themselves\n")


if __name__ == "__main__":
    main()
