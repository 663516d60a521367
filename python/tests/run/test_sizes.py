"""Inputs of changing sizes through torch.compile as it is: a plan per size, each within its budget, eager's bits."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator
from typing import Any

import networks
import pytest
import torch
from against_eager import assert_like_eager, peak_of_step, static_bytes

import memplan
from memplan.costs import measure
from memplan.costs.cache import Cache
from memplan.costs.interpolation import BETWEEN, position
from memplan.library.planning import Planning
from memplan.plan.other_sizes import REPLAYED
from memplan.run import backend


@pytest.fixture(autouse=True)
def without_falling_back() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", memplan.FallbackWarning)
        yield


not_on_2_4 = pytest.mark.skipif(
    torch.__version__ < "2.5", reason="PyTorch 2.4 captures every size and number anew, up to its limit"
)


def compiled_by_name(model: Any, budget: str, dynamic: bool | None = None) -> tuple[Any, memplan.Report]:
    report = memplan.Report()
    return torch.compile(model, backend="memplan", dynamic=dynamic, options={"budget": budget, "report": report}), report


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(("name", "make"), [("unet", networks.pictures), ("transformer", networks.sequences)])
def test_every_size_has_its_plan(name: str, make: Any, dynamic: bool | None) -> None:
    model, _ = networks.make(name)
    eager = copy.deepcopy(model)
    compiled, report = compiled_by_name(model, "floor+70%", dynamic)
    for batch, n_plans in ((3, 1), (5, 2), (6, 3), (5, 3), (3, 3)):
        inputs = make(batch)
        assert_like_eager(model, compiled, inputs, eager=eager, steps=2)
        assert len(report.graphs) == n_plans
        measured = static_bytes(model, inputs) + peak_of_step(compiled, inputs)
        eager(*inputs)  # its statistics go as far
        graph = report.graphs[{3: 0, 5: 1, 6: 2}[batch]]
        assert abs(measured - graph.planned_bytes) <= 0.01 * measured and graph.planned_bytes <= graph.budget_bytes
        for p in [*model.parameters(), *eager.parameters()]:
            p.grad = None


def test_the_length_of_sequences_changes_too() -> None:
    model, _ = networks.make("transformer")
    eager = copy.deepcopy(model)
    compiled, report = compiled_by_name(model, "floor+70%")
    for batch, length in ((4, 8), (4, 12), (3, 10)):
        assert_like_eager(model, compiled, networks.sequences(batch, length), eager=eager, steps=1)
        for p in [*model.parameters(), *eager.parameters()]:
            p.grad = None
    assert len(report.graphs) == 3


@not_on_2_4
def test_without_gradients_one_graph_is_for_all_sizes() -> None:
    model, _ = networks.make("transformer")
    model.eval()
    compiled, _ = compiled_by_name(model, "100%")
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    with torch.no_grad():
        for batch in (3, 5, 6, 7):
            inputs = networks.sequences(batch)
            assert torch.equal(compiled(*inputs), model(*inputs))
    n_graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"] - before
    assert n_graphs == (4 if torch.__version__ < "2.11" else 2)  # where eager's `linear` takes sizes for constants


LIMIT = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"


@pytest.mark.parametrize("fullgraph", [False, pytest.param(True, marks=not_on_2_4)])
def test_the_last_graph_is_for_all_further_sizes_and_that_is_said(fullgraph: bool) -> None:
    model, _ = networks.make("tied")
    eager = copy.deepcopy(model)
    report = memplan.Report()
    compiled: Any = torch.compile(model, backend="memplan", fullgraph=fullgraph, options={"budget": "100%", "report": report})
    with torch._dynamo.config.patch({LIMIT: 3}):
        for batch in (3, 5):
            compiled(*networks.vectors(batch)).backward()
            model.zero_grad()
        with pytest.warns(memplan.FallbackWarning, match="serves all sizes without a plan"):
            compiled(*networks.vectors(6)).backward()
        model.load_state_dict(eager.state_dict())
        model.zero_grad()
        for batch in (7, 9, 11):
            assert_like_eager(model, compiled, networks.vectors(batch), eager=eager, steps=1)
            for p in [*model.parameters(), *eager.parameters()]:
                p.grad = None
    assert len(report.graphs) == 2 and len(report.fallbacks) == 1


class Sparse(torch.nn.Module):
    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(50, 32, sparse=sparse)
        self.layers = torch.nn.Sequential(
            *(layer() for _ in range(6) for layer in (lambda: torch.nn.Linear(32, 32), torch.nn.Tanh))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers((self.words(x) * 2).mean(1)).square().mean()


@pytest.mark.parametrize(
    ("sparse", "sizes", "text"), [(True, (256,), "sparse tensor"), (False, (64, 128, 192), "serves all sizes")]
)
def test_a_graph_without_a_plan_needs_no_more_than_eager(sparse: bool, sizes: tuple[int, ...], text: str) -> None:
    model = Sparse(sparse)
    eager = copy.deepcopy(model)
    compiled, _ = compiled_by_name(model, "100%")
    with torch._dynamo.config.patch({LIMIT: 3}), pytest.warns(memplan.FallbackWarning, match=text):
        for size in sizes:
            compiled(torch.randint(50, (size, 8))).backward()
            model.zero_grad()
    inputs = (torch.randint(50, (256, 8)),)
    compiled(*inputs).backward()
    eager(*inputs).backward()
    assert peak_of_step(compiled, inputs) <= peak_of_step(eager, inputs)


def test_the_last_size_is_said_where_pytorch_takes_sizes_for_constants() -> None:
    model, _ = networks.make("tied")
    compiled, report = compiled_by_name(model, "100%", dynamic=False)
    with torch._dynamo.config.patch({LIMIT: 2}):
        compiled(*networks.vectors(3)).backward()
        model.zero_grad()
        with pytest.warns(memplan.FallbackWarning, match="for no further sizes"):
            compiled(*networks.vectors(5)).backward()
        model.zero_grad()
        compiled(*networks.vectors(6)).backward()
    assert len(report.graphs) == 2


class Weighted(networks.Tied):
    """A loss that some number changes."""

    def __init__(self, use: Any) -> None:
        super().__init__()
        self.use, self.count = use, 0

    def forward(self, x: torch.Tensor, y: torch.Tensor, number: Any = None) -> torch.Tensor:
        loss = super().forward(x, y)
        if number is None:
            self.count += 1
            number = self.count
        return self.use(loss, number)


USES: dict[str, tuple[Any, Any]] = {
    "a weight": (lambda loss, n: loss * n, lambda k: 0.01 + 0.3 * k),
    "a whole weight": (lambda loss, n: loss * n, lambda k: k),
    "a counter of the module": (lambda loss, n: loss * (1 + 0.1 * n), lambda k: None),
    "a schedule": (lambda loss, n: loss * min(1.0, n / 100), lambda k: 2 + k),
    "a cosine": (lambda loss, n: loss * (0.5 * (1 + math.cos(n * 0.01))), lambda k: 2 + k),
    "a temperature": (lambda loss, n: torch.tanh(loss / n), lambda k: 0.1 + 0.3 * k),
    "in a dictionary": (lambda loss, n: loss * n["w"], lambda k: {"w": 0.01 + 0.3 * k}),
    "in an operator": (lambda loss, n: torch.add(loss, loss, alpha=n), lambda k: 2 + k),
    "a tensor's value": (lambda loss, n: loss * torch.full((3,), n).sum(), lambda k: 2 + k),
}


@not_on_2_4
@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("use", USES)
def test_a_number_that_decides_no_size_is_captured_once(use: str, by_name: bool) -> None:
    """Once as it is, at most once more for 0 and 1, and then for all."""
    change, number_of = USES[use]
    torch.manual_seed(0)
    model = Weighted(change)
    eager = copy.deepcopy(model)
    if by_name:
        if use == "a counter of the module":
            pytest.skip("by name, PyTorch's setting (allow_unspec_int_on_nn_module) takes it for a constant")
        compiled, report = compiled_by_name(model, "100%")
    else:
        compiled = memplan.compile(model, "100%", time_limit=0)
        report = compiled.memplan
    for k in range(8):
        for p in [*model.parameters(), *eager.parameters()]:
            p.grad = None
        given = (*networks.vectors(8), number_of(k))
        losses = []
        for m in (eager, compiled):
            torch.manual_seed(k)
            losses.append(m(*given))
            losses[-1].backward()
        assert torch.equal(*losses), k
        for p, theirs in zip(model.parameters(), eager.parameters()):
            assert torch.equal(p.grad, theirs.grad), k  # type: ignore[arg-type]
    assert len(report.graphs) <= 3


@pytest.mark.filterwarnings("default::memplan.FallbackWarning")
def test_past_all_limits_a_step_is_eager_and_that_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that PyTorch takes for a constant, more often than it captures."""
    monkeypatch.setattr(memplan.api, "MOST_SIZES", 3)
    model = Weighted(lambda loss, n: loss + float(f"{n}"))
    eager = copy.deepcopy(model)
    compiled = memplan.compile(model, "100%", time_limit=0)
    with torch._dynamo.config.patch({LIMIT: 3}), pytest.warns(memplan.FallbackWarning) as caught:
        for k in range(8):
            given = (*networks.vectors(8), k)
            torch.manual_seed(k)
            expected = eager(*given)
            torch.manual_seed(k)
            assert torch.equal(compiled(*given), expected)
        loss = compiled(*networks.vectors(8), 0)  # a captured number
        assert loss.requires_grad and vars(compiled)["_compiled_call_impl"].backend.feedback.ledger.n_calls == 1
    said = [str(w.message).partition("\n")[0] for w in caught if issubclass(w.category, memplan.FallbackWarning)]
    assert [("no further sizes" in s, "eagerly" in s) for s in said] == [(True, True)] * len(said)
    assert 1 <= len(said) <= 2 and len(compiled.memplan.graphs) == 3


