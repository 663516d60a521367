"""Analysis of a joint graph: outputs, written inputs, the forward and backward halves, and unsupported nodes."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable
from typing import Any

import torch
from torch import fx

from memplan.errors import NotPlannable
from memplan.graph.operators import draws, is_mutating
from memplan.graph.overwriting import fill_with_zeros
from memplan.graph.sizes import has_unknown_sizes, is_number
from memplan.torch_internals.capture import metadata_of_callers
from memplan.torch_internals.collectives import IN_PLACE
from memplan.torch_internals.dispatch import OPERATOR, schema_of
from memplan.torch_internals.tensors import tree_iter


def flat_outputs(graph: fx.Graph) -> list[Any]:
    """Return the outputs of the graph as a flat list."""
    outputs = next(iter(reversed(graph.nodes))).args[0]
    flat: list[Any] = []
    for o in outputs:
        flat += o if isinstance(o, (list, tuple)) else [o]
    return flat


def written_inputs(graph: fx.Graph, primals: list[fx.Node], n_forward_outputs: int) -> dict[int, fx.Node]:
    """Return the forward outputs that are new values of inputs (running statistics, counters), with these inputs.

    PyTorch writes the values into the inputs after forward. Raises NotPlannable if PyTorch does not describe the outputs.
    """
    output = next(iter(reversed(graph.nodes)))
    descriptions = list(tree_iter(output.meta.get("desc")))
    if len(descriptions) >= n_forward_outputs > 0 and descriptions[0] is not None:
        by_description = {str(p.meta.get("desc")): p for p in primals}
        inputs = {k: getattr(d, "mutated_input", None) for k, d in enumerate(descriptions[:n_forward_outputs])}
        return {k: by_description[str(i)] for k, i in inputs.items() if i is not None}
    metadata = metadata_of_callers()
    if metadata is None:
        raise NotPlannable("this PyTorch version does not report which inputs a graph overwrites; use a newer PyTorch")
    return {k: primals[i] for k, i in enumerate(metadata.mutated_inp_runtime_indices)}


def index_of_input(placeholder: fx.Node) -> int | None:
    """Return the index of the AOTAutograd input that belongs to a placeholder, or None if PyTorch does not describe it.

    The placeholder may be a part of the input, such as the local part of a DTensor.
    """
    described: Any = placeholder.meta.get("desc")
    while hasattr(described, "base"):
        described = described.base
    found: int | None = getattr(described, "idx", None)
    return found


def reaching(nodes: Iterable[Any]) -> set[fx.Node]:
    """Return the given nodes and all nodes that these depend on."""
    found: set[fx.Node] = set()
    todo = [n for n in nodes if isinstance(n, fx.Node)]
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += node.all_input_nodes
    return found


def refuse(node: fx.Node) -> None:
    """Raise NotPlannable if memplan cannot move or repeat a node."""
    if node.op == "get_attr" or node.target is operator.getitem or is_number(node.meta.get("val")):
        return
    if node.op != "call_function" or not isinstance(node.target, OPERATOR):
        raise NotPlannable(f"{node.name} calls {node.target}, which memplan cannot move or repeat")
    if node.target.namespace in IN_PLACE:
        raise NotPlannable(f"{node.target} is a collective that overwrites its argument; use the functional collective")
    if is_mutating(node):
        raise NotPlannable(f"{node.target} overwrites its argument, so it cannot be repeated")


def in_formula(node: fx.Node) -> bool:
    """Whether a node belongs to a backward formula, even if it depends on no gradient.

    Older versions of PyTorch do not mark nodes of backward formulas. Nodes of an autograd.Function's backward have no mark.
    """
    mark = node.meta.get("partitioner_tag")
    return mark == "is_backward" or (mark is None and next(iter(node.graph.nodes)).meta.get("partitioner_tag") is not None)


def halves(graph: fx.Graph, tangents: Iterable[fx.Node]) -> tuple[list[fx.Node], list[fx.Node]]:
    """Split the graph: nodes that do not depend on incoming gradients (forward), and nodes that depend on them (backward).

    Tangents are in neither list.

    Random nodes in backward formulas count as dependent.
    """
    given = set(tangents)
    backward = set(given)
    body = [n for n in graph.nodes if n.op not in ("placeholder", "output") and n not in given]
    for node in body:
        if any(a in backward for a in node.all_input_nodes) or (in_formula(node) and draws(node)):
            backward.add(node)
    return [n for n in body if n not in backward], [n for n in body if n in backward]


def as_eager_runs(
    graph: fx.Graph, forward: list[fx.Node], backward: list[fx.Node], outputs: list[Any], written: Collection[fx.Node] = ()
) -> tuple[list[fx.Node], list[fx.Node]]:
    """Return the nodes of forward and the nodes of backward, each in eager's order.

    Backward formulas may compute results from forward values alone (powers, products with numbers). Such nodes belong to
    backward, unless they read inputs that are overwritten after forward.
    """
    first = [n for n in forward if not in_formula(n) or any(a in written for a in n.all_input_nodes)]
    early = reaching([*outputs, *first])
    late = {*backward, *(n for n in forward if n not in early)}
    return [n for n in forward if n in early], [n for n in graph.nodes if n in late]


def order_formulas(graph: fx.Graph) -> None:
    """Move nodes of backward formulas to places where less memory is allocated. Results are bit-identical.

    Eager may skip parts of a formula, depending on the values of tensors. A capture contains the parts for all values. Some of
    their tensors wait long for a reader (zeros in the backward of cumprod), and some large tensors have a late reader. A node
    moves

    * to its first reader, if all its arguments live longer anyway;
    * to the last other reader of its arguments, if its result is smaller than the arguments that nobody reads afterwards.

    A graph with symbolic sizes has no plan and remains unchanged, because a comparison of sizes would fix them.
    """
    if has_unknown_sizes(graph):
        return
    fill_with_zeros(graph)
    place = {node: (k, 0) for k, node in enumerate(graph.nodes)}  # places ascend in the order of the nodes
    movable = [node for node in graph.nodes if may_move(node)]
    for node in reversed(movable):
        first = min(node.users, key=lambda user: place[user])
        if first is not node.next and all(max(place[u] for u in a.users) > place[first] for a in node.all_input_nodes):
            first.prepend(node)
            place[node] = (place[first][0], place[first][1] - 1)
    place = {node: (k, 0) for k, node in enumerate(graph.nodes)}
    for node in movable:
        given = node.all_input_nodes
        ending = [a for a in given if may_move(a) and max(a.users, key=lambda user: place[user]) is node]
        if sum(n_bytes(a) for a in ending) > n_bytes(node) and all(may_move(u) for a in ending for u in a.users):
            last = max([*given, *(u for a in ending for u in a.users if u is not node)], key=lambda other: place[other])
            if last.next is not node and last.op != "placeholder":
                last.append(node)
                place[node] = (place[last][0], place[last][1] + 1)


def may_move(node: fx.Node) -> bool:
    """Whether a node of a backward formula has no side effects, and its result is one new tensor that other nodes read."""
    if node.op != "call_function" or not isinstance(node.target, OPERATOR) or node.target.namespace != "aten":
        return False
    is_pure = not draws(node) and not is_mutating(node) and not any(r.alias_info for r in schema_of(node.target).returns)
    return is_pure and isinstance(node.meta.get("val"), torch.Tensor) and bool(node.users) and in_formula(node)


def n_bytes(node: fx.Node) -> int:
    return int(node.meta["val"].untyped_storage().nbytes())
