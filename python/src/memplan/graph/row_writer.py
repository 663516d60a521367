"""Writes a joint graph whose regions are computed in chunks of rows."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import fx

from memplan.graph.operators import draws
from memplan.graph.row_regions import CHUNK, RowRegion, is_view
from memplan.graph.row_rules import COLUMNS, SUM, Layout, Refused, Rule, shape_of
from memplan.torch_internals.tensors import fake_mode_of

aten = torch.ops.aten


class RowWriter:
    """Writes nodes outside of regions, and the nodes of one chunk. Implements row_rules.Chunk for the present chunk.

    `kind`: the kind of the regions, a field of row_regions.Chunks.
    """

    kind = ""

    def __init__(self, joint: fx.GraphModule, seed: fx.Node) -> None:
        self.joint, self.mode = joint, fake_mode_of(seed.meta["val"])
        self.graph = fx.Graph()
        self.made: dict[fx.Node, fx.Node] = {}  # by node of the joint graph: the node outside of the chunks
        self.now: dict[fx.Node, fx.Node] = {}  # values of the present chunk
        # operands from outside of the region, for the present chunk
        self.given: dict[tuple[fx.Node, Layout | None], fx.Node] = {}
        self.flat: dict[tuple[fx.Node, Layout], fx.Node] = {}  # these operands with one leading dimension
        self.sums: dict[fx.Node, fx.Node] = {}  # by node that is read outside the region: the sum or rows so far
        self.like, self.n_rows, self.first, self.k = seed, 0, 0, 0
        self.region: RowRegion
        self.rule: Rule

    def finished(self) -> fx.GraphModule:
        """Return the module of the written graph. Raises Refused."""
        drawn = [self.made[node] for node in self.joint.graph.nodes if draws(node)]
        if drawn != [node for node in self.graph.nodes if draws(node)]:
            raise Refused("random operators would run in another order")
        self.graph.lint()
        module = fx.GraphModule(self.joint, self.graph)
        module.meta = dict(getattr(self.joint, "meta", {}))
        return module

    # ---- nodes outside of the chunks

    def region_of(self, node: fx.Node) -> RowRegion | None:
        """Return the region that contains a node of the joint graph."""
        raise NotImplementedError

    def result(self, node: fx.Node) -> fx.Node:
        """Return the result of a region's node over all chunks. Write the chunks before the first result."""
        raise NotImplementedError

    def outer(self, node: fx.Node) -> fx.Node:
        """Return the copy of a node outside of the regions, or for a node of a region its result over all chunks."""
        if node in self.made:
            return self.made[node]
        if self.region_of(node) is not None:
            self.made[node] = self.result(node)
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
        """Return a value from outside of the region that the chunks read."""
        return self.outer(node)

    def tag(self) -> Any:
        """Return PyTorch's mark of the half, forward or backward, to which the written nodes belong."""
        return self.like.meta.get("partitioner_tag")

    def write(self, target: Any, args: Any, kwargs: Any, value: Any = None, name: str | None = None) -> fx.Node:
        made = self.graph.create_node("call_function", target, tuple(args), dict(kwargs), name)
        made.meta = {k: v for k, v in self.like.meta.items() if k not in ("val", "desc", "tensor_meta", CHUNK)}
        made.meta["partitioner_tag"] = self.tag()
        made.meta["val"] = evaluated(made, self.mode) if value is None else value
        return made

    # ---- the chunks

    def call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        made = self.write(target, args, kwargs, name=f"{self.like.name}_chunk{self.k}")
        made.meta[CHUNK] = (self.kind, self.k)
        return made

    def value(self, node: fx.Node) -> fx.Node:
        if node in self.now:
            return self.now[node]
        if self.region_of(node) is self.region:
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
        """Return a value with one leading dimension for the rows that the region computes."""
        if (node, use) not in self.flat:
            self.flat[node, use] = self._flattened(node, value, use)
        return self.flat[node, use]

    def _flattened(self, node: fx.Node, value: fx.Node, use: Layout) -> fx.Node:
        if use == COLUMNS and self.region.reads_all(node, use):
            whole = self._flattened(node, self.write(aten.t.default, (value,), {}), Layout("rows"))
            return self.write(aten.t.default, (whole,), {})
        if use.kind != "rows":
            return value
        if self.region.reads_all(node, use):
            return self.selected(value, use)
        return self.viewed(value, [self.region.n_rows, *shape_of(value)[use.lead :]])

    def selected(self, value: fx.Node, use: Layout) -> fx.Node:
        """Return those rows of a value that the region computes, with one leading dimension."""
        raise NotImplementedError

    def viewed(self, value: fx.Node, shape: list[int]) -> fx.Node:
        """Return a value in another shape."""
        if shape_of(value) == tuple(shape):
            return value
        if not value.meta["val"].is_contiguous():
            value = self.write(aten.clone.default, (value,), {"memory_format": torch.contiguous_format})
        return self.write(aten.view.default, (value, shape), {})

    def add(self, node: fx.Node) -> None:
        """Write a node for the present chunk."""
        rule, is_exit = self.rule, any(u not in self.region.rules for u in node.users)
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
            if self.n_rows == self.region.n_rows:
                self.sums[node] = part
                return
            whole = self.call(aten.new_zeros.default, part, [self.region.n_rows, *shape_of(part)[1:]])
        last = self.first + self.n_rows
        self.sums[node] = self.call(aten.slice_scatter.default, whole, part, 0, self.first, last)

    def rows_or_sum(self, node: fx.Node) -> fx.Node:
        """Return all rows of a result, in its shape, or its sum over the rows."""
        layout = self.region.layout(node)
        if layout == COLUMNS:
            raise Refused(f"{node.name} is read outside of the region")
        value = self.sums[node]
        if layout.kind == "rows" and self.region.reads_all(node, layout):
            value = self.spread(value, node, layout)
        return self.viewed(value, list(shape_of(node))) if layout.kind == "rows" else value

    def spread(self, value: fx.Node, node: fx.Node, layout: Layout) -> fx.Node:
        """Return the rows of a result among rows of zeros. Reverses `selected`."""
        raise NotImplementedError


def evaluated(node: fx.Node, mode: Any) -> Any:
    """Return the fake value of a node. `mode`: the mode of fake tensors, or None."""
    target: Any = node.target
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    with mode or contextlib.nullcontext():
        return target(*args, **kwargs)
