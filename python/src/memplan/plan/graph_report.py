"""The public class GraphReport: the plan of one graph."""

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
from memplan.graph.row_regions import Chunks
from memplan.library.planning import Planning
from memplan.library.quantities import process_memory
from memplan.memory.allocator import NotSimulated, OutOfMemory, Settings
from memplan.memory.host import Pool
from memplan.memory.trace import Trace
from memplan.plan.holders import Holder, who_holds
from memplan.plan.overlapped_collectives import Time


@dataclass(frozen=True)
class Recomputed:
    """An operator that runs more than once per step."""

    name: str
    op: str
    runs: int
    module: str  # innermost module that contains the operator; "": unknown
    seconds: float  # seconds of one run


@dataclass(frozen=True)
class Copied:
    """A tensor that a step copies to host memory once and back one or more times."""

    name: str
    n_bytes: int
    n_back: int


@dataclass
class GraphReport:
    """The plan of one captured graph at one set of input sizes. Byte counts include all memory in use at the peak."""

    name: str
    budget_bytes: int
    planned_bytes: int  # peak of a step in the graphs as executed, with the observed use of outputs
    most_bytes: int  # peak of a step if all outputs and their gradients live until its end
    forward_bytes: int  # peak during forward
    keep_all_bytes: int
    floor_bytes: int  # certified lower bound in bytes on the peak of any order of the graph's operators
    static_bytes: int  # parameters, buffers, inputs, and the reserved or optimizer bytes that the user named
    saved_bytes: int  # bytes of the tensors saved from forward to backward
    waiting_bytes: int  # bytes at the end of forward: saved tensors, and outputs for the user
    overhead: float  # extra time as a fraction of keep-all, by operator costs; NaN: unknown
    proved_overhead: float  # lower bound on the overhead of every plan within the budget; NaN: unknown
    seconds: float  # seconds of a step: the sum over its operators; NaN: unknown
    plan_seconds: float  # seconds of capture, measurement and search
    n_operators: int
    recomputed: list[Recomputed]
    copied: list[Copied]
    host_bytes: int  # host memory for copies and optimizer state; 0 if unused
    collectives: Time  # time of collectives that gather parameters and reduce gradients
    # the pool of host memory that the copies of this graph use; None: the graph has no copies
    pool: Pool | None = field(repr=False)
    device_type: str  # type of the device that runs the graph, such as "cuda"
    context_bytes: int | None  # bytes that a GPU's context occupies outside of the allocator; None without a GPU
    notes: list[str]  # notes for the user on surprising properties of the plan
    peak_at: str  # the operator that runs at the plan's peak
    holders: list[Holder] = field(repr=False)  # the non-static tensors in memory at the peak, largest first
    planning: Planning = field(repr=False)
    trace: Trace = field(repr=False)
    capture: Capture = field(repr=False)
    costs: dict[fx.Node, Cost] = field(repr=False)
    chunks: Chunks = field(default_factory=Chunks)  # numbers of chunks of rows
    card: str = ""  # the card named by `device=`
    others_bytes: int = 0  # part of static_bytes: tensors that other calls keep for their backward
    frame: Any = None  # identifier of the captured user code; equal for all graphs of this code
    cut_at: str = ""  # position of the graph break, FILE:LINE
    gradients_elsewhere_bytes: int = 0  # part of static_bytes: gradients of parameters in other graphs
    state_bytes: int = 0  # part of host_bytes that contains optimizer state
    in_flight: int = 1  # the largest number of calls awaiting backward, the current call included
    in_halves: bool = False  # whether a pipeline schedule may run backward in two parts
    results_bytes: int = 0  # part of forward_bytes: results of earlier calls, which user code replaces at the end of forward
    stored_bytes: int = 0  # part of static_bytes: tensors that user code stores, observed after the plan was made
    is_seen: bool = False  # whether memplan has observed which outputs the user keeps

    def __deepcopy__(self, _: Any) -> GraphReport:
        return self  # a deep copy is the object itself, because a GraphReport does not change

    def take_seen(self, n_bytes: int) -> None:
        """Record the peak of a step, counted with the outputs that user code held and used in that step.

        `planned_bytes` becomes the largest recorded peak.
        """
        self.planned_bytes = min(self.most_bytes, max(n_bytes, self.planned_bytes if self.is_seen else 0))
        self.is_seen = True

    def stay(self, n_bytes: int, at_end: int) -> None:
        """Add `n_bytes` of memory that exists during the whole step. `at_end`: all bytes in memory at the end of forward."""
        self.static_bytes += n_bytes
        self.stored_bytes += n_bytes
        self.most_bytes = max(self.most_bytes + n_bytes, at_end)
        self.planned_bytes = max(self.planned_bytes + n_bytes, at_end)

    def forward_peak(self, results_bytes: int) -> int:
        """Return the peak of forward if results of earlier calls of this size exist during forward."""
        return self.static_bytes + self.forward_bytes - self.results_bytes + results_bytes

    def carry(self, results_bytes: int) -> None:
        """Set the bytes of results of earlier calls that exist during forward."""
        peak = self.forward_peak(results_bytes)
        self.forward_bytes, self.results_bytes = peak - self.static_bytes, results_bytes
        self.most_bytes, self.planned_bytes = max(self.most_bytes, peak), max(self.planned_bytes, peak)

    @property
    def n_chunks(self) -> int:
        """Number of chunks of rows in which the head and its loss are computed."""
        return self.chunks.head

    @property
    def out_bytes(self) -> int:
        """Bytes copied to host memory per step."""
        return sum(c.n_bytes for c in self.copied)

    @property
    def back_bytes(self) -> int:
        """Bytes copied back from host memory per step."""
        return sum(c.n_bytes * c.n_back for c in self.copied)

    @functools.cached_property
    def reserved_bytes(self) -> int | None:
        """The bytes that CUDA's caching allocator reserves for this step, by simulation.

        The simulation uses the allocator settings of the environment. None if these settings cannot be simulated.
        """
        try:
            return self.trace.reserved_bytes(Settings.from_environment())
        except NotSimulated:
            return None

    @property
    def process_bytes(self) -> int | None:
        """The memory of the process: reserved bytes and the CUDA context with loaded kernels. None if the card is unknown."""
        if self.reserved_bytes is None:
            return None
        if self.context_bytes is not None:
            return self.reserved_bytes + self.context_bytes
        known = process_memory(self.card, "other", self.reserved_bytes)
        return known.process_bytes if known is not None else None

    def reserved_within(self, memory: int | str, settings: Settings | None = None) -> int:
        """Simulate CUDA's caching allocator on a device with limited memory. A full allocator frees cached blocks.

        Args:
            memory: bytes that the allocator may reserve, such as "8GiB".
            settings: allocator settings; None reads them from the environment.

        Returns:
            The reserved bytes.

        Raises:
            BudgetError: the step does not fit.
        """
        limit = only_bytes(memory)
        try:
            return self.trace.reserved_bytes(settings or Settings.from_environment(), limit)
        except OutOfMemory as error:
            raise BudgetError(f"{self.name} does not fit a device of {in_units(limit)}: {error}", budget_bytes=limit) from None

    def _reserved(self) -> str:
        if self.reserved_bytes is None:
            return "CUDA's allocator cannot be simulated with these settings"
        reserved = f"CUDA's allocator reserves {in_units(self.reserved_bytes)} for it"
        if self.process_bytes is None:
            return f"{reserved}; the CUDA context and libraries need additional memory"
        return f"{reserved}; the process needs {in_units(self.process_bytes)} with the CUDA context and loaded kernels"

    def _on_host(self) -> str:
        state = f" ({in_units(self.state_bytes)} are the optimizer's state)" if self.state_bytes else ""
        return (
            f"{in_units(self.host_bytes)} of host memory{state}: {len(self.copied)} tensors are copied,"
            f" {in_units(self.out_bytes)} out and {in_units(self.back_bytes)} back"
        )

    def _carried(self) -> str:
        return f"{in_units(self.results_bytes)} of results of earlier calls exist during forward, because user code stores them"

    def _let_go(self) -> str:
        return (
            f"{in_units(self.most_bytes)} if all returned values and their gradients live until the end, which the"
            " other numbers assume; earlier steps have freed some of them before"
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
            *([self._carried()] if self.results_bytes else []),
            *([self._let_go()] if self.planned_bytes < self.most_bytes else []),
            *self.notes,
        ]
        return "\n  ".join(lines)
