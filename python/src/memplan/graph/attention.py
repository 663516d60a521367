"""Attention on the meta device: memplan captures the kernel that PyTorch would choose on the named device.

The captured operator saves the same tensors as a real step. The meta device's own attention would materialize all scores, which
no real device does.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import pad

from memplan.torch_internals.dispatch import EFFICIENT, FLASH, HOST_FLASH, WRITTEN_OUT

HALVES = (torch.float16, torch.bfloat16)
MOST_FLASH_WIDTH = 256  # largest width of an attention head that the flash kernels support
ALIGNED_BYTES = 16  # heads and rows of masks are padded to a multiple of this many bytes


def additive(mask: torch.Tensor | None, q: torch.Tensor) -> torch.Tensor | None:
    """Return a mask in the form that is added to the scores."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    seen, hidden = (torch.scalar_tensor(score, dtype=q.dtype, device=q.device) for score in (0.0, -math.inf))
    return torch.where(mask, seen, hidden)


def of_heads(t: torch.Tensor, width: int) -> torch.Tensor:
    return pad(t, (0, width - t.shape[-1])) if t.shape[-1] != width else t


def flash(q: Any, k: Any, v: Any, p: float, is_causal: bool, scale: float | None) -> torch.Tensor:
    """Flash attention for half precision without a mask. Heads are padded to multiples of 8."""
    width = int(q.shape[-1])
    q, k, v = (of_heads(t, -(-width // 8) * 8) for t in (q, k, v))
    scale = 1 / math.sqrt(width) if scale is None else scale
    out: torch.Tensor = FLASH(q, k, v, p, is_causal, False, scale=scale)[0]
    return out[..., :width]


def efficient(q: Any, k: Any, v: Any, mask: Any, p: float, is_causal: bool, scale: float | None) -> torch.Tensor:
    if mask is not None:
        n = int(mask.shape[-1])
        each = ALIGNED_BYTES // mask.element_size()
        mask = of_heads(mask, -(-n // each) * each)[..., :n].expand(*q.shape[:2], q.shape[2], k.shape[2])
    saves = any(t.requires_grad for t in (q, k, v))
    out: torch.Tensor = EFFICIENT(q, k, v, mask, saves, p, is_causal, scale=scale)[0]
    return out


def attention(
    is_gpu: bool,
    has_flash: bool,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Compute scaled_dot_product_attention with PyTorch's order of preference: flash, memory-efficient, plain operators."""
    mask = additive(attn_mask, q)
    is_plain = q.dim() == 4 and q.shape[-1] == k.shape[-1] == v.shape[-1]
    is_square = not is_causal or q.shape[-2] == k.shape[-2]
    learns_mask = mask is not None and mask.requires_grad
    has_groups = enable_gqa and q.shape[1] != k.shape[1]
    if has_flash and is_plain and mask is None and q.dtype in HALVES and q.shape[-1] <= MOST_FLASH_WIDTH and is_square:
        return flash(q, k, v, dropout_p, is_causal, scale)
    is_aligned = q.shape[-1] * q.element_size() % ALIGNED_BYTES == 0
    types = (*HALVES, torch.float32) if has_flash else (torch.float16, torch.float32)
    if is_gpu and is_plain and is_aligned and not has_groups and q.dtype in types:
        return efficient(q, k, v, mask, dropout_p, is_causal, scale)
    if not is_gpu and is_plain and dropout_p == 0 and not learns_mask and not (mask is not None and is_causal):
        result: torch.Tensor = HOST_FLASH(q, k, v, dropout_p, is_causal, attn_mask=mask, scale=scale)[0]
        return result
    result = WRITTEN_OUT(q, k, v, mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)[0]
    return result


def knows_attention() -> bool:
    """Whether this PyTorch version has all attention kernels that captures use."""
    return all((FLASH, EFFICIENT, HOST_FLASH, WRITTEN_OUT))


def attention_on(is_gpu: bool, has_flash: bool = False) -> Callable[..., torch.Tensor]:
    """Return attention for a device. `has_flash`: whether it is a GPU with the kernels of Ampere or newer."""
    return functools.partial(attention, is_gpu, has_flash)
