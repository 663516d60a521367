"""The public function fit: the largest batch whose step fits a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memplan.budget import Budget
from memplan.errors import BudgetError, MemplanError
from memplan.estimation import estimate
from memplan.plan.other_sizes import MOST_SLOWER, REPLAYED, OtherSizes
from memplan.report import Report
from memplan.run.fallback import CANNOT_CAPTURE


def fit(
    model: Any,
    make_inputs: Callable[[int], Sequence[Any] | Mapping[str, Any]],
    budget: Budget = "auto",
    *,
    overhead: float = 0.2,
    least: int = 1,
    step: int = 1,
    most: int = 1 << 16,
    **options: Any,
) -> tuple[int, Report | None]:
    """Find the largest batch whose step fits the budget with at most this extra time.

    Batches are tried by doubling, then by bisection. Between two measured batches, memplan interpolates operator seconds and
    replays the plan of another batch. If such a plan takes slightly more
    than `overhead`, memplan searches a new one.

    Args:
        model: a module or a function.
        make_inputs: makes the model's inputs for a batch; a dictionary is passed as keyword arguments.
        budget: as in compile.
        overhead: the largest permitted time of recomputation, as a fraction of the step's time.
        least: the smallest batch that is tried. BatchNorm cannot train on 1.
        step: only `least`, `least + step`, `least + 2 * step` and so on are tried.
        most: the largest batch that may be tried.
        **options: as in estimate.

    Returns:
        The batch and its report; 0 and None if not even `least` fits.

    Raises:
        MemplanError: the model cannot train on a batch of `least`.
    """
    for name, value in (("least", least), ("step", step), ("most", most)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise MemplanError(f"{name}={value!r} is not a batch size; use a whole number from 1")
    if most < least:
        raise MemplanError(f"least={least} is larger than most={most}, so there is no batch to try")

    options["other_sizes"] = OtherSizes()

    def tried(batch: int) -> Report | None:
        inputs = make_inputs(batch)
        args, kwargs = ((), dict(inputs)) if isinstance(inputs, Mapping) else (inputs, {})
        try:
            report = estimate(model, args, budget=budget, kwargs=kwargs, **options)
            is_replayed = any(REPLAYED in g.notes for g in report.graphs)
            if is_replayed and overhead < report.overhead <= overhead + MOST_SLOWER:  # a search may find a quicker plan
                report = estimate(model, args, budget=budget, kwargs=kwargs, **{**options, "other_sizes": OtherSizes()})
        except BudgetError:
            return None
        except MemplanError as error:
            if batch > least or not str(error).startswith(CANNOT_CAPTURE):
                raise
            raise MemplanError(f"fit starts with a batch of {least}, but BatchNorm needs a larger least=: {error}") from None
        if math.isnan(report.overhead):
            raise MemplanError("extra time is unknown on the meta device; name a device (device='h100')")
        return report if report.overhead <= overhead else None

    n, best, next_one = 0, None, 1  # n: number of the largest batch size that fits (1 is `least`); best: its report
    above = (most - least) // step + 1  # number of batch sizes from `least` to `most` that the search may try
    while next_one <= above and (found := tried(least + (next_one - 1) * step)) is not None:
        n, best, next_one = next_one, found, 2 * next_one
    above = min(next_one - 1, above)
    while above > n:
        found = tried(least + ((middle := (n + above + 1) // 2) - 1) * step)
        n, best, above = (middle, found, above) if found is not None else (n, best, middle - 1)
    return (least + (n - 1) * step, best) if n else (0, None)
