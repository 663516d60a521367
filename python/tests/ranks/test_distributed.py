"""Two processes on one machine: DDP's gradients are eager DDP's bits within a budget on each."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from against_eager import peak_of_step, static_bytes
from torch import nn

import memplan

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or not torch.distributed.is_gloo_available(), reason="PyTorch is built without gloo"
)
BUCKET_MIB = 0.02  # so that there are several


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.BatchNorm1d(64)) for _ in range(6)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).square().mean()


def batch(step: int, rank: int) -> tuple[torch.Tensor]:
    torch.manual_seed(10 * step + rank)
    return (torch.randn(96, 64),)


def trained(model: Any, rank: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(*batch(step, rank)).backward()
        if step < 2:
            optimizer.step()


def assert_same(expected: nn.Module, got: nn.Module) -> None:
    for a, b in zip(expected.parameters(), got.parameters()):
        assert torch.equal(a.grad, b.grad) and torch.equal(a, b)
    assert all(torch.equal(a, b) for a, b in zip(expected.buffers(), got.buffers()))


def replicate(model: Any) -> Any:
    return nn.parallel.DistributedDataParallel(model, bucket_cap_mb=BUCKET_MIB)


def replicas(rank: int) -> None:
    torch.manual_seed(0)
    eager = Network()
    models = [copy.deepcopy(eager) for _ in range(3)]
    trained(replicate(eager), rank)
    inside = memplan.compile(models[0], "floor+60%")
    outside = memplan.compile(replicate(models[1]), "floor+60%")
    for model, compiled, report in ((models[0], replicate(inside), inside.memplan), (models[1], outside, outside.memplan)):
        trained(compiled, rank)
        assert_same(eager, model)
        gradients = sum(p.numel() * p.element_size() for p in model.parameters())
        x = batch(9, rank)
        measured = static_bytes(model, x) + gradients + peak_of_step(compiled, x)
        assert abs(measured - report.planned_bytes) <= 0.01 * measured, (measured, report.planned_bytes)
        assert report.planned_bytes <= report.budget_bytes < report.keep_all_bytes and report.recomputed
        assert "DDP's communication begins when backward is done" in str(report)
    whole = nn.parallel.DistributedDataParallel(models[2])
    by_name = torch.compile(whole, backend="memplan", options={"budget": "floor+60%"})
    with pytest.raises(memplan.MemplanError, match="cuts this graph at DDP's buckets"):
        by_name(*batch(0, rank))


def process(rank: int, folder: str, what: Callable[[int], None]) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    try:
        what(rank)
    finally:
        torch.distributed.destroy_process_group()


def in_two_processes(what: Callable[[int], None], folder: Path) -> None:
    torch.multiprocessing.spawn(process, (str(folder), what), 2)


def test_replicas_have_the_gradients_of_eager_ones(tmp_path: Path) -> None:
    in_two_processes(replicas, tmp_path)
