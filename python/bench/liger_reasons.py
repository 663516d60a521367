"""Reasons for differences between estimates and Liger's published peaks.

A formula computes the bytes of a reason from the sizes of a row. A measured process held tensors besides the tensors of a row.
Liger does not publish these tensors. So all formulas were derived after a look at the rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

MIB, GRAIN = 1 << 20, 512
CARDS = {"A100": "a100", "H100": "h100", "B200": "b200", "RTX 4090": "rtx4090", "RTX 3090": "rtx3090"}
# commits whose published rows were measured with the code of another commit
MEASURED_WITH = {
    # this commit removed a copy of the logits in fp32, but its rows were measured before the removal
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
    """Return the bytes of weights and gradients that the provider with torch.compile held. Liger's own rows show them, too."""
    words = 2**18 - 2**10  # sum of 2**10 to 2**17
    held = 4 * words * (3 * 4096 + (2 * 768 if sizes["D"] == 4096 else 0))
    if sizes["D"] == 768 and row.x == 1024:  # the allocator does not split a block of 8 MiB for this tensor
        held += 8 * MIB - (row.x + 16384 // 10) * 768 * 4
    return Reason(-held, "weights and gradients of runs of torch.compile were held")


def of_preference_loss(row: Row, sizes: dict[str, int]) -> Reason:
    """Return the bytes that the provider with torch.compile held, less the bytes of logits in fp32.

    That provider ran before. It held weight, gradient, and chunks of two sequences: five chunks of the input's width and three
    chunks of targets. The commit computes logits in fp32, but the rows of 4096 tokens were measured with logits in bf16.
    """
    t, h, v = sizes["T"], sizes["H"], sizes["V"]
    held = 2 * v * h * 2 + 5 * 2 * t * h * 2 + 3 * 2 * t * 8
    lower = row.x * 7 * t * v if t == 4096 else 0
    return Reason(lower - held, "weights and chunks of runs of torch.compile were held")


def of_kto(row: Row, sizes: dict[str, int]) -> Reason:
    """Return the bytes of weights, biases and chunks that the provider with torch.compile held.

    It held five weights, four biases, inputs of twelve sequences, targets of six sequences and five scalars. These numbers were
    derived from the rows of 8 and 16 sequences. The published row of 32 sequences has the same difference.
    """
    t, h, v = sizes["T"], sizes["H"], sizes["V"]
    held = 5 * 2 * v * h + 4 * rounded(2 * v) + 12 * 2 * t * h + 6 * 8 * t + 5 * GRAIN
    return Reason(-held, "weights and chunks of runs of torch.compile were held")


def of_distillation(row: Row, sizes: dict[str, int]) -> Reason:
    """Return the bytes of tensors of older code, and of weights and chunks that the provider with torch.compile held.

    The rows were measured on 3 December 2024, but the script's code is of 30 January 2025. Assumption: the older code divided
    logits by the temperature into new tensors in fp32, and summed divergences per token. Then all rows differ by the same
    bytes: ten weights, 51 MiB, three targets and six scalars. These numbers were derived from the rows of 2048 and 4096 tokens.
    """
    h, v = sizes["H"], sizes["V"]
    older = 2 * 4 * row.x * v + 4 * row.x - GRAIN
    held = 10 * v * h + 51 * MIB + 3 * 8 * 1024 + 6 * GRAIN
    return Reason(-older - held, "older code divided logits out of place, and torch.compile held weights and chunks")


def of_own_segments(row: Row, sizes: dict[str, int]) -> Reason:
    """Return the bytes of remainders that the allocator did not split off: 13 tensors of 501 MiB have segments of 502 MiB.

    The process began with this row, so no cached block could serve these tensors.
    """
    n = -13 * MIB if row.x == 1024 and row.card == "b200" else 0
    return Reason(n, "13 new segments kept remainders of 1 MiB, because no earlier run had cached blocks")


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
