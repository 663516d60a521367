"""The public class Report: the plans of a compiled model."""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from memplan.budget import in_units
from memplan.checkpoints.export import Exporter
from memplan.checkpoints.modules import Checkpoints
from memplan.checkpoints.remat import RematExporter
from memplan.costs.measure import peak_of
from memplan.costs.recorded import recorded
from memplan.errors import MemplanError
from memplan.memory.allocator import Settings
from memplan.memory.process import Needs
from memplan.plan.graph_report import Copied, GraphReport, Recomputed
from memplan.plan.holders import Holder
from memplan.plan.page import page
from memplan.plan.snapshot import Requests, snapshot_of

SCALARS = (
    "budget_bytes",
    "planned_bytes",
    "keep_all_bytes",
    "floor_bytes",
    "static_bytes",
    "saved_bytes",
    "reserved_bytes",
    "context_bytes",
    "process_bytes",
    "overhead",
    "proved_overhead",
    "seconds",
    "plan_seconds",
    "n_operators",
    "host_bytes",
    "out_bytes",
    "back_bytes",
)

# the packages that can recompute modules without compilation, with their exporters
EXPORTERS = {"torch": Exporter, "torch_remat": RematExporter}


def exporter(by: str) -> type[Exporter]:
    if by not in EXPORTERS:
        raise MemplanError(f"by= must be {' or '.join(map(repr, EXPORTERS))}, not {by!r}")
    return EXPORTERS[by]


@dataclass
class Fallback:
    """A captured graph that runs eagerly, without a plan, with the reason."""

    name: str
    reason: str


def of_graph(name: str) -> Any:
    """Return a property that reads this attribute from the graph with the largest peak."""
    return property(lambda report: getattr(report.graph, name))


