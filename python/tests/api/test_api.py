"""The public functions: options, results and error messages."""

from __future__ import annotations

import contextlib
import gc
import inspect
import json
import os
import signal
import threading
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networks
import pytest
import torch
from against_eager import assert_like_eager
from torch import nn

import memplan
from memplan.budget import in_units, read_bytes, read_link, resolve
from memplan.library.planning import Planning, Progress
from memplan.plan import options
from memplan.plan.planner import GraphPlanner


def test_the_backend_by_name() -> None:
    model, inputs = networks.make("convolutions")
    report = memplan.Report()
    options = {"budget": "floor+40%", "on_infeasible": "smallest", "report": report}
    assert_like_eager(model, torch.compile(model, backend="memplan", options=options), inputs)
    assert report.recomputed and report.planned_bytes < report.keep_all_bytes
    with pytest.raises(memplan.MemplanError, match=r"^there is no option 'colour'"):
        torch.compile(networks.make("tied")[0], backend="memplan", options={"colour": "red"})(*networks.make("tied")[1])


def test_a_report_has_what_was_planned(tmp_path: Path) -> None:
    model, inputs = networks.make("convolutions")
    compiled = memplan.compile(model, "floor+50%")
    with pytest.raises(memplan.MemplanError, match="has not run yet"):
        _ = compiled.memplan.planned_bytes
    compiled(*inputs).backward()
    report = compiled.memplan
    assert report.static_bytes < report.floor_bytes <= report.planned_bytes <= report.budget_bytes < report.keep_all_bytes
    assert 0 <= report.proved_overhead <= report.overhead + 1e-9
    assert report.recomputed[0].runs == 2 and "blocks" in "".join(r.module for r in report.recomputed)
    assert "operators run again" in str(report)
    measured = report.measure(lambda: compiled(*inputs).backward())
    assert measured == report.measured_bytes and "measured" in str(report)
    report.save(str(tmp_path / "graph.json"))
    report.save_plan(str(tmp_path / "plan.json"))
    report.timeline(str(tmp_path / "timeline.svg"))
    graph = json.loads((tmp_path / "graph.json").read_text())
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert graph["format"] == "memplan-graph" and plan["graph"]["hash"] == graph["hash"]
    assert len(plan["steps"]) > len(graph["nodes"]) == report.graph.n_operators + 2
    assert "<svg" in (tmp_path / "timeline.svg").read_text()
    with pytest.raises(memplan.MemplanError):
        report.timeline(str(tmp_path / "timeline.gif"))


def test_an_estimate_runs_nothing() -> None:
    model, inputs = networks.make("tied")
    report = memplan.estimate(model, inputs, budget="floor+60%")
    assert report.planned_bytes <= report.budget_bytes
    assert model.seen == 0 and all(p.grad is None for p in model.parameters())
    with pytest.raises(memplan.MemplanError, match="nothing to train"):
        memplan.estimate(model.requires_grad_(False), inputs)


def test_the_largest_batch() -> None:
    torch.manual_seed(0)
    model = networks.Tied()
    budget = memplan.estimate(model, networks.vectors(6)).keep_all_bytes
    batch, report = memplan.fit(model, networks.vectors, budget, overhead=0.0)
    assert batch >= 6 and report is not None and report.planned_bytes <= budget and not report.recomputed
    torch._dynamo.reset()
    assert memplan.estimate(model, networks.vectors(batch + 1), budget=budget).recomputed
    assert memplan.fit(model, networks.vectors, budget, overhead=2.0, most=7)[0] == 7
    assert memplan.fit(model, networks.vectors, 1000) == (0, None)


