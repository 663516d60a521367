"""A case: what is run while PyTorch does not have one of its names."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from against_eager import Context, assert_like_eager, train
from torch import nn

import memplan
from memplan.costs.measure import Costs
from memplan.run import backend
from memplan.torch_internals.names import Private

Take = Callable[[Private], None]
Case = Callable[[Take, pytest.MonkeyPatch], None]
CASES: dict[str, Case] = {}


def without(*rows: Private) -> Callable[[Case], Case]:
    """The case of these names, one at a time."""

    def add(case: Case) -> Case:
        CASES.update({row.paths[0]: case for row in rows})
        return case

    return add


class Two(nn.Module):
    """A weight that is used twice, dropout, normalization and views; a loss, or what it is of."""

    def __init__(self, shows: bool = False) -> None:
        super().__init__()
        self.layer, self.norm, self.shows = nn.Linear(8, 8), nn.BatchNorm1d(8), shows

    def forward(self, x: torch.Tensor) -> Any:
        h = torch.tanh(self.layer(nn.functional.dropout(self.norm(torch.tanh(self.layer(x))), 0.2, self.training)))
        return h.t() if self.shows else h.square().mean()


def x_of() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(4, 8)


def planned(model: nn.Module, budget: str = "min+20%", **options: Any) -> Any:
    return memplan.compile(model, budget, **options)


def assert_eagers_bits() -> None:
    """Of a model with all that captures change, whose operators are measured now, and under autocast."""
    for context in (contextlib.nullcontext, lambda: torch.autocast("cpu", torch.bfloat16)):
        model = Two()
        backend.COSTS = Costs()
        assert_like_eager(model, planned(model), (x_of(),), context)
        assert model.memplan.graphs and not model.memplan.fallbacks and not backend.COSTS.failed


def assert_trains(context: Context = contextlib.nullcontext) -> None:
    """Planned steps run, and come near eager's."""
    model = Two().eval()
    eager = copy.deepcopy(model)
    for ours, theirs in zip(train(planned(model), (x_of(),), 2, context), train(eager, (x_of(),), 2, context)):
        assert torch.allclose(ours, theirs, rtol=0.02)
    assert model.memplan.graphs


def said(call: Callable[[], Any]) -> list[str]:
    """What our warnings say during a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in caught if issubclass(w.category, memplan.FallbackWarning)]
