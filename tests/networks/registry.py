"""registry.py - the table of networks by name, and the functions that make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass
class Network:
    """A module in training mode and the tensors of one call of it, which are the inputs of its file."""

    module: torch.nn.Module
    inputs: tuple[torch.Tensor, ...]


networks: dict[str, Callable[[], Network]] = {}


def network(name: str) -> Callable[[Callable[[], Network]], Callable[[], Network]]:
    """Enters the function that makes a network."""

    def enter(make: Callable[[], Network]) -> Callable[[], Network]:
        networks[name] = make
        return make

    return enter


class Called(torch.nn.Module):
    """A model of keywords as one of positions, of whose answer a part is the output."""

    def __init__(self, model: torch.nn.Module, keywords: tuple[str, ...], part: str) -> None:
        super().__init__()
        self.m, self.keywords, self.part = model, keywords, part

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        answer = self.m(**dict(zip(self.keywords, inputs)))
        return answer[self.part] if self.part else answer


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def ids(below: int, *shape: int) -> torch.Tensor:
    return torch.randint(below, shape)


def open_mask(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.long)
