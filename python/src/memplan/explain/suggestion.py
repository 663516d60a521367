"""A suggested line of code after a failed allocation. memplan captures and plans the failed step without running it.

Times come from the library's table of devices. `memplan.compile` measures real times when the user runs the line.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from memplan.api import backend_for, captured, report_of
from memplan.budget import gradient_bytes, in_units, model_bytes
from memplan.compiled_modules import place_of
from memplan.costs.measure import Cost, moved_bytes
from memplan.costs.measured_bytes import bytes_of_rnn
from memplan.costs.roofline import Device
from memplan.errors import BudgetError, MemplanError
from memplan.explain.calls import Call, Sized, given
from memplan.explain.failure import At
from memplan.graph.capture import storage_bytes
from memplan.library.planning import roofline_seconds
from memplan.memory.optimizer_state import optimizer_bytes, state_bytes
from memplan.plan.options import Options
from memplan.report import Report
from memplan.run.backend import Backend, Estimated
from memplan.step.updates import UpdateCost, Updates
from memplan.train_step import FUSE, StepBackend

WITH_WORKSPACE = ("convolution", "rnn")  # families of operators whose workspace is at most the bytes that they read and write
WITH_COPY = "native_batch_norm_backward"  # operator whose workspace on a CPU equals the size of the incoming gradient
TEMPORARIES = 2  # assumed number of temporary tensors of the parameter's size during its update
# if a plan does not fit into a GPU's allocator, memplan tries LESS times the budget, at most STEPS times
LESS, STEPS = 0.95, 8


def rounded(n_bytes: int, up: bool) -> str:
    """Return bytes as a budget in text, rounded up if `up` (for required memory), else down (for available memory)."""
    k = min(4, max(0, n_bytes.bit_length() - 1) // 10)
    part = 1024**k / 100
    return f"{(math.ceil if up else math.floor)(n_bytes / part) / 100:.2f}{'KMGT'[k - 1]}iB" if k else str(n_bytes)


class NotRun:
    """Mixin for backends that plan a step without running its operators. Operator costs are estimates."""

    row: Device | None = None

    def costs_of(self, capture: Any, beside: Any = ()) -> dict[fx.Node, Cost]:
        sources = [o.source for o in capture.operations if o.source is not None and o.source not in beside]
        return {node: self._cost(node) for node in sources}

    def _cost(self, node: fx.Node) -> Cost:
        cost = self.row.cost(node) if self.row is not None else Cost(moved_bytes(node), 0)
        arguments: list[Any] = [a.meta["val"] if isinstance(a, fx.Node) else a for a in node.args]
        workspace = cost.workspace_bytes
        if any(name in str(node.target) for name in WITH_WORKSPACE):
            workspace = moved_bytes(node)
        elif WITH_COPY in str(node.target):
            workspace = storage_bytes(arguments[0])
        kept = bytes_of_rnn(arguments)[0] if node.target is torch.ops.memplan.rnn_layer.default else ()
        return replace(cost, workspace_bytes=workspace, result_bytes=kept)


class NotUpdated(Updates):
    """Optimizer updates with estimated costs. An update is assumed to allocate TEMPORARIES tensors of its parameter's size."""

    row: Device | None = None

    def _measure(self, options: dict[str, Any], like: torch.Tensor, state: Any) -> UpdateCost:
        own = storage_bytes(like)
        kept = state_bytes(self.optimizer, [{**options, "params": [torch.nn.Parameter(like.detach())]}])
        moved = own * 3 + 2 * kept  # bytes that an update moves: parameter and state are read and written, the gradient is read
        seconds = moved if self.row is None else roofline_seconds(self.row.name, "float32", 0, moved)
        return UpdateCost(seconds, TEMPORARIES * own, kept, kept, ())


class OfCall(NotRun, Backend):
    """The backend that plans a failed call of a model, without running it."""


class OfStep(NotRun, StepBackend):
    """The backend that plans a whole training step after a failed allocation, without running it."""


