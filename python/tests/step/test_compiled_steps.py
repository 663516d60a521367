"""Estimates of whole steps name the code that torch.compile compiled."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import memplan


@pytest.mark.parametrize("how", ["module", "in place", "function", "none"])
def test_compiled_code_is_counted_as_eager_and_named(how: str) -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(64, 192), nn.GELU(), nn.Linear(192, 64))
        optimizer = torch.optim.SGD(model.parameters())
    used: Any = torch.compile(model) if how == "module" else model
    if how == "in place":
        model.compile()
    if how == "function":
        used = torch.compile(lambda x: model(x).clone())

    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        used(x).square().mean().backward()
        optimizer.step()

    notes = memplan.estimate(step, (torch.empty(8, 64),), device="a100").notes
    assert any("torch.compile" in note for note in notes) == (how != "none")
