"""Tensors that begin to require a gradient in forward: planned with eager's gradients, or run eagerly with a remedy."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import memplan

WIDTH = 16
Forward = Callable[["Net", Any], Any]


class Net(nn.Module):
    """Frozen layers, and behind them layers that are trained. `way` is what the case does."""

    def __init__(self, way: Forward) -> None:
        super().__init__()
        self.words = nn.Embedding(50, WIDTH).requires_grad_(False)
        self.frozen = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.way = way

    def run(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = nn.functional.gelu(block(x))
        return x

    def forward(self, given: Any) -> Any:
        return self.way(self, given)


def started(x: torch.Tensor) -> torch.Tensor:
    return x.requires_grad_()


def by_attribute(x: torch.Tensor) -> torch.Tensor:
    x.requires_grad = True
    return x


def loss(net: Net, x: torch.Tensor) -> torch.Tensor:
    return net.run(x).square().mean()


def with_hidden(net: Net, words: torch.Tensor) -> Any:
    x = started(net.words(words))
    hidden = net.frozen(x)
    return loss(net, hidden), hidden


def with_view(net: Net, words: torch.Tensor) -> Any:
    x = started(net.words(words))
    return loss(net, x), x[:, :4]


def with_itself(net: Net, words: torch.Tensor) -> Any:
    x = started(net.words(words))
    return loss(net, x), x


def stored(net: Net, words: torch.Tensor) -> torch.Tensor:
    net.kept = started(net.words(words))
    return loss(net, net.kept)


def read_before(net: Net, x: torch.Tensor) -> torch.Tensor:
    doubled = x * 2
    return loss(net, started(x) + doubled)


def while_training(net: Net, x: torch.Tensor) -> torch.Tensor:
    return loss(net, started(x) if net.training else x)


def all_frozen(net: Net, words: torch.Tensor) -> torch.Tensor:
    return net.frozen(started(net.words(words))).square().mean()


def words() -> torch.Tensor:
    return torch.randint(0, 50, (32,), generator=torch.Generator().manual_seed(1))


def numbers() -> torch.Tensor:
    return torch.randn(32, WIDTH, generator=torch.Generator().manual_seed(1))


PLANNED: dict[str, tuple[Forward, Callable[[], Any]]] = {
    "a layer's result": (lambda n, w: loss(n, started(n.words(w))), words),
    "a layer's result, by attribute": (lambda n, w: loss(n, by_attribute(n.words(w))), words),
    "and an output is computed from it": (with_hidden, words),
    "and an output is a view of it": (with_view, words),
    "behind detach": (lambda n, x: loss(n, started(n.blocks[0](x).detach())), numbers),
    "before a checkpoint": (lambda n, w: loss(n, checkpoint(n.run, started(n.words(w)), use_reentrant=False)), words),
    "before a reentrant checkpoint": (lambda n, w: loss(n, checkpoint(n.run, started(n.words(w)), use_reentrant=True)), words),
    "an input": (lambda n, x: loss(n, started(x)), numbers),
    "an input whose shape was read": (lambda n, x: loss(n, started(x)) * x.shape[0] if len(x) else x, numbers),
    "an input in a dictionary": (lambda n, x: loss(n, started(x["x"])), lambda: {"x": numbers()}),
    "an input while training": (while_training, numbers),
    "an input, twice": (lambda n, x: loss(n, started(x)) + loss(n, started(x)), numbers),
    "an input that had it already": (lambda n, x: loss(n, started(x)), lambda: numbers().requires_grad_()),
}
EAGER: dict[str, tuple[Forward, Callable[[], Any]]] = {
    "a result that is returned": (with_itself, words),
    "a result that is stored": (stored, words),
    "an input that was read before": (read_before, numbers),
    "an input, by attribute": (lambda n, x: loss(n, by_attribute(x)), numbers),
    "an input that requires it no more": (lambda n, x: loss(n, x.requires_grad_(False)), lambda: numbers().requires_grad_()),
    "nothing else requires a gradient": (all_frozen, words),
}


def steps(model: nn.Module, make: Callable[[], Any]) -> list[Any]:
    """All that a user can read after each of three steps, the second of which is in evaluation and ends in another output."""
    found: list[Any] = []
    for k in range(3):
        model.train(k != 1)
        model.zero_grad()
        given = make()
        results = model(given)
        outputs = [results] if isinstance(results, torch.Tensor) else list(results)
        (outputs[-1].sum() if k == 1 else outputs[0]).backward()
        inputs = given.values() if isinstance(given, dict) else [given]
        for t in (*outputs, *inputs, *([model.kept] if hasattr(model, "kept") else [])):
            gradient = t.grad.clone() if t.is_leaf and t.grad is not None else None
            found += [t.detach().clone(), t.requires_grad, t.is_leaf, gradient]
        found += [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    return found


def assert_same(expected: list[Any], got: list[Any]) -> None:
    assert len(expected) == len(got)
    for k, (a, b) in enumerate(zip(expected, got)):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a is b, f"result {k}"


def run_both(way: Forward, make: Callable[[], Any], **options: Any) -> tuple[nn.Module, list[str]]:
    torch.manual_seed(0)
    model = Net(way)
    eager = copy.deepcopy(model)
    memplan.compile(model, "min+50%", cache="off", accumulate=True, reserve="64KiB", **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = steps(model, make)
    assert_same(steps(eager, make), got)
    return model, [str(w.message) for w in caught if issubclass(w.category, memplan.FallbackWarning)]


@pytest.mark.parametrize("name", PLANNED)
def test_it_is_planned_with_eagers_gradients(name: str) -> None:
    model, said = run_both(*PLANNED[name])
    assert model.memplan.graphs and not model.memplan.fallbacks and said == []


@pytest.mark.parametrize("name", EAGER)
def test_it_runs_eagerly_where_a_gradient_would_be_lost_and_the_remedy_is_named(name: str) -> None:
    model, said = run_both(*EAGER[name])
    assert not model.memplan.graphs and len(said) == 1
    assert "memplan runs Net eagerly" in said[0] and "call requires_grad_() before the model is called" in said[0]


@pytest.mark.parametrize("name", ["a layer's result", "an input"])
def test_graph_breaks_do_not_change_it(name: str) -> None:
    way, make = PLANNED[name]

    def broken(net: Net, given: Any) -> Any:
        torch._dynamo.graph_break()
        return way(net, given)

    run_both(broken, make, fullgraph=False)


def test_a_parameter_is_planned_from_the_second_step_on() -> None:
    model, _ = run_both(lambda n, w: loss(n, n.frozen.requires_grad_()(n.words(w))), words)
    assert model.memplan.graphs


def test_other_compilers_captures_are_pytorchs() -> None:
    net = Net(with_hidden)
    memplan.compile(Net(with_hidden), "min", cache="off")(words())
    with pytest.raises(torch._dynamo.exc.TorchDynamoException, match="requires_grad"):
        torch.compile(net, backend="aot_eager", fullgraph=True)(words())


def test_an_estimate_leaves_inputs_as_they_are() -> None:
    x = numbers()
    assert memplan.estimate(Net(lambda n, x: loss(n, started(x))), (x,), cache="off").planned_bytes > 0
    assert not x.requires_grad
