"""Which batches of timm's networks fit a card of 24 GB, against timm's published training benchmark.

    PYTHONPATH=python/src python python/bench/bench_timm.py ROWS.csv [--earlier FILE...] [--cache CACHE.json] [--unseen N]
        [--seen] [--check]

ROWS.csv has the columns model, layout, batch and image of timm's results for an RTX 3090 (PyTorch 1.12, CUDA 11.3, automatic
mixed precision, SGD with momentum). The benchmark halves a failed batch in steps (512, 384, 256, 192, ...), so that each batch
below 512 states two facts: it ran, and the next larger batch failed. A row is right if memplan predicts both facts.

The benchmark tries the next smaller batch after any RuntimeError. So an error of a kernel looks like a lack of memory.
`--earlier` names timm's results of PyTorch 1.10 and 1.11 on the same card (benchmark-train-amp-LAYOUT-pt111-cu113-rtx3090.csv
in the history of its repository). If the failed batch ran with an earlier version, the failure was not a lack of memory. The
script judges such a row by the largest batch that ran in any version. Without `--earlier` all rows keep their published batch.

The networks are ordered by a hash of their names. We looked at the first SEEN networks while we wrote this script, but fitted
no constant on them. The others are unseen. A network with the same captured requests as an earlier network is skipped.

`--check`: exit with 1 if fewer than 95 % of the unseen rows are right.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import timm
import timm.layers
import torch
from published_rows import Cache

from memplan.library.quantities import process_memory
from memplan.memory.allocator import OutOfMemory, Settings
from memplan.step.eager_step import Requests, recorded_step

MIB = 1 << 20
CARD = "rtx3090"
CONTEXT_BYTES = 1687 * MIB  # before CUDA 11.7 all kernels are loaded at once: pytorch/pytorch issue 55277 (RTX 3090, CUDA 11.1)
LARGEST = 512
SEEN = 60
TARGET = 0.95
CLOSE = 0.05
STEPS = 3  # the first one creates the optimizer's state; later ones fragment the allocator's memory


@dataclass(frozen=True)
class Judgement:
    """Whether a row is right. `runs`, `larger`: shares of the room for this and the next larger batch; at most 1: it fits."""

    layout: str
    model: str
    batch: int
    runs: float
    larger: float | None
    is_corrected: bool  # true: an earlier version of PyTorch ran a larger batch than the row's batch

    @property
    def is_right(self) -> bool:
        return self.runs <= 1 and (self.larger is None or self.larger > 1)

    @property
    def distance(self) -> float:
        """Return the bytes by which the estimate of a wrong prediction misses the room, as a share of the room."""
        return max(self.runs - 1, 0 if self.larger is None else 1 - self.larger, 0)


def larger_batch(batch: int) -> int:
    """Return the batch that failed before this one: multiples of half a power of two."""
    ladder = [1, 2, *(size for k in range(1, 9) for size in (3 * 2 ** (k - 1), 2 ** (k + 1)))]
    return ladder[ladder.index(batch) + 1]


def earlier_batches(files: list[Path]) -> dict[tuple[str, str, int], int]:
    """Return the largest batch that ran in earlier versions, by network, layout and image size."""
    found: dict[tuple[str, str, int], int] = {}
    for path in files:
        layout = "nhwc" if "-nhwc-" in path.name else "nchw"
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                key = row["model"], layout, int(row["train_img_size"])
                found[key] = max(found.get(key, 0), int(row["train_batch_size"]))
    return found


def order(name: str) -> str:
    return hashlib.sha256(f"timm {name}".encode()).hexdigest()


def loop(model: torch.nn.Module, batch: int, image: int) -> Callable[[], None]:
    """Return timm's benchmark: gradients are set to zero in place, and the loss is computed under autocast."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, nesterov=True, foreach=False)
    loss_of = torch.nn.CrossEntropyLoss()
    x = torch.empty(batch, 3, image, image, device="meta")

    def train() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad(set_to_none=False)
            with torch.autocast("cuda", torch.float16):
                out = model(x)
                out = out[0] if isinstance(out, tuple) else out
                target = torch.empty(batch, device="meta", dtype=torch.long)
                loss_of(out, target).backward()
            optimizer.step()

    return train


def requests_of(name: str, batch: int, image: int) -> Requests:
    with torch.device("meta"):
        model = timm.create_model(name).train()
    return recorded_step(loop(model, batch, image), (), {}, True, 1)


