"""Lifetimes and in-place writes, computed by hand."""

from __future__ import annotations

from typing import Any

import networks
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import memplan
from memplan.library.planning import Step
from memplan.memory import host
from memplan.memory.liveness import Liveness
from memplan.plan import draft
from memplan.plan.emitted import Emitted
from memplan.plan.planner import GraphPlanner
from memplan.run.execute import compile_graph

N, BYTES = 256, 1024


def traced(function: object) -> torch.fx.GraphModule:
    return make_fx(function, tracing_mode="fake")(torch.ones(N))


def names(liveness: Liveness) -> set[str]:
    return {n.name for n in liveness.in_place}


def test_what_came_in_is_not_written_into() -> None:
    module = traced(lambda x: [torch.relu(x)])
    assert names(Liveness(module.graph)) == set()
    x = -torch.ones(N)
    arguments = [x]
    assert torch.equal(compile_graph(module)(arguments)[0], torch.zeros(N)) and arguments == []
    assert torch.equal(x, -torch.ones(N))


def test_what_ends_is_written_into_and_what_is_read_later_is_not() -> None:
    module = traced(lambda x: [torch.relu(x.cos())])
    liveness = Liveness(module.graph)
    assert names(liveness) == {"relu"}
    assert liveness.peak_bytes() == 2 * BYTES  # x, and one more
    module = traced(lambda x: [torch.relu(a := x.cos()), a.sum()])
    assert names(Liveness(module.graph)) == set()
    module = traced(lambda x: [torch.relu(a := x.cos().view(16, 16)), a.t().exp()])
    assert names(Liveness(module.graph)) == {"exp"}  # a view of it is read later, and by nothing after that


def test_a_block_lives_as_long_as_any_view_of_it() -> None:
    module = traced(lambda x: [(v := x.cos().view(16, 16)).exp().sum(), v.sin()])
    # x, cos, exp; the sum is 4 bytes; then exp has ended and sin begins, while x has ended after cos
    assert Liveness(module.graph).peak_bytes() == 2 * BYTES + 4
    assert Liveness(module.graph).peak_bytes(before=100) == 2 * BYTES + 104
    held = {t.untyped_storage()._cdata for n in module.graph.nodes if n.op == "placeholder" for t in [n.meta["val"]]}
    assert Liveness(module.graph, held_keys=held).peak_bytes() == 3 * BYTES + 4
    assert Liveness(module.graph, static_keys=held).peak_bytes() == 2 * BYTES + 4


@pytest.mark.parametrize("options", [{}, {"offload": "64MiB"}], ids=["recomputed", "copied"])
@pytest.mark.parametrize("name", networks.NETWORKS)
def test_a_draft_has_the_memory_of_its_graphs(name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The graphs are those that PyTorch cuts."""
    drafts: list[Emitted] = []
    inner = GraphPlanner.emit

    def take(own: GraphPlanner, steps: list[Step]) -> Emitted:
        own.has_graphs = True
        drafts.append(inner(own, steps))
        return drafts[-1]

    monkeypatch.setattr(GraphPlanner, "emit", take)
    monkeypatch.setattr(host, "LEAST_BYTES", 16 << 10)
    for budget in ("min+40%", "100%"):
        memplan.estimate(*networks.make(name), budget=budget, effort="quick", cache="off", on_infeasible="smallest", **options)
    assert len(drafts) >= 3  # the smallest plan has no graphs
    for made in drafts:
        graphs = made.finished()
        for bytes_of in ("peak_bytes", "saved_bytes", "held_bytes", "host_bytes", "waiting_bytes"):
            assert getattr(made, bytes_of) == getattr(graphs, bytes_of)
        assert made.above.peak_bytes() == graphs.above.peak_bytes()


def test_only_a_plan_that_runs_has_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts: list[int] = []
    inner = draft.cut_of

    def cut_of(*given: Any) -> Any:
        cuts.append(1)
        return inner(*given)

    monkeypatch.setattr(draft, "cut_of", cut_of)
    model, inputs = networks.make("transformer")
    memplan.estimate(model, inputs, budget="min+40%", effort="quick", cache="off")
    assert not cuts
    memplan.compile(model, "min+40%", effort="quick", cache="off")(*inputs)
    assert len(cuts) == 1
