"""The public function fit: the largest batch whose step fits a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memplan.budget import Budget
from memplan.errors import BudgetError, MemplanError
from memplan.estimation import estimate
from memplan.plan.other_sizes import MOST_SLOWER, REPLAYED, OtherSizes
from memplan.report import Report
from memplan.run.fallback import CANNOT_CAPTURE

GROWTH_OF_ESTIMATES = 128  # a batch is at most this many times the largest batch that fits, as far as known
GROWTH_OF_MEASUREMENTS = 2  # the same, if operators are measured: large batches take long
FIRST_FACTOR = 8  # the second batch, as a multiple of the first
MOST_SLOW = 2  # number of predictions in sequence that do not halve the range of batches, after which memplan bisects


@dataclass
class Curve:
    """A quantity that grows with the batch, and its limit. `points`: its known values by batch."""

    limit: float
    points: dict[int, float] = field(default_factory=dict)

    def crossing(self) -> float | None:
        """Return the batch at which a line through the two points next to the limit reaches the limit; None if unknown."""
        batches = sorted(self.points)
        n_below = sum(self.points[b] <= self.limit for b in batches)
        pair = batches[: n_below + 1][-2:]
        if len(pair) < 2 or self.points[pair[1]] <= self.points[pair[0]]:
            return None
        (a, low), (b, high) = ((b, self.points[b]) for b in pair)
        return a + (self.limit - low) * (b - a) / (high - low)


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

    memplan predicts the largest batch from the batches that it has tried, and tries the batches next to it. If a prediction is
    bad, memplan bisects. Between two measured batches, memplan interpolates operator seconds and replays the plan of another
    batch. If such a plan takes slightly more than `overhead`, memplan searches a new one.

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
    curves = Curve(0), Curve(overhead)

    def tried(batch: int) -> Report | None:
        inputs = make_inputs(batch)
        args, kwargs = ((), dict(inputs)) if isinstance(inputs, Mapping) else (inputs, {})
        try:
            report = estimate(model, args, budget=budget, kwargs=kwargs, **options)
            is_replayed = any(REPLAYED in g.notes for g in report.graphs)
            if is_replayed and overhead < report.overhead <= overhead + MOST_SLOWER:  # a search may find a quicker plan
                report = estimate(model, args, budget=budget, kwargs=kwargs, **{**options, "other_sizes": OtherSizes()})
        except BudgetError as error:
            if error.floor_bytes >= 0:
                curves[0].points[batch] = error.floor_bytes - error.budget_bytes
            return None
        except MemplanError as error:
            if batch > least or not str(error).startswith(CANNOT_CAPTURE):
                raise
            raise MemplanError(f"fit starts with a batch of {least}, but BatchNorm needs a larger least=: {error}") from None
        if math.isnan(report.overhead):
            raise MemplanError("extra time is unknown on the meta device; name a device (device='h100')")
        curves[0].points[batch] = report.floor_bytes - report.budget_bytes
        curves[1].points[batch] = report.overhead
        return report if report.overhead <= overhead else None

    if (best := tried(least)) is None:
        return 0, None
    # n: the largest batch that fits; end: the smallest batch that does not fit, or the first one that may not be tried
    n, end, is_bounded, n_slow = least, least + ((most - least) // step + 1) * step, False, 0
    growth = GROWTH_OF_ESTIMATES if options.get("device") is not None else GROWTH_OF_MEASUREMENTS
    while end - n > step:
        width, guesses = end - n, [guess for curve in curves if (guess := curve.crossing()) is not None]
        middle = (n + end) // 2 if end <= FIRST_FACTOR * n else math.isqrt(n * end)
        batch = int(min(guesses, default=n * FIRST_FACTOR)) if n_slow < MOST_SLOW else middle
        farthest = end - step if is_bounded else min(end - step, max(n * growth, n + step))
        batch = max(n + step, min(batch, farthest))
        batch -= (batch - least) % step
        if (found := tried(batch)) is not None:
            n, best = batch, found
        else:
            end, is_bounded = batch, True
        n_slow = n_slow + 1 if is_bounded and 2 * (end - n) > width else 0
    return n, best
