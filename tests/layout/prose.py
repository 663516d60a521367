"""prose.py - measures two symptoms of unclear text, and compares them with a recorded state.

    prose.py            fails if a file has become worse than prose.csv says, or if a finished folder is above its limits
    prose.py --table    prints one line per folder
    prose.py --write    records the present state in prose.csv

The symptoms are the word "what" (a relative clause in place of a noun) and sentences of more than 30 words. Prose is Markdown
outside of code, tables and headings; comments of C, CUDA and .def files; comments and docstrings of Python.
"""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

RECORD = "tests/layout/prose.csv"
FOLDERS = ("README.md", "docs", "cli", "include", "estimator", "planner", "formats", "executor", "python/src")
WHATS_PER_1000 = 1.5
LONG_PERCENT = 3.0
LONG = 30  # words
C_LIKE = (".c", ".h", ".cu", ".cuh", ".cc", ".def")
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")


@dataclass(frozen=True)
class Count:
    """Words, sentences, and how many of them show a symptom."""

    words: int = 0
    whats: int = 0
    sentences: int = 0
    long: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(
            self.words + other.words, self.whats + other.whats, self.sentences + other.sentences, self.long + other.long
        )

    def is_clear(self) -> bool:
        return 1000 * self.whats <= WHATS_PER_1000 * self.words and 100 * self.long <= LONG_PERCENT * self.sentences


def markdown_prose(text: str) -> str:
    text = re.sub(r"^```.*?^```[^\n]*$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(?:    |#|\||\$ ).*$", "", text, flags=re.MULTILINE)
    return re.sub(r"`[^`]*`", "X", re.sub(r"\]\([^)]*\)", "]", text))


def c_prose(text: str) -> str:
    text = re.sub(r"^ \*     (?!//).*;(?=\s*(//.*)?$)", " *", text, flags=re.MULTILINE)  # statements of an example
    found = re.finditer(r'"(?:\\.|[^"\\\n])*"|/\*(.*?)\*/', text, flags=re.DOTALL)  # a quoted text is no comment
    blocks = [match[1] for match in found if match[1] is not None]
    lines = re.findall(r"(?<!:)//(.*)", text)
    return "\n\n".join([re.sub(r"^\s*\*? ?", "", b, flags=re.MULTILINE) for b in blocks] + lines)


def python_prose(text: str) -> str:
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            found.append(token.string.lstrip("# "))
        elif token.type == tokenize.STRING and token.string.lstrip("rRbBuU").startswith('"""'):
            found.append(token.string.strip('rRbBuU"'))
    return "\n\n".join(found)


def prose(path: str, text: str) -> str:
    if path.endswith(".md"):
        return markdown_prose(text)
    return python_prose(text) if path.endswith(".py") else c_prose(text)


def sentences(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*[*-] )", text):
        for sentence in re.split(r"(?<=[.!?:])\s+", " ".join(paragraph.split())):
            if re.search(r"[A-Za-z]", sentence):
                yield sentence


def count(text: str) -> Count:
    total = Count()
    for sentence in sentences(text):
        words = WORD.findall(sentence)
        whats = sum(word.lower() == "what" for word in words)
        total += Count(len(words), whats, 1, int(len(words) > LONG))
    return total


def within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def measured(root: Path) -> dict[str, Count]:
    """The count of every tracked file of FOLDERS that has prose."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "--", *FOLDERS], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    paths = [p for p in listed if p.endswith((".md", ".py", *C_LIKE)) and (root / p).is_file()]
    return {p: count(prose(p, (root / p).read_text(encoding="utf-8"))) for p in paths}


def recorded(root: Path) -> dict[str, tuple[int, int]]:
    """Per file with a symptom: how often "what" and long sentences were there."""
    path = root / RECORD
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {row["file"]: (int(row["what"]), int(row["long"])) for row in csv.DictReader(file)}


def faults(now: dict[str, Count], before: dict[str, tuple[int, int]]) -> Iterator[str]:
    """A sentence per file that is worse than recorded. A file that is not recorded has to be clear."""
    for path, found in now.items():
        whats, long = before.get(path, (0, 0))
        if found.is_clear():
            continue
        if found.whats > whats:
            yield f'{path}: "what" {found.whats} times, {whats} recorded; name the thing in place of a relative clause'
        if found.long > long:
            yield f"{path}: {found.long} sentences of more than {LONG} words, {long} recorded; one fact per sentence"


def totals(now: dict[str, Count]) -> Iterable[tuple[str, Count]]:
    for folder in FOLDERS:
        yield folder, sum((c for p, c in now.items() if within(p, folder)), Count())


def write(root: Path, now: dict[str, Count]) -> None:
    with (root / RECORD).open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("file", "what", "long"))
        rows.writerows((p, c.whats, c.long) for p, c in sorted(now.items()) if c.whats or c.long)


def main(root: Path, options: list[str]) -> int:
    now = measured(root)
    if "--write" in options:
        write(root, now)
    if "--table" in options:
        for folder, c in totals(now):
            print(
                f'{folder:12} {c.words:6} words, "what" {1000 * c.whats / max(c.words, 1):5.1f} per 1,000,'
                f" over {LONG} words {100 * c.long / max(c.sentences, 1):4.1f} % of {c.sentences} sentences"
            )
    found = list(faults(now, recorded(root)))
    for fault in found:
        print(f"prose: {fault}")
    print(f"prose: {len(found)} files are worse than recorded" if found else "prose: no file is worse than recorded")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parents[2], sys.argv[1:]))
