"""Surroundings of a call in which a plan's bits may differ from eager PyTorch: one warning per cause, and no other warning."""

from __future__ import annotations

import contextlib
import copy
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from test_eagerly import WIDTH, Squared, assert_equal, batch, step
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.nn.utils import parametrizations, parametrize

import memplan


class Generates(Squared):
    def forward(self, x: torch.Tensor) -> Iterator[torch.Tensor]:  # type: ignore[override]
        for layer in self.body:
            x = layer(x)
            yield x


class Gru(nn.Module):
    def __init__(self, both_ways: bool) -> None:
        super().__init__()
        self.gru = nn.GRU(WIDTH, WIDTH, bidirectional=both_ways)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gru(x[:, None])[0].pow(2).sum()


def parametrized() -> nn.Module:
    model = Squared()
    parametrizations.weight_norm(model.body[0])
    return model


def twice_within(region: Callable[[], contextlib.AbstractContextManager[Any]], each: bool = False) -> Callable[[Any], Any]:
    """Two calls in one region, or each in its own."""

    def run(model: Any) -> None:
        outer, inner = (contextlib.nullcontext, region) if each else (region, contextlib.nullcontext)
        with outer():
            losses = []
            for k in (1, 2):
                with inner():
                    losses.append(model(batch() * k))
        sum(losses).backward()

    return run


def autocast() -> Any:
    return torch.autocast("cpu", torch.bfloat16)


def uncached() -> Any:
    return torch.autocast("cpu", torch.bfloat16, cache_enabled=False)


def rounded() -> Any:
    return saved_tensors_hooks(lambda t: t.bfloat16() if t.is_floating_point() else t, lambda t: t.float())


def with_gradient(strides: tuple[int, int]) -> Callable[[Any], Any]:
    return lambda model: model(batch()).backward(torch.empty_strided((4, WIDTH), strides).fill_(1))


def in_one_region(steps: bool) -> Callable[[Any], Any]:
    """Each call has its backward before the next one. `steps`: and weights change."""

    def run(model: Any) -> None:
        with autocast():
            for k in (1, 2):
                model(batch() * k).backward()
                if steps:
                    torch.optim.SGD(model.parameters(), 0.1).step()

    return run


def read_by(loss: Callable[[torch.Tensor], torch.Tensor], *shape: int) -> Callable[[Any], Any]:
    return lambda model: loss(model(torch.linspace(-1, 1, math.prod(shape)).reshape(shape))).backward()


def beside_itself(h: torch.Tensor) -> torch.Tensor:
    """Its gradient is a part of a larger tensor."""
    return torch.cat([h, h.detach()], 1).pow(2).mean()


def on_pixels(*after: nn.Module, window: int = 3) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Conv2d(3, 8, window), *after)


def as_classes(h: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(h.transpose(1, 2), torch.zeros(h.shape[:2], dtype=torch.long))


def layers() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))


def generated(model: Any) -> None:
    sum(h.pow(2).sum() for h in model(batch())).backward()


