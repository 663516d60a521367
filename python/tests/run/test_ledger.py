"""Steps of several calls: memplan reports memory besides a call before it exceeds the budget, and then plans with it."""

from __future__ import annotations

import gc
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from against_eager import peak_of_call
from habits.trial import CutBlock, Net, Scores, pair
from torch import nn
from torch.profiler import ProfilerActivity, profile

import memplan
from memplan.run.ledger import LEDGER

STEPS, ROWS = 4, 512
Batches = list[tuple[torch.Tensor, torch.Tensor]]
Step = Callable[[nn.Module, Any, Batches], None]


@pytest.fixture(autouse=True)
def nobody_waits() -> None:
    """Tests of other files may have left calls whose graph somebody still keeps, a metric of Lightning's, say."""
    for call in LEDGER.calls():
        call.end()


def one(model: nn.Module, call: Any, xs: Batches) -> None:
    model.zero_grad()
    call(*xs[0]).backward()


def dropped(model: nn.Module, call: Any, xs: Batches) -> None:
    model.zero_grad()
    call(*xs[1])
    one(model, call, xs)


def two(model: nn.Module, call: Any, xs: Batches) -> None:
    model.zero_grad()
    (call(*xs[0]) + call(*xs[1])).backward()


def three(model: nn.Module, call: Any, xs: Batches) -> None:
    model.zero_grad()
    sum(call(*x) for x in xs).backward()  # type: ignore[union-attr]


def crossed(model: nn.Module, call: Any, xs: Batches) -> None:
    model.zero_grad()
    a, b = call(*xs[0]), call(*xs[1])
    a.backward()
    b.backward()


def retained(model: nn.Module, call: Any, xs: Batches) -> None:
    model.zero_grad()
    loss = call(*xs[0])
    loss.backward(retain_graph=True)
    loss.backward()


def zeros_kept(model: nn.Module, call: Any, xs: Batches) -> None:
    model.zero_grad(set_to_none=False)
    call(*xs[0]).backward()


def trained(
    step: Step, budget: Any = "min+50%", model: nn.Module | None = None, **options: Any
) -> tuple[Any, list[int], list[str]]:
    """The compiled model, the peak of each step, parameters and the batch included, and what was said."""
    torch.manual_seed(0)
    model = Net(0.0) if model is None else model
    compiled = memplan.compile(model, budget, **options)
    xs = [pair(k, ROWS) for k in range(3)]
    parameters = list(model.parameters())

    def there() -> int:
        return 2 * xs[0][0].numel() * 4 + sum(p.numel() * 4 * (1 + (p.grad is not None)) for p in parameters)

    peaks = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(STEPS):
            model.zero_grad(set_to_none=step is not zeros_kept)  # a peak does not know what was there before, and goes
            peaks.append(there() + peak_of_call(lambda: step(model, compiled, xs)))
    return compiled, peaks, [str(w.message) for w in caught if issubclass(w.category, memplan.FallbackWarning)]


@pytest.mark.parametrize("step", [one, dropped])
def test_a_step_of_one_call_is_within_its_budget_and_nothing_is_said(step: Step) -> None:
    compiled, peaks, said = trained(step)
    assert said == [] and max(peaks[1:]) <= compiled.memplan.budget_bytes


@pytest.mark.parametrize("step", [two, three, crossed, retained, zeros_kept])
def test_what_is_beside_a_call_is_said_once_and_the_next_steps_are_planned_for_it(step: Step) -> None:
    compiled, peaks, said = trained(step)
    budget = compiled.memplan.budget_bytes
    assert max(peaks[:2]) > budget, "the first steps were within it: nothing is shown"
    assert "beyond the budget of" in said[0] and "the next step is planned with this memory" in said[0]
    assert len(said) == len(set(said)) <= 3
    assert peaks[-1] <= budget or "no smaller plan was found" in said[-1]
    assert step is three or peaks[-1] <= budget


def test_gradients_are_eagers_whatever_is_planned_again() -> None:
    model = Net(0.0)
    eager = Net(0.0)
    eager.load_state_dict(model.state_dict())
    trained(two, model=model)
    two(eager, eager, [pair(k, ROWS) for k in range(3)])
    for p, q in zip(model.parameters(), eager.parameters()):
        assert torch.equal(p.grad, q.grad)


def test_kept_gradients_that_are_counted_are_no_news() -> None:
    compiled, peaks, said = trained(zeros_kept, accumulate=True)
    assert said == [] and max(peaks[1:]) <= compiled.memplan.budget_bytes


