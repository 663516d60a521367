"""torch_nets.py - torchvision's and Hugging Face's nets of the same names, written out, as bench_torch.py trains them. Images lie in the
layout that is faster for it (channels last)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Bottleneck(nn.Module):
    def __init__(self, narrow: int, width: int, stride: int) -> None:
        super().__init__()
        wide = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(narrow, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide)
        self.relu = nn.ReLU(inplace=True)
        self.down: nn.Module = nn.Identity()
        if stride > 1 or narrow != wide:
            self.down = nn.Sequential(nn.Conv2d(narrow, wide, 1, stride, bias=False), nn.BatchNorm2d(wide))

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        z: Tensor = self.relu(self.bn3(self.conv3(y)) + self.down(x))
        return z


def resnet50() -> nn.Module:
    parts: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    narrow = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(blocks):
            parts.append(Bottleneck(narrow, width, 1 if k else stride))
            narrow = 4 * width
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(narrow, 1000))


def convolution(narrow: int, wide: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(narrow, wide, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(wide)]


class Inverted(nn.Module):
    def __init__(self, narrow: int, wide: int, stride: int, expand: int) -> None:
        super().__init__()
        inner = narrow * expand
        self.body = nn.Sequential(
            *([*convolution(narrow, inner, 1), nn.ReLU6(inplace=True)] if expand > 1 else []),
            *convolution(inner, inner, 3, stride, inner),
            nn.ReLU6(inplace=True),
            *convolution(inner, wide, 1),
        )
        self.skip = stride == 1 and narrow == wide

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return x + y if self.skip else y


MOBILE = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def mobilenet_v2() -> nn.Module:
    parts, narrow = [*convolution(3, 32, 3, 2), nn.ReLU6(inplace=True)], 32
    for expand, wide, blocks, stride in MOBILE:
        for k in range(blocks):
            parts.append(Inverted(narrow, wide, 1 if k else stride, expand))
            narrow = wide
    parts += [*convolution(320, 1280, 1), nn.ReLU6(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*parts, nn.Dropout(0.2), nn.Linear(1280, 1000))


def heads(y: Tensor) -> Tensor:
    """Rows of 768 as 12 heads of 64."""
    return y.view(y.shape[0], y.shape[1], 12, 64).transpose(1, 2)


class BertLayer(nn.Module):
    fused = False  # on the CPU, too

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(768, 768) for _ in range(4))
        self.up, self.down, self.norm1, self.norm2 = nn.Linear(768, 3072), nn.Linear(3072, 768), nn.LayerNorm(768), nn.LayerNorm(768)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        if x.is_cuda or self.fused:
            a = F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else mask.to(q.dtype), dropout_p=0.1)
        else:
            scores = q @ k.transpose(2, 3) / 8
            a = F.dropout((scores if mask is None else scores + mask).softmax(-1), 0.1) @ v
        x = self.norm1(x + F.dropout(self.out(a.transpose(1, 2).reshape(x.shape)), 0.1))
        y: Tensor = self.norm2(x + F.dropout(self.down(F.gelu(self.up(x))), 0.1))
        return y


class Bert(nn.Module):
    """With a mask of 0 and 1 over the tokens of a sample, as an input, unless `masked` is False."""

    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.masked = masked
        self.tokens, self.kinds, self.positions = nn.Embedding(30522, 768), nn.Embedding(2, 768), nn.Embedding(512, 768)
        self.norm, self.layers = nn.LayerNorm(768), nn.ModuleList([BertLayer() for _ in range(12)])
        self.head, self.head_norm, self.bias = nn.Linear(768, 768), nn.LayerNorm(768), nn.Parameter(torch.zeros(30522))

    def forward(self, ids: Tensor, present: Tensor) -> Tensor:
        mask = (1 - present.view(-1, 1, 1, ids.shape[1])) * -10000.0 if self.masked else None
        x = self.tokens(ids) + self.kinds(torch.zeros_like(ids)) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        x = F.dropout(self.norm(x), 0.1)
        for layer in self.layers:
            x = layer(x, mask)
        return F.linear(self.head_norm(F.gelu(self.head(x))), self.tokens.weight, self.bias).flatten(0, 1)


class GptLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(768), nn.LayerNorm(768)
        self.qkv, self.out, self.up, self.down = nn.Linear(768, 2304), nn.Linear(768, 768), nn.Linear(768, 3072), nn.Linear(3072, 768)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (heads(y) for y in self.qkv(self.norm1(x)).split(768, 2))
        a = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)
        x = x + F.dropout(self.out(a.transpose(1, 2).reshape(x.shape)), 0.1)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")), 0.1)


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
        self.layers, self.norm = nn.ModuleList([GptLayer() for _ in range(12)]), nn.LayerNorm(768)

    def forward(self, ids: Tensor) -> Tensor:
        x = F.dropout(self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device)), 0.1)
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.tokens.weight).flatten(0, 1)


class VitLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(768, eps=1e-6), nn.LayerNorm(768, eps=1e-6)
        self.qkv, self.out, self.up, self.down = nn.Linear(768, 2304), nn.Linear(768, 768), nn.Linear(768, 3072), nn.Linear(3072, 768)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (heads(y) for y in self.qkv(self.norm1(x)).split(768, 2))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Vit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.layers = nn.Conv2d(3, 768, 16, 16), nn.ModuleList([VitLayer() for _ in range(12)])
        self.first, self.positions = nn.Parameter(torch.zeros(1, 1, 768)), nn.Parameter(torch.zeros(1, 197, 768))
        self.norm, self.head = nn.LayerNorm(768, eps=1e-6), nn.Linear(768, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat((self.first.expand(x.shape[0], -1, -1), self.patches(x).flatten(2).transpose(1, 2)), 1) + self.positions
        for layer in self.layers:
            x = layer(x)
        y: Tensor = self.head(self.norm(x)[:, 0])
        return y


class Root(nn.Module):
    """Normalization by the root of the mean square."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def turned(x: Tensor, cosine: Tensor, sine: Tensor, half: int) -> Tensor:
    """Rotary positions."""
    return x * cosine + torch.cat((-x[..., half:], x[..., :half]), -1) * sine


