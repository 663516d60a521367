"""Habits of models: what they are made of, and how they are kept."""

from __future__ import annotations

import copy
import dataclasses
import io
import pickle
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from habits.trial import WARNS, WIDTH, Net, Scores, Trial, habit, pair, train

MODEL = "the model"


@habit(MODEL, "one weight used by two layers")
def tied(t: Trial) -> None:
    model = Net()
    model.blocks[1][1].weight = model.blocks[0][1].weight
    train(t, model)


@habit(MODEL, "one block called several times")
def shared(t: Trial) -> None:
    model = Net()
    model.blocks[2] = model.blocks[0]
    train(t, model)


@habit(MODEL, "`weight_norm` and other parametrizations")
def parametrized(t: Trial) -> None:
    model = Net()
    nn.utils.parametrizations.weight_norm(model.head)
    nn.utils.parametrizations.orthogonal(model.blocks[0][1])
    train(t, model)


@habit(MODEL, "`spectral_norm`, whose buffers change in each step")
def spectral(t: Trial) -> None:
    model = Net()
    nn.utils.parametrizations.spectral_norm(model.head)
    train(t, model)


@habit(MODEL, "batch normalization, with and without momentum")
def normalized(t: Trial) -> None:
    model = Net()
    model.blocks[0][0], model.blocks[1][0] = nn.BatchNorm1d(WIDTH), nn.BatchNorm1d(WIDTH, momentum=0.5)
    train(t, model)


@habit(MODEL, "batch normalization, `momentum=None`", WARNS, "without a plan: PyTorch cannot capture")
def cumulative(t: Trial) -> None:
    model = Net()
    model.blocks[0][0] = nn.BatchNorm1d(WIDTH, momentum=None)
    train(t, model)


class Words(nn.Module):
    def __init__(self, sparse: bool = False) -> None:
        super().__init__()
        self.words, self.inner = nn.Embedding(50, WIDTH, sparse=sparse), Scores()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.inner(self.words(tokens)).square().mean()


@habit(MODEL, "an embedding, some of whose rows are used")
def embedded(t: Trial) -> None:
    model = Words()
    compiled = t.compile(model)
    for k in range(2):
        model.zero_grad()
        compiled(torch.randint(0, 50, (16,), generator=torch.Generator().manual_seed(k))).backward()
    t.keep_state(model)


@habit(MODEL, "a hook that calls `requires_grad_()` on the output of a frozen embedding")
def hooked_to_require(t: Trial) -> None:
    model = Words()
    model.words.requires_grad_(False)
    model.words.register_forward_hook(lambda _, __, out: out.requires_grad_(True))
    compiled = t.compile(model)
    inputs = torch.randint(0, 50, (64,), generator=torch.Generator().manual_seed(1))
    compiled(inputs).backward()
    t.keep_state(model)
    t.measure(model, lambda: compiled(inputs).backward())


