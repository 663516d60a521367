"""Between forward and backward: writes of the caller, and unused outputs, compared with eager PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from against_eager import peak_of_call, static_bytes
from torch import nn

import memplan
from memplan.errors import OverwrittenError

Write = Callable[[nn.Module, torch.Tensor, Any], Any]
TIGHT = "floor+50%"  # much is computed again


class Shown(nn.Module):
    """Returns, beside its result, a hidden value that eager PyTorch does not save, in some form."""

    def __init__(self, shown: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.shown = shown
        self.first, self.second, self.last = nn.Linear(16, 64), nn.Linear(64, 64), nn.Linear(64, 8)
        self.register_buffer("scale", torch.full((64,), 1.5))

    def forward(self, x: torch.Tensor) -> Any:
        hidden = self.first(torch.sin(x)) + self.scale
        y = torch.tanh(hidden + hidden * 0.5)
        for _ in range(2):
            y = nn.functional.gelu(self.second(y))
        return self.last(y), self.shown(hidden)


FORMS: dict[str, tuple[Callable[[torch.Tensor], Any], Callable[[Any], Any]]] = {
    "itself": (lambda h: h, lambda o: o.zero_()),
    "a column of it": (lambda h: h, lambda o: o[:, 0].zero_()),
    "view": (lambda h: h.view(-1), lambda o: o.zero_()),
    "column": (lambda h: h[:, 0], lambda o: o.zero_()),
    "rows": (lambda h: h[:4], lambda o: o.mul_(3)),
    "transposed": (lambda h: h.t(), lambda o: o.zero_()),
    "reshaped": (lambda h: h.reshape(8, -1), lambda o: o.zero_()),
    "chunks": (lambda h: h.chunk(2), lambda o: o[1].zero_()),
    "unbound": (lambda h: h.unbind(0), lambda o: o[0].data_ptr() and o[3].zero_()),
    "detached": (lambda h: h.detach(), lambda o: o.zero_()),
    "dict": (lambda h: {"a": h, "b": h.t()}, lambda o: o["b"].view(64, -1)[3].zero_()),
    "itself twice": (lambda h: (h, h), lambda o: o[1].zero_()),
    "expanded": (lambda h: h[0].expand(3, 64), lambda o: o[0].zero_()),
    "noise": (lambda h: h, lambda o: o.normal_()),
    "filled by index": (lambda h: h, lambda o: o.__setitem__((slice(None), 2), 5.0)),
}


def after_writing(model: nn.Module, call: Callable[..., Any], x: torch.Tensor, write: Write) -> list[torch.Tensor | None]:
    """The gradients when this is done between forward and backward."""
    given = x.clone()
    result = call(given)
    with torch.no_grad():
        write(model, given, result)
    result[0].pow(2).sum().backward()
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def equal(a: list[torch.Tensor | None], b: list[torch.Tensor | None]) -> bool:
    """Bits, and None in the same places."""
    return len(a) == len(b) and all(p is q if p is None or q is None else torch.equal(p, q) for p, q in zip(a, b))


def assert_as_eager_after(model: nn.Module, write: Write, budget: str, x: torch.Tensor) -> Any:
    eager = copy.deepcopy(model)
    compiled = memplan.compile(model, budget, on_infeasible="smallest", time_limit=2)
    got = after_writing(model, compiled, x, write)
    assert equal(got, after_writing(eager, eager, x, write))
    return compiled.memplan


def train(parameters: list[torch.Tensor]) -> None:
    """A step of an optimizer between forward and backward."""
    for p in parameters:
        p.grad = torch.ones_like(p)
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    optimizer.step()
    optimizer.zero_grad()


@pytest.fixture
def x() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(64, 16)


@pytest.mark.parametrize("form", FORMS)
def test_the_caller_may_write_into_outputs_that_eager_does_not_save(form: str, x: torch.Tensor) -> None:
    shown, write = FORMS[form]
    report = assert_as_eager_after(Shown(shown), lambda m, x, o: write(o[1]), "floor+10%", x)
    assert report.recomputed and not report.fallbacks


@pytest.mark.parametrize(
    "write",
    [
        lambda m, x, o: x.zero_(),
        lambda m, x, o: x[:, 3].zero_(),
        lambda m, x, o: m.scale.zero_(),
        lambda m, x, o: m.second.bias.zero_(),
        lambda m, x, o: m.first.bias.clamp_(0, 0.01),
        lambda m, x, o: m.first.weight.mul_(0.9),  # eager saves what it is multiplied by
        lambda m, x, o: train([m.first.weight, m.first.bias, m.second.bias]),
        lambda m, x, o: m.scale.lerp_(torch.ones(64), 0.5),
    ],
)
def test_the_caller_may_write_into_inputs_that_eager_does_not_save(write: Write, x: torch.Tensor) -> None:
    assert assert_as_eager_after(Shown(lambda h: h), write, TIGHT, x).recomputed


def test_what_there_is_no_room_to_copy_is_named(x: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memplan.plan.emit.SMALL_BYTES", -1)
    model = Shown(lambda h: h.mean())
    compiled = memplan.compile(model, "floor+0%", on_infeasible="smallest", time_limit=2)
    for name, write in (
        ("input 0", lambda m, x, o: x.zero_()),
        ("scale", lambda m, x, o: m.scale.zero_()),
        ("second.bias", lambda m, x, o: m.second.bias.view(-1)[0].zero_()),
    ):
        with pytest.raises(OverwrittenError, match=f"^{name} has been modified by an inplace operation since forward"):
            after_writing(model, compiled, x, write)


@pytest.mark.parametrize("budget", ["100%", "floor+10%"])
@pytest.mark.parametrize("shown", [lambda h: h, lambda h: h.view(-1), lambda h: h[:, 0], lambda h: h.detach()])
def test_what_eager_saves_and_refuses_is_refused(shown: Callable[[torch.Tensor], Any], budget: str, x: torch.Tensor) -> None:
    class Saved(Shown):
        def forward(self, x: torch.Tensor) -> Any:
            hidden = torch.tanh(self.first(x))
            return self.last(hidden), self.shown(hidden)

    model = Saved(shown)
    for call in (memplan.compile(model, budget, on_infeasible="smallest", time_limit=2), model):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            after_writing(model, call, x, lambda m, x, o: o[1].zero_())
    model.zero_grad()
    after_writing(model, memplan.compile(model, budget, time_limit=2, on_infeasible="smallest"), x, lambda m, x, o: None)


@pytest.mark.parametrize("budget", ["100%", "60%", TIGHT, "floor+10%"])
def test_copies_are_in_the_planned_peak(budget: str, x: torch.Tensor) -> None:
    model = Shown(lambda h: h)
    compiled = memplan.compile(model, budget, on_infeasible="smallest", time_limit=2)

    def step() -> None:
        outputs = compiled(x)
        torch.autograd.backward(outputs, [torch.ones_like(o) for o in outputs])

    step()
    model.zero_grad()
    assert static_bytes(model, (x,)) + peak_of_call(step) == compiled.memplan.planned_bytes


def test_a_retained_graph_is_checked_each_time(x: torch.Tensor) -> None:
    class Saved(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(super().forward(x)).view(-1)

    model = Saved(16, 8)
    out = memplan.compile(model, "100%")(x)
    out.sum().backward(retain_graph=True)
    with torch.no_grad():
        out.zero_()
    with pytest.raises(OverwrittenError, match="output 0 has been modified"):
        out.sum().backward()


class Heads(nn.Module):
    """Two heads, a parameter of which halves are used apart, and what has no gradient at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.a = nn.Linear(16, 32), nn.Linear(32, 4)
        self.b = nn.Sequential(nn.Linear(32, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 4))
        self.halves = nn.Parameter(torch.ones(2, 32))

    def forward(self, x: torch.Tensor, branch: str = "both") -> Any:
        left, right = self.halves.unbind(0)
        hidden = torch.tanh(self.trunk(x)) * left
        if branch == "a":
            return (self.a(hidden),)
        if branch == "steep":
            return self.a(hidden), torch.sqrt(torch.relu(self.b(hidden)) * 0)
        if branch == "views":
            return self.a(hidden), hidden, hidden.view(-1), hidden.chunk(2, 1)[1]
        return self.a(hidden), self.b(hidden) * right[:4], hidden.detach()


