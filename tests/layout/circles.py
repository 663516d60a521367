"""circles.py - the rule about imports within the PyTorch package."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rules import Violation, rule
from tree import Tree

PACKAGE = "python/src/memplan/"
IMPORT = re.compile(r"^[ \t]*from memplan(?:\.([\w.]+))? import ([^\n(]+|\([^)]*\))", re.MULTILINE)


def package_imports(tree: Tree) -> dict[str, dict[str, str]]:
    """Return for each folder, and each file outside of folders, its imports of others, with the path of an importing file."""
    paths = [s.path.removeprefix(PACKAGE) for s in tree.scripts.values() if s.path.startswith(PACKAGE)]
    tops = {path.partition("/")[0] for path in paths}
    found: dict[str, dict[str, str]] = {top: {} for top in tops}
    for path in paths:
        own = path.partition("/")[0]
        for m in IMPORT.finditer(tree.scripts[PACKAGE + path].text):
            names = [m[1].partition(".")[0]] if m[1] else re.findall(r"\w+", m[2])
            for name in names:
                for top in {name, f"{name}.py"} & tops - {own}:
                    found[own].setdefault(top, PACKAGE + path)
    return found


@rule
def python_circles(tree: Tree) -> Iterator[Violation]:
    """Folders of the PyTorch package, and files outside of folders, import each other in one direction."""
    left = {name: dict(imports) for name, imports in package_imports(tree).items()}
    while ends := [name for name, imports in left.items() if not imports]:
        left = {
            name: {to: at for to, at in imports.items() if to not in ends}
            for name, imports in left.items()
            if name not in ends
        }
    wanted = {to for imports in left.values() for to in imports}
    for name in sorted(left.keys() & wanted):
        to, path = next(iter(left[name].items()))
        yield Violation(path, 1, "python_circles", f"{name} imports {to}, which leads back to {name}")
