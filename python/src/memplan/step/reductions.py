"""Partial results of sums on a GPU. If a sum has few results, several thread blocks of PyTorch's kernel compute each result.

Each block stores its partial result in global memory. A semaphore counts the finished blocks, and the last block adds the
partial results. The sizes follow `setReduceConfig` of PyTorch's `aten/src/ATen/native/cuda/Reduce.cuh`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from memplan.step.stated_card import LANES, Card

MOST_THREADS = 512  # threads of a block
MOST_OFFSET = 2**31 - 1  # bytes that 32 bits address; larger operands are split
LEAST_VALUES, MOST_VALUES = 16, 256  # values that a thread adds for one result
LEAST_VECTORIZED = 128  # fewest values of a result that threads load as vectors
COUNTER_BYTES = 4
Dims = list[tuple[int, int]]  # pairs of size and stride


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def last_power(n: int) -> int:
    """Return the largest power of two up to `n`, at most MOST_THREADS."""
    return 1 << (max(1, min(n, MOST_THREADS)).bit_length() - 1)


def merged(dims: Dims) -> Dims:
    """Return the dimensions in order of growing stride. Contiguous neighbours are merged into one dimension."""
    found: Dims = []
    for size, stride in sorted((d for d in dims if d[0] != 1), key=lambda d: d[1]):
        if found and stride == found[-1][0] * found[-1][1]:
            found[-1] = found[-1][0] * size, found[-1][1]
        else:
            found.append((size, stride))
    return found


def product(dims: Dims) -> int:
    n = 1
    for size, _ in dims:
        n *= size
    return n


def halved(reduced: Dims, kept: Dims, element_bytes: int) -> tuple[Dims, Dims]:
    """Halve the operand until 32 bits address its bytes. Return the dimensions of the larger half."""
    while 1 + sum((size - 1) * stride * element_bytes for size, stride in reduced + kept) > MOST_OFFSET:
        longest = max(reduced + kept, key=lambda d: (d[0] - 1) * d[1])
        half = ceil_div(longest[0], 2), longest[1]
        reduced, kept = ([half if d is longest else d for d in dims] for dims in (reduced, kept))
    return reduced, kept


def vector_of_outputs(kept: Dims, reduced: Dims) -> int:
    vector = 4
    for n in (kept[0][0], *(stride for _, stride in kept[1:] + reduced)):
        while n % vector:
            vector //= 2
    return vector


def partial_results(x: torch.Tensor, dims: Sequence[int], element_bytes: int, sum_bytes: int, card: Card) -> list[int]:
    """Return the bytes of a sum's partial results and of its semaphores. Return an empty list if no result is split.

    Args:
        x: the operand.
        dims: the reduced dimensions.
        element_bytes: size of an element of the operand.
        sum_bytes: size of a partial result.
        card: the GPU that runs the kernel.
    """
    if x.numel() == 0 or any(stride == 0 and size > 1 for size, stride in zip(x.shape, x.stride(), strict=True)):
        return []
    chosen = {dim % max(1, x.dim()) for dim in dims}
    pairs = list(zip(x.shape, x.stride(), strict=True))
    reduced = merged([pair for k, pair in enumerate(pairs) if k in chosen])
    kept = merged([pair for k, pair in enumerate(pairs) if k not in chosen])
    if not reduced:
        return []
    reduced, kept = halved(reduced, kept, element_bytes)
    n_inputs, n_outputs = product(reduced), product(kept)
    within = not kept or reduced[0][1] < kept[0][1]  # true: the threads of a warp add values of the same result
    vector = 1
    width, height = (n_inputs, n_outputs) if within else (n_outputs, n_inputs)
    if within and reduced[0][1] == 1 and n_inputs >= LEAST_VECTORIZED and len(reduced) == 1:
        width //= 4
    elif not within and kept[0][1] == 1:
        vector = vector_of_outputs(kept, reduced)
        width //= vector
    most = MOST_THREADS // vector
    width_power, height_power = min(last_power(width), most), min(last_power(height), most)
    block_width = min(width_power, LANES)
    block_height = min(height_power, most // block_width)
    block_width = min(width_power, most // block_height)
    n_values = ceil_div(n_inputs, block_width) if within else n_inputs  # values per thread
    outputs_of_a_block = 1 if within else block_width
    if n_values < min(block_height * LEAST_VALUES, MOST_VALUES):
        return []
    n_values = ceil_div(n_inputs, block_height * (block_width if within else 1))
    n_blocks = card.n_processors * (card.threads_per_processor // (block_width * block_height))
    grid = ceil_div(n_outputs // vector, outputs_of_a_block)
    if n_values < MOST_VALUES or grid > n_blocks:
        return []
    n_parts = min(max(ceil_div(n_blocks, grid), ceil_div(n_values, MOST_VALUES)), ceil_div(n_values, LEAST_VALUES))
    if n_parts <= 1:
        return []
    partial = sum_bytes * n_outputs * n_parts
    return [partial if within else partial * block_width * vector, COUNTER_BYTES * grid]
