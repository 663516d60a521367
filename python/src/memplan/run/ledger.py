"""What is alive beside a graph that runs: what other calls have saved for a backward that has not run, of all graphs and models
of this process, gradients that are there already, what is computed outside. A plan is of one call; a step may be of several.

    two calls, then one backward    static 100, saved 40, peak of a call 160 of a budget of 170
    first call                      160
    second call                     160 + 40 of the first: 200, which is said, and the next step is planned for it

Who goes beyond its budget is planned with what is beside it; calls of other models that wait meanwhile keep less from then on,
by their share of half the excess.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from memplan.budget import in_units
from memplan.graph.capture import storage_key, tensors_of
from memplan.plan.graph_report import GraphReport
from memplan.run.outside import Outside, mark_beside, watch
from memplan.run.returned import Returned
from memplan.run.second_order import node_of
from memplan.run.split import Asked
from memplan.torch_internals.autograd import graph_is_kept, profiler_is_on, uncaptured
from memplan.torch_internals.sharding import here

MOST_CUTS = 3  # that a sentence names


class Ledger:
    """Calls that wait for their backward, and what they have saved."""

    def __init__(self) -> None:
        self.n_bytes = self.n_calls = 0
        self.waiting: dict[int, weakref.ref[Call]] = {}

    def calls(self) -> list[Call]:
        return [call for ref in list(self.waiting.values()) if (call := ref()) is not None]


LEDGER = Ledger()  # of the process


class Call:
    """A call until its backward has run, or until nobody can run it any more."""

    def __init__(self, booked: Booked) -> None:
        self.booked, self.n_bytes, self.ledgers = booked, booked.saved_bytes, (LEDGER, booked.owner.ledger)
        for ledger in self.ledgers:
            ledger.n_bytes += self.n_bytes
            ledger.n_calls += 1
            ledger.waiting[id(self)] = weakref.ref(self)

    def end(self) -> None:
        if self.n_bytes >= 0:
            for ledger in self.ledgers:
                ledger.n_bytes -= self.n_bytes
                ledger.n_calls -= 1
                ledger.waiting.pop(id(self), None)
            self.n_bytes = -1

    __del__ = end


def gradient_bytes(parameters: Sequence[weakref.ref[Any]]) -> int:
    """Of the gradients that these parameters have now."""
    alive = [here(p.grad) for ref in parameters if (p := ref()) is not None and p.grad is not None]
    return sum(g.numel() * g.element_size() for g in alive)


@dataclass(frozen=True)
class Beside:
    """What is there beside a call, and how much of it no plan has counted. `cuts`: where PyTorch has cut the graphs of calls
    that wait. `learned_bytes`: what the next plan of this graph counts, `kept_less`: what it saves less."""

    call_bytes: int
    n_calls: int
    gradient_bytes: int
    uncounted_bytes: int  # negative where a plan has counted more
    outside_bytes: int = 0
    cuts: tuple[str, ...] = ()
    learned_bytes: int = 0
    kept_less: int = 0

    def causes(self) -> tuple[bool, bool, bool]:
        return self.call_bytes > 0, self.gradient_bytes > 0, self.outside_bytes > 0

    def sentence(self, graph: GraphReport, ends: str) -> str:
        """`ends`: what is done about it."""
        causes = []
        if self.call_bytes:
            calls = "1 call keeps" if self.n_calls == 1 else f"{self.n_calls} calls keep"
            cut = f", as PyTorch cuts the graph at {', '.join(self.cuts[:MOST_CUTS])}" if self.cuts else ""
            causes.append(f"{calls} {in_units(self.call_bytes)} for a backward that has not run{cut}")
        if self.outside_bytes:
            causes.append(f"{in_units(self.outside_bytes)} are taken outside of it, by a loss, say, which is better inside")
        if self.gradient_bytes:
            causes.append(f"gradients of {in_units(self.gradient_bytes)} are there already")
            ends += "; zero_grad(set_to_none=True) lets go of gradients, accumulate=True counts them from the start"
        return (
            f"{graph.name} takes {in_units(graph.most_bytes + self.uncounted_bytes)} in this call, beyond the budget of"
            f" {in_units(graph.budget_bytes)}, since {' and '.join(causes)}: {ends}"
        )


class Owner(NamedTuple):
    """Whose a graph is: its ledger, and who is told of calls that go beyond their budget, and of calls that have to keep so
    many bytes less."""

    ledger: Ledger
    over: Callable[[GraphReport, Beside], None]
    keep_less: Callable[[GraphReport, int], None]


class Booked:
    """A planned graph whose calls are in the ledger. `accumulated_bytes`: of gradients that its plan counts from the start;
    `metadata` is what PyTorch knows of the graph."""

    def __init__(
        self,
        compiled: Callable[..., Any],
        graph: GraphReport,
        accumulated_bytes: int,
        owner: Owner,
        metadata: Any,
        returned: Returned,
    ) -> None:
        self.compiled, self.owner, self.returned, self.in_halves = compiled, owner, returned, graph.in_halves
        self.graph = weakref.ref(graph)  # with which plans and parameters would stay, as PyTorch keeps this
        self.planned_bytes, self.budget_bytes, self.saved_bytes = graph.most_bytes, graph.budget_bytes, graph.saved_bytes
        self.counted_bytes = accumulated_bytes + graph.others_bytes
        self.until_backward_bytes = graph.static_bytes - self.counted_bytes + graph.waiting_bytes  # without what is beside it
        self.cut_at = graph.cut_at
        self.metadata = metadata
        self.is_watched = False

    def __call__(self, *inputs: Any) -> Any:
        if self.metadata is None or not torch.is_grad_enabled():
            return self.compiled(*inputs)
        parameters = [weakref.ref(i) for i in inputs if isinstance(i, torch.nn.Parameter) and i.is_leaf]
        self.compare(parameters, LEDGER.n_bytes, LEDGER.n_calls)
        outputs = self.compiled(*inputs)
        if (node := node_of(outputs, self.metadata)) is not None:
            self.book(node, parameters)
            self.returned.follow(node, inputs, outputs)
            mark_beside(node)
            if not self.is_watched and not profiler_is_on():  # the first step that can be measured
                self.is_watched = True
                there = LEDGER.n_bytes - self.saved_bytes + gradient_bytes(parameters)
                known = {storage_key(here(t)) for t in tensors_of([inputs, outputs])}
                watch(node, known, lambda outside: self.beside_outside(there, outside))
        return outputs

    def book(self, node: Any, parameters: Sequence[weakref.ref[Any]]) -> None:
        call = node.memplan_call = Call(self)
        asked, of_autograd = Asked(), weakref.ref(node)

        def begins(_: Any) -> None:
            if self.in_halves and (this := of_autograd()) is not None:
                asked.begin(this)
            if torch.is_grad_enabled():  # create_graph: what that keeps is beyond all plans, and said elsewhere
                return
            stays = graph_is_kept()  # what it saved lives through backward, too
            own = max(0, call.n_bytes) if not stays else 0
            self.compare(parameters, LEDGER.n_bytes - own, LEDGER.n_calls - (own > 0))

        def has_run(*_: Any) -> None:
            if not graph_is_kept():
                call.end()

        node.register_prehook(uncaptured(begins))
        node.register_hook(uncaptured(has_run))

    def compare(self, parameters: Sequence[weakref.ref[Any]], n_bytes: int, n_calls: int) -> None:
        """What is there, with the budget."""
        gradients = gradient_bytes(parameters)
        uncounted = n_bytes + gradients - self.counted_bytes
        if n_bytes + gradients > 0 and self.planned_bytes + uncounted > self.budget_bytes:
            self.go_beyond(n_bytes, n_calls, gradients, uncounted)

    def go_beyond(self, n_bytes: int, n_calls: int, gradients: int, uncounted: int) -> None:
        calls = LEDGER.calls()
        waiting = [c for c in calls if c.booked.owner.ledger is not self.owner.ledger]  # its own are planned with it
        kept = sum(c.n_bytes for c in waiting)
        less = (self.planned_bytes + uncounted - self.budget_bytes) // 2 if n_calls and kept else 0
        for call in waiting if less else ():
            if (graph := call.booked.graph()) is not None:
                call.booked.owner.keep_less(graph, less * call.n_bytes // kept)
        if (graph := self.graph()) is not None:
            cuts = tuple(dict.fromkeys(c.booked.cut_at for c in calls if c.booked.cut_at))
            self.owner.over(graph, Beside(n_bytes, n_calls, gradients, uncounted, 0, cuts, max(0, uncounted - less)))

    def beside_outside(self, there: int, outside: Outside) -> None:
        """The same with what was computed outside in the first call, which has run now, and what was there beside it."""
        before, after = outside
        waiting = self.until_backward_bytes + there + before + after
        takes = max(self.planned_bytes - self.counted_bytes + there + before, waiting)
        if before + after > 0 and takes > self.budget_bytes and (graph := self.graph()) is not None:
            uncounted, less = takes - self.planned_bytes, max(0, min(before + after, waiting - self.budget_bytes))
            self.owner.over(graph, Beside(0, 0, 0, uncounted, before + after, (), before, less))
