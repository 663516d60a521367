"""Questions about tensor layouts: strides, density, and equality of two layouts."""

from __future__ import annotations

from typing import Any

import torch


def is_dense(tensor: Any) -> bool:
    """Whether a clone has the same strides as the tensor."""
    return isinstance(tensor, torch.Tensor) and bool(torch.ops.aten.is_non_overlapping_and_dense(tensor))


def obeys(gradient: torch.Tensor, parameter: torch.Tensor) -> bool:
    """Whether PyTorch uses this gradient without a copy. The gradient of a dense parameter needs the parameter's strides."""
    if not torch.ops.aten.is_non_overlapping_and_dense(parameter):
        return gradient.is_contiguous()
    strides = zip(gradient.shape, gradient.stride(), parameter.stride())
    return all(a == b for size, a, b in strides if size != 1)


def same_layout(a: Any, b: Any) -> bool:
    """Whether one tensor can be stored in the memory of the other."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return False
    if (a.dtype, a.shape, a.stride()) != (b.dtype, b.shape, b.stride()):
        return False
    return 0 not in a.stride() and a.untyped_storage().nbytes() == b.untyped_storage().nbytes()
