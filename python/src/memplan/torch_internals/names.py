"""Lookup of private PyTorch names at first use. A missing name never prevents the import of the package."""

from __future__ import annotations

import contextlib
import functools
import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from memplan.errors import MemplanError

NAMES: list[Private] = []
LOCK = threading.Lock()


class Private:
    """A private name of PyTorch.

    Args:
        *paths: the name, and its names in other versions.
        use: the purpose of the name.
        instead: memplan's alternative if the name is missing.
        lost: if there is no alternative, a sentence on the feature that is lost.
        since: the first PyTorch version with the name.
        of: creates an object that has the name as an attribute, if no module path leads to it.
        on_demand: whether the name is in a part of PyTorch that is slow to import. Such a name is looked up at its first use
            only.
    """

    def __init__(
        self,
        *paths: str,
        use: str,
        instead: str = "",
        lost: str = "",
        since: str = "2.4",
        of: Callable[[], Any] | None = None,
        on_demand: bool = False,
    ) -> None:
        assert bool(instead) != bool(lost)
        self.paths, self.use, self.instead, self.lost = paths, use, instead, lost
        self.since, self.of, self.on_demand = since, of, on_demand
        self.originals: list[Any] = []  # PyTorch's original value, once for each active `standing_for`
        NAMES.append(self)

    @functools.cached_property
    def place(self) -> tuple[Any, str] | None:
        """The owner of the name and the attribute, or None if this PyTorch version lacks it."""
        if self.of is None:
            return next((found for path in self.paths if (found := place_of(path)) is not None), None)
        owner = self.of()
        return next(((owner, path) for path in self.paths if hasattr(owner, path)), None)

    def __bool__(self) -> bool:
        return self.place is not None

    def get(self, otherwise: Any = None) -> Any:
        """Return the value that the private name has now."""
        return getattr(*self.place) if self.place is not None else otherwise

    def put(self, value: Any) -> None:
        """Replace the value of the private name."""
        if self.place is not None:
            setattr(*self.place, value)

    def original(self) -> Any:
        """Return PyTorch's own value, or None if it is missing."""
        with LOCK:
            return self.originals[0] if self.originals else self.get()

    @contextlib.contextmanager
    def standing_for(self, value: Any) -> Iterator[None]:
        """Replace the value in all threads within the context.

        With several users, the first replaces and the last restores it.
        """
        with LOCK:
            self.originals.append(self.originals[0] if self.originals else self.get())
            if len(self.originals) == 1:
                self.put(value)
        try:
            yield
        finally:
            with LOCK:
                original = self.originals.pop()
                if not self.originals:
                    self.put(original)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call PyTorch's private function of this name. Raises MemplanError if this PyTorch version lacks it."""
        self.need()
        return self.get()(*args, **kwargs)

    def need(self) -> None:
        """Raise MemplanError if this PyTorch version lacks the name."""
        if self.place is None:
            raise MemplanError(f"PyTorch {torch.__version__} lacks {self}")

    def __str__(self) -> str:
        return f"{self.paths[0]} ({self.use}): {self.instead or self.lost}"


def place_of(path: str) -> tuple[Any, str] | None:
    """Return the module or class that contains the last part of a dotted path, and that part."""
    parts = path.split(".")
    for k in range(len(parts) - 1, 0, -1):
        try:
            owner: Any = importlib.import_module(".".join(parts[:k]))
        except ImportError:
            continue
        for part in parts[k:-1]:
            if not hasattr(owner, part):
                return None
            owner = getattr(owner, part)
        return (owner, parts[-1]) if hasattr(owner, parts[-1]) else None
    return None


def missing() -> list[Private]:
    """Return the names that this PyTorch version should have but lacks."""
    here = torch.torch_version.TorchVersion(torch.__version__)
    return [name for name in NAMES if not name.on_demand and here >= name.since and not name]
