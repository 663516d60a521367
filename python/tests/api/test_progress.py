"""A line on a terminal while the first step is captured, measured and searched for, and nothing elsewhere."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import networks
import pytest
import torch
from torch import nn

import memplan
from memplan.library.planning import Planning, Progress
from memplan.progress import Line

SCRIPT = """
import sys
import networks
import memplan

model, inputs = networks.make("convolutions")
model = memplan.compile(model, "min+30%", **eval(sys.argv[1]))
for k in range(3):
    model(*inputs).backward()
    model.zero_grad()
    sys.stderr.write(f"step {k}\\n")
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return super().isatty() or True  # which raises where it is closed


def screen(written: str) -> list[str]:
    """The lines that stay, by what a terminal does with what was written."""
    lines = []
    for line in written.replace("\r\n", "\n").split("\n"):
        lines.append(re.sub("\x1b\\[K", "", line.rpartition("\r")[2] if "\x1b[K" in line else line))
    return lines


def run_on_a_terminal(options: str) -> str:
    """What a script writes to a standard error that is one."""
    ours, its = pty.openpty()
    tests = os.path.dirname(networks.__file__)
    path = os.pathsep.join([os.path.join(tests, "..", "src"), tests])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    written = b""
    with subprocess.Popen([sys.executable, "-c", SCRIPT, options], stderr=its, env=environment) as process:
        os.close(its)
        while process.poll() is None or select.select([ours], [], [], 0)[0]:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    written += os.read(ours, 1 << 16)
                except OSError:  # the other end is closed
                    break
    os.close(ours)
    assert process.returncode == 0, written
    return written.decode()


def test_on_a_terminal_the_first_step_is_told_and_nothing_stays() -> None:
    written = run_on_a_terminal("{}")
    first, _, later = written.partition("step 0")
    for sentence in ("memplan: capturing", "memplan: measuring operators, 0 of", "memplan: searching"):
        assert sentence in first
    assert "memplan:" not in later
    assert [line for line in screen(written) if line and not line.startswith("[W")] == ["step 0", "step 1", "step 2"]


def test_a_watcher_takes_its_place() -> None:
    assert "memplan:" not in run_on_a_terminal("{'progress': print}")


def test_elsewhere_nothing_is_said(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model, inputs = networks.make("convolutions")
    memplan.compile(model, "min+30%")(*inputs).backward()
    said = capfd.readouterr().err
    assert "memplan:" not in said and "\r" not in said


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).sum() if x.sum().item() > 0 else x.sum()


def test_it_goes_where_there_is_no_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Terminal()
    monkeypatch.setattr(sys, "stderr", written)
    with pytest.warns(memplan.FallbackWarning, match="without a plan"):
        memplan.compile(Branch(), "80%")(torch.ones(2, 8))
    assert "memplan: capturing Branch" in written.getvalue()
    assert screen(written.getvalue().rpartition("\x1b[K")[0] + "\x1b[K") == [""]


def test_a_line_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    written = Terminal()
    monkeypatch.setattr(sys, "stderr", written)
    line = Line()
    line.end()
    assert written.getvalue() == ""
    line.searched(Progress(1.0, 0.25, 0.125, None))
    line.say("capturing " + "x" * 100)
    shown = re.split("\r|\x1b\\[K", written.getvalue())
    assert max(map(len, shown)) == 59 and any("best step so far 250.00 ms" in part for part in shown)
    line.end()
    assert screen(written.getvalue()) == [""]


def test_without_standard_error_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = Terminal()
    closed.close()
    for stream in (None, closed):
        monkeypatch.setattr(sys, "stderr", stream)
        line = Line()
        line.say("capturing")
        line.end()
        assert not line.is_shown


def test_a_search_that_was_cut_short_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So does its plan when it is found again on disk."""
    model, inputs = networks.make("transformer")
    solve, searches = Planning.solve, []

    def counted(planning: Planning, *arguments: Any) -> bool:
        searches.append(planning)
        return solve(planning, *arguments)

    def notes(seconds: float) -> str:
        kept = str(tmp_path)
        return " ".join(memplan.estimate(model, inputs, budget="min+30%", cache=kept, time_limit=seconds).graph.notes)

    monkeypatch.setattr(Planning, "solve", counted)
    assert "cut short" in notes(0.2)
    n_searches = len(searches)
    assert "cut short" in notes(0.2)
    assert len(searches) == n_searches
    assert "cut short" in notes(0.001)  # that for the smallest plan, too
    assert "cut short" not in notes(0)
