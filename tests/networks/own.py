"""own.py - small networks of our own, one for each way in which exporters write something."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from networks.registry import Network, ids, network, numbers


def convolutions(*widths: int) -> nn.Sequential:
    """Convolution, batch normalization and ReLU, one after the other."""
    parts: list[nn.Module] = []
    for a, b in zip(widths, widths[1:]):
        parts += [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
    return nn.Sequential(*parts)


class UNet(nn.Module):
    def __init__(self, upsample: bool) -> None:
        super().__init__()
        self.d = nn.ModuleList([convolutions(3, 16, 16), convolutions(16, 32, 32)])
        self.low = convolutions(32, 64, 64)
        up = lambda a, b: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(a, b, 1))
        self.up = nn.ModuleList([up(a, b) if upsample else nn.ConvTranspose2d(a, b, 2, 2) for a, b in ((64, 32), (32, 16))])
        self.u = nn.ModuleList([convolutions(64, 32, 32), convolutions(32, 16, 16)])
        self.head = nn.Conv2d(16, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        aside = []
        for block in self.d:
            aside.append(block(x))
            x = F.max_pool2d(aside[-1], 2)
        x = self.low(x)
        for up, block, skipped in zip(self.up, self.u, reversed(aside)):
            x = block(torch.cat([skipped, up(x)], 1))
        return self.head(x)


network("own/unet")(lambda: Network(UNet(False), (numbers(2, 3, 64, 64),)))
network("own/unet_bilinear")(lambda: Network(UNet(True), (numbers(2, 3, 64, 64),)))


@network("own/two_linears")
def two_linears() -> Network:
    return Network(nn.Sequential(nn.Linear(5, 6, bias=False), nn.ReLU(), nn.Linear(6, 8)), (numbers(3, 2, 5),))


@network("own/encoder")
def encoder() -> Network:
    """Two layers that are copies of each other, as nn.TransformerEncoder makes them."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return Network(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (numbers(3, 7, 64),))


@network("own/dropout_cnn")
def dropout_cnn() -> Network:
    parts = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.1)]
    tail = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 5)]
    return Network(nn.Sequential(*parts, *tail), (numbers(4, 3, 16, 16),))


@network("own/dcgan_g")
def generator() -> Network:
    parts: list[nn.Module] = []
    for a, b, step in ((16, 64, 1), (64, 32, 2), (32, 16, 2)):
        parts += [nn.ConvTranspose2d(a, b, 4, step, 1 if step == 2 else 0, bias=False), nn.BatchNorm2d(b), nn.ReLU(True)]
    return Network(nn.Sequential(*parts, nn.ConvTranspose2d(16, 3, 4, 2, 1, bias=False), nn.Tanh()), (numbers(4, 16, 1, 1),))


@network("own/dcgan_d")
def discriminator() -> Network:
    parts: list[nn.Module] = [nn.Conv2d(3, 16, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True)]
    for a, b in ((16, 32), (32, 64)):
        parts += [nn.Conv2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2, True)]
    return Network(nn.Sequential(*parts, nn.Conv2d(64, 1, 4, 1, 0, bias=False), nn.Flatten()), (numbers(4, 3, 32, 32),))


class Diffusion(nn.Module):
    """A denoiser that is told the time by sines and cosines."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 32))
        self.into, self.out = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 3, 3, padding=1)
        self.norms = nn.ModuleList([nn.GroupNorm(8, 32) for _ in range(3)])
        self.c = nn.ModuleList([nn.Conv2d(32, 32, 3, padding=1) for _ in range(2)])
        self.qkv, self.proj = nn.Conv2d(32, 96, 1), nn.Conv2d(32, 32, 1)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        waves = torch.exp(torch.arange(16) * -0.5)
        angle = t[:, None].float() * waves[None]
        h = self.into(x)
        told = self.time(torch.cat([angle.sin(), angle.cos()], 1))[:, :, None, None]
        h = h + self.c[1](F.silu(self.norms[1](self.c[0](F.silu(self.norms[0](h))) + told)))
        q, k, v = self.qkv(self.norms[2](h)).flatten(2).chunk(3, 1)
        weights = torch.softmax(q.transpose(1, 2) @ k * 32**-0.5, -1)
        return self.out(h + self.proj((v @ weights.transpose(1, 2)).view_as(h)))


network("own/diffusion_unet")(lambda: Network(Diffusion(), (numbers(2, 3, 16, 16), ids(1000, 2))))


class ImageAttention(nn.Module):
    """Denoisers' attention over the places of an image, as PyTorch's own operator. The channels come first, so that the depth of
    queries, keys and values is not innermost in memory, for which PyTorch has no fused kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.norm = nn.Conv2d(3, 32, 3, padding=1), nn.GroupNorm(8, 32)
        self.qkv, self.proj, self.out = nn.Conv2d(32, 96, 1), nn.Conv2d(32, 32, 1), nn.Conv2d(32, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.into(x)
        n, c, height, width = h.shape
        parts = self.qkv(self.norm(h)).chunk(3, 1)
        q, k, v = (part.reshape(n, 4, c // 4, height * width).transpose(2, 3) for part in parts)
        h = h + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(2, 3).reshape(n, c, height, width))
        return self.out(F.silu(h))


network("own/attention_by_columns")(lambda: Network(ImageAttention(), (numbers(2, 3, 16, 16),)))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], heads: int, both: bool = False) -> None:
        super().__init__()
        self.e, self.r = nn.Embedding(200, 32), kind(32, 64, 2 - both, batch_first=True, bidirectional=both)
        self.o = nn.Linear(64 * (1 + both), heads)

    def forward(self, x: Tensor) -> Tensor:
        return self.o(self.r(self.e(x))[0])


