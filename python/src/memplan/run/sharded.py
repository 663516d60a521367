"""A call of a model that FSDP2 has sharded: its hooks are silent, and its parameters are gathered by operators of the graph.

What runs without gradients, and steps whose gradients stay whole (`set_requires_gradient_sync(False)`), run as FSDP2 runs them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from memplan.graph.shards import GROUPS, gathered, groups_of, local_shards, root_state
from memplan.run.together import Together

NO_SYNC = "set_requires_gradient_sync(False): gradients stay whole in such a step, which runs as FSDP2 runs it, without a plan"


def cast(value: Any, kind: torch.dtype) -> Any:
    """Its floating-point tensors in this type, as FSDP2 casts what goes into a module."""

    def one(x: Any) -> Any:
        return x.to(kind) if isinstance(x, torch.Tensor) and torch.is_floating_point(x) else x

    return tree_map(one, value)


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


class Sharded:
    """What FSDP2 has made of a model. It does not keep the model."""

    def __init__(self, module: nn.Module) -> None:
        self.groups = groups_of(module)
        states = root_state(module)._state_ctx.all_states
        first = GROUPS[self.groups[0]] if self.groups else None
        among = [] if first is None else [first.among, *([first.replicas] if first.replicas is not None else [])]
        self.together = Together([g for g in among if torch.distributed.get_world_size(g) > 1])
        self.casts = casts_of(states[0])  # of the whole, which are made in the graph
        self.hooks = [
            (handle, nothing if state is states[0] else casting(state, is_before))
            for state in states
            for handle, is_before in handles(state)
        ]
        self.is_silent = False

    def sums(self) -> bool:
        """Whether this step's gradients are summed over the ranks."""
        return all(GROUPS[g].state.reduce_grads and GROUPS[g].state.all_reduce_grads for g in self.groups)

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """FSDP2's hooks do nothing, but for the casts that they make, and no parameter is whole from an evaluation before."""
        for number in self.groups:
            if GROUPS[number].state.is_unsharded:
                GROUPS[number].state.reshard()
        taken = []
        for handle, other in self.hooks:
            hooks = handle.hooks_dict_ref()
            if hooks is not None and handle.id in hooks:
                taken.append((hooks, handle.id, hooks[handle.id]))
                hooks[handle.id] = other
        self.is_silent = True
        try:
            yield
        finally:
            self.is_silent = False
            for hooks, number, hook in taken:
                hooks[number] = hook

    def call(self) -> Callable[..., Any]:
        """What is captured in the place of the model's forward."""
        groups = list(self.groups)

        def run(whole: Whole, shards: list[list[torch.Tensor]], *args: Any, **kwargs: Any) -> Any:
            parameters = {"module." + name: tensor for name, tensor in gathered(groups, shards).items()}
            return torch.func.functional_call(whole, parameters, args, kwargs)

        return run

    def arguments(self, module: nn.Module, forward: Callable[..., Any] | None) -> tuple[Whole, list[list[torch.Tensor]]]:
        """What that is called with beside the model's own arguments."""
        return Whole(module, forward, *self.casts), local_shards(self.groups)


def handles(state: Any) -> list[tuple[Any, bool]]:
    """Of the hooks of one of FSDP2's states, and which of them come before forward."""
    before, after = state._pre_forward_hook_handle, state._post_forward_hook_handle
    if (several := getattr(before, "handles", None)) is None:
        return [(before, True), (after, False)]
    return [(handle, k < len(several) // 2) for k, handle in enumerate(several)]  # of modules that are gathered together


def casts_of(state: Any) -> tuple[Any, Any]:
    """The types to which what goes into a module, and what comes out, is cast; None: as it is."""
    policy = state._mp_policy
    return policy.param_dtype if policy.cast_forward_inputs else None, policy.output_dtype


def nothing(*_: Any) -> None:
    """A hook."""


def casting(state: Any, is_before: bool) -> Callable[..., Any]:
    """The hook that is in the place of FSDP2's."""
    into, out = casts_of(state)
    if is_before and into is not None:
        return lambda module, args, kwargs: (cast(args, into), cast(kwargs, into))
    if not is_before and out is not None:
        return lambda module, args, output: cast(output, out)
    return nothing
