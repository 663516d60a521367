"""Habits of calling: numbers that change, several calls, what is under transforms, what cannot be captured."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from habits.trial import WARNS, CutBlock, Net, Scores, Trial, habit, pair, train

CALLS = "calls"


@habit(CALLS, "a step counter passed as a Python number")
def counted(t: Trial) -> None:
    class Counting(Net):
        def forward(self, x: torch.Tensor, y: torch.Tensor, step: int) -> torch.Tensor:  # type: ignore[override]
            return super().forward(x, y) / (step + 1)

    model = Counting()
    compiled = t.compile(model, "1MiB")
    for k in range(5):
        compiled(*pair(k), 10 * k).backward()
    t.keep_state(model)


@habit(CALLS, "a loss weight passed as a Python number, larger in each step")
def weighed(t: Trial) -> None:
    class Weighed(Net):
        def forward(self, x: torch.Tensor, y: torch.Tensor, weight: float) -> torch.Tensor:  # type: ignore[override]
            return super().forward(x, y) * weight

    model = Weighed()
    compiled = t.compile(model, "1MiB")
    for k in range(5):
        compiled(*pair(k), 0.1 + 0.25 * k).backward()
    t.keep_state(model)


@habit(CALLS, "batches of several sizes")
def lengths(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model, "1MiB")
    for rows in (16, 24, 40, 16, 56):
        compiled(*pair(1, rows)).backward()
    t.keep_state(model)


@habit(CALLS, "a gradient penalty (`create_graph=True`)", WARNS, "a gradient of a gradient")
def penalty(t: Trial) -> None:
    model = Scores(0.0, 2)
    compiled = t.compile(model, "1MiB")
    x = pair()[0].requires_grad_()
    (slope,) = torch.autograd.grad(compiled(x).square().sum(), x, create_graph=True)
    slope.square().mean().backward()
    t.keep("slope", slope)
    t.keep("parameter's gradient", model.head.weight.grad)


@habit(CALLS, "full backward hooks", WARNS, "without a plan: PyTorch cannot capture")
def backward_hooks(t: Trial) -> None:
    model = Net()
    seen: list[torch.Tensor] = []
    model.head.register_full_backward_hook(lambda _, __, out: seen.append(out[0].clone()))
    compiled = t.compile(model)
    compiled(*pair()).backward()
    t.keep("seen", *seen)
    t.keep_state(model)


@habit(CALLS, "a branch by `item()`", WARNS, "without a plan: PyTorch cannot capture")
def branched(t: Trial) -> None:
    class Branched(Net):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            h = self.features(x)
            return F.mse_loss(h if h.sum().item() > 0 else -h, y)

    model = Branched()
    compiled = t.compile(model)
    compiled(*pair()).backward()
    t.keep_state(model)


@habit(
    CALLS,
    "per-sample gradients by `torch.func`",
    WARNS,
    "without a plan: it is called inside torch.func",
)
def per_sample(t: Trial) -> None:
    model = Scores(0.0, 2)
    compiled = t.compile(model, "1MiB")
    parameters = {n: p.detach() for n, p in model.named_parameters()}

    def loss(p: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(compiled, p, (x[None],)).square().sum()

    found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, pair(1, 8)[0])
    t.keep("gradient", *found.values())


@habit(CALLS, "two calls, then one backward")
def two_calls(t: Trial) -> None:
    model = Scores()
    compiled = t.compile(model, "2MiB")
    for k in range(3):
        x, y = pair(k)
        model.zero_grad()
        F.mse_loss(compiled(x), compiled(y)).backward()
    t.keep_state(model)


@habit(CALLS, "two calls; the second runs backward first")
def crossed(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model, "2MiB")
    a, b = compiled(*pair(1)), compiled(*pair(2))
    b.backward()
    a.backward()
    t.keep_state(model)


@habit(CALLS, "two backward passes of one loss (`retain_graph=True`)")
def twice(t: Trial) -> None:
    model = Net()
    loss = t.compile(model, "2MiB")(*pair())
    loss.backward(retain_graph=True)
    loss.backward()
    t.keep_state(model)


@habit(CALLS, "a graph break in a loop over blocks, `fullgraph=False`", WARNS, "runs a part of Loop eagerly")
def broken(t: Trial) -> None:
    class Loop(Net):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(CutBlock() for _ in range(6))

    model = Loop()
    compiled = t.compile(model, "1MiB", fullgraph=False)
    for k in range(3):
        model.zero_grad()
        compiled(*pair(k)).backward()
    t.keep_state(model)


@habit(CALLS, "a custom operator that draws random numbers", WARNS, "is a custom operator. It runs once")
def custom_random(t: Trial) -> None:
    noise = torch.library.custom_op("habits::noise", mutates_args=())(noisy)
    noise.register_fake(torch.empty_like)
    noise.register_autograd(lambda _, g: g)

    class Noisy(Net):
        def features(self, x: torch.Tensor) -> torch.Tensor:
            return super().features(noise(x) * x)

    train(t, Noisy())


def noisy(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand_like(x)


@habit(CALLS, "`zero_grad(set_to_none=False)`; `accumulate=True` counts the zeroed gradients")
def zeros_kept(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model, accumulate=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for k in range(3):
        optimizer.zero_grad(set_to_none=False)
        compiled(*pair(k)).backward()
        optimizer.step()
    t.keep_state(model)