LOSSES: dict[str, tuple[str, Callable[[Any], torch.Tensor]]] = {
    "one head": ("both", lambda o: o[0].sum()),
    "the other": ("both", lambda o: o[1].pow(2).sum()),
    "times zero": ("both", lambda o: o[0].sum() + 0 * o[1].sum()),
    "both": ("both", lambda o: o[0].sum() + o[1].pow(2).sum()),
    "a branch": ("a", lambda o: o[0].sum()),
    "infinite where it is not used": ("steep", lambda o: o[0].sum()),
    "not the views": ("views", lambda o: o[0].sum()),
    "one view": ("views", lambda o: (o[2] * 2).sum()),
    "two views": ("views", lambda o: (o[2] * 2).sum() + o[1].pow(3).sum()),
    "part of a view": ("views", lambda o: o[3].pow(2).sum()),
}


@pytest.mark.parametrize("budget", ["100%", "floor+30%"])
def test_parameters_of_outputs_that_nobody_used_have_no_gradient(budget: str, x: torch.Tensor) -> None:
    model = Heads()
    eager = copy.deepcopy(model)
    compiled = memplan.compile(model, budget, on_infeasible="smallest", time_limit=2)
    both = [(m, c, torch.optim.AdamW(m.parameters(), lr=0.05)) for m, c in ((model, compiled), (eager, eager))]
    for name, (branch, loss) in [*LOSSES.items(), *LOSSES.items()]:
        for _, call, optimizer in both:
            optimizer.zero_grad()
            loss(call(x, branch)).backward()
        assert equal([p.grad for p in model.parameters()], [p.grad for p in eager.parameters()]), name
        for _, _, optimizer in both:
            optimizer.step()
    assert equal(list(model.parameters()), list(eager.parameters()))


@pytest.mark.parametrize("name", LOSSES)
def test_grad_of_a_part_is_eagers(name: str, x: torch.Tensor) -> None:
    branch, loss = LOSSES[name]
    model = Heads()
    compiled = memplan.compile(model, "60%", on_infeasible="smallest", time_limit=2)
    got, expected = (
        torch.autograd.grad(loss(call(x, branch)), list(model.parameters()), allow_unused=True) for call in (compiled, model)
    )
    assert equal(list(got), list(expected))
    if any(g is None for g in expected):
        with pytest.raises(RuntimeError, match="not have been used in the graph"):
            torch.autograd.grad(loss(compiled(x, branch)), list(model.parameters()))


def test_a_step_that_uses_one_head_stays_within_the_plan(x: torch.Tensor) -> None:
    model = Heads()
    compiled = memplan.compile(model, "floor+30%", on_infeasible="smallest", time_limit=2)

    def step() -> None:
        a, _b, _hidden = compiled(x)
        a.backward(torch.ones_like(a))

    step()
    model.zero_grad()
    assert static_bytes(model, (x,)) + peak_of_call(step) <= compiled.memplan.planned_bytes