def room_bytes() -> tuple[int, int]:
    """Return the bytes for the allocator, and those of a workspace of cuBLAS. The context has the size of CUDA 11.3."""
    known = process_memory(CARD, "other", 0)
    assert known is not None
    return known.card_bytes - CONTEXT_BYTES, known.workspace_bytes


def share_of(requests: Requests) -> float:
    """Return the needed share of the room. Near 1 it is the smallest one, because a full allocator frees cached blocks."""
    room, workspace_bytes = room_bytes()
    whole = requests.allocator(Settings(), workspace_bytes)
    low, high = whole.peak_allocated_bytes - 1, whole.peak_reserved_bytes
    if low >= room:
        return low / room
    while high > room * (1 - CLOSE) and high - low > 32 * MIB:
        middle = (low + high) // 2
        try:
            requests.allocator(Settings(), workspace_bytes, middle)
            high = middle
        except OutOfMemory:
            low = middle
    return high / room


def shares(model: str, batch: int, image: int, cache: Cache) -> float | str:
    found: float | str = cache.get(f"{model} {batch} {image}", lambda: share_of(requests_of(model, batch, image)))
    return found


def judged(
    rows: list[dict[str, str]], name: str, cache: Cache, earlier: dict[tuple[str, str, int], int]
) -> Iterator[Judgement | str]:
    for row in rows:
        published, image = int(row["batch"]), int(row["image"])
        batch = max(published, earlier.get((name, row["layout"], image), 0))
        runs = shares(name, batch, image, cache)
        larger = shares(name, larger_batch(batch), image, cache) if batch < LARGEST else None
        if isinstance(runs, str) or isinstance(larger, str):
            yield runs if isinstance(runs, str) else str(larger)
        else:
            yield Judgement(row["layout"], name, batch, runs, larger, batch > published)


def summary(part: str, found: list[Judgement]) -> str:
    right = sum(j.is_right for j in found)
    close = sum(not j.is_right and j.distance <= CLOSE for j in found)
    return f"| {part} | {len(found)} | {right} | {right / max(1, len(found)):.1%} | {len(found) - right} | {close} |\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows")
    parser.add_argument("--earlier", type=Path, nargs="*", default=[], help="timm's results of earlier versions of PyTorch")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--unseen", type=int, default=1 << 30, help="the number of unseen networks")
    parser.add_argument("--seen", action="store_true", help="also the networks that were looked at")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    timm.layers.set_fused_attn(False)  # timm of 2022 wrote attention out
    rows: dict[str, list[dict[str, str]]] = {}
    with open(given.rows, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault(row["model"], []).append(row)
    earlier = earlier_batches(given.earlier)
    cache = Cache(given.cache)
    parts: dict[str, list[Judgement]] = {"seen": [], "unseen": []}
    known: set[tuple[object, ...]] = set()
    n_failed = 0
    names = sorted(rows, key=order)
    seen = names[:SEEN]
    for name in [*(seen if given.seen else []), *names[SEEN : SEEN + given.unseen]]:
        found = list(judged(rows[name], name, cache, earlier))
        new = tuple((j.layout, j.batch, j.runs, j.larger) if isinstance(j, Judgement) else j for j in found)
        if new in known:
            continue
        known.add(new)
        for j in found:
            if isinstance(j, str):
                n_failed += 1
                sys.stdout.write(f"{name}: {j}\n")
                continue
            parts["seen" if name in seen else "unseen"].append(j)
            if not j.is_right:
                larger = "" if j.larger is None else f", {larger_batch(j.batch)}: {j.larger:.3f}"
                sys.stdout.write(f"{name} {j.layout}, share of the room at batch {j.batch}: {j.runs:.3f}{larger}\n")
    sys.stdout.write(
        "| rows | n | right | share | wrong | wrong by at most 5 % of the room |\n|---|---:|---:|---:|---:|---:|\n"
    )
    for part, those in parts.items():
        for layout in ("", "nchw", "nhwc"):
            sys.stdout.write(summary(f"{part} {layout}".strip(), [j for j in those if layout in ("", j.layout)]))
    sys.stdout.write(f"{n_failed} rows do not run with this version of timm\n")
    for part, those in parts.items():
        n = sum(j.is_corrected for j in those)
        sys.stdout.write(f"{n} {part} rows are judged by a larger batch that ran with an earlier version of PyTorch\n")
    unseen = parts["unseen"]
    return int(given.check and sum(j.is_right for j in unseen) < TARGET * len(unseen))


if __name__ == "__main__":
    sys.exit(main())
