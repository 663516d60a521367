"""Callables given to torch.compile. PyTorch keeps them until torch._dynamo.reset, so they hold weak references only."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import fx

from memplan.errors import MemplanError
from memplan.torch_internals.leaves import compiled_from_beginning

if TYPE_CHECKING:
    from memplan.run.backend import Backend

NAME = "memplan"  # the name of the backend in torch.compile


class Handed:
    """The backend as passed to torch.compile, by weak reference.

    PyTorch would otherwise keep the backend with its plans, graphs and parameters until torch._dynamo.reset. The compiled
    function keeps the backend alive.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = weakref.ref(backend)
        self.__name__ = backend.__name__

    def __call__(self, module: fx.GraphModule, inputs: list[Any], **_: Any) -> Callable[..., Any]:
        backend = self.backend()
        if backend is None:
            return raising(MemplanError("the compiled object was deleted; keep a reference to it"))
        return compiled_from_beginning(backend, module, inputs)


def weakly(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a method through a weak reference to its object. PyTorch may keep the function."""
    kept = weakref.WeakMethod(method)

    def call(*told: Any, **known: Any) -> Any:
        return found(*told, **known) if (found := kept()) is not None else None

    return call


def raising(error: Exception) -> Callable[..., Any]:
    """Return a function that raises the error when called. PyTorch would wrap an exception raised during compilation."""

    def call(*_: Any) -> Any:
        raise error.with_traceback(None)

    return call
