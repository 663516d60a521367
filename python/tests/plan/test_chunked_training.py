"""Trainings with AdamW in chunks of rows. Oracles: the same chunks with everything kept (bits), eager PyTorch (rounding)."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from against_eager import eager_copy
from published import PUBLISHED, published

import memplan

STEPS = 20
BUDGETS = ("100%", "floor+60%", "floor+30%", "min")
ROUNDING = 1e-5  # largest difference of a gradient from eager's, relative to the largest gradient of the network
OF_LOSSES = 1e-4  # largest relative difference of a loss from eager's within 20 steps
WITH_DROPOUT = "T5ForConditionalGeneration"  # has dropout between the products of its MLPs, so the MLPs stay whole


def train(model: Any, given: tuple[Any, ...]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return the gradients of the first step, and the losses of all steps with the final parameters."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses, gradients = list[torch.Tensor](), list[torch.Tensor]()
    for step in range(STEPS):
        torch.manual_seed(step)
        loss = model(*given)
        loss.backward()
        losses.append(loss.detach().clone())
        if step == 0:
            gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        optimizer.step()
        optimizer.zero_grad()
    return gradients, [*losses, *(p.detach().clone() for p in model.parameters())]


@pytest.mark.parametrize("name", PUBLISHED)
def test_twenty_steps(name: str) -> None:
    """Losses, gradients and parameters are those of the same chunks kept. Measured peaks are the planned ones."""
    chunks = {"head": 4} if name == WITH_DROPOUT else {"head": 4, "mlp": 2}
    kept: tuple[list[torch.Tensor], list[torch.Tensor]] | None = None
    for budget in BUDGETS:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model, given = published(name)
        eager = eager_copy(model)
        compiled = memplan.compile(model, budget, chunks=chunks, effort="quick", verify=budget == "100%")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gradients, others = train(compiled, given)
        report = compiled.memplan
        assert report.graph.chunks.option() == chunks and not report.fallbacks
        assert report.measure(lambda model=compiled, given=given: model(*given).backward()) == report.planned_bytes
        if kept is None:
            kept = gradients, others
            assert_near_eager(eager, given, kept)
            (note,) = (n for n in report.graph.notes if n.startswith("verified"))
            assert "eager's bits are in: output 0" in note
        assert all(map(torch.equal, gradients, kept[0])), budget
        assert all(map(torch.equal, others, kept[1])), budget


def assert_near_eager(eager: Any, given: tuple[Any, ...], found: tuple[list[torch.Tensor], list[torch.Tensor]]) -> None:
    gradients, others = train(eager, given)
    largest = max(float(g.abs().max()) for g in gradients)
    assert all(float((a - b).abs().max()) < ROUNDING * largest for a, b in zip(found[0], gradients, strict=True))
    losses = torch.stack(found[1][:STEPS]), torch.stack(others[:STEPS])
    assert float(((losses[0] - losses[1]) / losses[1]).abs().max()) < OF_LOSSES
    assert losses[0][-1] < losses[0][0]
