"""Tensors: version counters, views, hooks, and tensors within nested values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx

from memplan.torch_internals.names import Private

TREE_ITER = Private(
    "torch.utils._pytree.tree_iter",
    use="the values in what a model takes and returns",
    lost="tensors in classes that are neither tuples, lists nor dictionaries are not seen",
)
VERSION = Private(
    "torch.Tensor._version",
    use="how often a tensor was written into",
    lost="what is written between forward and backward into what backward reads is not noticed",
)
BASE = Private(
    "torch.Tensor._base",
    use="what a tensor is a view of",
    lost="gradients of gradients are refused where a model returns views",
)
HOOKS = Private(
    "torch.Tensor._backward_hooks",
    use="hooks on the gradient of a parameter",
    lost="such hooks do not run in a TrainStep, and it does not refuse them",
)
HOOKS_BEHIND = Private(
    "torch.Tensor._post_accumulate_grad_hooks",
    use="hooks behind the gradient of a parameter",
    lost="such hooks do not run in a TrainStep, and it does not refuse them",
)
UNWRAP = Private(
    "torch._from_functional_tensor",
    use="which tensor outside of a capture is meant",
    lost="under autocast a parameter that is used twice is cast twice, which adds its gradients up in fp32",
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
