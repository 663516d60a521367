"""Modules compiled in place: every habit of module_habits.py beside the same without memplan, and what is kept and refused."""

from __future__ import annotations

import copy
import gc
import inspect
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from module_habits import HABITS, WIDTH, Compile, Net, Tensors, compiled, step, x_of
from torch import nn

import memplan

IS_OLD = torch.__version__ < "2.5"
NOT_IN_OLD = {  # what PyTorch 2.4 does not capture, or does not export
    "forward_wrapped_and_bound_again",
    "class_changed",
    "part_of_one_that_is",
    "part_of_one_that_is_later",
    "own_state",
    "exported",
}


@pytest.mark.filterwarnings(
    "error::memplan.FallbackWarning", "ignore:.*it runs with the smallest", "ignore:.*beyond the budget"
)
@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.__name__)
def test_a_habit_has_eagers_results_and_a_plan(habit: Callable[[Compile], tuple[Any, Tensors]]) -> None:
    if IS_OLD and habit.__name__ in NOT_IN_OLD:
        pytest.skip("PyTorch 2.4 does not capture it, or not as an exported program")
    _, expected = habit(lambda model: model)
    planned, got = habit(compiled)
    assert len(got) == len(expected) > 1
    for k, (a, b) in enumerate(zip(expected, got)):
        assert torch.equal(a, b), k
    assert planned.memplan.graphs and not planned.memplan.fallbacks


@pytest.mark.skipif(not IS_OLD, reason="newer versions of PyTorch capture it")
@pytest.mark.parametrize("name", sorted(NOT_IN_OLD - {"exported"}))
def test_what_an_old_pytorch_does_not_capture_runs_eagerly_with_a_warning(name: str) -> None:
    (habit,) = (h for h in HABITS if h.__name__ == name)
    _, expected = habit(lambda model: model)
    with pytest.warns(memplan.FallbackWarning, match="eagerly, without a plan: PyTorch cannot capture"):
        _, got = habit(compiled)
    assert len(got) == len(expected) and all(torch.equal(a, b) for a, b in zip(expected, got))


def test_a_compiled_module_is_the_same_one() -> None:
    model, eager = Net(), Net()
    assert compiled(model) is model and type(model) is Net and repr(model) == repr(eager)
    assert list(model.state_dict()) == list(eager.state_dict())
    assert [n for n, _ in model.named_modules()] == [n for n, _ in eager.named_modules()]
    assert inspect.signature(model.forward) == inspect.signature(eager.forward)
    assert {model: 1}[model] == 1 and len(list(model.modules())) == 4


def test_compiling_again_replaces_and_uncompiling_ends_it() -> None:
    model = Net()
    first, second = (memplan.compile(model, b, time_limit=0).memplan for b in ("100%", "10MiB"))
    step(model)
    assert not first.graphs and second.budget_bytes == 10 << 20 and model.memplan is second
    assert memplan.uncompile(model) is model and vars(model).keys() == vars(Net()).keys()
    step(model)
    assert len(second.graphs) == 1
    for wrong in (model, lambda: 0):
        with pytest.raises(memplan.MemplanError, match="memplan has not compiled this module"):
            memplan.uncompile(wrong)


def test_an_estimate_leaves_a_module_as_it_is() -> None:
    model, plain = compiled(Net()), Net()
    report = model.memplan
    for m in (model, plain):
        before = set(vars(m))
        assert memplan.estimate(m, (x_of(),)).planned_bytes > 0
        assert memplan.fit(m, lambda n: (x_of(n + 1),), "10MiB", most=2)[0] == 2
        with pytest.raises(memplan.BudgetError):
            memplan.estimate(m, (x_of(),), budget=1)
        assert set(vars(m)) == before
    assert model.memplan is report and not report.graphs and not hasattr(plain, "memplan")
    step(model)
    assert report.graphs


def test_checkpoints_are_measured_on_an_eager_copy() -> None:
    blocks = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)) for _ in range(4)))
    model, plain = compiled(blocks), copy.deepcopy(blocks)
    memplan.uncompile(plain)
    step(model, x_of(256))
    found = [model.memplan.modules(m, (x_of(256),)) for m in (model, plain)]
    assert found[0].names == found[1].names != [] and found[0].peak_bytes == found[1].peak_bytes


def test_nothing_keeps_a_compiled_module() -> None:
    """Its memory is free at once, not with the next collection of cycles: a model is often let go to make room for another."""
    model = compiled(Net())
    step(model)
    left = [weakref.ref(o) for o in (model, *model.parameters())]
    plans = [weakref.ref(o) for o in (model.memplan, model.memplan.graph)]
    gc.collect()
    gc.disable()
    try:
        del model
        assert [r() for r in left] == [None] * len(left)
    finally:
        gc.enable()
    gc.collect()
    assert [r() for r in plans] == [None] * 2


def test_a_forward_that_outlives_its_module_says_so() -> None:
    forward = compiled(Net()).forward
    with pytest.raises(memplan.MemplanError, match="the module of this forward was deleted"):
        forward(x_of())


def test_a_replica_of_data_parallel_is_eager_and_said() -> None:
    model = compiled(Net())
    replica = model._replicate_for_data_parallel()
    replica.first, replica.norm, replica.last = nn.Linear(WIDTH, 2), nn.Identity(), nn.Identity()  # as on another device
    with pytest.warns(memplan.FallbackWarning, match="does not plan DataParallel"):
        assert replica(x_of()).shape == (4, 2)
    assert not model.memplan.graphs


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: torch.compile(Net()), "compiled by torch.compile for another backend"),
        (lambda: torch.jit.trace(Net(), x_of()), "TorchScript"),
        (lambda: Net, "Net is a class"),
        (lambda: 3, "modules and functions, not a int"),
    ],
)
def test_what_cannot_be_compiled_in_place_is_refused(wrong: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(memplan.MemplanError, match=sentence):
        compiled(wrong())
    with pytest.raises(memplan.MemplanError, match=sentence):
        memplan.estimate(wrong(), (x_of(),))


@pytest.mark.skipif(IS_OLD, reason="PyTorch 2.4 does not capture a compiled module in a step")
def test_a_step_of_a_compiled_module_is_one_plan() -> None:
    model, eager = compiled(Net()), Net()
    y = torch.zeros(4, WIDTH)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, eager)]
    train = memplan.TrainStep(model, nn.functional.mse_loss, optimizers[0], "100%", time_limit=0)
    train(x_of(), y)
    nn.functional.mse_loss(eager(x_of()), y).backward()
    optimizers[1].step()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), eager.parameters()))
    assert train.memplan.graphs and not model.memplan.graphs
