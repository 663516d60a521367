"""Regions of a joint graph that are computed in chunks of rows.

A region grows from a product whose result is larger than its operand: it contains the readers of large results, and the
operators that make large operands. It ends at results that are small.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import torch
from torch import fx

from memplan.graph.capture import tensors_of
from memplan.graph.joint import in_formula, reaching
from memplan.graph.row_rules import LOSSES, SUM, TOTAL, Facts, Layout, Refused, Rule, shape_of
from memplan.graph.row_table import rule_of
from memplan.torch_internals.dispatch import OPERATOR, schema_of

aten = torch.ops.aten

CHUNK = "memplan_chunk"  # key in a node's meta: the kind of its region, and the number of its chunk
PRODUCTS = frozenset((aten.mm.default, aten.addmm.default))
HALVES = (torch.bfloat16, torch.float16)
RETURNED = "the model returns {name}, or a tensor of their size"


class Chunks(NamedTuple):
    """The number of chunks for each kind of region. All regions of one kind have the same number."""

    head: int = 1
    mlp: int = 1

    def option(self) -> dict[str, int]:
        """Return the value of the option `chunks`, without regions that stay whole."""
        return {kind: n for kind, n in self._asdict().items() if n > 1}


def chunks_of(graph: fx.Graph) -> Chunks:
    """Return the numbers of chunks in which a joint graph computes its regions."""
    found = Chunks()._asdict()
    for node in graph.nodes:
        if CHUNK in node.meta:
            kind, k = node.meta[CHUNK]
            found[kind] = max(found[kind], k + 1)
    return Chunks(**found)


def seeds_of(graph: fx.Graph, late: Collection[fx.Node]) -> list[fx.Node]:
    """Return the products of forward whose results are larger than their operands. `late`: nodes that depend on a gradient."""
    found = []
    for node in graph.nodes:
        if node.target in PRODUCTS and node not in late and not in_formula(node) and CHUNK not in node.meta:
            n_rows, width = shape_of(node.args[-2])
            if n_elements(node) > n_rows * width:
                found.append(node)
    return found


def has_one_row(seeds: Collection[fx.Node]) -> bool:
    """Whether no product has several rows, so that there is nothing to cut."""
    return bool(seeds) and all(shape_of(seed)[0] == 1 for seed in seeds)


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
    """Return the number of elements of a node's results."""
    return sum(int(t.numel()) for t in tensors_of(node.meta.get("val")))


class RowRegion:
    """The operators that are computed in chunks: a product `seed`, and all operators on large tensors around it.

    Raises Refused. `hidden`: the name of the large tensors in messages.
    """

    hidden = "results"

    def __init__(self, seed: fx.Node) -> None:
        self.seed = seed
        self.n_rows = shape_of(seed)[0]
        self.width = shape_of(seed.args[-2])[1]  # type: ignore[arg-type]
        self.rules: dict[fx.Node, Rule] = {}
        self._take(seed, Layout("rows"))
        for part in self.parts():
            self._close(part)
        for node in list(self.rules):
            self._add_in_full_precision(node)
        self.nodes = [n for n in seed.graph.nodes if n in self.rules]

    def parts(self) -> Iterable[Callable[[fx.Node], bool]]:
        """Return predicates of nodes. The operators of one part run together, chunk by chunk."""
        return (lambda node: True,)

    def reads_all(self, node: fx.Node, layout: Layout) -> bool:
        """Whether a tensor has all rows, although the region computes some of them."""
        return False

    def sizes(self, n: int) -> list[int]:
        """Return the number of rows of each of n chunks, or of fewer chunks if there are fewer rows."""
        n = min(n, self.n_rows)
        return [self.n_rows // n + (k < self.n_rows % n) for k in range(n)]

    def layout(self, node: fx.Node) -> Layout:
        return self.rules[node].layout

    def _is_large(self, node: fx.Node) -> bool:
        return n_elements(node) > self.n_rows * self.width

    def _take(self, node: fx.Node, wanted: Layout | None = None) -> None:
        """Add a node, its large operands, and the readers of its result if that is large."""
        if node in self.rules:
            if wanted not in (None, self.layout(node)):
                raise Refused(f"{node.name} is read in two layouts")
            return
        if node.op == "output":
            raise Refused(RETURNED.format(name=self.hidden))
        if node.op != "call_function":
            raise Refused(f"{node.name} is an input of the size of {self.hidden}")
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

    def _close(self, is_in: Callable[[fx.Node], bool]) -> None:
        """Add the nodes between two operators of a part, such as functions of the loss of each row."""
        while True:
            mine = [n for n in self.rules if is_in(n)]
            below = descendants(n for n in mine if self.layout(n) != TOTAL)
            read = {a for n in mine for a in n.all_input_nodes if a not in self.rules}
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
