"""verify=True: the first step both ways, and what is told of it."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import networks
import pytest
import torch
from against_eager import assert_like_eager
from torch import nn

import memplan
from memplan.budget import in_units
from memplan.graph import native


def notes(report: memplan.Report) -> list[str]:
    return [note for note in report.graph.notes if note.startswith("verified")]


def test_a_verified_step_is_said_to_be_eagers_and_changes_nothing() -> None:
    model, inputs = networks.make("convolutions")
    seen: list[torch.Tensor] = []
    model.head.weight.register_hook(lambda g: seen.append(g.clone()))
    eager = copy.deepcopy(model)
    compiled = memplan.compile(model, "floor+30%", time_limit=0, on_infeasible="smallest", verify=True)
    assert_like_eager(model, compiled, inputs, eager=eager, steps=2)
    (told,) = notes(compiled.memplan)
    assert "eager's bits" in told and len(seen) == 2
    planned = in_units(compiled.memplan.planned_bytes)
    assert f"{planned} measured, {planned} planned" in told


def test_a_difference_is_told_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(x: torch.Tensor, p: float, train: bool) -> torch.Tensor:
        return x * 1.001

    monkeypatch.setitem(native.OURS, torch.ops.aten.dropout.default, dict.fromkeys(native.WRITTEN_OUT, wrong))
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0), nn.Linear(4, 4))
    compiled = memplan.compile(model, "100%", time_limit=0, verify=True)
    with pytest.warns(memplan.FallbackWarning, match=r"differ from eager's, most of all .*, by 0\.00"):
        compiled(torch.randn(3, 4)).sum().backward()
    assert "differ" in notes(compiled.memplan)[0]


def test_it_is_verified_by_name_and_not_unless_asked() -> None:
    for asked in (True, False):
        report: Any = memplan.Report()
        model, inputs = networks.make("tied")
        options = {"budget": "100%", "report": report, "verify": asked, "time_limit": 0}
        torch.compile(model, backend="memplan", options=options)(*inputs).backward()
        assert len(notes(report)) == asked
        torch._dynamo.reset()


def test_what_has_the_captures_bits_is_named() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = memplan.estimate(nn.GRU(4, 4), (torch.randn(3, 2, 4),))
    assert any("bits of the capture, not of eager: gru" in note for note in report.graph.notes)
    report = memplan.estimate(nn.LSTM(4, 4), (torch.randn(3, 2, 4),))
    assert not any("bits of the capture" in note for note in report.graph.notes)
