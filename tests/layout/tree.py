"""tree.py - the sources of a tree as the rules see them: text without comments, includes, functions and types by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

HEADERS = (".h", ".cuh")
UNITS = (".c", ".cu", ".cc")
C_LIKE = (*HEADERS, *UNITS, ".def")
SKIPPED = {"build", "dist", "__pycache__"}

COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:.*\\\n)*.*$", re.MULTILINE)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
SIGNATURE = re.compile(r"^(?P<before>.*[\s*&])(?P<name>[A-Za-z_]\w*)\s*$", re.DOTALL)
TYPEDEFS = (r"\(\s*\*\s*(\w+)\s*\)\s*\(", r"(\w+)\s*\((?:[^()]|\([^()]*\))*\)\s*$", r"(\w+)\s*(?:\[[^\]]*\]\s*)*$")
NAMED = re.compile(r"^MP_NAMED\((\w+)", re.MULTILINE)  # estimator/base/names.h
MACRO_LINE = re.compile(r"^[A-Z][A-Z0-9_]*\(.*\)[ \t]*$", re.MULTILINE)
NOT_LIBRARY = ("include/", "cli/", "examples/", "tests/", "executor/cpu/", "executor/cuda/")
NOT_FUNCTIONS = {"if", "for", "while", "switch", "return", "sizeof", "_Static_assert", "static_assert", "defined"}


@dataclass(frozen=True)
class Include:
    """One #include line: foreign if written with angle brackets."""

    line: int
    path: str
    foreign: bool


@dataclass(frozen=True)
class Function:
    """A function that is declared (body is None) or defined at file level."""

    name: str
    line: int
    static: bool
    body: str | None


@dataclass(frozen=True)
class TypeName:
    """A name that a typedef or a struct, union or enum with members gives to a type."""

    name: str
    line: int
    typedef: bool


def blank(text: str) -> str:
    """The text as spaces, with its line ends kept, so that positions and line numbers stay."""
    return re.sub(r"[^\n]", " ", text)


