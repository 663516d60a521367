"""Calls of an FSDP2 model: memplan disables FSDP2's hooks, and operators of the graph gather the parameters.

Calls without gradients run through FSDP2. With `set_requires_gradient_sync(False)`, memplan stores unsharded gradients in
FSDP2's own place. The next reducing step reduces all of them, whether memplan or FSDP2 runs it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from memplan.errors import MemplanError
from memplan.graph.shards import GOING, GROUPS, gathered, groups_of, local_shards, token_of
from memplan.ranks.rank_group import ALONE, RankGroup
from memplan.torch_internals import sharding
from memplan.torch_internals.sharding import Hook

NO_SYNC = (
    "FSDP2 runs this step without a plan, and also the next step that reduces gradients. This step leaves gradients"
    " unreduced in a way that memplan cannot plan: set_requires_all_reduce, set_requires_gradient_sync of some modules,"
    " tensor parallel parameters, or PyTorch before 2.15"
)


def cast(value: Any, kind: torch.dtype) -> Any:
    """Cast the floating-point tensors of a value, as FSDP2 casts the inputs of a module."""
    if isinstance(value, torch.Tensor):
        return value.to(kind) if torch.is_floating_point(value) else value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        given = {f.name: cast(getattr(value, f.name), kind) for f in dataclasses.fields(value)}
        return dataclasses.replace(value, **given)
    if isinstance(value, dict):
        return type(value)((k, cast(v, kind)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        made = [cast(v, kind) for v in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return value


class Whole(nn.Module):
    """Replaces a sharded module during a capture: calls it with gathered parameters instead of its shards."""

    def __init__(self, module: nn.Module, forward: Callable[..., Any] | None, into: Any, out: Any) -> None:
        super().__init__()
        self.module, self.own, self.into, self.out = module, forward, into, out

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.into is not None:
            args, kwargs = cast(args, self.into), cast(kwargs, self.into)
        module = self.module
        made = type(module).forward(module, *args, **kwargs) if self.own is None else self.own(*args, **kwargs)
        return made if self.out is None else cast(made, self.out)


def nothing(*_: Any) -> None:
    """Do nothing. This function replaces a hook of FSDP2."""


def casting(hook: Hook) -> Callable[..., Any]:
    """Return the replacement of an FSDP2 hook. The casts of the whole model are part of the graph."""
    into, out = hook.into, hook.out
    if hook.is_before and into is not None and not hook.is_of_whole:
        return lambda module, args, kwargs: (cast(args, into), cast(kwargs, into))
    if not hook.is_before and out is not None and not hook.is_of_whole:
        return lambda module, args, output: cast(output, out)
    return nothing


class Sharded:
    """The state of a model under FSDP2, without a reference to the model."""

    def __init__(self, module: nn.Module) -> None:
        self.groups = groups_of(module)
        among = {id(p): p for g in self.groups for p in (GROUPS[g].among, GROUPS[g].replicas) if p is not None}
        self.rank_group = RankGroup([p for p in among.values() if sharding.is_real(p)])
        hooks = sharding.hooks(module)
        self.hooks = [(hook, casting(hook)) for hook in hooks]
        self.casts = hooks[0].into, hooks[0].out
        self.is_silent = False
        self.kept_bytes = 0  # bytes of unsharded gradients

    def sums(self) -> bool | None:
        """Whether this step reduces gradients over the ranks (False: it keeps them). None: such a step cannot be planned."""
        found = {GROUPS[g].sums() for g in self.groups}
        return found.pop() if len(found) == 1 else None

    def begin_to_keep(self) -> int:
        """Permit unsharded gradients from now on. Return their bytes."""
        self.kept_bytes = sum(GROUPS[g].begin_to_keep() for g in self.groups)
        return self.kept_bytes

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Disable FSDP2's hooks except their casts, and free parameters that an evaluation left gathered."""
        self.begin()
        taken = [(hook, hook.exchange(other)) for hook, other in self.hooks]
        self.is_silent = True
        try:
            yield
        finally:
            self.is_silent = False
            for hook, was in taken:
                if was is not None:
                    hook.exchange(was)

    def aloud(self) -> contextlib.AbstractContextManager[None]:
        """Return the context of a call that runs through FSDP2 with its hooks enabled."""
        return contextlib.nullcontext()

    def begin(self) -> None:
        """Prepare for a call in which the graph, not FSDP2, gathers the parameters."""
        GOING.clear()  # removes collectives that an aborted step has left in progress
        for number in self.groups:
            GROUPS[number].give_back()

    def call(self) -> Callable[..., Any]:
        """Return the function to capture instead of the model's forward."""
        groups = list(self.groups)

        def run(whole: Whole, shards: list[list[torch.Tensor]], token: Any, *args: Any, **kwargs: Any) -> Any:
            parameters = {"module." + name: tensor for name, tensor in gathered(groups, shards, token).items()}
            return torch.func.functional_call(whole, parameters, args, kwargs)

        return run

    def arguments(self, module: nn.Module, forward: Callable[..., Any] | None) -> tuple[Any, ...]:
        """Return the arguments of the captured function that precede the model's own arguments."""
        shards = local_shards(self.groups)
        token = None if self.sums() else token_of(shards[0]).requires_grad_()
        return Whole(module, forward, *self.casts), shards, token


class KeptWhole(Sharded):
    """A pipeline stage under FSDP2. Its parameters and gradients stay gathered during the whole step.

    FSDP2 itself gathers before planned calls, and reduces when the schedule ends the step.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        # the plans of this rank do not depend on other ranks, because planned calls contain no collectives of FSDP2
        self.rank_group = ALONE
        if any(cut is not None for g in self.groups for cut in GROUPS[g].cuts):
            raise MemplanError(
                "tensor parallel and fully_shard both split this pipeline stage, but memplan plans only one of them"
                " in a pipeline"
            )
        self.give_memory_back()
        self.parts = [weakref.ref(m) for m in module.modules() if isinstance(m, sharding.kind())]

    def sums(self) -> bool | None:
        return True  # every step reduces gradients: the schedule does so after all calls of the step

    def give_memory_back(self) -> None:
        for number in self.groups:
            GROUPS[number].give_memory_back()

    @contextlib.contextmanager
    def aloud(self) -> Iterator[None]:
        yield
        self.give_memory_back()

    def begin(self) -> None:
        for part in self.parts:
            if (module := part()) is not None:
                module.unshard()
                self.give_memory_back()
        for number in self.groups:
            GROUPS[number].will_sum()

    def call(self) -> Callable[..., Any]:
        def run(whole: Whole, *args: Any, **kwargs: Any) -> Any:
            return whole(*args, **kwargs)

        return run

    def arguments(self, module: nn.Module, forward: Callable[..., Any] | None) -> tuple[Any, ...]:
        return (Whole(module, forward, *self.casts),)
