"""A backward engine in Python, for an absent GPU.

PyTorch's engine runs nodes of GPU tensors in a thread of that GPU, which does not exist without the GPU. Order, sums and checks
are equal to PyTorch's.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge
from torch.fx import traceback

from memplan.errors import MemplanError
from memplan.torch_internals.names import Private

NO_BACKWARD = "memplan refuses models on the meta device for a named GPU"
INPUT_METADATA = Private(
    "_input_metadata",
    use="computes backward for an absent GPU",
    lost=NO_BACKWARD,
    of=lambda: torch.ones(1, requires_grad=True).sin().grad_fn,
)
STACK = "traceback_"  # key in a node's metadata: traceback of forward
IN_BACKWARD = "autograd_backward"  # key in the meta of traced nodes that marks nodes of backward
Edge = tuple[Any, int]


def engine_number(node: Any) -> int:
    number: int = node._sequence_nr()
    return number


def reachable(roots: Sequence[Any]) -> list[Any]:
    """Return all nodes reachable from the roots, without duplicates."""
    found, todo = dict.fromkeys(roots), list(roots)
    while todo:
        for node, _ in todo.pop().next_functions:
            if node is not None and node not in found:
                found[node] = None
                todo.append(node)
    return list(found)


def leading_to(nodes: Sequence[Any], targets: set[Any]) -> set[Any]:
    """Return the nodes from which a target is reachable, including the targets."""
    before = defaultdict(list)
    for node in nodes:
        for then, _ in node.next_functions:
            before[then].append(node)
    found, todo = set(targets), list(targets)
    while todo:
        for node in before[todo.pop()]:
            if node not in found:
                found.add(node)
                todo.append(node)
    return found


@contextlib.contextmanager
def as_traced(node: Any) -> Iterator[None]:
    """Give traced operators the sequence number and traceback of forward's operator, as PyTorch's node hooks do."""
    lines = node.metadata.get(STACK, [])
    traceback.set_stack_trace(lines)
    traceback.set_grad_fn_seq_nr(engine_number(node))
    traceback.current_meta[IN_BACKWARD] = True
    try:
        yield
    finally:
        traceback.set_stack_trace([*lines, traceback.GRADIENT_ACC_SPECIAL_STACK])
        traceback.reset_grad_fn_seq_nr()
        traceback.current_meta.pop(IN_BACKWARD, None)


def checked(gradient: torch.Tensor | None, edge: Edge) -> torch.Tensor | None:
    """Return a gradient in the shape and type of its tensor. Raises RuntimeError."""
    node, k = edge
    if gradient is None or node is None:
        return None
    metadata = node._input_metadata[k]
    shape = tuple(metadata.shape)
    if tuple(gradient.shape) != shape:
        gradient = gradient.sum_to_size(shape)
    if gradient.is_complex() and not metadata.dtype.is_complex:
        gradient = gradient.real
    if gradient.dtype != metadata.dtype:
        gradient = gradient.to(metadata.dtype)
    # the devices may differ if an input of the capture has replaced the user's tensor
    if gradient.device != metadata.device and metadata.device.type != "meta":
        if gradient.dim():
            raise RuntimeError(f"a gradient is on {gradient.device}, but its tensor is on {metadata.device}")
        gradient = gradient.to(metadata.device)
    return gradient


def run(node: Any, gradients: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Return the gradients of a node's arguments, given the gradients of its results."""
    if callable(node):
        made = node(*gradients)
    else:  # a node that is not callable belongs to a torch.autograd.Function
        known = zip(gradients, node._input_metadata)
        gradients = [torch.zeros(m.shape, dtype=m.dtype, device=m.device) if g is None else g for g, m in known]
        made = node.apply(*gradients)
    made = made if isinstance(made, tuple) else (made,)
    return [checked(gradient, edge) for edge, gradient in zip(node.next_functions, made)]


def gradients(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[torch.Tensor | None, ...]:
    """Compute gradients like torch.autograd.grad, by running the nodes in this thread."""
    if is_grads_batched or materialize_grads:
        raise MemplanError("batched gradients cannot be computed for a device that this machine does not have")
    outputs, inputs = ([v] if isinstance(v, torch.Tensor) else list(v) for v in (outputs, inputs))
    given = [grad_outputs] if isinstance(grad_outputs, torch.Tensor) else list(grad_outputs or [None] * len(outputs))
    roots: list[Edge] = [tuple(get_gradient_edge(o))[:2] for o in outputs]  # type: ignore[misc]
    wanted: list[Edge] = [tuple(get_gradient_edge(i))[:2] for i in inputs]  # type: ignore[misc]
    nodes = reachable([node for node, _ in roots])
    needed = leading_to(nodes, {node for node, _ in wanted})
    goes_on = {node for node in needed if any(then in needed for then, _ in node.next_functions)}
    waits = Counter(then for node in goes_on for then, _ in node.next_functions if then is not None)
    arrived: dict[Any, list[torch.Tensor | None]] = {}
    ready: list[tuple[int, int, Any]] = []
    order = itertools.count()
    found: dict[Edge, torch.Tensor | None] = {}

    def arrive(edge: Edge, gradient: torch.Tensor | None) -> None:
        node, k = edge
        sums = arrived.setdefault(node, [None] * len(node._input_metadata))
        if gradient is not None:
            before = sums[k]
            sums[k] = gradient if before is None else before + gradient

    def push(node: Any) -> None:
        heapq.heappush(ready, (-engine_number(node), next(order), node))

    with torch.set_grad_enabled(create_graph):
        for edge, output, gradient in zip(roots, outputs, given):
            if edge[0] in needed:
                arrive(edge, checked(torch.ones_like(output) if gradient is None else gradient, edge))
        for node in list(arrived):
            if waits[node] == 0:
                push(node)
        while ready:
            *_, node = heapq.heappop(ready)
            sums = arrived[node]
            found.update({(node, k): gradient for k, gradient in enumerate(sums)})
            if node not in goes_on:
                continue
            arrived[node] = []
            with as_traced(node):
                made = run(node, sums)
            for edge, gradient in zip(node.next_functions, made):
                then = edge[0]
                if then is None:
                    continue
                if then in needed:
                    arrive(edge, gradient)
                waits[then] -= 1
                if waits[then] == 0 and then in needed:
                    push(then)
    result = tuple(found.get(edge) for edge in wanted)
    if not allow_unused and any(g is None for g in result):
        raise RuntimeError("one of the tensors has no gradient: it is not used in what is differentiated")
    return result
