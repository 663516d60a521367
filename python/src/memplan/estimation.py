"""The public function `estimate`: the memory of a step and of a plan without running the step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memplan.api import backend_for, report_of
from memplan.budget import Budget
from memplan.mesh.rank_estimate import estimate_on, estimate_sharded, is_on_fake_ranks
from memplan.report import Report
from memplan.run.backend import Backend


def estimate(
    model: Any,
    inputs: Sequence[Any],
    *,
    budget: Budget = "100%",
    kwargs: dict[str, Any] | None = None,
    mesh: Any = None,
    **options: Any,
) -> Report:
    """Estimate the memory of a training step and of a plan within the budget, without running the step.

    Args:
        model: a module or a function. A model that is sharded on a fake process group needs no `mesh`.
        inputs: the inputs of one call. With `mesh`, the inputs of one rank.
        mesh: the number of ranks per direction, such as {"dp": 2, "shard": 8, "tp": 4}: replicas, ranks that shard parameters,
            gradients and optimizer state, and ranks that split operators. The estimate is for one rank.
        **options: as in `compile`. With `mesh` also:
            tp_plan: as for parallelize_module, {"layers.*.up": ColwiseParallel(), ...}, or a function of model and mesh;
            blocks: classes of modules that fully_shard gathers one at a time (default: items of outer ModuleLists);
            shard: further options of fully_shard, such as {"mp_policy": MixedPrecisionPolicy(torch.bfloat16)}.
    """
    if mesh is not None:
        return estimate_on(mesh, model, inputs, budget=budget, kwargs=kwargs or {}, **options)
    if is_on_fake_ranks(model):
        return estimate_sharded(model, inputs, budget=budget, kwargs=kwargs or {}, **options)
    optimizer, accumulate = options.pop("optimizer", None), options.pop("accumulate", False)
    backend = backend_for(Backend, model, [optimizer], accumulate, budget=budget, only_report=True, **options)
    return report_of(backend, model, inputs, kwargs or {})
