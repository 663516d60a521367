"""Operators that are not PyTorch's: their state moves as in eager PyTorch, and planning does not run them."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import memplan

CALLS = {"n": 0}
GENERATOR = torch.Generator()


def counting(x: torch.Tensor) -> torch.Tensor:
    CALLS["n"] += 1
    return x * (1 + CALLS["n"] / 10)


def drawing(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rand(x.shape)


def drawing_its_own(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rand(x.shape, generator=GENERATOR)


def drawing_numpys(x: torch.Tensor) -> torch.Tensor:
    return x * torch.from_numpy(np.random.rand(*x.shape).astype("f"))


def drawing_pythons(x: torch.Tensor) -> torch.Tensor:
    return x * random.random()


def checking(x: torch.Tensor) -> torch.Tensor:
    assert float(x.abs().max()) > 0.5, "values that nobody trains with"
    return x * 2


def doubling(x: torch.Tensor) -> torch.Tensor:
    CALLS["n"] += 1
    return x * 2


def define(function: Callable[..., torch.Tensor], name: str, backward: Callable[..., Any], tags: tuple[Any, ...] = ()) -> Any:
    """By what PyTorch 2.4 has, whose torch.library.custom_op knows no tags."""
    called = f"memplan_tests::{name}"
    torch.library.define(called, "(Tensor x) -> Tensor", tags=tags)
    torch.library.impl(called, "CompositeExplicitAutograd", function)
    torch.library.register_fake(called, torch.empty_like)
    torch.library.register_autograd(
        called, backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0])
    )
    return getattr(torch.ops.memplan_tests, name)


def plain(_: Any, g: torch.Tensor) -> torch.Tensor:
    return g * 0.5


FUNCTIONS = (counting, drawing, drawing_its_own, drawing_numpys, drawing_pythons, checking)
OPERATORS: dict[str, Any] = {f.__name__: define(f, f.__name__, plain) for f in FUNCTIONS}
OPERATORS["tagged as seeded"] = define(drawing, "seeded", plain, (torch.Tag.nondeterministic_seeded,))


def backward_with_state(ctx: Any, g: torch.Tensor) -> torch.Tensor:
    return g * OPERATORS["counting"](torch.cos(ctx.saved_tensors[0])) * OPERATORS["drawing"](torch.ones_like(g))


OPERATORS["state in backward"] = define(doubling, "in_backward", backward_with_state)


class Function(torch.autograd.Function):
    """Its backward draws what depends on no gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return OPERATORS["drawing"](x)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return g * OPERATORS["drawing"](x) * torch.rand(x.shape)


OPERATORS["a Function"] = Function.apply
IN_FORMULAS = ("state in backward", "a Function")
LIBRARY = torch.library.Library("memplan_defined", "FRAGMENT")
LIBRARY.define("counted(Tensor x) -> Tensor")
LIBRARY.impl("counted", counting, "CPU")
LIBRARY.impl("counted", torch.empty_like, "Meta")
torch.library.register_autograd("memplan_defined::counted", plain, lib=LIBRARY)
OPERATORS["defined by a schema"] = torch.ops.memplan_defined.counted
OPERATORS["Python's numbers"] = lambda x: x * random.random() + random.randint(1, 9)
OPERATORS["a generator"] = lambda x: x * torch.rand(x.shape, generator=GENERATOR)
OPERATORS["NumPy's numbers"] = drawing_numpys
OPERATORS["PyTorch's numbers"] = lambda x: x * torch.rand_like(x) + torch.bernoulli(torch.full_like(x, 0.5))


