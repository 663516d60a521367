#!/usr/bin/env python3
"""commands.py BUILD [--run | --all] - checks the commands in documents and messages: commands and options exist, and the output
of documents is current.

With --run it runs every line `$ memplan ...` and compares the lines below it with the output. `[...]` stands for any text. Times
and process sizes are not compared, because machines differ. A command is skipped if its model is neither in examples/ nor in
$DATA/models, or if it takes more than half a minute; --all also runs the long ones. Other examples are run too: graphs in DOT,
devices in JSON, and the Python program that calls the library.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = re.compile(r"^ *(\$ |    )(memplan [a-z](?:[^\\\n]|\\\n)*)", re.MULTILINE)
BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
MEASURED = re.compile(r"[+-]?[\d.]+( ?%| ms| s\b| min)|in [\d.]+ m?s|process.*|program, libraries.*|loss [\d.]+")
SLOW = {"share"}  # more than half a minute: run with --all


def pages() -> list[pathlib.Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def named_commands() -> Iterator[tuple[str, list[str]]]:
    """Yield the file and the words of each command in examples of documents, or between quotes in messages and comments."""
    for page in pages():
        for _, line in COMMAND.findall(page.read_text()):
            yield str(page.relative_to(ROOT)), re.sub(r"\s#.*", "", line.replace("\\\n", " ")).split()
    for folder in ("planner", "estimator", "executor", "formats", "cli", "python/src"):
        for path in sorted((ROOT / folder).rglob("*.*")):
            text = path.read_text() if path.suffix in (".c", ".h", ".def", ".py") else ""
            for line in re.findall(r"['`](memplan [a-z][^'`\n\"%]*)['`]", text):
                yield str(path.relative_to(ROOT)), line.split()


def wrong_options(program: pathlib.Path) -> list[str]:
    wrong, options = [], dict[str, set[str]]()
    for place, words in named_commands():
        name = words[1]
        if name not in options:
            text = subprocess.run([program, "help", name], capture_output=True, text=True)
            if text.returncode:
                wrong.append(f"{place}: there is no command {name}")
            options[name] = set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", text.stdout))
        given = {re.match(r"--?[a-z0-9-]+", w)[0] for w in words[2:] if re.match(r"--?[a-z]", w)}
        wrong += [f"{place}: memplan {name} has no option {o}" for o in sorted(given - options[name])]
    return wrong


def expected_text(rest: str) -> list[str]:
    lines = []
    for line in rest.splitlines()[1:]:
        if line.startswith(("```", "$ ")):
            break
        lines.append(line)
    return lines


def missing_lines(expected: list[str], printed: str) -> list[str]:
    """The documented lines that are not among the printed ones, in which every number that a clock decides is hidden."""

    def settled(line: str) -> str:
        return " ".join(MEASURED.sub("#", line).split())

    lines, missing = [settled(line) for line in printed.splitlines()], []
    for line in expected:
        pattern = ".*".join(re.escape(settled(part)) for part in line.split("[...]"))
        if line.strip() and not any(re.fullmatch(pattern.replace(r"\ ", " ?"), x) for x in lines):
            missing.append(line)
    return missing


def run_commands(build: pathlib.Path, folder: pathlib.Path, every: bool) -> tuple[int, list[str]]:
    environment = dict(os.environ, PATH=f"{build}:{os.environ['PATH']}")
    shutil.copytree(ROOT / "examples", folder / "examples")
    buffers = re.search(r"(?:^    [\w,]+\n)+", (ROOT / "docs/internals/arena.md").read_text(), re.MULTILINE)
    (folder / "buffers.csv").write_text(buffers[0].replace("    ", ""))
    for model in pathlib.Path(os.environ.get("DATA", "/nowhere"), "models").resolve().glob("*.onnx"):
        (folder / model.name).symlink_to(model)
    n, wrong = 0, []
    for page in pages():
        text = page.read_text()
        for match in COMMAND.finditer(text):
            command = match[2]
            files = [w for w in command.split() if w.endswith((".onnx", ".csv"))]
            if match[1] != "$ " or not all((folder / f).exists() for f in files) or (command.split()[1] in SLOW and not every):
                continue
            result = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
            n += 1
            wrong += [
                f"{page.relative_to(ROOT)}: `{command}` does not print: {line}"
                for line in missing_lines(expected_text(text[match.end() :]), result.stdout + result.stderr)
            ]
    return n, wrong


def run_files(build: pathlib.Path, folder: pathlib.Path) -> tuple[int, list[str]]:
    header = (ROOT / "include/memplan/graph_dot.h").read_text()
    graph = re.search(r"^ \*     (digraph.*?^ \*     })", header, re.DOTALL | re.MULTILINE)[1].replace("\n *", "\n")
    found = [("include/memplan/graph_dot.h", "dot", graph)]
    found += [(str(p.relative_to(ROOT)), word, text) for p in pages() for word, text in BLOCK.findall(p.read_text())]
    n, wrong = 0, []
    for page, word, text in found:
        path = folder / f"example.{word}"
        path.write_text(text)
        memplan = [str(build / "memplan"), "estimate"]
        if word == "dot":
            command = [*memplan, str(path)]
        elif word == "json" and '"memplan-device"' in text:
            command = [*memplan, str(ROOT / "examples/mlp4.onnx"), "--batch", "1", "--device", str(path)]
        elif word == "python" and "CDLL(" in text:
            command = [sys.executable, "-B", "-c", text]
        else:
            continue
        environment = dict(os.environ, LD_LIBRARY_PATH=str(build))
        result = subprocess.run(command, capture_output=True, text=True, env=environment)
        n += 1
        if result.returncode or ("CDLL(" in text and result.stdout.strip() not in text):
            wrong.append(f"{page}: the {word} example fails: {result.stdout}{result.stderr}")
    return n, wrong


def main(build: pathlib.Path, modes: list[str]) -> int:
    n, wrong = 0, wrong_options(build / "memplan")
    if modes:
        with tempfile.TemporaryDirectory() as folder:
            for part in (
                run_commands(build, pathlib.Path(folder), "--all" in modes),
                run_files(build, pathlib.Path(folder)),
            ):
                n += part[0]
                wrong += part[1]
    for line in wrong:
        print(f"commands: {line}")
    if not wrong:
        print(f"commands: {n} run, all options exist\n[  PASSED  ] {n} test(s)." if modes else "commands: all options exist")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]))
