"""Heads of networks: the product that makes the logits, the loss, and their backward.

memplan finds the head in the joint graph. Each of its operators computes every row of the logits alone, or a sum over the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import fx

from memplan.graph.joint import in_formula, reaching
from memplan.graph.row_rules import COLUMNS, LOSSES, SUM, TOTAL, Facts, Layout, Refused, Rule, rows_in, shape_of
from memplan.graph.row_table import Selection, rule_of, selection_of
from memplan.torch_internals.dispatch import OPERATOR, schema_of

aten = torch.ops.aten

CHUNK = "memplan_chunk"  # key in a node's meta: the number of its chunk
PRODUCTS = frozenset((aten.mm.default, aten.addmm.default))
SCORES = frozenset((aten._log_softmax.default, aten.logsumexp.default, aten._softmax.default))
HALVES = (torch.bfloat16, torch.float16)
NO_HEAD = "the model's loss is not a cross-entropy over the rows of logits"
RETURNED = "the model returns the logits, or a tensor of their size"
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


def is_view(node: fx.Node) -> bool:
    """Whether a node returns a view of its first operand."""
    returns = getattr(schema_of(node.target), "returns", ())
    return isinstance(node.target, OPERATOR) and any(r.alias_info for r in returns)


def descendants(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """Return all nodes that depend on the given nodes, without the given nodes."""
    found: set[fx.Node] = set()
    todo = list(nodes)
    while todo:
        new = [u for u in todo.pop().users if u not in found]
        found.update(new)
        todo += new
    return found


def n_elements(node: fx.Node) -> int:
    return int(node.meta["val"].numel())


def n_chunks(graph: fx.Graph) -> int:
    """Return the number of chunks in which a joint graph computes its head."""
    return 1 + max((node.meta[CHUNK] for node in graph.nodes if CHUNK in node.meta), default=0)


class Head:
    """The operators that are computed in chunks: a product `seed`, the loss, and their backward.

    Raises Refused. `scale`: the incoming gradient of the loss, on which all results of backward depend linearly; None: there is
    no backward.
    """

    def __init__(self, seed: fx.Node, tangents: list[fx.Node]) -> None:
        self.seed = seed
        self.n_rows = shape_of(seed)[0]
        self.width = shape_of(seed.args[-2])[1]  # type: ignore[arg-type]
        self.rules: dict[fx.Node, Rule] = {}
        self._take(seed, Layout("rows"))
        self._close()
        for node in list(self.rules):
            self._add_in_full_precision(node)
        self.nodes = [n for n in seed.graph.nodes if n in self.rules]
        self.n_all, self.selection = self.n_rows, self._find_selection()
        self.scale, self.scaled = self._find_scale(tangents)
        for node in self.nodes:
            if node in self.scaled:
                self.need_linear(node)
        if not any(n.target in SCORES for n in self.nodes):
            raise Refused(NO_HEAD)

    def layout(self, node: fx.Node) -> Layout:
        return self.rules[node].layout

    def _is_large(self, node: fx.Node) -> bool:
        value = node.meta.get("val")
        return isinstance(value, torch.Tensor) and n_elements(node) > self.n_rows * self.width

    def _take(self, node: fx.Node, wanted: Layout | None = None) -> None:
        """Add a node, its large operands, and the readers of its result if that is large."""
        if node in self.rules:
            if wanted not in (None, self.layout(node)):
                raise Refused(f"{node.name} is read in two layouts")
            return
        if node.op == "output":
            raise Refused(RETURNED)
        if node.op != "call_function":
            raise Refused(f"{node.name} is an input of the size of the logits")
        rule = rule_of(Facts(node, self.n_rows, {n: r.layout for n, r in self.rules.items()}, wanted))
        self.rules[node] = rule
        for given, use in rule.uses.items():
            if given in self.rules or (
                use is not None and use != TOTAL and self._is_large(given) and given.op == "call_function"
            ):
                if given not in self.rules:
                    self._take(given, use)
                if self.layout(given) != (use or TOTAL):
                    raise Refused(f"{node.target} ({node.name}) reads a result of all rows")
        if rule.layout == LOSSES or (rule.layout.kind in ("rows", "columns") and self._is_large(node)):
            for user in list(node.users):
                self._take(user)

    def _close(self) -> None:
        """Add the nodes between two operators of the head, such as functions of the loss of each row."""
        while True:
            below = descendants(n for n in self.rules if self.layout(n) != TOTAL)
            read = {a for n in self.rules for a in n.all_input_nodes if a not in self.rules}
            between = below & reaching(read) - self.rules.keys()
            if not between:
                return
            for node in self.seed.graph.nodes:
                if node in between:
                    self._take(node)

    def _add_in_full_precision(self, node: fx.Node) -> None:
        """If a sum over the rows is cast to fp32, let each chunk cast its part, so that the parts are added in fp32."""
        if self.layout(node) != SUM or node.meta["val"].dtype not in HALVES:
            return
        chain, last = list[fx.Node](), node
        while len(last.users) == 1 and (last := next(iter(last.users))).target in (aten.t.default, aten._to_copy.default):
            chain.append(last)
            if last.meta["val"].dtype == torch.float32:
                for one in chain:
                    self._take(one)
                return

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


def head_of(graph: fx.Graph) -> Head:
    """Return the head with the largest logits. Raises Refused."""
    tangents = tangents_of(graph)
    late = descendants(tangents)
    found = []
    for node in graph.nodes:
        if node.target in PRODUCTS and node not in late and not in_formula(node) and CHUNK not in node.meta:
            n_rows, width = shape_of(node.args[-2])
            if n_rows > 1 and n_elements(node) > n_rows * width:
                found.append(node)
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
