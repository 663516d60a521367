"""Upsampling as one operator. PyTorch's capture writes it out in Python, with other bits than eager's and more tensors."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch
import torch._decomp  # registers what is taken out here
from torch._C import DispatchKey

WRITTEN_OUT = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
PREFIXES = ("aten::upsample_", "aten::_upsample_")


@functools.cache
def overloads() -> tuple[Any, ...]:
    """The operators of upsampling that have such a form."""
    found = []
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith(PREFIXES):
            packet, _, overload = name.removeprefix("aten::").partition(".")
            operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
            if any(key in operator.py_kernels for key in WRITTEN_OUT):
                found.append(operator)
    return tuple(found)


@contextlib.contextmanager
def native_upsampling() -> Iterator[None]:
    """In it, a capture sees the operators that eager runs."""
    taken = [(o, key, o.py_kernels[key]) for o in overloads() for key in WRITTEN_OUT if key in o.py_kernels]
    try:
        for operator, key, _ in taken:
            operator.py_kernels.pop(key, None)
            operator._dispatch_cache.clear()
        yield
    finally:
        for operator, key, kernel in taken:
            operator.py_kernels[key] = kernel
            operator._dispatch_cache.clear()
