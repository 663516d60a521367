"""torch_on_cards.py - the peak of a step that PyTorch would run on a card, found on a machine without one.

Tensors without memory pretend to be on the card, so that PyTorch's own forward, autocast lists and formulas of backward run as
there; only its engine, which asks the driver, does not. `backward` takes its place: nodes in the engine's order, gradients summed
up and cast as it does. On the CPU both find the same peak to a scalar (`tests/tracker.py --engine`).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed._tools.mod_tracker import ModTracker
from torch.nn import functional as F

Network = tuple[nn.Module, tuple[Tensor, ...], Tensor]


def waiting(root: Any) -> dict[Any, int]:
    """How many gradients each node of backward waits for."""
    counts: dict[Any, int] = {}
    seen, todo = {root}, [root]
    while todo:
        for node, _ in todo.pop().next_functions:
            if node is None:
                continue
            counts[node] = counts.get(node, 0) + 1
            if node not in seen:
                seen.add(node)
                todo.append(node)
    return counts


def fitted(gradient: Tensor, meta: Any) -> Tensor:
    """In the shape and type of the tensor whose gradient it is."""
    if tuple(gradient.shape) != tuple(meta.shape):
        gradient = gradient.sum_to_size(tuple(meta.shape))
    return gradient.to(meta.dtype)


def run_node(node: Any, given: dict[int, Tensor]) -> list[Tensor | None]:
    if node.name().endswith("AccumulateGrad"):
        p = node.variable
        p.grad = given[0].detach() if p.grad is None else p.grad + given[0]
        return []
    out = node(*[given.get(k) for k in range(len(node._input_metadata))])
    return list(out) if isinstance(out, tuple) else [out]


def backward(root: list[Tensor]) -> None:
    """Of the scalar in the list, which is emptied: nothing else may hold it, so a node's saved tensors are freed with the node."""
    loss, order, queue = root.pop(), itertools.count(), []  # type: ignore[var-annotated]
    node, gradients = loss.grad_fn, {loss.grad_fn: {0: torch.ones_like(loss)}}
    del loss
    counts = waiting(node)

    def push(ready: Any) -> None:  # leaves first, then the latest of forward
        first = -(1 << 62) if ready.name().endswith("AccumulateGrad") else -ready._sequence_nr()
        heapq.heappush(queue, (first, next(order), ready))

    push(node)
    while queue:
        node = heapq.heappop(queue)[2]
        edges, results = node.next_functions, run_node(node, gradients.pop(node, {}))
        for k, (child, at) in enumerate(edges):
            if child is None:
                continue
            result, results[k] = results[k], None
            if result is not None:
                result = fitted(result, child._input_metadata[at])
                sums = gradients.setdefault(child, {})
                sums[at] = result if at not in sums else sums[at] + result
                del sums
            del result
            counts[child] -= 1
            if not counts[child]:
                del counts[child]
                push(child)
        child = None
        del node, edges, results


@contextmanager
def autocast(device: str, dtype: torch.dtype | None) -> Iterator[None]:
    """torch.autocast, which refuses a card that is not there."""
    if dtype is None:
        yield
        return
    torch.set_autocast_enabled(device, True)
    torch.set_autocast_dtype(device, dtype)
    yield
    torch.clear_autocast_cache()
    torch.set_autocast_enabled(device, False)


def card_peak(make: Callable[[], Network], dtype: torch.dtype | None, device: str = "cuda") -> int:
    """As torch_step.tracked_peak, with forward and loss under autocast."""
    with (
        FakeTensorMode(allow_non_fake_inputs=True),
        torch.device(device),
        mock.patch.object(ModTracker, "__enter__", lambda self: self),  # its hooks hold on to nodes
        mock.patch.object(ModTracker, "__exit__", lambda self, *_: None),
    ):
        net, inputs, labels = make()
        optimizer = torch.optim.AdamW(net.parameters(), fused=True)
        tracker = MemTracker()
        tracker.track_external(net, optimizer, *inputs, labels)
        with tracker:
            for _ in range(2):
                tracker.reset_mod_stats()
                optimizer.zero_grad()
                with autocast(device, dtype):
                    root = [F.cross_entropy(net(*inputs), labels)]
                with torch.no_grad():
                    backward(root)
                optimizer.step()
        peak = tracker.get_tracker_snapshot("peak")
    return max(int(of["Total"]) for of in peak.values())
