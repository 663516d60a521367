"""The memory of whole steps against published peaks on one GPU: GPT-2 in the training loop of a book's bonus chapter.

    PYTHONPATH=python/src python python/bench/bench_single.py

Published figures (rasbt/LLMs-from-scratch, ch05/10_llm-training-speed): memory_reserved at the end of a run on an A100, with
PyTorch 2.6. Rows with torch.compile are not eager, so that they have no estimate here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

import memplan

GIB = 1 << 30
WIDTH, HEADS, LAYERS, TOKENS, DROPOUT = 768, 12, 12, 1024, 0.1
SLOPE = 0.7978845608  # sqrt(2 / pi)


@dataclass(frozen=True)
class Variant:
    """A step of the chapter.

    `stores_mask`: each layer has the causal mask as a buffer. `is_native`: PyTorch's LayerNorm and GELU instead of written-out
    ones. `foreach`: None leaves the choice to the optimizer; False stands for fused updates.
    """

    name: str
    measured_gib: float
    dtype: torch.dtype = torch.bfloat16
    batch: int = 8
    vocabulary: int = 50257
    stores_mask: bool = False
    is_native: bool = True
    has_flash: bool = False
    foreach: bool | None = False


VARIANTS = (
    Variant("as in the book", 26.2617, torch.float32, stores_mask=True, is_native=False, foreach=None),
    Variant("mask on the fly", 26.2422, torch.float32, is_native=False, foreach=None),
    Variant("bf16", 13.7871, is_native=False),
    Variant("native LayerNorm and GELU", 11.5645),
    Variant("scaled_dot_product_attention", 5.9004, has_flash=True),
    Variant("batch 32, 50304 tokens (torch.compile in the source)", 22.5078, batch=32, vocabulary=50304, has_flash=True),
)


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        return self.scale * ((x - mean) / torch.sqrt(variance + 1e-5)) + self.shift


class Gelu(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x * (1 + torch.tanh(SLOPE * (x + 0.044715 * torch.pow(x, 3))))


class Attention(nn.Module):
    def __init__(self, variant: Variant) -> None:
        super().__init__()
        self.has_flash, self.drop, self.out = variant.has_flash, nn.Dropout(DROPOUT), nn.Linear(WIDTH, WIDTH)
        self.parts = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        mask = torch.triu(torch.ones(TOKENS, TOKENS), diagonal=1) if variant.stores_mask else None
        self.register_buffer("mask", mask)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part(x).view(*x.shape[:2], HEADS, -1).transpose(1, 2) for part in self.parts)
        if self.has_flash:
            mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=DROPOUT if self.training else 0.0, is_causal=True)
        else:
            mask = self.mask if self.mask is not None else torch.triu(torch.ones(TOKENS, TOKENS, device=x.device), diagonal=1)
            scores = q @ k.transpose(2, 3)
            scores.masked_fill_(mask.bool(), -torch.inf)
            mixed = self.drop(torch.softmax(scores / k.shape[-1] ** 0.5, -1)) @ v
        return self.out(mixed.transpose(1, 2).contiguous().view(x.shape))


class Layer(nn.Module):
    def __init__(self, variant: Variant) -> None:
        super().__init__()
        norm: Callable[[], nn.Module] = (lambda: nn.LayerNorm(WIDTH)) if variant.is_native else Norm
        gelu = nn.GELU(approximate="tanh") if variant.is_native else Gelu()
        self.first, self.second, self.attention = norm(), norm(), Attention(variant)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), gelu, nn.Linear(4 * WIDTH, WIDTH))
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm, part in ((self.first, self.attention), (self.second, self.mlp)):
            kept = x
            x = self.drop(part(norm(x))) + kept
        return x


class Gpt2(nn.Module):
    def __init__(self, variant: Variant) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(variant.vocabulary, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.drop, self.layers = nn.Dropout(DROPOUT), nn.Sequential(*(Layer(variant) for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH) if variant.is_native else Norm()
        self.head = nn.Linear(WIDTH, variant.vocabulary, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device)))
        return self.head(self.norm(self.layers(x)))


def loop(variant: Variant) -> Callable[[], None]:
    """Return the chapter's loop: steps, and an evaluation between them."""
    with torch.device("meta"):
        model = Gpt2(variant).to(variant.dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.1, foreach=variant.foreach)

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        ids, targets = (torch.empty(variant.batch, TOKENS, dtype=torch.long, device="meta") for _ in range(2))
        return ids, targets

    def loss_of(ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())

    def train() -> None:
        for k in range(3):
            ids, targets = batch()
            optimizer.zero_grad()
            loss = loss_of(ids, targets)
            loss.backward()
            optimizer.step()
            if k == 0:
                model.eval()
                with torch.no_grad():
                    loss_of(*batch())
                model.train()

    return train


def main() -> None:
    sys.stdout.write("| GPT-2 124M on an A100 | measured GiB | estimate GiB | error |\n|---|---:|---:|---:|\n")
    for variant in VARIANTS:
        needs = memplan.estimate(loop(variant), (), device="a100", calls=1).needs
        assert needs is not None
        found = needs.reserved_bytes / GIB
        error = found / variant.measured_gib - 1
        sys.stdout.write(f"| {variant.name} | {variant.measured_gib:.2f} | {found:.2f} | {error:+.1%} |\n")


if __name__ == "__main__":
    main()
