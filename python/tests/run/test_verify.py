"""verify=True: the first step runs both with and without the plan, and memplan reports differences."""

from __future__ import annotations

import copy
import gc
import re
import warnings
import weakref
from typing import Any

import networks
import pytest
import torch
import torch.nn.functional as F
from against_eager import assert_like_eager
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

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


def test_what_was_verified_is_not_kept() -> None:
    model, inputs = networks.make("tied")
    compiled = memplan.compile(model, "100%", time_limit=0, verify=True)
    compiled(*inputs).backward()
    assert notes(compiled.memplan)
    left = [weakref.ref(o) for o in (model, model.memplan.graph, model.memplan, next(model.parameters()))]
    del model, compiled
    gc.collect()
    assert [ref() for ref in left] == [None] * len(left)


def test_a_difference_is_told_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(x: torch.Tensor, p: float, train: bool) -> torch.Tensor:
        return x * 1.001

    monkeypatch.setitem(native.OURS, torch.ops.aten.dropout.default, dict.fromkeys(native.WRITTEN_OUT, wrong))
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0), nn.Linear(4, 4))
    compiled = memplan.compile(model, "100%", time_limit=0, verify=True)
    with pytest.warns(memplan.FallbackWarning, match=r"differ from eager's; the largest difference is 0\.00"):
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


@pytest.mark.skipif(torch.__version__ < "2.5", reason="PyTorch 2.4 does not capture recurrent layers")
def test_what_has_the_captures_bits_is_named() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = memplan.estimate(nn.GRU(4, 4), (torch.randn(3, 2, 4),))
    assert any("the plan has the capture's bits, not eager's: gru" in note for note in report.graph.notes)
    report = memplan.estimate(nn.LSTM(4, 4), (torch.randn(3, 2, 4),))
    assert not any("the capture's bits" in note for note in report.graph.notes)


def is_compiled() -> bool:
    return torch.compiler.is_compiling()


class Asking(nn.Module):
    """Asks whether it is compiled, and then multiplies by `factor`; moves statistics, and counts its calls."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.linear, self.norm, self.factor, self.calls = nn.Linear(4, 4), nn.BatchNorm1d(4), factor, []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.dropout(self.norm(self.linear(x)), 0.3)
        if is_compiled():
            x = x * self.factor
        else:
            self.calls.append("eager")
        return x.square().mean()


class Masked(nn.Module):
    """Leaves out a mask that masks nothing, unless it is compiled: softmax is then in fp32, and rounded behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = self.linear(x)
        if torch.compiler.is_compiling() or not bool(mask.all()):
            scores = scores + torch.where(mask, 0.0, -1e4)
        return self.linear(F.softmax(scores, -1)).float().mean()


def told_by(model: nn.Module, *inputs: torch.Tensor) -> list[str]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        loss = model(*inputs)
    loss.backward()
    return [str(w.message) for w in told if "tests whether it is compiled" in str(w.message)]


def test_a_model_that_asks_whether_it_is_compiled_is_compared_with_eager() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 4)
    for factor, differs in ((1.0, False), (1.5, True)):
        model = memplan.compile(Asking(factor), "100%", time_limit=0)
        told = told_by(model, x)
        assert len(told) == differs
        for sentence in told:
            line = Asking.forward.__code__.co_firstlineno + 2
            assert f"{__file__}:{line} tests whether" in sentence and re.search(r"[1-9] of \d+ tensors", sentence)
        assert any("the capture's bits" in note for note in model.memplan.graph.notes) == differs
        assert int(model.norm.num_batches_tracked) == 1 and model.calls == [], "eager's run has left something"
        assert told_by(model, x) == [], "said twice"


def test_asking_changes_no_bits_where_the_answer_changes_none() -> None:
    torch.manual_seed(0)
    model = Asking(1.0)
    eager = copy.deepcopy(model)
    assert_like_eager(model, memplan.compile(model, "100%", time_limit=0), (torch.randn(3, 4),), eager=eager)


def test_a_mask_that_eager_leaves_out_is_told_under_autocast_only() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(8, 16), torch.ones(8, 16, dtype=torch.bool)
    model = memplan.compile(Masked(), "100%", time_limit=0)
    assert told_by(model, *inputs) == []
    with torch.autocast("cpu", torch.bfloat16):
        assert len(told_by(model, *inputs)) == 1


def test_where_nobody_can_run_it_again_the_report_says_that_it_asks() -> None:
    model, x = Asking(1.0), torch.randn(3, 4)
    compiled = memplan.compile(lambda x: 2 * model(x), "100%", time_limit=0)
    assert told_by(compiled, x) == []
    assert any("where capture and eager differ" in note for note in compiled.memplan.graph.notes)


def test_batch_normalization_on_a_gpu_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for device, is_enabled in (("cuda", True), ("cuda", False), ("cpu", True)):
        monkeypatch.setattr(torch.backends.cudnn, "enabled", is_enabled)
        graph = torch.fx.Graph()
        node = graph.call_function(torch.nn.functional.batch_norm, (graph.placeholder("x"),))
        with FakeTensorMode():
            node.meta["example_value"] = torch.empty(2, 3, device=device)
        assert native.of_the_capture(graph) == (["batch_norm"] if device == "cuda" and is_enabled else [])
