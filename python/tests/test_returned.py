"""What becomes of what a model returns: let go of before backward, given no gradient, or held, as the plan counts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from against_eager import peak_of_call
from torch import nn

import memplan

ROWS, WIDTH, WORDS = 64, 32, 600
Step = Callable[[Any, torch.Tensor], None]


class Logits(nn.Module):
    """Returns a loss and, beside it, much."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.Tanh(), nn.Linear(4 * WIDTH, WIDTH))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.head(self.body(x))
        return logits.log_softmax(-1)[:, 0].mean(), logits


def let_go(model: Any, x: torch.Tensor) -> None:
    loss = model(x)[0]
    loss.backward()


def held(model: Any, x: torch.Tensor) -> None:
    outputs = model(x)
    outputs[0].backward()


def used(model: Any, x: torch.Tensor) -> None:
    loss, logits = model(x)
    torch.autograd.backward([loss, logits], [torch.ones_like(loss), torch.ones_like(logits)])
    del loss  # the logits are held


def trained(model: Any, step: Step, x: torch.Tensor) -> int:
    """The peak of a step, parameters and the batch included."""
    model.zero_grad()
    static = sum(t.numel() * t.element_size() for t in [*model.parameters(), x])
    return static + peak_of_call(lambda: step(model, x))


@pytest.mark.parametrize("step", [let_go, held, used])
def test_a_step_takes_what_is_planned_however_it_uses_what_is_returned(step: Step) -> None:
    model, x = memplan.compile(Logits(), "100%", time_limit=0), torch.randn(ROWS, WIDTH)
    peaks = [trained(model, step, x) for _ in range(3)]
    assert max(peaks[1:]) <= model.memplan.planned_bytes <= 1.005 * max(peaks[1:])


def test_what_is_planned_is_the_most_of_what_was_seen() -> None:
    model, x = memplan.compile(Logits(), "100%", time_limit=0), torch.randn(ROWS, WIDTH)
    planned = []
    for step in (held, let_go, used, let_go):
        trained(model, step, x)
        planned.append(model.memplan.planned_bytes)
    assert planned[0] == planned[1] < planned[2] == planned[3] == model.memplan.graph.most_bytes
    assert "live until the end" not in str(model.memplan)


def test_the_report_says_what_was_let_go_of() -> None:
    model, x = memplan.compile(Logits(), "100%", time_limit=0), torch.randn(ROWS, WIDTH)
    loss = model(x)[0]
    assert model.memplan.planned_bytes == model.memplan.graph.most_bytes, "nothing was seen yet"
    loss.backward()
    logits = ROWS * WORDS * 4
    assert model.memplan.graph.most_bytes - model.memplan.planned_bytes == 2 * logits
    assert "live until the end" in str(model.memplan)


def test_a_loss_alone_is_not_followed() -> None:
    model = nn.Linear(WIDTH, WORDS)
    loss = memplan.compile(lambda x: model(x).square().sum(), "100%", time_limit=0)
    loss(torch.randn(ROWS, WIDTH)).backward()
    assert not loss.memplan.graph.is_seen
