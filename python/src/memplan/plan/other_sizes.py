"""Plans of the same graph at other input sizes, such as batches padded to other lengths.

A searched plan is kept. At another size its steps are replayed with the bytes and seconds of that size, and checked like any
plan. They replace a search if they fit the budget and are not much slower than a search is expected to be:

- Room is the share of the activations that the budget can hold. At equal room, plans of all lengths take about the same
  extra time.
- With less room, a plan takes more time. The extra time grows at most like the missing room to the power STEEPNESS. From the
  kept plans memplan therefore estimates the least extra time that a search can reach.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from memplan.errors import MemplanError
from memplan.library.planning import NO_BUDGET, Plan
from memplan.ranks.rank_group import in_memory, saved

if TYPE_CHECKING:
    from memplan.plan.options import Options
    from memplan.plan.planner import GraphPlanner

MOST_SLOWER = 0.02  # a replayed plan may take this share of the step longer than the expected plan of a search
STEEPNESS = 4  # extra time grows as a power of the missing room; measured exponents are 2 to 4
MOST_KEPT = 32  # per graph: the number of searched plans that are kept
REPLAYED = "the plan was found for another input size and is replayed at this size, without a search"


@dataclass
class Kept:
    """A searched plan. `room`: share of the activations that its budget holds. `overhead`: extra time, as a share."""

    plan: Plan
    room: float
    overhead: float

    def least(self, room: float) -> float:
        """Return the least extra time that a search for this room is expected to reach."""
        missing = (1 - room) / (1 - self.room)
        return self.overhead * min(1.0, missing**STEEPNESS)


@dataclass
class OtherSizes:
    """The searched plans of one model, by graph."""

    kept: dict[str, list[Kept]] = field(default_factory=dict)

    def searched(self, planner: GraphPlanner, target: int | None, options: Options) -> bool:
        """Find a plan within the target (None: the smallest), by replay or by a search. Return whether there is one."""
        planner.is_replayed = False
        planning = planner.planning
        dynamic = planning.number("keep_all_bytes") - planner.static_bytes
        if target is None or target == NO_BUDGET or target - planner.static_bytes >= dynamic:
            return planner.searched(target, options)
        room = (target - planner.static_bytes) / dynamic
        kept = self.kept.setdefault(text_of(planner), [])
        if self._replayed(planner, target, room, kept):
            planner.is_replayed = True
            return True
        found = planner.searched(target, options)
        if found and not planning.was_ended:
            with in_memory(saved(planning.save_plan)) as path:
                kept.append(Kept(planning.read(path), room, planning.share("planned_ticks")))
            del kept[:-MOST_KEPT]
        return found

    def _replayed(self, planner: GraphPlanner, target: int, room: float, kept: list[Kept]) -> bool:
        least = max((k.least(room) for k in kept), default=0.0)
        for one in sorted(kept, key=lambda k: k.overhead):
            with contextlib.suppress(MemplanError):
                if planner.planning.replay(target, one.plan):
                    return planner.planning.share("planned_ticks") <= least + MOST_SLOWER
        return False


def text_of(planner: GraphPlanner) -> str:
    """Return a text that is equal for the same graph at other sizes. It only selects plans; each selected plan is checked."""
    capture = planner.capture
    nodes = [(o.op, o.phase, o.reads, o.writes, o.in_place, o.once) for o in capture.operations]
    copied = planner.host is not None and (sorted(planner.host.makers), sorted(capture.moved))
    return str((nodes, [s.kind for s in capture.storages], capture.fuse, copied))
