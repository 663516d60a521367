"""One plan per size: where PyTorch captures a graph for any size, it is held to the sizes that it has now. Numbers that decide
no size (a weight of a loss, a counter of steps) stay open: one graph is for all of them."""

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
    """Of sizes, strides and numbers in this."""
    found: set[Any] = set()
    for one in tree_iter(value):
        if isinstance(one, NUMBERS) or (isinstance(one, torch.Tensor) and one.layout is torch.strided):
            with contextlib.suppress(Exception):  # of several private kinds
                found |= set(free_symbols(one))
    return found


def deciding_symbols(module: fx.GraphModule) -> set[Any]:
    """Those on which sizes of tensors in a captured graph depend."""
    values = [n.meta.get("example_value") for n in module.graph.nodes]
    return symbols_of([v for v in tree_iter(values) if isinstance(v, torch.Tensor)])


def hold_sizes(module: fx.GraphModule, inputs: Iterable[Any]) -> None:
    """Asks what each symbol that decides sizes stands for: PyTorch then traces with that number, and captures anew where it is
    another one. Sizes that depend on data stay symbols."""
    deciding = deciding_symbols(module)
    hold_numbers(i for i in inputs if isinstance(i, torch.SymInt) and symbols_of(i) & deciding)


def hold_numbers(inputs: Iterable[Any]) -> None:
    """The same for all numbers."""
    for value in inputs:
        if isinstance(value, torch.SymInt):
            with contextlib.suppress(Exception):  # of several private kinds
                int(value)


def is_number(value: Any) -> bool:
    """Whether this is a number that is known when the graph runs, before it does."""
    return isinstance(value, NUMBERS) and not free_unbacked_symbols(value)


def number_now(value: Any) -> Any:
    """The number for which the graph was captured."""
    return value.node.hint if isinstance(value, NUMBERS) else value


def is_symbol(value: Any) -> bool:
    """Whether this is a size that is not a number."""
    return isinstance(value, torch.SymInt) and value.node.maybe_as_int() is None


def is_sparse(value: Any) -> bool:
    """Whether this is a tensor that does not lie in one piece of memory."""
    return isinstance(value, torch.Tensor) and value.layout is not torch.strided


def has_unknown_sizes(graph: fx.Graph) -> bool:
    """Whether a graph is for more than one size, or has tensors that take more or less by what is in them."""
    values = tree_iter([n.meta.get("val") for n in graph.nodes])
    return any(
        (is_symbol(v) and not is_number(v)) or is_sparse(v) or (isinstance(v, torch.Tensor) and any(map(is_symbol, v.shape)))
        for v in values
    )


def is_last_size() -> bool:
    """Whether PyTorch captures the code at hand for no further size after this one."""
    n_before = getattr(compile_id(), "frame_compile_id", None) or 0
    return bool(n_before + 1 >= limit())
