"""Calls that memplan does not plan: results as in eager PyTorch, after one warning."""

from __future__ import annotations

import builtins
import copy
import functools
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import networks
import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacrev, jvp, vmap
from torch.utils.flop_counter import FlopCounterMode

import memplan

WIDTH = 8
Habit = Callable[[Any, nn.Module, torch.Tensor], Any]


class Squared(nn.Module):
    """A loss of some layers."""

    def __init__(self, *between: nn.Module) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(3):
            layers += [nn.Linear(WIDTH, WIDTH), *(copy.deepcopy(b) for b in between), nn.Tanh()]
        self.body = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x).pow(2).sum()


class Branches(Squared):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.body(x)
        if h.sum().item() > 0:  # the line
            h = h * 2
        return h.pow(2).sum()


class Prints(Squared):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.body(x)
        builtins.print(float(h.detach().sum()))  # the line
        return h.pow(2).sum()


class Differentiates(Squared):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()  # before PyTorch 2.15 this is the line
        h = self.body(x).sum()
        return h + torch.autograd.grad(h, x, create_graph=True)[0].pow(2).sum()  # the line


class Several(Squared):
    """Outputs that are views of each other."""

    def forward(self, x: torch.Tensor) -> Any:
        h = self.body(x)
        return h, h[:, 0], h.t().sum(1)


def batch() -> torch.Tensor:
    return torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(1))


def parameters_of(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.detach() for name, p in module.named_parameters()}


def step(model: Any, module: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    module.zero_grad()
    loss = model(x)
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in module.parameters() if p.grad is not None)]


def per_sample(model: Any, module: nn.Module, x: torch.Tensor) -> Any:
    one = lambda p, row: functional_call(model, p, (row[None],))  # noqa: E731
    return list(vmap(grad(one), in_dims=(None, 0))(parameters_of(module), x).values())


def dual(model: Any, module: nn.Module, x: torch.Tensor) -> Any:
    with forward_ad.dual_level():
        made = forward_ad.unpack_dual(model(forward_ad.make_dual(x, torch.ones_like(x))))
        return [t.detach().clone() for t in made]


def counted(model: Any, module: nn.Module, x: torch.Tensor) -> Any:
    with FlopCounterMode(display=False) as counter:
        results = step(model, module, x)
    return [*results, torch.tensor(counter.get_total_flops())]


AROUND: dict[str, tuple[Habit, str]] = {
    "grad": (lambda m, s, x: [grad(m)(x)], "inside torch.func.grad"),
    "grad of parameters": (
        lambda m, s, x: list(grad(lambda p: functional_call(m, p, (x,)))(parameters_of(s)).values()),
        "inside torch.func.grad",
    ),
    "vmap": (lambda m, s, x: [vmap(lambda z: m(z[None]))(x)], "inside torch.func.vmap"),
    "per-sample gradients": (per_sample, "inside torch.func.grad"),
    "jvp": (lambda m, s, x: list(jvp(m, (x,), (torch.ones_like(x),))), "inside torch.func.jvp"),
    "jacrev": (lambda m, s, x: [jacrev(m)(x)], "inside torch.func.grad"),
    "hessian": (lambda m, s, x: [hessian(m)(x)], "inside torch.func.grad"),
    "forward mode": (dual, "inside forward-mode"),
    "flop counter": (counted, "FlopCounterMode"),
}


def assert_equal(expected: Any, got: Any) -> None:
    assert len(expected) == len(got) > 0
    for k, (a, b) in enumerate(zip(expected, got)):
        assert (a is None) == (b is None) and (a is None or torch.equal(a, b)), f"result {k} of {len(expected)}"


