"""Parameters that FSDP2 has sharded (`fully_shard`), as operators of a graph.

FSDP2 gathers a group's parameters before its module runs and frees them afterwards, in hooks that no graph shows. memplan
disables the hooks and represents their work by three operators per group:

    whole = gather(shards, group)     gathers all parameters of the group from the shards of all ranks
    rows = pack(gradients, group)     arranges the gradients by rank; the gradients may then be freed
    flat = reduce(rows, group)        reduce-scatter: the rank's shards of the gradients, in one storage

A plan can therefore decide when to gather a parameter, whether to keep it until backward or gather it again, and which
operators to recompute meanwhile. Messages equal FSDP2's in type and element order, so sums are bit-identical.

In a step without gradient reduction (`set_requires_gradient_sync(False)`), one operator replaces pack and reduce:

    token = keep(gradients, group)    adds the gradients to FSDP2's unsharded ones; the next reducing step packs both

A gather runs before the first reader of its parameters, and a reduction after its last gradient. Gradients of tensor-parallel
operators are first summed over the tensor-parallel ranks, directly after their computation.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx, nn

from memplan.errors import MemplanError
from memplan.graph.distributed import waiting_for_ranks
from memplan.torch_internals import sharding
from memplan.torch_internals.collectives import FUNCTIONAL, gloo_has_means
from memplan.torch_internals.dispatch import OPERATOR
from memplan.torch_internals.sharding import ParameterGroup

GROUPS: list[ParameterGroup] = []  # the groups of all sharded models; the operators' argument `group` is an index of this list
GOING: dict[int, Any] = {}  # collectives in progress, by the address of their result
NUMBER_BYTES = 12  # bytes of the two numbers that a division on a CPU allocates: the divisor, and a copy in the type of the sum


def groups_of(module: nn.Module) -> list[int]:
    """Return the numbers of a sharded model's groups. Raises MemplanError for unsupported features of FSDP2."""
    sharding.STATE.need()
    found = sharding.groups(module)
    for why in dict.fromkeys(group.refusal() for group in found):
        if why:
            raise MemplanError(f"memplan does not plan this model, because FSDP shards it with {why}; train it without memplan")
    GROUPS.extend(found)
    return list(range(len(GROUPS) - len(found), len(GROUPS)))


def whole(g: ParameterGroup, k: int, like: torch.Tensor) -> torch.Tensor:
    """Return memory for a gathered parameter, padded to a multiple of the number of ranks like FSDP2's."""
    dim, size = g.dims[k], list(g.padded[k])
    size[dim] *= g.n_ranks
    return like.new_empty(size, dtype=g.compute_types[k]).narrow(dim, 0, g.shapes[k][dim])


# ---- the operators


@torch.library.custom_op("memplan::gather", mutates_args=(), schema="(Tensor[] shards, int group) -> Tensor[]")
def gather(shards: list[torch.Tensor], group: int) -> list[torch.Tensor]:
    return end_gather(begin_gather(shards, group), group)


def begin_gather(shards: Sequence[torch.Tensor], group: int) -> torch.Tensor:
    """Begin to gather the shards of all ranks. The result is incomplete until `end_gather`."""
    g = GROUPS[group]
    everything = all_shards(g, shards)
    of_one = everything.numel() // g.n_ranks
    own = everything.narrow(0, torch.distributed.get_rank(g.among) * of_one, of_one)
    at = 0
    for shard, size in zip(shards, g.padded):
        own[at : at + shard.numel()].copy_(shard.reshape(-1))
        own[at + shard.numel() : at + size.numel()].zero_()
        at += size.numel()
    with waiting_for_ranks(g.gathering()):
        work = torch.distributed.all_gather_into_tensor(everything, own, group=g.among, async_op=True)
    GOING[everything.data_ptr()] = work
    return everything


