"""A copy of an optimizer whose steps do not change the user's objects."""

from __future__ import annotations

import contextlib
import copy
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

import torch
from torch import nn

HOOKS = "hooks"  # end of attribute names under which optimizers store the user's hooks
Made = Callable[[torch.Tensor], torch.Tensor]


class Copy:
    """A copy of an optimizer and of optimizers within it, with groups, state and attributes.

    Args:
        like: the optimizer.
        local: returns this rank's local tensor of a parameter.
        make: makes a tensor of the layout of another.
        groups: replaces the optimizer's groups, for parameters without state.

    Raises:
        TypeError: the optimizer refers to a module, so that a step of the copy could change the user's parameters.
    """

    def __init__(
        self, like: torch.optim.Optimizer, local: Made, make: Made, groups: list[dict[str, Any]] | None = None
    ) -> None:
        self.local, self.make = local, make
        self.parameters: list[torch.Tensor] = []
        self.optimizers: list[torch.optim.Optimizer] = []
        self.known: dict[int, Any] = {}
        self.alive: list[Any] = []  # references that keep the copied objects alive, so that their ids stay unique
        self.groups = groups
        for group in groups if groups is not None else like.param_groups:
            for p in group["params"]:
                self._parameter(p)
        self.optimizer: torch.optim.Optimizer = self._optimizer(like)

    @property
    def trained(self) -> list[torch.Tensor]:
        return [p for p in self.parameters if p.requires_grad]

    def kept(self, tensors_in: Callable[[Any], Iterator[torch.Tensor]]) -> Iterator[torch.Tensor]:
        """Yield the tensors in the states of all copied optimizers. `tensors_in` yields the tensors in a dictionary."""
        for optimizer in self.optimizers:
            yield from tensors_in(dict(optimizer.state))

    def _remember(self, value: Any, made: Any) -> Any:
        self.known[id(value)] = made
        self.alive.append(value)
        return made

    def _parameter(self, p: torch.Tensor) -> torch.Tensor:
        if id(p) in self.known:
            found: torch.Tensor = self.known[id(p)]
            return found
        made = self._remember(p, nn.Parameter(self.make(self.local(p).detach()), requires_grad=p.requires_grad))
        self.parameters.append(made)
        for name, value in vars(p).items():
            setattr(made, name, self._of(value))
        return made  # type: ignore[no-any-return]

    def _optimizer(self, like: torch.optim.Optimizer) -> torch.optim.Optimizer:
        made: Any = self._remember(like, object.__new__(type(like)))
        is_first = not self.optimizers
        self.optimizers.append(made)
        for name, value in vars(like).items():
            if name == "step":  # an attribute `step` is a wrapper that a scheduler or a framework has added
                continue
            if name == "param_groups" and is_first and self.groups is not None:
                made.param_groups = self._remember(value, [self._of(group) for group in self.groups])
            elif name == "state" and self.groups is not None:
                made.state = self._remember(value, defaultdict(dict))
            elif name == "state":
                made.state = self._state(value)
            else:
                setattr(made, name, type(value)() if name.endswith(HOOKS) and isinstance(value, dict) else self._of(value))
        return made  # type: ignore[no-any-return]

    def _state(self, state: Any) -> Any:
        if id(state) in self.known:
            return self.known[id(state)]
        made = self._remember(state, defaultdict(dict))
        for key, value in state.items():
            if isinstance(key, torch.Tensor):
                own = self.local(key)
                made[self._parameter(key)] = self._of(value, {tuple(key.shape): own} if own is not key else {})
            else:
                made[key] = self._of(value)
        return made

    def _of(self, value: Any, instead: Any = None) -> Any:
        """Return a copy of a value. `instead`: replacements for tensors, by shape."""
        if id(value) in self.known:
            made = self.known[id(value)]
        elif isinstance(value, nn.Parameter):
            made = self._parameter(value)
        elif isinstance(value, torch.Tensor):
            like = (instead or {}).get(tuple(value.shape))
            made = self._remember(value, self.make(value.detach() if like is None else like.detach().to(value.dtype)))
        elif isinstance(value, torch.optim.Optimizer):
            made = self._optimizer(value)
        elif isinstance(value, nn.Module):
            raise TypeError(f"its state contains a {type(value).__name__}")
        elif isinstance(value, (dict, list)):
            made = self._filled(value, instead)
        elif type(value) in (tuple, set, frozenset):
            made = type(value)(self._of(v, instead) for v in value)
        elif isinstance(value, torch.Generator):
            made = self._remember(value, torch.Generator(value.device))
        elif isinstance(value, MethodType):
            made = MethodType(value.__func__, self._of(value.__self__))
        else:
            made = value
            with contextlib.suppress(Exception):  # some objects cannot be copied
                made = self._remember(value, copy.deepcopy(value, dict(self.known)))
        return made

    def _filled(self, value: Any, instead: Any) -> Any:
        """Copy a dictionary or list, which may contain itself."""
        made = self._remember(value, copy.copy(value))
        made.clear()
        if isinstance(value, list):
            made.extend(self._of(v, instead) for v in value)
        else:
            made.update({self._of(k): self._of(v, instead) for k, v in value.items()})
        return made
