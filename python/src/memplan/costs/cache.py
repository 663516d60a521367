"""Disk cache of operator costs and plans. A second start of a training measures and searches nothing.

The folder is $MEMPLAN_CACHE or `memplan` in the user's cache folder. It contains one file of costs per PyTorch version and
device, and one JSON file per plan. A cached plan is checked like a new one. Unreadable or unwritable files count as missing.
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
BESIDE = "beside-"  # file names with this prefix are temporary files
LEFT_SECONDS = 3600.0  # temporary files older than this belong to killed processes and are deleted
MOST_COSTS = 20000  # maximum number of operator costs per file; the oldest entries are dropped


def folder_of(named: str | None) -> Path | None:
    """Return the folder given by the option or the environment, or None if caching is off."""
    text = named or os.environ.get("MEMPLAN_CACHE")
    if text == OFF:
        return None
    if text:
        return Path(text).expanduser()
    if home := os.environ.get("XDG_CACHE_HOME"):
        return Path(home) / "memplan"
    with contextlib.suppress(RuntimeError):  # Path.home() raises RuntimeError if the user has no home folder
        return Path.home() / ".cache" / "memplan"
    return None


def processor() -> str:
    """Return the model name of the host's processor."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def digest(*parts: object) -> str:
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:32]


def replace_file(path: Path, write: Callable[[str], Any]) -> None:
    """Replace a file atomically: `write` writes a temporary file, which is then renamed.

    If `write` raises, the file is unchanged. An unwritable folder is ignored. Temporary files of killed processes are deleted.
    """
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
    """The cache in one folder. With `folder` None, nothing is read or written."""

    def __init__(self, named: str | None = None) -> None:
        self.folder = folder_of(named)

    def _costs_path(self) -> Path | None:
        devices = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
        name = digest("costs 2", torch.__version__, processor(), torch.get_num_threads(), *devices)
        return self.folder / f"costs-{name}.json" if self.folder is not None else None

    def read_costs(self) -> dict[str, Any]:
        """Return the operator costs that keep_costs has stored on this kind of machine."""
        path = self._costs_path()
        if path is None:
            return {}
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def keep_costs(self, costs: Mapping[str, Any]) -> None:
        """Merge these costs into the file. Entries written by other processes in the meantime are kept."""
        path = self._costs_path()
        if path is None:
            return
        together = {**self.read_costs(), **costs}
        kept = dict(list(together.items())[-MOST_COSTS:])
        replace_file(path, lambda beside: Path(beside).write_text(json.dumps(kept), encoding="utf-8"))

    def plan_path(self, *key: object) -> Path | None:
        """Return the path of the plan for a graph, a budget and options. The file may not exist yet."""
        return self.folder / f"plan-{digest(*key)}.json" if self.folder is not None else None