class Net(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))
        self.name, self.drop = name, nn.Dropout(0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = OPERATORS[self.name](self.drop(torch.tanh(layer(x))))
            x = torch.sin(x) * torch.exp(-x * x)
        return x.sum()


def seed() -> None:
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    GENERATOR.manual_seed(1)
    CALLS["n"] = 0


def steps(model: nn.Module, call: Callable[..., Any], x: torch.Tensor) -> list[Any]:
    """Losses, what all generators and the counter say after forward and after backward, and the weights at the end."""
    seed()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    seen: list[Any] = []
    for _ in range(2):
        loss = call(x)
        seen += [loss.item(), torch.rand(1).item(), np.random.rand(), random.random(), CALLS["n"]]
        loss.backward()
        seen += [torch.rand(1).item(), torch.rand(1, generator=GENERATOR).item(), np.random.rand(), CALLS["n"]]
        optimizer.step()
    return [*seen, *(p.tolist() for p in model.parameters())]


@pytest.mark.filterwarnings("ignore::memplan.errors.FallbackWarning")
@pytest.mark.parametrize("budget", ["100%", "floor+20%"])
@pytest.mark.parametrize("name", OPERATORS)
def test_state_moves_as_in_eager(name: str, budget: str) -> None:
    if name in IN_FORMULAS and torch.__version__ < "2.5":
        pytest.skip("PyTorch 2.4 does not say which operators are of backward's formulas")
    if name == "a Function" and torch.__version__ < "2.8":
        pytest.skip("PyTorch 2.7 does not say which operators are of the backward of a Function")
    torch.manual_seed(0)
    model, x = Net(name), torch.randn(256, 32)
    eager = copy.deepcopy(model)
    compiled = memplan.compile(model, budget, on_infeasible="smallest", time_limit=1)
    assert steps(model, compiled, x) == steps(eager, eager, x)


@pytest.mark.parametrize("name", ["counting", "checking", "drawing_its_own"])
def test_planning_does_not_run_the_users_operator(name: str) -> None:
    seed()
    before = GENERATOR.get_state()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        report = memplan.estimate(Net(name), [torch.randn(64, 32)], budget="floor+20%", on_infeasible="smallest", time_limit=1)
    assert CALLS["n"] == 0 and torch.equal(before, GENERATOR.get_state())
    assert [
        str(w.message) for w in told if f"memplan_tests.{name}.default is a custom operator. It runs once" in str(w.message)
    ]
    assert not any("memplan_tests" in r.op for r in report.recomputed)


def test_what_is_tagged_as_pure_may_run_again() -> None:
    OPERATORS["pure"] = define(doubling, "pure", plain, (torch.Tag.pointwise,))
    model = Net("pure")
    seed()
    compiled = memplan.compile(model, "floor+20%", on_infeasible="smallest", time_limit=1)
    with pytest.warns(memplan.FallbackWarning, match="The plan omits its workspace"):
        loss = compiled(torch.randn(64, 32))
    assert CALLS["n"] == 3
    loss.backward()
    assert CALLS["n"] > 3 and any("pure" in r.op for r in compiled.memplan.recomputed)


def test_what_writes_into_its_arguments_runs_once_with_a_warning() -> None:
    @torch.library.custom_op("memplan_tests::writing", mutates_args=("seen",), schema="(Tensor x, Tensor(a!) seen) -> ()")
    def writing(x: torch.Tensor, seen: torch.Tensor) -> None:
        CALLS["n"] += 1
        seen.add_(CALLS["n"] * x.mean())

    class Writing(Net):
        def __init__(self) -> None:
            super().__init__("PyTorch's numbers")
            self.register_buffer("seen", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            writing(x, self.seen)
            return super().forward(x)

    torch.manual_seed(0)
    model, x = Writing(), torch.randn(64, 32)
    eager = copy.deepcopy(model)
    compiled = memplan.compile(model, "100%")
    with pytest.warns(memplan.FallbackWarning):
        got = steps(model, compiled, x)
    assert got == steps(eager, eager, x) and torch.equal(model.seen, eager.seen)


def test_a_keyword_is_given_again_to_an_operator_that_draws() -> None:
    """It is tagged as one that depends on nothing but arguments and the generator, and takes a tensor by its name."""
    LIBRARY.define("noisy(Tensor x, *, Tensor scale) -> Tensor", tags=(torch.Tag.core, torch.Tag.nondeterministic_seeded))
    LIBRARY.impl("noisy", lambda x, *, scale: x + scale * torch.rand_like(x), "CPU")
    LIBRARY.impl("noisy", lambda x, **_: torch.empty_like(x), "Meta")

    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scale = x.detach().abs()
            for layer in self.layers:
                x = layer(x) * torch.ops.memplan_defined.noisy(x.detach(), scale=scale)
            return x.sum()

    model, x = Noisy(), torch.randn(4000, 8)
    eager = copy.deepcopy(model)
    memplan.compile(model, "min+10%")
    for one in (eager, model):
        torch.manual_seed(0)
        one(x).backward()
    assert any(r.op.startswith("memplan_defined.noisy") for r in model.memplan.recomputed)
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(model.parameters(), eager.parameters()))  # type: ignore[arg-type]
