"""In-place forms of operators, which store the result in an operand's memory. Results are bit-identical.

Eager uses in-place forms in backward formulas, such as a scatter into zeros. A capture contains the forms that allocate their
results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from memplan.torch_internals.dispatch import OPERATOR, schema_of

aten = torch.ops.aten
Form = Callable[..., Any]

# operators with a form that receives the output memory as an additional argument; the value is this argument's name
INTO_FIRST: dict[Any, tuple[Form, str]] = {
    aten.threshold_backward.default: (aten.threshold_backward.grad_input, "grad_input"),
    aten.hardtanh_backward.default: (aten.hardtanh_backward.grad_input, "grad_input"),
}
# Operators that are not elementwise, but bit-identical when they overwrite their first argument.
WRITERS = frozenset(
    [
        "addbmm",
        "addmm",
        "addmv",
        "addr",
        "baddbmm",
        "copy",
        "cumprod",
        "cumsum",
        "fill",
        "hardswish",
        "index_add",
        "index_copy",
        "index_fill",
        "index_put",
        "index_reduce",
        "masked_fill",
        "masked_scatter",
        "put",
        "renorm",
        "scatter",
        "scatter_add",
        "scatter_reduce",
        "tril",
        "triu",
        "zero",
    ]
)
OTHER_BITS = frozenset((aten.mul.Scalar,))  # operators whose in-place form rounds differently in bfloat16
ZEROS = frozenset((aten.new_zeros.default, aten.zeros_like.default, aten.zeros.default))
APART = "memplan_apart"  # key in a node's meta: result and first argument differ in size, so the node may not overwrite it


def into_part(view: Form) -> Form:
    """Return the in-place form of an operator that writes a tensor into a part of another."""

    def form(whole: torch.Tensor, part: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        view(whole, *args, **kwargs).copy_(part)
        return whole

    return form


# Operators that write a tensor into a part of another tensor.
SCATTERS: dict[Any, Form] = {
    aten.slice_scatter.default: into_part(aten.slice.Tensor),
    aten.select_scatter.default: into_part(aten.select.int),
    aten.diagonal_scatter.default: into_part(aten.diagonal.default),
    aten.as_strided_scatter.default: into_part(aten.as_strided.default),
}


@functools.cache
def in_place_form(target: Any) -> Form | None:
    """Return an operator's in-place form that stores a bit-identical result in its first argument, or None."""
    if target in SCATTERS:
        return SCATTERS[target]
    if not isinstance(target, OPERATOR) or target.namespace != "aten" or target in OTHER_BITS:
        return None
    name, _, overload = target.name().removeprefix("aten::").partition(".")
    is_known = torch.Tag.pointwise in target.tags or name in WRITERS
    form = getattr(getattr(aten, f"{name}_", None), overload or "default", None)
    if not is_known or form is None or torch.Tag.nondeterministic_seeded in target.tags:
        return None
    arguments, of_form = ([(a.name, str(a.type)) for a in schema_of(f).arguments] for f in (target, form))
    return form if arguments == of_form else None


def may_write_into_first(node: fx.Node) -> bool:
    """Whether an operator has an in-place form for its first argument, and the result is as large as that argument."""
    return APART not in node.meta and (node.target in INTO_FIRST or in_place_form(node.target) is not None)


def write_straight(graph: fx.Graph) -> None:
    """Remove the copy from an assignment to a part of a tensor, such as `h[0] = v`.

    PyTorch captures the assignment as `copy(h[0], v)`, which allocates as much memory as h, and a write of the result into h.
    The result equals v, so memplan writes v itself.
    """
    for node in list(graph.nodes):
        if node.target is not aten.copy.default or not all(is_written_by(user, node) for user in node.users):
            continue
        into, value = node.args[0].meta["val"], node.args[1].meta["val"]
        if (into.dtype, into.device, into.shape) == (value.dtype, value.device, value.shape):
            node.replace_all_uses_with(node.args[1])
    graph.eliminate_dead_code()


def is_written_by(user: fx.Node, value: fx.Node) -> bool:
    """Whether a node only writes this value into a part of a tensor."""
    return user.target in SCATTERS and user.args[1] is value and user.args[0] is not value


def fill_with_zeros(graph: fx.Graph) -> None:
    """Replace a choice between a tensor and zeros of its size by `masked_fill`, which can overwrite the tensor."""
    for node in list(graph.nodes):
        if node.target is not aten.where.self:
            continue
        where, kept, other = node.args
        zeros = other if are_zeros(other, node) else kept
        value = kept if zeros is other else other
        if not are_zeros(zeros, node) or not is_like(value, node):
            continue
        with graph.inserting_before(node):
            if zeros is other:
                where = graph.call_function(aten.bitwise_not.default, (where,))
                where.meta = {**node.meta, "val": aten.bitwise_not.default(node.args[0].meta["val"])}
            filled = graph.call_function(aten.masked_fill.Scalar, (value, where, 0))
        filled.meta = dict(node.meta)
        node.replace_all_uses_with(filled)
        graph.erase_node(node)
    graph.eliminate_dead_code()


def are_zeros(value: Any, node: fx.Node) -> bool:
    """Whether a value is a tensor of zeros that only this node reads."""
    return isinstance(value, fx.Node) and value.target in ZEROS and list(value.users) == [node] and is_like(value, node)


def is_like(value: Any, node: fx.Node) -> bool:
    a, b = value.meta.get("val"), node.meta["val"]
    return isinstance(a, torch.Tensor) and (a.dtype, a.device, a.shape) == (b.dtype, b.device, b.shape)
