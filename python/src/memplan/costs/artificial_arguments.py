"""Artificial arguments for measured calls: real tensors with the layout of fake ones.

Their values are valid for every operator and cause the largest memory use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import fx

from memplan.graph.capture import storage_bytes
from memplan.graph.sizes import number_now
from memplan.torch_internals.dispatch import schema_of

ENDS = "offs"  # argument name: end positions of row or column groups in a grouped product
STARTS = "offsets"  # argument name: start positions of bags in a list of indices (EmbeddingBag)
PIVOTS = ("pivots", "LU_pivots")  # argument names: row exchanges of a factorization, counted from 1
# result name: number of indices per bag; bags are not empty, because the memory for their gradients would not be measured
COUNTS = "bag_size"

# Operators whose memory depends on values. For example, matrix_exp computes more terms of its series for larger values.
WITH_LARGE_VALUES = frozenset((torch.ops.aten.linalg_matrix_exp.default,))


def made_up(value: Any, is_timed: bool = True) -> Any:
    """Return a real tensor with the layout of a fake one. The storage has full size, because some operators copy all of it.

    Values are small positive random numbers, which are valid for every operator. Integers are zero, which is a valid index.
    Masks select everything, for the largest memory use. Numbers may be equal if the call is not timed.
    """
    if not isinstance(value, torch.Tensor):
        return number_now(value)
    n = 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride())) if value.numel() else 0
    memory = torch.empty(max(n, storage_bytes(value) // value.element_size()), dtype=value.dtype, device=value.device)
    is_number = value.dtype.is_floating_point
    if is_number and is_timed:
        memory[:n].normal_().abs_().mul_(0.02)
    else:
        memory[:n].fill_(0.02 if is_number else value.dtype == torch.bool)
    return memory.as_strided(tuple(value.shape), tuple(value.stride()))


def grouped_size(tensors: Sequence[torch.Tensor]) -> int:
    """Return the number of rows or columns that a grouped product divides among its groups."""
    left, right = tensors
    if left.dim() == right.dim():
        return int(left.shape[-1])
    return int(left.shape[0] if left.dim() == 2 else right.shape[-1])


def fill_arguments(node: fx.Node, args: Sequence[Any]) -> None:
    """Fill arguments of operators that would reject the usual values, or would need less memory with them.

    Groups and bags have equal, positive sizes.
    """
    if node.target in WITH_LARGE_VALUES:
        args[0].fill_(1)
    named = {a.name: v for a, v in zip(getattr(schema_of(node.target), "arguments", ()), args) if isinstance(v, torch.Tensor)}
    for name in PIVOTS:
        if name in named:
            named[name].fill_(1)
    if COUNTS in named:
        named[COUNTS].fill_(1)
    if ENDS in named and len(named) > 2:
        total = grouped_size([v for name, v in named.items() if name != ENDS][:2])
        named[ENDS].copy_(bounds(named[ENDS].numel(), total) + total // max(1, named[ENDS].numel()))
        named[ENDS][-1:] = total
    if STARTS in named and "indices" in named and COUNTS not in named:
        named[STARTS].copy_(bounds(named[STARTS].numel(), named["indices"].numel()))


def bounds(n: int, total: int) -> torch.Tensor:
    """Return n start positions that divide `total` elements into pieces of equal length."""
    return torch.arange(n) * (total // max(1, n))


def depends_on_values(nodes: Iterable[fx.Node]) -> list[str]:
    """Return a sentence for the user for each operator that may need more memory than with artificial values."""
    found = [n for n in nodes if n.target in WITH_LARGE_VALUES and n.meta["val"].dim() > 2]
    return [
        f"{name} of a batch needs more memory than planned if the norms of its matrices differ by powers of two;"
        " count it with reserve="
        for name in dict.fromkeys(str(n.target) for n in found)
    ]