def test_a_number_that_decides_a_size_has_a_plan_for_each() -> None:
    model, _ = networks.make("tied")

    class Cut(networks.Tied):
        def forward(self, x: torch.Tensor, y: torch.Tensor, n: int = 0) -> torch.Tensor:
            return super().forward(x[:n], y[:n])

    model = Cut()
    compiled = memplan.compile(model, "100%", time_limit=0)
    for n in (8, 6, 4, 8):
        compiled(*networks.vectors(9), n).backward()
        model.zero_grad()
    assert [g.planned_bytes for g in compiled.memplan.graphs] == sorted(
        {g.planned_bytes for g in compiled.memplan.graphs}, reverse=True
    )
    assert len(compiled.memplan.graphs) == 3


class Counts:
    """What a search or a measurement is made for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.timed, self.searches = list[Any](), list[Any]()
        for owner, name, found in ((measure, "seconds_of", self.timed), (Planning, "solve", self.searches)):
            monkeypatch.setattr(owner, name, self.counting(getattr(owner, name), found))
        monkeypatch.setattr(backend, "COSTS", measure.Costs())

    @staticmethod
    def counting(inner: Any, found: list[Any]) -> Any:
        def call(*args: Any) -> Any:
            found.append(args)
            return inner(*args)

        return call

    def taken(self) -> tuple[int, int]:
        n = len(self.timed), len(self.searches)
        self.timed.clear()
        self.searches.clear()
        return n


def test_lengths_share_measurements_and_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A length between two measured ones needs neither times nor a search. Its plan is checked against a real step."""
    counts = Counts(monkeypatch)
    torch.manual_seed(0)
    model = networks.Transformer(dropout=0.0)
    eager = copy.deepcopy(model)
    longest = memplan.estimate(model, networks.sequences(8, 60), budget="floor+60%", cache="off")
    memplan.compile(model, longest.budget_bytes, cache="off")
    for length, wanted in ((60, None), (32, None), (59, (0, 0)), (47, (0, None)), (46, (0, 0)), (45, (0, 0)), (58, (0, 0))):
        counts.taken()
        inputs = networks.sequences(8, length)
        assert_like_eager(model, model, inputs, eager=eager, steps=1)
        for n, most in zip(counts.taken(), wanted or ()):
            assert most is None or n == most, length
        graph = model.memplan.graphs[-1]
        measured = static_bytes(model, inputs) + peak_of_step(model, inputs)
        assert abs(measured - graph.planned_bytes) <= 0.01 * measured, length
        assert graph.planned_bytes <= graph.budget_bytes == longest.budget_bytes
        assert [n in graph.notes for n in (REPLAYED, BETWEEN)] == [(wanted or (1, 1))[1] == 0, length not in (60, 32)], length
        for p in [*model.parameters(), *eager.parameters()]:
            p.grad = None


