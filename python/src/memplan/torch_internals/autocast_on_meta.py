"""Autocast of GPUs for tensors on the meta device, which has none.

Kernels for an unused autocast key cast the arguments of operators as PyTorch's autocast for CUDA does. The key is active only
within `casting`. The lists are those of PyTorch's documentation of torch.amp.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import fx

from memplan.torch_internals.names import Private

NO_AUTOCAST = "estimates of a whole step refuse torch.autocast"
INCLUDE = Private(
    "torch._C._dispatch_tls_set_dispatch_key_included", use="activates autocast on the meta device", lost=NO_AUTOCAST
)
EXCLUDE = Private(
    "torch._C._dispatch_tls_set_dispatch_key_excluded", use="activates autocast on the meta device", lost=NO_AUTOCAST
)
KEY = "AutocastIPU"  # an autocast key without kernels in PyTorch
LOWER = [
    "conv1d",
    "conv1d.padding",
    "conv2d",
    "conv2d.padding",
    "conv3d",
    "conv3d.padding",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d.input",
    "conv_transpose3d.input",
    "convolution",
    "prelu",
    "addmm",
    "addmv",
    "addr",
    "matmul",
    "mm",
    "mv",
    "linear",
    "addbmm",
    "baddbmm",
    "bmm",
    "chain_matmul",
    "linalg_multi_dot",
    "lstm_cell",
    "gru_cell",
    "rnn_tanh_cell",
    "rnn_relu_cell",
]
FULL = [
    "acos",
    "asin",
    "cosh",
    "erfinv",
    "exp",
    "expm1",
    "log",
    "log10",
    "log2",
    "log1p",
    "reciprocal",
    "rsqrt",
    "sinh",
    "tan",
    "pow.Tensor_Scalar",
    "pow.Tensor_Tensor",
    "pow.Scalar",
    "softplus",
    "layer_norm",
    "native_layer_norm",
    "group_norm",
    "cosine_similarity",
    "poisson_nll_loss",
    "cosine_embedding_loss",
    "nll_loss",
    "nll_loss2d",
    "hinge_embedding_loss",
    "kl_div",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "mse_loss",
    "margin_ranking_loss",
    "multilabel_margin_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "multi_margin_loss",
    "binary_cross_entropy_with_logits",
    "dist",
    "pdist",
    "cdist",
    "renorm",
    "logsumexp",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_trilinear3d",
    "upsample_bicubic2d",
]
FULL_RESULT = ["prod", "prod.dim_int", "cumprod", "cumsum", "sum", "sum.dim_IntList"]
SOFTMAX = ["softmax.int", "log_softmax.int"]
WIDEST = [
    "addcdiv",
    "addcmul",
    "atan2",
    "bilinear",
    "cross",
    "dot",
    "vdot",
    "grid_sampler",
    "index_put",
    "tensordot",
    "scatter_add",
]
HALVES = (torch.float16, torch.bfloat16)
Run = Callable[..., Any]


class Casts:
    """The casts of parameters within a region: PyTorch makes one per parameter and region."""

    def __init__(self) -> None:
        self.made: dict[int, tuple[Any, torch.Tensor]] = {}

    def lower(self, value: Any) -> Any:
        dtype = torch.get_autocast_dtype("cuda")
        if not is_cast(value) or value.dtype == dtype:
            return value
        is_kept = value.requires_grad and value.is_leaf and value.dtype == torch.float32 and torch.is_autocast_cache_enabled()
        known = self.made.get(id(value))
        if known is not None and known[0]() is value:
            return known[1]
        made = value.to(dtype)
        if is_kept:
            self.made[id(value)] = weakref.ref(value), made
        return made


CASTS = Casts()


def is_cast(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64


def knows_autocast() -> bool:
    """Whether this PyTorch version can cast on the meta device."""
    return bool(INCLUDE) and bool(EXCLUDE)


def lower(value: Any) -> Any:
    """Return a tensor in the type of the active region; other values unchanged."""
    return CASTS.lower(value) if torch.is_autocast_enabled("cuda") else value


def full(value: Any) -> Any:
    return value.float() if is_cast(value) else value


def lowered(operator: Run, args: Any, kwargs: Any) -> Any:
    args, kwargs = fx.node.map_aggregate((args, kwargs), CASTS.lower)
    return operator(*args, **kwargs)


def in_full(operator: Run, args: Any, kwargs: Any) -> Any:
    args, kwargs = fx.node.map_aggregate((args, kwargs), full)
    return operator(*args, **kwargs)


def with_full_result(operator: Run, args: Any, kwargs: Any) -> Any:
    if args[0].dtype in HALVES and kwargs.get("dtype") is None:
        kwargs = {**kwargs, "dtype": torch.float32}
    return operator(*args, **kwargs)


def softmax(operator: Run, args: Any, kwargs: Any) -> Any:
    """A GPU reads fp16 and writes fp32 without a cast of its argument."""
    dtype = args[2] if len(args) > 2 else kwargs.get("dtype")
    if args[0].dtype not in HALVES or dtype is not None:
        return operator(*args, **kwargs)
    if args[0].dtype == torch.bfloat16:
        return operator(args[0].float(), args[1])
    fused: Any = torch.ops.aten._log_softmax if "log_softmax" in str(operator) else torch.ops.aten._softmax
    return fused.default(args[0], args[1], True)


def in_widest(operator: Run, args: Any, kwargs: Any) -> Any:
    kinds: list[Any] = []
    fx.node.map_aggregate((args, kwargs), kinds.append)
    return (
        in_full(operator, args, kwargs)
        if any(is_cast(v) and v.dtype == torch.float32 for v in kinds)
        else operator(*args, **kwargs)
    )


def kernel(operator: Run, how: Callable[[Run, Any, Any], Any], *args: Any, **kwargs: Any) -> Any:
    with inactive():
        if not torch.is_autocast_enabled("cuda"):
            return operator(*args, **kwargs)
        return how(operator, args, kwargs)


@contextlib.contextmanager
def inactive() -> Iterator[None]:
    INCLUDE(KEY, False)
    EXCLUDE(KEY, True)
    try:
        yield
    finally:
        EXCLUDE(KEY, False)
        INCLUDE(KEY, True)


@functools.cache
def registered() -> list[Any]:
    """Register the kernels once, and return the objects that own them."""
    library: Any = torch.library
    others, ours = library.Library("_", "IMPL", KEY), library.Library("aten", "IMPL", KEY)
    others.fallback(library.fallthrough_kernel)
    for names, how in (
        (LOWER, lowered),
        (FULL, in_full),
        (FULL_RESULT, with_full_result),
        (SOFTMAX, softmax),
        (WIDEST, in_widest),
    ):
        for name in names:
            packet, _, overload = name.partition(".")
            operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
            ours.impl(name, functools.partial(kernel, operator, how))
    return [others, ours]


@contextlib.contextmanager
def casting() -> Iterator[None]:
    """Within the context, regions of torch.autocast("cuda") have an effect on tensors of the meta device."""
    registered()
    forget = torch.clear_autocast_cache

    def clear() -> None:
        CASTS.made.clear()
        forget()

    INCLUDE(KEY, True)
    EXCLUDE(KEY, False)
    try:
        with mock.patch.object(torch, "clear_autocast_cache", clear):
            yield
    finally:
        CASTS.made.clear()
        INCLUDE(KEY, False)
        EXCLUDE(KEY, True)
