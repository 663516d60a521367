"""check.py [FOLDER] - lists the violations of the layout's rules (rules.py) in the tree, or in one folder of it.

Violations that known.txt lists are not counted: lines of `RULE PATH  why`, which have to go when they are no longer needed.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import circles  # noqa: F401 - adds its rule to rules.RULES
import rules
import tables
from rules import Violation
from tree import Tree

KNOWN = "tests/layout/known.txt"


def violations(tree: Tree) -> list[Violation]:
    """The violations of all rules without the known ones, and the lines of known.txt that are no longer needed."""
    found = [v for rule in rules.RULES for v in rule(tree)]
    known: dict[tuple[str, str], int] = {}
    path = tree.root / KNOWN
    for n, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else [], 1):
        if line.strip() and not line.startswith("#"):
            known[line.split()[0], line.split()[1]] = n
    present = {(v.rule, v.file) for v in found}
    left = [v for v in found if (v.rule, v.file) not in known]
    for (rule, file), n in known.items():
        if (rule, file) not in present:
            left.append(Violation(KNOWN, n, "known", f"{file} keeps to the rule {rule} by now: delete this line"))
    return sorted(left, key=lambda v: (v.file.rpartition("/")[0], v))


def main(root: Path, folder: str) -> int:
    tree = Tree(root)
    found = violations(tree)
    strays = list(rules.strays(tree))
    if folder:
        found = [v for v in found if (v.file + "/").startswith(folder + "/")]
        listed = {(v.file, v.line) for v in found if v.rule == "declared_where_defined"}
        found += [v for v in strays if v.file.startswith(folder + "/") and (v.file, v.line) not in listed]
    for violation in found:
        print(violation)
    print(
        f"layout: {len(strays)} functions are defined in a file of another name than their header ({tables.MAX_STRAYS} allowed)"
    )
    if found:
        counts = Counter(v.rule for v in found)
        print(f"layout: {len(found)} violations: " + ", ".join(f"{rule} {n}" for rule, n in sorted(counts.items())))
    else:
        print("layout: in order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parents[2], sys.argv[1].rstrip("/") if len(sys.argv) > 1 else ""))
