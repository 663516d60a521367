"""Autograd: nodes of its graph, saved tensors, the backward engine, and memory events of the profiler."""

from __future__ import annotations

import contextlib
import functools
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from memplan.errors import MemplanError
from memplan.torch_internals.names import Private

SAVED = "_raw_saved_"  # prefix of the attributes of an autograd node that return saved tensors without calling unpacking hooks
COMPILED_NODE = "CompiledFunctionBackward"


def small_node() -> Any:
    return torch.ones(1, requires_grad=True).sin().grad_fn


def shows_packed() -> bool:
    node = small_node()  # the variable keeps the node alive, which owns its saved tensor
    return hasattr(getattr(node, SAVED + "self", None), "data")


SHOWS_PACKED = shows_packed()
FORWARD_CLASS = Private(
    "torch.autograd.Function._backward_cls._forward_cls",
    use="identifies the compiled graph of an autograd node",
    instead="memplan uses the first node with the name of a compiled graph's node",
)
ENGINE = Private(
    "torch.autograd._engine_run_backward",
    use="measures the memory of code outside of the planned graph in its first backward",
    lost="plans omit the memory of a loss outside of the model; count it with reserve=",
)
KEEPS_GRAPH = Private(
    "torch._C._autograd._get_current_graph_task_keep_graph",
    use="tells whether a backward retains its graph (retain_graph=True)",
    instead="memplan reads the engine's arguments",
    since="2.5",
)
WILL_RUN = Private(
    "torch._C._will_engine_execute_node",
    use="tells which gradients a backward in two parts computes",
    instead="both parts run the whole backward",
)
RAW_SAVED = Private(
    SAVED + "self",
    use="reads the tensors saved by nodes outside of the planned graph",
    lost="plans omit the tensors that a loss outside of the model saves; count them with reserve=",
    of=small_node,
)
AFTER_BACKWARD = Private(
    "torch.autograd.Variable._execution_engine.queue_callback",
    use="calls memplan at the end of a backward",
    lost="plans omit tensors that hooks of the whole model store; count them with reserve=",
)
PUSH_HOOKS, POP_HOOKS = (
    Private(
        f"torch._C._autograd._{what}_saved_tensors_default_hooks",
        use="tells which nodes have packed their saved tensors, for PyTorch before 2.10",
        lost="plans omit the tensors that a loss outside of the model saves; count them with reserve=",
    )
    for what in ("push", "pop")
)
TOP_HOOKS = Private(
    "torch._C._autograd._top_saved_tensors_default_hooks",
    use="tells whether a call runs inside saved_tensors_hooks",
    lost="memplan does not warn that bits differ from eager's inside saved_tensors_hooks",
    since="2.5",
)
NO_LINES = "explain_oom and saved name the modules of the nearest parameters, but no lines of code"
NUMBER = Private("_sequence_nr", use="orders the autograd nodes by creation", lost=NO_LINES, of=small_node)
NEXT_NUMBER = Private("torch._C._autograd._get_sequence_nr", use="returns the number of the next autograd node", lost=NO_LINES)
PROFILING = Private(
    "torch._C._autograd._profiler_enabled",
    "torch.autograd.profiler._is_profiler_enabled",
    use="tells whether a profiler runs, which memplan's own profiler would end",
    lost="measurements inside torch.profiler end in an error of PyTorch",
)
BEGIN_EVENTS = Private(
    "torch.autograd._enable_profiler_legacy",
    use="records memory events of one thread",
    instead="memplan uses torch.profiler, of which only one can run at a time",
)
END_EVENTS = Private(
    "torch.autograd._disable_profiler_legacy",
    use="records memory events of one thread",
    instead="memplan uses torch.profiler, of which only one can run at a time",
)
EVENTS_CONFIG = Private(
    "torch._C._profiler._ExperimentalConfig",
    use="records memory events of one thread",
    instead="memplan uses torch.profiler, of which only one can run at a time",
)


# ---- nodes


