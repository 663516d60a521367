"""Situations that people describe in public threads about training memory, as small models that train on a CPU.

Each situation names its thread. `build` makes the model; `step` runs one training step and returns the tensors to compare
with eager PyTorch. `data` makes the inputs of a step that calls the model once; its peak is compared with the budget.
Other steps make their own inputs: a plan covers each of their calls, not the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

Step = Callable[..., list[torch.Tensor]]


@dataclass(frozen=True)
class Situation:
    """One thread: a name, the address, and how to reproduce it."""

    name: str
    thread: str
    build: Callable[[], nn.Module]
    step: Step
    data: Callable[[], tuple[Any, ...]] | None = None
    needs: tuple[str, ...] = ()


SITUATIONS: list[Situation] = []


def situation(
    thread: str, build: Callable[[], nn.Module], data: Callable[[], tuple[Any, ...]] | None = None, needs: tuple[str, ...] = ()
) -> Callable[[Step], Step]:
    """Add the decorated step to SITUATIONS."""

    def add(step: Step) -> Step:
        SITUATIONS.append(Situation(step.__name__, f"https://github.com/{thread}", build, step, data, needs))
        return step

    return add


def blocks(n: int, width: int) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(n))
    )


def trained(model: Any, *inputs: Any) -> list[torch.Tensor]:
    """Backward of the model's result, which is a loss."""
    loss = model(*inputs)
    loss.backward()
    return [loss]


class Checkpointed(nn.Module):
    """Every block but the first runs under torch.utils.checkpoint."""

    def __init__(self, reentrant: bool, width: int = 64) -> None:
        super().__init__()
        self.layers, self.reentrant = blocks(8, width), reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for k, layer in enumerate(self.layers):
            x = layer(x) if k == 0 else checkpoint(layer, x, use_reentrant=self.reentrant)
        return x.square().mean()


