"""Compiling a module in place, like torch.nn.Module.compile: object, class and names remain the same.

memplan stores its entries in the module's `__dict__` and excludes them from copies and pickles.

PyTorch calls `_compiled_call_impl` instead of the module. Hooks of the whole module then run eagerly around `forward`, and
memplan captures `forward` only. `model.forward(x)` therefore is planned, too.

No object here holds a strong reference to the module. Otherwise the module would survive until the next garbage collection.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from memplan.compiled_modules import OURS, inner, place_of
from memplan.errors import FallbackWarning, MemplanError
from memplan.run.outside_tensors import given
from memplan.run.results import Hooks
from memplan.run.sharded import NO_SYNC, KeptWhole, Sharded
from memplan.torch_internals import sharding
from memplan.torch_internals.modules import COMPILED, call, is_replica

if TYPE_CHECKING:
    from memplan.run.backend import Backend

Forward = Callable[..., Any]
Capture = Callable[[Forward, "Backend", bool], Forward]


class InPlace:
    """The compiled state of one module; PyTorch calls it instead of the module (`_compiled_call_impl`)."""

    is_memplans = True

    def __init__(self, backend: Backend, fullgraph: bool, capture: Capture) -> None:
        self.backend, self.fullgraph, self.capture = backend, fullgraph, capture
        self.module: Callable[[], nn.Module | None] = lambda: None
        self.run: Forward | None = None  # the function that dynamo captures; None: not compiled
        self.forward: Forward | None = None  # the `forward` that memplan has put into the module's `__dict__`
        self.before: dict[str, Any] = {}  # the module's own entries of the `__dict__`, which memplan has replaced
        self.hooks = Hooks()  # the memory that hooks of the whole module store
        self.sharded: Sharded | None = None  # the module's state under FSDP2, from the first call on

    def fresh(self) -> InPlace:
        """Return a new InPlace with the same compilation options and without plans, for a copy of the module."""
        return InPlace(self.backend.fresh(), self.fullgraph, self.capture)

    # ---- installing and removing

    def install(self, module: nn.Module) -> None:
        if (old := place_of(module)) is not None:
            old.remove(module)
        self.module = weakref.ref(module)
        self.backend.serve(module)
        entries = vars(module)
        self.before = {name: entries[name] for name in OURS if name in entries}
        self._compile(module)
        entries[COMPILED] = self
        entries["memplan"] = self.backend.report
        entries["__getstate__"] = self._state
        entries["__deepcopy__"] = self._deep_copy

    def can_plan_again(self, module: nn.Module, backend: Backend, fullgraph: bool) -> bool:
        """Whether new options require new plans only: the captures remain valid, and no call waits for its backward."""
        is_alike = fullgraph == self.fullgraph and type(backend) is type(self.backend) and self.backend.can_replan
        waits = self.backend.feedback.ledger.n_calls > 0
        return is_alike and not waits and module is self.module() and vars(module).get("forward") is self.forward

    def plan_again(self, module: nn.Module, backend: Backend) -> None:
        """Keep the captures, and plan them with the new backend's options at the next call."""
        self.backend.take_options(backend)
        vars(module)["memplan"] = backend.report

    def remove(self, module: nn.Module) -> dict[str, Any]:
        """Remove memplan's entries from the module and return them.

        If other code has wrapped memplan's `forward` meanwhile, the wrapper remains.
        """
        entries = vars(module)
        kept = {"forward"} if entries.get("forward") is not self.forward else set()
        taken = {name: entries.pop(name) for name in OURS if name in entries and name not in kept}
        entries.update({name: value for name, value in self.before.items() if name not in kept})
        return taken

    @contextmanager
    def out_of(self, module: nn.Module) -> Iterator[None]:
        """Restore the module as it was before compilation, within the context."""
        taken = self.remove(module)
        try:
            yield
        finally:
            vars(module).update(taken)

    def _compile(self, module: nn.Module) -> None:
        """Replace the module's current forward by a compiled one."""
        own = vars(module).get("forward")
        if own is not None and own is self.forward:
            # `forward` is memplan's own: the model was compiled before FSDP2 sharded it
            own = self.before.get("forward")

        def run(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
            return type(self).forward(self, *args, **kwargs) if own is None else own(*args, **kwargs)

        sharded = self.sharded
        if sharded is not None:
            run = sharded.call()
        run.__name__ = type(module).__name__
        # PyTorch stores captures by code object, so each module needs a code object of its own
        run.__code__ = run.__code__.replace(co_name="forward")
        self.run = run
        of_module, compiled = self.module, self.capture(run, self.backend, self.fullgraph)

        @functools.wraps(type(module).forward if own is None else own)
        def forward(*args: Any, **kwargs: Any) -> Any:
            module = of_module()
            if module is None:
                raise MemplanError("the module of this forward was deleted; keep a reference to it")
            if args and args[0] is module:
                # accelerate binds the method a second time, so that the module is also the first argument
                args = args[1:]
            if sharded is None:
                return compiled(module, *args, **kwargs)
            if not sharded.is_silent:
                return type(module).forward(module, *args, **kwargs) if own is None else own(*args, **kwargs)
            return compiled(*sharded.arguments(module, own), *args, **kwargs)

        with suppress(TypeError, ValueError):  # some forwards have no signature, for example functions written in C
            forward.__signature__ = inspect.signature(module.forward)  # type: ignore[attr-defined]
        self.forward = vars(module)["forward"] = forward

    # ---- a call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run a call of the module, which is found in the caller's frame.

        PyTorch does not pass the module, and several copies of a module may share this object.
        """
        if torch.compiler.is_compiling():  # another compiler captures this call
            module = self.module()
            assert module is not None
            return call(module, args, kwargs)
        module = sys._getframe(1).f_locals.get("self")
        if not isinstance(module, nn.Module) or vars(module).get(COMPILED) is not self:
            raise MemplanError("_compiled_call_impl belongs to another module; call the module itself")
        if module is not self.module():
            self._adopt(module)
            return module(*args, **kwargs)
        if self.sharded is None and isinstance(module, sharding.kind()):
            self.sharded = (KeptWhole if self.backend.feedback.keeps_whole else Sharded)(module)
            self.backend.rank_group = self.sharded.rank_group
            self._compile(module)
        elif self.sharded is None and not self.backend.report.graphs:
            refuse_parts(module)
        if vars(module).get("forward") is not self.forward:
            self._compile(module)
        with given((args, kwargs)), self._around():
            # if FSDP2's hooks are enabled, the memory that they allocate is not user code's
            is_wanted = self.sharded is None or self.sharded.is_silent
            with self.hooks.observed(module, is_wanted) as returned:
                result = call(module, args, kwargs)
                returned.take(result)
                return result

    def _around(self) -> AbstractContextManager[None]:
        """Return the context of a call: FSDP2's hooks are disabled for a planned call and enabled otherwise."""
        if self.sharded is None:
            return nullcontext()
        return self.sharded.silent() if self._is_planned(self.sharded) else self.sharded.aloud()

    def _is_planned(self, sharded: Sharded) -> bool:
        """Whether the present call of a sharded model is planned.

        From the first call with unsharded gradients on (set_requires_gradient_sync), plans count these gradients.
        """
        if not torch.is_grad_enabled():
            return False
        sums = sharded.sums()
        if sums is None:
            self.backend.say(NO_SYNC)
        elif not sums and not sharded.kept_bytes:
            self.backend.count(sharded.begin_to_keep())
        return sums is not None

    def _adopt(self, module: nn.Module) -> None:
        """Compile a shallow copy with plans of its own.

        DataParallel makes new replicas in each step, so replicas run eagerly with a warning.
        """
        for name in OURS:
            vars(module).pop(name, None)
        vars(module).update(self.before)
        if is_replica(module):
            sentence = (
                "memplan does not plan DataParallel, which creates new replicas in each step; use DistributedDataParallel"
            )
            warnings.warn(sentence, FallbackWarning, stacklevel=5)
        else:
            (self if self.forward is None else self.fresh()).install(module)

    # ---- copies

    def _state(self) -> Any:
        """Return the state to pickle: the state without memplan's entries. A shallow copy is compiled at its first call."""
        module = self.module()
        assert module is not None
        with self.out_of(module):
            state = type(module).__getstate__(module)  # type: ignore[no-untyped-call]
            if state is vars(module):
                state = dict(state)
        if isinstance(state, dict) and sys._getframe(1).f_code is copy.copy.__code__:
            again = self.fresh()
            state |= {COMPILED: again, "memplan": again.backend.report}
        return state

    def _deep_copy(self, memo: dict[int, Any]) -> nn.Module:
        """Return a deep copy that is compiled with the same options and has plans of its own."""
        module = self.module()
        assert module is not None
        with self.out_of(module):
            made = copy.deepcopy(module, memo)
        self.fresh().install(made)
        return made


def refuse_parts(module: nn.Module) -> None:
    """Raise MemplanError if FSDP2 shards submodules but not the module itself."""
    if any(isinstance(m, sharding.kind()) for m in module.modules()):
        raise MemplanError(
            f"FSDP shards parts of this {type(module).__name__}, but not the whole module, so the remaining"
            " gradients would not be summed; call fully_shard(model) last"
        )


def uncompile(model: Any) -> Any:
    """Restore the model as it was before memplan.compile. Compiled submodules remain compiled."""
    module = inner(model)
    if module is None or (place := place_of(module)) is None:
        raise MemplanError("memplan has not compiled this module")
    place.remove(module)
    vars(model).pop("memplan", None)
    return model
