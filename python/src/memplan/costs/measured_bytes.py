"""Bytes of results and memory requests that only a run shows, for operators whose arguments may exceed the memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from memplan.costs.measure import apart
from memplan.graph.capture import storage_bytes, tensors_of
from memplan.torch_internals.autograd import memory_events

RNN_BATCH = -2  # index of the batch dimension in an LSTM layer's tensors
RNN_WITH_BATCH = (0, 5, 6)  # indices of an LSTM layer's arguments that have a batch dimension: input, hidden state, cell state
# FEW: the reduced batch sizes of bytes_of_more, best first. PART: a reduced size is used if twice the size is at most 1/PART of
# the batch.
FEW, PART = (8, 4, 2), 4


def bytes_of_rnn(values: Sequence[Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes of an LSTM layer's results, and of all its memory requests."""
    return bytes_of_more(torch.ops.memplan.rnn_layer.default, values, RNN_BATCH, RNN_WITH_BATCH)


def bytes_of_more(
    operator: Any, values: Sequence[Any], dim: int, with_batch: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the bytes of an operator's results and of its memory requests (negative: freed), for large arguments.

    Both kinds of sizes are known only after a run. They grow linearly with the batch, apart from rounding to pages. The
    arguments may be too large for the memory. The operator therefore runs with two smaller batches, and the sizes are
    extrapolated.

    Args:
        operator: the operator.
        values: arguments with the full batch.
        dim: the batch dimension of these arguments.
        with_batch: indices of the arguments that have a batch dimension.
    """

    def zeros(k: int, n: int) -> torch.Tensor:
        shape = list(values[k].shape)
        if k in with_batch:
            shape[dim] = n
        made = torch.zeros(shape, dtype=values[k].dtype, device=values[k].device)
        is_last = len(shape) == 4 and values[k].is_contiguous(memory_format=torch.channels_last)
        return made.contiguous(memory_format=torch.channels_last) if is_last else made

    def run(n: int) -> tuple[list[int], list[int]]:
        arguments = [zeros(k, n) if isinstance(v, torch.Tensor) else v for k, v in enumerate(values)]
        with memory_events() as events:
            made = operator(*arguments)
        asked = [e.cpu_memory_usage() for e in events if e.kind() == "memory_alloc"]
        return [storage_bytes(t) for t in tensors_of(made)], asked

    batch = int(values[0].shape[dim])
    for few in FEW:
        if few > FEW[-1] and 2 * few * PART > batch:
            continue
        try:
            a, b = apart(lambda n=few: (run(n), run(2 * n)))  # type: ignore[misc]
            break
        except RuntimeError:  # the memory does not suffice for this reduced batch, so the next smaller one is tried
            if few == FEW[-1]:
                raise

    def grown(of_few: Sequence[int], of_more: Sequence[int]) -> tuple[int, ...]:
        return tuple(math.ceil(x + (y - x) / few * (batch - few)) for x, y in zip(of_few, of_more))

    return grown(a[0], b[0]), grown(a[1], b[1]) if len(a[1]) == len(b[1]) else ()
