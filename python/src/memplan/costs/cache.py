"""What calls cost and which plans were found, kept on disk, so that a second start of a training measures and searches nothing.

A folder ($MEMPLAN_CACHE, else memplan in the user's folder for caches) has a file of costs for every PyTorch and device, and
a file for every plan: the plan's own JSON. A plan that is taken from there is checked as one that was just found. What cannot
be read or written is as if it were not there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

OFF = "off"
BESIDE = "beside-"  # begins the name of a file that is being written
LEFT_SECONDS = 3600.0  # after which nobody writes it any more
MOST_COSTS = 20000  # of a file; the oldest go


def folder_of(named: str | None) -> Path | None:
    """The folder that an option or the environment names, None: there is none."""
    text = named or os.environ.get("MEMPLAN_CACHE")
    if text == OFF:
        return None
    if text:
        return Path(text).expanduser()
    if home := os.environ.get("XDG_CACHE_HOME"):
        return Path(home) / "memplan"
    with contextlib.suppress(RuntimeError):  # a user without a home
        return Path.home() / ".cache" / "memplan"
    return None


def processor() -> str:
    """The model of the host's processor."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def digest(*parts: object) -> str:
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:32]


def replace_file(path: Path, write: Callable[[str], Any]) -> None:
    """Lets `write` write a file beside it, and puts that in its place: whole or untouched, whatever `write` raises. A folder
    that cannot be written is left, and what a process that was killed has left goes."""
    with contextlib.suppress(OSError, ValueError):
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(f"{BESIDE}*"):
            if time.time() - left.stat().st_mtime > LEFT_SECONDS:
                left.unlink()
        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=BESIDE, suffix=path.suffix)
        try:
            os.close(handle)
            write(beside)
            os.replace(beside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise


class Cache:
    """One folder. `folder` None: nothing is found and nothing kept."""

    def __init__(self, named: str | None = None) -> None:
        self.folder = folder_of(named)

    def _costs_path(self) -> Path | None:
        devices = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
        name = digest("costs 2", torch.__version__, processor(), torch.get_num_threads(), *devices)
        return self.folder / f"costs-{name}.json" if self.folder is not None else None

    def read_costs(self) -> dict[str, Any]:
        """What was kept by keep_costs on machines like this one."""
        path = self._costs_path()
        if path is None:
            return {}
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def keep_costs(self, costs: Mapping[str, Any]) -> None:
        """Adds these to the file; other processes may have added theirs meanwhile."""
        path = self._costs_path()
        if path is None:
            return
        together = {**self.read_costs(), **costs}
        kept = dict(list(together.items())[-MOST_COSTS:])
        replace_file(path, lambda beside: Path(beside).write_text(json.dumps(kept), encoding="utf-8"))

    def plan_path(self, *key: object) -> Path | None:
        """Where the plan for a graph, a budget and options is, or will be."""
        return self.folder / f"plan-{digest(*key)}.json" if self.folder is not None else None
