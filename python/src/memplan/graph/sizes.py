"""One plan per input size. If PyTorch captures a graph with symbolic sizes, memplan fixes them to the present sizes.

Numbers that do not affect sizes (a loss weight, a step counter) remain symbolic: one graph serves all values.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import free_symbols, free_unbacked_symbols

from memplan.torch_internals.capture import compile_id, limit
from memplan.torch_internals.tensors import tree_iter

NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def symbols_of(value: Any) -> set[Any]:
    """Return the symbols of a value: of a tensor's sizes and strides, or of a symbolic number."""
    found: set[Any] = set()
    for one in tree_iter(value):
        if isinstance(one, NUMBERS) or (isinstance(one, torch.Tensor) and one.layout is torch.strided):
            with contextlib.suppress(Exception):  # free_symbols raises an error for some private types of PyTorch
                found |= set(free_symbols(one))
    return found


def deciding_symbols(module: fx.GraphModule) -> set[Any]:
    """Return the symbols that determine sizes of tensors in a captured graph."""
    values = [n.meta.get("example_value") for n in module.graph.nodes]
    return symbols_of([v for v in tree_iter(values) if isinstance(v, torch.Tensor)])


def hold_sizes(module: fx.GraphModule, inputs: Iterable[Any]) -> None:
    """Fix the symbols that determine sizes. PyTorch then traces with the present sizes, and captures again for other sizes.

    Sizes that depend on data remain symbolic.
    """
    deciding = deciding_symbols(module)
    for value in inputs:
        if isinstance(value, torch.SymInt) and symbols_of(value) & deciding:
            with contextlib.suppress(Exception):  # some private number types of PyTorch have no int value
                int(value)


def is_number(value: Any) -> bool:
    """Whether a value is a symbolic number that is known before the graph runs."""
    return isinstance(value, NUMBERS) and not free_unbacked_symbols(value)


def number_now(value: Any) -> Any:
    """Return the number used in the capture for a symbolic number."""
    return value.node.hint if isinstance(value, NUMBERS) else value


def is_symbol(value: Any) -> bool:
    """Whether a value is a symbolic size."""
    return isinstance(value, torch.SymInt) and value.node.maybe_as_int() is None


def is_sparse(value: Any) -> bool:
    """Whether a value is a tensor without strided layout."""
    return isinstance(value, torch.Tensor) and value.layout is not torch.strided


def has_unknown_sizes(graph: fx.Graph) -> bool:
    """Whether the graph serves several sizes, or contains tensors whose size depends on data."""
    values = tree_iter([n.meta.get("val") for n in graph.nodes])
    return any(
        (is_symbol(v) and not is_number(v)) or is_sparse(v) or (isinstance(v, torch.Tensor) and any(map(is_symbol, v.shape)))
        for v in values
    )


def is_last_size() -> bool:
    """Whether PyTorch has reached its limit of captures, so that this capture has to serve all further input sizes."""
    n_before = getattr(compile_id(), "frame_compile_id", None) or 0
    return bool(n_before + 1 >= limit())
