"""Builds libmemplan.so with the Makefile above this folder and puts it into the wheel."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuildLibrary(BuildHookInterface):
    """MEMPLAN_LIBRARY names a library that is built already."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root).parent
        library = Path(os.environ.get("MEMPLAN_LIBRARY") or root / "build" / "libmemplan.so")
        if not os.environ.get("MEMPLAN_LIBRARY"):
            subprocess.run(["make", "-C", str(root), "CUDA=0", "B=build", "build/libmemplan.so"], check=True)
        build_data["force_include"][str(library)] = "memplan/libmemplan.so"
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