@dataclass
class Room:
    """The memory available to a step on a device, and the memory used by others.

    `below_bytes`: the memory with which the allocation failed, so that a plan must need less; known on a CPU only.
    `limit_bytes`: the limit of a GPU's allocator.
    """

    available_bytes: int
    reserve_bytes: int
    below_bytes: int = 0
    limit_bytes: int | None = None

    def __str__(self) -> str:
        most = f" to {in_units(self.below_bytes)}" if self.below_bytes else ""
        return f"{in_units(self.available_bytes)}{most}"


@dataclass
class Suggestion:
    """A suggestion after a failed allocation.

    `line`: the code to write, or "" if nothing helps. `sentence` gives the reason or further advice.
    """

    line: str
    sentence: str
    report: Report | None = None


def row_of(device: torch.device) -> Device | None:
    """Return the device's row of the library's table, or None."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    try:
        return Device(name)
    except MemplanError:
        return None


@contextlib.contextmanager
def as_called(call: Call) -> Iterator[None]:
    """Restore autocast of the failed call within the context, with gradients enabled."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(torch.enable_grad())
        for context in call.contexts:
            stack.enter_context(context)
        yield


def name_in(stack: Sequence[At], value: Any, otherwise: str) -> str:
    """Return the variable name of an object, from the outermost user frame that has one."""
    for at in stack:
        for name, found in list(at.frame.f_locals.items()) if at.is_users else ():
            if found is value and name != "self":
                return str(name)
    return otherwise


@dataclass
class Step:
    """The failed call with the optimizer of its model, and the variable names that the script uses for both."""

    call: Call
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer | None
    names: tuple[str, str]
    device: torch.device
    is_loss: bool  # whether the model returns a loss

    def _inputs(self) -> tuple[Any, Any]:
        return given(self.call.args, Sized.now), given(self.call.kwargs, Sized.now)

    def compiled(self, budget: int, reserve: int) -> Report:
        """Plan the failed call within a budget. Raises BudgetError, or MemplanError if the call cannot be planned."""
        options: dict[str, Any] = {"reserve": reserve, "only_report": True, "cache": "off"}
        backend = backend_for(OfCall, self.model, [self.optimizer], self.call.has_gradients, budget=budget, **options)
        backend.row = row_of(self.device)  # type: ignore[attr-defined]
        args, kwargs = self._inputs()
        with as_called(self.call):
            return report_of(backend, self.model, args, kwargs)

    def static_bytes(self) -> int:
        """Return the static memory of every plan. Gradients are static, unless updates run during backward."""
        state = 0
        if self.optimizer is not None:
            with contextlib.suppress(MemplanError):
                # the optimizer's step cannot run on a copy, so the size of its state is unknown
                state = optimizer_bytes(self.optimizer)
        return model_bytes(self.model) + state + (0 if self.fuses() else gradient_bytes(self.model))

    def fuses(self) -> bool:
        """Whether memplan can plan the optimizer's updates as a part of this step."""
        return self.optimizer is not None and self.is_loss and not self.call.has_gradients

    def ways(self) -> Iterator[tuple[Callable[[int, int], Report], Callable[[str, int], str], str]]:
        """Yield the ways to plan the step, best first.

        Each item has a function that plans the step, a function that returns the line of code to write, and a remark.
        """
        yield self.compiled, self.line, ""
        if self.fuses():
            yield self.fused, self.line_fused, "; step(...) is forward, backward and updates"

    def fused(self, budget: int, reserve: int) -> Report:
        """Plan the step including the optimizer's updates. Raises the same exceptions as `compiled`."""
        assert self.optimizer is not None
        updates = NotUpdated(self.optimizer)
        updates.row = row_of(self.device)
        backend = OfStep(Options(budget, reserve, cache="off"), updates, FUSE["backward"], only_report=True)
        backend.row = updates.row
        backend.serve(self.model)
        args, kwargs = self._inputs()

        def loss(*args: Any, **kwargs: Any) -> Any:
            return self.model(*args, **kwargs)

        with as_called(self.call), contextlib.suppress(Estimated):
            captured(loss, backend, True)(*args, **kwargs)
        return backend.report

    def line_fused(self, budget: str, reserve: int) -> str:
        model, optimizer = self.names
        options = f', reserve="{rounded(reserve, True)}"' if reserve else ""
        return f'step = memplan.TrainStep({model}, None, {optimizer}, budget="{budget}"{options})'

    def line(self, budget: str, reserve: int) -> str:
        model, optimizer = self.names
        options = [f'budget="{budget}"']
        options += [f"optimizer={optimizer}"] if self.optimizer is not None else []
        options += ["accumulate=True"] if self.call.has_gradients else []
        options += [f'reserve="{rounded(reserve, True)}"'] if reserve else []
        return f"{model} = memplan.compile({model}, {', '.join(options)})"


