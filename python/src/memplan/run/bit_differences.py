"""Detect calls for which eager PyTorch computes other bits than the captured graph.

memplan warns before the first backward of each kind.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from memplan.torch_internals.autograd import saved_tensors_hook
from memplan.torch_internals.modules import parametrizations_are_cached
from memplan.torch_internals.tensors import versions_of

BITS = "so the bits may differ from eager's"
PACKED = (
    "torch.autograd.graph.saved_tensors_hooks around the call changes the saved tensors, but a plan saves other"
    f" tensors than eager, {BITS}"
)
CACHED = (
    "inside torch.nn.utils.parametrize.cached, eager computes a weight once for all calls, but a plan computes it"
    f" in each call, {BITS}"
)
REGION = (
    "this is a second call in one region of torch.autocast. Eager casts each weight once for both calls, and adds"
    f" gradients in the lower precision. A plan casts in each call, {BITS}. For eager's bits, enter a new region for"
    " each call"
)
GENERATES = f"forward is a generator, which is captured as a whole, so gradients are added in another order, {BITS}"
BOTH_WAYS = f"a bidirectional GRU is captured as single operators, so gradients are added in another order, {BITS}"
TRANSPOSED = (
    f"the gradient of an output has another layout than the output, and a plan copies it into the output's layout, {BITS}"
)


class Surroundings:
    """Observes the calls of one compiled model to detect causes of bits that differ from eager's."""

    def __init__(self, say: Callable[[str], None], waiting: Callable[[], int]) -> None:
        self.say, self.waiting = say, waiting  # waiting: number of calls of the model that await their backward
        self.was_read = False  # whether the model's modules have been examined
        # for each kind of device: a cast made in the last call, which identifies the autocast region of that call
        self.casts: dict[str, Any] = {}
        self.versions: Any = []  # version counters of the parameters in the last call

    def look(self, model: nn.Module | None) -> None:
        """Examine the model and the autocast regions when a call begins."""
        hook = saved_tensors_hook()
        if hook is not None and not str(getattr(hook, "__module__", "")).startswith(("torch.", "memplan.")):
            self.say(PACKED)
        if parametrizations_are_cached() and model is not None and any(map(is_parametrized, model.modules())):
            self.say(CACHED)
        kinds = [k for k in ("cpu", "cuda") if torch.is_autocast_enabled(k)]
        if kinds and torch.is_autocast_cache_enabled() and torch.is_grad_enabled():
            versions = versions_of(list(model.parameters())) if model is not None else []
            # if a backward ran between two calls, eager adds the gradients of both calls in full precision, as captures do
            is_other = self.waiting() > 0 or versions != self.versions
            self.versions = versions
            for kind in kinds:
                self._look_at_region(kind, is_other)
        if model is not None and not self.was_read:
            self.was_read = True
            if inspect.isgeneratorfunction(type(model).forward):
                self.say(GENERATES)
            if any(isinstance(m, nn.GRU) and m.bidirectional for m in model.modules()):
                self.say(BOTH_WAYS)

    def _look_at_region(self, kind: str, is_other: bool) -> None:
        """Warn if this call and the last call are in one autocast region, and `is_other` is set.

        Eager casts a parameter once per region and a planned call casts it again, so bits may differ.
        """
        key = self.casts.get(kind, (None, None))[0]
        parameter = key if key is not None else nn.Parameter(torch.ones(1, 1, device=kind))
        product = torch.mm(parameter, parameter).grad_fn
        cast = product.next_functions[0][0] if product is not None else None
        if is_other and cast is not None and cast is self.casts.get(kind, (None, None))[1]:
            self.say(REGION)
        self.casts[kind] = parameter, cast
