"""rules.py - one function per rule of the layout: each yields its violations."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass

import tables
from tree import HEADERS, UNITS, Source, Tree


@dataclass(frozen=True, order=True)
class Violation:
    """One sentence about one line."""

    file: str
    line: int
    rule: str
    sentence: str

    def __str__(self) -> str:
        return f"layout: {self.file}:{self.line}: {self.sentence}"


Rule = Callable[[Tree], Iterator[Violation]]
RULES: list[Rule] = []
LAST = (1 << 30, 0)  # the rank of a folder that is not listed


def rule(function: Rule) -> Rule:
    RULES.append(function)
    return function


def within(path: str, places: Iterable[str]) -> bool:
    return any(path == p or path.startswith(p + "/") for p in places)


# Who includes whom


def folder_ranks(tree: Tree) -> dict[str, tuple[int, int]]:
    """Per folder of rooms.txt: its rank, and the line that gives it."""
    lines = (tree.root / "tests/layout/rooms.txt").read_text(encoding="utf-8").splitlines()
    listed = [(line.split()[0], n) for n, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]
    return {folder: (rank, n) for rank, (folder, n) in enumerate(listed)}


@rule
def arrows_between_rooms(tree: Tree) -> Iterator[Violation]:
    """Includes follow cli -> executor -> formats -> planner -> estimator."""
    rank = {room: k for k, room in enumerate(tables.ROOMS)}
    for source in tree.sources.values():
        room = tree.home(source).split("/")[0]
        for include in source.includes:
            target = tree.resolve(source, include)
            other = (tree.home(target) if target else include.path).split("/")[0]
            if room in rank and not include.foreign and "/" in include.path and rank.get(other, 99) > rank[room]:
                yield Violation(source.path, include.line, "arrows_between_rooms", f"{room}/ may not include {include.path}")


@rule
def folders_listed(tree: Tree) -> Iterator[Violation]:
    """Every folder with C code stands in rooms.txt, and every folder there has some."""
    ranks = folder_ranks(tree)
    found = {s.folder: s.path for s in reversed(tree.sources.values()) if not s.path.startswith("include/")}
    for folder, path in found.items():
        if folder not in ranks:
            yield Violation(path, 1, "folders_listed", f"the folder {folder or '.'} is not in tests/layout/rooms.txt")
    for folder, (_, line) in ranks.items():
        if folder not in found:
            yield Violation("tests/layout/rooms.txt", line, "folders_listed", f"there is no C code in {folder}")


@rule
def arrows_between_folders(tree: Tree) -> Iterator[Violation]:
    """A folder includes only itself and folders that stand above it in rooms.txt."""
    ranks = folder_ranks(tree)
    for source in tree.sources.values():
        for include in source.includes:
            target = tree.resolve(source, include)
            below = ranks.get(tree.home(source), LAST)
            if target and LAST > ranks.get(tree.home(target), LAST) > below:
                sentence = f"{target.path} is in a folder that comes after {tree.home(source)} in tests/layout/rooms.txt"
                yield Violation(source.path, include.line, "arrows_between_folders", sentence)


@rule
def cli_asks_the_public(tree: Tree) -> Iterator[Violation]:
    """The command line includes public headers of the planner only: what C programs cannot call, it does not call."""
    for source in tree.sources.values():
        for include in source.includes:
            if source.path.startswith("cli/") and not include.foreign and include.path.startswith("planner/"):
                yield Violation(source.path, include.line, "cli_asks_the_public", f"{include.path} is a private header")


@rule
def meshes_read_once(tree: Tree) -> Iterator[Violation]:
    """A mesh is parsed where options and files are read. Elsewhere it is a struct."""
    for source in tree.sources.values():
        if source.path.split("/")[0] in tables.ROOMS and not within(source.path, tables.MESH_READERS):
            for m in re.finditer(r"\bmp_mesh_read\w*\(", source.bare):
                line = source.line_of(m.start())
                yield Violation(source.path, line, "meshes_read_once", "parses a mesh again: pass the mp_mesh")


@rule
def public_headers(tree: Tree) -> Iterator[Violation]:
    """A public header includes public ones only, and belongs to a folder of the library; memplan.h has them all."""
    everything = tree.sources.get("include/memplan/memplan.h")
    listed = {i.path for i in everything.includes} if everything else set()
    for header in tree.headers:
        if not header.path.startswith("include/") or header is everything:
            continue
        if not tree.home(header):
            yield Violation(header.path, 1, "public_headers", "no .c of the library has its name, or two have")
        if header.path.removeprefix("include/") not in listed:
            yield Violation(header.path, 1, "public_headers", "include/memplan/memplan.h does not include it")
        for include in header.includes:
            if not include.foreign and not include.path.startswith("memplan/"):
                yield Violation(header.path, include.line, "public_headers", f"{include.path} is not a public header")


def backend_of(path: str) -> str:
    """Whose a file of the executor is: cpu, cuda, or "" where it is for every backend."""
    room = path.split("/")[1] if path.startswith("executor/") else ""
    stem, _, suffix = path.rpartition("/")[2].partition(".")
    if room == "cuda" or (room == "operators" and (stem.endswith("_cuda") or suffix in ("cu", "cuh"))):
        return "cuda"
    return "cpu" if room == "cpu" or (room == "operators" and stem.endswith("_cpu")) else ""


@rule
def backends_apart(tree: Tree) -> Iterator[Violation]:
    """A backend's files include nothing of the other's, and files for every backend include neither."""
    for source in tree.sources.values():
        one = backend_of(source.path)
        for include in source.includes:
            other = backend_of(include.path)
            if other and one != other and (one or source.path.startswith(("executor/operators/", "executor/kernel/"))):
                sentence = f"{include.path} belongs to the {'other' if one else other} backend; what both need stands above them"
                yield Violation(source.path, include.line, "backends_apart", sentence)


@rule
def foreign_libraries(tree: Tree) -> Iterator[Violation]:
    """Each foreign library is included in the places that tables.FOREIGN names."""
    for source in tree.sources.values():
        for include in source.includes:
            for start, places in tables.FOREIGN:
                if include.path.startswith(start) and not tree.resolve(source, include) and not within(source.path, places):
                    yield Violation(
                        source.path,
                        include.line,
                        "foreign_libraries",
                        f"<{include.path}> may be included in {', '.join(places)} only",
                    )


# Circles


def circles(arrows: dict[str, dict[str, str]]) -> list[list[str]]:
    """A shortest circle through each strongly connected set of more than one name."""
    reach: dict[str, set[str]] = {}
    for start in arrows:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for name in arrows.get(todo.pop(), {}):
                if name not in seen:
                    seen.add(name)
                    todo.append(name)
        reach[start] = seen
    found: list[list[str]] = []
    told: set[str] = set()
    for start in sorted(arrows):
        if start in reach[start] and start not in told:
            together = {n for n in reach[start] if start in reach.get(n, ())}
            told |= together
            found.append(min((shortest_circle(arrows, n, together) for n in sorted(together)), key=len))
    return found


def shortest_circle(arrows: dict[str, dict[str, str]], start: str, among: set[str]) -> list[str]:
    paths = [[start]]
    seen: set[str] = set()
    for path in paths:
        for name in sorted(arrows[path[-1]].keys() & among):
            if name == start:
                return path
            if name not in seen:
                seen.add(name)
                paths.append([*path, name])
    return paths[-1]


@rule
def header_circles(tree: Tree) -> Iterator[Violation]:
    """No headers include each other in a circle."""
    arrows: dict[str, dict[str, str]] = {}
    for header in tree.headers:
        targets = (tree.resolve(header, i) for i in header.includes)
        arrows[header.path] = {t.path: "" for t in targets if t and t.suffix in HEADERS}
    for circle in circles(arrows):
        yield Violation(
            circle[0], 1, "header_circles", f"these headers include each other: {' -> '.join([*circle, circle[0]])}"
        )


@rule
def call_circles(tree: Tree) -> Iterator[Violation]:
    """No modules (a header, and the files of its name or of longer ones without a header of their own) call each other in a circle."""
    headers = {header.stem for header in tree.headers}

    def module(source: Source) -> str:
        words = source.stem.split("_")
        return next((s for k in range(len(words), 0, -1) if (s := "_".join(words[:k])) in headers), source.stem)

    owner: dict[str, set[str]] = {}
    for source in tree.sources.values():
        for f in source.functions:
            if f.body is not None and f.name.startswith("mp_") and (not f.static or source.suffix in HEADERS):
                owner.setdefault(f.name, set()).add(module(source))
    arrows: dict[str, dict[str, str]] = {}
    for source in tree.sources.values():
        for f in source.functions:
            for name in re.findall(r"\bmp_\w+", f.body or ""):
                owners = owner.get(name, set())
                if len(owners) == 1 and module(source) not in owners:
                    arrows.setdefault(module(source), {}).setdefault(next(iter(owners)), name)
    for circle in circles(arrows):
        steps = [f"{a} calls {arrows[a][b]} of {b.rpartition('/')[2]}" for a, b in zip(circle, [*circle[1:], circle[0]])]
        path = next(s.path for s in tree.sources.values() if s.stem == circle[0] and s.suffix in (*UNITS, *HEADERS))
        yield Violation(path, 1, "call_circles", f"a circle of calls: {', '.join(steps)}")


# Names


@rule
def names_unique(tree: Tree) -> Iterator[Violation]:
    """Over all headers, a type or a function has a name of its own."""
    seen: dict[str, list[tuple[Source, int, str]]] = {}
    for header in tree.headers:
        for t in header.types:
            seen.setdefault(t.name, []).append((header, t.line, "typedef" if t.typedef else "tag"))
        for f in header.functions:
            seen.setdefault(f.name, []).append((header, f.line, "function"))
    for name, places in seen.items():
        first, line, kind = places[0]
        for other, other_line, other_kind in {p[0].path: p for p in reversed(places)}.values():
            completes = {kind, other_kind} == {"typedef", "tag"} and tree.home(first) == tree.home(other)  # an opaque type
            if other is not first and not completes:
                yield Violation(
                    other.path, other_line, "names_unique", f"{name} is the name of a {kind} in {first.path}:{line} too"
                )


def strays(tree: Tree, allowed: Container[str] = tables.STRAYS_ALLOWED) -> Iterator[Violation]:
    """The functions of headers, but the allowed ones, that no file of the header's name, or of a longer one in its folder, defines."""
    for header, f in tree.declarations:
        places = [s for s, _ in tree.definitions.get(f.name, ())]
        name, home = header.name.split(".")[0], tree.home(header)
        public = header.path.startswith("include/")
        found = any(
            s.stem == header.stem
            or (public and s.name.split(".")[0] == name)
            or (s.folder == home and s.name.startswith(name + "_"))
            for s in places
        )
        if not found and header.path not in allowed:
            where = " and ".join(s.path for s in places) or "no file"
            yield Violation(header.path, f.line, "declared_where_defined", f"{f.name} is defined in {where}")


