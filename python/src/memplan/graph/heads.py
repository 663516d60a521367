"""Heads of networks: the product that makes the logits, the loss, and their backward.

memplan finds the head in the joint graph. Each of its operators computes every row of the logits alone, or a sum over the rows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from memplan.graph.row_regions import RowRegion, descendants, has_one_row, is_view, n_elements, seeds_of
from memplan.graph.row_rules import COLUMNS, Layout, Refused, rows_in, shape_of
from memplan.graph.row_table import Selection, selection_of

aten = torch.ops.aten

SCORES = frozenset((aten._log_softmax.default, aten.logsumexp.default, aten._softmax.default))
NO_HEAD = "the model's loss is not a cross-entropy over the rows of logits"
MOST_TRIED = 4  # maximum number of products that are examined for a reason
# operators that are linear in their first operand
LINEAR = frozenset(
    (
        aten.neg.default,
        aten.sum.default,
        aten.sum.dim_IntList,
        aten.mean.dim,
        aten.mul.Scalar,
        aten.div.Scalar,
        aten.div.Tensor,
        aten.clone.default,
        aten._to_copy.default,
        aten.nll_loss_backward.default,
        aten._log_softmax_backward_data.default,
        aten._softmax_backward_data.default,
        aten.tanh_backward.default,
        aten.sigmoid_backward.default,
        aten.gelu_backward.default,
        aten.silu_backward.default,
        aten.threshold_backward.default,
        aten.hardtanh_backward.default,
        aten.gather.default,
    )
)


class Head(RowRegion):
    """The product that makes the logits, the loss, and their backward.

    Raises Refused. `scale`: the incoming gradient of the loss, on which all results of backward depend linearly; None: there is
    no backward.
    """

    hidden = "the logits"

    def __init__(self, seed: fx.Node, tangents: list[fx.Node]) -> None:
        super().__init__(seed)
        self.n_all, self.selection = self.n_rows, self._find_selection()
        self.scale, self.scaled = self._find_scale(tangents)
        for node in self.nodes:
            if node in self.scaled:
                self.need_linear(node)
        if not any(n.target in SCORES for n in self.nodes):
            raise Refused(NO_HEAD)

    def _find_selection(self) -> Selection | None:
        """Return the selection of rows that the loss reads, or None for all rows. Set `n_rows` to the number of these rows."""
        found: set[Selection] = set()
        for node in self.nodes:
            if (one := selection_of(node, self.layout(node))) is not None:
                found.add(one)
                of: Any = node if node.target is aten.slice.Tensor else node.args[0]
                self.n_rows = rows_in(of, self.layout(node))
        if len(found) > 1:
            raise Refused("the logits are sliced in several ways")
        return next(iter(found), None)

    def reads_all(self, node: fx.Node, layout: Layout) -> bool:
        """Whether a tensor has all rows, although the loss reads some of them."""
        n = shape_of(node)[1] if layout == COLUMNS else rows_in(node, layout)
        return self.selection is not None and n == self.n_all

    def _find_scale(self, tangents: list[fx.Node]) -> tuple[fx.Node | None, set[fx.Node]]:
        reaching_ones = [t for t in tangents if descendants([t]) & self.rules.keys()]
        if not reaching_ones:
            return None, set()
        scale = reaching_ones[0]
        if len(reaching_ones) > 1 or shape_of(scale):
            below = descendants(tangents) | set(tangents)
            given = {a for n in self.nodes for a in n.all_input_nodes if a not in self.rules and a in below}
            scale = next(iter(given))
            if len(given) > 1 or shape_of(scale):
                raise Refused("the incoming gradient of the loss is not one number")
        return scale, descendants([scale])

    def need_linear(self, node: fx.Node) -> None:
        """Raise Refused if a node is not linear in the loss's incoming gradient."""
        of = [a for a in node.all_input_nodes if (a in self.scaled or a is self.scale) and not is_zero(a)]
        first = node.args[0] if node.args else None
        target: Any = node.target
        if is_view(node) or is_zero(node) or target is aten.slice_backward.default or (target in LINEAR and of == [first]):
            return
        given = [a for a in node.args if isinstance(a, fx.Node)]
        if target in (aten.add.Tensor, aten.sub.Tensor) and len(of) == len(given) == 2 and not node.kwargs:
            return
        if target in (aten.mul.Tensor, aten.mm.default) and len(of) == 1 and given[0] is not given[-1]:
            return
        if target is aten.mul.Tensor and len(given) == 1:
            return
        if target is aten.masked_fill.Scalar and of == [first] and node.args[2] == 0:
            return
        if target in (aten.scatter.src, aten.scatter_add.default) and of == [node.args[3]] and is_zero(first):
            return
        raise Refused(f"{target} ({node.name}) is not linear in the incoming gradient of the loss")


def is_zero(node: Any) -> bool:
    return isinstance(node, fx.Node) and node.target in (aten.new_zeros.default, aten.zeros.default, aten.zeros_like.default)


def tangents_of(graph: fx.Graph) -> list[fx.Node]:
    return [n for n in graph.nodes if n.op == "placeholder" and "tangents" in n.name]


def head_of(graph: fx.Graph) -> Head | None:
    """Return the head with the largest logits, or None if it has one row. Raises Refused."""
    tangents = tangents_of(graph)
    found = seeds_of(graph, descendants(tangents))
    if has_one_row(found):
        return None
    reason = ""
    for seed in sorted(found, key=n_elements, reverse=True)[:MOST_TRIED]:
        try:
            return Head(seed, tangents)
        except Refused as refused:
            if not reason and has_scores(seed):
                reason = str(refused)
    raise Refused(reason or NO_HEAD)


def has_scores(seed: fx.Node) -> bool:
    """Whether a softmax of the product, or of some of its rows, follows."""
    todo, seen = [seed], set[fx.Node]()
    given: Any = seed.args[-2]
    while todo:
        node = todo.pop()
        if node.target in SCORES:
            return True
        for user in node.users:
            is_tensor = isinstance(user.meta.get("val"), torch.Tensor) and user not in seen
            if is_tensor and n_elements(user) > n_elements(given) and shape_of(user)[-1] == shape_of(seed)[-1]:
                seen.add(user)
                todo.append(user)
    return any(u.op == "output" for n in (seed, *seen) for u in n.users)
