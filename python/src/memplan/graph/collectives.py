"""Collectives in a captured graph: from tensor parallel modules (DTensor) or called by the user's code.

PyTorch issues a collective with one operator and waits for its result with another. For the planner, memplan merges the two
into one operator. The planner may recompute it, because all ranks have the same plan and the same order. In the final graphs
the two are separate again, so that compute overlaps with communication.

The wait is placed before the first reader of the result. It is placed earlier if the result and the collective's operands,
which live until the wait, would exceed the peak. Collectives that copy their data are awaited at once. An example is gloo's
gather, whose thread allocates memory at unpredictable times.

    whole = all_gather(x)       pending = all_gather(x)
    y = f(x)                    y = f(x)
    z = g(whole)                whole = wait(pending, x)
                                z = g(whole)
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import fx

from memplan.errors import NotPlannable
from memplan.graph import shards
from memplan.graph.operators import argument
from memplan.graph.shards import GATHER, GROUPS, REDUCE
from memplan.torch_internals import collectives
from memplan.torch_internals.collectives import FUNCTIONAL, WAIT, WAIT_FOR_ALL, group_of
from memplan.torch_internals.dispatch import OPERATOR

# collectives that first copy the operand and then work on the copy, so they do not hold the operand
COPIES_FIRST = ("all_reduce", "broadcast")


def is_functional(node: fx.Node) -> bool:
    """Whether an operator is a functional collective."""
    target = node.target
    return isinstance(target, OPERATOR) and target.namespace in FUNCTIONAL and not is_wait_of_pytorch(node)


def is_wait_of_pytorch(node: fx.Node) -> bool:
    return node.op == "call_function" and node.target in (WAIT.get(), WAIT_FOR_ALL.get())


def is_collective(node: fx.Node) -> bool:
    """Whether an operator communicates: a functional collective, or an FSDP2 operator."""
    return shards.is_ours(node) or is_functional(node)


def kind_of(node: fx.Node) -> str:
    """Return the kind of a collective, such as all_reduce or all_gather_into_tensor."""
    return str(node.target).split(".")[-2]


def groups_in(graph: fx.Graph) -> list[Any]:
    """Return the process group of each functional collective in the graph."""
    return [group_of(argument(n, "group_name")) for n in graph.nodes if n.op == "call_function" and is_functional(n)]


# ---- before planning


def need_to_plan(graph: fx.Graph, is_for_calls: bool) -> None:
    """Raise NotPlannable if memplan cannot plan collectives with this PyTorch version or with the user's options."""
    if not any(map(is_functional, graph.nodes)):
        return
    collectives.need_to_wait()
    if not is_for_calls:
        raise NotPlannable("it contains collectives, which memplan plans in memplan.compile, but not in a TrainStep")


def take_waits_out(graph: fx.Graph) -> None:
    """Remove the waits. Readers of a wait then read the result of the collective."""
    for node in [n for n in graph.nodes if is_wait_of_pytorch(n)]:
        sources = node.args[0] if isinstance(node.args[0], (list, tuple)) else [node.args[0]]
        if node.target is WAIT.get():
            take_over(node, sources[0])
        else:
            for item in [u for u in node.users if u.target is operator.getitem]:
                take_over(item, item_of(sources, item.args[1]))
            if not node.users:
                graph.erase_node(node)
    graph.lint()


def item_of(sources: Any, k: int) -> Any:
    if len(sources) > 1 or sources[0].target is operator.getitem:
        return sources[k]
    return next((u for u in sources[0].users if u.target is operator.getitem and u.args[1] == k), None)


def take_over(waited: fx.Node, source: Any) -> None:
    """Replace a wait by its operand, if the operand is the result of a collective with a single wait."""
    made_by = source.args[0] if isinstance(source, fx.Node) and source.target is operator.getitem else source
    if not isinstance(made_by, fx.Node) or not is_functional(made_by) or WAITED in source.meta:
        return
    source.meta["val"], source.meta[WAITED] = waited.meta["val"], True
    if made_by is not source:
        values = list(made_by.meta["val"])
        values[source.args[1]] = waited.meta["val"]
        made_by.meta["val"] = values
    waited.replace_all_uses_with(source)
    waited.graph.erase_node(waited)


WAITED = "memplan_waited"  # key in a node's meta: the result has been awaited


# ---- waits in the final graphs


def wait(pending: torch.Tensor, *held: torch.Tensor) -> torch.Tensor:
    """Wait for the result of a collective. The arguments `held` keep its operands alive until then."""
    return collectives.wait(pending)


def has_wait(node: fx.Node) -> bool:
    return node.op == "call_function" and is_functional(node) and node.target.namespace == FUNCTIONAL[0]  # type: ignore[union-attr]


def held_by(node: fx.Node) -> list[fx.Node]:
    """Return the operands that a collective reads until its wait."""
    return [] if kind_of(node).startswith(COPIES_FIRST) else node.all_input_nodes