@situation("pytorch/pytorch/issues/6750", lambda: Checkpointed(True), data=lambda: (torch.randn(512, 64),))
def checkpointed_needs_more_than_without(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


@situation("pytorch/pytorch/issues/78731", lambda: Checkpointed(True, 32), data=lambda: (torch.randn(137, 32),))
def checkpointed_first_and_last_layers(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


class WholeCheckpointed(nn.Module):
    """One checkpoint around the whole network: its recomputation needs all activations at once."""

    def __init__(self) -> None:
        super().__init__()
        self.body = blocks(6, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.body, x, use_reentrant=False).square().mean()


@situation("pytorch/pytorch/issues/147449", WholeCheckpointed, data=lambda: (torch.randn(512, 64),))
def one_checkpoint_around_all(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


class PowerIteration(nn.Module):
    """A product in a loop, normalised each time."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        self.register_buffer("a", torch.randn(40, 40, dtype=torch.float64))
        self.register_buffer("b", torch.randn(40, 40, dtype=torch.float64))

    def forward(self, d: torch.Tensor) -> torch.Tensor:
        c = self.a + self.scale * self.b
        for _ in range(120):
            d = c @ d
            d = d / torch.norm(d)
        return torch.norm(self.b.t() @ d)


@situation("pytorch/pytorch/issues/125591", PowerIteration, data=lambda: (torch.randn(40, 40, dtype=torch.float64),))
def normalised_products_in_a_loop(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


class AutocastCheckpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.body, self.last = nn.Linear(64, 64), blocks(4, 64), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            x = self.first(x)
            x = checkpoint_sequential(self.body, 2, x, use_reentrant=False)
            return self.last(x).float().square().mean()


@situation("pytorch/pytorch/issues/141896", AutocastCheckpointed, data=lambda: (torch.randn(256, 64),))
def checkpoint_inside_autocast(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


class Energy(nn.Module):
    """Forces are the gradient of an energy, computed inside of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.requires_grad_()
        energy = self.net(x).sum()
        (force,) = torch.autograd.grad(energy, x, create_graph=True)
        return force.square().mean() + energy.square()


@situation("pytorch/pytorch/issues/102223", Energy, data=lambda: (torch.randn(64, 3),))
def gradient_inside_of_forward(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


@situation("huggingface/transformers/issues/6354", lambda: blocks(4, 32))
def forwards_without_backward(model: Any) -> list[torch.Tensor]:
    x = torch.randn(64, 32)
    kept = [model(x) for _ in range(3)]
    loss = kept[-1].square().mean()
    loss.backward()
    return [loss, *kept]


class UNet(nn.Module):
    """Two levels with skip connections and batch normalisation."""

    def __init__(self) -> None:
        super().__init__()

        def twice(i: int, o: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(True), nn.Conv2d(o, o, 3, padding=1), nn.ReLU(True)
            )

        self.a, self.b, self.c = twice(3, 8), twice(8, 16), twice(24, 8)
        self.up, self.head = nn.Upsample(scale_factor=2), nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a = self.a(x)
        b = self.up(self.b(F.max_pool2d(a, 2)))
        return F.cross_entropy(self.head(self.c(torch.cat([a, b], 1))), y)


@situation(
    "NRCan/geo-deep-learning/issues/9",
    UNet,
    data=lambda: (
        torch.randn(4, 3, 32, 32),
        torch.randint(0, 4, (4, 32, 32)),
    ),
)
def segmentation_with_skips(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


class MaskNet(nn.Module):
    """Speech separation: dilated convolutions over a long signal, masks, and the decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Conv1d(1, 16, 16, stride=8), nn.ConvTranspose1d(16, 1, 16, stride=8)
        self.net = nn.ModuleList(
            nn.Sequential(
                nn.GroupNorm(1, 16), nn.Conv1d(16, 32, 3, padding=2**k, dilation=2**k), nn.PReLU(), nn.Conv1d(32, 16, 1)
            )
            for k in range(4)
        )
        self.masks = nn.Conv1d(16, 32, 1)

    def forward(self, mix: torch.Tensor, sources: torch.Tensor) -> torch.Tensor:
        h = e = F.relu(self.encoder(mix))
        for layer in self.net:
            h = h + layer(h)
        masks = torch.sigmoid(self.masks(h)).chunk(2, 1)
        out = torch.cat([self.decoder(e * m) for m in masks], 1)
        noise = (out - sources).square().sum(-1)
        return -10 * torch.log10(sources.square().sum(-1) / (noise + 1e-8) + 1e-8).mean()


@situation(
    "speechbrain/speechbrain/issues/1850",
    MaskNet,
    data=lambda: (
        torch.randn(1, 1, 4000),
        torch.randn(1, 2, 4000),
    ),
)
def speech_separation_at_batch_one(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


class Dense(nn.Module):
    """Concatenations of all earlier results, with batch normalisation under checkpoints."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(8 + 4 * k), nn.ReLU(), nn.Conv2d(8 + 4 * k, 4, 3, padding=1)) for k in range(4)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        every = [x]
        for layer in self.layers:
            every.append(layer(torch.cat(every, 1)))
        return torch.cat(every, 1).square().mean()


@situation("gpleiss/efficient_densenet_pytorch/issues/73", Dense, data=lambda: (torch.randn(4, 8, 16, 16),))
def statistics_of_a_dense_network(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


class NormCheckpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.BatchNorm1d(10, momentum=0.001), nn.Linear(10, 10), nn.BatchNorm1d(10), nn.Linear(10, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.body, x, use_reentrant=False).mean()


@situation("pytorch/pytorch/issues/62471", NormCheckpointed, data=lambda: (torch.randn(8, 10).requires_grad_(),))
def statistics_under_a_checkpoint(model: Any, *data: Any) -> list[torch.Tensor]:
    return trained(model, *data)


class ConvNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.bn(self.conv(x))).square().mean()


@situation("Tencent/YOLO-Master/issues/262", ConvNorm, data=lambda: (torch.randn(2, 3, 8, 8),))
def batches_counted_once(model: Any, x: torch.Tensor) -> list[torch.Tensor]:
    return [*trained(model, x), model.bn.num_batches_tracked.clone()]


def faces() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.PReLU(8), nn.Flatten(), nn.Linear(512, 16))


@situation(
    "deepinsight/insightface/issues/2053",
    faces,
    data=lambda: (torch.randn(8, 3, 10, 10), F.normalize(torch.randn(5, 16)), torch.arange(8) % 5),
)
def margin_of_angles(model: Any, x: torch.Tensor, centres: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
    features = F.normalize(model(x))
    cosines = (features @ centres.t()).clamp(-0.999, 0.999)
    loss = F.cross_entropy(30 * torch.cos(torch.acos(cosines) + 0.1), labels)
    loss.backward()
    return [loss]


@situation("facebookresearch/fairscale/issues/1035", lambda: nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4)))
def statistics_without_gradients(model: Any) -> list[torch.Tensor]:
    with torch.no_grad():
        before = model(torch.randn(2, 4, 16, 16))
    loss = model(torch.randn(2, 4, 16, 16)).square().mean()
    loss.backward()
    return [before, loss, model[1].running_mean.clone()]
