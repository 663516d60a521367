"""The head of a network and its loss in chunks of rows.

The logits of a language model have one row per token and one column per word. memplan writes the operators of the head once per
chunk of rows. Backward of a chunk follows its loss, so that only one chunk of logits exists at a time.

The incoming gradient of the loss is unknown at that time. Backward is linear in it, so memplan computes with 1, and multiplies
the results by the incoming gradient where backward reads them.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from memplan.graph.heads import Head, head_of
from memplan.graph.mlp_chunks import with_mlps
from memplan.graph.operators import IN_FORWARD
from memplan.graph.row_regions import Chunks
from memplan.graph.row_rules import IGNORED, LOSS, LOSSES, SUM, TOTAL, Layout, Refused, shape_of
from memplan.graph.row_writer import RowWriter

aten = torch.ops.aten


class HeadWriter(RowWriter):
    """Writes the joint graph with the head in n chunks."""

    kind = "head"

    def __init__(self, joint: fx.GraphModule, head: Head, n: int) -> None:
        super().__init__(joint, head.seed)
        self.head = self.region = head
        self.sizes = head.sizes(n)
        self.units: dict[fx.Node, fx.Node] = {}  # nodes that depend on the loss's incoming gradient, with 1 in its place
        self.totals: dict[fx.Node, fx.Node] = {}  # by log-likelihood: the sum of the labels' weights of all rows
        self.labels: dict[fx.Node, fx.Node] = {}
        self.has_run = False
        late = self._late()
        for node in joint.graph.nodes:
            if node not in head.rules and node not in late:
                self.outer(node)
        self.module = self.finished()

    def _late(self) -> set[fx.Node]:
        """Return nodes that read one parameter gradient only, such as views. They are written when another node reads them."""
        late: set[fx.Node] = set()
        for node in self.joint.graph.nodes:
            given = node.all_input_nodes
            if node.op == "call_function" and len(given) == 1 and node not in self.head.rules:
                of = given[0]
                if of in late or (of in self.head.scaled and of in self.head.rules and self.head.layout(of) == SUM):
                    late.add(node)
        return late

    # ---- nodes outside of the chunks

    def region_of(self, node: fx.Node) -> Head | None:
        return self.head if node in self.head.rules else None

    def result(self, node: fx.Node) -> fx.Node:
        if not self.has_run:
            self._run()
        self.like = node
        value = self._reduced(node) if self.head.layout(node) == LOSS else self.rows_or_sum(node)
        if node in self.head.scaled:
            assert self.head.scale is not None
            value = self.write(aten.mul.Tensor, (value, self.outer(self.head.scale)), {}, name=f"{node.name}_scaled")
            value.meta["partitioner_tag"] = node.meta.get("partitioner_tag")
        return value

    def tag(self) -> str:
        return "is_forward"  # backward of a chunk follows its loss

    def unit(self, node: fx.Node) -> fx.Node:
        """Return a value that the chunks read. If it depends on the loss's incoming gradient, 1 takes the gradient's place."""
        if node is not self.head.scale and node not in self.head.scaled:
            return self.outer(node)
        if node not in self.units:
            self.like = node
            if node is self.head.scale:
                value = node.meta["val"]
                kind = {"dtype": value.dtype, "device": value.device, "pin_memory": False}
                made = self.write(aten.full.default, (list(value.shape), 1), kind, value.new_ones(value.shape))
            else:
                self.head.need_linear(node)
                known = {a: self.unit(a) for a in node.all_input_nodes}
                self.like = node
                args, kwargs = fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
                made = self.write(node.target, args, kwargs)
            self.units[node] = made
        return self.units[node]

    def selected(self, value: fx.Node, use: Layout) -> fx.Node:
        selection = self.head.selection
        assert selection is not None
        value = self.viewed(value, [*selection.shape, *shape_of(value)[use.lead :]])
        value = self.write(aten.slice.Tensor, (value, *selection.arguments), {})
        return self.viewed(value, [self.head.n_rows, *shape_of(value)[len(selection.shape) :]])

    def spread(self, value: fx.Node, node: fx.Node, layout: Layout) -> fx.Node:
        selection, rest = self.head.selection, shape_of(node)[layout.lead :]
        assert selection is not None
        dim, first, last, step = selection.arguments
        part = list(range(selection.shape[dim])[slice(first, last, step)])
        value = self.viewed(value, [*selection.shape[:dim], len(part), *selection.shape[dim + 1 :], *rest])
        return self.write(aten.slice_backward.default, (value, [*selection.shape, *rest], dim, first, last, step), {})

    # ---- the chunks

    def _run(self) -> None:
        """Write all chunks."""
        head = self.head
        self.has_run = True
        for node in head.nodes:
            for given, use in head.rules[node].uses.items():
                if given not in head.rules and use is None:
                    self.unit(given)
            if head.layout(node) == LOSSES:
                self._total(node)
        for k, n_rows in enumerate(self.sizes):
            self.k, self.n_rows = k, n_rows
            self.now.clear()
            self.given.clear()
            for node in head.nodes:
                self.like, self.rule = node, head.rules[node]
                if self.rule.layout != TOTAL:
                    self.add(node)
            self.first += self.n_rows
        for last in self.sums.values():
            last.meta[IN_FORWARD] = True

    # ---- results

    def _total(self, node: fx.Node) -> None:
        """Write the sum of the labels' weights, and the labels that `_reduced` reads."""
        self.like = node
        scores, target, weight, reduction, ignored = node.args
        labels = self.unit(target)  # type: ignore[arg-type]
        is_ignored = self.write(aten.eq.Scalar, (labels, ignored), {})
        zeros = self.write(aten.zeros_like.default, (labels,), {})
        self.labels[node] = self.write(aten.masked_fill.Scalar, (zeros, is_ignored, IGNORED), {})
        items = [u for u in node.users if self.head.layout(u) == TOTAL]
        if isinstance(weight, fx.Node):
            known = self.unit(weight)
            chosen = self.write(aten.masked_fill.Scalar, (labels, is_ignored, 0), {})
            of_rows = self.write(aten.index_select.default, (known, 0, chosen), {})
            total = self.write(aten.sum.default, (self.write(aten.masked_fill.Scalar, (of_rows, is_ignored, 0), {}),), {})
        else:
            value = scores.meta["val"]  # type: ignore[union-attr]
            kind = {"dtype": value.dtype, "device": value.device, "pin_memory": False}
            empty = self.write(aten.full.default, ([self.head.n_rows, 1], 0), kind, value.new_zeros((self.head.n_rows, 1)))
            both = self.write(node.target, (empty, self.labels[node], None, reduction, IGNORED), {})
            total = self._item(both, 1)
        self.totals[node] = total
        for one in items:
            self.made[one] = total

    def _item(self, node: fx.Node, k: int) -> fx.Node:
        made = self.graph.call_function(operator.getitem, (node, k))
        made.meta = {**node.meta, "val": node.meta["val"][k]}
        return made

    def _reduced(self, node: fx.Node) -> fx.Node:
        """Return the loss of all rows. The additions have the order of a loss that is not cut into chunks.

        The kernel reads one score per row. The scores are the negative losses, in a matrix with one column.
        """
        source: Any = node.args[0]
        reduction = source.args[3]
        scores = self.write(aten.neg.default, (self.sums[node],), {})
        scores = self.write(aten.unsqueeze.default, (scores, 1), {})
        is_mean_of_weights = isinstance(source.args[2], fx.Node) and reduction == 1
        kind = 2 if is_mean_of_weights else reduction
        loss = self._item(self.write(source.target, (scores, self.labels[source], None, kind, IGNORED), {}), 0)
        return self.write(aten.div.Tensor, (loss, self.totals[source]), {}) if is_mean_of_weights else loss


def in_chunks(joint: fx.GraphModule, chunks: Chunks, is_sharded: bool = False) -> fx.GraphModule:
    """Return the joint graph with its regions in chunks of rows. Raises Refused."""
    if chunks == Chunks():
        return joint
    if is_sharded:
        raise Refused("the model is sharded over ranks")
    if chunks.mlp > 1:
        joint = with_mlps(joint, chunks.mlp)
    if chunks.head > 1 and (head := head_of(joint.graph)) is not None:
        joint = HeadWriter(joint, head, chunks.head).module
    return joint
