"""Tensors saved for backward, compared with PyTorch's hooks of saved tensors."""

from __future__ import annotations

import inspect
from typing import Any

import networks
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import memplan
from memplan.explain.failed_call import NotReplayed


def packed_bytes(model: nn.Module, inputs: tuple[Any, ...]) -> int:
    """What PyTorch hands to whoever packs what is saved, each piece of memory once, without parameters and buffers."""
    found: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        found[tensor.untyped_storage()._cdata] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        model(*inputs)
    known = {t.untyped_storage()._cdata for t in (*model.parameters(), *model.buffers())}
    return sum(t.untyped_storage().nbytes() for key, t in found.items() if key not in known)


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_bytes_are_those_that_pytorch_packs(name: str) -> None:
    model, inputs = networks.make(name)
    torch.manual_seed(0)
    expected = packed_bytes(model, inputs)
    found = memplan.saved(model(*inputs))
    assert found.n_bytes == expected == sum(found.by("module").values())
    alone = memplan.saved(model(*inputs), model, inputs)
    assert alone.n_bytes == expected and all(row.place for row in alone.rows)
    names = {n for n, _ in model.named_modules()} | {type(model).__name__}
    assert {row.module for row in alone.rows} <= names


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        h = h.tanh()
        return self.second(h)


def line(function: Any, text: str) -> str:
    lines, first = inspect.getsourcelines(function)
    (k,) = [k for k, code in enumerate(lines) if text in code]
    return f"test_saved.py:{first + k}"


def test_modules_and_lines() -> None:
    model, x, y = Two(), torch.randn(32, 8), torch.randint(4, (32,))

    def rows(found: Any) -> set[tuple[str, str, int, str]]:
        return {(r.operator, r.module, r.n_bytes, r.place.rpartition("/")[2]) for r in found.rows}

    first, tanh = line(Two.forward, "self.first(x)"), line(Two.forward, "tanh")
    own = {("Addmm", "first", 32 * 8 * 4, first), ("Tanh", "Two", 32 * 16 * 4, tanh)}
    beside = {("LogSoftmax", "second", 32 * 4 * 4, ""), ("NllLoss", "second", 32 * 8, ""), ("NllLoss", "second", 4, "")}
    assert rows(memplan.saved(F.cross_entropy(model(x), y), model, (x,))) == own | beside
    near = memplan.saved(model(x))
    assert rows(near) == {("Addmm", "Two.first", 1024, ""), ("Tanh", "Two.first", 2048, "")}
    with pytest.warns(UserWarning, match="Anomaly"), torch.autograd.detect_anomaly(check_nan=False):
        output = model(x)
    assert {row[3] for row in rows(memplan.saved(output))} == {first, tanh}
    assert str(near).startswith("3.00 KiB are saved for backward, in 2 pieces") and repr(near) == str(near)
    assert [row.shape for row in near.rows] == [(32, 16), (32, 8)]  # the largest first


def test_what_backward_has_run_or_a_plan_keeps() -> None:
    model, x = Two(), torch.randn(32, 8)
    loss = model(x).sum()
    loss.backward()
    assert memplan.saved(loss).n_bytes == 0 and memplan.saved(x).rows == []
    planned = memplan.compile(Two(), "100%", time_limit=0)
    loss = planned(x).sum()
    found = memplan.saved(loss)
    assert found.by("operator") == {"a plan of memplan": planned.memplan.saved_bytes}


def test_a_call_that_needs_numbers_is_told() -> None:
    class Branch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) if x.sum().item() > 0 else x

    model, x = Branch(), torch.ones(2, 3)
    with pytest.raises(NotReplayed, match="DataDependent"):
        memplan.saved(model(x), model, (x,))
