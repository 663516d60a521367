"""The bytes that an optimizer keeps between steps, found by a step of a copy of it.

The copy has parameters of the real shapes, types and devices, without memory (PyTorch's fake tensors). If a step needs values
(a norm that decides, a number taken out of a tensor), the copy runs on zeros on the CPU instead, one shape after the other.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from memplan.errors import MemplanError
from memplan.torch_internals.dispatch import without_memory
from memplan.torch_internals.sharding import here

MOST_REAL_NUMBERS = 2**24  # of a parameter with which a step is run on the CPU
REMEDY = "leave optimizer= out and count its state with reserve="


def optimizer_bytes(optimizer: torch.optim.Optimizer, instead: Mapping[int, Any] | None = None) -> int:
    """Returns the bytes of all tensors that an optimizer keeps between steps, step counters included.

    State that exists is counted as it is. For parameters without state the optimizer runs a step on a copy.

    Args:
        optimizer: the optimizer, or a framework's wrapper around it (accelerate, Lightning).
        instead: parameters in the place of others, by the ids of those.

    Raises:
        MemplanError: the step needs arguments, or it fails on the copy.
    """
    while isinstance(within := getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
        optimizer = within
    fresh = [
        {**group, "params": [(instead or {}).get(id(p), p) for p in group["params"] if not optimizer.state.get(p)]}
        for group in optimizer.param_groups
    ]
    return unique_bytes(tensors_in(dict(optimizer.state))) + state_bytes(optimizer, [g for g in fresh if g["params"]])


def state_bytes(optimizer: torch.optim.Optimizer, groups: list[dict[str, Any]]) -> int:
    """Returns the bytes that an optimizer of this class keeps for parameters of these groups that are trained."""
    groups = [{**g, "params": [here(p) for p in g["params"] if p.requires_grad]} for g in groups]
    groups = [g for g in groups if g["params"]]
    if not groups:
        return 0
    need_no_arguments(optimizer)
    try:
        with without_memory():
            return kept_by(optimizer, groups, torch.empty_like)
    except Exception:  # it needs values
        return state_bytes_of_zeros(optimizer, groups)


def state_bytes_of_zeros(optimizer: torch.optim.Optimizer, groups: list[dict[str, Any]]) -> int:
    known: dict[Any, int] = {}
    total = 0
    for group in groups:
        for p in group["params"]:
            key = (id(group), tuple(p.shape), p.dtype)
            if key not in known:
                known[key] = bytes_of_zeros(optimizer, group, p)
            total += known[key]
    return total


def bytes_of_zeros(optimizer: torch.optim.Optimizer, group: dict[str, Any], p: torch.Tensor) -> int:
    name = type(optimizer).__name__
    if p.numel() > MOST_REAL_NUMBERS:
        raise MemplanError(f"optimizer={name}: its step on {p.numel():,} numbers cannot be run without memory; {REMEDY}")
    try:
        return kept_by(optimizer, [{**group, "params": [p]}], zeros_here)
    except Exception as error:
        raise MemplanError(f"optimizer={name}: its step fails on a copy ({type(error).__name__}: {error}); {REMEDY}") from error


def zeros_here(p: torch.Tensor) -> torch.Tensor:
    return torch.zeros(p.shape, dtype=p.dtype)


def kept_by(
    optimizer: torch.optim.Optimizer, groups: list[dict[str, Any]], make: Callable[[torch.Tensor], torch.Tensor]
) -> int:
    """Returns the bytes that a copy of the optimizer keeps after a step on parameters that `make` makes."""
    made = []
    for group in groups:
        params = [torch.nn.Parameter(make(p.detach())) for p in group["params"]]
        for p in params:
            p.grad = make(p.detach())
        made.append({**group, "params": params})
    copy = of_same_class(optimizer, made)
    given = {id(t) for group in made for p in group["params"] for t in (p, p.grad)}
    type(optimizer).step(copy)
    return unique_bytes(t for t in tensors_in(dict(copy.state)) if id(t) not in given)


def of_same_class(optimizer: torch.optim.Optimizer, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    """Returns a new optimizer of the class, with these groups and the defaults of the other one."""
    kind: Any = type(optimizer)
    takes = inspect.signature(kind).parameters
    options = {k: v for k, v in optimizer.defaults.items() if k in takes and k != "params"}
    new: torch.optim.Optimizer = kind(groups, **options)
    return new


def need_no_arguments(optimizer: torch.optim.Optimizer) -> None:
    """MemplanError: the optimizer's step needs a closure, or is none of PyTorch's kind."""
    name, step = type(optimizer).__name__, inspect.signature(type(optimizer).step)
    needed = [p for p in list(step.parameters.values())[1:] if p.default is p.empty and p.kind < p.VAR_POSITIONAL]
    needed += [p for p in step.parameters.values() if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if needed:
        words = ", ".join(p.name for p in needed)
        raise MemplanError(f"optimizer={name}: its step needs {words}, so its state cannot be found before training; {REMEDY}")


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in dictionaries, lists, tuples and sets, and not the keys of dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple, set)):
        for item in value:
            yield from tensors_in(item)


def unique_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """The bytes of the tensors' elements, of each tensor once."""
    found = {id(t): here(t) for t in tensors}
    return sum(t.numel() * t.element_size() for t in found.values())
