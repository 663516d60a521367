"""What users bring along: their own checkpoints and tensor subclasses, which are planned, and collectives, which are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from against_eager import assert_like_eager
from torch import nn
from torch.utils.checkpoint import checkpoint

import memplan


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Dropout(0.1)) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x.square().mean()


@pytest.mark.parametrize("budget", ["100%", "floor+60%"])
def test_the_users_checkpoints_are_planned_like_the_rest(budget: str) -> None:
    torch.manual_seed(0)
    model, x = Checkpointed(), torch.randn(64, 32)
    compiled = memplan.compile(model, budget)
    assert_like_eager(model, compiled, (x,))
    assert "memplan plans the marks of torch.utils.checkpoint" in str(compiled.memplan)
    assert bool(compiled.memplan.recomputed) == (budget != "100%")


def test_a_subclass_has_eagers_gradients() -> None:
    two_tensor = pytest.importorskip("torch.testing._internal.two_tensor")
    torch.manual_seed(0)
    layer, x, y = nn.Linear(8, 8), torch.randn(4, 8), torch.randn(4, 8)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(layer(x)).square().mean()

    def gradient(call: Any) -> list[torch.Tensor]:
        layer.zero_grad()  # some versions of PyTorch capture no parameter whose gradient is of another class
        call(two_tensor.TwoTensor(x, y)).backward()
        found: Any = layer.weight.grad
        return [found.a, found.b]

    expected = gradient(loss)
    compiled = memplan.compile(loss, "100%")
    got = gradient(compiled)
    assert compiled.memplan.graphs and not compiled.memplan.fallbacks
    assert all(torch.equal(a, b) for a, b in zip(expected, got)) and not torch.equal(*got)


@pytest.fixture
def one_process(tmp_path: Path) -> Iterator[None]:
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("PyTorch is built without gloo")
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


class Reduced(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        import torch.distributed._functional_collectives as collectives

        mean = collectives.all_reduce(x.mean(0), "sum", torch.distributed.group.WORLD)
        return torch.tanh(self.layer(x - mean)).square().mean()


@pytest.mark.usefixtures("one_process")
def test_a_collective_is_planned_and_right() -> None:
    torch.manual_seed(0)
    model, x = Reduced(), torch.randn(16, 8)
    compiled = memplan.compile(model, "90%")
    assert_like_eager(model, compiled, (x,))
    assert compiled.memplan.graphs and not compiled.memplan.fallbacks
