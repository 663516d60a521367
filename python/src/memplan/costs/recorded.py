"""The allocations of a step on a device, recorded by PyTorch's profiler, with their callers, innermost first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from memplan.torch_internals.autograd import profiled

# pattern of a Python function in the profiler's names: file, line, function
CALL = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<function>.+)")
ALLOCATION = "Allocation"  # the tag by which the profiler marks memory events


@dataclass(frozen=True)
class Piece:
    """An allocation in a recorded step.

    `begin` and `end` are indices of memory events; `end` None: not freed within the step.
    """

    n_bytes: int
    begin: int
    end: int | None
    callers: tuple[str, ...]


def walked(events: Iterable[Any]) -> Iterator[Any]:
    for event in events:
        yield event
        yield from walked(event.children)


def callers_of(event: Any) -> tuple[str, ...]:
    found = []
    while (event := event.parent) is not None:
        found.append(str(event.name))
    return tuple(found)


def recorded(step: Callable[[], Any], device_type: str) -> list[Piece]:
    """Run a step and return its allocations. Releases of older memory are ignored."""
    with profiled(with_stack=True) as results:
        step()
    events = [
        e
        for e in walked(results().experimental_event_tree())
        if e.tag.name == ALLOCATION and e.extra_fields.device.type == device_type
    ]
    alive: dict[int, tuple[int, Any]] = {}
    found: list[Piece] = []

    def piece(begin: int, event: Any, end: int | None) -> Piece:
        return Piece(int(event.extra_fields.alloc_size), begin, end, callers_of(event))

    for k, event in enumerate(sorted(events, key=lambda e: int(e.start_time_ns))):
        address = int(event.extra_fields.ptr)
        if event.extra_fields.alloc_size > 0:
            alive[address] = k, event
        elif address in alive:
            found.append(piece(*alive.pop(address), k))
    found += [piece(k, event, None) for k, event in alive.values()]
    return sorted(found, key=lambda p: p.begin)