@pytest.mark.parametrize(("least", "step"), [(2, 1), (2, 4), (3, 5), (8, 8)])
def test_batches_that_are_tried(least: int, step: int) -> None:
    """The largest of least, least + step, ... that a search of all finds."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 64), nn.BatchNorm1d(64), nn.Tanh(), nn.Linear(64, 1)).to("meta")
    tried: list[int] = []

    def inputs(n: int) -> tuple[torch.Tensor]:
        tried.append(n)
        return (torch.empty(n, 4, device="meta"),)

    options: dict[str, Any] = {"budget": "16KiB", "device": "a100", "cache": "off"}
    batch, report = memplan.fit(model, inputs, least=least, step=step, most=40, overhead=0.0, **options)
    fits = []
    for n in range(least, 41, step):
        with contextlib.suppress(memplan.BudgetError):
            if memplan.estimate(model, (torch.empty(n, 4, device="meta"),), **options).overhead <= 0.0:
                fits.append(n)
    assert batch == max(fits) < 40 - step and report is not None
    assert len(tried) == len(set(tried)) and all((n - least) % step == 0 and n <= 40 for n in tried)


BYTES = [lambda n: 100 + 7 * n, lambda n: max(5000, 50 * n), lambda n: n * n, lambda n: 10, lambda n: 640 * (n // 64)]
SECONDS = [lambda n: 0.0, lambda n: n / 1000, lambda n: (n / 300) ** 3, lambda n: float(n > 333)]


@pytest.mark.parametrize("n_bytes", BYTES)
@pytest.mark.parametrize("overhead", SECONDS)
@pytest.mark.parametrize("device", ["a100", None])
def test_batches_are_predicted(n_bytes: Any, overhead: Any, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def estimate(_: Any, inputs: Any, **__: Any) -> Any:
        tried.append(inputs[0])
        if n_bytes(inputs[0]) > 10_000:
            raise memplan.BudgetError("", budget_bytes=10_000, floor_bytes=n_bytes(inputs[0]))
        floor = n_bytes(inputs[0])
        return SimpleNamespace(graphs=[], floor_bytes=floor, budget_bytes=10_000, overhead=overhead(inputs[0]))

    monkeypatch.setattr("memplan.largest_batch.estimate", estimate)
    answer = max(n for n in range(1, 2000) if n_bytes(n) <= 10_000 and overhead(n) <= 0.2)
    assert memplan.fit(None, lambda n: (n,), device=device, most=1999)[0] == answer
    assert len(tried) <= 2 * answer.bit_length() + 3 and len(set(tried)) == len(tried)  # as with doubling and bisection
    if device is not None and n_bytes in BYTES[:2] and overhead in SECONDS[:1]:
        assert len(tried) <= 8


def test_a_batch_of_one_that_cannot_be_trained_is_told() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
    with pytest.raises(
        memplan.MemplanError, match=r"(?s)fit starts with a batch of 1, but BatchNorm needs a larger least=.*more than 1 value"
    ):
        memplan.fit(model, lambda n: (torch.randn(n, 4),), "1MiB")
    with pytest.raises(memplan.MemplanError, match=r"least=9 is larger than most=8"):
        memplan.fit(model, lambda n: (torch.randn(n, 4),), "1MiB", least=9, most=8)
    with pytest.raises(memplan.MemplanError, match=r"step=0 is not a batch"):
        memplan.fit(model, lambda n: (torch.randn(n, 4),), "1MiB", step=0)


def test_the_smallest_plan_is_searched_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a quicker one within its peak once more."""
    model, inputs = networks.make("transformer")
    searches: list[int | None] = []
    search = GraphPlanner.search

    def counted(self: GraphPlanner, target: int | None, options: Any) -> bool:
        searches.append(target)
        return search(self, target, options)

    monkeypatch.setattr(GraphPlanner, "search", counted)
    report = memplan.estimate(model, inputs, budget="min", cache="off")
    assert len([target for target in searches if target is not None]) == 1
    assert report.planned_bytes <= report.budget_bytes


class Broken(nn.Module):
    """Two graphs: the text in between cannot be captured."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(4)))
        self.second = nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(4)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        torch._dynamo.graph_break()
        return self.second(x).square().mean()


def test_graph_breaks() -> None:
    torch.manual_seed(0)
    model, x = Broken(), torch.randn(64, 32)
    compiled = memplan.compile(model, "10MiB", fullgraph=False)
    assert_like_eager(model, compiled, (x,))
    first, second = compiled.memplan.graphs
    assert second.static_bytes >= first.saved_bytes + sum(p.numel() * 4 for p in model.parameters())


class Picked(nn.Module):
    """How much is left of the batch depends on it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.layer(x))
        return x[x > 0].square().sum()


