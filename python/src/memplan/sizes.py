"""One plan per size: where PyTorch captures a graph for any size, it is held to the sizes that it has now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_iter


def number(symbol: torch.SymInt) -> int | torch.SymInt:
    """What a symbol stands for: asking for it makes PyTorch capture anew where it is another one. The symbol itself where
    that depends on data."""
    try:
        return int(symbol)
    except Exception:  # of several private kinds
        return symbol


def hold_sizes(module: fx.GraphModule, inputs: Sequence[Any]) -> None:
    """Writes numbers into the module where it reads the sizes that it is given."""
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    for placeholder, value in zip(placeholders, inputs):
        if isinstance(value, torch.SymInt) and isinstance(n := number(value), int):
            placeholder.replace_all_uses_with(n)
    module.recompile()


def is_symbol(value: Any) -> bool:
    """Whether this is a size that is not a number."""
    return isinstance(value, torch.SymInt) and value.node.maybe_as_int() is None


def has_symbols(graph: fx.Graph) -> bool:
    """Whether a graph is for more than one size."""
    values = tree_iter([n.meta.get("val") for n in graph.nodes])
    return any(is_symbol(v) or (isinstance(v, torch.Tensor) and any(map(is_symbol, v.shape))) for v in values)


def is_last_size() -> bool:
    """Whether PyTorch captures the code at hand for no further size after this one."""
    current = torch._guards.CompileContext.current_compile_id()
    n_before = getattr(current, "frame_compile_id", None) or 0
    config = torch._dynamo.config
    return bool(n_before + 1 >= getattr(config, "recompile_limit", config.cache_size_limit))
