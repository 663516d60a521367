"""Budgets and links as users write them, parsed by the library, and reserves of cards."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ctypes import Structure, byref, c_int64
from typing import Any

from memplan.errors import LibraryError
from memplan.library.calls import STATUS_OK, TrialCall, library
from memplan.library.planning import text


def parse_budget(given: str, keep_all_bytes: int = 0, smallest_bytes: int = 0) -> tuple[str, int]:
    """Return the kind of a budget ("bytes", "peak", "min", "auto" or "device") and its bytes.

    The bytes are -1 for "auto" and "device". The kind is "" if the text is not a budget.
    """
    n_bytes = c_int64(-1)
    if "\0" in given:
        return "", -1
    kind = library().mp_planning_budget(text(given), keep_all_bytes, smallest_bytes, byref(n_bytes))
    return (kind.decode() if kind else ""), n_bytes.value


def link_rate(link: str) -> float:
    """Return the bytes per second of a link such as "24GB/s", 0 for a link with rates of its own, -1 if it is not a link."""
    return float(library().mp_planning_link_rate(text(link)))


def reserve_bytes(device: str) -> int:
    """Return the bytes that a device or card needs for its driver and libraries; -1 for an unknown card."""
    return int(library().mp_planning_reserve(text(device)))


class ProcessMemory(Structure):
    """The struct mp_process_memory of the library (memplan/workloads/process_memory.h)."""

    _fields_ = [
        (name, c_int64)
        for name in (
            "context_bytes",
            "workspace_bytes",
            "card_bytes",
            "process_bytes",
            "likely_bytes",
            "n_jobs",
            "median_error",
            "margin",
            "n_processors",
            "capability",
        )
    ]
    context_bytes: int
    workspace_bytes: int
    card_bytes: int
    process_bytes: int
    likely_bytes: int
    n_jobs: int
    median_error: int  # per mille
    margin: int  # per mille
    n_processors: int  # streaming multiprocessors
    capability: int  # compute capability times 10


def process_memory(card: str, family: str, reserved_bytes: int) -> ProcessMemory | None:
    """Return the memory of a PyTorch process whose allocator reserves these bytes; None for an unknown card."""
    memory = ProcessMemory()
    known = library().mp_process_memory_of(text(card), text(family), reserved_bytes, byref(memory))
    return memory if known else None


def process_room(card: str, family: str, card_bytes: int = 0) -> int:
    """Return the bytes that the allocator may reserve so that 19 of 20 jobs of the family run; -1 for an unknown card.

    `card_bytes`: memory of the card that programs see; 0: the card's row.
    """
    return int(library().mp_process_room(text(card), text(family), card_bytes, 0))


def try_budgets(budget: int, excess_of: Callable[[int], int]) -> None:
    """Try smaller and smaller budgets until a whole process fits its card, as `memplan plan` does.

    Args:
        budget: the first budget, in bytes.
        excess_of: a function that plans a step within a budget. It returns the bytes by which the process exceeds the card; 0:
            the process fits, or there is no plan. The caller uses the plan of the last call.
    """
    raised: list[BaseException] = []

    def call(_data: Any, n_bytes: int, excess: Any, goes_on: Any, _err: Any) -> int:
        try:
            excess[0] = excess_of(n_bytes)
        except BaseException as error:
            raised.append(error)
            goes_on[0] = False
        return STATUS_OK

    library().mp_card_budget(budget, True, TrialCall(call), None, None)
    if raised:
        raise raised[0]


class AllocatorSettings(Structure):
    """The struct mp_allocator_settings of the library (memplan/workloads/caching_allocator.h)."""

    _fields_ = [
        (name, c_int64) for name in ("limit", "max_split", "max_rounding", "large_segment", "divisions", "base", "expandable")
    ]


class AllocatorUse(Structure):
    """The struct mp_allocator_use of the library. `refused`: index of the first request above the limit; -1: none."""

    _fields_ = [
        (name, c_int64) for name in ("peak_allocated_bytes", "peak_reserved_bytes", "refused", "refused_bytes", "held_bytes")
    ]
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    refused: int
    refused_bytes: int
    held_bytes: int


def replay(settings: AllocatorSettings, requests: Iterable[tuple[int, int]]) -> AllocatorUse:
    """Serve requests with the simulated caching allocator: (number, bytes) allocates, (number, 0) frees the number's block."""
    known: dict[int, int] = {}
    flat = [value for number, n_bytes in requests for value in (known.setdefault(number, len(known)), n_bytes)]
    use = AllocatorUse()
    array = (c_int64 * max(1, len(flat)))(*flat)
    if library().mp_allocator_replay(byref(settings), array, len(flat) // 2, None, byref(use), None) != STATUS_OK:
        raise LibraryError("the allocator could not be simulated")
    return use
