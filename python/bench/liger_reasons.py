"""Reasons for differences between estimates and Liger's published peaks, as bytes that a formula of the row's sizes gives.

All formulas were derived after a look at the rows: the tensors that a process held besides those of a row are not published.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

MIB, GRAIN = 1 << 20, 512
CARDS = {"A100": "a100", "H100": "h100", "B200": "b200", "RTX 4090": "rtx4090", "RTX 3090": "rtx3090"}
# commits whose published rows were measured with the code of another commit
MEASURED_WITH = {
    # fused linear cross entropy without a copy of the logits in fp32 came with rows of the code before
    "90fb5e4a3cb971ab996638596f07652404e719e5": "d907ec0c09a0a998ecc1073afb195f1942a6c24f",
}


@dataclass(frozen=True)
class Row:
    """A published peak. `key`: kernel, provider, mode, name and value of the swept size, and MiB. `sizes`: JSON."""

    id: str
    key: tuple[str, ...]
    gpu: str
    script: str
    sizes: str = "{}"

    @property
    def measured_mib(self) -> float:
        return float(self.key[-1])

    @property
    def x(self) -> int:
        return int(float(self.key[4]))

    @property
    def card(self) -> str:
        return next(name for part, name in CARDS.items() if part in self.gpu)


@dataclass(frozen=True)
class Reason:
    """The difference of estimate and measurement in bytes."""

    n_bytes: int
    text: str


def rounded(n_bytes: int) -> int:
    return -(-n_bytes // GRAIN) * GRAIN


def of_embedding(row: Row, sizes: dict[str, int]) -> Reason:
    """The process held weights and gradients of the provider that uses torch.compile; Liger's own rows show the same bytes."""
    words = 2**18 - 2**10  # sum of 2**10 to 2**17
    held = 4 * words * (3 * 4096 + (2 * 768 if sizes["D"] == 4096 else 0))
    if sizes["D"] == 768 and row.x == 1024:  # a block of 8 MiB is not split for these bytes
        held += 8 * MIB - (row.x + 16384 // 10) * 768 * 4
    return Reason(-held, "weights and gradients of runs of torch.compile were held")


def of_preference_loss(row: Row, sizes: dict[str, int]) -> Reason:
    """The provider with torch.compile ran before. It held weight, gradient, and chunks of two sequences: five of the input's
    width and three of targets. The rows of 4096 tokens were measured with logits in bf16, which the commit computes in fp32."""
    t, h, v = sizes["T"], sizes["H"], sizes["V"]
    held = 2 * v * h * 2 + 5 * 2 * t * h * 2 + 3 * 2 * t * 8
    lower = row.x * 7 * t * v if t == 4096 else 0
    return Reason(lower - held, "weights and chunks of runs of torch.compile were held")


def of_kto(row: Row, sizes: dict[str, int]) -> Reason:
    """Return the bytes of weights, biases and chunks that the provider with torch.compile held.

    It held five weights, four biases, inputs of twelve sequences, targets of six sequences and five scalars. These numbers were
    read off the rows of 8 and 16 sequences. The published row of 32 sequences has the same difference.
    """
    t, h, v = sizes["T"], sizes["H"], sizes["V"]
    held = 5 * 2 * v * h + 4 * rounded(2 * v) + 12 * 2 * t * h + 6 * 8 * t + 5 * GRAIN
    return Reason(-held, "weights and chunks of runs of torch.compile were held")


def of_distillation(row: Row, sizes: dict[str, int]) -> Reason:
    """Return the bytes of tensors of an older code, and of weights and chunks that the provider with torch.compile held.

    The rows are of 3 December 2024, the code of 30 January 2025. If temperatures divide logits into new tensors in fp32, and
    divergences have a sum per token, then rows differ by the same bytes: ten weights, 51 MiB, three targets and six scalars.
    These numbers were read off the rows of 2048 and 4096 tokens.
    """
    h, v = sizes["H"], sizes["V"]
    older = 2 * 4 * row.x * v + 4 * row.x - GRAIN
    held = 10 * v * h + 51 * MIB + 3 * 8 * 1024 + 6 * GRAIN
    return Reason(-older - held, "older code divided logits out of place, and torch.compile held weights and chunks")


def of_own_segments(row: Row, sizes: dict[str, int]) -> Reason:
    """The process began with this row: 13 tensors of 501 MiB have segments of 502 MiB, which are not split."""
    n = -13 * MIB if row.x == 1024 and row.card == "b200" else 0
    return Reason(n, "tensors had segments of their own, because the process began with this row")


FORMULAS: dict[str, Callable[[Row, dict[str, int]], Reason]] = {
    "embedding": of_embedding,
    "fused_linear_cpo_loss": of_preference_loss,
    "fused_linear_simpo_loss": of_preference_loss,
    "fused_linear_orpo_loss": of_preference_loss,
    "kto_loss": of_kto,
    "distill_jsd_loss": of_distillation,
    "jsd": of_own_segments,
}


def reason_of(row: Row) -> Reason | None:
    formula = FORMULAS.get(row.key[0])
    return formula(row, json.loads(row.sizes)) if formula is not None else None
