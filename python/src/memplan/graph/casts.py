"""Autocast in captures as in eager.

Eager casts a parameter once per autocast region (unless `cache_enabled=False`), so that its gradients accumulate in the lower
precision. PyTorch's captures disable this cache. This module provides the cache for captures.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

import functorch.compile
import torch
from torch import fx

from memplan.graph.capture import tensors_of
from memplan.torch_internals.autograd import uncaptured
from memplan.torch_internals.capture import aot_settings
from memplan.torch_internals.dispatch import CAST, OPERATOR, REGION, has_kernel, kernels, run_kernel, without_cast_cache_off
from memplan.torch_internals.tensors import is_leaf_outside

BACKWARD = "backward_pass_autocast"  # name of PyTorch's setting for autocast in captured backward graphs
KEYS = {"cpu": "AutogradCPU", "cuda": "AutogradCUDA"}


def n_regions() -> int:
    """Return the nesting depth of autocast regions."""
    depth: int = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return depth


def keeps_any_cast() -> bool:
    """Whether this PyTorch version caches casts of parameters that are made under no_grad.

    Such a cast requires no gradient, so a later use of the cast in the same region passes no gradient to the parameter.
    """
    parameter = torch.nn.Parameter(torch.ones(1, 1))
    with torch.enable_grad(), torch.autocast("cpu", torch.bfloat16):
        with torch.no_grad():
            torch.mm(parameter, parameter)
        return not torch.mm(parameter, parameter).requires_grad


KEEPS_ANY_CAST = keeps_any_cast()


class Casts:
    """The cache of casts that autocast has made since the outermost autocast region began."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, torch.dtype], tuple[torch.Tensor, torch.Tensor]] = {}
        self.note_state()

    def note_state(self) -> None:
        """Record between operators whether autocast is enabled.

        Within a cast that autocast inserts, autocast appears disabled.
        """
        self.enabled = {device: torch.is_autocast_enabled(device) for device in KEYS}
        if n_regions() == 0:
            self.known.clear()

    def is_autocast(self, tensor: torch.Tensor, kwargs: dict[str, Any]) -> bool:
        """Whether this call is a cast of a parameter that autocast has inserted."""
        device = tensor.device.type
        return (
            self.enabled[device]
            and torch.is_autocast_cache_enabled()
            and not torch.is_autocast_enabled(device)
            and kwargs == {"dtype": torch.get_autocast_dtype(device)}
            and tensor.dtype == torch.float32
            and is_leaf_outside(tensor)
        )

    def make(self, tensor: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        made: torch.Tensor = run_kernel(CAST.get(), "Autograd", tensor, **kwargs)
        return made

    def cast(self, tensor: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        if not self.is_autocast(tensor, kwargs):
            return self.make(tensor, **kwargs)
        key = (id(tensor), kwargs["dtype"])
        _, known = self.known.get(key, (tensor, None))
        if known is None or not (known.requires_grad or KEEPS_ANY_CAST or not torch.is_grad_enabled()):
            known = self.make(tensor, **kwargs)
            self.known[key] = (tensor, known)
        return known


@contextlib.contextmanager
def cached_casts() -> Iterator[None]:
    """Cast parameters in a capture once per region within the context, as eager does."""
    if not CAST:
        yield
        return
    casts = Casts()
    # The class of autocast regions within captured graphs. Before PyTorch 2.12 it is the public class torch.amp.autocast.
    place: tuple[Any, str] = REGION.place or (torch.amp, "autocast")

    class Watched(getattr(*place)):  # type: ignore[misc]
        """An autocast region that a captured graph enters itself."""

        def __enter__(self) -> Any:
            entered = super().__enter__()
            casts.note_state()
            return entered

        def __exit__(self, *raised: Any) -> Any:
            left = super().__exit__(*raised)
            casts.note_state()
            return left

    with (
        mock.patch.object(*place, Watched),
        without_cast_cache_off(),
        kernels(CAST.get(), dict.fromkeys(KEYS.values(), casts.cast)),
    ):
        yield


@contextlib.contextmanager
def backward_outside() -> Iterator[None]:
    """Capture backward as eager runs it outside of autocast, where users should call `backward()`.

    If PyTorch has no setting for this, autocast is disabled in torch.autograd.grad, which starts backward.
    """
    grad: Callable[..., Any] = torch.autograd.grad

    def outside(*args: Any, **kwargs: Any) -> Any:
        with contextlib.ExitStack() as stack:
            for device in KEYS:
                stack.enter_context(torch.autocast(device, enabled=False))
            return grad(*args, **kwargs)

    has_setting = hasattr(functorch.compile.config, BACKWARD)
    with (
        aot_settings(**{BACKWARD: "off"}),
        contextlib.nullcontext() if has_setting else mock.patch.object(torch.autograd, "grad", outside),
    ):
        yield


def regions() -> dict[str, torch.dtype]:
    """Return the active autocast types by device."""
    return {device: torch.get_autocast_dtype(device) for device in KEYS if torch.is_autocast_enabled(device)}


def cast_inside(nodes: Iterable[fx.Node], enabled: dict[str, torch.dtype]) -> list[str]:
    """Return the names of operators among the nodes whose results would have another type inside these autocast regions."""
    found: list[str] = []
    with contextlib.ExitStack() as stack:
        for device, dtype in enabled.items():
            stack.enter_context(torch.autocast(device, dtype))
        for node in nodes:
            value, function = node.meta.get("val"), node.target
            if isinstance(value, torch.Tensor) and isinstance(function, OPERATOR) and is_cast(function):
                args, kwargs = fx.node.map_aggregate((node.args, node.kwargs), lambda a: getattr(a, "meta", {}).get("val", a))
                with contextlib.suppress(Exception):  # some operators reject arguments of these types
                    if function(*args, **kwargs).dtype != value.dtype:
                        found.append(str(function))
    return list(dict.fromkeys(found))


def is_cast(function: Any) -> bool:
    return has_kernel(function, ("AutocastCPU", "AutocastCUDA"))


def noticing(run: Callable[..., Any], say: Callable[[], None]) -> Callable[..., Any]:
    """Wrap a function. Call `say` if a backward through its outputs begins within an autocast region."""

    def notice(_: torch.Tensor) -> None:
        if regions():
            say()

    def call(*inputs: Any) -> Any:
        outputs = run(*inputs)
        for output in tensors_of(outputs):
            if output.grad_fn is not None:
                output.register_hook(uncaptured(notice))  # type: ignore[no-untyped-call]
        return outputs

    return call


def inside_sentence(operators: list[str]) -> str:
    return (
        f"backward() is called inside autocast, where eager computes {', '.join(operators)} in lower precision. The"
        " plan computes as eager does outside of autocast. Call backward() after the region, as PyTorch recommends"
    )
