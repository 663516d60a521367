"""Results of finished calls that user code still holds, such as `module.kept = output.detach()` in a forward hook.

A plan covers the outputs of its own call. Results of earlier calls exist besides the next call:

    replaced by the next call's result    until the end of the next forward
    appended to a list                    during all later steps

Hooks of the compiled module itself run eagerly, outside of the plan. Tensors that they compute and store exist besides every
call. memplan observes these hooks until the first backward.

memplan stores weak references to the results. A result that no call returns, such as an attribute set by a hook, will probably
exist in the next forward. memplan plans the next step with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.multiprocessing import reductions

from memplan.graph.capture import storage_key, tensors_of
from memplan.torch_internals.dispatch import WATCHING, watching
from memplan.torch_internals.modules import has_own_hooks
from memplan.torch_internals.sharding import here

WEAKLY: Any = reductions.StorageWeakRef
MOST_CALLS = 64  # number of calls whose hooks are observed, if no backward runs
FEWEST_DROPPED = 64
MOST_MAKERS = 3  # number of modules named in a sentence


class Result(NamedTuple):
    """A result of a finished call. `maker` names the module that computed it."""

    storage: Any
    n_bytes: int
    maker: str

    def is_alive(self) -> bool:
        return not self.storage.expired()


# attributes: `returned`, the ReturnedKeys of the running call; `hooks`, the HookCall of the running call
CALL = threading.local()


class ReturnedKeys:
    """The storages that a call returns to user code; None as long as they are unknown."""

    def __init__(self) -> None:
        self.keys: set[int] | None = None
        self.outputs: Callable[[], list[Result]] = list  # returns the living outputs of the call's graph

    def hidden(self, results: Iterable[Result]) -> list[Result]:
        """Return the results that user code holds although the call did not return them.

        If the call's return value is unknown, the list is empty.
        """
        return [r for r in results if self.keys is not None and int(r.storage.cdata) not in self.keys]

    def take(self, result: Any) -> None:
        self.keys = {storage_key(t) for t in plain(result)}


class NoKeys(ReturnedKeys):
    """Stands for a call whose hooks are not observed."""

    def take(self, result: Any) -> None:
        pass


def plain(value: Any) -> list[torch.Tensor]:
    """Return the tensors of a value that have a storage, which wrappers of torch.func and sparse tensors lack."""
    return [t for t in map(here, tensors_of(value)) if t.layout is torch.strided and has_storage(t)]


def is_scalar(tensor: torch.Tensor) -> bool:
    """Whether a result, such as a loss, is too small to be reported. On a CPU, its storage may be as large as its operand."""
    return tensor.numel() == 1


def has_storage(tensor: torch.Tensor) -> bool:
    try:
        tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return False
    return True


@contextmanager
def noting_results() -> Iterator[ReturnedKeys]:
    """Within the context, planned calls of this thread belong to one call of a model.

    The caller passes the model's return value to the yielded object.
    """
    before, CALL.returned = returned_keys(), ReturnedKeys()
    try:
        yield CALL.returned
    finally:
        CALL.returned = before


def returned_keys() -> ReturnedKeys | None:
    return getattr(CALL, "returned", None)


class Hooks:
    """The memory that hooks of one compiled module store."""

    def __init__(self) -> None:
        self.is_known = False
        self.calls: list[HookCall] = []  # the observed calls; several calls may run before the first backward

    @contextmanager
    def observed(self, module: nn.Module, is_wanted: bool) -> Iterator[ReturnedKeys]:
        """Within the context, observe the tensors that hooks of the module compute, if this is wanted."""
        if (
            not is_wanted
            or not has_own_hooks(module)
            or self.is_known
            or len(self.calls) == MOST_CALLS
            or not torch.is_grad_enabled()
        ):
            yield NoKeys()
            return
        before, CALL.hooks = hook_call(), HookCall(self, type(module).__name__)
        self.calls.append(CALL.hooks)
        if before is not None:  # a hook of another compiled module makes this call
            before.pause()
        CALL.hooks.resume()
        try:
            yield CALL.hooks.returned
        finally:
            CALL.hooks.pause()
            CALL.hooks = before
            if before is not None:
                before.resume()

    def kept(self) -> tuple[list[Result], list[Result]]:
        """Return two lists of tensors that exist after backward and that the module does not return.

        The first list is from hooks before forward, the second from hooks after forward.
        """
        self.is_known = True
        keys = {key for call in self.calls for key in call.returned.keys or ()}
        calls, self.calls = self.calls, []

        def living(made: Callable[[HookCall], Results]) -> list[Result]:
            known = {key: r for call in calls for key, r in made(call).known.items()}
            return [r for key, r in known.items() if key not in keys and r.is_alive()]

        return living(lambda call: call.made_before), living(lambda call: call.made_after)


class HookCall:
    """The tensors that hooks have computed in one call."""

    def __init__(self, hooks: Hooks, name: str) -> None:
        self.hooks, self.name = hooks, name
        self.returned = ReturnedKeys()
        self.made = self.made_before = Results()  # the tensors from the hooks that run now, and from hooks before forward
        self.made_after = Results()
        self.stack = ExitStack()

    def resume(self) -> None:
        """Observe the operators of the module's hooks, before forward or after it, until `pause`."""
        if WATCHING:
            self.stack.enter_context(watching(self.run))

    def pause(self) -> None:
        self.stack.close()
        self.made = self.made_after

    def run(self, operator: Any, args: Any, kwargs: Any) -> Any:
        result = operator(*args, **kwargs)
        given = {storage_key(t) for t in plain((args, kwargs))}
        made = [t for t in plain(result) if storage_key(t) not in given]
        self.made.note_evaluation(made, 0, f"a hook of {self.name}")
        return result