def is_node_of(node: Any, metadata: Any) -> bool:
    """Whether this autograd node belongs to the compiled graph with this metadata."""
    if not FORWARD_CLASS:
        return bool(node.name() == COMPILED_NODE)
    return metadata is not None and getattr(getattr(node, "_forward_cls", None), "metadata", None) is metadata


class OrAbsent(list[Any]):
    """A list of gradient types that also compares equal to a list in which gradients are absent."""

    __hash__ = None

    def __eq__(self, found: object) -> bool:
        return isinstance(found, list) and all(f in (t, type(None)) for f, t in zip(found, self, strict=True))


def leave_out_unused(node: Any, metadata: Any) -> None:
    """Pass absent gradients to a compiled graph's backward for unused outputs. PyTorch would otherwise pass zeros."""
    node.set_materialize_grads(False)
    if (types := vars(metadata).get("output_types")) is not None:
        # PyTorch 2.4 compares the types of gradients with this list in backward
        metadata.output_types = OrAbsent(types)


def saved_by(node: Any) -> Iterator[torch.Tensor]:
    """Yield the saved tensors of a node without calling unpacking hooks.

    If PyTorch does not show packed tensors, nodes that may have such hooks yield nothing.
    """
    if RAW_SAVED and SHOWS_PACKED:
        yield from (t for raw in attributes(node, SAVED) if isinstance(t := getattr(raw, "data", None), torch.Tensor))
    elif RAW_SAVED and may_be_unpacked(node):
        yield from unpacked_of(node)


def everything_saved_by(node: Any) -> Iterator[torch.Tensor]:
    """Yield the saved tensors of a node. If PyTorch does not show packed tensors, this calls unpacking hooks."""
    yield from saved_by(node) if SHOWS_PACKED or not RAW_SAVED else unpacked_of(node)


def unpacked_of(node: Any) -> Iterator[torch.Tensor]:
    yield from (t for t in attributes(node, "_saved_") if isinstance(t, torch.Tensor))


def attributes(node: Any, prefix: str) -> Iterator[Any]:
    for name in dir(node):
        if name.startswith(prefix):
            with contextlib.suppress(RuntimeError):  # autograd has already freed the saved tensors
                value = getattr(node, name)
                yield from value if isinstance(value, (tuple, list)) else [value]


MOST_SPANS = 4096  # maximum number of spans in PACKING; older spans are dropped
# spans of node numbers in which packing hooks were active: first node with the hook, first node after it
PACKING: deque[list[float]] = deque(maxlen=MOST_SPANS)


def may_be_unpacked(node: Any) -> bool:
    """Whether a node's saved tensors have no unpacking hook."""
    if not (PUSH_HOOKS and POP_HOOKS and NUMBER and NEXT_NUMBER):
        return False
    return not any(first <= number_of(node) < end for first, end in PACKING)


def saved_tensors_hook() -> Any:
    """The innermost hook that packs saved tensors, None if there is none."""
    hooks = TOP_HOOKS(True) if TOP_HOOKS else None
    return hooks[0] if hooks else None


def note_who_packs() -> None:
    """From now on, record the spans of node numbers in which hooks for saved tensors are active."""
    push, pop = PUSH_HOOKS.get(), POP_HOOKS.get()
    entered: list[list[float]] = []

    def begin(*hooks: Any) -> None:
        push(*hooks)
        entered.append([next_number(), math.inf])
        PACKING.append(entered[-1])

    def end() -> None:
        pop()
        if entered:
            entered.pop()[1] = next_number()

    PUSH_HOOKS.put(begin)
    POP_HOOKS.put(end)


def number_of(node: Any) -> int:
    """Return the sequence number of a node. Of two nodes of one thread, the later one has the larger number."""
    return int(node._sequence_nr()) if NUMBER else 0


def next_number() -> int:
    """Return the number that the next node would receive. Raises MemplanError."""
    NUMBER.need()
    return int(NEXT_NUMBER())


if not SHOWS_PACKED and PUSH_HOOKS and POP_HOOKS:
    note_who_packs()