def all_shards(g: ParameterGroup, shards: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return uninitialized memory for the gathered shards of all ranks."""
    return shards[0].new_empty(g.n_ranks * sum(size.numel() for size in g.padded), dtype=g.compute_types[0])


def arrived(going: torch.Tensor, what: str) -> torch.Tensor:
    """Wait for a collective and return its result."""
    if (work := GOING.pop(going.data_ptr(), None)) is not None:
        with waiting_for_ranks(what):
            work.wait()
    return going


def end_gather(everything: torch.Tensor, group: int) -> list[torch.Tensor]:
    g = GROUPS[group]
    rows = arrived(everything, g.gathering()).view(g.n_ranks, -1)
    parts = torch.split_with_sizes(rows, [size.numel() for size in g.padded], dim=1)
    made = [put_together(g, k, part) for k, part in enumerate(parts)]
    everything.untyped_storage().resize_(0)  # frees the sent buffer, which gloo would hold until its next send
    return made


def put_together(g: ParameterGroup, k: int, part: torch.Tensor) -> torch.Tensor:
    """Assemble a parameter from the shards of all ranks, one per row."""
    made, dim = whole(g, k, part), g.dims[k]
    if dim == 0:
        memory = made.as_strided((part.numel(),), (1,))
        memory.view(g.n_ranks, -1).copy_(part)
    else:
        torch.cat([row.view(g.padded[k]) for row in part], dim=dim, out=made)
    return made


@gather.register_fake
def _(shards: list[torch.Tensor], group: int) -> list[torch.Tensor]:
    return [whole(GROUPS[group], k, shard) for k, shard in enumerate(shards)]


@torch.library.custom_op(
    "memplan::gather_to_keep", mutates_args=(), schema="(Tensor[] shards, Tensor token, int group) -> Tensor[]"
)
def gather_to_keep(shards: list[torch.Tensor], token: torch.Tensor, group: int) -> list[torch.Tensor]:
    """Gather parameters in the capture of a step without gradient reduction. Planned graphs contain `gather` instead.

    `token` requires a gradient, which `keep` returns. So backward depends on `keep`, which stores the unsharded gradients.
    """
    return end_gather(begin_gather(shards, group), group)


@gather_to_keep.register_fake
def _(shards: list[torch.Tensor], token: torch.Tensor, group: int) -> list[torch.Tensor]:
    return [whole(GROUPS[group], k, shard) for k, shard in enumerate(shards)]


@torch.library.custom_op("memplan::keep", mutates_args=(), schema="(Tensor[] gradients, int[] which, int group) -> Tensor")
def keep(gradients: list[torch.Tensor], which: list[int], group: int) -> torch.Tensor:
    g = GROUPS[group]
    for k, gradient in zip(which, gradients):
        g.keep(k, gradient)
    return token_of(gradients)


@keep.register_fake
def _(gradients: list[torch.Tensor], which: list[int], group: int) -> torch.Tensor:
    return token_of(gradients)


def token_of(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return tensors[0].new_zeros((), dtype=torch.float32)


@torch.library.custom_op("memplan::pack", mutates_args=(), schema="(Tensor[] gradients, int[] which, int group) -> Tensor")
def pack(gradients: list[torch.Tensor], which: list[int], group: int) -> torch.Tensor:
    g = GROUPS[group]
    rows, at = packed(g, gradients, which), 0
    g.need_all_kept(which)
    for k, gradient in zip(which, gradients):
        n = g.padded[k].numel()
        put_apart(g, k, g.with_kept(k, gradient), rows[:, at : at + n])
        at += n
    return rows


def packed(g: ParameterGroup, gradients: Sequence[torch.Tensor], which: Sequence[int]) -> torch.Tensor:
    """Return uninitialized memory for the packed gradients of the parameters `which`."""
    of_one = sum(g.padded[k].numel() for k in which)
    return gradients[0].new_empty((g.n_ranks, of_one), dtype=g.summed_type(gradients))


@pack.register_fake
def _(gradients: list[torch.Tensor], which: list[int], group: int) -> torch.Tensor:
    return packed(GROUPS[group], gradients, which)


def put_apart(g: ParameterGroup, k: int, gradient: torch.Tensor, rows: torch.Tensor) -> None:
    """Write the shards of a gradient into rows, one per rank, padded with zeros."""
    dim = g.dims[k]
    shards = gradient.chunk(g.n_ranks, dim=dim) if gradient.shape[dim] else ()
    for rank, row in enumerate(rows):
        n = shards[rank].numel() if rank < len(shards) else 0
        if n:
            row[:n].view(shards[rank].shape).copy_(shards[rank])
        row[n:].zero_()


@torch.library.custom_op("memplan::reduce", mutates_args=(), schema="(Tensor rows, int group) -> Tensor")
def reduce(rows: torch.Tensor, group: int) -> torch.Tensor:
    return end_sum(begin_sum(rows, group), group, rows)


def begin_sum(rows: torch.Tensor, group: int) -> torch.Tensor:
    """Begin to reduce over the ranks. On a GPU, the result is the rank's own row; `rows` has to stay until the end.

    On a CPU the result is a copy with the sums of all rows. gloo reduces in this copy and holds it until the next send.
    """
    g = GROUPS[group]
    before, _, operation, _ = g.division(rows.dtype)
    sent = rows if before == 1 else rows / before
    if is_in_copy(rows) and (operation == torch.distributed.ReduceOp.SUM or gloo_has_means()):
        going = rows.clone() if before == 1 else sent
        with waiting_for_ranks(g.summing()):
            GOING[going.data_ptr()] = torch.distributed.all_reduce(going, op=operation, group=g.among, async_op=True)
        return going
    going = rows.new_empty(rows.shape[1])
    with waiting_for_ranks(g.summing()):
        work: Any = torch.distributed.reduce_scatter_tensor(going, sent.view(-1), op=operation, group=g.among, async_op=True)
        if before == 1 and not is_in_copy(rows):
            GOING[going.data_ptr()] = work
        else:
            work.wait()  # after the wait, no collective uses the sent buffer `rows`
    return going


def is_in_copy(rows: torch.Tensor) -> bool:
    """Whether the reduction works on a copy of the sent buffer instead of the buffer itself."""
    return rows.device.type == "cpu"


def end_sum(going: torch.Tensor, group: int, rows: torch.Tensor | None = None) -> torch.Tensor:
    """Wait for a reduction and return this rank's row. `rows`: the sent buffer if it is not `going`; the caller holds it."""
    g = GROUPS[group]
    _, after, _, of_replicas = g.division(going.dtype)
    made = arrived(going, g.summing())
    if going.dim() > 1:
        made = going[torch.distributed.get_rank(g.among)].clone()
        going.untyped_storage().resize_(0)
    if g.replicas is not None:
        with waiting_for_ranks(g.summing()):
            torch.distributed.all_reduce(made, op=of_replicas, group=g.replicas)
    if after != 1:
        made.div_(after)
    return made.to(g.given_type)


@reduce.register_fake
def _(rows: torch.Tensor, group: int) -> torch.Tensor:
    return rows.new_empty(rows.shape[1], dtype=GROUPS[group].given_type)


def note_group(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.set_materialize_grads(False)  # unused parameters have no gradient, as in FSDP2
    ctx.group = inputs[-1]


def note_shards(ctx: Any, inputs: Any, output: Any) -> None:
    note_group(ctx, inputs, output)
    ctx.shapes = [shard.shape for shard in inputs[0]]


def gradients_of_shards(ctx: Any, gradients: Sequence[Any]) -> Any:
    g = GROUPS[ctx.group]
    which = [k for k, gradient in enumerate(gradients) if gradient is not None and ctx.needs_input_grad[0][k]]
    made: list[Any] = [None] * len(gradients)
    if which:
        rows = torch.ops.memplan.pack([gradients[k] for k in which], which, ctx.group)
        flat = torch.ops.memplan.reduce(rows, ctx.group)
        at = 0
        for k in which:
            made[k] = flat.narrow(0, at, ctx.shapes[k].numel()).view(ctx.shapes[k])
            at += g.padded[k].numel()
    return made, None


gather.register_autograd(gradients_of_shards, setup_context=note_shards)


def gradients_kept(ctx: Any, gradients: Sequence[Any]) -> Any:
    which = [k for k, gradient in enumerate(gradients) if gradient is not None and ctx.needs_input_grad[0][k]]
    token = torch.ops.memplan.keep([gradients[k] for k in which], which, ctx.group) if which else None
    return [None] * len(gradients), token, None


gather_to_keep.register_autograd(gradients_kept, setup_context=note_group)


# ---- changes to a graph that contains the operators above


GATHER, PACK, REDUCE, KEEP = (getattr(torch.ops.memplan, name).default for name in ("gather", "pack", "reduce", "keep"))
GATHER_TO_KEEP = torch.ops.memplan.gather_to_keep.default
VIEW = torch.ops.aten.view.default


def is_ours(node: fx.Node) -> bool:
    return node.target in (GATHER, PACK, REDUCE, KEEP)


def shards_in(graph: fx.Graph) -> set[int]:
    """Return the indices of the inputs of a joint graph that are shards."""
    primals = [n for n in graph.nodes if n.op == "placeholder" and "tangents" not in n.name]
    read = {a for n in graph.nodes if n.target is GATHER for a in n.all_input_nodes}
    return {k for k, primal in enumerate(primals) if primal in read}


def put_in_place(graph: fx.Graph) -> None:
    """Move every gather before the first reader of its parameters, and every reduction after its last gradient."""
    for node in [n for n in graph.nodes if n.target is GATHER_TO_KEEP]:
        shards, _, group = node.args
        node.target, node.args = GATHER, (shards, group)
    for node in [n for n in graph.nodes if n.target in (PACK, KEEP)]:
        for gradient in node.all_input_nodes:
            sum_at_once(gradient)
    at = {node: i for i, node in enumerate(graph.nodes)}
    for node in [n for n in graph.nodes if n.target is GATHER]:
        items = list(node.users)
        # a gathered parameter that is a DTensor is read through a view, which moves with the gather
        views = [u for item in items for u in item.users if u.target is VIEW]
        readers = {u for made in (*items, *views) for u in made.users}.difference(views)
        if readers and all(item.target is operator.getitem for item in items):
            first = min(readers, key=at.__getitem__)
            for moved in (node, *items, *views):
                first.prepend(moved)
    for node in [n for n in graph.nodes if n.target in (PACK, KEEP)]:
        last = max(node.all_input_nodes, key=at.__getitem__)
        for moved in (*(n for n in node.users if n.target is REDUCE), node):
            last.append(moved)
    graph.lint()


def sum_at_once(gradient: fx.Node) -> None:
    """Move collectives that produce a gradient, and their waits, directly behind the operators whose results they reduce."""
    moved: list[fx.Node] = []
    at = gradient
    while isinstance(at.target, OPERATOR) and at.target.namespace in FUNCTIONAL and len(at.all_input_nodes) == 1:
        moved.append(at)
        at = at.all_input_nodes[0]
    for node in reversed(moved):
        at.append(node)
        at = node


class Apart(NamedTuple):
    """A collective split into two operators.

    `begin` starts it. Its result is held until `end`, which waits for the collective.
    """

    begin: Callable[..., torch.Tensor]
    end: Callable[..., Any]
    going: torch.Tensor
    holds_given: bool  # whether the operands have to stay in memory until `end` has run
    beside_bytes: int  # bytes of further memory that the collective uses after `begin`; it may be freed before `end`
    workspace_bytes: int  # workspace of `end` in bytes


def apart(node: fx.Node) -> Apart | None:
    """Split a collective of FSDP2 into two operators. Return None if it must run as one."""
    g = GROUPS[node.args[-1]]  # type: ignore[index]
    if g.n_ranks == 1 or node.target is PACK:
        return None
    if node.target is GATHER:
        shards: Any = node.args[0]
        everything = all_shards(g, [s.meta["val"] for s in shards])
        of_gloo = everything.nbytes if everything.device.type == "cpu" else 0  # gloo receives the shards in a buffer of its own
        return Apart(begin_gather, end_gather, everything, False, of_gloo, 0)
    rows: torch.Tensor = node.args[0].meta["val"]  # type: ignore[union-attr]
    if not is_in_copy(rows) and g.division(rows.dtype).before != 1:
        return None
    going = torch.empty_like(rows) if is_in_copy(rows) else rows.new_empty(rows.shape[1])
    of_cast = rows.shape[1] * rows.element_size() if rows.dtype != g.given_type else 0
    return Apart(begin_sum, end_sum, going, not is_in_copy(rows), is_in_copy(rows) * NUMBER_BYTES, of_cast)


def workspace_bytes(node: fx.Node) -> int:
    """Return the workspace of an operator of this file: buffers of all ranks, gloo's copies, casts to wider gradients."""
    g = GROUPS[node.args[-1]]  # type: ignore[index]
    if node.target in (PACK, KEEP):
        values: list[torch.Tensor] = [a.meta["val"] for a in node.all_input_nodes]
        casts = [v.numel() * kind.itemsize for v in values if v.dtype != (kind := g.kept_type(v)) and g.keeps]
        return max(casts, default=0) if values[0].device.type == "cpu" else 0
    if node.target is GATHER:
        return int(g.n_ranks * sum(size.numel() for size in g.padded) * g.compute_types[0].itemsize)
    rows: torch.Tensor = node.args[0].meta["val"]  # type: ignore[union-attr]
    made: torch.Tensor = node.meta["val"]
    copies = is_in_copy(rows) or g.division(rows.dtype).before != 1
    is_cast = rows.dtype != made.dtype
    return int((copies * g.n_ranks + is_cast) * made.numel() * rows.element_size()) + is_in_copy(rows) * NUMBER_BYTES


# ---- a call of the model


def local_shards(groups: Iterable[int]) -> list[list[torch.Tensor]]:
    """Return this rank's shards as autograd leaves. Their gradients become the gradients of the sharded parameters."""
    return [[p.to_local() for p in GROUPS[g].parameters()] for g in groups]


def gathered(groups: Iterable[int], shards: Sequence[Sequence[torch.Tensor]], token: Any = None) -> dict[str, torch.Tensor]:
    """Gather all parameters, by their names in the model. With `token`, their gradients stay unsharded."""
    found: dict[str, torch.Tensor] = {}
    for number, own in zip(groups, shards):
        g, ops = GROUPS[number], torch.ops.memplan
        whole = ops.gather(list(own), number) if token is None else ops.gather_to_keep(list(own), token, number)
        for names, cut, made in zip(g.names, g.cuts, whole):
            found.update(dict.fromkeys(names, made if cut is None else cut.whole(made)))
    return found
