"""Callables for torch.compile, which keeps them until torch._dynamo.reset. They keep no backend, plans or parameters."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import fx

from memplan.errors import MemplanError
from memplan.torch_internals.leaves import compiled_from_beginning

if TYPE_CHECKING:
    from memplan.run.backend import Backend

NAME = "memplan"  # by which torch.compile knows the backend


class Handed:
    """The backend as torch.compile gets it, which keeps what it gets until torch._dynamo.reset: it does not keep the backend,
    with which plans, graphs and parameters would stay. Who calls what is compiled has to."""

    def __init__(self, backend: Backend) -> None:
        self.backend = weakref.ref(backend)
        self.__name__ = backend.__name__

    def __call__(self, module: fx.GraphModule, inputs: list[Any], **_: Any) -> Callable[..., Any]:
        backend = self.backend()
        if backend is None:
            return raising(MemplanError("what was compiled is gone"))
        return compiled_from_beginning(backend, module, inputs)


def weakly(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, which does not keep its object: for what PyTorch keeps."""
    kept = weakref.WeakMethod(method)

    def call(*told: Any, **known: Any) -> Any:
        return found(*told, **known) if (found := kept()) is not None else None

    return call


def raising(error: Exception) -> Callable[..., Any]:
    """Instead of a compiled graph: raises when it is called. PyTorch wraps what is raised while it compiles."""

    def call(*_: Any) -> Any:
        raise error.with_traceback(None)

    return call
