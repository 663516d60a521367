"""Shapes of batch normalization for fake tensors.

PyTorch has no shape function for batch normalization. A capture executes 20 to 30 operators on fake tensors for each call,
and cannot reuse results, because the operator writes running statistics. The rules of this module return tensors with the same
shapes, strides and types.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from memplan.torch_internals.absent_device import FAKE_TENSOR
from memplan.torch_internals.fake import is_plain_fake
from memplan.torch_internals.names import Private

SLOWER = "captures execute a batch normalization operator by operator"
DISPATCH = Private(
    "torch._subclasses.fake_tensor.FakeTensorMode._dispatch_impl", use="finds batch normalization", instead=SLOWER
)
IN_KERNEL = Private("torch._subclasses.fake_tensor.in_kernel_invocation_manager", use="makes fake tensors", instead=SLOWER)
ACCUMULATED = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float32}

Mode = Any  # torch._subclasses.FakeTensorMode


def is_vector(value: Any, n: int) -> bool:
    return is_plain_fake(value) and tuple(value.shape) == (n,) and value.stride() == (1,)


def is_known(mode: Mode, x: Any, vectors: tuple[Any, ...]) -> bool:
    """Whether the rules describe these operands: a contiguous or channels-last input, and one number per channel."""
    if not is_plain_fake(x) or x.dim() < 2 or x.dtype not in ACCUMULATED or not all(is_vector(v, x.shape[1]) for v in vectors):
        return False
    if any(v.fake_mode is not mode or v.constant is not None or v.device != x.device for v in (x, *vectors)):
        return False
    # a batch of one number per channel has no variance, and PyTorch raises an error
    return x.numel() > x.shape[1] > 0 and x.stride() in strides(tuple(x.shape))


def strides(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the strides of a contiguous tensor, and of a channels-last one unless a size of 1 makes its strides ambiguous."""
    found = [tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))]
    if len(shape) == 4 and min(shape) > 1:
        _, c, h, w = shape
        found.append((h * w * c, 1, w * c, c))
    return found


def made(mode: Mode, x: Any, *dtypes: torch.dtype) -> tuple[Any, ...]:
    """Return a fake tensor like `x`, and a vector with one number per channel for each type."""
    with IN_KERNEL(mode):
        found = [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")]
        found += [torch.empty(x.shape[1], dtype=dtype, device="meta") for dtype in dtypes]
    return tuple(FAKE_TENSOR(mode, t, x.device) for t in found)


def forward(n_results: int) -> Callable[..., Any]:
    """Return the rule of a forward operator with this number of results."""

    def rule(
        mode: Mode, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: Any, momentum: Any, eps: Any
    ) -> Any:
        if not training or not is_known(mode, x, (weight, bias, mean, variance)):
            return NotImplemented
        accumulated = ACCUMULATED[x.dtype]
        if mean.dtype != accumulated or variance.dtype != accumulated:
            return NotImplemented
        saved = x.dtype if x.device.type == "cpu" else accumulated
        return made(mode, x, saved, saved, accumulated, accumulated)[:n_results]

    return rule


def backward(
    mode: Mode,
    gradient: Any,
    x: Any,
    weight: Any,
    mean: Any,
    variance: Any,
    saved_mean: Any,
    saved_scale: Any,
    training: Any,
    eps: Any,
    wanted: Any,
) -> Any:
    vectors = weight, mean, variance, saved_mean, saved_scale
    if not training or not all(wanted) or not is_known(mode, x, vectors) or not is_known(mode, gradient, ()):
        return NotImplemented
    if (gradient.shape, gradient.stride(), gradient.dtype) != (x.shape, x.stride(), x.dtype):
        return NotImplemented
    return made(mode, x, weight.dtype, weight.dtype)


RULES: dict[Any, Callable[..., Any]] = {
    torch.ops.aten._native_batch_norm_legit.default: forward(3),
    torch.ops.aten._native_batch_norm_legit_functional.default: forward(5),
    torch.ops.aten.native_batch_norm_backward.default: backward,
}


@contextlib.contextmanager
def batch_norm_rules() -> Iterator[None]:
    """Within the context, fake tensors of batch normalization have the shapes that the rules give."""
    if not (DISPATCH and IN_KERNEL and FAKE_TENSOR):
        yield
        return
    pytorchs: Any = DISPATCH.original()

    def dispatch(mode: Mode, operator: Any, types: Any, args: Any, kwargs: Any) -> Any:
        rule = RULES.get(operator)
        found = NotImplemented if rule is None or kwargs else rule(mode, *args)
        return pytorchs(mode, operator, types, args, kwargs) if found is NotImplemented else found

    with DISPATCH.standing_for(dispatch):
        yield
