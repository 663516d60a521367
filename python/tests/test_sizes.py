"""Inputs of changing sizes through torch.compile as it is: a plan per size, each within its budget, eager's bits."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import networks
import pytest
import torch
from against_eager import assert_like_eager, peak_of_step, static_bytes

import memplan


@pytest.fixture(autouse=True)
def without_falling_back() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", memplan.FallbackWarning)
        yield


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


def test_without_gradients_one_graph_is_for_all_sizes() -> None:
    model, _ = networks.make("transformer")
    model.eval()
    compiled, _ = compiled_by_name(model, "100%")
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    with torch.no_grad():
        for batch in (3, 5, 6, 7):
            inputs = networks.sequences(batch)
            assert torch.equal(compiled(*inputs), model(*inputs))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] - before == 2


def test_the_last_size_is_said() -> None:
    model, _ = networks.make("tied")
    compiled, report = compiled_by_name(model, "100%")
    limit = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"
    with torch._dynamo.config.patch({limit: 3}):
        for batch in (3, 5):
            compiled(*networks.vectors(batch)).backward()
        with pytest.warns(memplan.FallbackWarning, match="for no further sizes"):
            compiled(*networks.vectors(6)).backward()
        compiled(*networks.vectors(7)).backward()
    assert len(report.graphs) == 3