@rule
def declared_where_defined(tree: Tree) -> Iterator[Violation]:
    """A function is declared in the header that the name of its file begins with, up to tables.MAX_STRAYS of them."""
    found = list(strays(tree))
    if len(found) > tables.MAX_STRAYS:
        yield from found
        yield Violation(
            "tests/layout/tables.py",
            1,
            "declared_where_defined",
            f"{len(found)} functions are defined in a file of another name than their header; {tables.MAX_STRAYS} are the most",
        )


# The contents of files


@rule
def head_comments(tree: Tree) -> Iterator[Violation]:
    """Every C file opens with a comment of its own name and a sentence."""
    for source in tree.sources.values():
        m = re.match(r"/\* (\S+) - \S", source.text)
        if not m:
            yield Violation(source.path, 1, "head_comments", f"does not open with /* {source.name} - a sentence")
        elif m[1] != source.name:
            yield Violation(source.path, 1, "head_comments", f"opens with the name of another file, {m[1]}")


@rule
def headers_once(tree: Tree) -> Iterator[Violation]:
    """A header says `#pragma once` behind its head comment, unless it is there to be included several times."""
    for header in tree.headers:
        if header.path not in tables.INCLUDED_OFTEN and not re.match(r"/\*.*?\*/\n#pragma once\n", header.text, re.DOTALL):
            yield Violation(header.path, 1, "headers_once", "has no #pragma once behind its head comment")


