"""Habits of precision, dropout and recurrent layers."""

from __future__ import annotations

import functools

import torch
from torch import nn

from habits.trial import WIDTH, Net, Trial, habit, pair, train

PRECISION = "precision"
autocast = functools.partial(torch.autocast, "cpu")


@habit(PRECISION, "bf16 autocast around the call, dropout 0.1")
def around(t: Trial) -> None:
    train(t, Net(0.1), context=functools.partial(autocast, torch.bfloat16))


@habit(PRECISION, "bf16 autocast inside of forward")
def inside(t: Trial) -> None:
    class Inside(Net):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return super().forward(x, y)

    train(t, Inside(0.1))


@habit(PRECISION, "bf16 autocast without its cache, a weight used twice")
def uncached(t: Trial) -> None:
    model = Net(0.1)
    model.blocks[1] = model.blocks[0]
    train(t, model, context=functools.partial(autocast, torch.bfloat16, cache_enabled=False))


@habit(PRECISION, "bf16 autocast, a weight used twice")
def cached(t: Trial) -> None:
    model = Net(0.1)
    model.blocks[1] = model.blocks[0]
    train(t, model, context=functools.partial(autocast, torch.bfloat16))


@habit(PRECISION, "fp16 autocast with a `GradScaler`")
def half(t: Trial) -> None:
    model = Net(0.1)
    compiled = t.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    for k in range(2):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = compiled(*pair(k))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    t.keep_state(model)


@habit(PRECISION, "weights in bf16")
def bf16_weights(t: Trial) -> None:
    model = Net(0.1).bfloat16()
    compiled = t.compile(model)
    for k in range(2):
        model.zero_grad()
        compiled(*(v.bfloat16() for v in pair(k))).backward()
    t.keep_state(model)


class Tagger(nn.Module):
    """A recurrent network over an embedding."""

    def __init__(self, kind: type[nn.Module], **options: object) -> None:
        super().__init__()
        self.words, self.inner, self.head = nn.Embedding(40, WIDTH), kind(WIDTH, WIDTH, **options), nn.Linear(WIDTH, 40)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.inner(self.words(tokens))[0]).square().mean()


def tag(t: Trial, kind: type[nn.Module], **options: object) -> None:
    model = Tagger(kind, **options)
    compiled = t.compile(model, "4MiB")
    for k in range(2):
        model.zero_grad()
        compiled(torch.randint(0, 40, (8, 4), generator=torch.Generator().manual_seed(k))).backward()
    t.keep_state(model)


@habit(PRECISION, "an `nn.GRU`")
def gru(t: Trial) -> None:
    tag(t, nn.GRU)
