"""Recurrent layers: eager's operators, draws, bits and memory, or one sentence."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
import torch
from against_eager import Context, assert_like_eager, peak_of_step
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import memplan
from memplan.costs.measure import Costs

STEPS, BATCH, WIDTH = 5, 4, 8


class Recurrent(nn.Module):
    def __init__(self, kind: str, before: bool = True, packed: bool = False, hidden: int = 12, **options: Any) -> None:
        super().__init__()
        self.before = nn.Linear(WIDTH, WIDTH) if before else nn.Identity()
        self.layers, self.packed = getattr(nn, kind)(WIDTH, hidden, **options), packed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.before(x)
        if self.packed:
            x = pack_padded_sequence(x, torch.tensor([5, 4, 2, 1]))
        y, state = self.layers(x)
        y = pad_packed_sequence(y)[0] if self.packed else y
        return (y.square().mean() + (state[0] if isinstance(state, tuple) else state).sum()).float()


class Cells(nn.Module):
    """A loop over a cell."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.cell = getattr(nn, kind)(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = None
        for step in x:
            state = self.cell(step, state)
        return (state[0] if isinstance(state, tuple) else state).square().mean()


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "an input without gradient": {"before": False},
    "layers with dropout": {"num_layers": 2, "dropout": 0.3},
    "both directions": {"num_layers": 3, "bidirectional": True, "dropout": 0.2, "batch_first": True},
    "no bias": {"bias": False, "before": False},
}
LAYERS = {f"LSTM, {name}": ("LSTM", options) for name, options in OPTIONS.items()}
LAYERS |= {f"RNN, {name}": ("RNN", options) for name, options in OPTIONS.items()}
LAYERS["LSTM, projected"] = ("LSTM", {"proj_size": 5})
captured = pytest.mark.skipif(torch.__version__ < "2.5", reason="PyTorch 2.4 does not capture recurrent layers")


def make(kind: str, options: dict[str, Any]) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return Recurrent(kind, **options), torch.randn(STEPS, BATCH, WIDTH)


@captured
@pytest.mark.parametrize("budget", ["100%", "floor+10%"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_have_eagers_bits_and_the_planned_peak(name: str, budget: str) -> None:
    model, x = make(*LAYERS[name])
    eager = copy.deepcopy(model)
    compiled = memplan.compile(model, budget, time_limit=0, on_infeasible="smallest")
    assert_like_eager(model, compiled, (x,), steps=2)
    assert peak_of_step(compiled, (x,)) == compiled.memplan.planned_bytes - compiled.memplan.static_bytes
    if budget == "100%":
        assert peak_of_step(compiled, (x,)) <= peak_of_step(eager, (x,))


@pytest.mark.parametrize("frozen", ["before", "layers.weight_ih_l0", "layers.weight_hh_l1", "layers.bias"])
def test_frozen_parts_of_an_lstm(frozen: str) -> None:
    model, x = make("LSTM", {"num_layers": 2})
    for name, p in model.named_parameters():
        p.requires_grad_(not name.startswith(frozen))
    assert_like_eager(model, memplan.compile(model, "floor+10%", time_limit=0, on_infeasible="smallest"), (x,), steps=2)


@pytest.mark.parametrize("context", [contextlib.nullcontext, lambda: torch.autocast("cpu", dtype=torch.bfloat16)])
@pytest.mark.parametrize("kind", ["LSTMCell", "RNNCell"])
def test_loops_over_cells(kind: str, context: Context) -> None:
    torch.manual_seed(0)
    model = Cells(kind)
    compiled = memplan.compile(model, "floor+10%", time_limit=0, on_infeasible="smallest")
    assert_like_eager(model, compiled, (torch.randn(STEPS, BATCH, WIDTH),), context, steps=2)


def test_an_lstm_under_autocast() -> None:
    model, x = make("LSTM", OPTIONS["both directions"])
    compiled = memplan.compile(model, "floor+10%", time_limit=0, on_infeasible="smallest")
    assert_like_eager(model, compiled, (x,), lambda: torch.autocast("cpu", dtype=torch.bfloat16), steps=2)


def test_a_packed_sequence_runs_eagerly_and_says_so() -> None:
    model, x = make("LSTM", {"packed": True, "bidirectional": True})
    compiled = memplan.compile(model, "floor+10%", time_limit=0)
    with pytest.warns(memplan.FallbackWarning, match="runs Recurrent eagerly"):
        assert_like_eager(model, compiled, (x,), steps=2)


@captured
def test_an_lstms_backward_is_measured_and_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = Costs()
    monkeypatch.setattr("memplan.run.backend.COSTS", costs)
    model, x = make("LSTM", {})
    report = memplan.estimate(model, (x,), budget="100%")
    (backward,) = (cost for node, cost in report.graph.costs.items() if "rnn_layer_backward" in str(node.target))
    assert not costs.failed and backward.workspace_bytes > 0 and len(backward.result_bytes) == 7
