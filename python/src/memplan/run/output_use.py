"""Observed use of a graph's outputs.

A plan assumes that outputs and their gradients live until backward has run. If the user releases an output earlier (for
example, a loop that keeps the loss only), or passes no gradient for it, the step needs less memory. Each new pattern of use is
counted once on the final graphs. The report shows the largest of these peaks. Outputs that exist after backward are noted as
results (memplan.run.results).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from memplan.run.results import WEAKLY, Result, hook_call, is_scalar, returned_keys
from memplan.torch_internals.autograd import after_backward, graph_is_kept, uncaptured

if TYPE_CHECKING:
    from memplan.run.captured_graph import Captured
    from memplan.run.ledger import MeasuredCall

LEAST_SHARE = 1000  # an output smaller than 1/LEAST_SHARE of the peak is ignored


class Returned:
    """The outputs of one graph. PyTorch keeps this object, so it holds weak references to plans and reports."""

    def __init__(self, captured: Captured, most_bytes: int) -> None:
        self.captured = weakref.ref(captured)
        self.least_bytes = most_bytes // LEAST_SHARE
        self.watched: list[int] | None = None  # indices of the outputs that are large enough to be observed
        self.known: set[tuple[Any, ...]] = set()

    def follow(self, node: Any, inputs: Sequence[Any], outputs: Sequence[Any], measured: MeasuredCall) -> None:
        """Count the backward of a call.

        Args:
            node: the call's autograd node.
            inputs: the inputs of the graph.
            outputs: the outputs of the graph.
            measured: the planned graph. It receives the bytes that user code holds after backward, although the call did not
                return them.
        """
        self.follow_hooks(node, measured)
        if self.watched is None:
            given = {id(i) for i in inputs}
            self.watched = [k for k, o in enumerate(outputs) if self.matters(o) and id(o) not in given]
        if not self.watched:
            return
        waiting = [(k, WEAKLY(outputs[k].untyped_storage())) for k in self.watched]
        outputs_bytes = {k: outputs[k].untyped_storage().nbytes() for k in self.watched if not is_scalar(outputs[k])}
        gone: list[int] = []
        returned = returned_keys()

        def living() -> list[Result]:
            captured = self.captured()
            large = [(k, s) for k, s in waiting if k in outputs_bytes and not s.expired()]
            return [Result(s, outputs_bytes[k], captured.maker_of(k)) for k, s in large if captured is not None]

        def begins(_: Any) -> None:
            gone[:] = [k for k, storage in waiting if storage.expired()]

        def has_run(*_: Any) -> None:
            if (captured := self.captured()) is not None and not torch.is_grad_enabled():
                way = captured.unused_gradients(), tuple(gone)
                if way not in self.known:
                    self.known.add(way)
                    captured.count_again(*way)
                results = living() if not graph_is_kept() else []
                measured.feedback.results.note(results)
                if returned is not None:
                    measured.foresee(returned.hidden(results))

        if returned is not None:
            returned.outputs = living
        node.register_prehook(uncaptured(begins))
        node.register_hook(uncaptured(has_run))

    def follow_hooks(self, node: Any, measured: MeasuredCall) -> None:
        """At the end of the first backward, count the tensors that hooks of the compiled module still hold."""
        if (hooks := hook_call()) is None:
            return

        def has_run(*_: Any) -> None:
            if not graph_is_kept() and not hooks.hooks.is_known:
                after_backward(lambda: measured.count_hooks(*hooks.hooks.kept()))

        node.register_hook(uncaptured(has_run))

    def matters(self, output: Any) -> bool:
        is_plain = isinstance(output, torch.Tensor) and output.layout is torch.strided
        return is_plain and output.untyped_storage().nbytes() > self.least_bytes