class Report:
    """The report `model.memplan`. The first call of the model fills it.

    Numbers are those of the graph with the largest peak. `str(report)` prints all graphs.
    """

    def __init__(self) -> None:
        self.graphs: list[GraphReport] = []
        self.fallbacks: list[Fallback] = []
        self.needs: Needs | None = None  # memory of the process; None: the card is unknown
        self.notes: list[str] = []  # notes for the user on a whole step
        self.measured_bytes: int | None = None  # peak measured by measure(), in bytes; None: not measured
        self.measured_host_bytes: int | None = None  # peak of copies in host memory in the step that measure() ran

    def is_empty(self) -> bool:
        return not self.graphs and not self.fallbacks

    @property
    def graph(self) -> GraphReport:
        """The graph with the largest peak. Raises MemplanError if no graph is planned."""
        if not self.graphs:
            why = self.fallbacks[-1].reason if self.fallbacks else "the model has not run yet"
            raise MemplanError(f"nothing is planned: {why}")
        return max(self.graphs, key=lambda g: g.planned_bytes)

    budget_bytes: int = of_graph("budget_bytes")
    planned_bytes: int = of_graph("planned_bytes")
    keep_all_bytes: int = of_graph("keep_all_bytes")
    floor_bytes: int = of_graph("floor_bytes")
    static_bytes: int = of_graph("static_bytes")
    saved_bytes: int = of_graph("saved_bytes")
    reserved_bytes: int | None = of_graph("reserved_bytes")
    context_bytes: int | None = of_graph("context_bytes")
    process_bytes: int | None = of_graph("process_bytes")
    overhead: float = of_graph("overhead")
    proved_overhead: float = of_graph("proved_overhead")
    seconds: float = of_graph("seconds")
    recomputed: list[Recomputed] = of_graph("recomputed")
    copied: list[Copied] = of_graph("copied")
    holders: list[Holder] = of_graph("holders")
    host_bytes: int = of_graph("host_bytes")
    out_bytes: int = of_graph("out_bytes")
    back_bytes: int = of_graph("back_bytes")

    def measure(self, step: Callable[[], Any]) -> int:
        """Run a step and return the peak memory in bytes, to compare with `planned_bytes`.

        The peak includes static memory. The step begins without gradients.
        """
        # with graph breaks, the first graph describes the memory at the beginning of the step, when no gradients exist
        has_breaks = any(g.gradients_elsewhere_bytes for g in self.graphs)
        first = self.graphs[0] if has_breaks else self.graph
        # the bytes of `of_the_step` are part of static_bytes, and the measured peak includes them again
        of_the_step = first.others_bytes + first.gradients_elsewhere_bytes
        pools = {id(g.pool): g.pool for g in self.graphs if g.pool is not None}.values()
        for pool in pools:
            pool.measure_from_now()
        self.measured_bytes = first.static_bytes - of_the_step + peak_of(step)
        self.measured_host_bytes = sum(pool.peak_bytes for pool in pools)
        return self.measured_bytes

    def modules(
        self, model: Any, inputs: Sequence[Any], kwargs: dict[str, Any] | None = None, by: str = "torch"
    ) -> Checkpoints:
        """Choose modules for activation checkpointing, for users who cannot compile.

        The chosen modules keep the step within the budget at the least extra time. memplan runs and measures steps on copies
        of the model.

        Args:
            model: the model that was planned.
            inputs: inputs of one step.
            kwargs: keyword arguments of one step.
            by: "torch" for torch.utils.checkpoint, "torch_remat" for torch_remat.checkpoint.
        """
        return exporter(by)(self.graph, model, inputs, kwargs or {}).choose()

    def policy(self, model: Any, inputs: Sequence[Any], kwargs: dict[str, Any] | None = None, by: str = "torch") -> Checkpoints:
        """Choose modules for selective checkpointing. Arguments as in `modules`.

        Within the chosen modules, operators that the plan keeps are saved. With "torch_remat", the saved regions are the
        innermost modules whose results the plan keeps.
        """
        found = exporter(by)(self.graph, model, inputs, kwargs or {})
        return found.choose(found.keepable())

    def timeline(self, path: str | os.PathLike[str]) -> None:
        """Draw the live memory over the steps of the plan, as .svg, .png or .pdf."""
        self.graph.planning.picture(path, self.graph.name)

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Write the steps of the plan with the times of operators, as .json for Perfetto and chrome://tracing."""
        self.graph.planning.trace(path, self.graph.name)

    def snapshot(self, path: str | os.PathLike[str], step: Callable[[], Any] | None = None) -> None:
        """Write the plan as a PyTorch memory snapshot (torch.cuda.memory._snapshot), taken at the peak.

        Device 0 shows the plan in simulated segments of CUDA's allocator.

        Args:
            path: the file to write.
            step: optional; memplan runs this step and writes its allocations as device 1.
        """
        trace = self.graph.trace
        devices = [Requests.of(trace, "planned")]
        if step is not None:
            device = self.graph.device_type
            devices.append(Requests.recorded(recorded(step, device), trace, "measured"))
        with open(path, "wb") as file:
            pickle.dump(snapshot_of(devices, Settings.from_environment()), file)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the training graph as JSON, for `memplan plan`, `sweep`, `draw` and other commands."""
        self.graph.planning.save_graph(path)

    def save_plan(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as JSON, for `memplan check` and `memplan timeline`."""
        self.graph.planning.save_plan(path)

    def scalars(self) -> dict[str, float]:
        """Return the known numbers of the report by name, for TensorBoard, W&B and similar tools."""
        numbers = {name: getattr(self.graph, name) for name in SCALARS}
        numbers |= {"n_recomputed": len(self.recomputed), "n_copied": len(self.copied)}
        numbers |= {"n_graphs": len(self.graphs), "n_not_planned": len(self.fallbacks)}
        numbers |= {"measured_bytes": self.measured_bytes, "measured_host_bytes": self.measured_host_bytes}
        return {name: n for name, n in numbers.items() if n is not None and not math.isnan(n)}

    def __str__(self) -> str:
        lines = [str(self.needs), *self.notes] if self.needs is not None else []
        lines += [str(g) for g in self.graphs]
        lines += [f"{f.name}: not planned: {f.reason}" for f in self.fallbacks]
        if self.measured_bytes is not None:
            lines.append(f"measured: {in_units(self.measured_bytes)}")
        return "\n".join(lines) or "nothing is planned yet"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        others = [f"{f.name}: not planned: {f.reason}" for f in self.fallbacks]
        measured = [] if self.measured_bytes is None else [f"measured: {in_units(self.measured_bytes)}"]
        return page(self.graphs, [*measured, *others])