def test_what_cannot_be_planned_runs_as_eager_does() -> None:
    torch.manual_seed(0)
    model, x = Picked(), torch.randn(16, 8)
    report = memplan.Report()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(model, backend="memplan", fullgraph=True, options={"budget": "80%", "report": report})
        with pytest.warns(memplan.FallbackWarning, match="depends on data"):
            assert_like_eager(model, compiled, (x,))
    assert report.fallbacks
    with pytest.raises(memplan.MemplanError, match="depends on data"):
        _ = report.planned_bytes


def test_an_impossible_budget_is_our_exception_alone() -> None:
    model, inputs = networks.make("convolutions")
    with pytest.raises(memplan.BudgetError, match=r"cannot be met by .*smallest plan found needs") as caught:
        memplan.compile(model, "1KiB")(*inputs)
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    torch._dynamo.reset()
    with pytest.raises(memplan.BudgetError, match=r"^a budget of"):
        torch.compile(model, backend="memplan", options={"budget": "1KiB"})(*inputs)
    with pytest.raises(memplan.BudgetError, match="is not a budget"):
        memplan.compile(networks.make("tied")[0], "a lot")(*networks.make("tied")[1])
    torch._dynamo.reset()
    with pytest.warns(memplan.FallbackWarning, match="it runs with the smallest"):
        compiled = memplan.compile(model, "1KiB", on_infeasible="smallest")
        compiled(*inputs).backward()


def test_a_budget_from_the_free_memory() -> None:
    model, inputs = networks.make("tied")
    compiled = memplan.compile(model)
    compiled(*inputs).backward()
    assert compiled.memplan.budget_bytes > compiled.memplan.keep_all_bytes == compiled.memplan.planned_bytes


def test_texts_mean_the_bytes_of_the_table_of_the_command_line() -> None:
    """Check texts of budgets and links against the table that the tests of the C library read."""
    table = Path(__file__).parents[3] / "tests" / "oracles" / "budgets.csv"
    for row in table.read_text("ascii").splitlines():
        text, kind, number = row.split(";")
        n_bytes = int(number)
        if kind == "link":
            assert read_link(text) == (("", float(n_bytes)) if n_bytes > 0 else (text, 0.0)), row
        elif kind == "none":
            with pytest.raises(memplan.BudgetError):
                resolve(text, 1000, lambda: 200, lambda whole: 5)
        else:
            expected = {"auto": 5, "device": 6}.get(kind, n_bytes)
            assert resolve(text, 1000, lambda: 200, lambda whole: 6 if whole else 5) == expected, row
        assert read_bytes(text) == (n_bytes if kind == "bytes" else None) or kind == "link", row


def test_budgets_as_people_write_them() -> None:
    def ask(budget: Any) -> int:
        return resolve(budget, 1000, lambda: 200, lambda whole: 6 if whole else 5)

    assert [ask(b) for b in (7, "60%", "floor + 50%", "floor+0%", "auto", "1KiB", "device")] == [7, 600, 600, 200, 5, 1024, 6]
    assert [ask(b) for b in ("min", " floor ", "min+50%", "min + 0%", "floor+100%")] == [200, 200, 600, 200, 1000]
    assert resolve("min+50%", 1000, lambda: 1200, lambda whole: 5) == 1200  # what is saved may not be worth what it takes
    for wrong in ("", "60", "-1", "60%%", "min+", "min50%", "floors", None, True):
        if wrong != "60":
            with pytest.raises(memplan.BudgetError):
                ask(wrong)
    assert [in_units(n) for n in (0, 1023, 1024, 3 << 29)] == ["0 B", "1023 B", "1.00 KiB", "1.50 GiB"]


def chain(layers: int) -> Planning:
    planning = Planning("chain")
    a = [planning.add_storage("a", "activation" if k else "input", 100) for k in range(layers + 1)]
    g = [planning.add_storage("g", "activation_gradient", 100) for _ in range(layers + 1)]
    for k in range(1, layers + 1):
        node = planning.add_node(f"f{k}", "Layer", "forward", 1e-6, 0)
        planning.connect(node, "reads", [a[k - 1]])
        planning.connect(node, "writes", [a[k]])
    node = planning.add_node("loss", "Loss", "loss", 1e-6, 0)
    planning.connect(node, "reads", [a[layers]])
    planning.connect(node, "writes", [g[layers]])
    for k in range(layers, 0, -1):
        node = planning.add_node(f"b{k}", "Layer", "backward", 2e-6, 0)
        planning.connect(node, "reads", [a[k - 1], g[k]])
        planning.connect(node, "writes", [g[k - 1]])
    planning.finish()
    return planning


