"""Record a model's last call and its arguments, so that the call can be replayed on fake tensors. Tensor memory is not kept."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from memplan.run.second_order import ambient
from memplan.torch_internals.modules import code_of_call, inside

CALL = code_of_call()  # the code object of the PyTorch frames whose variables hold a called module and its arguments
PLAIN = (int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device)


class Sized:
    """The sizes of a tensor, and a weak reference to it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.layout: dict[str, Any] = {"dtype": tensor.dtype, "device": tensor.device, "requires_grad": tensor.requires_grad}
        self.shape = tuple(tensor.shape)
        self.stride = tuple(tensor.stride()) if tensor.layout is torch.strided else None
        self.tensor = weakref.ref(tensor)

    def empty(self) -> torch.Tensor:
        if self.stride is None:
            return torch.empty(self.shape, **self.layout)
        return torch.empty_strided(self.shape, self.stride, **self.layout)

    def now(self) -> torch.Tensor:
        """Return the tensor, or, if it has been freed, an uninitialized tensor of the same sizes."""
        tensor = self.tensor()
        return self.empty() if tensor is None else tensor


class Weakly:
    """A weak reference to an object that is no tensor."""

    def __init__(self, value: Any) -> None:
        self.value = weakref.ref(value)


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply a function to the leaves of tuples, lists and dictionaries."""
    if type(value) in (list, tuple):
        return type(value)(mapped(v, change) for v in value)
    if type(value) is dict:
        return {name: mapped(v, change) for name, v in value.items()}
    return change(value)


def kept(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return Sized(value)
    if not isinstance(value, PLAIN):
        with contextlib.suppress(TypeError):
            return Weakly(value)
    return value


def given(value: Any, tensor: Callable[[Sized], torch.Tensor]) -> Any:
    """Rebuild the arguments of a recorded call. `tensor`: makes a tensor from its recorded sizes."""

    def change(v: Any) -> Any:
        return tensor(v) if isinstance(v, Sized) else v.value() if isinstance(v, Weakly) else v

    return mapped(value, change)


@dataclass
class Call:
    """A call of a model. `has_gradients`: whether parameters had gradients at its beginning."""

    model: Callable[[], nn.Module | None]
    args: Any
    kwargs: Any
    has_gradients: bool
    contexts: list[contextlib.AbstractContextManager[Any]] = field(repr=False)

    @staticmethod
    def of(model: nn.Module, args: Sequence[Any], kwargs: dict[str, Any]) -> Call:
        first = next((p for p in model.parameters() if p.requires_grad), None)
        has_gradients = first is not None and first.grad is not None
        return Call(weakref.ref(model), mapped(tuple(args), kept), mapped(dict(kwargs), kept), has_gradients, ambient())

    def inputs(self) -> list[torch.Tensor]:
        """Return the input tensors that are still alive."""
        sized: list[Sized] = []
        given((self.args, self.kwargs), lambda s: sized.append(s) or torch.empty(0))  # type: ignore[func-returns-value]
        return [t for s in sized if (t := s.tensor()) is not None]


def is_trained(module: Any) -> bool:
    return isinstance(module, nn.Module) and any(p.requires_grad for p in module.parameters())


def call_in(frames: Sequence[FrameType]) -> Call | None:
    """Return the outermost call of a trained model in these frames (outermost first), or None."""
    for frame in frames:
        if frame.f_code is CALL:
            known = frame.f_locals
            if is_trained(known.get("self")):
                return Call.of(known["self"], known["args"], known["kwargs"])
    return None


class Calls:
    """Records the first model call of each step until removed. A step ends with an optimizer's step.

    Other calls have no overhead. `told` is called for each recorded call.
    """

    def __init__(self, told: Callable[[], None]) -> None:
        self.told = told
        self.last: Call | None = None
        self.waiting: Any = None
        self.is_compiled = False
        self.steps = register_optimizer_step_post_hook(self._await)
        self._await()

    def _await(self, *_: Any) -> None:
        if self.waiting is None and not self.is_compiled:
            self.waiting = register_module_forward_pre_hook(self._note)

    def _note(self, module: nn.Module, _: Any) -> None:
        if torch.compiler.is_compiling() or not torch.is_grad_enabled() or not is_trained(module):
            return
        self._rest()
        self.is_compiled = inside(module) is not None  # for a compiled module, added hooks would cause a new capture
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not CALL:
            frame = frame.f_back
        if frame is not None and frame.f_locals.get("self") is module:
            self.last = Call.of(module, frame.f_locals["args"], frame.f_locals["kwargs"])
        self.told()

    def _rest(self) -> None:
        if self.waiting is not None:
            self.waiting.remove()
            self.waiting = None

    def remove(self) -> None:
        self._rest()
        self.steps.remove()
        self.last = None
