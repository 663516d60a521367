"""Reading budgets (bytes, "8GiB", "60%", "min", "min+50%", "auto") and counting the bytes of a model."""

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
MOST_BYTES = 2**63 - 1  # the largest number of bytes that the planner can represent
AUTO_SHARE = 0.9  # share of the free memory that "auto" uses; the rest is for memory that plans do not count


def read_bytes(text: str) -> int | None:
    """Return the bytes of "8GiB", "2.5 MB" or "1000", at most MOST_BYTES. Return None for other text."""
    m = re.fullmatch(r"\s*(\d{1,19}(?:\.\d{1,19})?)\s*([kKMGT]?i?B?)\s*", text)
    return min(round(float(m[1]) * UNITS[m[2]]), MOST_BYTES) if m and m[2] in UNITS else None


def only_bytes(given: Budget) -> int:
    """Return an option that must be a number of bytes, for example "8GiB" and not "60%". Raises MemplanError."""
    known = read_bytes(given) if isinstance(given, str) else given
    if not isinstance(known, int) or isinstance(known, bool) or not 0 <= known <= MOST_BYTES:
        raise MemplanError(f"{given!r} is not a number of bytes")
    return known


def read_link(given: str | float) -> tuple[str, float]:
    """Read the bandwidth of a link: "pcie4", "24GB/s" or bytes per second.

    Returns:
        (name, 0.0) for a named link, or ("", bytes per second in each direction).

    Raises:
        MemplanError: the bandwidth is not positive.
    """
    if isinstance(given, str):
        rate = read_bytes(given.removesuffix("/s")) if given.endswith("/s") else None
        return (given, 0.0) if rate is None else ("", float(rate))
    if isinstance(given, (int, float)) and not isinstance(given, bool) and 0 < given < MOST_BYTES:
        return "", float(given)
    raise MemplanError(f"{given!r} is not a link; use a name of `memplan devices`, '24GB/s' or bytes per second")


def is_smallest(budget: Budget) -> bool:
    """Whether the budget is "min" or "floor", the peak of the smallest plan."""
    return isinstance(budget, str) and re.fullmatch(r"\s*(min|floor)\s*", budget) is not None


def resolve(budget: Budget, keep_all_bytes: int, min_bytes: Callable[[], int], auto_bytes: Callable[[], int]) -> int:
    """Return the budget in bytes.

    "floor" means the same as "min": the peak of the smallest plan found. The certified floor is not used, because no plan may
    reach it.

    Args:
        keep_all_bytes: the peak without recomputation.
        min_bytes: returns the peak of the smallest plan found.
        auto_bytes: returns the budget for "auto".
    """
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
    raise BudgetError(f"{budget!r} is not a budget; use bytes, '8GiB', '60%', 'min', 'min+50%' or 'auto'")


def free_host_bytes() -> int:
    """Return the bytes that the system can allocate without swapping."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def in_units(n: int) -> str:
    """Return bytes as text: 1536 becomes "1.50 KiB"."""
    if n < 1024:
        return f"{n} B"
    k = min(4, (n.bit_length() - 1) // 10)
    return f"{n / 1024**k:.2f} {'KMGT'[k - 1]}iB"


def total_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of the tensors on this rank. Tensors that share a storage count once."""
    own = [here(t) for t in tensors]
    return sum({storage_key(t): storage_bytes(t) for t in own if t.layout is torch.strided}.values())


def model_bytes(model: Any) -> int:
    """Return the bytes of a module's parameters and buffers; 0 for a function."""
    return total_bytes([*model.parameters(), *model.buffers()]) if isinstance(model, torch.nn.Module) else 0


def gradient_bytes(model: Any) -> int:
    if not isinstance(model, torch.nn.Module):
        return 0
    return sum(here(p).numel() * p.element_size() for p in model.parameters() if p.requires_grad)