class Loop(nn.Module):
    """Blocks of one class, each with a graph break."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(CutBlock() for _ in range(6))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return (x - y).square().mean()


def test_a_break_in_a_loop_beyond_its_budget_is_said() -> None:
    budget = 1200 * 1024
    _, peaks, said = trained(one, budget, Loop(), fullgraph=False)
    assert peaks[-1] > budget and "calls keep" in said[0] and "no smaller plan was found" in said[-1]
    cut = said[0].partition("because PyTorch splits the graph at ")[2].partition(":")
    assert cut[0] == inspect.getfile(CutBlock), "the line is not named"
    with open(cut[0], encoding="utf-8") as source:
        assert "graph_break()" in source.read().splitlines()[int(cut[2].partition(":")[0]) - 1]


def test_a_break_in_a_loop_within_its_budget_is_not() -> None:
    _, peaks, said = trained(one, "4MiB", Loop(), fullgraph=False)
    assert not any("beyond the budget" in s for s in said) and max(peaks) <= 4 << 20
    assert len(said) == 1 and "a part of Loop eagerly" in said[0], "the loop's own code is not captured"


def test_measured_over_graph_breaks_counts_gradients_once() -> None:
    model = Loop()
    compiled, peaks, _ = trained(one, "4MiB", model, fullgraph=False)
    xs = [pair(k, ROWS) for k in range(3)]
    model.zero_grad()
    measured = compiled.memplan.measure(lambda: compiled(*xs[0]).backward())
    assert measured + xs[0][1].numel() * 4 == peaks[-1], "the first part is not given the targets"


def test_a_call_whose_result_is_gone_keeps_nothing() -> None:
    gc.collect()
    before = LEDGER.n_bytes, LEDGER.n_calls
    compiled = memplan.compile(Net(0.0), "4MiB")
    out = compiled(*pair(0, ROWS))
    assert LEDGER.n_calls == before[1] + 1 and LEDGER.n_bytes > before[0]
    del out
    gc.collect()
    assert (LEDGER.n_bytes, LEDGER.n_calls) == before


def said_in(run: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(w.message) for w in caught if issubclass(w.category, memplan.FallbackWarning)]


def test_what_is_beside_is_seen_at_the_call_and_not_only_in_backward() -> None:
    compiled = memplan.compile(Net(0.0), "min+50%")
    first = compiled(*pair(0, ROWS))
    assert "1 call keeps" in said_in(lambda: compiled(*pair(1, ROWS)))[0] and first.requires_grad


def step_of(models: list[Any], loss: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> None:
    for model in models:
        model.zero_grad()
        x = model(x)
    loss(x).backward()


def test_models_in_a_chain_are_planned_against_each_other() -> None:
    """The first one keeps less, as the second has no room for what it kept."""
    models = [memplan.compile(Scores(0.0), "min+30%") for _ in range(2)]
    (x, _), kept = pair(0, ROWS), []
    told: list[str] = []
    for _ in range(3):
        told += said_in(lambda: step_of(models, lambda h: h.square().mean(), x))
        kept.append(models[0].memplan.saved_bytes)
    first, second = (m.memplan for m in models)
    assert "1 call keeps" in told[0] and "the next step is planned with this memory" in told[0]
    assert kept[-1] < kept[0] / 2
    assert first.saved_bytes + second.planned_bytes - second.graph.others_bytes <= second.budget_bytes


def entropy(h: torch.Tensor) -> torch.Tensor:
    return (h.log_softmax(-1).exp() * h).sum()


def test_a_loss_outside_is_measured_once_and_planned_for() -> None:
    model = Scores(0.0)
    compiled = memplan.compile(model, "min+30%")
    x, _ = pair(0, ROWS)
    told = said_in(lambda: step_of([compiled], entropy, x))
    assert (
        len(told) == 1 and "are used outside of the model" in told[0] and "the next step is planned with this memory" in told[0]
    )
    assert said_in(lambda: step_of([compiled], entropy, x)) == []
    model.zero_grad()
    static = sum(p.numel() for p in model.parameters()) * 4 + x.numel() * 4
    assert static + peak_of_call(lambda: entropy(compiled(x)).backward()) <= compiled.memplan.budget_bytes


def test_a_loss_outside_is_measured_in_the_first_step_that_no_profiler_watches() -> None:
    compiled = memplan.compile(Scores(0.0), "min+30%")
    x, _ = pair(0, ROWS)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True):
        assert said_in(lambda: step_of([compiled], entropy, x)) == []
    told = said_in(lambda: step_of([compiled], entropy, x))
    assert len(told) == 1 and "are used outside of the model" in told[0]


def test_what_is_small_outside_is_not_said() -> None:
    compiled = memplan.compile(Scores(0.0), "100%")
    assert said_in(lambda: step_of([compiled], lambda h: h[0].sum(), pair(0, ROWS)[0])) == []


def test_who_packs_what_is_saved_outside_is_not_asked_for_it() -> None:
    unpacked: list[torch.Tensor] = []
    compiled = memplan.compile(Scores(0.0), "100%")
    h = compiled(pair(0, ROWS)[0])
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: unpacked.append(t) or t):
        loss = h.tanh().sum()
    loss.backward()
    assert len(unpacked) == 1, "eager asks once"
