"""Explain a failed allocation: the live memory, its holders, and a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from memplan.budget import gradient_bytes, in_units, model_bytes, total_bytes
from memplan.explain.account import (
    BUFFERS,
    GRADIENTS,
    KINDS,
    OTHER,
    PARAMETERS,
    SAVED,
    STATE,
    Account,
    Objects,
    Piece,
    fill,
    fill_others,
    names_of,
)
from memplan.explain.calls import Call, call_in
from memplan.explain.earlier_graphs import Earlier
from memplan.explain.failed_call import UNDER_WAY, NotReplayed, Replay, add_lost, failing, starts
from memplan.explain.failure import Failure, Where, addresses_are_limited, path_of
from memplan.explain.reserved import Reserved
from memplan.explain.suggestion import Room, Step, Suggestion, name_in, suggest
from memplan.explain.tables import table, together

OF_LINES = (SAVED, OTHER)
LEAST = 1 << 16  # amounts of memory below this many bytes are not mentioned
# a variable is named as the cause if it holds more than this fraction of all live memory, and more than one step saves
MOST_OF = 0.25
TIMES_OUTPUTS = 2  # estimated memory of an external loss, as a multiple of the model's outputs
WORDS = {"backward": "in backward", "update": "in the optimizer's step", "forward": "in forward", "": ""}


@dataclass
class Explanation:
    """The explanation of a failed allocation, as a printable object. `reserved`: the state of a GPU's allocator."""

    failure: Failure
    where: Where
    account: Account
    reserved: Reserved | None
    earlier: Earlier | None
    suggestion: Suggestion | None
    inside: tuple[str, int] = "", 0  # on a CPU: the operator that failed, and an upper bound of its temporary memory
    # possible sizes in bytes of the failed operator's temporary memory; empty if unknown
    inside_is: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        failure, account = self.failure, self.account
        tried = "an allocation" if failure.tried_bytes is None else f"an allocation of {in_units(failure.tried_bytes)}"
        yield " ".join(filter(None, [f"memplan: {tried} failed on {account.device}", WORDS[failure.phase], at_of(self.where)]))
        yield f"  alive: {in_units(account.total())} in tensors"
        if self.inside[1] >= LEAST:
            *some, most = map(in_units, self.inside_is or [self.inside[1]])
            sizes = f"{', '.join(some)} or {most}" if some else f"up to {most}"
            yield f"  and {sizes} in no tensor, inside of {self.inside[0]}"
        yield f"  {self.reserved or 'reserved and fragmented: not known on a CPU'}"
        yield from table("by kind", [(kind, account.total(kind)) for kind in KINDS], account.total())
        yield from table("by module", together(account.by(lambda p: p.where.module or named(p))), account.total())
        lines = account.by(lambda p: p.where.place if p.kind in OF_LINES else None)
        lines.pop(None, None)
        yield from table(
            "by line, of the tensors that forward and backward created", lines.items(), account.total(), "no line is known"
        )
        if self.earlier is not None:
            yield from ("", f"  {self.earlier}")
        if self.suggestion is not None:
            yield from ("", "  what would have helped:" if self.suggestion.line else "  what would have helped: no plan")
            yield from ([f"    {self.suggestion.line}"] if self.suggestion.line else [])
            yield from (f"    {line}" for line in self.suggestion.sentence.splitlines())
        if self.reserved is not None and self.reserved.is_fragmented(failure.tried_bytes or 0):
            yield "  the fragments together would have been enough: PYTORCH_ALLOC_CONF=expandable_segments:True"
        yield from (f"  {note}" for note in self.notes)


def at_of(where: Where) -> str:
    """Return module and line of a place as text, as far as they are known."""
    parts = [f"of {where.module}" if where.module else "", where.place if where.module else f"at {where.place}"]
    return ", ".join(filter(None, parts)) if where.module or where.place else ""


def named(piece: Piece) -> str:
    """Return the name to show for a storage that belongs to no module, such as its variable."""
    return f"{piece.kind}: {piece.what}" if piece.what else piece.kind


