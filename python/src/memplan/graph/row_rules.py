"""Rules for operators that are computed in chunks of rows.

A region of a joint graph consists of operators on tensors that have one row per token. Each rule states, for one operator, how
its operands and its result depend on the rows, and how the operator is written for one chunk of rows:

- rows: the first `lead` dimensions enumerate the rows. A chunk contains some rows, always with one leading dimension.
- columns: a matrix whose columns belong to the rows, the transpose of such a tensor.
- sum: a sum over all rows. The chunks' results are added, first chunk first.
- losses, loss, total: one loss per row, and the loss and the labels' weights of all rows.
- None: the operand is equal for all rows.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import fx

aten = torch.ops.aten


class Refused(Exception):
    """The reason why a region cannot be computed in chunks of rows."""


class Layout(NamedTuple):
    kind: str
    lead: int = 1


COLUMNS, SUM, LOSSES, LOSS, TOTAL = (Layout(kind) for kind in ("columns", "sum", "losses", "loss", "total"))


class Chunk(Protocol):
    """One chunk of rows that is being written."""

    n_rows: int

    def value(self, node: fx.Node) -> fx.Node:
        """Return the operand's value for this chunk."""

    def call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """Write an operator."""


SUMS = frozenset((aten.sum.default, aten.sum.dim_IntList))
Build = Callable[[Chunk], fx.Node]


@dataclass
class Rule:
    layout: Layout
    uses: dict[fx.Node, Layout | None]
    build: Build


class Facts(NamedTuple):
    """The knowledge about one node before its rule is applied."""

    node: fx.Node
    n_rows: int
    known: Mapping[fx.Node, Layout]  # layouts of the operands within the region
    wanted: Layout | None  # layout that a reader requires of the result; None: any

    @property
    def args(self) -> tuple[Any, ...]:
        return self.node.args

    @property
    def source(self) -> fx.Node:
        """The first operand."""
        first: fx.Node = self.args[0]
        return first

    def refuse(self) -> Refused:
        return Refused(f"{self.node.target} ({self.node.name}) is not computed for each row alone")

    def shape(self) -> tuple[int, ...]:
        return shape_of(self.node)

    def lead(self) -> int:
        """Return the number of leading dimensions of the result that enumerate the rows."""
        if self.wanted is not None:
            if self.wanted.kind != "rows":
                raise self.refuse()
            return self.wanted.lead
        shape = self.shape()
        for given in tensors_in(self.node):
            kind, lead = self.known.get(given, (None, 0))
            if kind == "rows" and len(shape_of(given)) == len(shape) and shape_of(given)[:lead] == shape[:lead]:
                return lead
        raise self.refuse()

    def use(self, given: fx.Node, lead: int) -> Layout | None:
        """Return the layout in which an operand is read. The last dimensions of operand and result are aligned."""
        shape, own = self.shape(), shape_of(given)
        if len(own) == len(shape) and own[:lead] == shape[:lead]:
            return Layout("rows", lead)
        if all(size == 1 for size in own[: max(0, len(own) - len(shape) + lead)]):
            return None
        raise self.refuse()


def shape_of(node: fx.Node) -> tuple[int, ...]:
    return tuple(int(size) for size in node.meta["val"].shape)


def tensors_in(node: fx.Node) -> list[fx.Node]:
    return [a for a in node.all_input_nodes if isinstance(a.meta.get("val"), torch.Tensor)]


def lead_of(shape: Sequence[int], n_rows: int) -> int | None:
    """Return the number of leading dimensions that contain n_rows elements together."""
    for lead in range(1, len(shape) + 1):
        if math.prod(shape[:lead]) == n_rows:
            return lead
    return None


def rows_in(node: fx.Node, layout: Layout | None) -> int:
    """Return the number of rows of a tensor with this layout."""
    return math.prod(shape_of(node)[: layout.lead]) if layout is not None else 0


def at(dim: int, rank: int) -> int:
    return dim % rank if rank else 0


def mapped(chunk: Chunk, value: Any) -> Any:
    return fx.node.map_arg(value, chunk.value)


def alike(node: fx.Node) -> Build:
    """Return a function that writes the node's operator with the operands of a chunk."""
    return lambda chunk: chunk.call(node.target, *mapped(chunk, node.args), **node.kwargs)


# ---- the rules


def pointwise(facts: Facts) -> Rule:
    """Elementwise operators."""
    node, given = facts.node, tensors_in(facts.node)
    if any(facts.known.get(g) == COLUMNS for g in given):
        if len(given) != 1:
            raise facts.refuse()
        return Rule(
            COLUMNS, {given[0]: COLUMNS}, lambda chunk: chunk.call(node.target, *mapped(chunk, node.args), **node.kwargs)
        )
    lead = facts.lead()
    uses = {g: facts.use(g, lead) for g in given}
    rank = len(facts.shape()) - lead + 1

    def operand(chunk: Chunk, given: fx.Node) -> fx.Node:
        value = chunk.value(given)
        shape = shape_of(value)
        return value if len(shape) <= rank else chunk.call(aten.view.default, value, list(shape[len(shape) - rank :]))

    def build(chunk: Chunk) -> fx.Node:
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda g: operand(chunk, g))
        return chunk.call(node.target, *args, **kwargs)

    return Rule(Layout("rows", lead), uses, build)


