"""Reading budgets (bytes, "8GiB", "60%", "min", "min+50%", "auto", "device") and counting the bytes of a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import torch

from memplan.errors import BudgetError, MemplanError
from memplan.graph.capture import storage_bytes, storage_key
from memplan.library.planning import room_bytes
from memplan.library.quantities import link_rate, parse_budget, reserve_bytes
from memplan.torch_internals.sharding import here

Budget = int | str

MOST_BYTES = 2**63 - 1  # the largest number of bytes that the planner can represent
OTHER_RESERVE = 0.1  # share of the free memory that is reserved on a device without a profile, and in host memory


def read_bytes(text: str) -> int | None:
    """Return the bytes of "8GiB", "2.5 MB", "16e9" or "1000". Return None for other text."""
    kind, n_bytes = parse_budget(text)
    return n_bytes if kind == "bytes" else None


def only_bytes(given: Budget) -> int:
    """Return the bytes of an option such as "8GiB". Raises MemplanError for shares such as "60%" and for other text."""
    known = read_bytes(given) if isinstance(given, str) else given
    if not isinstance(known, int) or isinstance(known, bool) or not 0 <= known <= MOST_BYTES:
        raise MemplanError(f"{given!r} is not a number of bytes")
    return known


def read_link(given: str | float) -> tuple[str, float]:
    """Read a link: "pcie4", "24GB/s", "5.1GB/s,4.9GB/s,12us,turns" or bytes per second.

    Returns:
        (text, 0.0) for a link with rates of its own, or ("", bytes per second in each direction).

    Raises:
        MemplanError: the bandwidth is not positive.
    """
    if isinstance(given, str):
        rate = link_rate(given)
        return ("", rate) if rate > 0 else (given, 0.0)  # an unknown name is refused later, by the search
    if isinstance(given, (int, float)) and not isinstance(given, bool) and 0 < given < MOST_BYTES:
        return "", float(given)
    raise MemplanError(f"{given!r} is not a link; use a name of `memplan devices`, '24GB/s' or bytes per second")


def kind_of_budget(budget: Budget) -> str:
    """Return "bytes", "peak", "min", "auto" or "device"; "" if the text is not a budget."""
    return parse_budget(budget)[0] if isinstance(budget, str) else "bytes"


def is_smallest(budget: Budget) -> bool:
    """Whether the budget is "min" or its synonym "floor". Both mean the peak of the smallest plan that is found."""
    return isinstance(budget, str) and parse_budget(budget, 10**15) == ("min", 0)


def resolve(budget: Budget, keep_all_bytes: int, min_bytes: Callable[[], int], room_bytes: Callable[[bool], int]) -> int:
    """Return the budget in bytes. Texts have the grammar of the command line (`memplan/budget.h`).

    "floor" means the same as "min": the peak of the smallest plan found. The certified floor is not used, because no plan may
    reach it.

    Args:
        keep_all_bytes: the peak without recomputation.
        min_bytes: returns the peak of the smallest plan found.
        room_bytes: returns the budget for "device" if its argument is true, else for "auto".
    """
    if isinstance(budget, int) and not isinstance(budget, bool) and budget >= 0:
        return min(budget, MOST_BYTES)
    if isinstance(budget, str):
        kind, n_bytes = parse_budget(budget, keep_all_bytes)
        if kind in ("auto", "device"):
            return room_bytes(kind == "device")
        if kind == "min":
            return parse_budget(budget, keep_all_bytes, min_bytes())[1]
        if kind:
            return n_bytes
    raise BudgetError(f"{budget!r} is not a budget; use bytes, '8GiB', '60%', 'min', 'min+50%', 'auto' or 'device'")


def device_bytes(device: torch.device, whole: bool) -> int:
    """Return the memory of a device without its reserve: all memory if `whole`, else the free memory.

    The reserve is that of the card's profile. For cards without a profile, and for free host memory, it is OTHER_RESERVE.
    """
    if device.type == "cuda":
        free, everything = torch.cuda.mem_get_info(device)
        free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        reserve = reserve_bytes(torch.cuda.get_device_name(device))
        memory = everything if whole else free
        return max(0, memory - (reserve if reserve >= 0 else int(OTHER_RESERVE * memory)))
    return room_bytes("cpu") if whole else int((1 - OTHER_RESERVE) * free_host_bytes())


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