@torch.compiler.disable  # type: ignore[untyped-decorator]
def run_uncaptured(hook: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return hook(*args, **kwargs)


def uncaptured(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Exclude a hook from captures.

    Otherwise code that is captured in parts and calls backward would capture the hook as well.
    """
    return functools.partial(run_uncaptured, hook)


# ---- the engine

KEPT: list[bool] = []  # for each running backward, the innermost last: whether the graph is retained


def graph_is_kept() -> bool:
    """Whether the running backward retains its graph."""
    if KEEPS_GRAPH:
        return bool(KEEPS_GRAPH())
    return bool(KEPT and KEPT[-1])


def will_run(node: Any) -> bool:
    """Whether the running backward will reach this node. If PyTorch cannot tell, the answer is yes."""
    if not WILL_RUN:
        return True
    try:
        return bool(WILL_RUN(node))
    except RuntimeError:
        return True


def note_what_is_kept() -> None:
    """Record the engine's `keep_graph` argument from now on, for PyTorch versions that cannot report it."""
    engine = ENGINE.get()

    def run(roots: Any, gradients: Any = None, keep_graph: bool = False, *args: Any, **kwargs: Any) -> Any:
        KEPT.append(bool(keep_graph))
        try:
            return engine(roots, gradients, keep_graph, *args, **kwargs)
        finally:
            KEPT.pop()

    ENGINE.put(run)


if not KEEPS_GRAPH:
    note_what_is_kept()


def after_backward(call: Callable[[], None]) -> None:
    """Call a function at the end of the running backward, if this PyTorch version can."""
    if AFTER_BACKWARD:
        AFTER_BACKWARD(uncaptured(call))


# ---- the profiler


def profiler_is_on() -> bool:
    found = PROFILING.get(False)
    return bool(found() if callable(found) else found)


@dataclass(frozen=True)
class Event:
    """An event of torch.profiler with the interface of PyTorch's single-thread profiler."""

    what: str
    called: str
    n_bytes: int = 0

    def kind(self) -> str:
        return self.what

    def name(self) -> str:
        return self.called

    def cpu_memory_usage(self) -> int:
        return self.n_bytes


@contextlib.contextmanager
def memory_events() -> Iterator[list[Any]]:
    """Record allocations, releases and operators of this thread. The list is filled at the end of the context."""
    events: list[Any] = []
    if not (BEGIN_EVENTS and END_EVENTS and EVENTS_CONFIG):
        with profiled() as found:
            yield events
        events += in_order(found().events())
        return
    autograd: Any = torch.autograd
    BEGIN_EVENTS(autograd.ProfilerConfig(autograd.ProfilerState.CPU, False, True, False, False, False, EVENTS_CONFIG()))
    try:
        yield events
    finally:
        events += [event for thread in END_EVENTS() for event in thread]


@contextlib.contextmanager
def profiled(with_stack: bool = False) -> Iterator[Callable[[], Any]]:
    """Run torch.profiler within the context. The yielded function returns its results afterwards.

    Raises:
        MemplanError: a profiler is running already.
    """
    if profiler_is_on():
        raise MemplanError(
            "a step cannot be measured inside torch.profiler, because the measurement would end it; measure before or after"
        )
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, with_stack=with_stack) as profiler:
        yield lambda: profiler.profiler.kineto_results


def is_allocation(event: Any) -> bool:
    return event.name() == "[memory]" and "CPU" in str(event.device_type())


def in_order(events: list[Any]) -> list[Event]:
    """Return the events in order of time: starts and ends of operators, and allocations."""
    found: list[tuple[int, int, Event]] = []
    for event in events:
        start = int(event.start_ns())
        if is_allocation(event):
            found.append((start, 1, Event("memory_alloc", event.name(), int(event.nbytes()))))
        elif event.name() != "[memory]":
            found.append((start, 0, Event("push", event.name())))
            found.append((start + int(event.duration_ns()), 2, Event("pop", event.name())))
    return [event for _, _, event in sorted(found, key=lambda f: f[:2])]
