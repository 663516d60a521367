"""Which functions PyTorch converts during a call, and which it gives up. With fullgraph=False it captures a model in parts, and
runs a function that it cannot cut eagerly, without a word."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from memplan.graph.capture import tensors_of
from memplan.run.eagerly import CANNOT_CAPTURE, SKIPPED, place_among, reason_of
from memplan.run.outside import reachable
from memplan.torch_internals.autograd import COMPILED_NODE, saved_by
from memplan.torch_internals.capture import cuts_since, frames_told, n_cuts


class Parts:
    """Of one call: which functions PyTorch has converted, which it has given up, and where it has cut."""

    def __init__(self) -> None:
        self.n_converted = 0
        self.given_up: list[BaseException] = []
        self.n_cuts = n_cuts()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """In it, each function that PyTorch converts in this thread is noted."""
        CALLS.here.append(self)
        try:
            with frames_told(told):
                yield
        finally:
            CALLS.here.pop()

    def take(self, error: BaseException | None) -> None:
        """A function that PyTorch has tried to convert. `error`: why it has given up."""
        self.n_converted += 1
        if error is not None:
            self.given_up.append(error)

    def have_given_up(self, error: BaseException) -> bool:
        """Whether a conversion has ended in this error, of whatever class: running a captured graph may raise the same one."""
        return any(e is error for e in self.given_up)

    def reason(self, inputs: Any, result: Any) -> str:
        """Why a part of this call has run eagerly, "" if none has, or if nothing was converted in this call."""
        if not self.n_converted or not runs_eagerly(inputs, result):
            return ""
        if self.given_up:
            return and_others([reason_of(e) for e in self.given_up])
        cuts = [(place_among(stack), why.strip().partition("\n")[0]) for stack, why in cuts_since(self.n_cuts)]
        return and_others([f"{CANNOT_CAPTURE} {place} ({why})" for place, why in cuts if place]) or SKIPPED


def and_others(reasons: Sequence[str]) -> str:
    """The first of these, and how many more there are."""
    different = list(dict.fromkeys(reasons))
    more = len(different) - 1
    return f"{different[0]}; {more} more of its lines like that" if more > 0 else "".join(different)


def runs_eagerly(inputs: Any, result: Any) -> bool:
    """Whether autograd's graph between inputs and result has nodes that no captured graph is, and that keep something for
    backward."""
    before = {t.grad_fn for t in tensors_of(inputs) if t.grad_fn is not None}
    roots = [t.grad_fn for t in tensors_of(result) if t.grad_fn is not None]
    nodes = reachable(roots, before) - before
    return any(node.name() != COMPILED_NODE and next(saved_by(node), None) is not None for node in nodes)


class Calls(threading.local):
    """Those of a thread, the innermost last."""

    def __init__(self) -> None:
        self.here: list[Parts] = []


CALLS = Calls()


def told(error: BaseException | None) -> None:
    if CALLS.here:
        CALLS.here[-1].take(error)
