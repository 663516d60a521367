"""Memory in use besides a running graph.

A plan covers one call, but a step may contain several calls. The ledger counts the tensors saved by pending calls of all graphs
and models of this process, existing gradients, and tensors computed outside of planned graphs.

    two calls, then one backward    static 100, saved 40, peak of a call 160 of a budget of 170
    first call                      160
    second call                     160 + 40 of the first: 200; memplan warns and plans the next step for it

If a call exceeds its budget, the next plan of its graph counts the other memory. Half of the excess is assigned to pending
calls of other models. Their next plans save less, in proportion to their saved bytes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from memplan.budget import in_units
from memplan.plan.graph_report import GraphReport
from memplan.run.output_use import LEAST_SHARE, Returned
from memplan.run.outside_tensors import Outside, mark_beside, watch
from memplan.run.results import Result, makers_of, sum_of
from memplan.run.second_order import node_of
from memplan.run.split_backward import Asked
from memplan.torch_internals.autograd import graph_is_kept, profiler_is_on, uncaptured
from memplan.torch_internals.sharding import here

if TYPE_CHECKING:
    from memplan.run.budget_feedback import BudgetFeedback

MOST_CUTS = 3  # number of graph breaks named in a sentence


class Ledger:
    """Calls that await their backward, with the bytes they have saved."""

    def __init__(self) -> None:
        self.n_bytes = self.n_calls = 0
        self.waiting: dict[int, weakref.ref[Call]] = {}

    def calls(self) -> list[Call]:
        return [call for ref in list(self.waiting.values()) if (call := ref()) is not None]


LEDGER = Ledger()  # the calls of all models in this process that await their backward


class Call:
    """A call from its forward until its backward has run or can no longer run."""

    def __init__(self, measured: MeasuredCall) -> None:
        self.measured, self.n_bytes, self.ledgers = measured, measured.saved_bytes, (LEDGER, measured.feedback.ledger)
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
    """Return the bytes of the existing gradients of these parameters and leaf inputs."""
    alive = [here(p.grad) for ref in parameters if (p := ref()) is not None and p.grad is not None]
    return sum(g.numel() * g.element_size() for g in alive)


@dataclass(frozen=True)
class Beside:
    """The memory besides a call, and the part of it that no plan has counted.

    Attributes:
        cuts: the positions of graph breaks between the pending calls.
        learned_bytes: the bytes that the next plan of this graph will count.
        kept_less: the bytes that the next plan of this graph will save less.
    """

    uncounted_bytes: int  # bytes besides the call that no plan counts; negative if plans count too much
    call_bytes: int = 0
    n_calls: int = 0
    gradient_bytes: int = 0
    outside_bytes: int = 0
    cuts: tuple[str, ...] = ()
    learned_bytes: int = 0
    kept_less: int = 0
    results_bytes: int = 0  # results of earlier calls
    replaced_bytes: int = 0  # the part of them that user code replaces at the end of forward
    new_bytes: int = 0  # results that hooks compute at the end of forward
    makers: str = ""  # the modules that computed these results

    def causes(self) -> tuple[bool, ...]:
        return self.call_bytes > 0, self.gradient_bytes > 0, self.outside_bytes > 0, self.results_bytes > 0

    def sentence(self, graph: GraphReport, ends: str) -> str:
        """Return the warning that a call exceeds its budget. `ends`: the consequence, as the end of the sentence."""
        causes = []
        if self.call_bytes:
            calls = "1 call keeps" if self.n_calls == 1 else f"{self.n_calls} calls keep"
            cut = f", because PyTorch splits the graph at {', '.join(self.cuts[:MOST_CUTS])}" if self.cuts else ""
            causes.append(f"{calls} {in_units(self.call_bytes)} for a backward that has not run{cut}")
        if self.outside_bytes:
            causes.append(
                f"{in_units(self.outside_bytes)} are used outside of the model, such as by a loss; move the loss into the model"
            )
        if self.gradient_bytes:
            causes.append(f"gradients of {in_units(self.gradient_bytes)} already exist")
            ends += "; zero_grad(set_to_none=True) frees gradients, and accumulate=True counts them from the start"
        if self.results_bytes:
            causes.append(
                f"user code stores {in_units(self.results_bytes)} of results of earlier calls, computed in {self.makers}"
            )
        return (
            f"{graph.name} needs {in_units(graph.most_bytes + self.uncounted_bytes)} in this call, beyond the budget"
            f" of {in_units(graph.budget_bytes)}, because {' and '.join(causes)}: {ends}"
        )


class MeasuredCall:
    """A planned graph whose calls are entered in the ledger.

    Args:
        compiled: the compiled graph.
        graph: its report.
        accumulated_bytes: gradient bytes that the plan counts from the start.
        feedback: the observations that later plans of the graph count.
        is_shared: whether several ranks share the plan.
        metadata: PyTorch's metadata of the graph.
        returned: observes how user code uses the graph's outputs.
    """

    def __init__(
        self,
        compiled: Callable[..., Any],
        graph: GraphReport,
        accumulated_bytes: int,
        feedback: BudgetFeedback,
        is_shared: bool,
        metadata: Any,
        returned: Returned,
    ) -> None:
        self.compiled, self.returned, self.in_halves = compiled, returned, graph.in_halves
        self.feedback, self.is_shared = feedback, is_shared
        # weak references: PyTorch keeps this object, which would otherwise keep plans and parameters alive
        self.graph = weakref.ref(graph)
        self.planned_bytes, self.budget_bytes, self.saved_bytes = graph.most_bytes, graph.budget_bytes, graph.saved_bytes
        self.counted_bytes = accumulated_bytes + graph.others_bytes
        self.static_bytes = graph.static_bytes - self.counted_bytes  # static memory, without the memory of other calls
        self.waiting_bytes = graph.waiting_bytes
        self.cut_at = graph.cut_at
        self.metadata = metadata
        self.is_watched = False

    def __call__(self, *inputs: Any) -> Any:
        if self.metadata is None or not torch.is_grad_enabled():
            return self.compiled(*inputs)
        parameters = [weakref.ref(i) for i in inputs if isinstance(i, torch.Tensor) and i.is_leaf]
        self.compare(parameters, LEDGER.n_bytes, LEDGER.n_calls)
        results = self.feedback.results.besides(inputs)
        outputs = self.compiled(*inputs)
        if (node := node_of(outputs, self.metadata)) is not None:
            self.book(node, parameters, results)
            self.returned.follow(node, inputs, outputs, self)
            mark_beside(node)
            if not self.is_watched and not profiler_is_on():  # a step can be measured only if the user runs no profiler
                self.is_watched = True
                there = LEDGER.n_bytes - self.saved_bytes + gradient_bytes(parameters)
                watch(node, inputs, outputs, lambda outside: self.beside_outside(there, outside))
        return outputs

    def book(self, node: Any, parameters: Sequence[weakref.ref[Any]], results: list[Result]) -> None:
        """Enter a call in the ledger. `results`: the results of earlier calls that existed when it began."""
        results_bytes = sum_of(results)
        call = node.memplan_call = Call(self)
        asked, of_autograd = Asked(), weakref.ref(node)

        def begins(_: Any) -> None:
            if self.in_halves and (this := of_autograd()) is not None:
                asked.begin(this)
            if torch.is_grad_enabled():
                # with create_graph=True, no plan covers the memory; the warning about second-order gradients reports it
                return
            stays = graph_is_kept()  # retain_graph: saved tensors survive backward
            own = max(0, call.n_bytes) if not stays else 0
            self.compare(parameters, LEDGER.n_bytes - own, LEDGER.n_calls - (own > 0))
            if results:
                beside = LEDGER.n_bytes - own + gradient_bytes(parameters)
                self.compare_results(results, results_bytes, beside - self.counted_bytes)

        def has_run(*_: Any) -> None:
            if not graph_is_kept():
                call.end()

        node.register_prehook(uncaptured(begins))
        node.register_hook(uncaptured(has_run))

    def compare(self, parameters: Sequence[weakref.ref[Any]], n_bytes: int, n_calls: int) -> None:
        """Report the call if its plan and the memory in use besides it exceed the budget."""
        gradients = gradient_bytes(parameters)
        uncounted = n_bytes + gradients - self.counted_bytes
        if n_bytes + gradients > 0 and self.planned_bytes + uncounted > self.budget_bytes:
            self.go_beyond(n_bytes, n_calls, gradients, uncounted)

    def go_beyond(self, n_bytes: int, n_calls: int, gradients: int, uncounted: int) -> None:
        calls = LEDGER.calls()
        # calls with the same feedback are excluded, because the plan counts them already
        waiting = [c for c in calls if c.measured.feedback.ledger is not self.feedback.ledger]
        kept = sum(c.n_bytes for c in waiting)
        less = (self.planned_bytes + uncounted - self.budget_bytes) // 2 if n_calls and kept else 0
        for call in waiting if less else ():
            if (graph := call.measured.graph()) is not None:
                call.measured.feedback.keep_less(graph, less * call.n_bytes // kept)
        if (graph := self.graph()) is not None:
            cuts = tuple(dict.fromkeys(c.measured.cut_at for c in calls if c.measured.cut_at))
            beside = Beside(uncounted, n_bytes, n_calls, gradients, 0, cuts, max(0, uncounted - less))
            self.feedback.take_over(graph, beside, self.is_shared)

    def compare_results(self, results: list[Result], results_bytes: int, uncounted: int) -> None:
        """Report the call if results of earlier calls exceed the budget.

        Args:
            results: the results of earlier calls that existed when forward began. Backward counts those that still exist.
            results_bytes: the bytes of `results` when forward began.
            uncounted: other bytes that no plan counts; negative if plans count too much.
        """
        if (graph := self.graph()) is None:
            return
        held = sum_of(results)
        takes = max(graph.forward_peak(results_bytes), self.planned_bytes + held) + uncounted
        if takes <= self.budget_bytes:
            graph.carry(max(graph.results_bytes, results_bytes - held))
            return
        beside = Beside(
            takes - self.planned_bytes,
            learned_bytes=max(0, uncounted + held) if held else 0,
            results_bytes=results_bytes,
            replaced_bytes=results_bytes - held,
            makers=makers_of(results),
        )
        self.feedback.take_over(graph, beside, self.is_shared)

    def count_hooks(self, before: list[Result], after: list[Result]) -> None:
        """Count tensors that hooks of the whole module store, which exist in every call.

        Hooks after forward compute new tensors before they release the old ones.
        """
        results, new_bytes = before + after, sum_of(after)
        if (graph := self.graph()) is None or (n_bytes := sum_of(results)) <= self.planned_bytes // LEAST_SHARE:
            return
        if self.feedback.reports_stored(results):
            return
        at_end = graph.static_bytes + graph.waiting_bytes + n_bytes + new_bytes
        takes = max(self.planned_bytes + n_bytes, at_end)
        if takes > self.budget_bytes:
            beside = Beside(
                takes - self.planned_bytes,
                learned_bytes=n_bytes,
                results_bytes=n_bytes,
                new_bytes=new_bytes,
                makers=makers_of(results),
            )
            self.feedback.take_over(graph, beside, self.is_shared)
        self.planned_bytes = takes
        graph.stay(n_bytes, at_end)

    def foresee(self, results: list[Result]) -> None:
        """Record the bytes of results that user code holds. If forward then exceeds the budget, plan the next call again."""
        results_bytes = sum_of(results)
        if (graph := self.graph()) is None or results_bytes <= graph.results_bytes or self.feedback.reports_stored(results):
            return
        if graph.forward_peak(results_bytes) - self.counted_bytes > self.budget_bytes:
            self.feedback.carry(graph, results_bytes)
        else:
            graph.carry(results_bytes)

    def beside_outside(self, there: int, outside: Outside) -> None:
        """Report the call if its plan and the measured tensors outside of the graph exceed the budget together."""
        if (graph := self.graph()) is None:
            return
        before, after, gradients, end = outside
        beside, static = before + after + gradients, self.static_bytes + there
        planned = graph.planned_bytes if graph.is_seen else graph.most_bytes
        waiting = static + self.waiting_bytes + before + after
        takes = max(planned - self.counted_bytes + there + before + gradients, waiting, static + end)
        uncounted = takes - self.planned_bytes
        if takes - planned > planned // LEAST_SHARE and takes > self.budget_bytes:
            less = max(0, min(before + after, waiting - self.budget_bytes))
            more = max(beside, takes - planned)
            known = Beside(uncounted, outside_bytes=more, learned_bytes=before + gradients, kept_less=less)
            self.feedback.take_over(graph, known, self.is_shared)