@habit(MODEL, "`torch.utils.checkpoint` inside")
def checkpointed(t: Trial) -> None:
    class Marked(Net):
        def features(self, x: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                x = x + checkpoint(block, x, use_reentrant=False)
            return self.head(x)

    train(t, Marked())


@habit(MODEL, "parameters that are not used in forward")
def unused(t: Trial) -> None:
    model = Net()
    model.extra = nn.Linear(4, 4)
    train(t, model)


@habit(MODEL, "layers that need no gradient from the start")
def partly(t: Trial) -> None:
    model = Net()
    model.blocks[:2].requires_grad_(False)
    train(t, model)


@dataclasses.dataclass
class Found:
    loss: torch.Tensor
    scores: torch.Tensor


@habit(MODEL, "a dataclass as output")
def dataclass_output(t: Trial) -> None:
    class Answering(Net):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            scores = self.features(x)
            return Found(F.mse_loss(scores, y), scores)

    model = Answering()
    out = t.compile(model)(*pair())
    out.loss.backward()
    t.keep("scores", out.scores)
    t.keep_state(model)


@habit(MODEL, "a dictionary as input and as output, arguments by name")
def dictionaries(t: Trial) -> None:
    class Named(Net):
        def forward(self, batch: dict[str, torch.Tensor], *, scale: float = 1.0) -> Any:  # type: ignore[override]
            scores = self.features(batch["x"]) * scale
            return {"loss": F.mse_loss(scores, batch["y"]), "scores": scores}

    model = Named()
    compiled = t.compile(model)
    for k in range(2):
        x, y = pair(k)
        model.zero_grad()
        out = compiled({"x": x, "y": y}, scale=0.5)
        out["loss"].backward()
        t.keep("scores", out["scores"])
    t.keep_state(model)


@habit(MODEL, "a function instead of a module")
def function(t: Trial) -> None:
    model = Net()
    run = t.compile(lambda x, y: model(x, y) * 2)
    run(*pair()).backward()
    t.keep_state(model)


@habit(MODEL, "a method other than forward, compiled as a function", WARNS, "are used outside of the model")
def method(t: Trial) -> None:
    model = Net()
    features = t.compile(model.features)
    features(pair()[0]).square().mean().backward()
    t.keep_state(model)


@habit(MODEL, "`state_dict` saved, and loaded into an eager model")
def saved(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model)
    compiled(*pair()).backward()
    file = io.BytesIO()
    torch.save(compiled.state_dict(), file)
    file.seek(0)
    other = Net()
    t.keep("keys", torch.tensor([len(k) for keys in other.load_state_dict(torch.load(file)) for k in keys]))
    t.keep_state(other)


@habit(MODEL, "an eager model's `state_dict` loaded")
def loaded(t: Trial) -> None:
    other = Net()
    model = Net()
    compiled = t.compile(model)
    compiled.load_state_dict(other.state_dict())
    compiled(*pair()).backward()
    t.keep_state(model)


@habit(MODEL, "the whole model by `torch.save` and `pickle`")
def whole(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model)
    compiled(*pair()).backward()
    file = io.BytesIO()
    torch.save(compiled, file)
    file.seek(0)
    for other in (torch.load(file, weights_only=False), pickle.loads(pickle.dumps(compiled))):
        other.zero_grad()
        other(*pair()).backward()
        t.keep_state(other)


@habit(MODEL, "`isinstance`, names and attributes of the model")
def names(t: Trial) -> None:
    compiled = t.compile(Net())
    t.keep("is a Net", torch.tensor([isinstance(compiled, Net), type(compiled) is Net, len(compiled.blocks)]))
    t.keep("names", torch.tensor([len(n) for n, _ in compiled.named_parameters()]))
    t.keep("layers", torch.tensor([len(n) for n, _ in compiled.named_modules()]))


@habit(MODEL, "forward hooks that read the outputs of layers")
def forward_hooks(t: Trial) -> None:
    model = Net()
    seen: list[torch.Tensor] = []
    model.head.register_forward_hook(lambda _, __, out: seen.append(out.detach()))
    compiled = t.compile(model, fullgraph=False)
    compiled(*pair()).backward()
    t.keep("seen", *seen)
    t.keep_state(model)


@habit(MODEL, "`copy.deepcopy` and `copy.copy`")
def copies(t: Trial) -> None:
    compiled = t.compile(Net())
    compiled(*pair()).backward()
    for made in (copy.deepcopy(compiled), copy.copy(compiled)):
        made.zero_grad()
        torch.manual_seed(2)
        made(*pair()).backward()
        t.keep_state(made)


@habit(MODEL, "a model converted to float64 by `double()`")
def doubled(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model, "1MiB")
    compiled(*pair()).backward()
    model.double().zero_grad()
    compiled(*(v.double() for v in pair())).backward()
    t.keep_state(model)


@habit(MODEL, "one part of the model compiled, the rest eager")
def part(t: Trial) -> None:
    model = Net()
    model.head = t.compile(model.head, "1MiB")
    model(*pair()).backward()
    t.keep_state(model)


@habit(MODEL, "layers added between steps")
def grown(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model, "1MiB")
    for _ in range(2):
        model.zero_grad()
        compiled(*pair()).backward()
        t.keep_state(model)
        model.blocks.append(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()))


@habit(MODEL, "weights replaced by others of the same size")
def replaced(t: Trial) -> None:
    model = Net()
    compiled = t.compile(model, "1MiB")
    for k in range(2):
        model.head.weight = nn.Parameter(torch.full((WIDTH, WIDTH), 0.01 * k))
        model.zero_grad()
        compiled(*pair()).backward()
        t.keep_state(model)
