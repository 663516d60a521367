"""Whether the layout of an output's gradient can change the bits of backward.

A compiled graph copies the gradient of an output into the output's layout, and eager does not. memplan follows the strides of
the gradient from the output back to the first operator that computes. Two examples:

    logits.transpose(1, 2) -> cross_entropy     gradient transposed; linear copies it in eager, too: equal bits
    (4, 8) with strides (1, 4), linear          a product and a sum in another order: the bits may differ
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

RESHAPES = {"view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze"}
POINTWISE = {"gelu", "relu", "relu_", "silu", "tanh", "sigmoid", "dropout", "elu", "leaky_relu", "softplus", "float", "to"}
MOVES = {"transpose", "swapaxes"}
COPIES = {"layer_norm"}  # operators whose backward first makes a contiguous copy of the gradient
# types for which oneDNN runs convolutions, whose backward begins with a contiguous copy of the gradient
BY_ONEDNN = (torch.float32, torch.bfloat16)


def transposed(gradient: Any, strides: tuple[int, ...], made_by: Any = None) -> bool:
    """Return whether a copy of a gradient into these strides may change the bits of results.

    A copy of an expanded gradient changes no bits, because eager mode copies it, too.

    Args:
        made_by: the node of the output in the captured graph. Without it, any difference in strides may change bits.
    """
    if not isinstance(gradient, torch.Tensor) or gradient.layout is not torch.strided or 0 in gradient.stride():
        return False
    given, copied = (
        torch.empty_strided(gradient.shape, s, dtype=gradient.dtype, device="meta") for s in (gradient.stride(), strides)
    )
    return not (are_equal(given, copied) or (isinstance(made_by, fx.Node) and have_equal_bits(made_by, given, copied)))


def are_equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return all(a.stride(k) == b.stride(k) for k, n in enumerate(a.shape) if n > 1)


def have_equal_bits(node: fx.Node, a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether backward certainly computes equal bits from the layouts `a` and `b` of the node's output gradient."""
    if are_equal(a, b):
        return True
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    read = [i for i in node.all_input_nodes if isinstance(value_of(i), torch.Tensor)]
    if not read or len(node.users) > 1:  # with several users, the gradient is a sum, which may have another layout
        return False
    if name in ("linear", "addmm"):
        rows = math.prod(a.shape[:-1])
        return all(t.reshape(rows, a.shape[-1]).stride(-1) == 1 for t in (a, b))
    of_input = [gradient_of_input(node, name, read, t) for t in (a, b)]
    if of_input[0] is not None and of_input[1] is not None:
        return have_equal_bits(read[0], of_input[0], of_input[1])
    return name in COPIES or (name == "conv2d" and is_of_onednn(node, read))


def gradient_of_input(node: fx.Node, name: str, read: Sequence[fx.Node], g: torch.Tensor) -> torch.Tensor | None:
    """Return the gradient of the input if the node is a view or a pointwise operator, else None."""
    value, last = value_of(read[0]), node.args[1:]
    is_known = all(isinstance(n, int) for n in value.shape)
    result = None
    if name in RESHAPES and is_known:
        result = g.reshape(value.shape)
    elif name == "contiguous":
        result = g
    elif name in MOVES and len(last) == 2 and all(isinstance(k, int) for k in last):
        result = g.transpose(*last)  # type: ignore[arg-type]
    elif name == "permute" and last:
        result = g.permute(permutation(last, g.dim()))
    elif name in POINTWISE and len(read) == 1 and is_known:
        result = g * torch.empty_strided(value.shape, value.stride(), device="meta", dtype=g.dtype)
    return result


def permutation(given: Sequence[Any], n: int) -> list[int]:
    """Return the inverse of the permutation of n dimensions that a node's arguments state."""
    order = [k % n for k in (given[0] if isinstance(given[0], (tuple, list)) else given)]
    return [order.index(k) for k in range(n)]


def is_of_onednn(node: fx.Node, read: Sequence[fx.Node]) -> bool:
    """Whether oneDNN runs this convolution: on the CPU, with a window larger than 1.

    Other convolutions sum the gradient of the bias in the order of its layout.
    """
    weight = value_of(read[1]) if len(read) > 1 else None
    if weight is None or weight.device.type != "cpu" or weight.dtype not in BY_ONEDNN or groups_of(node) > 1:
        return False
    has_onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return bool(has_onednn and torch.backends.mkldnn.enabled and max(weight.shape[2:]) > 1)


def groups_of(node: fx.Node) -> Any:
    return node.args[6] if len(node.args) > 6 else node.kwargs.get("groups", 1)


def value_of(node: fx.Node) -> Any:
    return node.meta.get("example_value", node.meta.get("val"))