def endless() -> Planning:
    planning = chain(60)
    for option, value in (("solver", "anneal"), ("moves", 10**15), ("bound", "no")):
        planning.set(option, value)
    return planning


def test_the_library_by_hand() -> None:
    planning = chain(16)
    assert planning.number("keep_all_bytes") == 100 + 15 * 100 + 200  # as in tests/planner/test_planning.c
    assert planning.solve(1000)
    steps = planning.steps()
    assert len(steps) > 33 and set(steps) == set(range(33))
    assert not planning.solve(100)
    with pytest.raises(memplan.MemplanError, match="there is no kind of storage 'tensor'"):
        Planning("wrong").add_storage("a", "tensor", 1)


def test_the_smallest_plan_by_hand() -> None:
    planning = chain(16)
    assert not planning.solve(100) and planning.steps() == []
    smallest = planning.number("smallest_bytes")
    assert planning.solve(None)
    assert planning.number("planned_bytes") == smallest and set(planning.steps()) == set(range(33))
    assert planning.solve(smallest) and not planning.solve(smallest - 1)


def test_ctrl_c_ends_a_search() -> None:
    gc.collect()  # what is raised while something is taken away is lost
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            endless().solve(3000, lambda progress: progress.elapsed_seconds < 20)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


def test_what_a_signals_handler_raises_ends_a_search_and_comes_out() -> None:
    """Also where nobody watches; and a handler that raises nothing lets it go on."""

    def late(*_: Any) -> None:
        raise TimeoutError

    gc.collect()
    heard: list[int] = []
    before = signal.signal(signal.SIGALRM, late), signal.signal(signal.SIGUSR1, lambda number, _: heard.append(number))
    mask = [signal.getsignal(s) for s in sorted(signal.valid_signals())]
    beside = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        beside.start()
        signal.setitimer(signal.ITIMER_REAL, 1.0)
        with pytest.raises(TimeoutError):
            endless().solve(3000)
        assert heard == [signal.SIGUSR1] and [signal.getsignal(s) for s in sorted(signal.valid_signals())] == mask
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        beside.join()
        signal.signal(signal.SIGALRM, before[0])
        signal.signal(signal.SIGUSR1, before[1])


def test_other_threads_run_beside_a_search_and_a_watcher_ends_it() -> None:
    seen: list[Progress] = []
    ticks: list[float] = []
    done = threading.Event()

    def beside() -> None:
        while not done.wait(0.01):
            ticks.append(time.monotonic())

    def watcher(progress: Progress) -> bool:
        seen.append(progress)
        return len(seen) < 3

    thread = threading.Thread(target=beside)
    thread.start()
    assert endless().solve(3000, watcher)
    done.set()
    thread.join()
    assert len(seen) == 3 and seen[-1].elapsed_seconds > 0
    assert len(ticks) > 3


def test_an_error_in_a_watcher_is_raised_where_it_is_asked_for() -> None:
    def watcher(_: Progress) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        endless().solve(3000, watcher)


def test_nothing_is_said_where_all_is_well() -> None:
    model, inputs = networks.make("convolutions")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        memplan.compile(model, "floor+50%")(*inputs).backward()


@pytest.mark.parametrize(
    ("place", "function", "others"),
    [
        ("compile", memplan.compile, {"model", "optimizer", "accumulate", "fullgraph"}),
        ("step", memplan.TrainStep, {"model", "loss", "optimizer", "fuse", "offload_state"}),
        (
            "pipeline",
            memplan.pipeline,
            {"schedule", "stages", "n_microbatches", "loss_fn", "optimizer", "accumulate", "returns_outputs", "of_schedule"},
        ),
    ],
)
def test_public_functions_accept_the_options_that_are_declared_for_them(place: str, function: Any, others: set[str]) -> None:
    given = inspect.signature(function).parameters
    defaults = {name: p.default for name, p in given.items() if name not in others}
    known = {f.name: f.default for f in options.fields(options.Options)}
    assert defaults == {name: known[name] for name in options.names_of(place)}
