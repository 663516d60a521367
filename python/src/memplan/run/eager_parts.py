"""Detect parts of a call that PyTorch silently runs eagerly.

With fullgraph=False, PyTorch captures a model in parts. It runs functions eagerly that it can neither capture nor break.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from memplan.graph.capture import tensors_of
from memplan.run.fallback import CANNOT_CAPTURE, SKIPPED, place_among, reason_of
from memplan.run.outside_tensors import reachable
from memplan.torch_internals.autograd import COMPILED_NODE, saved_by
from memplan.torch_internals.capture import cuts_since, frames_told, n_cuts


class Parts:
    """A record of PyTorch's captures during one call: the number of converted functions, the failures, and the graph breaks."""

    def __init__(self) -> None:
        self.n_converted = 0
        self.given_up: list[BaseException] = []
        self.n_cuts = n_cuts()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Record each function that PyTorch converts in this thread within the context."""
        CALLS.here.append(self)
        try:
            with frames_told(told):
                yield
        finally:
            CALLS.here.pop()

    def take(self, error: BaseException | None) -> None:
        """Record that PyTorch has converted a function. `error`: the exception if the conversion failed."""
        self.n_converted += 1
        if error is not None:
            self.given_up.append(error)

    def have_given_up(self, error: BaseException) -> bool:
        """Whether a conversion has failed with this error. An equal error may also come from running a captured graph."""
        return any(e is error for e in self.given_up)

    def reason(self, inputs: Any, result: Any) -> str:
        """Return the reason why a part of this call ran eagerly, or ""."""
        if not self.n_converted or not runs_eagerly(inputs, result):
            return ""
        if self.given_up:
            return and_others([reason_of(e) for e in self.given_up])
        cuts = [(place_among(stack), why.strip().partition("\n")[0]) for stack, why in cuts_since(self.n_cuts)]
        return and_others([f"{CANNOT_CAPTURE} {place} ({why})" for place, why in cuts if place]) or SKIPPED


def and_others(reasons: Sequence[str]) -> str:
    """Join reasons for eager code: the first reason, and the number of further ones."""
    different = list(dict.fromkeys(reasons))
    more = len(different) - 1
    return f"{different[0]}; {more} more of its lines like that" if more > 0 else "".join(different)


def runs_eagerly(inputs: Any, result: Any) -> bool:
    """Whether autograd nodes between inputs and result save tensors and belong to no captured graph."""
    before = {t.grad_fn for t in tensors_of(inputs) if t.grad_fn is not None}
    roots = [t.grad_fn for t in tensors_of(result) if t.grad_fn is not None]
    nodes = reachable(roots, before) - before
    return any(node.name() != COMPILED_NODE and next(saved_by(node), None) is not None for node in nodes)


class Calls(threading.local):
    """The compiled calls that run in a thread, innermost last."""

    def __init__(self) -> None:
        self.here: list[Parts] = []


CALLS = Calls()


def told(error: BaseException | None) -> None:
    if CALLS.here:
        CALLS.here[-1].take(error)
