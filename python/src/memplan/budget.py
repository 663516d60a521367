"""Budgets as people write them: bytes, "8GiB", "60%" of keep-all, "min", "min+50%", "auto"; and what a model takes of them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import Any

import torch

from memplan.errors import BudgetError, MemplanError
from memplan.graph.capture import storage_bytes, storage_key
from memplan.torch_internals.sharding import here

Budget = int | str

UNITS = {"": 1, "B": 1}
UNITS |= {f"{p}iB": 1024**k for k, p in enumerate("KMGT", 1)} | {f"{p}B": 1000**k for k, p in enumerate("kMGT", 1)}
MOST_BYTES = 2**63 - 1  # that the planner can count
AUTO_SHARE = 0.9  # of what is free: the rest is for what no plan sees


def read_bytes(text: str) -> int | None:
    """The bytes of "8GiB", "2.5 MB" or "1000", as many as can be counted at most; None: it is something else."""
    m = re.fullmatch(r"\s*(\d{1,19}(?:\.\d{1,19})?)\s*([kKMGT]?i?B?)\s*", text)
    return min(round(float(m[1]) * UNITS[m[2]]), MOST_BYTES) if m and m[2] in UNITS else None


def only_bytes(given: Budget) -> int:
    """For what is nothing but a number of bytes. MemplanError."""
    known = read_bytes(given) if isinstance(given, str) else given
    if not isinstance(known, int) or isinstance(known, bool) or not 0 <= known <= MOST_BYTES:
        raise MemplanError(f"{given!r} is no number of bytes")
    return known


def read_link(given: str | float) -> tuple[str, float]:
    """A link's name and 0, or "" and a rate for both ways: "pcie4", "24GB/s", bytes a second. MemplanError."""
    if isinstance(given, str):
        rate = read_bytes(given.removesuffix("/s")) if given.endswith("/s") else None
        return (given, 0.0) if rate is None else ("", float(rate))
    if isinstance(given, (int, float)) and not isinstance(given, bool) and 0 < given < MOST_BYTES:
        return "", float(given)
    raise MemplanError(f"{given!r} is no link: write a name of `memplan devices`, '24GB/s' or bytes a second")


def is_smallest(budget: Budget) -> bool:
    """Whether a budget is the peak of the smallest plan."""
    return isinstance(budget, str) and re.fullmatch(r"\s*(min|floor)\s*", budget) is not None


def resolve(budget: Budget, keep_all_bytes: int, min_bytes: Callable[[], int], auto_bytes: Callable[[], int]) -> int:
    """A budget in bytes, for a graph of which the rest is known. "floor" is another word for "min", what the smallest plan
    needs: budgets count from what can be reached, and not from what is certified."""
    if isinstance(budget, int) and not isinstance(budget, bool) and budget >= 0:
        return min(budget, MOST_BYTES)
    if isinstance(budget, str):
        if budget == "auto":
            return auto_bytes()
        if (plain := read_bytes(budget)) is not None:
            return plain
        if is_smallest(budget):
            return min_bytes()
        if m := re.fullmatch(r"\s*((?:min|floor)\s*\+)?\s*(\d{1,19}(?:\.\d{1,19})?)\s*%\s*", budget):
            base = min_bytes() if m[1] else 0
            return min(base + int(max(0, keep_all_bytes - base) * float(m[2]) / 100), MOST_BYTES)
    raise BudgetError(f"{budget!r} is no budget: write bytes, '8GiB', '60%', 'min', 'min+50%' or 'auto'")


def free_host_bytes() -> int:
    """What the system can still give without swapping."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def in_units(n: int) -> str:
    """1536 -> "1.50 KiB"."""
    if n < 1024:
        return f"{n} B"
    k = min(4, (n.bit_length() - 1) // 10)
    return f"{n / 1024**k:.2f} {'KMGT'[k - 1]}iB"


def total_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """What these take here, each piece of memory once."""
    own = [here(t) for t in tensors]
    return sum({storage_key(t): storage_bytes(t) for t in own if t.layout is torch.strided}.values())


def model_bytes(model: Any) -> int:
    """Of parameters and buffers."""
    return total_bytes([*model.parameters(), *model.buffers()]) if isinstance(model, torch.nn.Module) else 0


def gradient_bytes(model: Any) -> int:
    if not isinstance(model, torch.nn.Module):
        return 0
    return sum(here(p).numel() * p.element_size() for p in model.parameters() if p.requires_grad)
