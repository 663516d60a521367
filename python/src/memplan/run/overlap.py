"""Detect inputs that share memory in another way than in the first call.

PyTorch compiles writes into inputs for the overlap of the inputs at capture time, and does not check the overlap again. A later
call with another overlap would silently compute wrong results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from memplan.errors import MemplanError
from memplan.graph.capture import storage_key
from memplan.torch_internals.capture import metadata_now

Layout = tuple[tuple[int, int, int, int], ...]


def writes_into_inputs() -> bool:
    """Whether the graph just compiled writes into an input that is neither a parameter nor a buffer."""
    known = metadata_now()
    if known is None:
        return False
    static = set(getattr(known, "static_input_indices", None) or ())
    return any(i.mutates_data for k, i in enumerate(known.input_info) if k not in static)


def layout(inputs: Sequence[Any]) -> Layout:
    """Return for each input that shares memory with an earlier one: both indices, and both storage offsets."""
    first: dict[int, int] = {}
    found = []
    for k, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.layout is torch.strided and not isinstance(value, torch.nn.Parameter):
            at = first.setdefault(storage_key(value), k)
            if at != k:
                found.append((at, k, int(inputs[at].storage_offset()), int(value.storage_offset())))
    return tuple(found)


def as_at_first(run: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a graph. It raises MemplanError if inputs overlap in another way than in the first call."""
    known: list[Layout] = []

    def call(*inputs: Any) -> Any:
        now = layout(inputs)
        if not known:
            known.append(now)
        if now != known[0]:
            raise MemplanError(
                "a model that writes into its inputs is called with inputs that share memory in another way than at"
                " capture; pass clones"
            )
        return run(*inputs)

    return call
