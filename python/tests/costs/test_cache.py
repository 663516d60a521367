"""The cache on disk: entries are found again, and damaged entries have no effect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networks
import pytest
import torch
from against_eager import assert_like_eager

import memplan
from memplan.costs.cache import Cache, folder_of
from memplan.costs.measure import Costs
from memplan.library.planning import Planning
from memplan.run import backend


def start_again(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As in a new process; what is measured and searched from now on is told in the list."""
    torch._dynamo.reset()
    done: list[str] = []
    monkeypatch.setattr(backend, "COSTS", Costs())

    def told(kind: type, method: str) -> None:
        inner = getattr(kind, method)

        def call(self: Any, *arguments: Any) -> Any:
            done.append(method)
            return inner(self, *arguments)

        monkeypatch.setattr(kind, method, call)

    told(Planning, "solve")
    told(Costs, "_measure_new")
    return done


def compiled_with(folder: Path, budget: str = "floor+40%", **options: Any) -> Any:
    model, inputs = networks.make("convolutions")
    compiled = memplan.compile(model, budget, cache=str(folder), time_limit=0, **options)
    assert_like_eager(model, compiled, inputs, steps=2)
    return compiled.memplan.graph


def test_a_second_start_measures_and_searches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = start_again(monkeypatch)
    first = compiled_with(tmp_path)
    assert set(done) == {"solve", "_measure_new"} and first.recomputed
    assert len(list(tmp_path.glob("costs-*.json"))) == 1 and list(tmp_path.glob("plan-*.json"))
    assert not [p for p in tmp_path.iterdir() if p.suffix != ".json"]
    done = start_again(monkeypatch)
    second = compiled_with(tmp_path)
    assert done == []
    assert second.planning.steps() == first.planning.steps() and second.planning.hash() == first.planning.hash()
    for field in (
        "planned_bytes",
        "floor_bytes",
        "overhead",
        "proved_overhead",
        "recomputed",
        "budget_bytes",
        "keep_all_bytes",
    ):
        assert getattr(second, field) == getattr(first, field), field
    done = start_again(monkeypatch)
    compiled_with(tmp_path, "floor+60%")
    assert set(done) == {"solve"}  # another budget, the same operators


def test_an_impossible_budget_is_not_searched_for_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask() -> memplan.BudgetError:
        with pytest.raises(memplan.BudgetError) as caught:
            memplan.estimate(*networks.make("convolutions"), budget="700KiB", cache=str(tmp_path))
        return caught.value

    done = start_again(monkeypatch)
    first = ask()
    assert "solve" in done
    done = start_again(monkeypatch)
    second = ask()
    assert done == [] and str(first) == str(second) and first.smallest_bytes == second.smallest_bytes


def test_the_smallest_plan_at_the_floor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> memplan.Report:
        return memplan.estimate(*networks.make("unet"), budget=1, cache=str(tmp_path), on_infeasible="smallest")

    start_again(monkeypatch)
    first = run()
    done = start_again(monkeypatch)
    second = run()
    assert done == [] and first.planned_bytes == second.planned_bytes == first.floor_bytes


def test_what_is_damaged_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_again(monkeypatch)
    first = compiled_with(tmp_path)
    (costs,) = tmp_path.glob("costs-*.json")
    whole = costs.read_text()
    plans = {p: p.read_text() for p in tmp_path.glob("plan-*.json")}
    for path, text in plans.items():
        document = json.loads(text)
        del document["steps"][-1]  # well-formed, and no plan
        path.write_text(json.dumps(document))
    done = start_again(monkeypatch)
    assert compiled_with(tmp_path).planned_bytes == first.planned_bytes
    assert set(done) == {"solve"} and {p: p.read_text() for p in plans} == plans
    for text in ("", "[1, 2]", '{"x": 3, "y": [1, 2, "z"]}', whole[:100]):
        costs.write_text(text)
        done = start_again(monkeypatch)
        compiled_with(tmp_path)
        assert "_measure_new" in done


def test_nothing_is_kept_where_it_cannot_be_or_shall_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_again(monkeypatch)
    (tmp_path / "file").write_text("")
    compiled_with(tmp_path / "file")
    assert (tmp_path / "file").read_text() == ""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert folder_of(None) is None and folder_of("off") is None and Cache().plan_path("x") is None
    monkeypatch.delenv("MEMPLAN_CACHE")
    assert folder_of(None) == tmp_path / "home" / "memplan" and folder_of("/x") == Path("/x")
    folder = tmp_path / "ended"
    solve = Planning.solve

    def ended(self: Planning, *arguments: Any) -> bool:
        found = solve(self, *arguments)
        self.was_ended = True  # by its watcher, who may want another plan the next time
        return found

    monkeypatch.setattr(Planning, "solve", ended)
    compiled_with(folder)
    assert list(folder.glob("plan-*")) == []
