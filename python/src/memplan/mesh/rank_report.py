"""RankReport: the report of an estimate for one rank of a device mesh."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable

from memplan.budget import in_units
from memplan.costs.measure import BYTES_PER_SECOND
from memplan.errors import MemplanError
from memplan.memory.trace import Trace
from memplan.mesh.fsdp_memory import by_itself, gathers
from memplan.mesh.kinds import OTHER, dynamic_at_peak
from memplan.mesh.ranks import Mesh
from memplan.plan.options import Options
from memplan.plan.planner import GraphPlanner
from memplan.report import Report


class RankReport(Report):
    """The report on rank 0, whose shards are the largest.

    `static`: static bytes by kind. `again`: estimates another mesh with the same options.
    """

    def __init__(self, mesh: Mesh, n_blocks: int, static: dict[str, int], again: Callable[[Mesh], RankReport]) -> None:
        super().__init__()
        self.mesh, self.n_blocks, self.static, self.again = mesh, n_blocks, static, again
        self.planner: GraphPlanner | None = None
        self.options: Options | None = None
        self.notes: list[str] = []

    @functools.cached_property
    def kinds(self) -> dict[str, int]:
        """The bytes at the plan's peak, by kind."""
        return self.all_kinds(self.graph.trace)

    def all_kinds(self, trace: Trace) -> dict[str, int]:
        found = dict(Counter(self.static) + Counter(dynamic_at_peak(trace, self.graph.capture)))
        found[OTHER] = self.graph.static_bytes - sum(self.static.values())
        return {kind: n for kind, n in found.items() if n}

    @property
    def step_seconds(self) -> float:
        """Seconds of forward and backward, without the collectives' time that compute hides."""
        return self.seconds - self.graph.collectives.hidden

    @functools.cached_property
    def smallest_bytes(self) -> int:
        """The peak of the smallest plan, which is the smallest budget."""
        if self.planner is None or self.options is None:
            raise MemplanError("nothing is planned, so there is no smallest budget")
        return self.planner.smallest(self.options).peak_bytes

    @functools.cached_property
    def fsdp_kinds(self) -> dict[str, int]:
        """Peak bytes of a rank under FSDP2 without a plan, per kind of storage; {} if no parameter is sharded."""
        if self.planner is None or not gathers(self.graph.capture):
            return {}
        return self.all_kinds(self.planner.trace(by_itself(self.planner)))

    @property
    def fsdp_bytes(self) -> int:
        """The bytes of FSDP2 without a plan at the peak: the sum of `fsdp_kinds`."""
        return sum(self.fsdp_kinds.values())

    @functools.cached_property
    def wider(self) -> RankReport:
        """The report of the same step on a mesh with twice as many ranks."""
        return self.again(self.mesh.twice())

    def scalars(self) -> dict[str, float]:
        named = {f"bytes of {kind}": n for kind, n in self.kinds.items()}
        return super().scalars() | named | {"ranks": self.mesh.n_ranks, "step_seconds": self.step_seconds}

    def _seconds(self) -> str:
        device = self.options.device if self.options is not None else None
        network = f"at {BYTES_PER_SECOND / 1e9:.0f} GB/s a rank" if device is None else f"on {device.network}"
        return f"{self.step_seconds:.3g} s a step without the update, beside collectives {network}"

    def table(self) -> list[str]:
        width = max(map(len, self.kinds))
        return [f"  {kind:{width}} {in_units(n):>11}" for kind, n in sorted(self.kinds.items(), key=lambda pair: -pair[1])]

    def more(self) -> str:
        """Return lines that require another search or estimate: the smallest budget, and a mesh of twice the ranks."""
        wider = self.wider
        static = in_units(wider.static_bytes)
        seconds = "" if math.isnan(self.seconds) else f", {wider.step_seconds:.3g} s a step"
        return (
            f"the smallest budget is {in_units(self.smallest_bytes)}\n"
            f"on {wider.mesh}: {in_units(wider.planned_bytes)} at its peak, {static} of them static{seconds}"
        )

    def __str__(self) -> str:
        if not self.graphs:
            return super().__str__()
        blocks = f", {self.n_blocks} blocks gathered one at a time" if self.mesh.shards > 1 else ""
        seconds = [] if math.isnan(self.seconds) else [self._seconds()]
        lines = [
            f"a rank of {self.mesh} ({self.mesh.n_ranks} in all){blocks}",
            super().__str__(),
            *seconds,
            "at its peak, by kind",
        ]
        return "\n".join([*lines, *self.table(), *self.notes])
