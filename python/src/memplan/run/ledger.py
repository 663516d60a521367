"""What is alive beside a graph that runs: what other calls have saved for a backward that has not run, of all graphs and models
of this process, and gradients that are there already. A plan is of one call; a step may be of several.

    two calls, then one backward    static 100, saved 40, peak of a call 160 of a budget of 170
    first call                      160
    second call                     160 + 40 of the first: 200, which is said, and the next step is planned with 40 beside it
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from memplan.budget import in_units
from memplan.report import GraphReport
from memplan.run.second_order import node_of


class Call:
    """A call until its backward has run, or until nobody can run it any more."""

    def __init__(self, ledger: Ledger, n_bytes: int) -> None:
        self.ledger, self.n_bytes = ledger, n_bytes
        ledger.n_bytes += n_bytes
        ledger.n_calls += 1

    def end(self) -> None:
        if self.n_bytes >= 0:
            self.ledger.n_bytes -= self.n_bytes
            self.ledger.n_calls -= 1
            self.n_bytes = -1

    __del__ = end


class Ledger:
    """The calls of a process that wait for their backward, and what they have saved."""

    def __init__(self) -> None:
        self.n_bytes = self.n_calls = 0


LEDGER = Ledger()


def gradient_bytes(parameters: Sequence[weakref.ref[Any]]) -> int:
    """Of the gradients that these parameters have now."""
    alive = [p.grad for ref in parameters if (p := ref()) is not None]
    return sum(g.numel() * g.element_size() for g in alive if g is not None)


@dataclass(frozen=True)
class Beside:
    """What is there beside a call, and how much of it no plan has counted."""

    call_bytes: int
    n_calls: int
    gradient_bytes: int
    uncounted_bytes: int  # negative where a plan has counted more

    def causes(self) -> tuple[bool, bool]:
        return self.call_bytes > 0, self.gradient_bytes > 0

    def sentence(self, graph: GraphReport) -> str:
        causes = []
        ends = "the next step is planned with that" if self.uncounted_bytes > 0 else "no smaller plan was found"
        if self.call_bytes:
            calls = "1 call keeps" if self.n_calls == 1 else f"{self.n_calls} calls keep"
            causes.append(f"{calls} {in_units(self.call_bytes)} for a backward that has not run")
        if self.gradient_bytes:
            causes.append(f"gradients of {in_units(self.gradient_bytes)} are there already")
            ends += "; zero_grad(set_to_none=True) lets go of gradients, accumulate=True counts them from the start"
        return (
            f"{graph.name} takes {in_units(graph.planned_bytes + self.uncounted_bytes)} in this call, beyond the budget of"
            f" {in_units(graph.budget_bytes)}, since {' and '.join(causes)}: {ends}"
        )


Over = Callable[[GraphReport, Beside], None]


class Booked:
    """A planned graph whose calls are in the ledger. `accumulated_bytes`: of gradients that its plan counts from the start.
    `over` is told of calls that go beyond their budget; `metadata` is what PyTorch knows of the graph."""

    def __init__(
        self, compiled: Callable[..., Any], graph: GraphReport, accumulated_bytes: int, over: Over, metadata: Any
    ) -> None:
        self.compiled, self.graph, self.over = compiled, graph, over
        self.counted_bytes = accumulated_bytes + graph.others_bytes
        self.metadata = metadata

    def __call__(self, *inputs: Any) -> Any:
        if self.metadata is None or not torch.is_grad_enabled():
            return self.compiled(*inputs)
        parameters = [weakref.ref(i) for i in inputs if isinstance(i, torch.nn.Parameter)]
        self.compare(parameters, LEDGER.n_bytes, LEDGER.n_calls)
        outputs = self.compiled(*inputs)
        if (node := node_of(outputs, self.metadata)) is not None:
            call = node.memplan_call = Call(LEDGER, self.graph.saved_bytes)

            def begins(_: Any) -> None:
                stays = torch._C._autograd._get_current_graph_task_keep_graph()  # what it saved lives through backward, too
                own = max(0, call.n_bytes) if not stays else 0
                self.compare(parameters, LEDGER.n_bytes - own, LEDGER.n_calls - (own > 0))

            def has_run(*_: Any) -> None:
                if not torch._C._autograd._get_current_graph_task_keep_graph():
                    call.end()

            node.register_prehook(begins)
            node.register_hook(has_run)
        return outputs

    def compare(self, parameters: Sequence[weakref.ref[Any]], n_bytes: int, n_calls: int) -> None:
        """What is there, with the budget."""
        gradients = gradient_bytes(parameters)
        uncounted = n_bytes + gradients - self.counted_bytes
        if n_bytes + gradients > 0 and self.graph.planned_bytes + uncounted > self.graph.budget_bytes:
            self.over(self.graph, Beside(n_bytes, n_calls, gradients, uncounted))
