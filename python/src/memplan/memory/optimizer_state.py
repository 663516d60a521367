"""The bytes that an optimizer keeps between steps, found by a step of a copy of it.

The copy has parameters of the real shapes, types and devices, but no memory (PyTorch's fake tensors). If a step needs values,
such as a norm in a condition, the copy runs on small numbers on the CPU instead. If all parameters together are too large for
the CPU, the copy runs on one shape after the other.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from memplan.errors import MemplanError
from memplan.memory.optimizer_copy import Copy
from memplan.torch_internals.capture import all_eager, aot_settings
from memplan.torch_internals.dispatch import without_memory
from memplan.torch_internals.sharding import here

MOST_REAL_NUMBERS = 2**24  # maximum number of elements for a step on the CPU
REMEDY = "omit optimizer=, and count its state with reserve="
Gradient = Callable[[torch.Tensor], torch.Tensor]


def optimizer_bytes(optimizer: torch.optim.Optimizer, instead: Mapping[int, Any] | None = None) -> int:
    """Returns the bytes of all tensors that an optimizer keeps between steps, step counters included.

    If all trained parameters have state, it is counted as it is. Otherwise the optimizer runs a step on a copy.

    Args:
        optimizer: the optimizer, or a framework's wrapper around it (accelerate, Lightning).
        instead: replacements of parameters, by the ids of the originals.

    Raises:
        MemplanError: the step needs arguments, or it fails on the copy.
    """
    while isinstance(within := getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
        optimizer = within
    trained = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    if not instead and all(any(True for _ in tensors_in(optimizer.state.get(p, {}))) for p in trained):
        return unique_bytes(tensors_in(dict(optimizer.state)))
    return stepped_bytes(optimizer, lambda p: here((instead or {}).get(id(p), p)))


def state_bytes(optimizer: torch.optim.Optimizer, groups: list[dict[str, Any]]) -> int:
    """Returns the bytes that this optimizer would keep for the parameters in the given groups."""
    return stepped_bytes(optimizer, here, groups)


def stepped_bytes(
    optimizer: torch.optim.Optimizer,
    local: Callable[[torch.Tensor], torch.Tensor],
    groups: list[dict[str, Any]] | None = None,
) -> int:
    """Returns the bytes that a copy of the optimizer keeps after a step. `local`: returns a parameter's tensor on this rank."""
    given = groups if groups is not None else optimizer.param_groups
    sizes = [local(p).numel() for group in given for p in group["params"] if p.requires_grad]
    if not sizes:
        return 0
    need_no_arguments(optimizer)
    ways = itertools.product((groups, given), (plain, with_graph), (False, True))
    for of_groups, gradient, needs_closure in ways:
        # each way of making a step uses a new copy, because an aborted step may have left incomplete state
        with contextlib.suppress(Exception), without_values():
            return kept_by(Copy(optimizer, local, torch.empty_like, of_groups), gradient, needs_closure)
    if sum(sizes) <= MOST_REAL_NUMBERS:
        return real_bytes(optimizer, local, groups)
    return bytes_of_shapes(optimizer, local, given)


def bytes_of_shapes(
    optimizer: torch.optim.Optimizer, local: Callable[[torch.Tensor], torch.Tensor], groups: list[dict[str, Any]]
) -> int:
    """Return the bytes that the optimizer keeps, from a step of a copy per parameter. Equal parameters share one step."""
    known: dict[Any, int] = {}
    total = 0
    for group in groups:
        for p in group["params"]:
            own = local(p)
            if not p.requires_grad:
                continue
            if own.numel() > MOST_REAL_NUMBERS:
                name = type(optimizer).__name__
                raise MemplanError(
                    f"optimizer={name}: its step on {own.numel():,} numbers cannot run on the meta device; {REMEDY}"
                )
            key = (id(group), tuple(own.shape), own.dtype)
            if key not in known:
                known[key] = real_bytes(optimizer, local, [{**group, "params": [p]}])
            total += known[key]
    return total


def real_bytes(
    optimizer: torch.optim.Optimizer,
    local: Callable[[torch.Tensor], torch.Tensor],
    groups: list[dict[str, Any]] | None,
) -> int:
    """Returns the bytes that a copy of the optimizer keeps after a step with real numbers on the CPU.

    Raises MemplanError if the step fails.
    """
    first: Exception | None = None
    for gradient in (plain, with_graph, sparse):
        try:
            with all_eager(), torch.random.fork_rng(devices=[]), torch.enable_grad():
                return kept_by(Copy(optimizer, local, small_numbers, groups), gradient, False)
        except Exception as error:
            first = first or error
    raise MemplanError(
        f"optimizer={type(optimizer).__name__}: its step fails on a copy ({type(first).__name__}: {first}); {REMEDY}"
    ) from first


@contextlib.contextmanager
def without_values() -> Iterator[None]:
    """Create tensors without memory within the context. Access to their address raises an error."""
    with (
        aot_settings(fake_tensor_allow_unsafe_data_ptr_access=False),
        all_eager(),  # steps run uncompiled, because compiled code would access the memory of tensors that have none
        torch.enable_grad(),
        without_memory(),
    ):
        yield


def small_numbers(like: torch.Tensor) -> torch.Tensor:
    """Return numbers between 0.01 and 0.07, with which no optimizer considers itself converged."""
    numbers = torch.arange(like.numel()).remainder(7).add(1)
    made: torch.Tensor = (numbers * 0.01 if like.dtype.is_floating_point else numbers).to(like.dtype).reshape(like.shape)
    return made


# Functions that make a gradient from a tensor of the parameter's shape.


def plain(p: torch.Tensor) -> torch.Tensor:
    return p.detach().clone()


def with_graph(p: torch.Tensor) -> torch.Tensor:
    """Return a gradient with an autograd graph, for steps that differentiate gradients."""
    return p * p


def sparse(p: torch.Tensor) -> torch.Tensor:
    return p.detach().clone().to_sparse(1)


def kept_by(copy: Copy, gradient: Gradient, needs_closure: bool) -> int:
    """Returns the bytes that a copied optimizer keeps after a step. `needs_closure`: the step recomputes loss and gradients."""

    def again() -> torch.Tensor:
        for p in copy.trained:
            p.grad = gradient(p)
        return torch.zeros(())

    again()
    step: Any = type(copy.optimizer).step
    if needs_closure:
        step(copy.optimizer, again)
    else:
        step(copy.optimizer)
    given = {id(t) for p in copy.parameters for t in (p, p.grad)}
    return unique_bytes(t for t in copy.kept(tensors_in) if id(t) not in given)


def need_no_arguments(optimizer: torch.optim.Optimizer) -> None:
    """Raise MemplanError if the optimizer's step requires arguments such as a closure."""
    name, step = type(optimizer).__name__, inspect.signature(type(optimizer).step)
    needed = [p for p in list(step.parameters.values())[1:] if p.default is p.empty and p.kind < p.VAR_POSITIONAL]
    needed += [p for p in step.parameters.values() if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if needed:
        words = ", ".join(p.name for p in needed)
        raise MemplanError(f"optimizer={name}: its step needs {words}, so its state is unknown before training; {REMEDY}")


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield all tensors in a nested value: in dictionaries (values only), lists, tuples and sets."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple, set)):
        for item in value:
            yield from tensors_in(item)


def unique_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of the tensors' elements. Each tensor counts once."""
    found = {id(t): here(t) for t in tensors}
    return sum(t.numel() * t.element_size() for t in found.values())
