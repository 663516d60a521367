"""The notes of a plan's report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memplan.costs.interpolation import BETWEEN
from memplan.plan.other_sizes import REPLAYED

if TYPE_CHECKING:
    from memplan.plan.planner import GraphPlanner

MARKS_IGNORED = "memplan plans the marks of torch.utils.checkpoint like other operators"
CUT_SHORT = "the search was cut short (time_limit=, progress=); a longer search may find a faster plan"


def notes_of(planner: GraphPlanner) -> list[str]:
    """Return notes for the report: ignored checkpoint marks, an early stop, a replayed plan, interpolated
    seconds, chunks."""
    marked = any("recompute" in node.meta for node in planner.capture.joint.graph.nodes)
    is_between = any(cost.is_between for cost in planner.costs.values())
    notes = {MARKS_IGNORED: marked, CUT_SHORT: planner.was_cut_short, REPLAYED: planner.is_replayed, BETWEEN: is_between}
    chunks, choice = planner.chunks, planner.choice
    for name, n in (("the head and its loss are", chunks.head), ("each MLP is", chunks.mlp)):
        notes[f"{name} computed in {n} chunks of rows; some results differ from eager's in rounding"] = n > 1
    if choice is not None:
        notes[f"the logits stay whole: {choice.reason}"] = bool(choice.reason)
    return [note for note, is_true in notes.items() if is_true]
