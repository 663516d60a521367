"""PyTorch's settings for an eager step on the meta device that stands for a GPU."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from memplan.errors import MemplanError
from memplan.torch_internals.autocast_on_meta import casting, knows_autocast, lower
from memplan.torch_internals.names import Private

AUTOCAST = "this PyTorch version has no autocast on the meta device; estimate the model with device= and autocast= instead"
OTHER_TEMPORARIES = "estimates of a whole step count an optimizer's temporaries one parameter at a time"
FOREACH = Private(
    "torch.utils._foreach_utils._get_foreach_kernels_supported_devices",
    use="makes optimizers process all parameters at once on the meta device, as on a GPU",
    lost=OTHER_TEMPORARIES,
)
FUSED = Private(
    "torch.utils._foreach_utils._get_fused_kernels_supported_devices",
    use="lets optimizers with fused=True run on the meta device",
    lost="estimates of a whole step refuse optimizers with fused=True",
)
FUSED_RMS_NORM = Private(
    "torch.ops.aten._fused_rms_norm",
    use="tells whether RMS normalization is one kernel on GPUs",
    lost="estimates of a whole step count its parts",
    since="2.8",
)
CHECKPOINT_DEVICE = Private(
    "torch.utils.checkpoint._infer_device_type",
    use="lets checkpoints on the meta device recompute under the autocast of GPUs",
    lost="estimates of a whole step refuse checkpoints within autocast",
)
NODE_NOW = Private(
    "torch._C._current_autograd_node",
    use="tells the sums of gradients in backward from other sums",
    lost="estimates of a whole step count each sum of gradients as a new tensor",
)


def is_in_backward() -> bool:
    """Whether the current operator belongs to a backward pass of PyTorch's engine."""
    return bool(NODE_NOW) and NODE_NOW() is not None


def replaced(name: Private, value: Callable[..., Any]) -> list[contextlib.AbstractContextManager[Any]]:
    """Return contexts in which all modules of PyTorch that have imported this name use another value."""
    if name.place is None:
        return []
    owner, attribute = name.place
    original = getattr(owner, attribute)
    modules = [m for m in list(sys.modules.values()) if getattr(m, "__name__", "").startswith("torch")]
    return [mock.patch.object(m, attribute, value) for m in modules if vars(m).get(attribute) is original]


class GpuIsMeta(TorchFunctionMode):
    """Replaces GPUs by the meta device in calls such as tensor.to("cuda")."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not knows_autocast() and torch.is_autocast_enabled("cuda"):
            raise MemplanError(AUTOCAST)
        named = {name: on_meta(value) if name == "device" else value for name, value in (kwargs or {}).items()}
        if func is torch.Tensor.cuda:
            return args[0].to("meta")
        if func is torch.Tensor.to:
            args = tuple(map(on_meta, args))
        return func(*args, **named)


def on_meta(value: Any) -> Any:
    """Return the meta device instead of a GPU."""
    is_gpu = isinstance(value, (str, torch.device)) and str(value).partition(":")[0] == "cuda"
    return torch.device("meta") if is_gpu else value


def dropout(x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
    """Run the dropout of GPUs: a mask of one byte per element, or of the type of `x` if `x` is overwritten."""
    if not training or p == 0.0:
        return x
    if inplace:
        return x.mul_(torch.empty_like(x).bernoulli_(1 - p).div_(1 - p))
    return torch.native_dropout(x, p, True)[0]


class FusedRmsNorm(torch.autograd.Function):
    """The memory of PyTorch's RMS normalization for GPUs, which saves its operands and one number in fp32 per row."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor | None, n_dims: int) -> torch.Tensor:
        rows = x.shape[: x.dim() - n_dims]
        ctx.save_for_backward(x, weight, x.new_empty(rows, dtype=torch.float32))
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        x, weight, _ = ctx.saved_tensors
        needs_x, needs_weight, _ = ctx.needs_input_grad
        _packed = grads[0].contiguous()  # the kernel reads packed gradients
        return torch.empty_like(x) if needs_x else None, torch.empty_like(weight) if needs_weight else None, None


def rms_norm(
    input: torch.Tensor, normalized_shape: list[int], weight: torch.Tensor | None = None, eps: float | None = None
) -> torch.Tensor:
    """Run the RMS normalization of GPUs: one kernel if input and weight have the same type."""
    is_same = weight is None or weight.dtype == input.dtype
    if FUSED_RMS_NORM and input.device.type == "meta" and is_same and not torch.is_autocast_enabled("cuda"):
        result: torch.Tensor = FusedRmsNorm.apply(input, weight, len(normalized_shape))
        return result
    return torch.rms_norm(input, normalized_shape, weight, eps)


@contextlib.contextmanager
def meta_as_gpu(attention: Callable[..., torch.Tensor]) -> Iterator[None]:
    """Within the context, an eager step on the meta device chooses the operators that a GPU would run.

    `attention`: replaces scaled_dot_product_attention.
    """

    def kinds() -> list[str]:
        return ["cuda", "meta"]

    def region(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        begin(self, "cuda" if device_type == "meta" else device_type, *args, **kwargs)

    def of_gpu(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda device_type="cuda", *args: call("cuda" if device_type == "meta" else device_type, *args)

    def lowered_attention(*args: Any, **kwargs: Any) -> torch.Tensor:
        return attention(*map(lower, args), **{name: lower(value) for name, value in kwargs.items()})

    begin = torch.autocast.__init__

    with contextlib.ExitStack() as stack:
        for context in [*replaced(FOREACH, kinds), *replaced(FUSED, kinds), *replaced(CHECKPOINT_DEVICE, lambda *_: "cuda")]:
            stack.enter_context(context)
        stack.enter_context(mock.patch.object(torch.cuda, "is_bf16_supported", lambda *_, **__: True))
        stack.enter_context(mock.patch.object(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False))
        stack.enter_context(mock.patch.object(torch.autocast, "__init__", region))
        for name in ("is_autocast_enabled", "get_autocast_dtype"):
            stack.enter_context(mock.patch.object(torch, name, of_gpu(getattr(torch, name))))
        stack.enter_context(GpuIsMeta())
        stack.enter_context(mock.patch.object(torch.nn.functional, "dropout", dropout))
        stack.enter_context(mock.patch.object(torch.nn.functional, "rms_norm", rms_norm))
        stack.enter_context(mock.patch.object(torch.nn.functional, "scaled_dot_product_attention", lowered_attention))
        if knows_autocast():
            stack.enter_context(casting())
        yield
