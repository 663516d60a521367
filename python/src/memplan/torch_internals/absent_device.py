"""Captures for an absent device: the apparent device of tensors, and autocast regions that PyTorch disables."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.fx.experimental import proxy_tensor

from memplan.torch_internals import engine
from memplan.torch_internals.dispatch import FAKE
from memplan.torch_internals.names import Private

NUMBERS_KEPT = "CONSTANT_NUMEL_LIMIT"  # PyTorch's setting: captures evaluate constants of at most this many elements
AWAY = torch.device("meta")
FAKE_TENSOR = Private(
    "torch._subclasses.fake_tensor.FakeTensor",
    use="captures a model on the meta device for a named device",
    lost=engine.NO_BACKWARD,
)
SWITCH = Private(
    "_enabled",
    use="tells whether PyTorch has disabled an autocast region",
    lost="autocast regions that decorate a forward have no effect without a GPU",
    of=lambda: torch.autocast("cpu", enabled=False),
)


@contextlib.contextmanager
def placing_on(device: torch.device, goes_on: Callable[[], bool]) -> Iterator[None]:
    """Place captured tensors on this device instead of the meta device, while `goes_on` is True. Raises MemplanError."""
    for name in (FAKE_TENSOR, FAKE, engine.INPUT_METADATA):
        name.need()
    kind = FAKE_TENSOR.get()
    make = kind.__new__

    def moved(value: Any) -> Any:
        is_place = isinstance(value, (str, torch.device)) and goes_on()
        return device if is_place and torch.device(value).type == AWAY.type else value

    def made(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return make(cls, *map(moved, args), **{name: moved(value) for name, value in kwargs.items()})

    FAKE.get().cache_clear()
    try:
        with mock.patch.object(kind, "__new__", made):
            yield
    finally:
        FAKE.get().cache_clear()  # the cache contains results of operators that name the meta device, which are invalid now


@contextlib.contextmanager
def gpu_is_there(model: Any, honours: bool) -> Iterator[list[Any]]:
    """Behave within the context as if a GPU existed: autocast regions are enabled, and gradients need no GPU.

    `honours`: also enable the autocast regions of forwards that PyTorch has disabled. The context yields these regions.
    """
    off = switched_off(model, "cuda") if honours and SWITCH and not torch.cuda.is_available() else []
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(torch.autograd, "grad", engine.gradients))
        # with the default limit, captures would copy constants to the GPU
        stack.enter_context(mock.patch.object(proxy_tensor, NUMBERS_KEPT, -1))
        stack.enter_context(mock.patch.object(torch.cuda, "is_bf16_supported", lambda *_, **__: True))
        stack.enter_context(mock.patch.object(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False))
        for region in off:
            stack.enter_context(mock.patch.object(region, SWITCH.paths[0], True))
        yield off


def switched_off(model: Any, kind: str) -> list[Any]:
    """Return disabled autocast regions that modules store or that decorate their forwards."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    found: dict[int, Any] = {}
    for module in modules:
        for value in (*vars(module).values(), type(module).forward):
            found.update({id(region): region for region in regions_of(value)})
    if not modules:
        found = {id(region): region for region in regions_of(model)}
    return [region for region in found.values() if region.device == kind and not getattr(region, SWITCH.paths[0])]


def regions_of(value: Any) -> Iterator[Any]:
    """Yield the autocast regions of a value: the value itself, or the regions that decorate a function."""
    seen = set()
    while value is not None and id(value) not in seen:
        seen.add(id(value))
        if isinstance(value, torch.autocast):
            yield value
        for cell in getattr(value, "__closure__", None) or ():
            with contextlib.suppress(ValueError):  # reading the contents of an empty closure cell raises ValueError
                if isinstance(cell.cell_contents, torch.autocast):
                    yield cell.cell_contents
        value = getattr(value, "__wrapped__", None) or getattr(value, "__func__", None)
