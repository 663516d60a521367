"""Properties of single operators: randomness, origin, and how to repeat them."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from memplan.torch_internals.collectives import FUNCTIONAL
from memplan.torch_internals.dispatch import BATCH_NORM, BATCH_NORM_AGAIN, OPERATOR, schema_of

aten = torch.ops.aten

CHECKPOINT = "ac_graph_id"  # meta key of nodes that torch.utils.checkpoint covers; the value identifies the checkpoint
IN_FORWARD = "memplan_in_forward"  # meta key of nodes that run before forward ends
BATCH_NORM_BACKWARD = aten.native_batch_norm_backward.default


PYTORCHS = frozenset(
    {"aten", "prim", "prims", "quantized", "quantized_decomposed", "mkldnn", "torchvision", "memplan", *FUNCTIONAL}
)
# PyTorch's tags of operators whose result depends on their arguments only
PURE = (torch.Tag.pointwise, torch.Tag.core)


def is_foreign(node: fx.Node) -> bool:
    """Whether the operator belongs neither to PyTorch, torchvision nor memplan. Its effects are unknown."""
    return isinstance(node.target, OPERATOR) and node.target.namespace not in PYTORCHS


def has_own_generator(node: fx.Node) -> bool:
    """Whether a random operator has an explicit generator instead of PyTorch's default one."""
    arguments = getattr(schema_of(node.target), "arguments", ())
    given = {**{a.name: v for a, v in zip(arguments, node.args)}, **node.kwargs}
    return any(given.get(a.name) is not None for a in arguments if "Generator" in str(a.type))


def may_run_again(node: fx.Node) -> bool:
    """Whether running the node twice gives equal results. Operators of other packages need a tag that says so."""
    tags = getattr(node.target, "tags", ())
    return not has_own_generator(node) and (not is_foreign(node) or any(tag in tags for tag in PURE))


def draws(node: fx.Node) -> bool:
    """Whether a node draws random numbers or may have other state. Plans keep the order of such nodes."""
    return is_random(node) or not may_run_again(node)


def is_random(node: fx.Node) -> bool:
    """Whether an operator draws random numbers. Attention operators are tagged as random, but draw only with dropout."""
    if not isinstance(node.target, OPERATOR) or torch.Tag.nondeterministic_seeded not in node.target.tags:
        return False
    return bool(argument(node, "dropout_p") != 0)


def argument(node: fx.Node, name: str) -> Any:
    """Return the value of an argument or its default, or None if the operator has no such argument."""
    for k, known in enumerate(schema_of(node.target).arguments):
        if known.name == name:
            return node.args[k] if k < len(node.args) and not known.kwarg_only else node.kwargs.get(name, known.default_value)
    return None


def is_mutating(node: fx.Node) -> bool:
    schema = schema_of(node.target)
    return bool(schema and schema.is_mutable)


def has_batch_statistics(node: fx.Node) -> bool:
    """Whether a node is a batch normalization in training mode, which updates running statistics."""
    return bool(BATCH_NORM_AGAIN) and node.target is BATCH_NORM.get() and bool(node.args[5])


def read_again(node: fx.Node) -> list[fx.Node]:
    """Return the arguments that a second run of the node reads.

    These are all arguments except running statistics, which the first run has updated.
    """
    if has_batch_statistics(node):
        skipped = node.args[3:5]
        return [a for a in node.all_input_nodes if a not in skipped]
    return list(node.all_input_nodes)


def only_first_makes(node: fx.Node, item: fx.Node) -> bool:
    """Whether `item` is a result that only the first run of a node produces: new running statistics."""
    return has_batch_statistics(node) and item.args[1] in (3, 4)


def second_form(node: fx.Node) -> tuple[Any, tuple[Any, ...]]:
    """Return operator and arguments for a second run with bit-identical results, which does not update running statistics."""
    if has_batch_statistics(node):
        x, weight, bias, _, _, training, momentum, epsilon = node.args
        return BATCH_NORM_AGAIN.get(), (x, weight, bias, training, momentum, epsilon)
    return node.target, tuple(node.args)


def drop_unread_arguments(graph: fx.Graph) -> None:
    """Remove the running statistics from the backward of batch normalizations that use the batch's statistics. Otherwise the
    plan would save the running statistics unnecessarily, and they would have changed before backward.
    """
    for node in graph.nodes:
        if node.op == "call_function" and node.target is BATCH_NORM_BACKWARD and node.args[7]:
            node.args = (*node.args[:3], None, None, *node.args[5:])
    graph.eliminate_dead_code()
