"""The public class TrainStep: forward, backward and the optimizer's updates as one plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import fx

from memplan.api import captured
from memplan.budget import Budget, in_units
from memplan.errors import MemplanError
from memplan.graph.capture import Capture
from memplan.graph.distributed import refuse_sharded
from memplan.library.planning import Watcher
from memplan.memory.host import LEAST_BYTES
from memplan.memory.states import States
from memplan.plan.graph_report import GraphReport
from memplan.plan.options import Options, given_to
from memplan.plan.planner import GraphPlanner
from memplan.report import Report
from memplan.run.backend import Backend
from memplan.run.budget_feedback import BudgetFeedback
from memplan.run.ledger import Beside
from memplan.run.output_use import LEAST_SHARE
from memplan.run.results import Result, ReturnedKeys, makers_of, sum_of
from memplan.step.step_graph import StepCapture, StepGraph, StepPlanner
from memplan.step.updates import Updates
from memplan.torch_internals.modules import note_step

# for each value of the option `fuse`: when updates run, in the planner's terms
FUSE = {"backward": "backward", "after": "none"}


class StepFeedback(BudgetFeedback):
    """Observations of whole steps. Tensors that user code stores beyond a step exist during all of the next step."""

    def has_called(self, report: Report, returned: ReturnedKeys, result: Any) -> None:
        self.results.note(returned.hidden(returned.outputs()))
        for graph in report.graphs[-1:]:
            self.count_results(graph, self.results.besides([result]))

    def count_results(self, graph: GraphReport, results: list[Result]) -> None:
        """Count results that exist during the next step, which is one graph with backward and updates."""
        n_bytes = max(0, sum_of(results) - self.n_bytes - graph.stored_bytes)
        is_within = graph.planned_bytes <= graph.budget_bytes or not self.n_bytes
        if n_bytes <= graph.most_bytes // LEAST_SHARE and is_within:
            return
        if graph.planned_bytes + n_bytes <= graph.budget_bytes:
            graph.stay(n_bytes, 0)
        elif self.n_times == 0:
            self.uncounted_bytes, self.is_beyond = n_bytes, True
        else:
            beside = Beside(n_bytes, learned_bytes=n_bytes, results_bytes=sum_of(results), makers=makers_of(results))
            self.take_over(graph, beside)


class StepBackend(Backend):
    """Compiles a model with its loss and its updates into one graph."""

    plans_collectives = False

    def __init__(self, options: Options, updates: Updates, fuse: str, only_report: bool = False) -> None:
        super().__init__(options, only_report=only_report)
        self.updates, self.fuse, self.feedback = updates, fuse, StepFeedback()

    def planner_for(
        self, joint: fx.GraphModule, name: str, frame: Any, n_forward_outputs: int, static_indices: Iterable[int]
    ) -> GraphPlanner:
        step = StepGraph(joint, n_forward_outputs, self.updates)
        capture = StepCapture(step, static_indices, self.fuse, self.updates.name)
        if self.updates.states is not None and not capture.moved:
            self.say(f"offload_state=True has no effect: no tensor of {self.updates.name}'s state has {in_units(LEAST_BYTES)}")
        costs = {**self.costs_of(capture, step.updates), **step.costs()}
        return StepPlanner(capture, costs, self.outside_bytes(capture, frame), name)

    def outside_bytes(self, capture: Capture, frame: Any) -> int:
        assert isinstance(capture, StepCapture)
        trained = [t.parameter for t in capture.step.trained]
        return super().outside_bytes(capture, frame) + self.updates.state_beside(trained)[0]


class TrainStep:
    """A whole training step within a memory budget.

    `step(x, y)` runs forward, backward and the optimizer's updates, and returns the loss. The budget covers all memory.
    Parameters, optimizer state and buffers are bit-identical to eager PyTorch. After a step, no parameter has a gradient.
    Learning-rate schedulers, `state_dict` and `load_state_dict` of the optimizer work.

    Args:
        model: a module or a function. It receives all arguments of the step but the last.
        loss: receives the model's output and the last argument. With None, the model returns the loss itself and receives
            all arguments.
        optimizer: any optimizer that updates each parameter independently of the others. The budget includes its state.
        fuse: "backward" updates a parameter as soon as its gradient is complete and no later operator reads the old value.
            "after" updates all parameters when backward has ended.
        budget: as in memplan.compile, like all other options.
        offload_state: stores optimizer state of at least 1 MiB per tensor in host memory, up to the size given by `offload`.
            memplan copies the state to the device for its update only. Between steps the state consists of CPU tensors.

    Attributes:
        memplan: a Report. The first step fills it.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        loss: Callable[[Any, Any], torch.Tensor] | None,
        optimizer: torch.optim.Optimizer,
        budget: Budget = "auto",
        *,
        fuse: str = "backward",
        reserve: Budget = 0,
        effort: str = "normal",
        time_limit: float = 20.0,
        on_infeasible: str = "raise",
        progress: Watcher | None = None,
        cache: str | None = None,
        chunks: str | dict[str, int] = "off",
        offload: Budget | None = None,
        link: str | float | None = None,
        offload_state: bool = False,
    ) -> None:
        if fuse not in FUSE:
            raise MemplanError(f"updates cannot be fused into {fuse!r}; use 'backward' or 'after'")
        refuse_sharded(model, whole_steps=True)
        if offload_state and offload is None:
            raise MemplanError("offload_state=True needs offload=, the bytes of host memory for it")
        self.optimizer = optimizer
        self.updates = Updates(optimizer)
        options = Options(**given_to("step", locals()))
        backend = StepBackend(options, self.updates, FUSE[fuse])
        if offload_state and backend.pool is not None:
            self.updates.states = States(optimizer, backend.pool)
        self.memplan = backend.report
        if isinstance(model, torch.nn.Module):
            backend.serve(model)

        def loss_of(*args: Any, **kwargs: Any) -> Any:
            if loss is None:
                return model(*args, **kwargs)
            return loss(model(*args[:-1], **kwargs), args[-1])

        self.compiled = captured(loss_of, backend, True)

    def __call__(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        self.updates.check()
        with self.updates.step():
            with torch.enable_grad():
                value = self.compiled(*args, **kwargs)
            if not isinstance(value, torch.Tensor):
                raise MemplanError(f"a step must end in a loss tensor, but it returns a {type(value).__name__}")
            if not self.updates.ran:
                self._step_without_plan(value)
        note_step(self.optimizer)
        return value.detach()

    def _step_without_plan(self, value: torch.Tensor) -> None:
        if not value.requires_grad:
            raise MemplanError("there is nothing to train: the loss depends on no parameter that requires a gradient")
        torch.autograd.backward(value)
        self.updates.run_all()