network("own/lstm_lm")(lambda: Network(Recurrent(nn.LSTM, 200), (ids(200, 4, 16),)))
network("own/gru_lm")(lambda: Network(Recurrent(nn.GRU, 200), (ids(200, 4, 16),)))
network("own/bilstm_tagger")(lambda: Network(Recurrent(nn.LSTM, 9, True), (ids(200, 4, 16),)))


class Unrolled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c, self.o = nn.LSTMCell(16, 32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        h = c = x.new_zeros(x.shape[0], 32)
        for step in range(x.shape[1]):
            h, c = self.c(x[:, step], (h, c))
        return self.o(h)


network("own/lstmcell_unrolled")(lambda: Network(Unrolled(), (numbers(4, 8, 16),)))


class OddNorms(nn.Module):
    """Instance and group normalization, and parameters that are single numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.c, self.i, self.g = nn.Conv2d(3, 16, 3), nn.InstanceNorm2d(16, affine=True), nn.GroupNorm(4, 16)
        self.scale, self.shift, self.o = nn.Parameter(torch.tensor(1.5)), nn.Parameter(torch.tensor(0.1)), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        h = self.g(F.elu(self.i(self.c(x)))) * self.scale + self.shift
        return self.o(F.softplus(h).mean((2, 3)))


network("own/odd_norms")(lambda: Network(OddNorms(), (numbers(2, 3, 16, 16),)))


class Aligned(nn.Module):
    """A spatial transformer: its last layer starts as the identity."""

    def __init__(self) -> None:
        super().__init__()
        self.l = nn.Sequential(nn.Flatten(), nn.Linear(256, 24), nn.ReLU(), nn.Linear(24, 6))
        self.c, self.o = nn.Conv2d(1, 8, 3, stride=2), nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        grid = F.affine_grid(self.l(x).view(-1, 2, 3) + torch.eye(2, 3), list(x.shape), align_corners=False)
        return self.o(F.relu(self.c(F.grid_sample(x, grid, align_corners=False))).mean((2, 3)))


network("own/stn")(lambda: Network(Aligned(), (numbers(4, 1, 16, 16),)))


class Siren(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l = nn.ModuleList([nn.Linear(2, 64), nn.Linear(64, 64), nn.Linear(64, 3)])

    def forward(self, x: Tensor) -> Tensor:
        return self.l[2](torch.sin(30 * self.l[1](torch.sin(30 * self.l[0](x)))))


network("own/siren")(lambda: Network(Siren(), (numbers(64, 2),)))


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p, self.o = nn.Conv2d(3, 48, 4, 4), nn.Linear(48, 10)
        self.n = nn.ModuleList([nn.LayerNorm(48) for _ in range(4)])
        mlp = lambda width: nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
        self.t, self.f = nn.ModuleList([mlp(16), mlp(16)]), nn.ModuleList([mlp(48), mlp(48)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.p(x).flatten(2).transpose(1, 2)
        for k in range(2):
            x = x + self.t[k](self.n[2 * k](x).transpose(1, 2)).transpose(1, 2)
            x = x + self.f[k](self.n[2 * k + 1](x))
        return self.o(x.mean(1))


network("own/mlp_mixer")(lambda: Network(Mixer(), (numbers(2, 3, 16, 16),)))


@network("own/espcn")
def espcn() -> Network:
    parts = [nn.Conv2d(1, 32, 5, padding=2), nn.Tanh(), nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3)]
    return Network(nn.Sequential(*parts), (numbers(2, 1, 24, 24),))


class WaveNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.into, self.o = nn.Conv1d(1, 16, 1), nn.Conv1d(16, 32, 1)
        self.f = nn.ModuleList([nn.Conv1d(16, 32, 2, dilation=2**k) for k in range(4)])
        self.r = nn.ModuleList([nn.Conv1d(16, 16, 1) for _ in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.into(x)
        total = torch.zeros_like(x)
        for k, (f, r) in enumerate(zip(self.f, self.r)):
            a, b = f(F.pad(x, (2**k, 0))).chunk(2, 1)
            h = r(torch.tanh(a) * torch.sigmoid(b))
            x, total = x + h, total + h
        return self.o(F.relu(total))


network("own/wavenet")(lambda: Network(WaveNet(), (numbers(2, 1, 128),)))


class Translator(nn.Module):
    """nn.Transformer with a causal mask, and positions in a table that is not learned."""

    def __init__(self) -> None:
        super().__init__()
        self.e, self.o = nn.Embedding(100, 32), nn.Linear(32, 100)
        self.t = nn.Transformer(32, 4, 1, 1, 64, 0.0, batch_first=True)
        angle = torch.arange(16)[:, None] * torch.exp(torch.arange(16) * -0.4)
        self.register_buffer("positions", torch.cat([angle.sin(), angle.cos()], 1))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        mask = torch.full((y.shape[1], y.shape[1]), float("-inf")).triu(1)
        return self.o(self.t(self.e(x) + self.positions[: x.shape[1]], self.e(y) + self.positions[: y.shape[1]], tgt_mask=mask))


network("own/nn_transformer")(lambda: Network(Translator(), (ids(100, 2, 12), ids(100, 2, 10))))


class Formulas(nn.Module):
    """PyTorch's activations, and the same formulas written out by hand, each behind a layer of its own."""

    def __init__(self, *formulas: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.formulas, self.layers = formulas, nn.ModuleList(nn.Linear(16, 16) for _ in formulas)

    def forward(self, x: Tensor) -> Tensor:
        for layer, formula in zip(self.layers, self.formulas):
            x = formula(layer(x))
        return x


OPERATORS = (F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.silu, F.hardswish, F.mish)
BY_HAND = (
    lambda x: x * torch.sigmoid(1.702 * x),
    lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5)),
    lambda x: 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x))),
    lambda x: x * F.relu6(x + 3) / 6,
    lambda x: x * F.hardsigmoid(x),
)
network("own/formulas")(lambda: Network(Formulas(*OPERATORS, *BY_HAND), (numbers(8, 16),)))


