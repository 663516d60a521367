"""Modules, optimizers and replicas: the functions that PyTorch calls around them."""

from __future__ import annotations

import re
from types import CodeType
from typing import Any

import torch
from torch import nn

from memplan.torch_internals.names import Private

COMPILED = "_compiled_call_impl"  # key in a module's `__dict__`: PyTorch calls the value under this key instead of the module
PARTS = ("_parameters", "_buffers")  # attributes under which captures name a module's tensors
OF_A_MODULE = {*PARTS, "_modules"}  # attributes of a torch.nn.Module that the search for holders of tensors skips
GLOBAL_HOOKS = re.compile(r"_global_(forward|backward)(_pre)?_hooks")


PARAMETRIZE_CACHE = Private(
    "torch.nn.utils.parametrize._cache_enabled",
    use="tells whether a call runs inside parametrize.cached",
    lost="memplan does not warn that bits differ from eager's inside parametrize.cached",
)


def parametrizations_are_cached() -> bool:
    return bool(PARAMETRIZE_CACHE.get(0))


def small_optimizer() -> torch.optim.Optimizer:
    """Return a small optimizer that has a scheduler and has made one step, to look up attributes that these create."""
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.0)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    optimizer.step()
    return optimizer


def small_replica() -> Any:
    replicate = getattr(nn.Identity(), "_replicate_for_data_parallel", nn.Identity)
    return replicate()


COMPILED_CALL = Private(
    "torch.nn.Module._compiled_call_impl",
    use="tells which module is called, including copies of a compiled module",
    lost="a shallow copy of a compiled module runs eagerly",
)
CALL = Private(
    "torch.nn.Module._call_impl",
    use="calls a compiled module with its hooks",
    instead="memplan calls the module and removes its compiled call meanwhile",
)
ALL_HOOKS = Private(
    "torch.nn.modules.module._global_forward_hooks",
    use="tells whether hooks on all modules exist",
    lost="a compiled model does not call hooks on all modules (torch.nn.modules.module.register_module_...)",
)
OWN_HOOKS, OWN_HOOKS_BEFORE = (
    Private(
        name,
        use=f"tells whether hooks run {when} the forward of a whole model",
        lost="plans omit tensors that hooks of the whole model store; count them with reserve=",
        of=nn.Identity,
    )
    for name, when in (("_forward_hooks", "after"), ("_forward_pre_hooks", "before"))
)
REPLICA = Private(
    "_is_replica",
    use="recognizes replicas of DataParallel",
    lost="a replica of DataParallel is captured again in each step",
    of=small_replica,
)
ACTIVE = Private(
    "torch.nn.parallel.DistributedDataParallel._get_active_ddp_module",
    use="tells which DDP module runs",
    lost="plans omit DDP's buckets (count them with reserve=), and graphs split at buckets are not refused",
)
OPTIMIZED = Private(
    "torch._dynamo.OptimizedModule",
    use="recognizes the result of torch.compile",
    lost="memplan treats such a model as not compiled",
)
HOOKS_BEFORE = Private(
    "_optimizer_step_pre_hooks",
    use="finds hooks that run before an optimizer's step",
    lost="TrainStep ignores such hooks without an error",
    of=small_optimizer,
)
HOOKS_BEHIND = Private(
    "_optimizer_step_post_hooks",
    use="finds hooks that run after an optimizer's step",
    lost="TrainStep ignores such hooks without an error",
    of=small_optimizer,
)
STEPPED = Private(
    "_opt_called",
    use="tells a learning-rate scheduler that the optimizer has made a step",
    lost="schedulers may warn that a TrainStep has made no optimizer step",
    of=small_optimizer,
)


def call(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a module with its hooks, bypassing its compiled call."""
    if CALL:
        return module._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]
    compiled = vars(module).pop(COMPILED)
    try:
        return module(*args, **kwargs)
    finally:
        vars(module)[COMPILED] = compiled


def code_of_call() -> CodeType | None:
    """Return the code of the frame whose variables are a module (`self`) and its arguments (`args`, `kwargs`)."""
    return CALL.get().__code__ if CALL else None


def has_hooks_on_all() -> bool:
    known = vars(nn.modules.module).items() if ALL_HOOKS else ()
    return any(value for name, value in known if GLOBAL_HOOKS.fullmatch(name))


def has_own_hooks(module: nn.Module) -> bool:
    """Whether hooks of the module itself run before or after its forward."""
    return bool((OWN_HOOKS and module._forward_hooks) or (OWN_HOOKS_BEFORE and module._forward_pre_hooks))


def is_replica(module: nn.Module) -> bool:
    """Whether DataParallel has made this module for one step."""
    return bool(REPLICA) and bool(getattr(module, "_is_replica", False))


def active_replica() -> Any:
    """Return the DDP module whose forward is running, or None."""
    return ACTIVE() if ACTIVE else None


def inside(model: Any) -> nn.Module | None:
    """Return the module inside of a result of torch.compile, or None for other modules."""
    made_by_compile = OPTIMIZED.get()
    return next(model.children()) if made_by_compile is not None and isinstance(model, made_by_compile) else None


def has_step_hooks(optimizer: torch.optim.Optimizer) -> bool:
    hooks: list[Any] = []
    hooks += [optimizer._optimizer_step_pre_hooks] if HOOKS_BEFORE else []
    hooks += [optimizer._optimizer_step_post_hooks] if HOOKS_BEHIND else []
    return any(hooks)


def note_step(optimizer: Any) -> None:
    """Tell learning-rate schedulers that the optimizer has made a step."""
    if STEPPED:
        optimizer._opt_called = True
