"""Exceptions of memplan. Each message is a sentence for the user."""

from __future__ import annotations


class MemplanError(Exception):
    """The base class of all exceptions that this package raises."""


class LibraryError(MemplanError):
    """libmemplan.so is missing, or its version does not match the package."""


class BudgetError(MemplanError):
    """A budget is malformed or cannot be met. Unknown byte counts are -1."""

    def __init__(self, sentence: str, *, budget_bytes: int = -1, smallest_bytes: int = -1, floor_bytes: int = -1) -> None:
        super().__init__(sentence)
        self.budget_bytes = budget_bytes
        self.smallest_bytes = smallest_bytes  # peak of the smallest plan found, in bytes
        self.floor_bytes = floor_bytes  # certified lower bound in bytes: no plan needs less


class OverwrittenError(MemplanError, RuntimeError):
    """The user's code has overwritten a tensor that backward reads. A RuntimeError, like PyTorch's own error."""


class RankError(MemplanError, RuntimeError):
    """Another rank has ended, does not respond, has failed, or has another graph or other options. A RuntimeError, like
    PyTorch's own.
    """


class NotPlannable(MemplanError):
    """A graph cannot be planned. The message gives the reason; the graph runs eagerly."""


class FallbackWarning(UserWarning):
    """A graph runs without a plan. The text gives the reason."""
