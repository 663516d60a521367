"""The memory that a process requires on a GPU: tensors, the caching allocator's memory, and the CUDA context."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memplan.budget import in_units
from memplan.library.quantities import process_memory


@dataclass(frozen=True)
class Needs:
    """The memory of a process on a card, in bytes.

    Attributes:
        card: the name of the card.
        family: the result of `family_of`.
        tensors_bytes: the largest number of bytes in tensors and workspaces (`torch.cuda.max_memory_allocated`).
        reserved_bytes: the largest number of bytes that the allocator reserves (`torch.cuda.max_memory_reserved`).
        process_bytes: memory of the process, with the CUDA context, loaded kernels and library handles.
        likely_bytes: 19 of 20 measured jobs of the family run in this memory.
        card_bytes: memory of the card that programs see; 0: unknown.
        n_jobs: number of measured jobs of the family.
        median_error: median of the relative error in these jobs.
    """

    card: str
    family: str
    tensors_bytes: int
    reserved_bytes: int
    process_bytes: int
    likely_bytes: int
    n_jobs: int
    median_error: float
    card_bytes: int = 0

    @property
    def fits(self) -> bool | None:
        """Whether the process fits the card; None if the card's memory is unknown."""
        return self.process_bytes <= self.card_bytes if self.card_bytes else None

    @staticmethod
    def of(card: str, family: str, tensors_bytes: int, reserved_bytes: int, card_bytes: int = 0) -> Needs | None:
        """Return the memory of a process, or None if memplan's table has no such card."""
        known = process_memory(card, family, reserved_bytes)
        if known is None:
            return None
        return Needs(
            card,
            family,
            tensors_bytes,
            reserved_bytes,
            known.process_bytes,
            known.likely_bytes,
            known.n_jobs,
            known.median_error / 1000,
            card_bytes,
        )

    def __str__(self) -> str:
        parts = (
            f"needs on {self.card}: tensors {in_units(self.tensors_bytes)}, reserved {in_units(self.reserved_bytes)}, process"
            f" {in_units(self.process_bytes)}; 19 of 20 such jobs run in {in_units(self.likely_bytes)}"
        )
        if not self.n_jobs:
            return f"{parts} (assumed: no measured job resembles this network)"
        return f"{parts} ({self.n_jobs} measured {self.family} jobs, median error {self.median_error:.1%})"


def family_of(operators: Iterable[str], has_halves: bool = False) -> str:
    """Return the family of a network from the names of its operators, such as "aten.convolution.default".

    `has_halves`: whether tensors are in half precision. The family "other" has no measured jobs.
    """
    names = [name.removeprefix("aten.").lstrip("_") for name in operators]
    has_attention = any(name.startswith(("softmax", "scaled_dot_product")) for name in names)
    has_convolution = any(name.startswith("convolution") for name in names)
    has_embedding = any(name.startswith("embedding") for name in names)
    if has_attention and has_embedding and not has_convolution:
        return "16-bit transformer" if has_halves else "transformer"
    if has_halves or has_embedding or not has_convolution:
        return "other"
    return "vision transformer" if has_attention else "convolution"