def hook_call() -> HookCall | None:
    return getattr(CALL, "hooks", None)


@contextmanager
def beside_hooks() -> Iterator[None]:
    """Within the context, memplan does not observe operators for the hooks of the running call."""
    hooks = hook_call()
    if hooks is None:
        yield
        return
    hooks.pause()
    try:
        yield
    finally:
        hooks.resume()


class Results:
    """The results of finished calls of one model, by storage key."""

    def __init__(self) -> None:
        self.known: dict[int, Result] = {}
        self.most = FEWEST_DROPPED  # number of results at which those that no longer exist are dropped

    def note(self, results: Iterable[Result]) -> None:
        self.known.update({int(r.storage.cdata): r for r in results})
        if len(self.known) > self.most:
            self.drop()
            self.most = max(FEWEST_DROPPED, 2 * len(self.known))

    def drop(self) -> None:
        """Drop the results that no longer exist."""
        for key in [k for k, r in list(self.known.items()) if not r.is_alive()]:
            self.known.pop(key, None)

    def note_evaluation(self, value: Any, least_bytes: int, maker: str) -> None:
        """Note the results of a call without gradients that are larger than least_bytes."""
        for tensor in plain(value):
            storage = tensor.untyped_storage()
            if storage.nbytes() > least_bytes and not is_scalar(tensor):
                self.note([Result(WEAKLY(storage), storage.nbytes(), maker)])

    def besides(self, inputs: Iterable[Any]) -> list[Result]:
        """Return the living results, except the inputs of the present call."""
        self.drop()
        given = {storage_key(t) for t in plain([i for i in inputs if not isinstance(i, nn.Parameter)])} if self.known else set()
        return [r for k, r in list(self.known.items()) if k not in given]


def sum_of(results: Iterable[Result]) -> int:
    return sum(r.n_bytes for r in results if r.is_alive())


def makers_of(results: Iterable[Result]) -> str:
    """Return the names of the modules that computed the results, largest results first."""
    names = list(dict.fromkeys(r.maker for r in sorted(results, key=lambda r: -r.n_bytes) if r.maker))
    return ", ".join(names[:MOST_MAKERS]) + (f" and {len(names) - MOST_MAKERS} more" if names[MOST_MAKERS:] else "")
