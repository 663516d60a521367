"""The oracle: eager PyTorch, bit by bit, and the events of PyTorch's own memory tracker."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from memplan import compiled_modules
from memplan.graph.capture import Capture

Context = Callable[[], contextlib.AbstractContextManager[Any]]
MOST_AGAIN = 12  # maximum number of operators that are recomputed before a backward operator


def eager_copy(model: nn.Module) -> nn.Module:
    """A copy in which PyTorch finds nothing that is compiled."""
    eager = compiled_modules.eager_copy(model)
    assert all(m._compiled_call_impl is None and "forward" not in vars(m) for m in eager.modules())
    return eager


def train(
    model: Any, inputs: tuple[Any, ...], steps: int, context: Context = contextlib.nullcontext, accumulate: int = 1
) -> list[torch.Tensor]:
    """Losses of some steps of SGD with momentum, each with the same seed whoever runs it."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(steps):
        for part in range(accumulate):
            torch.manual_seed(100 * step + part)
            with context():
                loss = model(*inputs)
            loss.backward()
            losses.append(loss.detach().clone())
            losses.append(torch.rand(1))  # the generator has gone on as far
        if step + 1 < steps:
            optimizer.step()
            optimizer.zero_grad()
    return losses


def assert_like_eager(
    model: nn.Module,
    compiled: Any,
    inputs: tuple[Any, ...],
    context: Context = contextlib.nullcontext,
    steps: int = 3,
    accumulate: int = 1,
    eager: Any = None,
) -> None:
    """Losses, gradients, parameters and buffers are eager's bits after some steps. `compiled` is made from `model`, of which an
    eager copy is taken before anything runs."""
    eager = eager_copy(model) if eager is None else eager
    expected = train(eager, inputs, steps, context, accumulate)
    got = train(compiled, inputs, steps, context, accumulate)
    for k, (a, b) in enumerate(zip(expected, got)):
        assert torch.equal(a, b), f"{'draw' if k % 2 else 'loss'} {k // 2}: {a.item()} and {b.item()}"
    for (name, p), theirs in zip(model.named_parameters(), eager.parameters()):
        assert (p.grad is None) == (theirs.grad is None), name
        assert p.grad is None or torch.equal(p.grad, theirs.grad), f"gradient of {name}"
        assert torch.equal(p, theirs), f"parameter {name}"
    for (name, b), theirs in zip(model.named_buffers(), eager.buffers()):
        assert torch.equal(b, theirs), f"buffer {name}"


def peak_of_step(model: Any, inputs: tuple[Any, ...]) -> int:
    """Return the peak of a step: the largest sum of bytes allocated by PyTorch since the step began."""
    for p in model.parameters():
        p.grad = None
    return peak_of_call(lambda: model(*inputs).backward())


def peak_of_call(call: Callable[[], Any], there: dict[int, int] | None = None) -> int:
    threads_of_gloo_are_done()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as tracked:
        call()
        threads_of_gloo_are_done()
    return peak_of_events(tracked, there)


def threads_of_gloo_are_done() -> None:
    """Wait until gloo's threads have recorded the memory that they free, which can be after the wait for a collective.

    If a profile begins or ends during such a record, PyTorch 2.15 damages its heap, also with eager models. This happens once
    in some thousand profiles on busy cores.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        time.sleep(0.02)


def run_everything_again(capture: Capture) -> list[int]:
    """Return the steps of an extreme plan: before each backward operator, recompute its operands and their operands."""
    writers = {s: k for k, o in enumerate(capture.operations) for s in o.writes}
    steps = list(range(capture.boundary + 1))
    for k in range(capture.boundary + 1, len(capture.operations)):
        again, todo = set(), list(capture.operations[k].reads)
        while todo:
            w = writers.get(todo.pop(), capture.end)
            operation = capture.operations[w]
            if operation.phase == "forward" and not operation.once and w not in again and len(again) < MOST_AGAIN:
                again.add(w)
                todo += operation.reads
        steps += [*sorted(again), k]
    return steps


def peak_of_events(tracked: profile, there: dict[int, int] | None = None) -> int:
    """Return the peak of the bytes allocated during a profile.

    Older memory does not count. Its release can be among the events, if an earlier profile knew the same address.

    Args:
        tracked: the profile.
        there: sizes, by address, of older blocks that count until they are released.
    """
    sizes = dict(there or {})  # by address
    now = top = sum(sizes.values())
    for event in sorted(
        memory_events(tracked.profiler.kineto_results.experimental_event_tree()), key=lambda e: e.start_time_ns
    ):
        change = event.extra_fields
        if change.alloc_size > 0:
            sizes[change.ptr] = change.alloc_size
            now += change.alloc_size
            top = max(top, now)
        else:
            now -= sizes.pop(change.ptr, 0)
    return top


def memory_events(tree: Iterable[Any]) -> Iterator[Any]:
    for event in tree:
        if event.name == "[memory]":
            yield event
        yield from memory_events(event.children)


def step_seconds(model: Any, inputs: tuple[Any, ...]) -> float:
    """Of this thread's processor, for a step that begins without gradients."""
    for p in model.parameters():
        p.grad = None
    start = time.thread_time()
    model(*inputs).backward()
    return time.thread_time() - start


def static_bytes(model: Any, inputs: tuple[Any, ...]) -> int:
    tensors = [*model.parameters(), *model.buffers(), *inputs]
    return sum({t.data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())
