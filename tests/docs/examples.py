#!/usr/bin/env python3
"""examples.py [CC] - compiles the examples of the headers and of docs/, and checks the names that Python examples use.

* Headers: an example is indented code in a comment of include/. It becomes the body of a function that returns mp_status.
  Its line `// given: TYPE NAME; TYPE NAME` lists the parameters of that function.
* docs/internals/adding-an-operator.md: the page adds two operators. The script adds them to copies of the files that the page
  names, and compiles the copies.
* Python: a block must be valid. Every name `memplan.NAME` must exist in the package, and so must every keyword argument.
"""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
COMPILE = "-std=c11 -D_DEFAULT_SOURCE -Wall -Wextra -Werror -fsyntax-only".split()
OPERATOR_PAGE = "docs/internals/adding-an-operator.md"


def header_examples(path: pathlib.Path) -> list[tuple[int, list[str]]]:
    """The indented blocks of a header's comments in which a line ends like a statement: (line number, lines)."""
    text, found = path.read_text(), []
    for comment in COMMENT.finditer(text):
        first = text.count("\n", 0, comment.start()) + 1
        block: list[str] = []
        for n, line in enumerate([*comment.group().splitlines(), ""]):
            if line.startswith(" *     "):
                block.append(line[7:].removesuffix("*/"))
                continue
            if any(re.search(r";\s*(//.*)?$", code) for code in block) and not block[0].startswith("digraph"):
                found.append((first + n - len(block), block))
            block = []
    return found


def function_of(name: str, block: list[str]) -> list[str]:
    given, body = block[0].removeprefix("// given: "), block
    parameters = given.replace(";", ",") if given != block[0] else "void"
    return [f"mp_status {name}({parameters}); mp_status {name}({parameters}) {{", *body, "return MP_OK; }"]


def unit_of_headers() -> tuple[str, int]:
    """One translation unit with all examples, whose #line directives make the compiler name the headers."""
    lines, n = ["#include <assert.h>", "#include <stdio.h>", '#include "memplan/memplan.h"'], 0
    for header in sorted((ROOT / "include").rglob("*.h")):
        lines.append(f'#include "{header.relative_to(ROOT / "include")}"')
        for at, block in header_examples(header):
            lines += [f'#line {at - 1} "{header.relative_to(ROOT)}"', *function_of(f"example_{n}", block)]
            n += 1
    return "\n".join(lines) + "\n", n


def compiled(cc: str, arguments: list[str], text: str = "") -> bool:
    command = [*cc.split(), *COMPILE, *arguments, "-I.", "-Iinclude"]
    result = subprocess.run(command, input=text, text=True, capture_output=True, cwd=ROOT)
    if result.returncode:
        errors = [line for line in result.stderr.splitlines() if "error:" in line]
        print("examples: an example is not compiled:", *errors[:4], sep="\n  ")
    return result.returncode == 0


# ---- the two operators of the page ----


class Overlay:
    """Copies of files of the tree, which the compiler finds before the originals."""

    def __init__(self, folder: str) -> None:
        self.folder, self.changed = pathlib.Path(folder), list[str]()

    def write(self, path: str, text: str) -> None:
        copy = self.folder / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)
        self.changed.append(path)

    def insert(self, path: str, marker: str, text: str) -> None:
        """Inserts a text behind the marker, or, for the marker "", at the end."""
        copy = self.folder / path
        old = (copy if copy.exists() else ROOT / path).read_text()
        if marker not in old:
            raise SystemExit(f"examples: {path} has no '{marker}', which {OPERATOR_PAGE} extends")
        self.write(path, old.replace(marker, marker + text, 1) if marker else old + text)


