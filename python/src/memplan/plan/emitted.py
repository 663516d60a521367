"""The graphs of a plan, with the memory counted on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import fx

from memplan.memory.liveness import Liveness
from memplan.plan.overlapped_collectives import Time


@dataclass
class Emitted:
    forward: fx.GraphModule
    backward: fx.GraphModule
    above: Liveness  # liveness of the forward graph
    below: Liveness  # liveness of the backward graph
    peak_bytes: int
    saved_bytes: int
    held_bytes: int  # bytes that the user holds during backward and that backward does not read
    host_bytes: int  # bytes of host memory for copies
    collectives: Time
    # for a draft, whose memory is counted before PyTorch cuts its graphs: returns the plan with graphs
    finish: Callable[[], Emitted] | None = None

    def finished(self) -> Emitted:
        """Return the plan with the graphs that run."""
        return self if self.finish is None else self.finish()

    @property
    def waiting_bytes(self) -> int:
        """Bytes at the end of forward: saved tensors, held outputs, and gradients of earlier steps that backward frees."""
        return self.saved_bytes + self.held_bytes + sum(b.n_bytes for b in self.below.earlier_blocks())