@rule
def python_files(tree: Tree) -> Iterator[Violation]:
    """A file of the PyTorch package opens with a sentence, is one thing, and prints nothing."""
    for source in tree.scripts.values():
        if not source.path.startswith("python/"):
            continue
        if not source.text.startswith('"""') or source.text[3:4].isspace():
            yield Violation(source.path, 1, "python_files", "does not open with a sentence")
        if len(source.lines) > tables.MAX_PYTHON_LINES:
            sentence = f"has {len(source.lines)} lines; {tables.MAX_PYTHON_LINES} are the most"
            yield Violation(source.path, tables.MAX_PYTHON_LINES + 1, "python_files", sentence)
        if m := re.search(r"^\s*print\(", source.text, re.MULTILINE):
            yield Violation(source.path, source.line_of(m.start()), "python_files", "prints; a report is for that")


COMPARISON = re.compile(r"\b(?:str(?:n?casecmp|n?cmp|str)|memcmp)\s*\(")


def arguments(code: str, start: int) -> str:
    """The text between the parenthesis that opens before `start` and the closing one."""
    depth = 1
    for at in range(start, len(code)):
        depth += (code[at] == "(") - (code[at] == ")")
        if depth == 0:
            return code[start:at]
    return code[start:]


def operator_names(tree: Tree) -> set[str]:
    ops = tree.sources.get("estimator/model/ops.def")
    return set(re.findall(r"^(?:OP|UNARY|BINARY)\((\w+)", ops.text, re.MULTILINE)) if ops else set()


