"""Collectives beside compute, on graphs that are made up: no more is live than the budget has, and copies that may be gone
before they are waited for do not make the peak. Counted by the liveness of the graph that comes out."""

from __future__ import annotations

import operator
import random

import pytest
import torch
from torch import fx

from memplan.graph.shards import GATHER, REDUCE, Apart, begin_gather, begin_sum, end_gather, end_sum
from memplan.memory.liveness import SECONDS, WORKSPACE, Liveness, keys_of
from memplan.plan import overlapped_collectives

LAYERS, SEEDS = 6, 60
NUMBER_BYTES = 12


def floats(n: int) -> torch.Tensor:
    return torch.empty(n)


def apart(node: fx.Node) -> Apart:
    """As on a CPU, whose gathers receive into copies, and whose sums divide by a number."""
    if node.target is GATHER:
        going = floats(node.meta["val"][0].numel())
        return Apart(begin_gather, end_gather, going, False, going.nbytes, 0)
    return Apart(begin_sum, end_sum, floats(node.all_input_nodes[0].meta["val"].numel()), False, NUMBER_BYTES, 0)


def steps(seed: int) -> fx.Graph:
    """Layers whose parameters are gathered, and of which each has something summed."""
    known, graph = random.Random(seed), fx.Graph()

    def call(target: object, args: tuple[object, ...], value: object, workspace: int = 0) -> fx.Node:
        node = graph.call_function(target, args)  # type: ignore[arg-type]
        node.meta = {"val": value, SECONDS: known.uniform(0.0, 1e-3), WORKSPACE: workspace}
        return node

    given = [graph.placeholder(f"shard_{k}") for k in range(LAYERS)]
    x = graph.placeholder("x")
    for node in (*given, x):
        node.meta = {"val": floats(8)}
    sums = []
    for k, shard in enumerate(given):
        whole = floats(known.randrange(50, 200))
        gathered = call(GATHER, ([shard], k), [whole], whole.nbytes)
        x = call(torch.add, (x, call(operator.getitem, (gathered, 0), whole)), floats(known.randrange(20, 400)))
        rows = call(torch.neg, (x,), floats(2 * known.randrange(20, 100)))
        half = rows.meta["val"].numel() // 2
        sums.append(call(REDUCE, (rows, k), floats(half), rows.meta["val"].nbytes + NUMBER_BYTES))
        x = call(torch.relu, (x,), floats(known.randrange(20, 400)))
    graph.output((x, *sums))
    return graph


def live_bytes(graph: fx.Graph) -> dict[fx.Node, int]:
    static = keys_of(n for n in graph.nodes if n.op == "placeholder")
    liveness = Liveness(graph, static_keys=static)
    return dict(zip(liveness.nodes, liveness.live_bytes()))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_copies_do_not_make_the_peak_and_nothing_is_above_the_budget(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlapped_collectives, "apart", apart)
    graph, time = steps(seed), overlapped_collectives.Time()
    before = list(live_bytes(graph).values())
    peak, spare = max(before), random.Random(seed).randrange(0, 1200)
    overlapped_collectives.spread(graph, [peak + spare - n for n in before], spare, time)
    now = live_bytes(graph)
    assert max(now.values()) <= peak + spare
    assert 0 < time.hidden <= time.seconds
    last: dict[fx.Node, fx.Node] = {n.args[0]: n for n in graph.nodes if n.target is end_gather}  # type: ignore[misc]
    nodes = list(graph.nodes)
    for begun in (n for n in nodes if n.target is begin_gather):
        meanwhile = nodes[nodes.index(begun) : nodes.index(last[begun])]
        assert max(now[n] for n in meanwhile) <= peak


def test_what_is_beside_a_collective_is_counted_while_it_is_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlapped_collectives, "apart", apart)
    graph = steps(0)
    stay = {n for n in graph.nodes if n.target not in (GATHER, REDUCE)}
    overlapped_collectives.spread(graph, [1 << 20] * len(graph.nodes), 0, overlapped_collectives.Time())
    beside: dict[fx.Node, int] = {}  # of what is on its way
    most = 0
    for node in graph.nodes:
        if node.target in (begin_gather, begin_sum):
            beside[node] = node.meta["val"].nbytes if node.target is begin_gather else NUMBER_BYTES
        elif node.target in (end_gather, end_sum):
            del beside[node.args[0]]
        counted = node.meta.get(WORKSPACE, 0)
        assert counted == sum(beside.values()) if node in stay else counted >= sum(beside.values()), node
        most = max(most, len(beside))
    assert most > 1
