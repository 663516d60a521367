"""What can go wrong, as exceptions with a sentence for people."""

from __future__ import annotations


class MemplanError(Exception):
    """Everything that this package raises by itself."""


class LibraryError(MemplanError):
    """libmemplan.so is not found, or is of another interface."""


class BudgetError(MemplanError):
    """A budget that cannot be met, or that cannot be read. Bytes are -1 where there is nothing to say."""

    def __init__(self, sentence: str, *, budget_bytes: int = -1, smallest_bytes: int = -1, floor_bytes: int = -1) -> None:
        super().__init__(sentence)
        self.budget_bytes = budget_bytes
        self.smallest_bytes = smallest_bytes  # of the smallest plan that was found
        self.floor_bytes = floor_bytes  # no plan at all needs less


class OverwrittenError(MemplanError, RuntimeError):
    """Somebody has written into what backward reads; a RuntimeError, as eager PyTorch's own."""


class RankError(MemplanError, RuntimeError):
    """Another rank is gone, does not come, has raised, or computes something else; a RuntimeError, as PyTorch's own."""


class NotPlannable(MemplanError):
    """A graph that cannot be planned, and why: it runs as eager does."""


class FallbackWarning(UserWarning):
    """A graph runs without a plan; the text says why."""
