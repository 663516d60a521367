"""Habits of losses and gradients."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from habits.trial import WARNS, Net, Scores, Trial, habit, pair, train

GRADIENTS = "losses and gradients"


@habit(GRADIENTS, "the loss computed outside of the model")
def loss_outside(t: Trial) -> None:
    model = Scores()
    compiled = t.compile(model)
    for k in range(2):
        x, y = pair(k)
        model.zero_grad()
        F.mse_loss(compiled(x), y).backward()
    t.keep_state(model)


@habit(GRADIENTS, "gradients by `torch.autograd.grad`")
def by_grad(t: Trial) -> None:
    model = Net()
    loss = t.compile(model)(*pair())
    t.keep("gradient", *torch.autograd.grad(loss, list(model.parameters())))


@habit(GRADIENTS, "the gradient of the input")
def input_gradient(t: Trial) -> None:
    model = Net()
    x, y = pair()
    x.requires_grad_()
    t.compile(model)(x, y).backward()
    t.keep("gradient of the input", x.grad)
    t.keep_state(model)


@habit(GRADIENTS, "hooks on parameters' gradients")
def parameter_hooks(t: Trial) -> None:
    model = Net()
    for p in model.parameters():
        p.register_hook(lambda g: 2 * g)
    train(t, model, 2)


@habit(GRADIENTS, "post-accumulate hooks that run the optimizer's step")
def accumulated_hooks(t: Trial) -> None:
    model = Net()
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

    def step(p: nn.Parameter) -> None:
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)
    compiled = t.compile(model)
    for k in range(2):
        compiled(*pair(k)).backward()
    t.keep_state(model)


@habit(GRADIENTS, "a loss weight that is a tensor")
def weighted(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model)
    for k in range(2):
        model.zero_grad()
        (compiled(*pair(k)) * torch.tensor(0.1 * k)).backward()
    t.keep_state(model)


class TwoHeads(Scores):
    """A second head, which a loss may leave alone."""

    def __init__(self) -> None:
        super().__init__()
        self.second = nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
        h = self.features(x)
        return h, self.second(h)


@habit(GRADIENTS, "two heads, one loss from both", WARNS, "are used outside of the model")
def both_heads(t: Trial) -> None:
    model = TwoHeads()
    a, b = t.compile(model)(pair()[0])
    (a.square().mean() + b.square().mean()).backward()
    t.keep_state(model)


@habit(
    GRADIENTS,
    "an output that nobody used: its head's gradients are None",
    WARNS,
    "are used outside of the model",
)
def unused_head(t: Trial) -> None:
    model = TwoHeads()
    compiled = t.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for k in range(3):
        optimizer.zero_grad()
        compiled(pair(k)[0])[0].square().mean().backward()
        optimizer.step()
    t.keep_state(model)


@habit(GRADIENTS, "two heads, used in alternate steps", WARNS, "are used outside of the model")
def heads_in_turns(t: Trial) -> None:
    model = TwoHeads()
    compiled = t.compile(model)
    for k in range(3):
        model.zero_grad()
        compiled(pair(k)[0])[k % 2].square().mean().backward()
        t.keep_state(model)


@habit(GRADIENTS, "the output overwritten between forward and backward", WARNS, "are used outside of the model")
def output_written(t: Trial) -> None:
    model = Scores()
    x, y = pair()
    out = t.compile(model)(x)
    loss = F.mse_loss(out.clone(), y)
    with torch.no_grad():
        out.zero_()
    loss.backward()
    t.keep_state(model)


@habit(GRADIENTS, "a view of the output clamped in place for a log")
def view_written(t: Trial) -> None:
    model = Scores()
    out = t.compile(model)(pair()[0])
    loss = out.exp().sum()
    out.detach()[:, 0].clamp_(0, 1)
    loss.backward()
    t.keep_state(model)


@habit(GRADIENTS, "a custom `autograd.Function` inside the model")
def own_function(t: Trial) -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: object, g: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return g * 3

    class Own(Net):
        def features(self, x: torch.Tensor) -> torch.Tensor:
            return super().features(Double.apply(x))

    train(t, Own(), 2)


@habit(GRADIENTS, "gradients set to None by hand")
def none_by_hand(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model)
    for k in range(2):
        for p in model.parameters():
            p.grad = None
        compiled(*pair(k)).backward()
    t.keep_state(model)
