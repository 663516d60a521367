"""Operator seconds at a new input size, interpolated between two measured sizes of the same call.

A training on padded texts meets many lengths. The seconds of a call at length 320 are estimated from the measured seconds at
lengths 256 and 384. Sizes in bytes are not interpolated: they depend on the kernel that PyTorch chooses, so they are measured
at each size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from memplan.graph.capture import storage_bytes
from memplan.graph.sizes import is_number

MOST_RATIO = 2.0  # the larger of two measured lengths is at most this multiple of the smaller
APART = 0.1  # sizes of one call that grow in proportion have positions within this distance (L and L - 1 differ a little)
BETWEEN = "seconds of operators are interpolated between two other input sizes; bytes are measured"


def kind_of(node: fx.Node) -> tuple[str, tuple[int, ...]]:
    """Return a text that is equal for calls that differ in sizes only, and the sizes."""
    sizes: list[int] = []

    def one(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            sizes.extend((*value.shape, *value.stride(), storage_bytes(value)))
            return value.dim(), str(value.dtype), str(value.device)
        if type(value) is int:
            sizes.append(value)
        return type(value).__name__ if type(value) is int or is_number(value) else value

    def argument(a: Any) -> Any:
        return fx.node.map_aggregate(a.meta.get("val"), one) if isinstance(a, fx.Node) else one(a)

    kind = f"{node.target} {fx.node.map_aggregate((node.args, node.kwargs), argument)}"
    return kind, tuple(sizes)


def position(low: Sequence[int], sizes: Sequence[int], high: Sequence[int]) -> float | None:
    """Return the position of sizes between `low` and `high` on a logarithmic scale, from 0 (`low`) to 1 (`high`).

    None: the sizes are not between `low` and `high`, these two are too far apart, or the sizes do not grow in proportion.
    """
    places, ratio = list[float](), math.inf
    for a, n, b in zip(low, sizes, high):
        if a == n == b:
            continue
        if not 0 < a < n < b:
            return None
        places.append(math.log(n / a) / math.log(b / a))
        ratio = min(ratio, b / a)
    if not places or ratio > MOST_RATIO or max(places) - min(places) > APART:
        return None
    return sum(places) / len(places)


class Points:
    """Measured seconds, by kind of call and by sizes."""

    def __init__(self) -> None:
        self.known: dict[str, dict[tuple[int, ...], float]] = {}

    def add(self, node: fx.Node, seconds: float) -> None:
        kind, sizes = kind_of(node)
        self.known.setdefault(kind, {})[sizes] = seconds

    def seconds(self, node: fx.Node) -> float | None:
        """Return the seconds between the two nearest measured sizes, or None if the call has to be measured.

        Seconds are interpolated as a power of the length, which is exact for matrix products and for attention.
        """
        kind, sizes = kind_of(node)
        points = self.known.get(kind, {})
        lows = sorted((p for p in points if all(a <= n for a, n in zip(p, sizes))), key=sum, reverse=True)
        highs = sorted((p for p in points if all(n <= b for n, b in zip(sizes, p))), key=sum)
        for low in lows:
            for high in highs:
                if (at := position(low, sizes, high)) is not None:
                    return float(points[low] ** (1 - at) * points[high] ** at)
        return None
