"""Losses that other libraries compute in chunks. Oracles: eager PyTorch and the events of its memory tracker."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import memplan
from memplan.costs.measure import peak_of
from memplan.step.eager_step import recorded_step

WORDS, WIDTH, ROWS, N = 301, 16, 64, 4


def chunk_loss(x: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy((x @ weight.t()).float(), labels, reduction="sum") / ROWS


class Fused(torch.autograd.Function):
    """Gradients are computed by hand in forward, as by Liger's fused linear cross-entropy."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        of_x, of_weight, loss = torch.empty_like(x), torch.zeros_like(weight), torch.zeros(())
        for k in range(N):
            rows = slice(k * ROWS // N, (k + 1) * ROWS // N)
            shares = torch.softmax((x[rows] @ weight.t()).float(), -1)
            loss = loss - torch.log(shares.gather(1, labels[rows, None])).sum()
            gradient = shares.scatter_add(1, labels[rows, None], -torch.ones(ROWS // N, 1)) / ROWS
            of_x[rows] = gradient @ weight
            of_weight.addmm_(gradient.t(), x[rows])
        ctx.save_for_backward(of_x, of_weight)
        return loss / ROWS

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        of_x, of_weight = ctx.saved_tensors
        return of_x * gradients[0], of_weight * gradients[0], None


class Differentiated(torch.autograd.Function):
    """torch.func computes the gradients of each chunk in forward, as in TRL and Liger's chunked losses."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        parts, of_weight, loss = [], torch.zeros_like(weight), torch.zeros(())
        for one, own in zip(x.chunk(N), labels.chunk(N)):
            (of_x, of_w), value = torch.func.grad_and_value(chunk_loss, argnums=(0, 1))(one, weight, own)
            parts.append(of_x)
            of_weight += of_w
            loss = loss + value
        ctx.save_for_backward(torch.cat(parts), of_weight)
        return loss

    backward = Fused.backward


class Backwards(torch.autograd.Function):
    """Each chunk calls backward in forward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            x, weight, loss = x.detach().requires_grad_(), weight.detach().requires_grad_(), torch.zeros(())
            for one, own in zip(x.chunk(N), labels.chunk(N)):
                value = chunk_loss(one, weight, own)
                value.backward()
                loss = loss + value.detach()
        ctx.save_for_backward(x.grad, weight.grad)
        return loss

    backward = Fused.backward


def of_logits(x: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """torchtune: the logits exist, and each chunk is cast."""
    losses = [F.cross_entropy(a.float(), b, reduction="sum") / ROWS for a, b in zip((x @ weight.t()).chunk(N), labels.chunk(N))]
    return torch.stack(losses).sum()


def of_rows(x: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.stack([chunk_loss(a, weight, b) for a, b in zip(x.chunk(N), labels.chunk(N))]).sum()


def checkpointed(x: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    parts = zip(x.chunk(N), labels.chunk(N))
    losses: list[Any] = [checkpoint(chunk_loss, a, weight, b, use_reentrant=False, preserve_rng_state=False) for a, b in parts]
    return torch.stack(losses).sum()


LOSSES = {
    "fused": Fused.apply,
    "differentiated": Differentiated.apply,
    "logits": of_logits,
    "rows": of_rows,
    "checkpointed": checkpointed,
}


class Network(nn.Module):
    def __init__(self, loss: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.weight, self.loss = nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.randn(WORDS, WIDTH)), loss

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.loss(torch.tanh(self.body(x)), self.weight, labels)
        return loss


@pytest.mark.parametrize("name", LOSSES)
def test_a_plan_has_the_measured_bytes_and_eagers_bits(name: str) -> None:
    torch.manual_seed(1)
    given = torch.randn(ROWS, WIDTH), torch.randint(0, WORDS, (ROWS,))
    eager = Network(LOSSES[name])
    eager(*given).backward()
    for budget in ("100%", "min"):
        torch._dynamo.reset()
        model = Network(LOSSES[name])
        compiled = memplan.compile(model, budget, time_limit=2)
        loss = compiled(*given)
        assert torch.equal(loss, eager(*given))
        loss.backward()
        assert all(torch.equal(a.grad, b.grad) for a, b in zip(model.parameters(), eager.parameters()))
        model.zero_grad()
        report = compiled.memplan
        assert not report.fallbacks
        assert report.measure(lambda step=compiled: step(*given).backward()) == report.planned_bytes


def loop(device: str, loss: Any) -> None:
    with torch.device(device):
        model = Network(loss)
        for _ in range(3):
            given = torch.empty(ROWS, WIDTH), torch.zeros(ROWS, dtype=torch.long)
            model(*given).backward()
            model.zero_grad()


@pytest.mark.parametrize("name", [*LOSSES, "backwards"])
def test_an_eager_step_has_the_measured_bytes(name: str) -> None:
    loss = {**LOSSES, "backwards": Backwards.apply}[name]
    live = top = 0
    sizes: dict[int, int] = {}
    for number, n_bytes in recorded_step(lambda: loop("meta", loss), (), {}, True, calls=1).events:
        sizes[number] = n_bytes or sizes.get(number, 0)
        live += n_bytes or -sizes[number]
        top = max(top, live)
    assert top == pytest.approx(peak_of(lambda: loop("cpu", loss)), rel=1e-3)
