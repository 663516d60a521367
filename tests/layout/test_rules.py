"""test_rules.py - every rule bites: a tiny tree keeps to all of them, and each breach of one rule makes that rule complain, alone.

With --show it prints the message for each breach.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from pathlib import Path

import check
import rules
import tables
from tree import Tree

CLEAN = {
    "tests/layout/rooms.txt": "# from the bottom up\nestimator/base  words\nplanner/plan  plans\nexecutor/cpu  one\nexecutor/cuda  two\n",
    "estimator/base/word.h": (
        "/* word.h - a word counts its letters. */\n#pragma once\n\n"
        "typedef struct mp_word {\n    int letters;\n} mp_word;\n\nint mp_word_length(const mp_word *word);\n"
    ),
    "estimator/base/word.c": (
        '/* word.c - letters are counted once. printf("in a comment") is fine. */\n#include "estimator/base/word.h"\n\n'
        "int mp_word_length(const mp_word *word)\n{\n    return word->letters;\n}\n"
    ),
    "planner/plan/plan.h": (
        '/* plan.h - a plan has a length. */\n#pragma once\n\n#include "estimator/base/word.h"\n\n'
        "int mp_plan_length(const mp_word *word);\n"
    ),
    "planner/plan/plan.c": (
        '/* plan.c - plans are as long as their words. */\n#include "planner/plan/plan.h"\n\n'
        "int mp_plan_length(const mp_word *word)\n{\n    return mp_word_length(word);\n}\n"
    ),
    "executor/cpu/one.h": "/* one.h - a backend stands alone. */\n#pragma once\n",
    "executor/cuda/two.h": "/* two.h - another stands alone. */\n#pragma once\n",
    "README.md": "Short.\n",
}
WORD_C, WORD_H, PLAN_C, PLAN_H = "estimator/base/word.c", "estimator/base/word.h", "planner/plan/plan.c", "planner/plan/plan.h"
ONE_H, TWO_H, ROOMS = "executor/cpu/one.h", "executor/cuda/two.h", "tests/layout/rooms.txt"


def call(statement: str) -> str:
    return f"\nstatic void mp_extra(void)\n{{\n    {statement};\n}}\n"


TWICE = "\nstatic inline int mp_twice(void)\n{\n    return 0;\n}\n"

# Rule, the breach, and the text appended to each file (a missing file is made, with a head comment).
BREACHES: list[tuple[str, str, dict[str, str]]] = [
    ("liveness_at_home", "a file reads how updates are fused", {PLAN_C: call("return graph->fuse == 0")}),
    ("liveness_at_home", "a file reads which nodes run once", {PLAN_C: call("return node->flags & MP_NODE_ONCE")}),
    (
        "arrows_between_folders",
        "a folder includes one that comes later",
        {PLAN_H: '\n#include "planner/late/late.h"\n', "planner/late/late.h": "", ROOMS: "planner/late  last\n"},
    ),
    ("arrows_between_rooms", "a room includes one above it", {WORD_C: '\n#include "planner/planner.h"\n'}),
    (
        "cli_asks_the_public",
        "a command includes a private header of the planner",
        {"cli/new.c": '\n#include "planner/plan/plan.h"\n', ROOMS: "cli  commands\n"},
    ),
    ("meshes_read_once", "a plan parses its mesh again", {PLAN_C: call('mp_mesh_read("dp=2", &mesh, err)')}),
    ("python_files", "a file of the package opens with no sentence", {"python/src/memplan/new.py": ""}),
    (
        "python_circles",
        "two folders of the package import each other",
        {
            "python/src/memplan/plan/-a.py": '"""A sentence."""\nfrom memplan.run.b import b\n',
            "python/src/memplan/run/-b.py": '"""A sentence."""\nfrom memplan.plan.a import a\n',
        },
    ),
    ("folders_listed", "a folder is not in the table", {"planner/new/new.h": ""}),
    ("folders_listed", "the table has an empty folder", {ROOMS: "planner/gone  nothing\n"}),
    ("backends_apart", "the GPU's backend includes the CPU's", {TWO_H: '\n#include "executor/cpu/one.h"\n'}),
    (
        "backends_apart",
        "an operator's description includes a backend's file",
        {"executor/operators/sum/sum.h": '\n#include "executor/cpu/one.h"\n', ROOMS: "executor/operators/sum  last\n"},
    ),
    (
        "public_headers",
        "a public header includes a private one",
        {
            "include/memplan/plan.h": '\n#include "planner/plan/plan.h"\n',
            "include/memplan/memplan.h": '\n#include "memplan/plan.h"\n',
        },
    ),
    (
        "public_headers",
        "a public header without a .c",
        {"include/memplan/none.h": "", "include/memplan/memplan.h": '\n#include "memplan/none.h"\n'},
    ),
    ("public_headers", "memplan.h lacks a public header", {"include/memplan/plan.h": "", "include/memplan/memplan.h": ""}),
    ("links", "a link to no file", {"docs/page.md": "See [there](../gone.md).\n"}),
    ("links", "a link to no heading", {"docs/page.md": "# Page\n\nSee [there](#elsewhere).\n"}),
    ("foreign_libraries", "JSON outside formats", {PLAN_C: "\n#include <jansson.h>\n"}),
    ("foreign_libraries", "generated code elsewhere", {PLAN_C: '\n#include "onnx.pb-c.h"\n'}),
    (
        "header_circles",
        "two headers include each other",
        {"planner/plan/a.h": '\n#include "planner/plan/b.h"\n', "planner/plan/b.h": '\n#include "planner/plan/a.h"\n'},
    ),
    (
        "call_circles",
        "two files call each other",
        {
            "planner/plan/a.c": "\nint mp_a(void)\n{\n    return mp_b();\n}\n",
            "planner/plan/b.c": "\nint mp_b(void)\n{\n    return mp_a();\n}\n",
        },
    ),
    ("names_unique", "one type twice", {PLAN_H: "\ntypedef struct mp_word {\n    int x;\n} mp_word;\n"}),
    ("names_unique", "a type and a function", {PLAN_H: "\nstatic inline int mp_word(void)\n{\n    return 0;\n}\n"}),
    ("names_unique", "one function twice", {PLAN_H: TWICE, WORD_H: TWICE}),
    ("names_unique", "a tag that another room completes", {PLAN_H: "\nstruct mp_word {\n    int x;\n};\n"}),
    (
        "declared_where_defined",
        "a function from another file's header",
        {PLAN_H: "\nint mp_far(void);\n", WORD_C: "\nint mp_far(void)\n{\n    return 0;\n}\n"},
    ),
    ("declared_where_defined", "a function that nobody defines", {PLAN_H: "\nint mp_far(void);\n"}),
    (
        "declared_where_defined",
        "a function of a longer name in another folder",
        {PLAN_H: "\nint mp_far(void);\n", "estimator/base/plan_far.c": "int mp_far(void)\n{\n    return 0;\n}\n"},
    ),
    ("headers_once", "a header without #pragma once", {"planner/plan/-bare.h": "/* bare.h - a sentence. */\n"}),
    ("head_comments", "no head comment", {"planner/plan/-bare.c": "int mp_bare(void);\n"}),
    ("head_comments", "the name of another file", {"planner/plan/-bare.c": "/* plan.c - a sentence. */\n"}),
    ("kinds_not_compared", "strcmp of an operator's name", {PLAN_C: call('if (!strcmp(op->op->name, "Conv")) return')}),
    (
        "kinds_not_compared",
        "strcmp of a name in the table",
        {
            PLAN_C: call('if (strncmp(name, "Gelu", 4) == 0) return'),
            "estimator/model/-ops.def": "/* ops.def - operators. */\nOP(Gelu)\n",
            ROOMS: "estimator/model  operators\n",
        },
    ),
    (
        "kinds_not_compared",
        "a switch",
        {PLAN_C: "\nstatic void mp_extra(int k)\n{\n    switch (k) {\n    case MP_OP_CONV:\n        return;\n    }\n}\n"},
    ),
    ("library_is_silent", "printf", {PLAN_C: call('printf("")')}),
    ("library_is_silent", "exit", {PLAN_C: call("exit(1)")}),
    ("library_is_silent", "standard error", {PLAN_C: call('fputs("", stderr)')}),
    ("names_are_visible", "printf", {"cli/one.c": call('printf("%s", name)'), ROOMS: "cli  speaks\n"}),
    ("names_are_visible", "puts of a name", {"cli/one.c": call("puts(name)"), ROOMS: "cli  speaks\n"}),
    ("banned_functions", "strcpy", {PLAN_C: call("strcpy(a, b)")}),
    ("sizes", "a long file", {PLAN_H: "/* line */\n" * tables.MAX_LINES}),
    ("sizes", "a long front page", {"README.md": "line\n" * tables.MAX_FRONT_LINES["README.md"]}),
    ("sizes", "a folder that fits no screen", {f"docs/-{k}.md": "\n" for k in range(tables.MAX_ENTRIES + 1)}),
    ("columns", "a long line", {"README.md": "x" * (tables.MAX_COLUMNS + 1) + "\n"}),
    ("formatted", "a brace out of place", {PLAN_C: "\nint   mp_extra(void){return 0;}\n"}),
    ("known", "a known violation that is gone", {"tests/layout/-known.txt": "sizes README.md  once\n"}),
]


def write(root: Path, files: dict[str, str]) -> None:
    """Writes the clean tree and appends to it; a dash before a new file's name: without a head comment."""
    for name, text in CLEAN.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    layout = Path(__file__).resolve().parents[2] / ".clang-format"
    (root / ".clang-format").write_text(layout.read_text(encoding="utf-8"), encoding="utf-8")
    for name, text in files.items():
        path = root / name.replace("/-", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        head = f"/* {path.name} - a sentence. */\n" + "#pragma once\n" * (path.suffix == ".h")
        before = path.read_text(encoding="utf-8") if path.exists() else "" if "/-" in name else head
        path.write_text(before + text, encoding="utf-8")


def complaints(files: dict[str, str]) -> list[rules.Violation]:
    """The messages for the clean tree with these changes."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), files)
        return check.violations(Tree(Path(folder)))


def known_is_forgiven() -> bool:
    """A known violation does not count, and main says so."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
        write(Path(folder), {PLAN_C: call("strcpy(a, b)"), "tests/layout/-known.txt": f"banned_functions {PLAN_C}  for now\n"})
        return check.main(Path(folder), "") == 0 and "in order" in said.getvalue()


def folder_restricts() -> bool:
    """With a folder, only its violations are printed."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
        write(Path(folder), {PLAN_C: call("strcpy(a, b)"), WORD_C: call("strcat(a, b)")})
        return check.main(Path(folder), "planner/plan") == 1 and "strcpy" in said.getvalue() and "strcat" not in said.getvalue()


def main(shows: bool) -> int:
    failed = []
    tables.MAX_STRAYS = 0
    if said := complaints({}):
        failed.append(f"the clean tree is blamed: {said[0]}")
    for rule, breach, files in BREACHES:
        said = complaints(files)
        blamed = sorted({v.rule for v in said})
        if blamed != [rule]:
            failed.append(f"{rule} ({breach}): blamed by {', '.join(blamed) or 'no rule'}")
        if shows:
            print(f"{rule}: {breach}\n    {said[0] if said else '-'}")
    for rule in {r.__name__ for r in rules.RULES} - {rule for rule, _, _ in BREACHES}:
        failed.append(f"{rule} has no test")
    for test in (known_is_forgiven, folder_restricts):
        if not test():
            failed.append(f"{test.__name__}: {test.__doc__}")
    for sentence in failed:
        print(f"test_rules: {sentence}")
    print(f"test_rules: {len(rules.RULES)} rules, {len(BREACHES)} breaches, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main("--show" in sys.argv))