def rotations(length: int, size: int) -> tuple[Tensor, Tensor]:
    angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, size, 2) / size).repeat(2)
    return angles.cos(), angles.sin()


class LlamaLayer(nn.Module):
    """Heads of queries, of which some share one of keys and values."""

    def __init__(self, width: int = 768, n_heads: int = 12, n_few: int = 4, inner: int = 2048) -> None:
        super().__init__()
        self.size, self.n_heads, self.n_few, few = width // n_heads, n_heads, n_few, width // n_heads * n_few
        self.norm1, self.norm2 = Root(width), Root(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, n, bias=False) for n in (width, few, few, width))
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((width, inner), (width, inner), (inner, width)))

    def heads(self, y: Tensor, n: int) -> Tensor:
        return y.view(y.shape[0], y.shape[1], n, self.size).transpose(1, 2)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        y, half, each = self.norm1(x), self.size // 2, self.n_heads // self.n_few
        k, v = turned(self.heads(self.k(y), self.n_few), cosine, sine, half), self.heads(self.v(y), self.n_few)
        exporting = torch.onnx.is_in_onnx_export()  # that operator knows no shared heads
        if exporting:
            k, v = (t[:, :, None].expand(-1, -1, each, -1, -1).reshape(x.shape[0], self.n_heads, x.shape[1], self.size) for t in (k, v))
        q = turned(self.heads(self.q(y), self.n_heads), cosine, sine, half)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=not exporting)
        x = x + self.out(a.transpose(1, 2).reshape(x.shape))
        y = self.norm2(x)
        z: Tensor = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return z


class LlamaBlock(nn.Module):
    """One layer of the shape of Llama's 8 billion parameters, on 2,048 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = LlamaLayer(4096, 32, 8, 14336)
        cosine, sine = rotations(2048, 128)
        self.register_buffer("cosine", cosine, persistent=False)
        self.register_buffer("sine", sine, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x, self.cosine, self.sine)
        return y


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.layers, self.norm = nn.Embedding(32000, 768), nn.ModuleList([LlamaLayer() for _ in range(12)]), Root(768)
        self.head = nn.Linear(768, 32000, bias=False)
        cosine, sine = rotations(512, 64)
        self.register_buffer("cosine", cosine, persistent=False)
        self.register_buffer("sine", sine, persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids)
        for layer in self.layers:
            x = layer(x, self.cosine, self.sine)
        return self.head(self.norm(x)).flatten(0, 1)


class Checkpointed(nn.Module):
    """A block of which backward keeps nothing but its input."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, *x: Tensor | None) -> Tensor:
        y: Tensor = checkpoint(self.block, *x, use_reentrant=False)
        return y


def put_checkpoints(net: nn.Module) -> None:
    """torch.utils.checkpoint around every block."""
    for parent in (net, getattr(net, "layers", None)):
        if isinstance(parent, (nn.Sequential, nn.ModuleList)):
            for k, block in enumerate(parent):
                if isinstance(block, (Bottleneck, Inverted, BertLayer, GptLayer, VitLayer, LlamaLayer)):
                    parent[k] = Checkpointed(block)


IMAGES: dict[str, Callable[[], nn.Module]] = {"resnet50": resnet50, "mobilenet_v2": mobilenet_v2}
NAMES = (*IMAGES, "bert_base", "gpt2_small", "vit_b_16", "llama")


def make_net(name: str, masked: bool = True) -> nn.Module:
    if name in IMAGES:
        return IMAGES[name]().to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
    makers: dict[str, Callable[[], nn.Module]] = {"gpt2_small": Gpt, "vit_b_16": Vit, "llama": Llama}
    net = Bert(masked) if name == "bert_base" else makers[name]()
    for p in net.parameters():  # as both begin: logits near zero
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)
    return net


def make_inputs(name: str, batch: int) -> tuple[tuple[Tensor, ...], Tensor]:
    """The arguments of the net, and the labels."""
    if name == "bert_base":
        return (torch.randint(30522, (batch, 512)), torch.ones(batch, 512)), torch.randint(30522, (batch * 512,))
    if name == "llama":
        return (torch.randint(32000, (batch, 512)),), torch.randint(32000, (batch * 512,))
    if name == "gpt2_small":
        return (torch.randint(50257, (batch, 1024)),), torch.randint(50257, (batch * 1024,))
    images = torch.randn(batch, 3, 224, 224).to(memory_format=torch.channels_last)
    return (images,), torch.randint(1000, (batch,))
