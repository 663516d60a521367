"""The head of a network and its loss in chunks of rows.

The logits of a language model have one row per token and one column per word. memplan writes the operators of the head once per
chunk of rows. Backward of a chunk follows its loss, so that only one chunk of logits exists at a time.

The incoming gradient of the loss is unknown at that time. Backward is linear in it, so memplan computes with 1, and multiplies
the results by the incoming gradient where backward reads them.
"""

from __future__ import annotations

import contextlib
import operator
from typing import Any

import torch
from torch import fx

from memplan.graph.heads import CHUNK, Head, head_of, is_view
from memplan.graph.operators import IN_FORWARD
from memplan.graph.row_rules import COLUMNS, IGNORED, LOSS, LOSSES, SUM, TOTAL, Layout, Refused, shape_of
from memplan.torch_internals.tensors import fake_mode_of

aten = torch.ops.aten


class Writer:
    """Writes the joint graph with the head in n chunks. Implements row_rules.Chunk for the present chunk."""

    def __init__(self, joint: fx.GraphModule, head: Head, n: int) -> None:
        self.head, self.joint, self.mode = head, joint, fake_mode_of(head.seed.meta["val"])
        self.sizes = [head.n_rows // n + (k < head.n_rows % n) for k in range(n)]
        self.graph = fx.Graph()
        self.made: dict[fx.Node, fx.Node] = {}  # by node of the joint graph: the node outside of the chunks
        self.units: dict[fx.Node, fx.Node] = {}  # nodes that depend on the loss's incoming gradient, with 1 in its place
        self.totals: dict[fx.Node, fx.Node] = {}  # by log-likelihood: the sum of the labels' weights of all rows
        self.labels: dict[fx.Node, fx.Node] = {}
        self.now: dict[fx.Node, fx.Node] = {}  # values of the present chunk
        self.given: dict[
            tuple[fx.Node, Layout | None], fx.Node
        ] = {}  # operands from outside of the head, for the present chunk
        self.flat: dict[tuple[fx.Node, Layout], fx.Node] = {}  # these operands with one leading dimension
        self.sums: dict[fx.Node, fx.Node] = {}  # by node that is read outside the head: the sum or rows so far
        self.like, self.n_rows, self.first, self.k, self.rule = head.seed, 0, 0, 0, head.rules[head.seed]
        self.has_run = False
        late = self._late()
        for node in joint.graph.nodes:
            if node not in head.rules and node not in late:
                self.outer(node)
        self.graph.lint()
        self.module = fx.GraphModule(joint, self.graph)
        self.module.meta = dict(getattr(joint, "meta", {}))

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

    def outer(self, node: fx.Node) -> fx.Node:
        """Return the copy of a node outside of the head, or for a node of the head its result over all chunks."""
        if node in self.made:
            return self.made[node]
        if node in self.head.rules:
            if not self.has_run:
                self._run()
            self.made[node] = self._exit(node)
            return self.made[node]
        for a in node.all_input_nodes:
            self.outer(a)
        copy = self.graph.node_copy(node, self.made.__getitem__)
        given = node.all_input_nodes
        if is_view(node) and any(self.made[a].meta["val"] is not a.meta["val"] for a in given):
            copy.meta["val"] = evaluated(copy, self.mode)
        self.made[node] = copy
        return copy

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

    def write(self, target: Any, args: Any, kwargs: Any, value: Any = None, name: str | None = None) -> fx.Node:
        made = self.graph.create_node("call_function", target, tuple(args), dict(kwargs), name)
        made.meta = {k: v for k, v in self.like.meta.items() if k not in ("val", "desc", "tensor_meta")}
        made.meta["partitioner_tag"] = "is_forward"
        made.meta["val"] = evaluated(made, self.mode) if value is None else value
        return made

    # ---- the chunks

    def call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        made = self.write(target, args, kwargs, name=f"{self.like.name}_chunk{self.k}")
        made.meta[CHUNK] = self.k
        return made

    def value(self, node: fx.Node) -> fx.Node:
        if node in self.now:
            return self.now[node]
        if node in self.head.rules:
            return self.made[node]
        use = self.rule.uses.get(node)
        if (node, use) in self.given:
            return self.given[node, use]
        like, value = self.like, self.unit(node)
        self.like = like
        if use is not None:
            last = self.first + self.n_rows
            value = self.call(aten.slice.Tensor, self._flat(node, value, use), 1 if use == COLUMNS else 0, self.first, last)
        self.given[node, use] = value
        return value

    def _flat(self, node: fx.Node, value: fx.Node, use: Layout) -> fx.Node:
        """Return a value with one leading dimension for the rows that the loss reads."""
        if (node, use) not in self.flat:
            self.flat[node, use] = self._flattened(node, value, use)
        return self.flat[node, use]

    def _flattened(self, node: fx.Node, value: fx.Node, use: Layout) -> fx.Node:
        if use == COLUMNS and self.head.reads_all(node, use):
            whole = self._flattened(node, self.write(aten.t.default, (value,), {}), Layout("rows"))
            return self.write(aten.t.default, (whole,), {})
        if use.kind != "rows":
            return value
        if self.head.reads_all(node, use):
            selection = self.head.selection
            assert selection is not None
            value = self._viewed(value, [*selection.shape, *shape_of(value)[use.lead :]])
            value = self.write(aten.slice.Tensor, (value, *selection.arguments), {})
            return self._viewed(value, [self.head.n_rows, *shape_of(value)[len(selection.shape) :]])
        return self._viewed(value, [self.head.n_rows, *shape_of(value)[use.lead :]])

    def _viewed(self, value: fx.Node, shape: list[int]) -> fx.Node:
        if shape_of(value) == tuple(shape):
            return value
        if not value.meta["val"].is_contiguous():
            value = self.write(aten.clone.default, (value,), {"memory_format": torch.contiguous_format})
        return self.write(aten.view.default, (value, shape), {})

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
                    self._add(node)
            self.first += self.n_rows
        for last in self.sums.values():
            last.meta[IN_FORWARD] = True

    def _add(self, node: fx.Node) -> None:
        rule, is_exit = self.rule, any(u not in self.head.rules for u in node.users)
        before = self.sums.get(node)
        if rule.layout == SUM and is_exit and before is not None and node.target is aten.mm.default:
            left, right = (self.value(a) for a in node.args if isinstance(a, fx.Node))
            self.sums[node] = self.call(aten.addmm.default, before, left, right)
            return
        made = self.now[node] = rule.build(self)
        if is_exit and rule.layout == SUM:
            self.sums[node] = made if before is None else self.call(aten.add.Tensor, before, made)
        elif is_exit:
            self._put(node, made)

    def _put(self, node: fx.Node, part: fx.Node) -> None:
        """Store the rows of a chunk in the tensor of all rows."""
        whole = self.sums.get(node)
        if whole is None:
            if len(self.sizes) == 1:
                self.sums[node] = part
                return
            whole = self.call(aten.new_zeros.default, part, [self.head.n_rows, *shape_of(part)[1:]])
        last = self.first + self.n_rows
        self.sums[node] = self.call(aten.slice_scatter.default, whole, part, 0, self.first, last)

    # ---- results

    def _exit(self, node: fx.Node) -> fx.Node:
        layout, self.like = self.head.layout(node), node
        if layout == COLUMNS:
            raise Refused(f"{node.name} is read outside of the head")
        value = self._reduced(node) if layout == LOSS else self.sums[node]
        if layout.kind == "rows" and self.head.reads_all(node, layout):
            selection, rest = self.head.selection, shape_of(node)[layout.lead :]
            assert selection is not None
            dim, first, last, step = selection.arguments
            part = list(range(selection.shape[dim])[slice(first, last, step)])
            value = self._viewed(value, [*selection.shape[:dim], len(part), *selection.shape[dim + 1 :], *rest])
            value = self.write(aten.slice_backward.default, (value, [*selection.shape, *rest], dim, first, last, step), {})
        if layout.kind == "rows":
            value = self._viewed(value, list(shape_of(node)))
        if node in self.head.scaled:
            assert self.head.scale is not None
            value = self.write(aten.mul.Tensor, (value, self.outer(self.head.scale)), {}, name=f"{node.name}_scaled")
            value.meta["partitioner_tag"] = node.meta.get("partitioner_tag")
        return value

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


def evaluated(node: fx.Node, mode: Any) -> Any:
    """Return the fake value of a node. `mode`: the mode of fake tensors, or None."""
    target: Any = node.target
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    with mode or contextlib.nullcontext():
        return target(*args, **kwargs)


def in_chunks(joint: fx.GraphModule, n: int, is_sharded: bool = False) -> fx.GraphModule:
    """Return the joint graph with its head in n chunks of rows. Raises Refused."""
    if is_sharded:
        raise Refused("the model is sharded over ranks")
    head = head_of(joint.graph)
    return Writer(joint, head, min(n, head.n_rows)).module
