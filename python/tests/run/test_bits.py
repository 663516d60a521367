"""Losses, gradients, parameters and buffers are eager's, bit by bit, at every budget."""

from __future__ import annotations

import copy

import networks
import pytest
import torch
from against_eager import assert_like_eager, run_everything_again
from torch import nn

import memplan
from memplan.graph.capture import Capture
from memplan.plan.emitted import Emitted
from memplan.plan.planner import GraphPlanner

BUDGETS = ("100%", "floor+50%", "floor+20%")


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", networks.NETWORKS)
def test_a_plan_computes_what_eager_does(name: str, budget: str) -> None:
    model, inputs = networks.make(name)
    compiled = memplan.compile(model, budget, on_infeasible="smallest")
    assert_like_eager(model, compiled, inputs)
    assert not compiled.memplan.fallbacks
    if budget != "100%":
        assert compiled.memplan.recomputed, "nothing was recomputed: the test shows nothing"


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_every_operator_may_run_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    emit = GraphPlanner.emit
    monkeypatch.setattr(GraphPlanner, "emit", lambda self, _: emit(self, run_everything_again(self.capture)))
    model, inputs = networks.make(name)
    assert_like_eager(model, memplan.compile(model, "10GiB"), inputs)


def run_forward_twice(capture: Capture) -> list[int]:
    """Every operator of forward that may runs again at once."""
    operations = enumerate(capture.operations)
    return [k for k, o in operations for _ in range(2 if o.phase == "forward" and not o.once else 1)]


@pytest.mark.parametrize("name", ["convolutions", "tied"])
def test_every_operator_may_run_twice_before_backward(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    emit = GraphPlanner.emit
    monkeypatch.setattr(GraphPlanner, "emit", lambda self, _: emit(self, run_forward_twice(self.capture)))
    model, inputs = networks.make(name)
    assert_like_eager(model, memplan.compile(model, "10GiB"), inputs)


NORM, DROPOUT = "norm_legit_functional", "memplan.bernoulli"


@pytest.mark.parametrize(("name", "op"), [("convolutions", NORM), ("unet", NORM), ("transformer", DROPOUT), ("tied", DROPOUT)])
def test_statistics_move_once_and_numbers_are_drawn_once(name: str, op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []

    def emit_again(self: GraphPlanner, _: list[int]) -> Emitted:
        steps = run_everything_again(self.capture)
        runs.extend(steps.count(k) for k, o in enumerate(self.capture.operations) if op in o.op and o.phase == "forward")
        return emit(self, steps)

    emit = GraphPlanner.emit
    monkeypatch.setattr(GraphPlanner, "emit", emit_again)
    model, inputs = networks.make(name)
    assert_like_eager(model, memplan.compile(model, "10GiB"), inputs)
    assert len(runs) >= 4 and min(runs) >= 2


def test_no_plan_draws_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Capture] = []
    emit = GraphPlanner.emit
    monkeypatch.setattr(GraphPlanner, "emit", lambda self, steps: (seen.append(self.capture), emit(self, steps))[1])
    memplan.estimate(*networks.make("tied"))
    operations = seen[0].operations
    draws = [o for o in operations if DROPOUT in o.op and o.phase == "forward"]
    assert len(draws) == 4
    for before, after in zip(draws, [*draws[1:], operations[seen[0].boundary]]):
        only_order = [s for s in set(before.writes) & set(after.reads) if seen[0].storages[s].n_bytes == 0]
        assert only_order, f"{after.name} may run before {before.name}"


def test_channels_last() -> None:
    model, (x, y) = networks.make("convolutions")
    model = model.to(memory_format=torch.channels_last)
    compiled = memplan.compile(model, "floor+40%", on_infeasible="smallest")
    assert_like_eager(model, compiled, (x.to(memory_format=torch.channels_last), y))
    assert compiled.memplan.recomputed


def test_gradients_add_up_over_batches() -> None:
    model, inputs = networks.make("transformer")
    compiled = memplan.compile(model, "floor+40%", accumulate=True, on_infeasible="smallest")
    assert_like_eager(model, compiled, inputs, accumulate=3)


def test_every_size_has_its_plan() -> None:
    model, _ = networks.make("convolutions")
    compiled = memplan.compile(model, "floor+40%", on_infeasible="smallest")
    for batch in (4, 6, 3, 4):
        assert_like_eager(model, compiled, networks.images(batch), steps=2)
        for p in model.parameters():
            p.grad = None
    assert len(compiled.memplan.graphs) == 3


def test_many_sizes() -> None:
    torch.manual_seed(0)
    model = networks.Tied(16)
    compiled = memplan.compile(model, "100%", on_infeasible="smallest")
    for batch in (*range(2, 14), 2):
        compiled(*networks.vectors(batch, 16)).backward()
        model.zero_grad()
    assert len(compiled.memplan.graphs) == 12


def test_backward_twice_through_one_graph() -> None:
    model, inputs = networks.make("convolutions")
    compiled = memplan.compile(model, "floor+40%", on_infeasible="smallest")
    loss = compiled(*inputs)
    loss.backward(retain_graph=True)
    first = [p.grad.clone() for p in model.parameters()]
    loss.backward()
    for p, g in zip(model.parameters(), first):
        assert torch.equal(p.grad, 2 * g)


def test_the_loss_may_be_outside() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 4))

    class WithLoss(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return nn.functional.mse_loss(self.inner(x), y)

    outer = WithLoss(model)
    compiled = memplan.compile(model, "floor+40%", on_infeasible="smallest")
    assert_like_eager(outer, WithLoss(compiled), (torch.randn(256, 16), torch.randn(256, 4)))
    assert compiled.memplan.recomputed


def test_evaluation_needs_no_plan() -> None:
    model, inputs = networks.make("transformer")
    eager = copy.deepcopy(model.eval())
    compiled = memplan.compile(model, "floor+40%")
    with torch.no_grad():
        assert torch.equal(compiled(*inputs), eager(*inputs))
    assert compiled.memplan.graphs == []


class Shifted(nn.Module):
    """Reads a buffer that it writes afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.register_buffer("shift", torch.ones(16))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = torch.exp(self.linear(x) + self.shift)
        self.shift += 0.5
        return torch.nn.functional.mse_loss(x, y)


def test_what_reads_a_buffer_that_is_written_afterwards_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    emit = GraphPlanner.emit
    monkeypatch.setattr(GraphPlanner, "emit", lambda self, _: emit(self, run_everything_again(self.capture)))
    torch.manual_seed(0)
    model = Shifted()
    assert_like_eager(model, memplan.compile(model, "10GiB"), networks.vectors(32, 16))
