"""The rules of operators that are computed in chunks of rows, by operator, and the selection of rows.

A loss may read the logits of some rows only, such as all tokens but the last of each sequence. The head is then computed for
these rows. Backward fills the other rows of a gradient with zeros, and zeros do not change a sum over the rows.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import fx

from memplan.graph.operators import draws
from memplan.graph.row_rules import (
    SUM,
    SUMS,
    Facts,
    Layout,
    Rule,
    alike,
    along,
    at,
    created,
    dropped,
    expand,
    inserted,
    item,
    loss_gradient,
    losses,
    pointwise,
    product,
    reduction,
    shape_of,
    tensors_in,
    transposed,
    view,
)
from memplan.torch_internals.dispatch import OPERATOR

aten = torch.ops.aten


class Selection(NamedTuple):
    """The rows that the loss reads: a slice of the leading dimensions `shape`."""

    shape: tuple[int, ...]
    arguments: tuple[Any, ...]  # of aten.slice


def selection_of(node: fx.Node, layout: Layout) -> Selection | None:
    """Return the selection of rows that a node of a head makes or reverses, or None."""
    given: tuple[Any, ...] = node.args
    if node.target is aten.slice.Tensor:
        shape = shape_of(given[0])
        arguments = (at(given[1], len(shape)), *given[2:], *(None, None, 1)[len(given) - 2 :])
    elif node.target is aten.slice_backward.default:
        shape, arguments = shape_of(node), given[2:]
    else:
        return None
    is_whole = shape_of(given[0]) == shape_of(node)
    return Selection(shape[: layout.lead], arguments) if arguments[0] < layout.lead and not is_whole else None


def selected(facts: Facts) -> Rule:
    """slice: some of the rows, or some of the columns."""
    known = facts.known.get(facts.source, facts.wanted)
    if known is None or known.kind != "rows" or at(facts.args[1], len(facts.shape())) >= known.lead:
        return dropped(facts)
    return Rule(known, {facts.source: known}, lambda chunk: chunk.value(facts.source))


def spread(facts: Facts) -> Rule:
    """slice_backward adds rows of zeros. A chunk leaves these rows out."""
    known = facts.known.get(facts.source, facts.wanted)
    if known is None or known.kind != "rows" or facts.args[2] >= known.lead:
        raise facts.refuse()
    return Rule(known, {facts.source: known}, lambda chunk: chunk.value(facts.source))


def split(facts: Facts) -> Rule:
    """split: parts along a dimension behind the rows."""
    node, (source, sizes, *rest) = facts.node, facts.args
    known = facts.known.get(source, facts.wanted)
    dim = at(rest[0] if rest else 0, len(shape_of(source)))
    if known is None or known.kind != "rows" or dim < known.lead:
        raise facts.refuse()
    inner = dim - known.lead + 1
    return Rule(known, {source: known}, lambda chunk: chunk.call(node.target, chunk.value(source), sizes, inner))


def joined(facts: Facts) -> Rule:
    """cat: along a dimension behind the rows."""
    node, lead, parts = facts.node, facts.lead(), facts.args[0]
    dim = at(facts.args[1] if len(facts.args) > 1 else 0, len(facts.shape()))
    if dim < lead or any(shape_of(part)[:lead] != facts.shape()[:lead] for part in parts):
        raise facts.refuse()
    rows = Layout("rows", lead)
    return Rule(
        rows, dict.fromkeys(parts, rows), lambda chunk: chunk.call(node.target, [*map(chunk.value, parts)], dim - lead + 1)
    )


RULES: dict[Any, Callable[[Facts], Rule]] = {
    operator.getitem: item,
    aten.slice.Tensor: selected,
    aten.slice_backward.default: spread,
    aten.nll_loss_forward.default: losses,
    aten.nll_loss_backward.default: loss_gradient,
    aten.mm.default: product,
    aten.addmm.default: product,
    aten.cat.default: joined,
    aten.t.default: transposed,
    **dict.fromkeys((aten.split.Tensor, aten.split_with_sizes.default), split),
    aten.transpose.int: transposed,
    aten.expand.default: expand,
    aten.unsqueeze.default: inserted,
    aten.gather.default: along(1, 1),
    aten._log_softmax.default: along(1, 1),
    aten._softmax.default: along(1, 1),
    aten._log_softmax_backward_data.default: along(2, 2),
    aten._softmax_backward_data.default: along(2, 2),
    **dict.fromkeys((aten.scatter.value, aten.scatter.src, aten.scatter_add.default), along(1, 1)),
    **dict.fromkeys((aten.view.default, aten._unsafe_view.default), view),
    **dict.fromkeys((aten.detach.default, aten.alias.default, aten._to_copy.default), pointwise),
    **dict.fromkeys((aten.zeros_like.default, aten.ones_like.default, aten.full_like.default), pointwise),
    **dict.fromkeys((aten.full.default, aten.zeros.default, aten.ones.default, aten.new_zeros.default), created),
    **dict.fromkeys((aten.squeeze.dim, aten.squeeze.dims, aten.select.int), dropped),
    **dict.fromkeys(SUMS, reduction),
    **dict.fromkeys((aten.mean.dim, aten.amax.default, aten.logsumexp.default, aten.argmax.default), reduction),
}


def rule_of(facts: Facts) -> Rule:
    """Return the rule of a node. Raises Refused if the node is not computed for each row alone."""
    target: Any = facts.node.target
    is_pointwise = isinstance(target, OPERATOR) and torch.Tag.pointwise in target.tags
    rule = RULES.get(target, pointwise if is_pointwise else None)
    if rule is None or draws(facts.node):
        raise facts.refuse()
    (source, *others) = tensors_in(facts.node) or [facts.node]
    if facts.known.get(source) == SUM and not others and target in (aten.t.default, aten._to_copy.default):
        return Rule(SUM, {source: SUM}, alike(facts.node))
    return rule(facts)
