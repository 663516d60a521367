"""A call of a model that FSDP2 has sharded: its hooks are silent, and its parameters are gathered by operators of the graph.

What runs without gradients runs as FSDP2 runs it. Where gradients stay whole (`set_requires_gradient_sync(False)`), they are
where FSDP2 would have them, and the step that sums, whoever runs it, sums all.
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
from memplan.run.together import ALONE, Together
from memplan.torch_internals import sharding
from memplan.torch_internals.sharding import Hook

NO_SYNC = (
    "gradients of this step are summed in part (set_requires_all_reduce, or set_requires_gradient_sync of some modules), or"
    " stay whole where that is not known of (parameters cut by tensor parallel, PyTorch before 2.15): such steps run as FSDP2"
    " runs them, without a plan, and so does the one that then sums"
)


def cast(value: Any, kind: torch.dtype) -> Any:
    """Its floating-point tensors in this type, as FSDP2 casts what goes into a module."""
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
    """A sharded model that is called with its parameters whole."""

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
    """A hook."""


def casting(hook: Hook) -> Callable[..., Any]:
    """The hook that is in the place of FSDP2's; the whole model's casts are made in the graph."""
    into, out = hook.into, hook.out
    if hook.is_before and into is not None and not hook.is_of_whole:
        return lambda module, args, kwargs: (cast(args, into), cast(kwargs, into))
    if not hook.is_before and out is not None and not hook.is_of_whole:
        return lambda module, args, output: cast(output, out)
    return nothing


class Sharded:
    """What FSDP2 has made of a model. It does not keep the model."""

    def __init__(self, module: nn.Module) -> None:
        self.groups = groups_of(module)
        among = {id(p): p for g in self.groups for p in (GROUPS[g].among, GROUPS[g].replicas) if p is not None}
        self.together = Together([p for p in among.values() if sharding.is_real(p)])
        hooks = sharding.hooks(module)
        self.hooks = [(hook, casting(hook)) for hook in hooks]
        self.casts = hooks[0].into, hooks[0].out
        self.is_silent = False
        self.kept_bytes = 0  # gradients that stay whole may take so much

    def sums(self) -> bool | None:
        """Whether this step's gradients are summed over the ranks, or stay whole. None: it cannot be planned."""
        found = {GROUPS[g].sums() for g in self.groups}
        return found.pop() if len(found) == 1 else None

    def begin_to_keep(self) -> int:
        """From the first step on whose gradients stay whole: what these may take."""
        self.kept_bytes = sum(GROUPS[g].begin_to_keep() for g in self.groups)
        return self.kept_bytes

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """FSDP2's hooks do nothing, but for the casts that they make, and no parameter is whole from an evaluation before."""
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
        """A call that FSDP2 runs."""
        return contextlib.nullcontext()

    def begin(self) -> None:
        """A call, which gathers what it reads."""
        GOING.clear()  # of a step that was broken off
        for number in self.groups:
            GROUPS[number].give_back()

    def call(self) -> Callable[..., Any]:
        """What is captured in the place of the model's forward."""
        groups = list(self.groups)

        def run(whole: Whole, shards: list[list[torch.Tensor]], token: Any, *args: Any, **kwargs: Any) -> Any:
            parameters = {"module." + name: tensor for name, tensor in gathered(groups, shards, token).items()}
            return torch.func.functional_call(whole, parameters, args, kwargs)

        return run

    def arguments(self, module: nn.Module, forward: Callable[..., Any] | None) -> tuple[Any, ...]:
        """What that is called with beside the model's own arguments."""
        shards = local_shards(self.groups)
        token = None if self.sums() else token_of(shards[0]).requires_grad_()
        return Whole(module, forward, *self.casts), shards, token


class KeptWhole(Sharded):
    """A stage of a pipeline. Its parameters are whole from the first micro-batch of a step on, as the schedule has them, and so
    are their gradients: FSDP2 itself gathers before the calls that are planned, and sums when the schedule ends the step."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        self.together = ALONE  # nothing in a call waits for other ranks
        if any(cut is not None for g in self.groups for cut in GROUPS[g].cuts):
            raise MemplanError(
                "this stage of a pipeline is sharded by fully_shard, and tensor parallel has cut its parameters before: memplan"
                " plans one of the two in a pipeline"
            )
        self.give_memory_back()
        self.parts = [weakref.ref(m) for m in module.modules() if isinstance(m, sharding.kind())]

    def sums(self) -> bool | None:
        return True  # behind all calls

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
