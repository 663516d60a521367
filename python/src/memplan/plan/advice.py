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
            f"less memory: this plan takes {in_units(peak)}, and what no order of operators can do without is"
            f' {in_units(graph.floor_bytes)}; budget="min" takes the smallest plan that is found'
        )
    if graph.overhead > 0 and not math.isnan(graph.proved_overhead):
        if graph.overhead - graph.proved_overhead < NEAR:
            found.append(
                f"less extra time: only with more memory than {in_units(graph.budget_bytes)} or with copies"
                f' (offload="32GiB"), as without them no plan within it takes less than {graph.proved_overhead:+.1%}'
            )
        else:
            found.append(
                f'less extra time: effort="thorough" may find it, as this plan takes {graph.overhead:+.1%}, and it is proved'
                f" that none takes less than {graph.proved_overhead:+.1%}"
            )
    if gradients > WORTH_A_WORD * peak:
        found.append(
            f"{in_units(gradients)} of the peak are gradients of parameters: memplan.TrainStep lets go of each as soon as its"
            " parameter is updated"
        )
    if graph.static_bytes > 0.5 * peak:
        found.append(
            f"{in_units(graph.static_bytes)} of the peak are parameters, inputs and what is counted beside them, which no plan"
            " changes: a smaller type of numbers, an optimizer that keeps less, or adapters do"
        )
    return found
