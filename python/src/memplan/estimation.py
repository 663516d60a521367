"""The public function `estimate`: the memory of a step and of a plan without running the step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memplan.api import backend_for, report_of
from memplan.budget import Budget, in_units, only_bytes
from memplan.costs.roofline import BEFORE_AMPERE
from memplan.errors import MemplanError
from memplan.library.quantities import process_memory
from memplan.memory.allocator import OutOfMemory, Settings
from memplan.memory.process import Needs, family_of
from memplan.mesh.rank_estimate import estimate_on, estimate_sharded, is_on_fake_ranks
from memplan.report import Report
from memplan.run.backend import Backend
from memplan.step.eager_step import CALLS, COMPILED_AS_EAGER, READS_VALUES, is_compiled_in, recorded_step, runs_backward
from memplan.step.stated_card import stated_card


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
        model: a module or a function. A model that is sharded on a fake process group needs no `mesh`. A function that runs
            forward, backward and the optimizer of a model on the meta device is a whole step: the report then has no plan, but
            `needs`, the memory of the process in which the step runs eagerly. A step accepts three options: `device`, the
            name of a card; `calls`, the number of times that the step runs (default: 3; 1 if the function is the whole loop);
            `memory`, the card's memory that programs see, such as "23.69GiB".
        inputs: the inputs of one call. With `mesh`, the inputs of one rank.
        mesh: the number of ranks per direction, such as {"dp": 2, "shard": 8, "tp": 4}: replicas, ranks that shard parameters,
            gradients and optimizer state, and ranks that split operators. The estimate is for one rank.
        **options: as in `compile`. With `mesh` also:
            tp_plan: as for parallelize_module, {"layers.*.up": ColwiseParallel(), ...}, or a function of model and mesh;
            blocks: classes of modules that fully_shard gathers one at a time (default: items of outer ModuleLists);
            shard: further options of fully_shard, such as {"mp_policy": MixedPrecisionPolicy(torch.bfloat16)}.
    """
    if mesh is None and runs_backward(model):
        return estimate_step(model, inputs, kwargs or {}, **options)
    if mesh is not None:
        return estimate_on(mesh, model, inputs, budget=budget, kwargs=kwargs or {}, **options)
    if is_on_fake_ranks(model):
        return estimate_sharded(model, inputs, budget=budget, kwargs=kwargs or {}, **options)
    optimizer, accumulate = options.pop("optimizer", None), options.pop("accumulate", False)
    backend = backend_for(Backend, model, [optimizer], accumulate, budget=budget, only_report=True, **options)
    return report_of(backend, model, inputs, kwargs or {})


def estimate_step(
    step: Any,
    inputs: Sequence[Any],
    kwargs: dict[str, Any],
    device: str = "",
    calls: int = CALLS,
    memory: int | str | None = None,
    **others: Any,
) -> Report:
    """Return a report with the memory of a process that runs a whole step eagerly. Raises MemplanError."""
    if others:
        raise MemplanError(f"{next(iter(others))}= has no meaning for a whole step; a step accepts device=, calls= and memory=")
    known = process_memory(device, "other", 0) if device else None
    if known is None:
        raise MemplanError(f"device={device!r} is no known GPU; name the card of the step, such as device='rtx3090'")
    requests = recorded_step(step, inputs, kwargs, device.lower() not in BEFORE_AMPERE, calls, stated_card(device))
    report = Report()
    report.notes = [READS_VALUES] if requests.reads_values else []
    report.notes += [COMPILED_AS_EAGER] if is_compiled_in(step) else []
    settings, card_bytes = Settings.from_environment(), only_bytes(memory) if memory is not None else known.card_bytes
    allocator = requests.allocator(settings, known.workspace_bytes)
    room = card_bytes - known.context_bytes
    if card_bytes and allocator.peak_reserved_bytes > room:  # a full allocator frees cached blocks
        try:
            allocator = requests.allocator(settings, known.workspace_bytes, max(0, room))
        except OutOfMemory:
            report.notes.append(f"the step does not fit {device}, whose programs see {in_units(card_bytes)}")
    report.needs = Needs.of(
        device,
        family_of(requests.operators, requests.has_halves),
        allocator.peak_allocated_bytes,
        allocator.peak_reserved_bytes,
        card_bytes,
    )
    return report
