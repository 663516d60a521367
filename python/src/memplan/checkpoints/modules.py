"""Activation checkpoints: modules for torch.utils.checkpoint, and the operators whose results they keep.

`apply` inserts checkpoints into a model and `remove` removes them. Buffers are updated once: during the second run of a module,
copies replace the buffers that its first run has written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils import checkpoint as checkpointing

from memplan.budget import in_units
from memplan.compiled_modules import eager_copy
from memplan.costs.measure import peak_of
from memplan.errors import MemplanError
from memplan.graph.capture import tensors_of
from memplan.graph.regions import NORMALIZATIONS
from memplan.torch_internals.modules import inside
from memplan.torch_internals.tensors import version_of

Counted = tuple[str, int]  # the family of an operator, and its index within a call of the module
Buffer = tuple[nn.Module, str]
Context = contextlib.AbstractContextManager[Any]


def family(operator: Any) -> str:
    """Return the name of an operator's family.

    The overloads and the in-place form of an operator belong to one family. A capture and eager PyTorch may use different
    members of a family.
    """
    name = str(getattr(operator, "overloadpacket", operator)).rpartition(".")[2]
    return "batch_norm" if "batch_norm" in name else name.rstrip("_")


class Written:
    """Finds the buffers that the first run of a module writes, and protects these buffers from writes of the second run."""

    def __init__(self, module: nn.Module) -> None:
        self.buffers = [(m, name) for m in module.modules() for name, _ in m.named_buffers(recurse=False)]
        self.written: list[Buffer] = []

    @contextlib.contextmanager
    def first(self) -> Iterator[None]:
        before = [version_of(getattr(m, name)) for m, name in self.buffers]
        yield
        for (m, name), version in zip(self.buffers, before):
            # normalization kernels update running statistics without increasing the version counter
            statistics = isinstance(m, NORMALIZATIONS) and m.training
            if statistics or version_of(getattr(m, name)) != version:
                self.written.append((m, name))

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        real = [getattr(m, name) for m, name in self.written]
        try:
            for (m, name), buffer in zip(self.written, real):
                setattr(m, name, buffer.clone())
            yield
        finally:
            for (m, name), buffer in zip(self.written, real):
                setattr(m, name, buffer)


class Both:
    """A context manager that enters two context managers, the second within the first. It may be entered several times."""

    def __init__(self, outer: Callable[[], Context], inner: Context) -> None:
        self.outer, self.inner = outer, inner
        self.entered: list[contextlib.ExitStack] = []

    def __enter__(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.outer())
            stack.enter_context(self.inner)
            self.entered.append(stack.pop_all())

    def __exit__(self, *raised: Any) -> bool | None:
        return self.entered.pop().__exit__(*raised)


def policy_function(kept: frozenset[Counted]) -> Callable[..., Any]:
    """Return the policy of one call of a module for create_selective_checkpoint_contexts.

    The policy identifies an operator by its family and by its index among the family's operators in this call.
    """
    seen: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}

    def policy(context: Any, operator: Any, *_: Any, **__: Any) -> Any:
        name, counted = family(operator), seen[context.is_recompute]
        counted[name] += 1
        keep = (name, counted[name] - 1) in kept
        return checkpointing.CheckpointPolicy.MUST_SAVE if keep else checkpointing.CheckpointPolicy.PREFER_RECOMPUTE

    return policy


def contexts(module: nn.Module, kept: frozenset[Counted]) -> tuple[Context, Context]:
    """Return the contexts that torch.utils.checkpoint enters around the first run of a module and around its recomputation."""
    written = Written(module)
    selective: tuple[Context, Context] = (contextlib.nullcontext(), contextlib.nullcontext())
    if kept:
        selective = checkpointing.create_selective_checkpoint_contexts(policy_function(kept))  # type: ignore[no-untyped-call]
    return Both(written.first, selective[0]), Both(written.again, selective[1])


def checkpointed(module: nn.Module, kept: frozenset[Counted]) -> Callable[..., Any]:
    """Return the module's forward under torch.utils.checkpoint. Without gradients, it runs unchanged."""
    forward = module.forward
    context_fn = functools.partial(contexts, module, kept)

    @functools.wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpointing.checkpoint(forward, *args, use_reentrant=False, context_fn=context_fn, **kwargs)

    run.is_checkpoint = True  # type: ignore[attr-defined]
    return run


def plain(model: Any) -> nn.Module:
    """Return the original module of a torch.compile result, or the module itself."""
    module = inside(model) or model
    if not isinstance(module, nn.Module):
        raise MemplanError(f"checkpoints can be put into a module only, not into a {type(module).__name__}")
    return module


def training_step(model: nn.Module, inputs: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Run the model's forward, and backward with gradients of ones for all outputs."""
    outputs = [t for t in tensors_of(model(*inputs, **kwargs)) if t.requires_grad]
    torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])


@dataclass
class Checkpoints:
    """Chosen checkpoints.

    Attributes:
        names: names of the modules to checkpoint.
        counted_bytes: the predicted peak of a step.
        peak_bytes: the measured peak of an eager step with these checkpoints, including static memory.
        overhead: time of recomputation as a fraction of the step, from measured operator costs.
    """

    names: list[str]
    budget_bytes: int
    counted_bytes: int
    peak_bytes: int
    eager_bytes: int  # measured peak of an eager step without checkpoints
    overhead: float
    kept: dict[str, frozenset[Counted]] = field(default_factory=dict)
    _applied: list[nn.Module] = field(default_factory=list, repr=False)

    @property
    def fits(self) -> bool:
        return self.peak_bytes <= self.budget_bytes

    def function(self, name: str) -> Callable[..., Any]:
        """Return the policy for one call of this module, for create_selective_checkpoint_contexts."""
        return policy_function(self.kept.get(name, frozenset()))

    def apply(self, model: Any) -> None:
        """Insert the checkpoints into a model."""
        if self._applied:
            raise MemplanError("these checkpoints are already in a model; call remove() first")
        module = plain(model)
        for name in self.names:
            self._applied += self.put(module, name)

    def put(self, model: nn.Module, name: str) -> list[nn.Module]:
        """Insert one checkpoint into a model. Return the modules whose `forward` was replaced."""
        found = model.get_submodule(name)
        found.forward = checkpointed(found, self.kept.get(name, frozenset()))
        return [found]

    def remove(self) -> None:
        """Remove the checkpoints."""
        for module in self._applied:
            del module.forward
        self._applied.clear()

    def measure(self, model: Any, inputs: Sequence[Any], kwargs: dict[str, Any] | None = None) -> int:
        """Return the peak of an eager step on a copy of the model with these checkpoints, beyond the memory in use before."""
        if any(hasattr(m.forward, "is_checkpoint") for m in plain(model).modules()):
            raise MemplanError("this model already contains checkpoints; call remove() first")
        copied = eager_copy(plain(model))
        copied.zero_grad(set_to_none=True)
        own = dataclasses.replace(self, _applied=[])
        own.apply(copied)
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            return peak_of(lambda: training_step(copied, inputs, kwargs or {}))

    def __str__(self) -> str:
        what = f"checkpoints around {len(self.names)} modules: {', '.join(self.names)}" if self.names else "no checkpoints"
        over = "" if self.fits else f", over the budget of {in_units(self.budget_bytes)}"
        eager = f"eager {in_units(self.eager_bytes)}"
        return f"{what}; {in_units(self.peak_bytes)} measured{over} ({eager}); extra time {self.overhead:+.1%}"
