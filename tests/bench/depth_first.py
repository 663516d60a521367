"""The order in which Kusumoto's graphs are compared (BENCHMARKS.md): of four depth-first orders of the forward pass the one
whose peak is the lowest, and its reverse for backward."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Graph = dict[str, Any]
Key = Callable[[int], Any]


def forward_peak(graph: Graph, order: list[int]) -> int:
    """Of running the nodes once in this order, each output freed after its last read."""
    size = {s["id"]: s["bytes"] if s["kind"] == "activation" else 0 for s in graph["storages"]}
    last: dict[int, int] = {}
    for t, k in enumerate(order):
        for s in graph["nodes"][k]["reads"]:
            last[s] = t
    live = peak = 0
    for t, k in enumerate(order):
        node = graph["nodes"][k]
        live += sum(size[s] for s in node["writes"])
        peak = max(peak, live)
        live -= sum(size[s] for s in set(node["reads"]) | set(node["writes"]) if last.get(s, t) == t)
    return peak


def depth_first(graph: Graph, key: Key) -> list[int]:
    """Forward nodes after the producers of their reads, which are visited in the order of `key`."""
    forward = [k for k, n in enumerate(graph["nodes"]) if n["phase"] == "forward"]
    producer = {s: k for k in forward for s in graph["nodes"][k]["writes"]}
    read = {producer[s] for k in forward for s in graph["nodes"][k]["reads"] if s in producer}
    order: list[int] = []
    seen: set[int] = set()
    for end in [k for k in forward if k not in read]:
        stack = [(end, False)]
        while stack:
            k, done = stack.pop()
            if done:
                order.append(k)
            elif k not in seen:
                seen.add(k)
                stack.append((k, True))
                producers = {producer[s] for s in graph["nodes"][k]["reads"] if s in producer}
                stack += [(p, False) for p in sorted(producers, key=key, reverse=True)]
    return order


def write_depth_first(path: str, to: str) -> None:
    """Writes the graph in that order."""
    with open(path) as file:
        graph: Graph = json.load(file)
    nodes = graph["nodes"]
    name = {s["id"]: s["name"] for s in graph["storages"]}
    backward = {name[s]: node for node in nodes if node["phase"] == "backward" for s in node["reads"]}  # by its reads: dx of x
    size = {s["id"]: s["bytes"] for s in graph["storages"]}
    weight = [sum(size[s] for s in node["writes"]) for node in nodes]
    keys: list[Key] = [lambda k: k, lambda k: -k, lambda k: (weight[k], k), lambda k: (-weight[k], k)]
    order = min((depth_first(graph, key) for key in keys), key=lambda o: forward_peak(graph, o))
    back = [backward["d" + name[nodes[k]["writes"][0]]] for k in reversed(order)]
    assert len(order) + len(back) == len(nodes) == len({node["id"] for node in back}) + len(order)
    graph["nodes"] = [dict(node, id=t) for t, node in enumerate([nodes[k] for k in order] + back)]
    with open(to, "w") as file:
        json.dump(graph, file)