def suggest(step: Step, room: Room) -> Suggestion:
    """Suggest a plan that fits the available memory (`room`), with its extra time.

    The first choice is a plan of the call. The second is a plan of the whole step, in which gradients are freed early. The last
    is the smallest plan that may fit.
    """
    if place_of(step.model) is not None:
        return Suggestion("", "the model already has a plan; give it a smaller budget")
    smallest: list[int] = []
    for takes_smallest in (False, True):
        for k, (report_for, line, ends) in enumerate(step.ways()):
            if takes_smallest and not 0 < smallest[k] < room.below_bytes:
                continue
            try:
                budget, report = within(replace(room, available_bytes=smallest[k]) if takes_smallest else room, report_for)
            except BudgetError as error:
                smallest.append(max(0, error.smallest_bytes))
                continue
            except Exception as error:
                return Suggestion("", f"memplan could not plan this step: {str(error).splitlines()[0]}")
            may = f"; it may fit: there are {room}" if takes_smallest else ""
            said = "min" if takes_smallest else rounded(budget, False)
            return Suggestion(line(said, room.reserve_bytes), cost(report) + ends + may, report)
    if (static := step.static_bytes()) + room.reserve_bytes > max(room.available_bytes, room.below_bytes):
        return Suggestion("", f"no plan and no batch fits {room}: {static_sentence(step, static, room.reserve_bytes)}")
    of = f": the smallest takes {in_units(least)}" if (least := min(filter(None, smallest), default=0)) else ""
    return Suggestion("", f"no plan of this step fits {room}{of}; a smaller batch needs less")


def static_sentence(step: Step, static_bytes: int, reserve_bytes: int) -> str:
    """Return a sentence on memory that does not depend on the batch, with ways to reduce it."""
    state = " and the optimizer's state" if step.optimizer is not None else ""
    beside = f" beside {in_units(reserve_bytes)} of others" if reserve_bytes else ""
    return (
        f"parameters{state if step.fuses() else f', gradients{state}'} alone need {in_units(static_bytes)}{beside}."
        " Freeze parameters (LoRA), shard the model (FSDP2), or choose an optimizer with less state or a smaller"
        " type"
    )


def within(room: Room, report_for: Callable[[int, int], Report]) -> tuple[int, Report]:
    """Return the largest budget whose plan fits the available memory, and the report. Raises BudgetError."""
    budget = room.available_bytes
    for k in range(STEPS):
        report = report_for(budget, room.reserve_bytes)
        try:
            if room.limit_bytes is not None:
                report.graph.reserved_within(room.limit_bytes)
            break
        except BudgetError:
            if k + 1 == STEPS:
                raise
            budget = int(budget * LESS)
    return budget, report


def cost(report: Report) -> str:
    graph = report.graph
    extra = "not known" if math.isnan(graph.overhead) else f"about {graph.overhead:+.1%}"
    return (
        f"{in_units(graph.most_bytes)} at its peak instead of {in_units(graph.keep_all_bytes)}, extra time {extra} at"
        f" achieved rates\n{len(graph.recomputed)} of {graph.n_operators} operators run again; the same loss and gradients"
    )
