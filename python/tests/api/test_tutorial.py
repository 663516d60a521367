"""docs/tutorials/pytorch.md: its blocks run in order in one program and print the documented output."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import types
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parents[3] / "docs" / "tutorials" / "pytorch.md"
BLOCK = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
TIMED = re.compile(r"[+-]?\d+(\.\d+)?(%| ms)|(?<=twice: )\d+")  # what seconds decide
NUMBER = re.compile(r"\d+(\.\d+)?")
LAST_DIGITS = 0.05  # another plan within the same budget, other bits of another PyTorch


def without_numbers(text: str) -> tuple[list[str], list[float]]:
    """The lines with no numbers in them, and the numbers that seconds do not decide."""
    settled = TIMED.sub("#", text)
    return NUMBER.sub("#", settled).splitlines(), [float(n.group()) for n in NUMBER.finditer(settled)]


def test_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(TUTORIAL.read_text())
    assert len(blocks) == TUTORIAL.read_text().count("```python")
    module = types.ModuleType("tutorial")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # PyTorch looks names up there, and lines in its file
    names = vars(module)
    for k, (code, expected) in enumerate(blocks):
        program, printed = tmp_path / f"block{k}.py", io.StringIO()
        program.write_text(code)
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(program), "exec"), names)
        lines, numbers = without_numbers(printed.getvalue())
        expected_lines, expected_numbers = without_numbers(expected)
        assert lines == expected_lines
        assert numbers == pytest.approx(expected_numbers, rel=LAST_DIGITS)
    assert names["measured"] <= names["small"].memplan.budget_bytes
    assert [f.name for f in sorted(tmp_path.glob("*.svg"))] == ["everything.svg", "half.svg"]
