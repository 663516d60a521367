"""What is computed outside of a planned graph and kept for backward: a loss over its outputs, an embedding before it, what runs
eagerly where PyTorch cuts a graph. Once per graph, in the first backward that reaches it, the graph of autograd is read, and
what is taken until the planned backward begins is measured.
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
    """`before_bytes` are there while the planned backward runs, `after_bytes` only until it begins."""

    before_bytes: int
    after_bytes: int


class Watched(NamedTuple):
    """A call that waits: its node of autograd, the storages that its plan counts, and who is told."""

    node: weakref.ref[Any]
    known: set[int]
    tell: Callable[[Outside], None]


WATCHED: list[Watched] = []
PYTORCHS: Any = ENGINE.get()


def watch(node: Any, known: set[int], tell: Callable[[Outside], None]) -> None:
    """Has the next backward in which this node of autograd is read."""
    node.register_prehook(uncaptured(begins))
    if ENGINE:
        WATCHED.append(Watched(weakref.ref(node), known, tell))
        ENGINE.put(uncaptured(run_watched))


def mark_beside(node: Any) -> None:
    """What a planned backward of another call takes is in the ledger, and not outside."""
    if WATCHED:
        node.register_prehook(uncaptured(begins))


def begins(_: Any) -> None:
    """Where the planned backward begins, for who reads the events of memory."""
    with record_function(MARK):
        pass


def run_watched(roots: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """In the place of PyTorch's engine, for one backward."""
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
    """The bytes that operators have saved before this call and after it, None where backward does not come to it. What is saved
    before is there until this call's backward has run."""
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
    """The storages that these nodes have saved, with their bytes; of planned graphs the ledger knows."""
    found: dict[int, int] = {}
    for node in nodes:
        if hasattr(node, "memplan_call"):
            continue
        for tensor in map(here, saved_by(node)):
            if tensor.layout is torch.strided and storage_key(tensor) not in counted:
                found[storage_key(tensor)] = tensor.untyped_storage().nbytes()
    return found


def taken_until_mark(events: list[Any]) -> int:
    """The most that was given out at once before a planned backward began, in the thread where it did: others communicate."""
    now = top = 0
    thread = next((e.thread_id() for e in events if e.kind() == "push" and e.name() == MARK), None)
    for event in [e for e in events if e.thread_id() == thread]:
        if event.kind() == "push" and event.name() == MARK:
            break
        if event.kind() == "memory_alloc":
            now += event.cpu_memory_usage()
            top = max(top, now)
    return top
