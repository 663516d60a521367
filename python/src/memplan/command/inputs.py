"""Parsing of inputs and meshes: '(8,3,224,224)', '(8,128) int64 <50257, mask=(8,128) bool', 'shard=64'."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from memplan.command import UsageError
from memplan.graph.named_device import LOWER

BATCH = "N"  # the letter that stands for the batch size in a shape on the command line
ITEM = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_]\w*)\s*=\s*)?"
    r"\((?P<shape>[^()]*)\)"
    r"\s*(?P<dtype>[A-Za-z]\w*)?"
    r"\s*(?:<\s*(?P<below>\d+))?"
    r"\s*(?:[,;]|$)"
)
AS_IN = "inputs are written like '(8,3,224,224)', '(N,128) int64 <50257' or '(8,128) int64, mask=(8,128) bool'"


@dataclass(frozen=True)
class Input:
    """An input. `below`: integers are drawn from 0 up to this number, exclusive."""

    name: str  # name of a keyword argument; "" for a positional argument
    shape: tuple[int | None, ...]  # size of each dimension; None stands for the batch size
    dtype: torch.dtype
    below: int

    def make(self, device: torch.device, batch: int | None) -> torch.Tensor:
        """Create the input with artificial values. Raises UsageError if the batch size is missing."""
        sizes = [n if n is not None else batch for n in self.shape]
        if any(n is None for n in sizes):
            raise UsageError(f"an input has {BATCH} in its shape; set it with --batch, or find the largest with fit")
        shape = tuple(n for n in sizes if n is not None)
        if device.type == "meta":
            return torch.empty(shape, dtype=self.dtype, device=device)
        if self.dtype.is_floating_point or self.dtype.is_complex:
            return torch.randn(shape, dtype=self.dtype, device=device)
        return torch.randint(self.below, shape, device=device).to(self.dtype)


def read_size(text: str, shape: str) -> int | None:
    if text == BATCH:
        return None
    if not text.isdecimal():
        raise UsageError(f"{text!r} in ({shape}) is not a size; use whole numbers, or {BATCH} for the batch")
    return int(text)


def read_inputs(text: str) -> list[Input]:
    """Parse inputs. Raises UsageError with the position of the mistake."""
    found: list[Input] = []
    at = 0
    while at < len(text.rstrip()) or not found:
        item = ITEM.match(text, at)
        if item is None:
            raise UsageError(f"{text[at:].strip() or 'nothing'!r} is not an input: {AS_IN}")
        at = item.end()
        name, shape, dtype, below = item["name"] or "", item["shape"], item["dtype"], item["below"]
        sizes = tuple(read_size(size.strip(), shape) for size in shape.rstrip(", ").split(",") if shape.strip())
        kind = getattr(torch, dtype, None) if dtype else torch.int64 if below else torch.float32
        if not isinstance(kind, torch.dtype):
            raise UsageError(f"{dtype!r} is not a PyTorch type; use float32, bfloat16, int64 or bool, for example")
        if below and (kind.is_floating_point or kind.is_complex):
            raise UsageError(f"<{below} applies to whole numbers only, not to {dtype}")
        if below == "0":
            raise UsageError("<0 leaves no whole number to draw")
        if not name and found and found[-1].name:
            raise UsageError(f"({shape}) is positional, but it follows the named input {found[-1].name}=")
        found.append(Input(name, sizes, kind, int(below or 2)))
    return found


def read_mesh(text: str) -> dict[str, int]:
    """Parse a mesh such as 'dp=2,shard=8'. Raises UsageError."""
    found = {}
    for part in text.split(","):
        name, _, size = part.strip().partition("=")
        if not size.isdecimal():
            raise UsageError(f"{text!r} is not a mesh; use 'shard=64' or 'dp=2,shard=8'")
        found[name] = int(size)
    return found


def shard_options(precision: str | None) -> dict[str, Any]:
    """Return options of fully_shard for parameters of the type `precision`.

    Gradients are reduced in fp32. Raises UsageError.
    """
    if precision is None:
        return {}
    kind = getattr(torch, precision, None)
    if not isinstance(kind, torch.dtype):
        raise UsageError(f"{precision!r} is not a PyTorch type; use bfloat16, for example")
    from torch.distributed.fsdp import MixedPrecisionPolicy

    return {"mp_policy": MixedPrecisionPolicy(param_dtype=kind, reduce_dtype=torch.float32)}


def read_lower(name: str) -> torch.dtype:
    """Return the type of an autocast region by its name on the command line. Raises UsageError."""
    kind = getattr(torch, name, None)
    if kind not in LOWER:
        raise UsageError(f"{name!r} is not a type of autocast; use bfloat16 or float16")
    assert isinstance(kind, torch.dtype)
    return kind


def make_inputs(inputs: Sequence[Input], device: torch.device, batch: int | None) -> tuple[list[Any], dict[str, Any]]:
    """Create the positional and keyword arguments of a call."""
    made = [(i.name, i.make(device, batch)) for i in inputs]
    return [tensor for name, tensor in made if not name], {name: tensor for name, tensor in made if name}
