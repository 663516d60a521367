"""Inputs that share memory. PyTorch compiles what writes into an input for the way the inputs lay over each other when it was
captured, and does not look again: another way would get other results without a word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from memplan.errors import MemplanError
from memplan.graph.capture import storage_key
from memplan.torch_internals.capture import metadata_now

Layout = tuple[tuple[int, int, int, int], ...]


def writes_into_inputs() -> bool:
    """Whether the graph that was just compiled writes into an input that is neither a parameter nor a buffer."""
    known = metadata_now()
    if known is None:
        return False
    static = set(getattr(known, "static_input_indices", None) or ())
    return any(i.mutates_data for k, i in enumerate(known.input_info) if k not in static)


def layout(inputs: Sequence[Any]) -> Layout:
    """Of every input in whose memory an earlier one lies: both, and where they begin."""
    first: dict[int, int] = {}
    found = []
    for k, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.layout is torch.strided and not isinstance(value, torch.nn.Parameter):
            at = first.setdefault(storage_key(value), k)
            if at != k:
                found.append((at, k, int(inputs[at].storage_offset()), int(value.storage_offset())))
    return tuple(found)


def as_at_first(run: Callable[..., Any]) -> Callable[..., Any]:
    """The same; later calls have to have inputs that lie over each other as those of the first do. MemplanError."""
    known: list[Layout] = []

    def call(*inputs: Any) -> Any:
        now = layout(inputs)
        if not known:
            known.append(now)
        if now != known[0]:
            raise MemplanError(
                "a model that writes into its inputs is called with inputs that share memory in another way than when it was"
                " captured: give it clones"
            )
        return run(*inputs)

    return call
