"""Options, files and calls of wrong kinds: one sentence each, and nothing is read or written past its end."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import networks
import pytest
import torch

import memplan
from memplan.budget import MOST_BYTES, only_bytes, resolve
from memplan.costs import cache
from memplan.costs.cache import Cache, replace_file
from memplan.costs.measure import Costs
from memplan.graph.native import native_kernels, overloads
from memplan.library import calls
from memplan.library.planning import Planning
from memplan.plan.options import Options


@pytest.mark.parametrize(
    "given", [-5, True, None, float("nan"), 1.5, b"8GiB", [], "", "nan%", "-5%", "9" * 5000, "9" * 400 + "%"]
)
def test_what_is_no_budget_is_a_sentence(given: Any) -> None:
    with pytest.raises(memplan.BudgetError, match="is not a budget"):
        resolve(given, 1000, lambda: 100, lambda whole: 5)
    with pytest.raises(memplan.MemplanError, match="is not a number of bytes"):
        only_bytes(given)


@pytest.mark.parametrize("given", [1 << 63, (1 << 64) + 5])
def test_a_budget_beyond_all_counting_is_any(given: Any) -> None:
    assert resolve(given, 1000, lambda: 100, lambda whole: 5) == MOST_BYTES
    if isinstance(given, int):  # C would take (1 << 64) + 5 as 5
        with pytest.raises(memplan.MemplanError, match="is not a number of bytes"):
            memplan.estimate(*networks.make("convolutions"), reserve=given)


@pytest.mark.parametrize(
    "option", [{"on_infeasible": "Smallest"}, {"progress": 3}, {"cache": 3}, {"cache": "~no such user/here"}]
)
def test_an_option_of_a_wrong_kind_is_a_sentence(option: dict[str, Any]) -> None:
    with pytest.raises(memplan.MemplanError):
        Options(**option)


def test_a_cache_that_cannot_be_is_none(tmp_path: Path) -> None:
    for name in ("x" * 300, "a\0b", "a\udc80b"):
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
        memplan.estimate(model, (torch.ones(2, 4),), cache=str(tmp_path / name))


def test_what_breaks_off_a_file_leaves_nothing(tmp_path: Path) -> None:
    for error in (KeyboardInterrupt, memplan.MemplanError):

        def half(beside: str, error: type[BaseException] = error) -> None:
            Path(beside).write_text("half")
            raise error

        with pytest.raises(error):
            replace_file(tmp_path / "a.json", half)
        assert list(tmp_path.iterdir()) == []
    left, fresh = tmp_path / f"{cache.BESIDE}old.json", tmp_path / f"{cache.BESIDE}new.json"
    left.touch(), fresh.touch()
    os.utime(left, (0, 0))  # of a process that was killed
    replace_file(tmp_path / "a.json", lambda beside: Path(beside).write_text("whole"))
    assert sorted(tmp_path.iterdir()) == sorted([fresh, tmp_path / "a.json"])


def test_costs_that_cannot_be_are_measured(tmp_path: Path) -> None:
    kept = Cache(str(tmp_path))
    path = kept._costs_path()
    assert path is not None
    good = [1e-6, 8, [16]]
    bad = [
        [float("nan"), 0, []],
        [float("inf"), 0, []],
        [-1, 0, []],
        [1, -1, []],
        [1, float("inf"), []],
        [1, 0, [1 << 80]],
        [1],
        3,
    ]
    path.write_text(json.dumps({"good": good, **{f"bad {k}": b for k, b in enumerate(bad)}}))
    costs = Costs()
    costs._read(kept)
    assert set(costs.known) == {"good"}
    path.write_text("[" * 100000)
    assert kept.read_costs() == {}


def test_ctrl_c_in_the_midst_leaves_pytorch_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [dict(o.py_kernels) for o in overloads()]
    cleared = iter(range(3))

    class Stops(dict):  # type: ignore[type-arg]
        def clear(self) -> None:
            if next(cleared, None) == 1:
                raise KeyboardInterrupt

    for o in overloads():
        monkeypatch.setattr(o, "_dispatch_cache", Stops())
    with pytest.raises(KeyboardInterrupt), native_kernels():
        pass
    assert [dict(o.py_kernels) for o in overloads()] == before


def test_files_are_named_by_any_path(tmp_path: Path) -> None:
    report = memplan.estimate(*networks.make("convolutions"))
    for name in (tmp_path / "a.json", str(tmp_path / "b.json"), os.fsencode(tmp_path / "c.json"), tmp_path / "\udc80.json"):
        report.save(name)  # type: ignore[arg-type]
        report.save_plan(name)  # type: ignore[arg-type]
        assert os.path.getsize(name) > 0
    for wrong in (3, str(tmp_path / "a\0b")):
        for write in (report.save, report.save_plan, report.timeline):
            with pytest.raises(memplan.MemplanError):
                write(wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "a").exists()


def test_what_is_no_library_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Path(os.environ["MEMPLAN_LIBRARY"]).read_bytes()
    wrong: dict[str, str] = {
        str(tmp_path): "is not a file",
        str(tmp_path / "none.so"): "No such file",
        "libm.so.6": "is too old for this package",
        "/dev/zero": "is not a file",
        "x" * 5000: "cannot be loaded",
    }
    for name, text in {
        "empty": b"",
        "text": b"hello",
        "head": whole[:100],
        "cut": whole[:20000],
        "other": whole[:18] + b"?" * 99,
    }.items():
        (tmp_path / name).write_bytes(text)
        wrong[str(tmp_path / name)] = "is truncated" if name == "cut" else "cannot be loaded"
    os.mkfifo(tmp_path / "pipe")
    wrong[str(tmp_path / "pipe")] = "is not a file"
    for path, sentence in wrong.items():
        monkeypatch.setenv("MEMPLAN_LIBRARY", path)
        with pytest.raises(memplan.errors.LibraryError, match=sentence):
            calls.library.__wrapped__()
    monkeypatch.undo()
    monkeypatch.setattr(calls, "INTERFACE", 2)
    with pytest.raises(memplan.errors.LibraryError, match="has interface 1; this package needs 2"):
        calls.library.__wrapped__()


NUMBERS = (-1, 0, 1, 2, 3, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) + 1, -(1 << 63), 1.5, None)
KINDS = ("parameter", "activation", "gradient", "forward", "backward", "reads", "writes", "in_place")
TEXTS = ("", "a", "x" * 5000, "a\0b", "\udc80", *KINDS)


def one_call(planning: Planning, chance: random.Random, folder: Path) -> Any:
    n, t = (lambda: chance.choice(NUMBERS)), (lambda: chance.choice(TEXTS))
    calls: list[Any] = [
        lambda: planning.add_storage(t(), chance.choice(("activation", "gradient", t())), chance.choice((10, n()))),
        lambda: planning.add_node(t(), t(), chance.choice(("forward", "backward", t())), chance.choice((1e-6, n())), n()),
        lambda: planning.connect(n(), chance.choice(("reads", "writes", "in_place", t())), [n() for _ in range(3)]),
        lambda: planning.flag(n(), chance.choice(("once", "random", t()))),
        lambda: planning.set(chance.choice(("effort", "solver", "seed", "fuse", t())), chance.choice((n(), t()))),
        lambda: planning.number(chance.choice(("floor_bytes", "smallest_bytes", t()))),
        lambda: (planning.steps(), planning.holders(), planning.hash()),
        lambda: planning.solve(None),
        lambda: planning.save_graph(folder / "graph.json"),
        lambda: planning.save_plan(folder / "plan.json"),
        lambda: planning.take(n(), folder / "plan.json"),
        lambda: planning.picture(folder / "picture.svg", t()),
        planning.finish,
        lambda: planning.solve(n()),
    ]
    return chance.choices(calls, weights=[8, 8, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1])[0]()


def test_calls_by_chance_answer_or_raise(tmp_path: Path) -> None:
    """Whatever is called in whatever order: a result or an exception."""
    n_answers = 0
    for seed in range(int(os.environ.get("MEMPLAN_FUZZ", "300"))):
        chance = random.Random(seed)
        planning = Planning("by chance")
        for _ in range(30):
            try:
                one_call(planning, chance, tmp_path)
                n_answers += 1
            except (memplan.MemplanError, TypeError):
                pass
    assert n_answers > 0 and torch.get_num_threads() == 1