class BatchFirst(nn.Module):
    """The batch first: a layer that reads the output of a recurrent layer copies it, because there the time comes first."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(16, 24, batch_first=True), nn.Linear(24, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0])


network("own/lstm_into_linear")(lambda: Network(BatchFirst(), (numbers(4, 10, 16),)))


@network("own/group_norms")
def group_norms() -> Network:
    parts: list[nn.Module] = []
    for _ in range(2):
        parts += [nn.Conv2d(16, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.SiLU()]
    return Network(nn.Sequential(*parts), (numbers(2, 16, 8, 8),))


class TurnedProducts(nn.Module):
    """Products of tensors with themselves turned: with one batch dimension, with two that stay side by side, and with two that
    do not, which PyTorch copies. And rows that are cut in three, which a reshape across the cut copies."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.thirds = nn.Linear(16, 16), nn.Linear(16, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.first(x))  # (2, 6, 4, 16)
        flat, apart = torch.exp(y.flatten(1, 2)), torch.sigmoid(y).transpose(1, 2)
        third = torch.tanh(self.thirds(x).chunk(3, -1)[1].reshape(12, 2, 32))
        products = (flat @ flat.transpose(-1, -2), y @ y.transpose(-1, -2), apart @ apart.transpose(-1, -2), third)
        return torch.cat([p.flatten(1).sum(1) for p in products])


network("own/turned_products")(lambda: Network(TurnedProducts(), (numbers(2, 6, 4, 16),)))


def heads_of(x: Tensor, heads: int) -> Tensor:
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def joined(y: Tensor) -> Tensor:
    return y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)


class AttentionLayouts(nn.Module):
    """Results that PyTorch stores in the order of their queries, repeated heads, masks, and a packed projection."""

    def __init__(self) -> None:
        super().__init__()
        self.p, self.o = (nn.ModuleList(nn.Linear(32, 32) for _ in range(n)) for n in (13, 7))
        self.few = nn.ModuleList(nn.Linear(32, 16) for _ in range(2))
        self.m = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        attend = F.scaled_dot_product_attention
        o, h = self.o, [heads_of(f(x), 4) for f in self.p]
        few, fewer = (heads_of(f(x), 2)[:, :, None].expand(-1, -1, 2, -1, -1).flatten(1, 2) for f in self.few)
        unturned = o[0](attend(*h[:3]).reshape(x.shape))
        rectified = o[1](joined(F.relu(attend(*h[3:6]))))
        repeated = o[2](joined(attend(h[6], few, fewer)))
        masked = o[3](joined(attend(*h[7:10], attn_mask=mask))) + o[4](joined(attend(*h[10:], attn_mask=mask)))
        permuted = o[5](F.relu(o[6](x).transpose(0, 1)))
        return unturned, rectified, repeated, masked, permuted, self.m(x, x, x)[0]


