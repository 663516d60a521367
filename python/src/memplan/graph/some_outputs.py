"""Backward for a subset of forward's outputs: contributions of the other outputs are not computed.

Backward is linear in the outputs' gradients. A result that depends on absent gradients only is absent, as in eager autograd. If
one operand of a sum is absent, the sum equals the other operand. Other operators receive zeros for an absent gradient.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten


def zeros_like_value(value: torch.Tensor) -> Any:
    """Return a function without arguments that creates zeros of this layout."""
    shape, strides, dtype, device = tuple(value.shape), value.stride(), value.dtype, value.device

    def zeros() -> torch.Tensor:
        return torch.empty_strided(shape, strides, dtype=dtype, device=device).zero_()

    return zeros


def other_of_sum(node: fx.Node, absent: Collection[fx.Node]) -> fx.Node | None:
    """Return the remaining operand of a sum with one absent operand, or None."""
    if node.target is not aten.add.Tensor or node.kwargs:
        return None
    (left,) = [a for a in node.args if a not in absent] or [None]
    if not isinstance(left, fx.Node):
        return None
    one, both = left.meta["val"], node.meta["val"]
    return left if one.shape == both.shape and one.dtype == both.dtype else None


def for_some_outputs(module: fx.GraphModule, unused: Collection[int]) -> fx.GraphModule:
    """Return the backward graph for calls in which the arguments with indices `unused` are None."""
    given = [n for n in module.graph.nodes if n.op == "placeholder"]
    gradients = {n for n in given if "tangents" in n.name}
    absent = {given[k] for k in unused}
    graph = fx.Graph()
    now: dict[fx.Node, fx.Node] = {}

    def value_of(node: fx.Node) -> fx.Node:
        if node in absent and node not in now:
            now[node] = graph.call_function(zeros_like_value(node.meta["val"]))
            now[node].meta = {"val": torch.zeros_like(node.meta["val"])}
        return now[node]

    for node in module.graph.nodes:
        if node.op == "placeholder":
            made = graph.node_copy(node)
            if node not in absent:
                now[node] = made
        elif node.op == "output":
            outputs = fx.node.map_arg(node.args, lambda n: None if n in absent else now[n])
            graph.output(outputs[0]).meta = dict(node.meta)
        else:
            depends = [a for a in node.all_input_nodes if a in gradients]
            gradients.update([node] if depends else [])
            if depends and absent.issuperset(depends):
                absent.add(node)
            elif (left := other_of_sum(node, absent) if not absent.isdisjoint(depends) else None) is not None:
                now[node] = value_of(left)
            else:
                now[node] = graph.node_copy(node, value_of)
    for node in reversed(graph.nodes):
        if node.op not in ("placeholder", "output") and not node.users:
            graph.erase_node(node)
    graph.lint()
    return fx.GraphModule(module, graph)
