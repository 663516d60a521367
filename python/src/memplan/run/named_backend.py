"""torch.compile(model, backend="memplan"): the backend by name, with options as a dictionary."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from memplan.errors import MemplanError
from memplan.plan.options import Options
from memplan.run.backend import Backend
from memplan.run.compiled_callables import NAME, raising
from memplan.torch_internals import capture

BY_OPTIONS: dict[int, tuple[dict[str, Any], Backend]] = {}


def options_from(given: dict[str, Any]) -> Options:
    names = {f.name for f in dataclasses.fields(Options)}
    if wrong := sorted(set(given) - names):
        raise MemplanError(f"there is no option {wrong[0]!r}; use {', '.join(sorted(names))} or report")
    return Options(**given)


def dynamo_backend(
    module: fx.GraphModule, inputs: list[Any], *, options: dict[str, Any] | None = None, **_: Any
) -> Callable[..., Any]:
    """Compile a graph for torch.compile(model, backend="memplan", options={"budget": "8GiB"}).

    The option `report` is a memplan.Report, which memplan fills.
    """
    given = options if options is not None else {}
    if id(given) not in BY_OPTIONS or BY_OPTIONS[id(given)][0] is not given:
        rest = {k: v for k, v in given.items() if k != "report"}
        try:
            BY_OPTIONS[id(given)] = (given, Backend(options_from(rest), given.get("report")))
        except MemplanError as error:
            return raising(error)
    return while_frozen(BY_OPTIONS[id(given)][1](module, inputs), module, inputs)


def while_frozen(run: Callable[..., Any], module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Wrap a graph so that it raises MemplanError if the user has unfrozen a parameter since the capture.

    PyTorch up to 2.10 would run the old capture, which computes no gradient for this parameter. (memplan.compile makes PyTorch
    check this.) Parameters are inputs of the graph; in PyTorch 2.4 they belong to the module.
    """
    frozen = [k for k, i in enumerate(inputs) if isinstance(i, torch.Tensor) and not i.requires_grad]
    frozen_inside = [p for p in module.parameters() if not p.requires_grad]

    def call(*inputs: Any) -> Any:
        is_freed = any(inputs[k].requires_grad for k in frozen) or any(p.requires_grad for p in frozen_inside)
        if is_freed and torch.is_grad_enabled():
            raise MemplanError(
                "a parameter that was frozen at capture now requires a gradient, but PyTorch reuses the capture."
                " Call torch.compiler.reset() after unfreezing parameters, or use memplan.compile"
            )
        return run(*inputs)

    return call


def register() -> None:
    """Register backend="memplan" for a package that is imported without being installed."""
    capture.register(dynamo_backend, NAME)
