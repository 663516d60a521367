"""Measurement of tensors computed outside of a planned graph and kept for backward.

Examples are a loss on its outputs, an embedding before it, and eager code at a graph break. For each graph, memplan reads the
autograd graph in the first backward that reaches it. It also measures the memory that this backward allocates before and after
the planned backward.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd.profiler import record_function

from memplan.graph.capture import device_of_first, storage_bytes, storage_key, tensors_of
from memplan.torch_internals.autograd import ENGINE, memory_events, profiler_is_on, saved_by, uncaptured
from memplan.torch_internals.sharding import here

MARK, END = "memplan backward", "memplan backward has run"


class Outside(NamedTuple):
    """Bytes outside of a planned graph.

    Attributes:
        before_bytes: allocated until the planned backward has run.
        after_bytes: allocated until the planned backward begins.
        gradient_bytes: gradients from operators outside, allocated while the planned backward runs.
        end_bytes: the peak of backward's own allocations, after the planned backward.
    """

    before_bytes: int
    after_bytes: int
    gradient_bytes: int
    end_bytes: int


class Watched(NamedTuple):
    """A pending call.

    Attributes:
        node: the autograd node of the call.
        known: the storages that its plan counts.
        inputs: the bytes of each input that an operator outside has computed, by the input's edge of the node.
        given_bytes: the arguments of the module that the graph does not receive.
        tell: receives the measurement.
    """

    node: weakref.ref[Any]
    known: set[int]
    inputs: dict[int, int]
    given_bytes: int
    tell: Callable[[Outside], None]


WATCHED: list[Watched] = []
GIVEN = threading.local()  # attribute `arguments`: the arguments of the compiled module whose call runs
PYTORCHS: Any = ENGINE.get()


@contextlib.contextmanager
def given(arguments: Any) -> Iterator[None]:
    """Note the arguments of a compiled module during its call.

    The caller holds them, although a hook may replace them and the module may not read them.
    """
    before = getattr(GIVEN, "arguments", ())
    GIVEN.arguments = arguments
    try:
        yield
    finally:
        GIVEN.arguments = before


def not_in(known: set[int], device: torch.device) -> dict[int, int]:
    """Return the storages of the noted arguments that are on this device and not in `known`, with their bytes."""
    tensors = [here(t) for t in tensors_of(getattr(GIVEN, "arguments", ()))]
    plain = [t for t in tensors if t.layout is torch.strided and t.device == device]
    return {key: storage_bytes(t) for t in plain if (key := storage_key(t)) not in known}


def watch(node: Any, inputs: Sequence[Any], outputs: Any, tell: Callable[[Outside], None]) -> None:
    """Measure the next backward that reaches this autograd node of a call with these inputs and outputs."""
    node.register_prehook(uncaptured(begins))
    node.register_hook(uncaptured(ends))
    if ENGINE:
        known = {storage_key(here(t)) for t in tensors_of([inputs, outputs])}
        edges = {edge: k for k, edge in enumerate(node.next_functions)}
        made = [i for i in inputs if isinstance(i, torch.Tensor) and i.grad_fn is not None]
        sizes = {edges[e]: here(i).numel() * i.element_size() for i in made if (e := (i.grad_fn, i.output_nr)) in edges}
        beside = not_in(known, device_of_first(inputs))
        WATCHED.append(Watched(weakref.ref(node), known | beside.keys(), sizes, sum(beside.values()), tell))
        ENGINE.put(uncaptured(run_watched))


def mark_beside(node: Any) -> None:
    """Mark the backward of another planned call. The ledger counts its memory, so it is not outside memory."""
    if WATCHED:
        node.register_prehook(uncaptured(begins))


def begins(_: Any) -> None:
    """Mark the beginning of a planned backward in the profiler's events."""
    with record_function(MARK):
        pass


def ends(*_: Any) -> None:
    """Mark the end of a planned backward in the profiler's events."""
    with record_function(END):
        pass


def run_watched(roots: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Run one backward by PyTorch's engine, and measure the watched calls that it reaches."""
    ENGINE.put(PYTORCHS)
    watched = [w for w in WATCHED if w.node() is not None]
    WATCHED.clear()
    roots = tuple(roots)
    made = [r for r in roots if getattr(r, "grad_fn", None) is not None]
    found = {id(w): kept(made, w) for w in watched}
    reached = [w for w in watched if found[id(w)] is not None]
    is_free = not profiler_is_on()
    nothing: contextlib.AbstractContextManager[list[Any]] = contextlib.nullcontext([])
    with memory_events() if is_free else nothing as events:
        result = PYTORCHS(roots, *args, **kwargs)
    taken, end = taken_until_mark(events), taken_since_end(events)
    for w in reached:
        before, after, gradients = found[id(w)] or (0, 0, 0)
        w.tell(Outside(before + w.given_bytes, after + taken, gradients, end + w.given_bytes))
    return result


def kept(roots: Sequence[Any], watched: Watched) -> tuple[int, int, int] | None:
    """Return the bytes outside of a call that its backward finds, or None if backward does not reach the call.

    Returns:
        Bytes saved before the call, which live until the call's backward has run; bytes saved after the call; gradients that
        operators after the call compute. The tensors in which backward begins count as saved before the call, because the
        caller holds them. A reduced loss may have a storage as large as its argument.
    """
    own: Any = watched.node()
    above = reachable([r.grad_fn for r in roots], {own})
    if own not in above:
        return None
    below = reachable([n for n, _ in own.next_functions], set())
    leaves = {storage_key(here(n.variable)) for n in above | below if hasattr(n, "variable")}
    counted = watched.known | leaves
    held = {storage_key(t): storage_bytes(t) for t in map(here, roots) if t.layout is torch.strided}
    before = {key: n for key, n in held.items() if key not in counted} | saved_storages(below - {own}, counted)
    after = saved_storages(above - below - {own}, counted | before.keys())
    gradients = sum(n for k, n in watched.inputs.items() if own.next_functions[k][0] in above)
    new = [here(n.variable) for n in above - below if hasattr(n, "variable") and n.variable.grad is None]
    return sum(before.values()), sum(after.values()), gradients + sum(v.numel() * v.element_size() for v in new)


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
    """Return the peak of allocated bytes before a planned backward begins."""
    return max((n for mark, n in allocated_bytes(events) if mark is None), default=0)


def taken_since_end(events: list[Any]) -> int:
    """Return the peak of allocated bytes after a planned backward, with the gradients that backward has allocated before."""
    return max((n for mark, n in allocated_bytes(events) if mark == END), default=0)


def allocated_bytes(events: list[Any]) -> Iterator[tuple[str | None, int]]:
    """Yield the bytes allocated so far and the last profiler mark, at each allocation in the thread of a planned backward."""
    now, mark = 0, None
    thread = next((e.thread_id() for e in events if e.kind() == "push" and e.name() == MARK), None)
    for event in [e for e in events if e.thread_id() == thread]:
        if event.kind() == "push" and event.name() in (MARK, END):
            mark = event.name()
        if event.kind() == "memory_alloc":
            now += event.cpu_memory_usage()
            yield mark, now
