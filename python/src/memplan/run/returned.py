"""What becomes of what a graph returns. A plan counts it, and its gradients, as there until backward has run. Who lets go of it
before (a loop that takes the loss alone), or gives it no gradient, takes less. Each way in which that happens is counted once
on the graphs that run, and the report says the most of these.
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

LEAST_SHARE = 1000  # of the peak is what matters
WEAKLY: Any = reductions.StorageWeakRef


class Returned:
    """Of one graph. PyTorch keeps this, which keeps neither plans nor reports."""

    def __init__(self, captured: Captured, most_bytes: int) -> None:
        self.captured = weakref.ref(captured)
        self.least_bytes = most_bytes // LEAST_SHARE
        self.watched: list[int] | None = None  # those of the outputs that matter
        self.known: set[tuple[Any, ...]] = set()

    def follow(self, node: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Has the backward of a call counted; `node` is its node of autograd."""
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