def along(n_tensors: int, position: int) -> Callable[[Facts], Rule]:
    """Return the rule of an operator along a dimension: the argument at `position`, behind `n_tensors` operands with rows."""

    def rule(facts: Facts) -> Rule:
        node, given = facts.node, [a for a in facts.args[:position] if isinstance(a, fx.Node)]
        lead, dim = facts.lead(), at(facts.args[position], len(facts.shape()))
        if dim < lead or len(given) != n_tensors:
            raise facts.refuse()
        rest = facts.args[position + 1 :]
        # an index of a gather or scatter has its own sizes along other dimensions
        uses: dict[fx.Node, Layout | None] = {a: Layout("rows", lead) for a in tensors_in(node)}
        if any(shape_of(a)[:lead] != facts.shape()[:lead] for a in uses):
            raise facts.refuse()

        def build(chunk: Chunk) -> fx.Node:
            return chunk.call(
                node.target, *(chunk.value(g) for g in given), dim - lead + 1, *mapped(chunk, rest), **node.kwargs
            )

        return Rule(Layout("rows", lead), uses, build)

    return rule


def reduction(facts: Facts) -> Rule:
    """Reductions over some dimensions: of each row, or sums over the rows."""
    node, source = facts.node, facts.source
    shape, rest = shape_of(source), facts.args[2:]
    dims = facts.args[1] if len(facts.args) > 1 else None
    wanted = sorted(at(d, len(shape)) for d in ([dims] if isinstance(dims, int) else dims or range(len(shape))))
    known = facts.known.get(source)
    lead = known.lead if known is not None and known.kind == "rows" else lead_of(shape, facts.n_rows)
    if known not in (None, Layout("rows", lead or 0)) or lead is None:
        raise facts.refuse()
    uses: dict[fx.Node, Layout | None] = {source: Layout("rows", lead)}
    if all(d >= lead for d in wanted):

        def build(chunk: Chunk) -> fx.Node:
            inner = [d - lead + 1 for d in wanted]
            dim: Any = inner[0] if isinstance(dims, int) else inner
            return chunk.call(node.target, chunk.value(source), dim, *rest, **node.kwargs)

        return Rule(Layout("rows", lead), uses, build)
    if wanted[:lead] != list(range(lead)) or node.target not in SUMS or facts.wanted is not None:
        raise facts.refuse()

    def add(chunk: Chunk) -> fx.Node:
        inner = [0, *(d - lead + 1 for d in wanted[lead:])]
        made = chunk.call(aten.sum.dim_IntList, chunk.value(source), inner, False, **node.kwargs)
        return made if shape_of(made) == facts.shape() else chunk.call(aten.view.default, made, list(facts.shape()))

    return Rule(SUM, uses, add)


def view(facts: Facts) -> Rule:
    """Changes of the shape."""
    source, shape = facts.source, facts.shape()
    known = facts.known.get(source)
    n_rows = rows_in(source, known) if known is not None else rows_in(facts.node, facts.wanted)
    outer = facts.wanted.lead if facts.wanted is not None else lead_of(shape, n_rows)
    inner = known.lead if known is not None and known.kind == "rows" else lead_of(shape_of(source), n_rows)
    if outer is None or inner is None or known not in (None, Layout("rows", inner)):
        raise facts.refuse()

    def build(chunk: Chunk) -> fx.Node:
        value, wanted = chunk.value(source), (chunk.n_rows, *shape[outer:])
        if shape_of(value) == wanted:
            return value
        if not value.meta["val"].is_contiguous():
            value = chunk.call(aten.clone.default, value, memory_format=torch.contiguous_format)
        return chunk.call(aten.view.default, value, list(wanted))

    return Rule(Layout("rows", outer), {source: Layout("rows", inner)}, build)


def expand(facts: Facts) -> Rule:
    node, source, shape = facts.node, facts.source, facts.shape()
    lead, own = facts.lead(), shape_of(source)
    use = facts.use(source, lead)

    def build(chunk: Chunk) -> fx.Node:
        value = chunk.value(source)
        if use is None and len(own) > len(shape) - lead:
            value = chunk.call(aten.view.default, value, list(own[len(own) - len(shape) + lead :]))
        return chunk.call(node.target, value, [chunk.n_rows, *shape[lead:]])

    return Rule(Layout("rows", lead), {source: use}, build)


def inserted(facts: Facts) -> Rule:
    """unsqueeze: a dimension behind the rows."""
    node, source = facts.node, facts.source
    lead = facts.wanted.lead if facts.wanted is not None else facts.known.get(source, Layout("rows", 0)).lead
    dim = at(facts.args[1], len(facts.shape()))
    if not 0 < lead <= dim or shape_of(source)[:lead] != facts.shape()[:lead]:
        raise facts.refuse()
    rows = Layout("rows", lead)
    return Rule(rows, {source: rows}, lambda chunk: chunk.call(node.target, chunk.value(source), dim - lead + 1))


