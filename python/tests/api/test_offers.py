"""Whatever number is offered is found when it is asked for, however long operators take then."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import networks
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import memplan
from memplan.costs.measure import Cost, Costs
from memplan.run import backend


class Perceptron(nn.Module):
    """Wide layers, with the loss inside."""

    def __init__(self, widths: list[int], activation: Callable[[], nn.Module]) -> None:
        super().__init__()
        pairs = [(nn.Linear(a, b), activation()) for a, b in itertools.pairwise(widths)]
        self.layers = nn.Sequential(*[module for pair in pairs for module in pair][:-1])

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(self.layers(x), y)


class Recommender(nn.Module):
    """As DLRM: tables, a network below, products of every pair, a network above."""

    def __init__(self, tables: int, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(50, width, mode="sum") for _ in range(tables))
        self.below = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, width), nn.ReLU())
        self.above = nn.Sequential(nn.Linear(width + (tables + 1) * tables // 2, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x: torch.Tensor, words: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        dense = self.below(x)
        all_of_them = torch.stack([dense, *(t(words[:, i : i + 1]) for i, t in enumerate(self.tables))], 1)
        products = all_of_them @ all_of_them.transpose(1, 2)
        i, j = torch.tril_indices(products.shape[1], products.shape[1], -1)
        z = self.above(torch.cat([dense, products[:, i, j]], 1))
        return F.binary_cross_entropy_with_logits(z.squeeze(1), y)


def make(name: str) -> tuple[nn.Module, tuple[Any, ...]]:
    torch.manual_seed(0)
    if name == "wide":
        return Perceptron([32, 512, 512, 512, 10], nn.Tanh), (torch.randn(64, 32), torch.randn(64, 10))
    if name == "narrowing":
        return Perceptron([256, 128, 64, 32, 16], nn.Tanh), (torch.randn(128, 256), torch.randn(128, 16))
    if name == "recommender":
        return Recommender(4, 32), (torch.randn(128, 13), torch.randint(0, 50, (128, 4)), torch.rand(128))
    return networks.make(name)


def planned(name: str, budget: Any, **options: Any) -> memplan.Report:
    torch._dynamo.reset()
    model, inputs = make(name)
    return memplan.estimate(model, inputs, budget=budget, cache="off", **options)


class Scrambled(Costs):
    """Costs whose seconds are others each time."""

    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def measure(self, sources: Iterable[Any], kept: Any, *_: Any) -> dict[Any, Cost]:
        self.n += 1
        known = COSTS.measure(sources, kept)
        return {s: replace(c, seconds=1e-6 * (1 + (7919 * k * self.n) % 101)) for k, (s, c) in enumerate(known.items())}


COSTS = backend.COSTS


@pytest.mark.parametrize("name", ["wide", "narrowing", "recommender", "tied", "unet"])
def test_what_is_offered_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "COSTS", Scrambled())
    with pytest.raises(memplan.BudgetError) as caught:
        planned(name, 1)
    offered = caught.value.smallest_bytes
    for budget in (offered, "min", "floor", "min+0%"):
        report = planned(name, budget)
        assert report.planned_bytes <= report.budget_bytes == offered
    assert planned(name, 1, on_infeasible="smallest").planned_bytes <= offered


@pytest.mark.parametrize("name", ["wide", "narrowing", "recommender", "tied"])
def test_relative_budgets_count_from_what_can_be_reached(name: str) -> None:
    least = planned(name, "min").budget_bytes
    for share in (5, 50):
        report = planned(name, f"floor+{share}%")
        assert report.budget_bytes == least + int(max(0, report.keep_all_bytes - least) * share / 100)
        assert report.floor_bytes <= report.planned_bytes <= report.budget_bytes
