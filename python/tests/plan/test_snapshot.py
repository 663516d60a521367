"""Plans as PyTorch's own tools for memory show them: snapshots by torch.cuda._memory_viz, traces, numbers for boards."""

from __future__ import annotations

import json
import math
import pickle
import re
from pathlib import Path
from typing import Any

import networks
import pytest
import torch
from torch.cuda import _memory_viz as viz
from torch.utils._pytree import tree_leaves

import memplan
from memplan.costs.measure import peak_of

SHARES = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def lines(text: str) -> str:
    """In the place of the script that draws flames, which PyTorch downloads."""
    return text


def total(text: str, name: str) -> Any:
    """A sum that PyTorch's tool has made, to the one place that it prints."""
    found = re.search(rf"{name}: ([\d.]+)([KMG]i|)B", text)
    assert found is not None
    return pytest.approx(float(found[1]) * SHARES[found[2]], rel=0, abs=0.0501 * SHARES[found[2]])


def flames(text: str) -> dict[str, int]:
    """Bytes by who asked for them."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        who, _, n_bytes = line.rpartition(" ")
        found[who] = found.get(who, 0) + int(n_bytes)
    return found


def written(report: memplan.Report, path: Path, *step: Any) -> dict[str, Any]:
    report.snapshot(path, *step)
    with open(path, "rb") as file:
        found: dict[str, Any] = pickle.load(file)
    return found


def of_device(snapshot: dict[str, Any], device: int) -> dict[str, Any]:
    return snapshot | {"segments": [s for s in snapshot["segments"] if s["device"] == device]}


def compiled(name: str, budget: str) -> tuple[Any, Any]:
    model, inputs = networks.make(name)
    model = memplan.compile(model, budget)

    def step() -> None:
        model(*inputs).backward()
        model.zero_grad(set_to_none=True)

    step()
    return model.memplan, step


@pytest.mark.parametrize("settings", ["", "expandable_segments:True"])
def test_a_snapshot_by_pytorchs_own_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", settings)
    report, _ = compiled("convolutions", "min+30%")
    snapshot = written(report, tmp_path / "peak.pickle")
    said = viz.segsum(snapshot)  # which adds up all blocks, and raises where they do not fill their segments
    assert total(said, "total_allocated") == report.planned_bytes
    assert total(said, "total_reserved") == report.reserved_bytes
    held = flames(viz.memory(snapshot, lines))
    asked = {who: n for who, n in held.items() if "<gaps>" not in who and ";active_allocated;" in who}
    assert sum(asked.values()) == report.planned_bytes
    assert sum(flames(viz.segments(snapshot, lines)).values()) == report.reserved_bytes
    assert any("networks.py" in who and "blocks" in who for who in asked)
    assert viz.compare(snapshot["segments"], snapshot["segments"], lines) == ""
    for page in (viz.trace_plot(snapshot), viz.segment_plot(snapshot)):
        assert "MemoryViz.js" in page and len(page) > len(pickle.dumps(snapshot))
    assert viz.trace(snapshot).startswith("Device 0")


def replayed(entries: list[dict[str, Any]]) -> tuple[int, int]:
    """The most that a history has given out at once beyond its begin, and what is out at its end."""
    now = top = 0
    out: dict[int, int] = {}
    for entry in entries:
        if entry["action"] == "alloc":
            assert entry["addr"] not in out
            out[entry["addr"]] = entry["size"]
            now += entry["size"]
        elif entry["action"] == "free_completed":
            now -= out.pop(entry["addr"])
        top = max(top, now)
    return top, now


def test_planned_beside_measured(tmp_path: Path) -> None:
    report, step = compiled("convolutions", "min+30%")
    measured = report.measure(step)
    snapshot = written(report, tmp_path / "peak.pickle", step)
    planned_top, planned_now = replayed(snapshot["device_traces"][0])
    top, now = replayed(snapshot["device_traces"][1])
    assert planned_top == planned_now == report.planned_bytes - report.static_bytes
    assert top == now == measured - report.static_bytes == peak_of(step)
    assert total(viz.segsum(of_device(snapshot, 1)), "total_allocated") == measured
    assert any("aten::" in who for who in flames(viz.memory(of_device(snapshot, 1), lines)))
    addresses = [{b["address"] for s in of_device(snapshot, k)["segments"] for b in s["blocks"]} for k in (0, 1)]
    assert not addresses[0] & addresses[1] and max(addresses[1]) < 1 << 53  # the numbers of the viewer's language


def test_a_snapshot_has_what_pytorchs_has(tmp_path: Path) -> None:
    """The keys that PyTorch documents for torch.cuda.memory_snapshot, and plain values."""
    report, step = compiled("tied", "80%")
    snapshot = written(report, tmp_path / "peak.pickle", step)
    segment = snapshot["segments"][0]
    block, entry = segment["blocks"][0], snapshot["device_traces"][0][0]
    assert {"address", "total_size", "allocated_size", "active_size", "requested_size", "stream", "segment_type"} <= set(
        segment
    )
    assert {"size", "requested_size", "address", "state", "frames"} <= set(block)
    assert {"action", "addr", "size", "stream", "frames", "time_us"} <= set(entry)
    assert {type(leaf) for leaf in tree_leaves(snapshot)} <= {int, str, bool}
    assert [s["address"] for s in snapshot["segments"]] == sorted(s["address"] for s in snapshot["segments"])


def test_a_trace_for_perfetto(tmp_path: Path) -> None:
    report, _ = compiled("convolutions", "min+30%")
    report.trace(tmp_path / "step.json")
    trace = json.loads((tmp_path / "step.json").read_text())
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    counters = [e for e in trace["traceEvents"] if e["ph"] == "C"]
    assert len(slices) == len(report.graph.planning.steps())
    assert sum(e["dur"] for e in slices) == pytest.approx(report.seconds * 1e6)
    assert max(sum(e["args"].values()) for e in counters) == trace["otherData"]["peak_bytes"]
    assert trace["otherData"]["peak_bytes"] == pytest.approx(report.planned_bytes, rel=0.01)


def test_numbers_for_boards() -> None:
    report, step = compiled("convolutions", "min+30%")
    before = report.scalars()
    report.measure(step)
    after = report.scalars()
    assert all(type(n) in (int, float) and not math.isnan(n) for n in after.values())
    assert after["planned_bytes"] == report.planned_bytes and after["n_recomputed"] == len(report.recomputed) > 0
    assert set(after) - set(before) == {"measured_bytes", "measured_host_bytes"} and "context_bytes" not in after
    with torch.device("meta"), pytest.warns(memplan.FallbackWarning, match="no device is named"):
        away = memplan.estimate(torch.nn.Linear(4, 4), (torch.empty(2, 4),)).scalars()
    assert "seconds" not in away and "overhead" not in away and away["planned_bytes"] > 0