network("own/attention_layouts")(lambda: Network(AttentionLayouts(), (numbers(2, 24, 32), torch.ones(24, 24).tril(3).bool())))


class AttentionMasks(nn.Module):
    """Masks that PyTorch's attention converts in each call (constant booleans), computes itself (is_causal), reads as they are
    (floats), or cannot read in one kernel (three dimensions)."""

    def __init__(self) -> None:
        super().__init__()
        self.p = nn.ModuleList(nn.Linear(32, 32) for _ in range(20))
        self.register_buffer("past", torch.ones(24, 24).tril().bool())
        self.register_buffer("shown", torch.full((24, 24), float("-inf")).triu(1))
        self.register_buffer("slopes", torch.full((4, 24, 24), float("-inf")).triu(1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        near = torch.ones(24, 24, dtype=torch.bool).tril(4)
        masks = ({"attn_mask": self.past}, {"attn_mask": near}, {"is_causal": True}, {"attn_mask": self.shown},
                 {"attn_mask": self.slopes})  # fmt: skip
        for k, mask in enumerate(masks):
            q, key, v, o = self.p[4 * k : 4 * k + 4]
            x = o(joined(F.scaled_dot_product_attention(heads_of(q(x), 4), heads_of(key(x), 4), heads_of(v(x), 4), **mask)))
        return x


network("own/attention_masks")(lambda: Network(AttentionMasks(), (numbers(2, 24, 32),)))


class ManyRows(nn.Module):
    """is_causal=True for so many rows that the mask in the file is not folded."""

    def __init__(self) -> None:
        super().__init__()
        self.p = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (heads_of(f(x), 2) for f in self.p[:3])
        return self.p[3](joined(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


network("own/many_rows")(lambda: Network(ManyRows(), (numbers(1, 400, 16),)))


class PaddedEncoder(nn.Module):
    """Rows that key_padding_mask hides. Each layer expands the mask to its heads and copies it."""

    def __init__(self) -> None:
        super().__init__()
        self.m = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True), 2, enable_nested_tensor=False)

    def forward(self, x: Tensor, is_padding: Tensor) -> Tensor:
        return self.m(x, src_key_padding_mask=is_padding)


network("own/padded_encoder")(lambda: Network(PaddedEncoder(), (numbers(2, 24, 32), torch.zeros(2, 24).bool())))


class Calls(nn.Module):
    """Functions that exporters write as several operators, of which PyTorch saves less: torch.rsqrt and F.glu; and torch.gather,
    which saves its input."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.a, self.b, self.c = nn.Parameter(torch.rand(32)), nn.Linear(32, 32), nn.Linear(32, 64), nn.Linear(32, 8)

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        x = self.a(x)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale
        x = torch.gather(x, 1, at[:, :, None].expand(-1, -1, 32))
        return self.c(F.glu(self.b(x), -1))


network("own/calls")(lambda: Network(Calls(), (numbers(2, 24, 32), ids(24, 2, 5))))


class Largest(nn.Module):
    """max and min along a dimension, which save indices. Only the newer exporter records that they are not amax and amin."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(32, 32), nn.Linear(32, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        return self.b(x.max(1)[0] + x.min(1)[0])


network("own/largest")(lambda: Network(Largest(), (numbers(2, 24, 32),)))


class Normalized(nn.Module):
    """A weight that is normalized in each step. PyTorch saves no quotient of weight and norm."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.utils.parametrizations.weight_norm(nn.Linear(32, 32)), nn.Linear(32, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x))


network("own/normalized")(lambda: Network(Normalized(), (numbers(2, 24, 32),)))


class Repeated(nn.Module):
    """A layer that is called twice on the same tensor. Both exporters merge the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x).relu() * self.a(x).relu())


network("own/repeated")(lambda: Network(Repeated(), (numbers(2, 24, 32),)))


class Contiguous(nn.Module):
    """Contiguous copies, which only the newer exporter records: of queries, of an input that three layers read, of a product."""

    def __init__(self) -> None:
        super().__init__()
        self.p = nn.ModuleList(nn.Linear(32, 32) for _ in range(5))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v, o, u = self.p
        y = x.transpose(0, 1).contiguous()
        r, s, t = (heads_of(f(y), 4).contiguous() for f in (q, k, v))
        return o(joined(F.scaled_dot_product_attention(r, s, t))) * u(y).transpose(1, 2).contiguous().transpose(1, 2)


network("own/contiguous")(lambda: Network(Contiguous(), (numbers(24, 2, 32),)))