def explain(failure: Failure, last: Call | None, reserved: Reserved | None = None) -> Explanation:
    """Explain a failure from all live objects, without keeping them. `last`: the last observed call of a model."""
    objects = Objects(failure.device)
    call = of_failure(failure, last)
    model = call.model() if call is not None else None
    names = names_of(model, objects.modules)
    nodes = objects.nodes()
    replay, notes = replayed(call)
    begun = begun_calls(replay, nodes, failure) if replay is not None else []
    where = replay.of_calls(begun, nodes) if replay is not None else {}
    account = Account(failure.device)
    fill(account, objects, call.inputs() if call is not None else [], names, where)
    fill_others(account, objects, failure.stack)
    others = sum(p.n_bytes for t, p in zip(account.alive, account.pieces.values()) if p.kind == OTHER and t.grad_fn is None)
    path = path_of(failure.stack, names)
    at = path[-1] if path else Where("", failure.place)
    if replay is not None and begun:
        failing(replay, failure, begun[-1], nodes, names)
        add_lost(account, replay)
        at = replay.failed_at or at
    inside, inside_is = ("", 0), []
    if replay is not None and replay.failed_at is not None and len(replay.taken) != 1 and reserved is None:
        inside, inside_is = (replay.failed_in[0], replay.inside_bytes(failure.released_bytes)), replay.taken
    if reserved is not None and reserved.allocated_bytes > account.total():
        account.pieces[0] = Piece(reserved.allocated_bytes - account.total(), OTHER, at, UNDER_WAY)
    earlier = Earlier.of(objects, nodes, begun, failure) if begun else None
    suggestion = None
    if call is not None and model is not None and earlier is None:
        step = step_of(call, model, objects, failure, replay is not None and replay.is_loss)
        suggestion = filled_by_others(account)
        if suggestion is None:
            suggestion = suggest(step, room(step, account, others, replay, reserved, inside[1] + (failure.tried_bytes or 0)))
    if suggestion is not None and addresses_are_limited():
        notes.append(
            "the address space is limited (ulimit -v); PyTorch's capture needs some hundred MiB of it, which no budget counts"
        )
    account.forget()
    failure.forget()
    return Explanation(failure, at, account, reserved, earlier, suggestion, inside, inside_is, notes)


def filled_by_others(account: Account) -> Suggestion | None:
    """Return advice if a variable holds more memory than backward has saved. No plan of a step changes such memory."""
    held = [(t, p) for t, p in zip(account.alive, account.pieces.values()) if p.kind == OTHER and t.grad_fn is None]
    kept: dict[str, int] = {}
    for _, piece in held:
        kept[piece.what] = kept.get(piece.what, 0) + piece.n_bytes
    kept.pop("", None)
    holder = max(kept, key=lambda who: kept[who], default="")
    if not holder or kept[holder] <= max(account.total(SAVED), MOST_OF * account.total()):
        return None
    elsewhere = "move them to the host (.cpu())" if account.device.type != "cpu" else "write them to a file"
    return Suggestion(
        "",
        f"{holder} holds {in_units(kept[holder])} that no plan of a step changes; {elsewhere}, or store a result of"
        " them (a mean, .item())",
    )


def of_failure(failure: Failure, last: Call | None) -> Call | None:
    """Return the recorded call that failed, or whose backward or update failed."""
    found = call_in(failure.frames) if failure.phase == "forward" else None
    if found is not None and last is not None and found.model() is last.model():
        found.contexts, found.has_gradients = last.contexts, last.has_gradients
    return found or last


def replayed(call: Call | None) -> tuple[Replay | None, list[str]]:
    if call is None:
        return None, ["no call of a model was observed, so nodes have the nearest parameters' modules and no lines"]
    try:
        return Replay.of(call), []
    except NotReplayed as error:
        said = str(error).splitlines()[0]
        return None, [
            f"the call cannot be repeated without memory ({said}), so the modules are those of the nearest parameters"
        ]


def begun_calls(replay: Replay, nodes: dict[Any, int], failure: Failure) -> list[int]:
    """Return the autograd number of each call's first node.

    The failed call is the last one; it may have created no node yet.
    """
    found = starts({n: node.name() for node, n in nodes.items()}, replay.nodes)
    is_inside = call_in(failure.frames) is not None and failure.phase == "forward"
    numbers = set(nodes.values())
    if is_inside and found and found[-1] + max(replay.nodes) in numbers:
        # the last recorded call has ended, so the failed call is a later one
        found.append(max(numbers) + 1)
    return found or [max(numbers, default=-1) + 1]


def step_of(call: Call, model: nn.Module, objects: Objects, failure: Failure, is_loss: bool) -> Step:
    own = {id(p) for p in model.parameters()}
    optimizers = [o for o in objects.optimizers if any(id(p) in own for g in o.param_groups for p in g["params"])]
    optimizer = optimizers[0] if optimizers else None
    names = name_in(failure.stack, model, "model"), name_in(failure.stack, optimizer, "optimizer")
    return Step(call, model, optimizer, names, failure.device, is_loss)


def room(
    step: Step, account: Account, others: int, replay: Replay | None, reserved: Reserved | None, unknown_bytes: int
) -> Room:
    """Return the memory available for a plan.

    It is all memory in use before the failure, except the memory of other models and programs.
    """
    beside = others + account.total(PARAMETERS) + account.total(BUFFERS) - model_bytes(step.model)
    state = step.optimizer.state.values() if step.optimizer is not None else ()
    beside += account.total(STATE) - total_bytes([t for s in state for t in s.values() if isinstance(t, torch.Tensor)])
    beside += max(0, account.total(GRADIENTS) - gradient_bytes(step.model))
    if replay is not None and not replay.has_loss:
        beside += TIMES_OUTPUTS * replay.output_bytes
    beside = beside if beside >= LEAST else 0
    if reserved is None:
        return Room(account.total(), beside, account.total() + unknown_bytes)
    return Room(reserved.limit_bytes, beside, limit_bytes=reserved.limit_bytes)
