"""What was planned for one graph."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from memplan.budget import in_units, only_bytes
from memplan.costs.measure import Cost
from memplan.errors import BudgetError
from memplan.graph.capture import Capture
from memplan.library.planning import Planning
from memplan.memory.allocator import NotSimulated, OutOfMemory, Settings
from memplan.memory.host import Pool
from memplan.memory.trace import Trace
from memplan.plan.ahead import Time
from memplan.plan.holders import Holder, who_holds


@dataclass(frozen=True)
class Recomputed:
    """An operator that runs more than once in a step."""

    name: str
    op: str
    runs: int
    module: str  # the innermost module it is from, "" if not known
    seconds: float  # of one run


@dataclass(frozen=True)
class Copied:
    """A tensor that a step copies to the host's memory once, and back."""

    name: str
    n_bytes: int
    n_back: int


@dataclass
class GraphReport:
    """Of one graph that PyTorch captured, at one set of sizes. Bytes are of everything that is in memory at the peak."""

    name: str
    budget_bytes: int
    planned_bytes: int  # the peak of the graphs that run, counted on them as they were used since
    most_bytes: int  # the same where all that is returned, and its gradients, are there until the end
    forward_bytes: int  # the peak of forward
    keep_all_bytes: int
    floor_bytes: int  # proved: no order of these operators needs less
    static_bytes: int  # parameters, buffers, inputs; of the rest what was said to be there
    saved_bytes: int  # what lives from forward to backward
    waiting_bytes: int  # that, and what the user is given
    overhead: float  # extra time over keep-all, as a fraction of it, by the costs of operators; NaN: not known
    proved_overhead: float  # no plan within the budget takes less; NaN
    seconds: float  # of a step, the sum over its operators; NaN: not known
    plan_seconds: float  # what capture, measuring and search took
    n_operators: int
    recomputed: list[Recomputed]
    copied: list[Copied]
    host_bytes: int  # of the host's memory, for copies and state; 0: there are none
    collectives: Time  # of the parameters that are gathered, and of sums of gradients
    pool: Pool | None = field(repr=False)  # that has them
    device_type: str  # on which it runs
    context_bytes: int | None  # of a GPU, taken beside what the allocator has; None without one
    notes: list[str]  # what a plan does otherwise than one may expect
    peak_at: str  # the operator that runs at the plan's peak
    holders: list[Holder] = field(repr=False)  # what comes and goes and is in memory there, largest first
    planning: Planning = field(repr=False)
    trace: Trace = field(repr=False)
    capture: Capture = field(repr=False)
    costs: dict[fx.Node, Cost] = field(repr=False)
    measured_bytes: int | None = None  # by Inductor's feedback
    rounds: int = 1  # of planning and measuring
    others_bytes: int = 0  # of static_bytes: what other calls keep for their backward
    frame: Any = None  # of the user's code, as PyTorch numbers it
    cut_at: str = ""  # where PyTorch has cut the code, FILE:LINE
    gradients_elsewhere_bytes: int = 0  # of static_bytes: gradients of parameters that are in other graphs
    state_bytes: int = 0  # of host_bytes: the optimizer's state
    in_flight: int = 1  # calls of it that wait for their backward at most, the one that runs included
    in_halves: bool = False  # its backward may be asked for in two parts
    is_seen: bool = False  # how what is returned is used

    def __deepcopy__(self, _: Any) -> GraphReport:
        return self  # what was planned does not change

    def take_seen(self, n_bytes: int) -> None:
        """What is returned was used in a way that takes so much: the most of these is what was planned."""
        self.planned_bytes = min(self.most_bytes, max(n_bytes, self.planned_bytes if self.is_seen else 0))
        self.is_seen = True

    @property
    def out_bytes(self) -> int:
        """Copied to the host's memory in a step."""
        return sum(c.n_bytes for c in self.copied)

    @property
    def back_bytes(self) -> int:
        """Copied from there."""
        return sum(c.n_bytes * c.n_back for c in self.copied)

    @functools.cached_property
    def reserved_bytes(self) -> int | None:
        """What CUDA's caching allocator reserves for this step with the settings of the environment, wherever the graph
        runs; None where they cannot be simulated."""
        try:
            return self.trace.reserved_bytes(Settings.from_environment())
        except NotSimulated:
            return None

    def reserved_within(self, memory: int | str, settings: Settings | None = None) -> int:
        """The same on a device that has so much for the allocator, and gives back what is cached when it is full. A
        BudgetError where the step does not fit."""
        limit = only_bytes(memory)
        try:
            return self.trace.reserved_bytes(settings or Settings.from_environment(), limit)
        except OutOfMemory as error:
            raise BudgetError(f"{self.name} does not fit a device of {in_units(limit)}: {error}", budget_bytes=limit) from None

    def _reserved(self) -> str:
        if self.reserved_bytes is None:
            return "what CUDA's allocator reserves is not simulated with these settings"
        context = "" if self.context_bytes is None else f" ({in_units(self.context_bytes)} here)"
        return (
            f"CUDA's allocator reserves {in_units(self.reserved_bytes)} for it; its context and libraries come on top{context}"
        )

    def _on_host(self) -> str:
        state = f" ({in_units(self.state_bytes)} are the optimizer's state)" if self.state_bytes else ""
        return (
            f"{in_units(self.host_bytes)} of the host's memory{state}: {len(self.copied)} tensors are copied there,"
            f" {in_units(self.out_bytes)} out and {in_units(self.back_bytes)} back"
        )

    def _let_go(self) -> str:
        return (
            f"{in_units(self.most_bytes)} where all that is returned, and its gradient, is there until the end, as the other"
            " numbers here count it: steps so far have let go of some before"
        )

    def __str__(self) -> str:
        extra = "not known" if math.isnan(self.overhead) else f"{self.overhead:+.1%}"
        proved = "" if math.isnan(self.proved_overhead) else f", and no plan takes less than {self.proved_overhead:+.1%}"
        lines = [
            f"{self.name}: {in_units(self.planned_bytes)} at its peak, within {in_units(self.budget_bytes)}",
            f"its peak is {who_holds(self.peak_at, self.holders, self.static_bytes)}",
            f"keeping everything takes {in_units(self.keep_all_bytes)}; no order of operators takes less than"
            f" {in_units(self.floor_bytes)}, of which {in_units(self.static_bytes)} are static",
            f"extra time {extra}{proved}; {len(self.recomputed)} of {self.n_operators} operators run again",
            *([self._on_host()] if self.copied else []),
            *([str(self.collectives)] if self.collectives.seconds else []),
            self._reserved(),
            *([self._let_go()] if self.planned_bytes < self.most_bytes else []),
            *self.notes,
        ]
        return "\n  ".join(lines)
