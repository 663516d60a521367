"""Builds libmemplan.so and the program with the Makefile above this folder and puts them into the wheel, with the libraries
that they need."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# What every machine with PyTorch has, in its own version.
SYSTEM = re.compile(r"(ld-linux.*|lib(c|m|mvec|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s))\.so[.0-9]*")
# What Graphviz loads when it draws: the writer of .svg and .dot, and the layout.
PLUGINS = ("libgvplugin_core.so.6", "libgvplugin_neato_layout.so.6")


def needed(library: Path) -> list[Path]:
    """The libraries that this one needs, and those need, found as the loader finds them."""
    listed = subprocess.run(["ldd", str(library)], check=True, capture_output=True, text=True).stdout
    if missing := re.findall(r"(\S+) => not found", listed):
        raise RuntimeError(f"{library} needs libraries that are not there: {', '.join(missing)}")
    found = [Path(path) for path in re.findall(r"=> (/\S+)", listed)]
    return [path for path in found if not SYSTEM.fullmatch(path.name)]


def copy(source: Path, target: Path, run_path: str) -> None:
    """A copy without names for debuggers that looks for libraries at run_path first."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
    subprocess.run(["strip", "--strip-unneeded", str(target)], check=True)
    subprocess.run(["patchelf", "--set-rpath", run_path, str(target)], check=True)


def gather(library: Path, program: Path, folder: Path) -> None:
    """libmemplan.so into a folder, the program into bin/ below, all that they need into lib/, and Graphviz's plugins where
    libgvc.so looks for them."""
    shutil.rmtree(folder, ignore_errors=True)
    closure = {path.name: path for path in [*needed(library), *needed(program)]}
    for gvc in [path for name, path in closure.items() if name.startswith("libgvc.")]:
        plugins = gvc.parent / "graphviz"
        for name in PLUGINS:
            copy(plugins / name, folder / "lib" / "graphviz" / name, "$ORIGIN/..")
            closure |= {path.name: path for path in needed(plugins / name)}
        (folder / "lib" / "graphviz" / "config6a").write_text(plugin_list((plugins / "config6a").read_text()))
    copy(library, folder / library.name, "$ORIGIN/lib")
    copy(program, folder / "bin" / program.name, "$ORIGIN/../lib")
    for name, path in closure.items():
        copy(path, folder / "lib" / name, "$ORIGIN")
    copy_licences([*closure.values(), linked_in("libigraph.a")], folder / "lib" / "licences")


def linked_in(archive: str) -> Path:
    """Where the compiler found a library that both contain."""
    found = subprocess.run(["gcc", f"-print-file-name={archive}"], check=True, capture_output=True, text=True).stdout
    return Path(found.strip()).resolve()


def copy_licences(libraries: Iterable[Path], folder: Path) -> None:
    """The texts that Debian ships with the packages of these libraries, a file per package."""
    folder.mkdir(parents=True, exist_ok=True)
    for library in libraries:
        for path in (library.resolve(), library):
            owner = subprocess.run(["dpkg", "-S", str(path)], check=False, capture_output=True, text=True).stdout
            package = owner.partition(":")[0]
            text = Path("/usr/share/doc") / package / "copyright"
            if package and text.exists():
                shutil.copyfile(text, folder / f"{package}.txt")
                break


def plugin_list(config: str) -> str:
    """Of Graphviz's list of plugins, those that are in the wheel."""
    blocks = re.findall(r"^lib\S+ \w+ \{\n.*?^\}\n", config, re.DOTALL | re.MULTILINE)
    return "".join(block for block in blocks if block.startswith(PLUGINS))


def tag() -> str:
    """For every Python 3 on machines of this kind whose C library is not older than this one's."""
    name, version = platform.libc_ver()
    if name == "glibc":
        return f"py3-none-manylinux_{version.replace('.', '_')}_{platform.machine()}"
    return "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())


class BuildLibrary(BuildHookInterface):
    """MEMPLAN_LIBRARY names a library that is built already; the program lies beside it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root).parent
        library = root / "build" / "package" / "libmemplan.so"
        if built := os.environ.get("MEMPLAN_LIBRARY"):
            library = Path(built)
        program = library.with_name("memplan")
        if not built:
            made = [str(path.relative_to(root)) for path in (library, program)]
            subprocess.run(["make", f"-j{os.cpu_count() or 1}", "-C", str(root), "CUDA=0", "B=build", *made], check=True)
        folder = root / "build" / "package" / "wheel"
        gather(library, program, folder)
        build_data["force_include"][str(folder)] = "memplan"
        build_data["shared_scripts"][str(root / "packaging" / "program.py")] = "memplan"
        build_data["pure_python"] = False
        build_data["tag"] = tag()
