"""MLPs of networks: two products with operators between them that are computed for each row alone, and their backward."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from torch import fx

from memplan.graph.heads import SCORES, tangents_of
from memplan.graph.joint import in_formula
from memplan.graph.row_regions import PRODUCTS, RowRegion, descendants, has_one_row, seeds_of
from memplan.graph.row_rules import COLUMNS, Layout, Refused

NO_MLP = "no two products with a larger result between them are computed for each row alone"
ROWS = Layout("rows").kind


class Mlp(RowRegion):
    """An MLP: the product that makes its hidden results, the product that reads them, and their backward. Raises Refused.

    `late`: the nodes that depend on an incoming gradient.
    """

    hidden = "an MLP's hidden results"

    def __init__(self, seed: fx.Node, late: Collection[fx.Node]) -> None:
        self.late = late
        super().__init__(seed)
        self.forward = [n for n in self.nodes if not self.is_late(n)]
        self.backward = [n for n in self.nodes if self.is_late(n)]
        kinds = {self.layout(n).kind for n in self.forward}
        last = [n for n in self.forward if n.target in PRODUCTS and not self._is_large(n)]
        if kinds != {ROWS} or not last or not self.backward or any(n.target in SCORES for n in self.nodes):
            raise Refused(NO_MLP)
        for node in self.nodes:
            if self.layout(node) == COLUMNS and any(u not in self.rules for u in node.users):
                raise Refused(f"{node.name} is read outside of the MLP")

    def is_late(self, node: fx.Node) -> bool:
        return node in self.late or in_formula(node)

    def parts(self) -> Iterable[Callable[[fx.Node], bool]]:
        return (lambda node: not self.is_late(node)), self.is_late


def mlps_of(graph: fx.Graph) -> list[Mlp]:
    """Return all MLPs of a joint graph, none if they have one row. Raises Refused."""
    late = descendants(tangents_of(graph))
    seeds = seeds_of(graph, late)
    if has_one_row(seeds):
        return []
    found, taken, reason = list[Mlp](), set[fx.Node](), ""
    for node in seeds:
        if node in taken:
            continue
        try:
            mlp = Mlp(node, late)
        except Refused as refused:
            reason = reason or str(refused)
            continue
        if taken.isdisjoint(mlp.rules):
            found.append(mlp)
            taken.update(mlp.rules)
    if not found:
        raise Refused(reason or NO_MLP)
    return found