OTHERWISE: dict[str, tuple[Callable[[], nn.Module], Callable[[Any], Any], str]] = {
    "hooks": (Squared, twice_within(rounded), "saved_tensors_hooks"),
    "hooks of PyTorch's": (Squared, twice_within(save_on_cpu), ""),
    "one region of autocast": (Squared, twice_within(autocast), "one region of torch.autocast"),
    "a backward of each in one region": (Squared, in_one_region(False), ""),
    "steps in one region": (Squared, in_one_region(True), "one region of torch.autocast"),
    "two regions of autocast": (Squared, twice_within(autocast, each=True), ""),
    "autocast without its cache": (Squared, twice_within(uncached), ""),
    "cached parametrizations": (parametrized, twice_within(parametrize.cached), "parametrize.cached"),
    "parametrizations": (parametrized, twice_within(contextlib.nullcontext), ""),
    "a cache of nothing": (Squared, twice_within(parametrize.cached), ""),
    "a generator": (Generates, generated, "generator"),
    "a GRU both ways": (lambda: Gru(True), lambda m: m(batch()).backward(), "bidirectional GRU"),
    "a GRU": (lambda: Gru(False), lambda m: m(batch()).backward(), ""),
    "a transposed gradient": (layers, with_gradient((1, 4)), "another layout than the output"),
    "transposed logits": (layers, read_by(as_classes, 3, 5, WIDTH), ""),
    "transposed logits of one sample": (layers, read_by(as_classes, 1, 5, WIDTH), "another layout than the output"),
    "batch second": (layers, read_by(lambda h: h.transpose(0, 1).pow(2).mean(), 3, 5, WIDTH), ""),
    "a part of a row": (layers, read_by(beside_itself, 5, WIDTH), ""),
    "channels last": (on_pixels(), read_by(lambda h: h.permute(0, 2, 3, 1).reshape(-1, 8).pow(2).mean(), 2, 3, 9, 9), ""),
    "channels of a window of 1": (on_pixels(window=1), read_by(beside_itself, 2, 3, 9, 9), "another layout than the output"),
    "channels of BatchNorm": (
        on_pixels(nn.BatchNorm2d(8)),
        read_by(beside_itself, 2, 3, 9, 9),
        "another layout than the output",
    ),
    "a gradient of ones": (layers, with_gradient((WIDTH, 1)), ""),
    "an expanded gradient": (layers, lambda m: m(batch()).sum().backward(), ""),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_other_bits_are_told_of_once(name: str) -> None:
    make, run, word = OTHERWISE[name]
    model = make()
    eager = copy.deepcopy(model)
    memplan.compile(model, "100%", time_limit=0, cache="off")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            model.zero_grad()
            run(model)
    said = [s for w in caught if "may differ from eager's" in (s := str(w.message))]
    assert len(said) == bool(word) and all(word in s for s in said), said
    assert model.memplan.graphs
    for _ in range(0 if word else 3):
        eager.zero_grad()
        run(eager)
    assert word or all(torch.equal(a.grad, b.grad) for a, b in zip(eager.parameters(), model.parameters(), strict=True))


def test_running_eagerly_is_withdrawn_when_a_call_is_planned() -> None:
    class Switches(Squared):
        is_odd = True

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.body(x)
            if self.is_odd:
                h = h * h.sum().item() if h.sum().item() > 0 else h
            return h.pow(2).sum()

    model = Switches()
    eager = copy.deepcopy(model)
    compiled = memplan.compile(model, "100%", time_limit=0, cache="off")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        step(compiled, model, batch())
        assert model.memplan.fallbacks and not model.memplan.graphs
        model.is_odd = eager.is_odd = False
        got = step(compiled, model, batch())
        assert_equal(step(eager, eager, batch()), got)
        assert model.memplan.graphs and not model.memplan.fallbacks
        for is_odd in (True, False, True):
            model.is_odd = is_odd
            step(compiled, model, batch())
            assert bool(model.memplan.fallbacks) == is_odd
    said = [str(w.message) for w in caught]
    assert sum("runs Switches eagerly" in s for s in said) == sum("plans Switches from this call on" in s for s in said) == 1


def test_a_gradient_penalty_has_one_sentence_per_cause_and_model() -> None:
    critic, maker = layers(), layers()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for model in (critic, maker):
            memplan.compile(model, "100%", time_limit=0, cache="off")
        for _ in range(3):
            fake = maker(batch())
            mixed = fake.detach().requires_grad_()
            slope = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
            critic.zero_grad()
            (critic(fake.detach()).mean() - critic(batch()).mean() + slope.pow(2).mean()).backward()
            maker.zero_grad()
            (-critic(maker(batch())).mean()).backward()
    said = [str(w.message) for w in caught if issubclass(w.category, memplan.FallbackWarning)]
    causes = ("keeps", "keep", "used outside", "no smaller plan", "create_graph", "already exist")
    assert 0 < len(said) <= 2 * (len(causes) - 1)
    assert sum("no smaller plan was found" in s for s in said) <= 2
