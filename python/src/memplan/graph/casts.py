"""Autocast as eager does it. Eager casts a parameter once in a region (unless `cache_enabled=False`), so that its gradients
add up in the lower precision; PyTorch's captures switch that cache off. Here it is, for the capture's tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import fx
from torch._C import DispatchKey
from torch.amp import autocast_mode
from torch.fx.experimental import proxy_tensor

from memplan.graph.capture import tensors_of

CAST = torch.ops.aten._to_copy.default
KEYS = {"cpu": DispatchKey.AutogradCPU, "cuda": DispatchKey.AutogradCUDA}
# What makes a captured graph's regions: a class of its own, in versions before 2.12 the one that users write.
REGION: tuple[Any, str] = (autocast_mode, "_UnmanagedAutocast")
if not hasattr(*REGION):
    REGION = (torch.amp, "autocast")
Region: Any = getattr(*REGION)


def n_regions() -> int:
    """How many regions of autocast we are in."""
    depth: int = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return depth


def keeps_any_cast() -> bool:
    """Whether this PyTorch keeps a cast that was made without gradients for uses that need one, which then have none."""
    parameter = torch.nn.Parameter(torch.ones(1, 1))
    with torch.enable_grad(), torch.autocast("cpu", torch.bfloat16):
        with torch.no_grad():
            torch.mm(parameter, parameter)
        return not torch.mm(parameter, parameter).requires_grad


KEEPS_ANY_CAST = keeps_any_cast()


def is_leaf(tensor: torch.Tensor) -> bool:
    """Whether this tensor of a capture is a leaf outside of it: one that eager would keep the cast of."""
    wrapped = getattr(tensor, "elem", None)
    outside = torch._from_functional_tensor(wrapped) if wrapped is not None else tensor
    return bool(outside.is_leaf and outside.requires_grad and not outside._is_view())


class Casts:
    """What was cast since the outermost region began."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, torch.dtype], tuple[torch.Tensor, torch.Tensor]] = {}
        self.note_state()

    def note_state(self) -> None:
        """Between operators. In an operator that casts, autocast looks switched off."""
        self.enabled = {device: torch.is_autocast_enabled(device) for device in KEYS}
        if n_regions() == 0:
            self.known.clear()

    def is_autocast(self, tensor: torch.Tensor, kwargs: dict[str, Any]) -> bool:
        """Whether it is autocast that asks for this cast, and of a parameter."""
        device = tensor.device.type
        return (
            self.enabled[device]
            and torch.is_autocast_cache_enabled()
            and not torch.is_autocast_enabled(device)
            and kwargs == {"dtype": torch.get_autocast_dtype(device)}
            and tensor.dtype == torch.float32
            and is_leaf(tensor)
        )

    def cast(self, tensor: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        make = CAST._op_dk
        if not self.is_autocast(tensor, kwargs):
            made: torch.Tensor = make(DispatchKey.Autograd, tensor, **kwargs)
            return made
        key = (id(tensor), kwargs["dtype"])
        _, known = self.known.get(key, (tensor, None))
        if known is None or not (known.requires_grad or KEEPS_ANY_CAST or not torch.is_grad_enabled()):
            known = make(DispatchKey.Autograd, tensor, **kwargs)
            self.known[key] = (tensor, known)
        return known


@contextlib.contextmanager
def cached_casts() -> Iterator[None]:
    """In it, a capture casts parameters where eager does."""
    casts = Casts()

    class Watched(Region):
        """A region within the graph."""

        def __enter__(self) -> Any:
            entered = super().__enter__()
            casts.note_state()
            return entered

        def __exit__(self, *raised: Any) -> Any:
            left = super().__exit__(*raised)
            casts.note_state()
            return left

    with (
        mock.patch.object(*REGION, Watched),
        mock.patch.object(proxy_tensor, "disable_autocast_cache", contextlib.nullcontext),
        mock.patch.dict(CAST.py_kernels),
    ):
        CAST.py_kernels.update(dict.fromkeys(KEYS.values(), casts.cast))
        CAST._dispatch_cache.clear()
        try:
            yield
        finally:
            CAST._dispatch_cache.clear()


def backward_outside() -> contextlib.AbstractContextManager[Any]:
    """In it, a capture's backward is what eager's is outside of autocast, where `backward()` should be called."""
    config = torch._functorch.config
    known = hasattr(config, "backward_pass_autocast")  # not in old versions
    patch: contextlib.AbstractContextManager[Any] = config.patch({"backward_pass_autocast": "off"} if known else {})
    return patch


def regions() -> dict[str, torch.dtype]:
    """The devices for which autocast is switched on, and to what."""
    return {device: torch.get_autocast_dtype(device) for device in KEYS if torch.is_autocast_enabled(device)}


def cast_inside(nodes: Iterable[fx.Node], enabled: dict[str, torch.dtype]) -> list[str]:
    """The operators among these that would compute in another type in such a region."""
    found: list[str] = []
    with contextlib.ExitStack() as stack:
        for device, dtype in enabled.items():
            stack.enter_context(torch.autocast(device, dtype))
        for node in nodes:
            value, function = node.meta.get("val"), node.target
            if isinstance(value, torch.Tensor) and isinstance(function, torch._ops.OpOverload) and is_cast(function):
                args, kwargs = fx.node.map_aggregate((node.args, node.kwargs), lambda a: getattr(a, "meta", {}).get("val", a))
                with contextlib.suppress(Exception):  # of operators that do not take what they are given there
                    if function(*args, **kwargs).dtype != value.dtype:
                        found.append(str(function))
    return list(dict.fromkeys(found))


def is_cast(function: Any) -> bool:
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), key) for key in ("AutocastCPU", "AutocastCUDA"))


def noticing(run: Callable[..., Any], say: Callable[[], None]) -> Callable[..., Any]:
    """The same; says when a backward through its outputs begins within a region."""

    def notice(_: torch.Tensor) -> None:
        if regions():
            say()

    def call(*inputs: Any) -> Any:
        outputs = run(*inputs)
        for output in tensors_of(outputs):
            if output.grad_fn is not None:
                output.register_hook(notice)  # type: ignore[no-untyped-call]
        return outputs

    return call
