"""Advice on a planned step, as sentences with numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from memplan.budget import in_units

if TYPE_CHECKING:
    from memplan.plan.graph_report import GraphReport

WORTH_A_WORD = 0.1  # share of the peak; advice about a smaller amount is omitted
NEAR = 0.005  # if the extra time is this close to the lower bound, a better plan is not worth a search


def what_would_help(graph: GraphReport) -> list[str]:
    found = []
    peak = graph.planned_bytes
    gradients = sum(h.n_bytes for h in graph.holders if h.kind == "gradient")
    if graph.planned_bytes - graph.floor_bytes > WORTH_A_WORD * peak:
        found.append(
            f"less memory: this plan needs {in_units(peak)}, and no order of operators needs less than"
            f' {in_units(graph.floor_bytes)}; budget="min" uses the smallest plan that is found'
        )
    if graph.overhead > 0 and not math.isnan(graph.proved_overhead):
        if graph.overhead - graph.proved_overhead < NEAR:
            found.append(
                f"less extra time: increase the memory over {in_units(graph.budget_bytes)}, or add copies"
                ' (offload="32GiB"); within this budget, every plan without copies takes at least'
                f" {graph.proved_overhead:+.1%}"
            )
        else:
            found.append(
                f'less extra time: try effort="thorough"; this plan takes {graph.overhead:+.1%}, and the proved'
                f" bound is {graph.proved_overhead:+.1%}"
            )
    if gradients > WORTH_A_WORD * peak:
        found.append(
            f"{in_units(gradients)} of the peak are gradients of parameters; memplan.TrainStep frees each gradient"
            " when its parameter is updated"
        )
    if graph.static_bytes > 0.5 * peak:
        found.append(
            f"{in_units(graph.static_bytes)} of the peak are parameters, inputs and other counted memory, which no"
            " plan changes; a smaller type, an optimizer with less state, or adapters reduce them"
        )
    return found