@rule
def kinds_not_compared(tree: Tree) -> Iterator[Violation]:
    """Nobody tells operators apart by their name, but rules and rewrites of single operators: the rest asks the rows of ops.def."""
    kinds = operator_names(tree)
    for source in tree.sources.values():
        if within(source.path, tables.KINDS_ALLOWED) or source.folder.split("/")[0] not in tables.ROOMS:
            continue
        for m in COMPARISON.finditer(source.code):
            text = arguments(source.code, m.end())
            literals = re.findall(r'"([^"]*)"', text)
            if literals and (kinds & set(literals) or re.search(r"\bop(erator)?->(op->name|kind)\b|->op->name\b", text)):
                yield Violation(
                    source.path,
                    source.line_of(m.start()),
                    "kinds_not_compared",
                    f'compares an operator\'s name with "{literals[0]}": make it a column of ops.def',
                )
        for m in re.finditer(r"\bcase\s+MP_OP\w*", source.bare):
            yield Violation(
                source.path,
                source.line_of(m.start()),
                "kinds_not_compared",
                "switches on an operator's kind: make it a column of ops.def",
            )


@rule
def liveness_at_home(tree: Tree) -> Iterator[Violation]:
    """Only estimator/graph interprets in-place pairs, carried gradients, fused updates, second streams and single runs."""
    field = re.compile(r"(?<=[\w\])])(?<!options)(?<!model)(?:->|\.)(n_in_place|in_place|carried|until|fuse)\b|\b(MP_NODE_ONCE)\b")
    for source in tree.sources.values():
        at_home = within(tree.home(source), tables.LIVENESS_HOMES) or source.path.startswith(tables.LIVENESS_JUDGE)
        if source.path.split("/")[0] not in tables.ROOMS or source.suffix not in (".c", ".h") or at_home:
            continue
        if m := field.search(source.bare):
            sentence = f"reads {m[1] or m[2]}: what follows from it is a question to estimator/graph (liveness.h, order_rules.h)"
            yield Violation(source.path, source.line_of(m.start()), "liveness_at_home", sentence)


@rule
def library_is_silent(tree: Tree) -> Iterator[Violation]:
    """The library never prints, exits or aborts."""
    talk = re.compile(
        r"\b(?:printf|vprintf|puts|putchar|perror|exit|_exit|_Exit|quick_exit|abort|assert)\s*\(|\b(?:stdout|stderr)\b"
    )
    for source in tree.sources.values():
        if source.path.split("/")[0] in tables.LIBRARY and source.path not in tables.SPEAKERS:
            for m in talk.finditer(source.bare):
                word = re.sub(r"\W", "", m[0])
                yield Violation(
                    source.path,
                    source.line_of(m.start()),
                    "library_is_silent",
                    f"the library never prints or ends the process: {word}",
                )


