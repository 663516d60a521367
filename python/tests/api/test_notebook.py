"""A report in a notebook: the example runs, and the page is well-formed and agrees with the report."""

from __future__ import annotations

import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import networks
import pytest
import torch
from torch import nn

import memplan
from memplan.budget import in_units
from memplan.plan.advice import what_would_help

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "memory_of_a_step.ipynb"
VOID = {"meta", "br", "img", "hr"}


class Page(HTMLParser):
    """Its text and its elements. A tag that is not closed, or closed and not open, is refused."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)


def test_a_page_says_what_the_report_says() -> None:
    model, inputs = networks.make("convolutions")
    report = memplan.estimate(model, inputs, budget="min+30%")
    text = report._repr_html_()
    page = Page(text)
    said = " ".join(page.text)
    assert page.seen.count("svg") == 1 and page.seen.count("table") == 1
    for n_bytes in (report.planned_bytes, report.budget_bytes, report.keep_all_bytes, report.floor_bytes, report.static_bytes):
        assert in_units(n_bytes) in said
    assert f"{report.overhead:+.1%} time" in said
    assert all(h.line is None or "memplan" not in h.line.file.rpartition("/tests/")[2] for h in report.holders)
    first = report.holders[0]
    assert first.name in said and first.module in said and in_units(first.n_bytes) in said and first.line is not None
    assert f"tests/networks.py:{first.line.number}" in said
    assert all(sentence in said for sentence in what_would_help(report.graph))
    assert not re.search(r"\b(id|src|href)=", text.replace("xlink:href", ""))  # nothing is loaded, nothing clashes
    assert "<script" not in text


def test_holders_sum_to_the_peak() -> None:
    """The planner's peak: what comes and goes, what is static, and the workspace of the operator that runs there."""
    model, inputs = networks.make("convolutions")
    graph = memplan.estimate(model, inputs, budget="min+30%").graph
    known = sum(h.n_bytes for h in graph.holders) + graph.static_bytes
    workspaces = {c.workspace_bytes for c in graph.costs.values()} | {0}
    assert graph.planning.number("planned_bytes") - known in workspaces
    assert [h.n_bytes for h in graph.holders] == sorted((h.n_bytes for h in graph.holders), reverse=True)


def test_a_line_of_code_is_text(tmp_path: Path) -> None:
    """Names come from the user: one that is a tag stays text."""
    assert Page(memplan.Report()._repr_html_()).text == ["nothing is planned yet"]
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))
    report = memplan.estimate(model, (torch.randn(256, 64),), budget="100%")
    report.graph.peak_at = "<b>tanh & more"
    report.graph.notes.append("<script>alert(1)</script>")
    page = Page(report._repr_html_())
    assert "script" not in page.seen and "at <b>tanh & more" in " ".join(page.text)


def advice(network: str, budget: str, **options: Any) -> str:
    model, inputs = networks.make(network)
    return "\n".join(what_would_help(memplan.estimate(model, inputs, budget=budget, **options).graph))


def test_what_would_help_is_about_the_numbers() -> None:
    at_ease, tight = advice("convolutions", "100%"), advice("convolutions", "min")
    assert "less memory: this plan needs" in at_ease and "less extra time" not in at_ease
    assert "less extra time" in tight and "less memory" not in tight
    assert "of the peak are parameters" in advice("tied", "100%", reserve="1GiB")
    with torch.device("meta"):
        wide = memplan.estimate(nn.Linear(2048, 2048), (torch.empty(1, 2048),), device="h100", budget="100%")
    assert "memplan.TrainStep frees each gradient" in "\n".join(what_would_help(wide.graph))
    assert "memplan.TrainStep" not in at_ease


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbclient and ipykernel run notebooks")
    nbclient = pytest.importorskip("nbclient", reason="nbclient and ipykernel run notebooks")
    pytest.importorskip("ipykernel", reason="nbclient and ipykernel run notebooks")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "python" / "src"), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(EXAMPLE, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown, kept, numbers = (list(cell.outputs) for cell in notebook.cells if cell.cell_type == "code")
    assert "<svg" in shown[-1]["data"]["text/html"] and "at its peak" in shown[-1]["data"]["text/plain"]
    planned, measured = eval(kept[-1]["data"]["text/plain"])
    assert measured == pytest.approx(planned, rel=1e-4)  # the loss is outside: some numbers per sample
    scalars = eval(numbers[-1]["data"]["text/plain"])
    assert scalars["planned_bytes"] == planned and scalars["measured_bytes"] == measured
    assert (tmp_path / "peak.pickle").stat().st_size > 0 and json.loads((tmp_path / "step.json").read_text())["traceEvents"]
