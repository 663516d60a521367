"""Replay of a model's call on fake tensors without memory, after an allocation failure.

The replay finds the module and line of each autograd node. It also finds tensors that were alive only within the failed
operator and are gone when the error arrives. Autograd numbers its nodes in order of creation. The same call creates the same
nodes with numbers that differ by a constant.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import sys
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from memplan.compiled_modules import eager_copy
from memplan.costs.measured_bytes import bytes_of_more, bytes_of_rnn
from memplan.errors import MemplanError
from memplan.explain.account import LEAF, OTHER, Account, Piece
from memplan.explain.calls import Call, Sized, given
from memplan.explain.failure import Failure, Where, module_names, of_frame, path_of
from memplan.graph.capture import allocated, storage_bytes, storage_key, tensors_of
from memplan.graph.native import RNN_LAYER
from memplan.run.outside_tensors import reachable
from memplan.torch_internals.autograd import everything_saved_by, next_number, number_of
from memplan.torch_internals.dispatch import forget_arguments, watching, without_memory

FEWEST = 0.5  # share of a call's autograd nodes that must match the replayed nodes
ROUNDING = 0.02  # relative difference permitted between requested and expected memory of an LSTM
MOST_SKIPS = 8  # maximum number of operators at one line that are tried as candidates for the failed operator
CONVOLUTION = torch.ops.aten.convolution.default
UNDER_WAY = "under way"  # text shown for tensors that only the failed operator or backward holds


class Failed(Exception):
    """Raised within a replay to end it at the failed allocation."""


class NotReplayed(MemplanError):
    """A call cannot be replayed. The message gives the reason."""


@dataclass
class Target:
    """The place of the failed allocation, for the replay.

    Attributes:
        failed_bytes: the bytes of the failed request.
        tried_bytes: the result size by which the replay searches the failed operator. It differs from failed_bytes if the
            failed request was for a temporary tensor.
        path: the lines of user code that led to the failure, outermost first.
        is_backward: whether the allocation failed in backward.
        made: index of the last created autograd node, counted from the call's first node.
        ran: indices of the nodes whose backward had run.
        reached: number of created nodes; None if later code has created others.
        skips: number of candidate operators to skip.
        moved_bytes: minimum number of bytes that the failed operator reads and writes.
    """

    failed_bytes: int | None
    tried_bytes: int | None
    path: list[Where]
    is_backward: bool
    made: int
    ran: set[int]
    reached: int | None
    skips: int = 0
    moved_bytes: int = 0


class Events:
    """Observes the allocations of a call's operators. `start`: the number of its first autograd node."""

    def __init__(self, names: dict[int, str], start: int, target: Target | None) -> None:
        self.names, self.start, self.target = names, start, target
        self.where: dict[int, Where] = {}  # place of each autograd node, by its index counted from the call's first node
        self.alive: dict[int, tuple[weakref.ref[Any], Piece]] = {}
        self.current = -1  # index of the node whose backward is running; -1: none
        self.entered: set[int] = set()
        self.n_there = 0  # number of operators so far that could be the failed operator
        self.failed_at: Where | None = None
        self.failed_in = ("", 0)  # name of the failed operator, and the bytes that it reads and writes
        self.taken: list[int] = []  # candidates for the bytes of the failed operator's temporary tensors
        self.before: list[tuple[weakref.ref[Any], Piece]] = []  # tensors alive when the operator failed

    def run(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator of the replayed call, and record its allocations."""
        made = next_number() - self.start
        if self.current < 0:
            path = path_of(of_frame(sys._getframe(1)), self.names)
            where = self.where.setdefault(made - 1, path[-1]) if path and torch.is_grad_enabled() else Where()
            where = path[-1] if path else where
        else:
            path, where = [], self.where.get(self.current, Where())
        result = function(*args, **kwargs)
        given_out = self._given_out(result, where, bytes_of_rnn(args)[0] if function is RNN_LAYER else ())
        moved = sum(storage_bytes(t) for t in tensors_of([args, kwargs])) + sum(given_out.values())
        if given_out and self._is_there(path, made, given_out, moved) and self._is_not_skipped():
            self.before = [a for k, a in self.alive.items() if k not in given_out and a[0]() is not None]
            self.failed_at = where
            self.failed_in, self.taken = (str(function), moved), self._taken_of(asked_by(function, args))
            del args, kwargs, result  # the traceback of the exception would otherwise keep the operator's tensors alive
            raise Failed
        return result

    def _given_out(self, result: Any, where: Where, sizes: Sequence[int]) -> dict[int, int]:
        """Record the storages that an operator has allocated.

        `sizes`: sizes of the results, if fake tensors do not have them.
        """
        found = {}
        for k, tensor in enumerate(tensors_of(result)):
            key = storage_key(tensor)
            if key not in self.alive or self.alive[key][0]() is None:
                found[key] = self._exactly(sizes[k]) if sizes else allocated(storage_bytes(tensor), tensor.device)
                piece = Piece(found[key], OTHER, where, UNDER_WAY)
                self.alive[key] = weakref.ref(tensor.untyped_storage()), piece
        return found

    def _exactly(self, n_bytes: int) -> int:
        """Return `n_bytes`, or the size of the failed request if both differ by rounding only."""
        tried = self.target.tried_bytes if self.target is not None else None
        return tried if tried is not None and abs(n_bytes - tried) < ROUNDING * tried else n_bytes

    def _taken_of(self, asked: Sequence[int]) -> list[int]:
        """Return the bytes that the operator may have allocated before its failed request.

        `asked`: the operator's requests in order. Each request of the failed size is a candidate.
        """
        failed = self.target.failed_bytes or 0 if self.target is not None else 0
        there = [k for k, n in enumerate(asked) if n > 0 and abs(n - failed) < ROUNDING * failed]
        return sorted({sum(asked[:k]) for k in there})

    def _is_not_skipped(self) -> bool:
        self.n_there += 1
        return self.target is not None and self.n_there > self.target.skips

    def _is_there(self, path: list[Where], made: int, given_out: dict[int, int], moved: int) -> bool:
        target = self.target
        if target is None or moved < target.moved_bytes or target.is_backward != (self.current >= 0):
            return False
        if target.tried_bytes is not None and target.tried_bytes not in given_out.values():
            return False
        if target.is_backward:
            return target.ran <= self.entered - {self.current}
        return path == target.path and (made == target.reached if target.reached is not None else made > target.made)

    def enter(self, node: int) -> None:
        self.current = node
        self.entered.add(node)


def asked_by(function: Any, args: Sequence[Any]) -> Sequence[int]:
    """Return the memory requests of an operator whose requests are known only after a run."""
    if function is RNN_LAYER:
        return bytes_of_rnn(args)[1]
    return bytes_of_more(function, args, 0, (0,))[1] if function is CONVOLUTION else ()


def copy_of(model: nn.Module) -> nn.Module:
    """Return a copy of the model within a fake tensor mode."""
    memo: dict[int, Any] = {}
    for module in model.modules():
        for tensor in tensors_of(list(vars(module).values())):
            if id(tensor) not in memo:
                fake = Sized(tensor).empty()
                memo[id(tensor)] = nn.Parameter(fake, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else fake
    return eager_copy(model, memo)


@dataclass
class Replay:
    """The result of a replay. `where` and `nodes` describe the call's autograd nodes, counted from the first."""

    call: Call
    where: dict[int, Where] = field(default_factory=dict)
    nodes: dict[int, str] = field(default_factory=dict)
    saving: set[int] = field(default_factory=set)  # indices of the autograd nodes that save tensors
    failed_at: Where | None = None
    failed_in: tuple[str, int] = "", 0
    taken: list[int] = field(default_factory=list)
    # tensors that were alive at the failure and have been freed before the explanation
    lost: list[Piece] = field(default_factory=list)
    output_bytes: int = 0
    has_loss: bool = False  # whether the outputs contain a loss
    is_loss: bool = False  # whether the loss is the only output

    @staticmethod
    def of(call: Call) -> Replay:
        """Replay a recorded call of a model on fake tensors. Raises NotReplayed."""
        replay = Replay(call)
        try:
            replay._run(None, [])
        except Exception as error:
            raise NotReplayed(f"{type(error).__name__}: {error}") from error
        return replay

    def of_calls(self, begun: Sequence[int], nodes: dict[Any, int]) -> dict[Any, Where]:
        """Return the places (modules and lines) of the autograd nodes of all calls that resemble the replayed one.

        `begun`: for each call, the number of its first node.
        """
        return {
            node: self.where[n - start]
            for start in begun
            for node, n in nodes.items()
            if n - start in self.where and node.name() == self.nodes.get(n - start)
        }

    def fail(self, target: Target, used: Iterable[int], released_bytes: int) -> None:
        """Replay the call up to the failed operator.

        If no operator requests the failed size, other sizes are tried, because temporary memory is not a result. Temporary
        memory is hardly larger than the bytes that the operator reads and writes. If several operators may have failed, memplan
        uses the last one whose lost tensors (alive at the failure, freed since) have at most `released_bytes`: the bytes that
        the process has released since the failure. `used`: the nodes at which backward started.
        """
        asked = target.tried_bytes
        sizes = dict.fromkeys([(asked, 0), (None, asked or 0), (None, 0)])
        for reached, (tried, moved) in itertools.product(dict.fromkeys([target.reached, None]), sizes):
            there = replace(target, reached=reached, tried_bytes=tried, moved_bytes=moved)
            for skips in range(MOST_SKIPS):
                found, self.failed_at = (self.failed_at, self.failed_in, self.taken, self.lost), None
                # if this trial of the replay fails, the next lines restore the result of the previous trial
                with contextlib.suppress(Exception):
                    self._run(replace(there, skips=skips), used)
                if self.failed_at is None or (skips and sum(p.n_bytes for p in self.lost) > released_bytes):
                    self.failed_at, self.failed_in, self.taken, self.lost = found
                    break
            if self.failed_at is not None:
                break

    def inside_bytes(self, released_bytes: int) -> int:
        """Return the maximum temporary memory of the failed operator.

        It is bounded by the bytes that the operator reads and writes, and by the bytes that the process has released since the
        failure.
        """
        return (
            self.taken[-1] if self.taken else max(0, min(released_bytes - sum(p.n_bytes for p in self.lost), self.failed_in[1]))
        )

    def _run(self, target: Target | None, used: Iterable[int]) -> None:
        model = self.call.model()
        if model is None:
            raise NotReplayed("the model was deleted")
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.enable_grad())
            stack.enter_context(torch.random.fork_rng(devices=[]))
            stack.enter_context(without_memory())
            fake = copy_of(model)
            args = given(self.call.args, Sized.empty)
            kwargs = given(self.call.kwargs, Sized.empty)
            names = module_names(fake)
            events = Events(names, next_number(), target)
            try:
                with contextlib.ExitStack() as around:
                    for context in self.call.contexts:
                        around.enter_context(copy.copy(context))
                    around.enter_context(watching(events.run))
                    result = fake(*args, **kwargs)
                    outputs = [t for t in tensors_of(result) if t.grad_fn is not None]
                    nodes = self._of_graph(outputs, events)
                if target is not None and target.is_backward:
                    back(outputs, nodes, set(used), events)
            except Failed as failed:
                forget_arguments(failed.__traceback__)
                self.failed_at, self.failed_in, self.taken = events.failed_at, events.failed_in, events.taken
                self.lost = [piece for storage, piece in events.before if storage() is None]
                # `failed` is deleted only here, because its frames keep the same tensors alive as the frames of the real error
                del failed
                return
            if target is None:
                self.where, self.nodes = events.where, {k: n.name() for k, n in nodes.items()}
                self.saving = {k for k, n in nodes.items() if saves(n)}
                self.output_bytes = sum({storage_key(t): storage_bytes(t) for t in outputs}.values())
                self.has_loss = any(t.numel() == 1 for t in outputs)
                self.is_loss = self.has_loss and isinstance(result, torch.Tensor)

    @staticmethod
    def _of_graph(outputs: Sequence[torch.Tensor], events: Events) -> dict[int, Any]:
        found = reachable([t.grad_fn for t in outputs], set())
        return {number_of(n) - events.start: n for n in found if LEAF not in n.name()}


