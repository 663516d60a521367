"""Fake tensors, and the names of a graph's nodes."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from memplan.torch_internals.absent_device import FAKE_TENSOR
from memplan.torch_internals.names import Private

SOURCE = "_dynamo_source"  # attribute of Dynamo's placeholders that AOTAutograd reads
UNSET = Private(
    "torch._subclasses.fake_tensor.unset_fake_temporarily",
    use="makes the values of blocks that a capture omits",
    instead="PyTorch traces all equal blocks",
)
NAMESPACE = Private(
    "_graph_namespace",
    use="gives inserted nodes the names of a capture of all blocks",
    instead="inserted nodes have other names",
    of=fx.Graph,
)


def is_plain_fake(value: Any) -> bool:
    """Whether a value is a dense, real fake tensor of fixed size."""
    if not FAKE_TENSOR or not UNSET or type(value) is not FAKE_TENSOR.get():
        return False
    is_real = value.layout is torch.strided and not value.is_complex() and not value.is_quantized
    return is_real and all(type(n) is int for n in (*value.shape, *value.stride(), value.storage_offset()))


def fake_like(value: Any, storage: Any) -> Any:
    """Return a fake tensor with the layout and device of another one, in the given storage."""
    with UNSET():
        made = torch.empty(0, dtype=value.dtype, device="meta")
        made.set_(storage, value.storage_offset(), value.shape, value.stride())
        return FAKE_TENSOR(value.fake_mode, made, value.device)


def are_same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two constants have the same layout and bits."""
    layouts = [(t.shape, t.stride(), t.dtype, t.device) for t in (a, b)]
    with UNSET():
        return layouts[0] == layouts[1] and torch.equal(a, b)


def cloned(constant: torch.Tensor) -> torch.Tensor:
    with UNSET():
        return constant.clone()


def rename(graph: fx.Graph, names: list[tuple[fx.Node, str]]) -> None:
    """Give each node its name. The names of all nodes are unique."""
    if NAMESPACE:
        namespace: Any = getattr(graph, NAMESPACE.paths[0])
        for node, name in names:
            node.name = name
            namespace._rename_object(node, name)
