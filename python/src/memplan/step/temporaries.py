"""Memory that PyTorch's kernels for GPUs allocate beside the results of operators in an eager step."""

from __future__ import annotations

from typing import Any

import torch

from memplan.graph.attention import HALVES
from memplan.step import quantized_weights
from memplan.step.reductions import partial_results
from memplan.step.stated_card import Card

SOFTMAX_BACKWARD = "aten._softmax_backward_data."  # its kernel for GPUs first multiplies gradient and result in a new tensor
GROUP_NORM_BACKWARD = "aten.native_group_norm_backward."
EMBEDDING_BACKWARD = "aten.embedding_dense_backward."
SUMS = ("aten.sum.", "aten.nansum.", "aten.prod.", "aten.mean.")  # they first cast their operand to the type of the result
SPLIT_SUMS = ("aten.sum.", "aten.mean.")  # sums whose partial results are known
SORTS = ("aten.sort.", "aten.argsort.")
ORDER_BYTES = 8  # int64
MOST_SORTED_IN_PLACE = 4096  # longest slice that PyTorch sorts within the results
MOST_UNSORTED_INDICES = 3072  # largest number of indices of an embedding whose gradient needs no sorted copy
ROWS_OF_A_PART = 10  # rows of the gradient of an embedding that one thread sums
LEAST_BYTES = 512  # of an allocation
# formulas of gradients write into zeros, but use these operators if a mode observes them
FROM_ZEROS = ("aten.scatter.", "aten.scatter_add.", "aten.index_put.", "aten.index_add.", "aten.masked_scatter.")


def in_place_form(operator: Any) -> Any:
    """Return the operator with which a formula of PyTorch writes into new zeros, or the operator itself."""
    name = str(operator)
    if not name.startswith(FROM_ZEROS):
        return operator
    packet, _, overload = name.removeprefix("aten.").partition(".")
    return getattr(getattr(torch.ops.aten, f"{packet}_"), overload, operator)


def temporaries(name: str, args: Any, kwargs: Any, result: Any, card: Card | None = None) -> list[int]:
    """Return the bytes of the tensors that PyTorch's kernel for GPUs allocates beside the results of an operator.

    Without a `card`, partial results of sums do not count, because their number depends on the GPU.
    """
    if not args or not isinstance(args[0], torch.Tensor) or args[0].device.type != "meta":
        return []
    first = args[0]
    found: list[int] = []
    if name.startswith(SOFTMAX_BACKWARD):
        found = [first.nbytes]
    elif name.startswith(SUMS):
        is_cast = result.dtype != first.dtype and not (first.dtype in HALVES and result.dtype == torch.float32)
        found = [first.numel() * result.element_size()] if is_cast else []
        if card is not None and name.startswith(SPLIT_SUMS):
            found += of_sum(first, args, result, (result if is_cast else first).element_size(), card)
    elif name.startswith(GROUP_NORM_BACKWARD):  # sums in fp32: two or three per channel, two per group
        n, channels, groups = args[5], args[6], args[8]
        found = [4 * n * channels] * (2 if args[4] is None else 3) + [4 * n * groups] * 2
    elif name.startswith(EMBEDDING_BACKWARD):
        found = of_embedding_backward(first, args[1], args[2])
    elif name.startswith(SORTS):
        dims = [value for value in args[1:] if type(value) is int]
        found = of_sort(first, dims[0] if dims else -1)
    elif name.startswith(quantized_weights.PRODUCT):
        found = quantized_weights.of_product(args, kwargs)
    return found


def of_sum(x: torch.Tensor, args: Any, result: torch.Tensor, element_bytes: int, card: Card) -> list[int]:
    """Return the bytes of partial results of a sum or mean. Kernels sum half precision in fp32."""
    given = args[1] if len(args) > 1 and args[1] is not None else []
    dims = list(given) if isinstance(given, (list, tuple)) else [given]
    return partial_results(x, dims or range(x.dim()), element_bytes, max(4, result.element_size()), card)


def of_embedding_backward(gradient: torch.Tensor, indices: torch.Tensor, n_weights: int) -> list[int]:
    """Return the temporaries of an embedding's gradient: the indices are sorted, and parts of equal indices are summed."""
    n, each = indices.numel(), indices.element_size()
    if n <= MOST_UNSORTED_INDICES:
        return []
    n_segments = min(n, n_weights)
    n_parts = n // ROWS_OF_A_PART + n_segments
    sums = n_parts * gradient.shape[-1] * max(4, gradient.element_size())  # in fp32 for half precision
    return [n * each] * 3 + [n_segments * each] * 2 + [n_parts * each, ORDER_BYTES, ORDER_BYTES, sums]


def of_sort(x: torch.Tensor, dim: int) -> list[int]:
    """Return the temporaries of a sort: the order before the sort, and copies of keys and order."""
    if x.dim() == 0 or x.shape[dim] <= MOST_SORTED_IN_PLACE:
        return []
    order = x.numel() * ORDER_BYTES
    return [order, order + x.nbytes + LEAST_BYTES // 2]
