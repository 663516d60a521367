"""One name that PyTorch does not promise: looked up when it is first needed, never a reason why the package is not imported."""

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
    """`paths`: the name, and others for the same; `of`: makes an object that has it, where no path leads there; `since`: the
    PyTorch that has it first. Where it is missing there is another way (`instead`), or something is lost, a sentence.
    `on_demand`: it belongs to a part of PyTorch that takes long to import, and is looked up by who asks for that part."""

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
        self.originals: list[Any] = []  # one per user for whom it stands for something else
        NAMES.append(self)

    @functools.cached_property
    def place(self) -> tuple[Any, str] | None:
        """Whose it is and what it is called there, None: this PyTorch has no such name."""
        if self.of is None:
            return next((found for path in self.paths if (found := place_of(path)) is not None), None)
        owner = self.of()
        return next(((owner, path) for path in self.paths if hasattr(owner, path)), None)

    def __bool__(self) -> bool:
        return self.place is not None

    def get(self, otherwise: Any = None) -> Any:
        """What it stands for at this moment."""
        return getattr(*self.place) if self.place is not None else otherwise

    def put(self, value: Any) -> None:
        """Has it stand for something else."""
        if self.place is not None:
            setattr(*self.place, value)

    def original(self) -> Any:
        """PyTorch's own, None where it is missing."""
        with LOCK:
            return self.originals[0] if self.originals else self.get()

    @contextlib.contextmanager
    def standing_for(self, value: Any) -> Iterator[None]:
        """In it, it stands for something else, in all threads: the first of several users decides, and the last restores it."""
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
        """MemplanError where it is missing."""
        self.need()
        return self.get()(*args, **kwargs)

    def need(self) -> None:
        """MemplanError where it is missing."""
        if self.place is None:
            raise MemplanError(f"PyTorch {torch.__version__} has no {self}")

    def __str__(self) -> str:
        return f"{self.paths[0]} ({self.use}): {self.instead or self.lost}"


def place_of(path: str) -> tuple[Any, str] | None:
    """The module or class in which the last part of a dotted path is, and that part."""
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
    """What this PyTorch should have and has not."""
    here = torch.torch_version.TorchVersion(torch.__version__)
    return [name for name in NAMES if not name.on_demand and here >= name.since and not name]