def put_wait(node: fx.Node, behind: fx.Node, function: Any, *held: fx.Node) -> None:
    """Insert a wait for a collective, or for one of its results, after the node `behind`."""
    readers = list(node.users)
    with node.graph.inserting_after(behind):
        waited = node.graph.call_function(function, (node, *held))
    waited.meta = dict(node.meta)
    for reader in readers:
        reader.replace_input_with(node, waited)


def is_sum_on_host(node: fx.Node) -> bool:
    """Whether the collective is a reduce-scatter on a CPU.

    On a CPU, gloo computes the sum of the whole tensor, and each rank takes its part.
    """
    return kind_of(node) == "reduce_scatter_tensor" and node.meta["val"].device.type == "cpu"


def part_of_sum(given: torch.Tensor, how: str, n_ranks: int, name: str) -> torch.Tensor:
    """Compute this rank's part of a sum, and free the sent buffer, which gloo would hold until its next send."""
    group, everything = group_of(name), given.clone(memory_format=torch.contiguous_format)
    torch.distributed.all_reduce(everything, op=getattr(torch.distributed.ReduceOp, how.upper()), group=group)
    made = everything.chunk(n_ranks)[torch.distributed.get_rank(group)].clone()
    everything.untyped_storage().resize_(0)
    return made


def put_waits_at_once(graph: fx.Graph) -> None:
    """Insert each wait directly after its collective, for graphs without a plan."""
    for node in [n for n in graph.nodes if WAITED in n.meta]:
        put_wait(node, node, WAIT.get())
    graph.lint()


def results_of(node: fx.Node) -> list[fx.Node]:
    """Return the results of a node: the node itself, or, if it has several results, the nodes that select one of them."""
    is_one = isinstance(node.meta.get("val"), torch.Tensor)
    return [node] if is_one else [u for u in node.users if u.target is operator.getitem]


# ---- costs


def bytes_of(values: Iterable[Any]) -> int:
    return sum(v.numel() * v.element_size() for v in values if isinstance(v, torch.Tensor))


def values_of(nodes: Iterable[fx.Node]) -> Iterator[Any]:
    for node in nodes:
        value = node.meta.get("val")
        yield from value if isinstance(value, (list, tuple)) else [value]


def workspace_bytes(node: fx.Node) -> int:
    """Return the bytes that a collective allocates besides its results.

    These are copies of operands in other layouts, and copies that gloo makes.
    """
    if shards.is_ours(node):
        return shards.workspace_bytes(node)
    given, kind = [v for v in values_of(node.all_input_nodes) if isinstance(v, torch.Tensor)], kind_of(node)
    if is_sum_on_host(node):
        return bytes_of(given)
    apart = 0 if kind.startswith(COPIES_FIRST) else bytes_of(v for v in given if not v.is_contiguous())
    if all(v.device.type != "cpu" for v in given):
        return apart
    is_several = kind.endswith("coalesced")
    if kind.startswith("all_gather"):
        return apart + bytes_of(values_of([node])) + is_several * bytes_of(given)
    if kind.startswith(("reduce_scatter", "shard_dim")) or is_several:
        return apart + bytes_of(given)
    return apart


# names of the collectives, as in the C library's header memplan/ranks/network.h
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, ALL_TO_ALL = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "broadcast",
    "all-to-all",
)


class Sending(NamedTuple):
    """One transfer between ranks. `whole_bytes`: size of the unsharded tensor; `among`: the process group."""

    collective: str
    whole_bytes: int
    among: Any


def sendings(node: fx.Node) -> list[Sending]:
    """Return the transfers of an operator. A collective of several tensors counts as one tensor of their total size."""
    if shards.is_ours(node):
        return of_shards(node)
    group, own = group_of(argument(node, "group_name")), bytes_of(values_of(node.all_input_nodes))
    named = kind_of(node).replace("_", "-")
    every = (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST)
    name = next((name for name in every if named.startswith(name)), ALL_TO_ALL)
    return [Sending(name, own * (int(group.size()) if name == ALL_GATHER else 1), group)]


def of_shards(node: fx.Node) -> list[Sending]:
    """Return the transfers of an FSDP2 operator."""
    g = GROUPS[node.args[-1]]  # type: ignore[index]
    if node.target is GATHER:
        return [Sending(ALL_GATHER, shards.workspace_bytes(node), g.among)]
    if node.target is not REDUCE:
        return []
    n_bytes = bytes_of(values_of(node.all_input_nodes))
    of_replicas = [] if g.replicas is None else [Sending(ALL_REDUCE, n_bytes // g.n_ranks, g.replicas)]
    return [Sending(REDUCE_SCATTER, n_bytes, g.among), *of_replicas]


def sent_bytes(node: fx.Node) -> int:
    """Return the bytes that one rank sends or receives for an operator."""
    found = 0
    for name, n_bytes, group in sendings(node):
        n = int(group.size())
        found += (2 if name == ALL_REDUCE else 1) * n_bytes * (n - 1) // n
    return found