class Source:
    """One file: its path relative to the root, and its text in several states of undress."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        return "." + self.name.rpartition(".")[2] if "." in self.name else ""

    @property
    def stem(self) -> str:
        """The path without its ending: a header and the file that defines its functions have the same."""
        return self.path[: -len(self.suffix)] if self.suffix else self.path

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def code(self) -> str:
        """Without comments."""
        return COMMENT_OR_TEXT.sub(lambda m: blank(m[0]) if m[0][0] == "/" else m[0], self.text)

    @cached_property
    def bare(self) -> str:
        """The code without comments, quoted texts and preprocessor lines."""
        unquoted = COMMENT_OR_TEXT.sub(lambda m: m[0][0] + blank(m[0][1:-1]) + m[0][-1], self.code)
        return DIRECTIVE.sub(lambda m: blank(m[0]), unquoted)

    def line_of(self, position: int) -> int:
        return self.text.count("\n", 0, position) + 1

    @cached_property
    def includes(self) -> list[Include]:
        return [Include(self.line_of(m.start(1)), m[2], m[1] == "<") for m in INCLUDE.finditer(self.code)]

    @cached_property
    def chunks(self) -> list[tuple[int, str, str | None]]:
        """The text at file level: (position, text, body of the function or None)."""
        return list(file_level(self.bare))

    @cached_property
    def functions(self) -> list[Function]:
        found = []
        for start, head, body in self.chunks:
            if named := function_name(head):
                name, at = named
                local = bool(re.search(r"\b(static|inline)\b", head[:at]))
                found.append(Function(name, self.line_of(start + at), local, body))
        for m in NAMED.finditer(self.bare):
            found += [Function(f"mp_{m[1]}_{what}", self.line_of(m.start()), False, m[0]) for what in ("name", "find")]
        return found

    @cached_property
    def types(self) -> list[TypeName]:
        found = []
        for start, head, body in self.chunks:
            if body is None:
                nested = self.suffix != ".cuh"  # in C a struct within a struct is a name for all
                found += [TypeName(name, self.line_of(start + at), typedef) for name, at, typedef in type_names(head, nested)]
        return found


def file_level(bare: str) -> Iterator[tuple[int, str, str | None]]:
    """Cuts text without comments and quotes at the ends of declarations and function bodies."""
    start = depth = body = 0
    for m in re.finditer(r"[{};]", bare):
        at, mark = m.start(), m[0]
        if mark == "{":
            if depth == 0:
                if re.search(r'(\bextern\s*"\s*"|\bnamespace\b[\s\w]*)\s*$', bare[start:at]):
                    start = at + 1
                    continue
                body = at
            depth += 1
        elif mark == "}":
            if depth == 0:
                start = at + 1
                continue
            depth = 0 if bare[at - 1 : at] == "\n" else depth - 1
            if depth == 0 and function_name(bare[start:body]):
                yield *trimmed(bare, start, body), bare[body : at + 1]
                start = at + 1
        elif depth == 0:
            yield *trimmed(bare, start, at), None
            start = at + 1


def trimmed(bare: str, start: int, end: int) -> tuple[int, str]:
    text = bare[start:end]
    return start + len(text) - len(text.lstrip()), text.strip()


def function_name(head: str) -> tuple[str, int] | None:
    """The function that this text, up to its body or semicolon, declares, and where; None: it declares something else."""
    head = head.rstrip().removesuffix("const").removesuffix("noexcept").rstrip()
    if not head.endswith(")") or head.startswith(("typedef", "using")):
        return None
    head = MACRO_LINE.sub(lambda m: blank(m[0]), head).rstrip()
    depth = 0
    for at in range(len(head) - 1, -1, -1):
        depth += (head[at] == ")") - (head[at] == "(")
        if depth == 0:
            m = SIGNATURE.match(head[:at])
            if m and m["name"] == "__attribute__":
                return function_name(head[: m.start("name")])
            before = re.sub(r"template\s*<.*?>", "", m["before"], flags=re.DOTALL) if m else "="
            return None if not m or m["name"] in NOT_FUNCTIONS or re.search(r"[={]", before) else (m["name"], m.start("name"))
    return None


def type_names(head: str, nested: bool) -> Iterator[tuple[str, int, bool]]:
    """The types that a declaration names: (name, position, whether by typedef)."""
    for m in re.finditer(r"\b(?:struct|union|enum|class)\s+([A-Za-z_]\w*)\s*\{", head):
        if nested or "{" not in head[: m.start()]:
            yield m[1], m.start(1), False
    if head.startswith("typedef"):
        tail = head[head.rfind("}") + 1 :]
        for form in TYPEDEFS:
            if named := re.search(form, tail):
                yield named[1], len(head) - len(tail) + named.start(1), True
                break
    elif using := re.match(r"using\s+(\w+)\s*=", head):
        yield using[1], using.start(1), True


class Tree:
    """All files under a root except built ones, by path."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.entries: dict[str, int] = {}  # per folder: its entries
        self.sources: dict[str, Source] = {}  # C and its kin
        self.documents: dict[str, Source] = {}
        self.scripts: dict[str, Source] = {}  # Python
        self._walk(root, "")

    def _walk(self, folder: Path, prefix: str) -> None:
        for entry in sorted(folder.iterdir()):
            if entry.name.startswith(".") or entry.name in SKIPPED or entry.is_symlink():
                continue
            self.entries[prefix.rstrip("/")] = self.entries.get(prefix.rstrip("/"), 0) + 1
            if entry.is_dir():
                self._walk(entry, prefix + entry.name + "/")
            elif entry.suffix in (*C_LIKE, ".md", ".py"):
                source = Source(prefix + entry.name, entry.read_text(encoding="utf-8"))
                by_kind = {".md": self.documents, ".py": self.scripts}.get(entry.suffix, self.sources)
                by_kind[source.path] = source

    @cached_property
    def headers(self) -> list[Source]:
        return [s for s in self.sources.values() if s.suffix in HEADERS]

    @cached_property
    def units(self) -> list[Source]:
        return [s for s in self.sources.values() if s.suffix in UNITS]

    def resolve(self, source: Source, include: Include) -> Source | None:
        """The file of this tree that an include names."""
        beside = f"{source.folder}/{include.path}" if source.folder else include.path
        paths = (beside, include.path, "include/" + include.path)
        return None if include.foreign else next((self.sources[p] for p in paths if p in self.sources), None)

    @cached_property
    def _homes(self) -> dict[str, str]:
        """Per stem: the folder of the library's private header of this name, else that of the only .c."""
        library = [s for s in self.sources.values() if not s.path.startswith(NOT_LIBRARY)]
        units: dict[str, list[str]] = {}
        for s in library:
            if s.suffix == ".c":
                units.setdefault(s.name.partition(".")[0], []).append(s.folder)
        homes = {name: folders[0] for name, folders in units.items() if len(folders) == 1}
        return homes | {
            s.name.partition(".")[0]: s.folder for s in library if s.suffix == ".h" and s.name.partition(".")[0] in units
        }

    def home(self, source: Source) -> str:
        """The folder that a file belongs to: its own; of a public header, where its private part or its .c is, "" if nowhere."""
        return self._homes.get(source.name.partition(".")[0], "") if source.path.startswith("include/") else source.folder

    @cached_property
    def definitions(self) -> dict[str, list[tuple[Source, Function]]]:
        """Per name: where a function that others can call is defined."""
        found: dict[str, list[tuple[Source, Function]]] = {}
        for source in self.units:
            for function in source.functions:
                if function.body is not None and not function.static:
                    found.setdefault(function.name, []).append((source, function))
        return found

    @cached_property
    def declarations(self) -> list[tuple[Source, Function]]:
        """The functions that headers declare, inline ones left out."""
        return [(h, f) for h in self.headers for f in h.functions if f.body is None and not f.static]
