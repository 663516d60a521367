"""Experimental: memplan's plan with Inductor. Inductor fuses operators, so memplan measures a step and corrects the plan.

The planner treats a pointwise operator that Inductor fuses into its only reader like a view: it has no memory and is recomputed
at its reader. Other effects of Inductor (reuse of buffers, fusion of neighbours) are not predicted. The first call plans,
compiles and measures a step. The difference to the budget corrects the budget of the next plan.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import fx

from memplan.budget import Budget, in_units
from memplan.costs.measure import peak_of
from memplan.errors import FallbackWarning
from memplan.graph.fused import FusedCapture, put_in_writes, take_out_writes
from memplan.graph.sizes import hold_numbers
from memplan.library.planning import Step
from memplan.plan.emitted import Emitted
from memplan.plan.graph_report import GraphReport
from memplan.plan.planner import GraphPlanner
from memplan.run.backend import Backend
from memplan.run.captured_graph import frame_of_graph
from memplan.torch_internals.capture import FOR_INDUCTOR, compile_with_inductor, to_go_on

ROUNDS = 3  # maximum number of rounds; a round plans, compiles and measures
LITTLE = 0.03  # share of a budget that may remain unused without another round


class InductorPlanner(GraphPlanner):
    """A planner that reports the planner's peak, because counting on the final graphs ignores fusion."""

    def emit(self, steps: list[Step]) -> Emitted:
        return dataclasses.replace(super().emit(steps).finished(), peak_bytes=self.planning.number("planned_bytes"))


class InductorBackend(Backend):
    """The backend of torch.compile that plans captured graphs and compiles them with Inductor."""

    compiles_inference = True
    can_replan = False
    plans_collectives = False

    def __call__(self, module: fx.GraphModule, inputs: list[Any], **_: Any) -> Callable[..., Any]:
        hold_numbers(inputs)
        return Fitted(self, module)

    def planner_for(
        self, joint: fx.GraphModule, name: str, n_forward_outputs: int, static_indices: Iterable[int]
    ) -> GraphPlanner:
        self.written = take_out_writes(joint, n_forward_outputs)
        capture = FusedCapture(joint, n_forward_outputs + len(self.written), static_indices, self.written)
        return InductorPlanner(capture, self.costs_of(capture), self.outside_bytes(capture, frame_of_graph()), name)

    def plan(
        self, joint: fx.GraphModule, name: str, n_forward_outputs: int, static_indices: Iterable[int]
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        # planning changes a copy, because the original graph is needed if it cannot be planned
        own = fx.GraphModule(joint, copy.deepcopy(joint.graph))
        forward, backward = super().plan(own, name, n_forward_outputs, static_indices)
        put_in_writes(forward, self.written)
        return forward, backward

    def compile(self, module: fx.GraphModule, inputs: tuple[Any, ...]) -> Callable[..., Any]:
        copied, name = copy.deepcopy(module), f"memplan {self.options}"
        compiled: Callable[..., Any] = compile_with_inductor(copied, list(inputs), self.partition, name)
        return compiled


def gradients(run: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    """Run forward and backward, and discard the gradients."""
    outputs = [o for o in run(*inputs) if isinstance(o, torch.Tensor) and o.requires_grad]
    leaves = [i for i in inputs if isinstance(i, torch.Tensor) and i.requires_grad]
    if outputs and leaves:
        torch.autograd.grad(outputs, leaves, [torch.ones_like(o) for o in outputs], allow_unused=True)


def step_bytes(run: Callable[..., Any], inputs: tuple[Any, ...]) -> int:
    """Return the peak of a step in bytes. Gradients, random states and writes are discarded.

    A first step runs unmeasured, because it compiles backward.
    """
    copies = tuple(i.clone() if isinstance(i, torch.Tensor) and not i.requires_grad else i for i in inputs)
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())), torch.enable_grad():
        gradients(run, copies)
        return peak_of(functools.partial(gradients, run, copies))


@dataclasses.dataclass
class Tried:
    """A compiled plan with the measured peak of its step."""

    run: Callable[..., Any]
    graph: GraphReport | None
    n_bytes: int

    def settled(self, budget: int, target: int) -> bool:
        """Whether another round is useless.

        If the step fits, no other plan is needed if it recomputes nothing or leaves little of the budget unused. If the step
        does not fit, no other plan helps if this plan is the smallest.
        """
        assert self.graph is not None
        if self.n_bytes > budget:
            return self.graph.planned_bytes > target
        return self.n_bytes >= (1 - LITTLE) * budget or not self.graph.recomputed

    def key(self, budget: int) -> tuple[int, float]:
        assert self.graph is not None
        return max(0, self.n_bytes - budget), self.graph.overhead


class Fitted:
    """A captured graph that is planned, compiled and measured when it is first called."""

    def __init__(self, backend: InductorBackend, module: fx.GraphModule) -> None:
        self.backend, self.module = backend, module
        self.as_captured = to_go_on()  # a function that restores PyTorch's compilation context of this graph
        self.run: Callable[..., Any] | None = None

    def __call__(self, *inputs: Any) -> Any:
        if self.run is None:
            self.run = self.fit(inputs)
        return self.run(*inputs)

    def tried(self, inputs: tuple[Any, ...], target: Budget) -> Tried:
        """Plan for this budget, or use the smallest plan. Compile the plan and measure a step.

        `graph` of the result is None if the model contains nothing to plan.
        """
        report = self.backend.report
        n_graphs = len(report.graphs)
        wanted = self.backend.options
        self.backend.options = dataclasses.replace(wanted, budget=target, on_infeasible="smallest")
        try:
            with self.as_captured(), warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*it runs with the smallest", FallbackWarning)
                self.backend.begin(self.module, inputs)
                run = self.backend.compile(self.module, inputs)
        finally:
            self.backend.current = None
            self.backend.options = wanted
        if len(report.graphs) == n_graphs:
            return Tried(run, None, 0)
        graph = report.graphs.pop()
        return Tried(run, graph, graph.static_bytes + step_bytes(run, inputs))

    def fit(self, inputs: tuple[Any, ...]) -> Callable[..., Any]:
        """Return the compiled graph with the least extra time whose measured step fits the budget.

        If none fits, return the one that exceeds the budget the least.
        """
        tries = [self.tried(inputs, self.backend.options.budget)]
        if tries[0].graph is None:
            return tries[0].run
        budget = target = tries[0].graph.budget_bytes
        while len(tries) < ROUNDS and not tries[-1].settled(budget, target):
            target = max(0, target - (tries[-1].n_bytes - budget))
            tries.append(self.tried(inputs, target))
        best = min(tries, key=lambda t: t.key(budget))
        assert best.graph is not None
        best.graph.budget_bytes, best.graph.measured_bytes, best.graph.rounds = budget, best.n_bytes, len(tries)
        self.backend.report.graphs.append(best.graph)
        self.backend.report.measured_bytes = best.n_bytes
        if best.n_bytes > budget:
            sentence = f"{best.graph.name} exceeds its budget of {in_units(budget)} by {in_units(best.n_bytes - budget)}"
            warnings.warn(f"{sentence} with Inductor, after {len(tries)} rounds", FallbackWarning, stacklevel=3)
        return best.run


def require_inductor() -> None:
    """Raise MemplanError if this PyTorch version lacks the required functions."""
    for name in FOR_INDUCTOR:
        name.need()
