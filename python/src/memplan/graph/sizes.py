"""One plan per size: where PyTorch captures a graph for any size, it is held to the sizes that it has now."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_iter


def hold_sizes(inputs: Iterable[Any]) -> None:
    """Asks what each symbol among a graph's inputs stands for: PyTorch then traces with that number, and captures anew where
    it is another one. Sizes that depend on data stay symbols."""
    for value in inputs:
        if isinstance(value, torch.SymInt):
            with contextlib.suppress(Exception):  # of several private kinds
                int(value)


def is_symbol(value: Any) -> bool:
    """Whether this is a size that is not a number."""
    return isinstance(value, torch.SymInt) and value.node.maybe_as_int() is None


def is_sparse(value: Any) -> bool:
    """Whether this is a tensor that does not lie in one piece of memory."""
    return isinstance(value, torch.Tensor) and value.layout is not torch.strided


def has_unknown_sizes(graph: fx.Graph) -> bool:
    """Whether a graph is for more than one size, or has tensors that take more or less by what is in them."""
    values = tree_iter([n.meta.get("val") for n in graph.nodes])
    return any(is_symbol(v) or is_sparse(v) or (isinstance(v, torch.Tensor) and any(map(is_symbol, v.shape))) for v in values)


def is_last_size() -> bool:
    """Whether PyTorch captures the code at hand for no further size after this one."""
    current = torch._guards.CompileContext.current_compile_id()
    n_before = getattr(current, "frame_compile_id", None) or 0
    config = torch._dynamo.config
    return bool(n_before + 1 >= getattr(config, "recompile_limit", config.cache_size_limit))