def run_both(habit: Habit, model: nn.Module, **options: Any) -> tuple[Any, list[str], Any]:
    """What a habit comes to where memplan has compiled; the sentences; and what it comes to in eager PyTorch."""
    eager = copy.deepcopy(model)
    compiled = memplan.compile(model, "100%", time_limit=0, cache="off", **options)
    torch.manual_seed(5)
    expected = [*habit(eager, eager, batch()), torch.rand(2), *eager.buffers()]
    torch.manual_seed(5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = [*habit(compiled, model, batch()), torch.rand(2), *model.buffers()]
    return got, [str(w.message) for w in caught if issubclass(w.category, memplan.FallbackWarning)], expected


@pytest.mark.parametrize("name", AROUND)
def test_what_is_called_inside_a_transformation_is_eager_and_said(name: str) -> None:
    habit, sentence = AROUND[name]
    got, said, expected = run_both(
        lambda m, s, x: [*step(m, s, x), *habit(m, s, x), *habit(m, s, x), *step(m, s, x)], Squared()
    )
    assert_equal(expected, got)
    assert len(said) == 1 and "memplan runs" in said[0] and sentence in said[0]


@pytest.mark.parametrize(
    "make", [Branches, Prints, Differentiates, functools.partial(Squared, nn.BatchNorm1d(WIDTH, momentum=None))]
)
def test_what_pytorch_does_not_capture_is_eager_and_its_line_is_named(make: Any) -> None:
    got, said, expected = run_both(lambda m, s, x: step(m, s, x) + step(m, s, x), make())
    assert_equal(expected, got)
    assert len(said) == 1
    first, _, below = said[0].partition("\n\nPyTorch says:\n")
    assert first.startswith("memplan runs ") and f"{__file__}:" in first and below
    if make in (Branches, Prints, Differentiates):
        line = int(first.partition(f"{__file__}:")[2].split()[0])
        with open(__file__, encoding="utf-8") as source:
            assert source.read().splitlines()[line - 1].endswith("the line")


def test_what_the_model_raises_is_raised() -> None:
    class Raises(Squared):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("of the user")

    with pytest.warns(memplan.FallbackWarning), pytest.raises(ValueError, match="of the user"):
        memplan.compile(Raises(), "100%", cache="off")(batch())


def test_an_estimate_of_what_is_not_captured_is_a_sentence() -> None:
    with pytest.raises(memplan.MemplanError, match=r"cannot capture .*test_eagerly.py:\d+"):
        memplan.estimate(Branches(), (batch(),))


def late(register: Callable[[nn.Module], Any]) -> Habit:
    """A hook that comes after the first step and goes before the third."""

    def habit(model: Any, module: nn.Module, x: torch.Tensor) -> Any:
        first = step(model, module, x)
        handle = register(module.body[3])
        second = step(model, module, x)
        handle.remove()
        return [*first, *second, *step(model, module, x)]

    return habit


LATE: dict[str, tuple[Callable[[nn.Module], Any], int]] = {
    "forward": (lambda m: m.register_forward_hook(lambda *a: a[2] * 2), 0),
    "before forward": (lambda m: m.register_forward_pre_hook(lambda *a: (a[1][0] * 2,)), 0),
    "backward": (lambda m: m.register_full_backward_hook(lambda *a: (a[1][0] * 2,)), 2),
    "before backward": (lambda m: m.register_full_backward_pre_hook(lambda *a: (a[1][0] * 2,)), 2),
}


@pytest.mark.parametrize("name", LATE)
def test_hooks_that_come_after_the_first_step_are_called(name: str) -> None:
    register, n_sentences = LATE[name]
    got, said, expected = run_both(late(register), Squared())
    assert_equal(expected, got)
    assert len(said) == n_sentences
    assert [s.startswith("memplan plans Squared from this call on") for s in said] == [False, True][:n_sentences]


def penalty(model: Any, module: nn.Module, x: torch.Tensor, steps: int = 3) -> list[Any]:
    """Steps whose loss is the gradient of the model's, as far as they are the same sum."""
    results = []
    for _ in range(steps):
        x = x.detach().requires_grad_()
        gradient = torch.autograd.grad(model(x), x, create_graph=True)[0]
        module.zero_grad()
        gradient.pow(2).sum().backward()
        results += [None if p.grad is None else p.grad.clone() for p in module.parameters()]
    return results


def together(model: Any, module: nn.Module, x: torch.Tensor) -> list[Any]:
    """A gradient penalty beside the loss: from the second step on in eager's order."""
    results = []
    for k in range(3):
        module.zero_grad()
        x = x.detach().requires_grad_()
        loss = model(x)
        (loss + torch.autograd.grad(loss, x, create_graph=True)[0].pow(2).sum()).backward()
        if k > 0:
            results += [p.grad.clone() for p in module.parameters() if p.grad is not None]
    return results


def curvature(model: Any, module: nn.Module, x: torch.Tensor) -> Any:
    weights = list(module.parameters())
    gradients = torch.autograd.grad(model(x), weights, create_graph=True)
    return torch.autograd.grad(gradients, weights, [torch.ones_like(g) for g in gradients], allow_unused=True)


def sometimes(model: Any, module: nn.Module, x: torch.Tensor) -> Any:
    return [*step(model, module, x), *curvature(model, module, x), *step(model, module, x), *step(model, module, x)]


def of_views(model: Any, module: nn.Module, x: torch.Tensor) -> Any:
    x = x.detach().requires_grad_()
    for _ in range(2):  # the second in eager's order
        a, b, c = model(x)
        gradient = torch.autograd.grad(a.pow(2).sum() + b.sum() * 3 + c.pow(3).sum(), x, create_graph=True)[0]
    return torch.autograd.grad(gradient.pow(2).sum(), list(module.parameters()), allow_unused=True)


def kept_for_later(model: Any, module: nn.Module, x: torch.Tensor) -> Any:
    x = x.detach().requires_grad_()
    loss = model(x)
    loss.backward(retain_graph=True)
    gradient = torch.autograd.grad(loss, x, create_graph=True)[0]
    return torch.autograd.grad(gradient.pow(2).sum(), list(module.parameters()), allow_unused=True)


def in_bf16(model: Any, module: nn.Module, x: torch.Tensor) -> Any:
    x = x.detach().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(x)
    gradient = torch.autograd.grad(loss.float(), x, create_graph=True)[0]
    return torch.autograd.grad(gradient.pow(2).sum(), list(module.parameters()), allow_unused=True)


TWICE: dict[str, tuple[Habit, Callable[[], nn.Module]]] = {
    "penalty": (penalty, Squared),
    "penalty beside the loss": (together, Squared),
    "penalty with dropout": (penalty, lambda: Squared(nn.Dropout(0.3))),
    "penalty with running statistics": (penalty, lambda: Squared(nn.BatchNorm1d(WIDTH))),
    "Hessian times a vector": (curvature, lambda: Squared(nn.Dropout(0.3))),
    "Hessian now and then": (sometimes, Squared),
    "functional.hvp": (lambda m, s, x: list(torch.autograd.functional.hvp(m, x, torch.ones_like(x))), Squared),
    "functional.hessian": (lambda m, s, x: [torch.autograd.functional.hessian(m, x, vectorize=True)], Squared),
    "outputs that are views": (of_views, Several),
    "after a backward that keeps": (kept_for_later, Squared),
    "autocast": (in_bf16, Squared),
}


KEEP_MORE = {"Hessian now and then", "after a backward that keeps"}  # gradients or a graph, which the budget has no room for


@pytest.mark.parametrize("name", TWICE)
def test_a_gradient_is_differentiated_as_by_eager_and_that_is_said(name: str) -> None:
    habit, make = TWICE[name]
    torch.manual_seed(0)
    got, said, expected = run_both(habit, make())
    assert_equal(expected, got)
    assert sum("create_graph=True" in s for s in said) == 1
    assert len(said) == 1 or name in KEEP_MORE, said


def test_a_step_may_keep_its_graph_though_the_first_has_not() -> None:
    def habit(model: Any, module: nn.Module, x: torch.Tensor) -> Any:
        first = step(model, module, x)
        module.zero_grad()
        loss = model(x)
        loss.backward(retain_graph=True)
        loss.backward()
        return [*first, *(p.grad for p in module.parameters())]

    got, said, expected = run_both(habit, Squared(nn.Dropout(0.3)))
    assert_equal(expected, got)
    assert "1 call keeps" in said[0] and all("beyond the budget" in s for s in said), "it is beside the second backward"


def test_a_gradient_that_cannot_be_differentiated_is_refused_in_our_words() -> None:
    compiled, x = memplan.compile(model := Squared(), "100%", cache="off"), batch().requires_grad_()
    loss = compiled(x)
    with torch.no_grad():
        model.body[0].bias.mul_(2)
    with pytest.raises(memplan.MemplanError, match="been modified since"), pytest.warns(memplan.FallbackWarning):
        torch.autograd.grad(loss, x, create_graph=True)


class Shifted(nn.Module):
    """Whose backward reads nothing of forward."""

    def __init__(self, doubles: bool = False) -> None:
        super().__init__()
        self.shift, self.doubles = nn.Parameter(torch.ones(WIDTH)), doubles

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.doubles:
            x.mul_(2)
        return (x + self.shift).sum()


def test_what_is_gone_or_written_over_is_not_differentiated_from_other_values() -> None:
    def refusal(module: nn.Module, keeps: bool) -> str:
        compiled = memplan.compile(module, "100%", cache="off")
        given = leaf.clone()
        loss = compiled(given)
        if not keeps:
            del given
        with pytest.raises(memplan.MemplanError) as caught, pytest.warns(memplan.FallbackWarning):
            torch.autograd.grad(loss, leaf, create_graph=True)
        return str(caught.value)

    leaf = batch().requires_grad_()
    assert "an input was deleted" in refusal(Shifted(), keeps=False)
    assert "writes into an input that requires a gradient" in refusal(Shifted(doubles=True), keeps=True)


def test_a_planned_step_keeps_nothing_of_its_inputs() -> None:
    model, inputs = networks.make("convolutions")
    compiled = memplan.compile(model, "100%", time_limit=0, cache="off")
    loss = compiled(*inputs)
    loss.backward()
    gone = weakref.ref(inputs[0])
    del inputs
    assert gone() is None and loss.grad_fn is not None


def test_a_hook_on_all_modules_is_called_and_that_is_said() -> None:
    def habit(model: Any, module: nn.Module, x: torch.Tensor) -> Any:
        seen: list[torch.Tensor] = []
        handle = nn.modules.module.register_module_forward_hook(lambda _, __, out: seen.append(out.detach().sum()))
        results = step(model, module, x)
        handle.remove()
        return [*results, *seen]

    got, said, expected = run_both(habit, Squared())
    assert_equal(expected, got)
    assert len(said) == 1 and "a hook on all modules" in said[0]


def test_what_is_traced_is_the_function_and_that_is_said() -> None:
    compiled = memplan.compile(lambda x: x.sin() * 2, "100%", cache="off")
    with pytest.warns(memplan.FallbackWarning, match="while another tool traces it"):
        assert "sin" in torch.fx.symbolic_trace(compiled).code
