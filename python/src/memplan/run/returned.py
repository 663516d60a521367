"""Observed use of a graph's outputs.

A plan assumes that outputs and their gradients live until backward has run. If the user releases an output earlier (for
example, a loop that keeps the loss only), or passes no gradient for it, the step needs less memory. Each new pattern of use is
counted once on the final graphs. The report shows the largest of these peaks.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.multiprocessing import reductions

from memplan.torch_internals.autograd import uncaptured

if TYPE_CHECKING:
    from memplan.run.captured import Captured

LEAST_SHARE = 1000  # an output smaller than 1/LEAST_SHARE of the peak is ignored
WEAKLY: Any = reductions.StorageWeakRef


class Returned:
    """The outputs of one graph. PyTorch keeps this object, so it holds weak references to plans and reports."""

    def __init__(self, captured: Captured, most_bytes: int) -> None:
        self.captured = weakref.ref(captured)
        self.least_bytes = most_bytes // LEAST_SHARE
        self.watched: list[int] | None = None  # indices of the outputs that are large enough to be observed
        self.known: set[tuple[Any, ...]] = set()

    def follow(self, node: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Count the backward of a call. `node` is the call's autograd node."""
        if self.watched is None:
            given = {id(i) for i in inputs}
            self.watched = [k for k, o in enumerate(outputs) if self.matters(o) and id(o) not in given]
        if not self.watched:
            return
        waiting = [(k, WEAKLY(outputs[k].untyped_storage())) for k in self.watched]
        gone: list[int] = []

        def begins(_: Any) -> None:
            gone[:] = [k for k, storage in waiting if storage.expired()]

        def has_run(*_: Any) -> None:
            if (captured := self.captured()) is not None and not torch.is_grad_enabled():
                way = captured.unused_gradients(), tuple(gone)
                if way not in self.known:
                    self.known.add(way)
                    captured.count_again(*way)

        node.register_prehook(uncaptured(begins))
        node.register_hook(uncaptured(has_run))

    def matters(self, output: Any) -> bool:
        is_plain = isinstance(output, torch.Tensor) and output.layout is torch.strided
        return is_plain and output.untyped_storage().nbytes() > self.least_bytes
