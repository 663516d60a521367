"""Measurement of tensors computed outside of a planned graph and kept for backward.

Examples are a loss on its outputs, an embedding before it, and eager code at a graph break. For each graph, memplan reads the
autograd graph in the first backward that reaches it. It also measures the memory allocated before the planned backward begins.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch.autograd.profiler import record_function

from memplan.graph.capture import storage_key
from memplan.torch_internals.autograd import ENGINE, memory_events, profiler_is_on, saved_by, uncaptured
from memplan.torch_internals.sharding import here

MARK = "memplan backward"


class Outside(NamedTuple):
    """Bytes saved outside of a planned graph.

    `before_bytes` remain while the planned backward runs. `after_bytes` are freed before the planned backward begins.
    """

    before_bytes: int
    after_bytes: int


class Watched(NamedTuple):
    """A pending call: its autograd node, the storages that its plan counts, and the function that receives the measurement."""

    node: weakref.ref[Any]
    known: set[int]
    tell: Callable[[Outside], None]


WATCHED: list[Watched] = []
PYTORCHS: Any = ENGINE.get()


def watch(node: Any, known: set[int], tell: Callable[[Outside], None]) -> None:
    """Measure the next backward that reaches this autograd node."""
    node.register_prehook(uncaptured(begins))
    if ENGINE:
        WATCHED.append(Watched(weakref.ref(node), known, tell))
        ENGINE.put(uncaptured(run_watched))


def mark_beside(node: Any) -> None:
    """Mark the backward of another planned call. The ledger counts its memory, so it is not outside memory."""
    if WATCHED:
        node.register_prehook(uncaptured(begins))


def begins(_: Any) -> None:
    """Mark the beginning of a planned backward in the profiler's events."""
    with record_function(MARK):
        pass


def run_watched(roots: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Run one backward by PyTorch's engine, and measure the watched calls that it reaches."""
    ENGINE.put(PYTORCHS)
    watched = [w for w in WATCHED if w.node() is not None]
    WATCHED.clear()
    roots = tuple(roots)
    nodes = [r.grad_fn for r in roots if getattr(r, "grad_fn", None) is not None]
    found = {id(w): kept(nodes, w) for w in watched}
    reached = [w for w in watched if found[id(w)] is not None]
    is_free = not profiler_is_on()
    nothing: contextlib.AbstractContextManager[list[Any]] = contextlib.nullcontext([])
    with memory_events() if is_free else nothing as events:
        result = PYTORCHS(roots, *args, **kwargs)
    taken = taken_until_mark(events)
    for w in reached:
        before, after = found[id(w)] or (0, 0)
        w.tell(Outside(before, after + taken))
    return result


def kept(roots: Iterable[Any], watched: Watched) -> tuple[int, int] | None:
    """Return the bytes that operators have saved before and after this call, or None if backward does not reach the call.

    Bytes saved before the call live until the call's backward has run.
    """
    own: Any = watched.node()
    above = reachable(roots, {own})
    if own not in above:
        return None
    below = reachable([n for n, _ in own.next_functions], set())
    leaves = {storage_key(here(n.variable)) for n in above | below if hasattr(n, "variable")}
    counted = watched.known | leaves
    before = saved_storages(below - {own}, counted)
    after = saved_storages(above - below - {own}, counted | before.keys())
    return sum(before.values()), sum(after.values())


def reachable(roots: Iterable[Any], ends: set[Any]) -> set[Any]:
    found: set[Any] = set()
    todo = [n for n in roots if n is not None]
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += [n for n, _ in node.next_functions if n is not None] if node not in ends else []
    return found


def saved_storages(nodes: Iterable[Any], counted: set[int]) -> dict[int, int]:
    """Return the storages saved by these nodes, with their bytes.

    Planned graphs are excluded, because the ledger counts them.
    """
    found: dict[int, int] = {}
    for node in nodes:
        if hasattr(node, "memplan_call"):
            continue
        for tensor in map(here, saved_by(node)):
            if tensor.layout is torch.strided and storage_key(tensor) not in counted:
                found[storage_key(tensor)] = tensor.untyped_storage().nbytes()
    return found


def taken_until_mark(events: list[Any]) -> int:
    """Return the peak of allocated bytes before a planned backward begins, in the thread of that backward only."""
    now = top = 0
    thread = next((e.thread_id() for e in events if e.kind() == "push" and e.name() == MARK), None)
    for event in [e for e in events if e.thread_id() == thread]:
        if event.kind() == "push" and event.name() == MARK:
            break
        if event.kind() == "memory_alloc":
            now += event.cpu_memory_usage()
            top = max(top, now)
    return top
