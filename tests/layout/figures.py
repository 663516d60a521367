"""figures.py [TREE...] - the size of trees in numbers, one column per tree: lines, files per folder, names out of place."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

import rules
import tables
from tree import UNITS, Tree


def figures(tree: Tree) -> dict[str, str]:
    """The figures of one tree: of its rooms, without tests and examples."""
    rooms = [s for s in tree.sources.values() if s.path.split("/")[0] in (*tables.ROOMS, "include")]
    tests = [s for s in tree.sources.values() if s.path.startswith("tests/")]
    folders: dict[str, int] = {}
    for s in rooms:
        folders[s.folder] = folders.get(s.folder, 0) + 1
    declared = [(h, f) for h, f in tree.declarations if h in rooms]
    headless = [v.file for v in rules.head_comments(tree) if v.file.endswith(UNITS)]
    pages = [tree.documents[p] for p in tables.MAX_FRONT_LINES if p in tree.documents]
    return {
        "source files": str(len(rooms)),
        "source lines": str(sum(len(s.lines) for s in rooms)),
        "lines of tests": str(sum(len(s.lines) for s in tests)),
        "longest source file": str(max(len(s.lines) for s in rooms)),
        "folders": str(len(folders)),
        "files per folder, least": str(min(folders.values())),
        "files per folder, median": f"{median(folders.values()):g}",
        "files per folder, most": str(max(folders.values())),
        "header functions": str(len(declared)),
        "defined in a file of another name": str(sum(v.file.split("/")[0] != "tests" for v in rules.strays(tree, ()))),
        "less those of tables.STRAYS_ALLOWED": str(sum(v.file.split("/")[0] != "tests" for v in rules.strays(tree))),
        ".c and .cu without a head comment": str(sum(not f.startswith("tests/") for f in headless)),
        "the same in tests": str(sum(f.startswith("tests/") for f in headless)),
        "colliding names": str(sum(1 for _ in rules.names_unique(tree))),
        "circles of calls": str(sum(1 for _ in rules.call_circles(tree))),
        "circles of headers": str(sum(1 for _ in rules.header_circles(tree))),
        "comparisons of operators' names": str(sum(1 for _ in rules.kinds_not_compared(tree))),
        "lines of " + " and ".join(tables.MAX_FRONT_LINES): " + ".join(str(len(p.lines)) for p in pages),
    }


def main(roots: list[str]) -> None:
    table = [figures(Tree(Path(root))) for root in roots]
    for name in table[0]:
        print(f"{name:40}" + "".join(f"{column[name]:>14}" for column in table))


if __name__ == "__main__":
    main(sys.argv[1:] or [str(Path(__file__).resolve().parents[2])])