def back(outputs: Sequence[torch.Tensor], nodes: dict[int, Any], used: set[int], events: Events) -> None:
    """Run backward on the replayed call, from the outputs that the real backward used."""
    for number, node in nodes.items():
        node.register_prehook(lambda _, number=number: events.enter(number))
    numbers = {node: number for number, node in nodes.items()}
    ends = []
    below: set[Any] = set()
    for tensor in sorted(outputs, key=lambda t: -numbers[t.grad_fn]):
        if tensor.grad_fn not in below and (not used or numbers[tensor.grad_fn] in used):
            ends.append(tensor)
            below |= reachable([tensor.grad_fn], set())
    with watching(events.run):
        events.current = max(nodes)
        gradients = [torch.ones_like(t) for t in ends]
        torch.autograd.backward(ends, gradients if len(gradients) > 1 or gradients[0].numel() > 1 else None)


def starts(real: dict[int, str], replayed: dict[int, str]) -> list[int]:
    """Find the calls of the model among the live autograd nodes, and return the number of each call's first node in order.

    Every call creates the same sequence of node names. The names of the replayed call are searched among the live nodes.
    """
    found: list[int] = []
    left = dict(real) if replayed else {}
    first = min(replayed, default=0)
    while True:
        tried = [number - first for number, name in left.items() if name == replayed.get(first)]
        counted = {start: sum(left.get(start + k) == name for k, name in replayed.items()) for start in tried}
        best = max(tried, key=lambda start: (counted[start], start), default=0)
        there = [k for k in left if best <= k <= best + max(replayed, default=0)]
        if not tried or counted[best] < FEWEST * len(there):
            return sorted(found)
        found.append(best)
        for k in there:
            del left[k]


def failing(replay: Replay, failure: Failure, start: int, nodes: dict[Any, int], names: dict[int, str]) -> None:
    """Run the replay up to the place where the real call failed. `start`: the number of the real call's first node."""
    mine = {node: number - start for node, number in nodes.items() if number - start in replay.nodes}
    target = Target(
        failure.tried_bytes,
        failure.tried_bytes,
        path_of(failure.stack, names),
        failure.phase == "backward",
        max(mine.values(), default=-1),
        {number for node, number in mine.items() if number in replay.saving and not saves(node)},
        failure.next_number - start,
    )
    above = reachable([t.grad_fn for t in failure.roots], set())
    outputs = {mine[node] for node in above & mine.keys()}
    replay.fail(target, outputs, failure.released_bytes)


def saves(node: Any) -> bool:
    """Whether an autograd node holds saved tensors. After the node's backward it holds none."""
    return next(everything_saved_by(node), None) is not None


def add_lost(account: Account, replay: Replay) -> None:
    known = replay.taken if len(replay.taken) == 1 else []
    inside = [Piece(n, OTHER, replay.failed_at or Where(), UNDER_WAY) for n in known if n > 0]
    for k, piece in enumerate([*replay.lost, *inside]):
        account.pieces[-1 - k] = piece
