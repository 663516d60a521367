"""Modules that memplan has compiled in place: their compiled state, and copies without it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar, Protocol

import torch
from torch import nn

from memplan.errors import MemplanError
from memplan.graph.distributed import is_replicated
from memplan.torch_internals.modules import COMPILED, inside

OURS = (COMPILED, "forward", "memplan", "__getstate__", "__deepcopy__")  # memplan's entries in a module's `__dict__`


def inner(model: Any) -> nn.Module | None:
    """Return the module to compile, which for DDP is the replicated module. Return None for a function. Raises MemplanError."""
    if isinstance(model, type) and issubclass(model, nn.Module):
        raise MemplanError(f"{model.__name__} is a class; pass an instance of it to memplan")
    found = model.module if is_replicated(model) else model
    if not isinstance(found, nn.Module):
        return None
    if inside(found) is not None:
        raise MemplanError(
            "this module was compiled by torch.compile for another backend; pass the original module, `_orig_mod`"
        )
    if isinstance(found, torch.jit.ScriptModule):
        raise MemplanError("TorchScript cannot be captured; pass the module that was scripted or traced")
    return found


class Place(Protocol):
    """The compiled state of a module (memplan.run.in_place.InPlace)."""

    is_memplans: ClassVar[bool]
    backend: Any
    run: Any
    fullgraph: bool
    sharded: Any

    def remove(self, module: nn.Module) -> dict[str, Any]: ...

    def out_of(self, module: nn.Module) -> AbstractContextManager[None]: ...

    def can_plan_again(self, module: nn.Module, backend: Any, fullgraph: bool) -> bool: ...

    def plan_again(self, module: nn.Module, backend: Any) -> None: ...


def place_of(module: nn.Module) -> Place | None:
    """Return the compiled state of this module, or None."""
    found: Place | None = vars(module).get(COMPILED)
    return found if getattr(found, "is_memplans", False) else None


@contextmanager
def as_before(model: Any) -> Iterator[None]:
    """Within the context, the model is as it was before compilation."""
    module = inner(model)
    place = place_of(module) if module is not None else None
    with place.out_of(module) if place is not None and module is not None else nullcontext():
        yield


def eager_copy(model: nn.Module, instead: dict[int, Any] | None = None) -> nn.Module:
    """Return a deep copy in which nothing is compiled. `instead` maps ids of objects to replacements."""
    made = copy.deepcopy(model, instead)
    for module in made.modules():
        if (place := place_of(module)) is not None:
            place.remove(module)
    return made