def add_operators(tree: Overlay) -> list[str]:
    """Does as the page says. Returns the files to compile."""
    blocks = [b for word, b in BLOCK.findall((ROOT / OPERATOR_PAGE).read_text()) if word == "c"]
    (tanh_row, tanh_formula, tanh_test, mul_row, mul_formula, row, shape, extras, body, source, place, test) = blocks
    for quoted, path in ((mul_row, "estimator/model/ops.def"), (mul_formula, "executor/operators/elementwise/elementwise.def")):
        if " ".join(quoted.split()) not in " ".join((ROOT / path).read_text().split()):
            raise SystemExit(f"examples: {OPERATOR_PAGE}: a row is not in {path} as it stands there")
    function, case = tanh_test.split("...\n")
    extras, extras_case = extras.split("...\n")
    include, entry = place.split("...\n")
    ops, formulas = "estimator/model/ops.def", "executor/operators/elementwise/elementwise.def"
    tree.insert(
        ops, next(x for x in (ROOT / ops).read_text().splitlines() if x.startswith("UNARY(Tanh,")) + "\n", tanh_row + row
    )
    tanh = next(x for x in (ROOT / formulas).read_text().splitlines() if x.startswith('UNARY("Tanh"'))
    tree.insert(formulas, tanh + "\n", tanh_formula)
    tree.insert("estimator/model/ops_rules.h", "", re.search(r"^int \w+\(.*\)$", extras, re.MULTILINE)[0] + ";\n")
    tree.insert("estimator/rules/shapes/shapes_reduction.c", "", shape)
    tree.insert("estimator/rules/shapes/costs.c", "", extras)
    tree.write("executor/operators/reductions/row_max.h", body)
    tree.write("executor/operators/reductions/row_max.c", source)
    bodies = "executor/operators/bodies.h"
    tree.insert(bodies, '#include "executor/operators/reductions/determinant.h"\n', include)
    tree.insert(bodies, re.search(r"#define MP_BODIES\(X\) +\\\n", (ROOT / bodies).read_text())[0], entry.rstrip() + " \\\n")
    unaries = "tests/kernels/test_unaries.c"
    tree.insert(unaries, '    {"Tanh", 13, "", tanh, -3, 3, false},\n', case)
    tree.insert(unaries, re.search(r"(#include .*\n)+\n", (ROOT / unaries).read_text())[0], function)
    tree.insert("tests/estimator/test_ops.c", '        {"Dropout", 13, "float16[4,10]", "", ""},\n', extras_case)
    tree.insert("tests/kernels/test_reductions.c", "\nTEST(", "before_the_example) {}\n\n" + test + "\nTEST(")
    for unchanged in (
        "estimator/model/ops.c",
        "executor/operators/bodies_cpu.c",
        "executor/operators/elementwise/formulas_cpu.c",
    ):
        tree.write(unchanged, (ROOT / unchanged).read_text())
    return [path for path in dict.fromkeys(tree.changed) if path.endswith(".c")]


# ---- Python ----


def signatures() -> dict[str, tuple[set[str], bool]]:
    """Per name of a function, method or class of the package: the names of its parameters, and whether it accepts others."""
    found: dict[str, tuple[set[str], bool]] = {}

    def note(name: str, parameters: set[str], is_open: bool) -> None:
        old, was_open = found.get(name, (set(), False))
        found[name] = (old | parameters, was_open or is_open)

    for path in (ROOT / "python/src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                a = node.args
                note(node.name, {x.arg for x in [*a.posonlyargs, *a.args, *a.kwonlyargs]}, a.kwarg is not None)
            elif isinstance(node, ast.ClassDef):
                note(node.name, set(), False)
                for part in node.body:
                    if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                        a = part.args
                        note(node.name, {x.arg for x in [*a.args, *a.kwonlyargs]}, a.kwarg is not None)
                    elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                        note(node.name, {part.target.id}, False)
    return found


def wrong_names(code: str, public: set[str], known: dict[str, tuple[set[str], bool]]) -> list[str]:
    wrong = []
    for node in ast.walk(ast.parse(code)):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "memplan"
            and node.attr not in public
        ):
            wrong.append(f"memplan.{node.attr} does not exist")
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("memplan."):
            if not (ROOT / "python/src" / (node.module or "").replace(".", "/")).with_suffix(".py").exists():
                wrong.append(f"there is no module {node.module}")
            wrong += [f"{node.module} has no {x.name}" for x in node.names if x.name not in known]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            parameters, is_open = known.get(node.func.attr, (set(), True))
            if node.func.value.id == "memplan" and not is_open:
                wrong += [
                    f"{node.func.attr} has no parameter {k.arg}" for k in node.keywords if k.arg and k.arg not in parameters
                ]
    return wrong


def main(cc: str) -> int:
    unit, n = unit_of_headers()
    bad = 0 if compiled(cc, ["-x", "c", "-"], unit) else 1
    with tempfile.TemporaryDirectory() as folder:
        tree = Overlay(folder)
        bad += sum(
            not compiled(cc, [f"-I{folder}", "-isystem", "build/gen", f"{folder}/{path}"]) for path in add_operators(tree)
        )
    package = ast.parse((ROOT / "python/src/memplan/__init__.py").read_text())
    public = {x.asname or x.name for node in ast.walk(package) if isinstance(node, ast.ImportFrom) for x in node.names}
    public |= {p.stem for p in (ROOT / "python/src/memplan").iterdir()}
    known = signatures()
    for page in [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "python/README.md"]:
        for word, code in BLOCK.findall(page.read_text()):
            if word != "python":
                continue
            n += 1
            try:
                wrong = wrong_names(code, public, known)
            except SyntaxError as error:
                wrong = [f"a Python example cannot be parsed: {error}"]
            for text in wrong:
                print(f"examples: {page.relative_to(ROOT)}: {text}")
            bad += len(wrong)
    if not bad:
        print(f"examples: {n} in headers and documents in order")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "cc"))