def dropped(facts: Facts) -> Rule:
    """squeeze and select: a dimension behind the rows disappears. slice: some of the columns."""
    node, source = facts.node, facts.source
    lead = facts.wanted.lead if facts.wanted is not None else facts.known.get(source, Layout("rows", 0)).lead
    dims = facts.args[1] if isinstance(facts.args[1], (list, tuple)) else [facts.args[1]]
    inner = [at(d, len(shape_of(source))) - lead + 1 for d in dims]
    if lead < 1 or min(inner) < 1 or shape_of(source)[:lead] != facts.shape()[:lead]:
        raise facts.refuse()
    rows, rest = Layout("rows", lead), facts.args[2:]
    dim: Any = inner if isinstance(facts.args[1], (list, tuple)) else inner[0]
    return Rule(rows, {source: rows}, lambda chunk: chunk.call(node.target, chunk.value(source), dim, *mapped(chunk, rest)))


def transposed(facts: Facts) -> Rule:
    node, source = facts.node, facts.source
    known = facts.known.get(source)
    is_same = node.target is aten.transpose.int and facts.args[1] % 2 == facts.args[2] % 2
    if len(facts.shape()) != 2 or is_same or known not in (Layout("rows"), COLUMNS, None):
        raise facts.refuse()
    made = facts.wanted or (COLUMNS if known == Layout("rows") else Layout("rows"))
    use = COLUMNS if made == Layout("rows") else Layout("rows")
    return Rule(made, {source: use}, lambda chunk: chunk.call(aten.t.default, chunk.value(source)))


def product(facts: Facts) -> Rule:
    """mm and addmm: rows times a matrix, or a sum over the rows."""
    node, (left, right) = facts.node, facts.args[-2:]
    kinds = facts.known.get(left), facts.known.get(right)
    if kinds[0] == COLUMNS or kinds[1] == Layout("rows"):
        if node.target is not aten.mm.default or facts.wanted is not None:
            raise facts.refuse()
        return Rule(SUM, {left: COLUMNS, right: Layout("rows")}, alike(node))
    if kinds[1] is not None or kinds[0] not in (None, Layout("rows")) or facts.wanted not in (None, Layout("rows")):
        raise facts.refuse()
    uses: dict[fx.Node, Layout | None] = {left: Layout("rows"), right: None}
    if len(node.args) == 3:
        uses[facts.args[0]] = facts.use(facts.args[0], 1)
    return Rule(Layout("rows"), uses, alike(node))


def created(facts: Facts) -> Rule:
    """Operators that create a constant tensor of a given size."""
    node, lead = facts.node, facts.lead()
    sizes = [a for a in node.args if isinstance(a, (list, tuple))][:1]

    def build(chunk: Chunk) -> fx.Node:
        args = [[chunk.n_rows, *facts.shape()[lead:]] if a in sizes else mapped(chunk, a) for a in node.args]
        return chunk.call(node.target, *args, **node.kwargs)

    uses: dict[fx.Node, Layout | None] = {}
    for g in tensors_in(node):  # only type and device of an operand are read
        uses[g] = Layout("rows", facts.known[g].lead) if g in facts.known else None
    return Rule(Layout("rows", lead), uses, build)


# ---- the negative log-likelihood

NONE = 0  # PyTorch's number of reduction="none"
IGNORED = -100  # an index that selects no class


def losses(facts: Facts) -> Rule:
    """A chunk computes one loss per row. The losses of all rows are reduced afterwards."""
    node = facts.node
    scores, target, weight, _, ignored = facts.args
    uses: dict[fx.Node, Layout | None] = {scores: Layout("rows"), target: Layout("rows")}
    if isinstance(weight, fx.Node):
        uses[weight] = None
    if len(shape_of(scores)) != 2:
        raise facts.refuse()

    def build(chunk: Chunk) -> fx.Node:
        made = chunk.call(node.target, *mapped(chunk, (scores, target, weight)), NONE, ignored)
        return chunk.call(operator.getitem, made, 0)

    return Rule(LOSSES, uses, build)


def item(facts: Facts) -> Rule:
    """A selection of one result of an operator: of a log-likelihood, or of a split."""
    source, k = facts.args
    known = facts.known.get(source, facts.wanted)
    if known is not None and known.kind == "rows":
        return Rule(known, {source: known}, alike(facts.node))
    if known != LOSSES:
        raise facts.refuse()
    layout = TOTAL if k == 1 else LOSS if source.args[3] != NONE else Layout("rows")
    return Rule(layout, {source: LOSSES}, lambda chunk: chunk.value(source))


def loss_gradient(facts: Facts) -> Rule:
    node = facts.node
    gradient, scores, target, weight, kind, _, total = facts.args
    rows = Layout("rows")
    uses: dict[Any, Layout | None] = {gradient: rows if kind == NONE else None, scores: rows, target: rows, total: TOTAL}
    if isinstance(weight, fx.Node):
        uses[weight] = None
    return Rule(rows, uses, alike(node))