def test_the_largest_batch_shares_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """8, 16 and 32 are tried by doubling; 24 lies between two measured batches."""
    torch.manual_seed(0)
    model, timed = networks.Transformer(dropout=0.0, layers=1), dict[int, int]()
    budget = memplan.estimate(model, networks.sequences(24, 16), cache="off").keep_all_bytes
    counts = Counts(monkeypatch)

    def inputs(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
        timed.update(dict.fromkeys(list(timed)[-1:], counts.taken()[0]))
        timed[batch] = 0
        return networks.sequences(batch, 16)

    batch, report = memplan.fit(model, inputs, budget, least=8, step=8, most=32, overhead=0.0, cache="off")
    assert batch == 24 and report is not None and report.planned_bytes <= budget and BETWEEN in report.graphs[0].notes
    assert list(timed) == [8, 16, 32, 24] and all(timed[b] > 0 for b in (8, 16, 32)) and counts.taken()[0] == 0


POINTS = [
    # sizes of two measured calls with their seconds, sizes of a third, and its seconds by hand
    (((64, 8), 1.0), ((128, 8), 2.0), (96, 8), 1.5),  # a product is linear in the length
    (((64, 64), 1.0), ((128, 128), 4.0), (96, 96), 2.25),  # attention is quadratic
    (((64, 4096), 1.0), ((128, 16384), 4.0), (96, 9216), 2.25),  # and so are its strides
    (((64, 63), 1.0), ((128, 127), 2.0), (96, 95), 1.5),  # labels are one shorter
    (((64, 8), 1.0), ((128, 8), 2.0), (130, 8), None),  # outside
    (((64, 8), 1.0), ((129, 8), 2.0), (96, 8), None),  # too far apart
    (((64, 8), 1.0), ((128, 16), 2.0), (70, 15), None),  # length and batch change, but not together
    (((64, 8), 1.0), ((128, 8), 2.0), (96, 9), None),  # another width
    (((0, 8), 1.0), ((128, 8), 2.0), (96, 8), None),
]


@pytest.mark.parametrize(("low", "high", "sizes", "seconds"), POINTS)
def test_seconds_between_two_sizes(low: Any, high: Any, sizes: Any, seconds: float | None) -> None:
    at = position(low[0], sizes, high[0])
    assert (at is None) == (seconds is None)
    if at is not None:
        assert low[1] ** (1 - at) * high[1] ** at == pytest.approx(seconds, rel=0.01)


@pytest.mark.parametrize(("name", "make"), [("unet", networks.pictures), ("recurrent", networks.sequences)])
def test_bytes_between_two_sizes_are_measured(name: str, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call whose seconds are interpolated has the bytes of a call that is measured alone."""
    model, _ = networks.make(name)
    costs, calls = measure.Costs(), dict[Any, measure.Cost]()
    monkeypatch.setattr(backend, "COSTS", costs)
    for batch in (4, 8, 6):
        calls.clear()
        inner = type(costs).measure

        def keep(self: Any, nodes: Any, *args: Any, inner: Any = inner) -> Any:
            found = inner(self, nodes, *args)
            calls.update(found)
            return found

        with monkeypatch.context() as patch:
            patch.setattr(measure.Costs, "measure", keep)
            memplan.estimate(model, make(batch), cache="off")
    whole = measure.Costs().measure(list(calls), Cache("off"))
    between = [node for node, cost in calls.items() if cost.is_between]
    assert len(between) > len(calls) / 2
    for node in between:
        assert calls[node].workspace_bytes == whole[node].workspace_bytes, node
        assert calls[node].result_bytes == whole[node].result_bytes, node
