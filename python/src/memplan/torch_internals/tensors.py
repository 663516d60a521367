"""Tensors: version counters, views, hooks, and tensors within nested values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx

from memplan.torch_internals.names import Private

TREE_ITER = Private(
    "torch.utils._pytree.tree_iter",
    use="finds the tensors in a model's arguments and results",
    lost="memplan finds tensors in tuples, lists and dictionaries only",
)
VERSION = Private(
    "torch.Tensor._version",
    use="counts the writes into a tensor",
    lost="memplan does not notice writes between forward and backward into tensors that backward reads",
)
BASE = Private(
    "torch.Tensor._base",
    use="returns the base of a view",
    lost="memplan refuses second-order gradients of models that return views",
)
HOOKS = Private(
    "torch.Tensor._backward_hooks",
    use="finds hooks on the gradient of a parameter",
    lost="TrainStep ignores such hooks without an error",
)
HOOKS_BEHIND = Private(
    "torch.Tensor._post_accumulate_grad_hooks",
    use="finds hooks that run after the gradient of a parameter is accumulated",
    lost="TrainStep ignores such hooks without an error",
)
UNWRAP = Private(
    "torch._from_functional_tensor",
    use="finds the real tensor of a captured tensor",
    lost="under autocast, a parameter with two uses is cast twice, and its gradients are added in fp32",
)


def tree_iter(value: Any) -> Iterator[Any]:
    """Yield the leaves of tuples, lists, dictionaries and classes registered with PyTorch."""
    if TREE_ITER:
        yield from TREE_ITER(value)
        return
    found: list[Any] = []
    fx.node.map_aggregate(value, found.append)
    yield from found


def version_of(value: Any) -> int:
    """Return the version counter of a tensor; 0 for other values and for tensors without a counter."""
    counts = VERSION and isinstance(value, torch.Tensor) and not value.is_inference()
    return int(value._version) if counts else 0


def versions_of(values: Sequence[Any]) -> list[int]:
    try:
        return [v._version for v in values] if VERSION else [0] * len(values)
    except (AttributeError, RuntimeError):
        return [version_of(v) for v in values]


def base_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the base of a view, or None. Raises MemplanError."""
    BASE.need()
    return tensor._base


def has_gradient_hooks(parameter: torch.Tensor) -> bool:
    """Whether a parameter has hooks on its gradient."""
    before = bool(HOOKS) and bool(parameter._backward_hooks)
    return before or (bool(HOOKS_BEHIND) and bool(getattr(parameter, "_post_accumulate_grad_hooks", None)))


def is_leaf_outside(tensor: torch.Tensor) -> bool:
    """Whether a tensor of a capture stands for a leaf that requires a gradient and is no view."""
    if (wrapped := getattr(tensor, "elem", None)) is not None:
        if not UNWRAP:
            return False
        tensor = UNWRAP(wrapped)
    is_view = bool(BASE) and tensor._base is not None
    return bool(tensor.is_leaf and tensor.requires_grad and not is_view)


def fake_mode_of(value: Any) -> Any:
    """Return the fake tensor mode of the first fake tensor in a value, or None."""
    return next((t.fake_mode for t in tree_iter(value) if hasattr(t, "fake_mode")), None)
