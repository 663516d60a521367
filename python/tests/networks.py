"""Small networks with properties that are difficult to plan. Each contains its loss: model(*inputs) is a number."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Convolutions(nn.Module):
    """Batch normalization, ReLU in place, pooling."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        widths = [3, channels, 2 * channels, 2 * channels]
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(a, b, 3, padding=1, bias=False),
                nn.BatchNorm2d(b),
                nn.ReLU(inplace=True),
                nn.Conv2d(b, b, 3, padding=1),
                nn.BatchNorm2d(b),
                nn.ReLU(),
            )
            for a, b in zip(widths, widths[1:])
        )
        self.head = nn.Linear(widths[-1], 10)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = F.max_pool2d(block(x), 2)
        return F.cross_entropy(self.head(x.mean((2, 3))), y)


class Layer(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.before, self.middle = nn.LayerNorm(width), nn.LayerNorm(width)
        self.three, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, w = x.shape
        q, k, v = (z.view(b, t, 4, w // 4).transpose(1, 2) for z in self.three(self.before(x)).split(w, dim=2))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, w)
        x = x + F.dropout(self.out(a), self.dropout, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.middle(x)))), self.dropout, self.training)


class Transformer(nn.Module):
    """Attention, dropout, and one matrix for the embedding and the output."""

    def __init__(self, dropout: float = 0.1, width: int = 32, layers: int = 3, words: int = 50) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(64, width)
        self.layers = nn.ModuleList(Layer(width, dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight
        self.dropout = dropout

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
        h = F.dropout(h, self.dropout, self.training)
        for layer in self.layers:
            h = layer(h)
        return F.cross_entropy(self.head(self.norm(h)).flatten(0, 1), y.flatten())


class UNet(nn.Module):
    """What the way down makes is read again on the way up, last first."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()

        def block(a: int, b: int) -> nn.Module:
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True))

        c = [channels, 2 * channels, 4 * channels]
        self.down = nn.ModuleList([block(3, c[0]), block(c[0], c[1]), block(c[1], c[2])])
        self.up = nn.ModuleList([nn.ConvTranspose2d(c[2], c[1], 2, 2), nn.ConvTranspose2d(c[1], c[0], 2, 2)])
        self.join = nn.ModuleList([block(2 * c[1], c[1]), block(2 * c[0], c[0])])
        self.head = nn.Conv2d(c[0], 2, 1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        kept = []
        for i, down in enumerate(self.down):
            x = down(x)
            if i < 2:
                kept.append(x)
                x = F.max_pool2d(x, 2)
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return F.cross_entropy(self.head(x), y)


class Upsampled(nn.Module):
    """Upsampling of three kinds, which PyTorch's capture would write out."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, channels, 3, 4, 1), nn.BatchNorm2d(channels), nn.ReLU())
        self.rest = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(3))
        self.head = nn.Conv2d(channels, 2, 1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = self.down(x)
        for convolution, mode in zip(self.rest, ("nearest", "bilinear", "bicubic")):
            x = torch.tanh(convolution(F.interpolate(x, scale_factor=2, mode=mode)))
        return F.cross_entropy(self.head(F.avg_pool2d(x, 2)), y)


class Recurrent(nn.Module):
    """An LSTM, written out step by step."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.words, self.cell, self.head = nn.Embedding(30, width), nn.LSTMCell(width, width), nn.Linear(width, 30)
        self.width = width

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = c = torch.zeros(x.shape[0], self.width, device=x.device)
        outputs = []
        for t in range(x.shape[1]):
            h, c = self.cell(self.words(x[:, t]), (h, c))
            outputs.append(self.head(h))
        return F.cross_entropy(torch.stack(outputs, 1).flatten(0, 1), y.flatten())


class Tied(nn.Module):
    """Layers that share a weight, dropout between them, and a buffer that counts."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.first, self.again = nn.Linear(width, width), nn.Linear(width, width)
        self.again.weight = self.first.weight
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.seen += x.shape[0]
        for _ in range(4):
            x = F.dropout(torch.relu(self.first(x)), 0.2, self.training)
            x = torch.tanh(self.again(x))
        return F.mse_loss(x, y)


class LlamaBlock(nn.Module):
    def __init__(self, width: int, heads: int, groups: int, hidden: int) -> None:
        super().__init__()
        self.before, self.middle = nn.RMSNorm(width), nn.RMSNorm(width)
        self.heads, self.groups, self.each = heads, groups, width // heads
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * self.each, bias=False) for _ in range(2))
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        b, t, w = x.shape

        def turned(z: torch.Tensor) -> torch.Tensor:
            one, two = z.float().chunk(2, -1)
            return torch.cat((one * cos - two * sin, two * cos + one * sin), -1).type_as(z)

        h = self.before(x)
        q, k, v = (m(h).view(b, t, -1, self.each) for m in (self.q, self.k, self.v))
        q, k, v = (z.transpose(1, 2) for z in (turned(q), turned(k), v))
        k, v = (z.repeat_interleave(self.heads // self.groups, 1) for z in (k, v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, w))
        h = self.middle(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    """Rotations, groups of queries, and a gate: 32 x 4096, 32 heads, 8 groups, 14336 and 128256 are those of 8 billion."""

    def __init__(self, layers: int, width: int, heads: int, groups: int, hidden: int, words: int, length: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(LlamaBlock(width, heads, groups, hidden) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, words, bias=False)
        half = width // heads // 2
        angles = torch.arange(length)[:, None, None] / 500000 ** (torch.arange(half) / half)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = self.words(x)
        for layer in self.layers:
            h = layer(h, self.cos, self.sin)
        return F.cross_entropy(self.head(self.norm(h)).flatten(0, 1).float(), y.flatten())


def images(batch: int = 4, size: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(batch, 3, size, size), torch.randint(0, 10, (batch,))


def sequences(batch: int = 4, length: int = 24, words: int = 30) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(0, words, (batch, length)), torch.randint(0, words, (batch, length))


def pictures(batch: int = 2, size: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(batch, 3, size, size), torch.randint(0, 2, (batch, size, size))


def vectors(batch: int = 128, width: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(batch, width), torch.randn(batch, width)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Any, ...]]]] = {
    "convolutions": (Convolutions, images),
    "transformer": (Transformer, sequences),
    "unet": (UNet, pictures),
    "upsampled": (Upsampled, pictures),
    "recurrent": (Recurrent, sequences),
    "tied": (Tied, vectors),
}


# Networks of which PyTorch's own capture has other bits than eager, so that no plan can have eager's: an LSTM is written out,
# where eager has one fused operator.
CAPTURED_OTHERWISE = {"lstm"}


def reference(name: str, model: nn.Module) -> Any:
    """Whose bits a plan has to have: a copy of the model, run by eager PyTorch or, where that says so, by its capture."""
    eager = copy.deepcopy(model)
    return torch.compile(eager, backend="aot_eager") if name in CAPTURED_OTHERWISE else eager


def make(name: str) -> tuple[nn.Module, tuple[Any, ...]]:
    """A network with its inputs, always the same."""
    torch.manual_seed(0)
    network, inputs = NETWORKS[name]
    return network(), inputs()


def layered(n: int = 3, width: int = 8) -> tuple[nn.Sequential, torch.Tensor]:
    """Linear layers with activations between them, and an input; always the same numbers."""
    torch.manual_seed(0)
    layers = [layer for _ in range(n) for layer in (nn.Linear(width, width), nn.Tanh())]
    return nn.Sequential(*layers[:-1]), torch.randn(4, width)