@rule
def names_are_visible(tree: Tree) -> Iterator[Violation]:
    """The command line writes all text but literals through cli/messages/print.h, which makes names visible."""
    raw = re.compile(r"(?<!\w)(?:v?f?printf)\s*\(|(?<!\w)f?puts\((?!\s*\")")
    for source in tree.sources.values():
        if source.path.startswith("cli/") and source.path not in tables.PRINTERS:
            for m in raw.finditer(source.bare):
                word = re.sub(r"\W", "", m[0])
                yield Violation(source.path, source.line_of(m.start()), "names_are_visible", f"{word}: print() shows names as they are")


@rule
def banned_functions(tree: Tree) -> Iterator[Violation]:
    """Functions of the C library that cannot be told how much there is, or do not say that they failed, are not called."""
    banned = re.compile(r"\b(strcpy|strcat|sprintf|vsprintf|gets|atoi|atol|atoll|atof|strtok)\s*\(")
    for source in tree.sources.values():
        for m in banned.finditer(source.bare):
            yield Violation(source.path, source.line_of(m.start()), "banned_functions", f"{m[1]} is banned")


def anchors(page: Source) -> set[str]:
    """The anchors of a page: its headings, as Markdown's renderers spell them."""
    headings = [line.lstrip("#").strip() for line in page.text.splitlines() if line.startswith("#")]
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


@rule
def links(tree: Tree) -> Iterator[Violation]:
    """Every link in a document leads to a file of the repository that is there, and to a heading in it."""
    for page in tree.documents.values():
        for m in re.finditer(
            r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]*))?\)",
            re.sub(r"^```.*?^```|`[^`\n]*`", "", page.text, flags=re.MULTILINE | re.DOTALL),
        ):
            path = os.path.normpath(os.path.join(page.folder, m[1])) if m[1] else page.path
            target = tree.documents.get(path)
            if not (tree.root / path).exists() or (m[2] and target and m[2] not in anchors(target)):
                line = 1 + page.text[: page.text.find(m[0])].count("\n")
                yield Violation(page.path, line, "links", f"there is no {path}{'#' + m[2] if m[2] else ''}")


@rule
def sizes(tree: Tree) -> Iterator[Violation]:
    """Files, folders and front pages have a size that a reader can take in."""
    for source in tree.sources.values():
        most = tables.MAX_MAIN_LINES if source.path == "cli/main.c" else tables.MAX_LINES
        if len(source.lines) > most:
            yield Violation(source.path, most + 1, "sizes", f"has {len(source.lines)} lines; {most} are the most")
    for folder, n in tree.entries.items():
        if n > tables.MAX_ENTRIES:
            yield Violation(folder, 1, "sizes", f"the folder has {n} entries; {tables.MAX_ENTRIES} are the most")
    for path, most in tables.MAX_FRONT_LINES.items():
        page = tree.documents.get(path)
        if page and len(page.lines) > most:
            yield Violation(path, most + 1, "sizes", f"has {len(page.lines)} lines; {most} are the most")


@rule
def columns(tree: Tree) -> Iterator[Violation]:
    """Lines of Markdown have at most tables.MAX_COLUMNS columns."""
    for page in tree.documents.values():
        long = [n for n, line in enumerate(page.lines, 1) if len(line) > tables.MAX_COLUMNS]
        if long:
            yield Violation(page.path, long[0], "columns", f"{len(long)} lines have over {tables.MAX_COLUMNS} columns")


@rule
def formatted(tree: Tree) -> Iterator[Violation]:
    """Code is laid out as clang-format does it (make format)."""
    program = shutil.which("clang-format")
    if not program:
        yield Violation(
            "Makefile", 1, "formatted", "clang-format is not installed, so the layout of the code was not looked at"
        )
        return
    paths = [s.path for s in tree.sources.values() if s.suffix in (*HEADERS, *UNITS)]
    jobs = [
        subprocess.Popen([program, "--dry-run", *part], cwd=tree.root, stderr=subprocess.PIPE, text=True)
        for part in (paths[::2], paths[1::2])
        if part
    ]
    first: dict[str, int] = {}
    for job in jobs:
        for m in re.finditer(r"^(\S+?):(\d+):\d+: (?:warning|error)", job.communicate()[1], re.MULTILINE):
            first.setdefault(m[1], int(m[2]))
    for path, line in first.items():
        yield Violation(path, line, "formatted", "is not laid out as clang-format does it (make format)")
