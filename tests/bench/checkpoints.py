"""Checkpoints of a framework as a plan: the tensors that a layer keeps, and its recomputation before its own backward.

`of_graph` takes a training graph as `memplan graph` writes it and returns a plan that `memplan check` replays: the peak is then
that of the framework's rule and not of a plan of ours. `verified` has it replayed. As under FSDP2 a layer's parameters are
gathered while the layer before it runs, in forward and again in backward, and are dropped in between."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

Graph = dict[str, Any]
Node = dict[str, Any]

ATTENTION, PRODUCT = "ScaledDotProductAttention", "MatMul"
OUTSIDE = -1


def layer_of(name: str) -> int:
    found = re.search(r"\blayers\.(\d+)", name)
    return int(found[1]) if found else OUTSIDE


def is_gather(node: Node) -> bool:
    """Gathers of parameters only; gathers within a tp group run with the layer."""
    return bool(node["op"] == "AllGather" and node["phase"] == "forward" and node.get("channel") == "network")


def layers_of_gathers(graph: Graph) -> dict[int, int]:
    """Of each gather the layer whose parameters it has; the first of its readers decides."""
    writers = {storage: node["id"] for node in graph["nodes"] if is_gather(node) for storage in node["writes"]}
    found: dict[int, int] = {}
    for node in graph["nodes"]:
        for storage in node["reads"]:
            if storage in writers and node["op"] == "CopyOut":  # from the gather's buffer
                writers.update(dict.fromkeys(node["writes"], writers[storage]))
            elif storage in writers:
                found.setdefault(writers[storage], layer_of(node["name"]))
    return found


def copies_of_layers(graph: Graph, gathers: dict[int, int]) -> dict[int, list[int]]:
    """Of each layer the nodes that copy its gathered parameters from the buffers of the gathers."""
    writers = {storage: node["id"] for node in graph["nodes"] if node["id"] in gathers for storage in node["writes"]}
    found: dict[int, list[int]] = {}
    for node in graph["nodes"]:
        if node["op"] == "CopyOut" and node["reads"][0] in writers:
            found.setdefault(gathers[writers[node["reads"][0]]], []).append(node["id"])
    return found


def cores(graph: Graph) -> set[int]:
    """Nodes of attention's core where it is written out: from the product of queries and keys to that with values."""
    products: dict[int, list[int]] = {}
    for node in graph["nodes"]:
        if node["phase"] == "forward" and node["op"] == PRODUCT and "/attention/" in node["name"]:
            products.setdefault(layer_of(node["name"]), []).append(node["id"])
    return {node for first, *_, last in products.values() for node in range(first, last + 1)}


def kept_of_layers(graph: Graph, rule: str) -> set[int]:
    """Storages that layers keep for backward beside their inputs.

    none: all; full: nothing; selective: as torchtitan's selective checkpoints, attention and every second product of a
    layer. As in Megatron-LM, the operand of a product is gathered again under two rules: gathers, which keeps all else, and core,
    which also recomputes the core of attention."""
    kept: set[int] = set()
    if rule in ("gathers", "core"):
        dropped = cores(graph) if rule == "core" else set()
        for node in graph["nodes"]:
            if node["phase"] == "forward" and node["op"] != "AllGather" and node["id"] not in dropped:
                kept.update(node["writes"])
        return kept
    products: dict[int, int] = {}
    for node in graph["nodes"]:
        layer = layer_of(node["name"])
        if node["phase"] != "forward" or layer == OUTSIDE:
            continue
        products[layer] = products.get(layer, 0) + (node["op"] == PRODUCT)
        is_second = node["op"] == PRODUCT and products[layer] % 2 == 1
        if rule == "none" or (rule == "selective" and (node["op"] == ATTENTION or is_second)):
            kept.update(node["writes"])
    return kept


def needed_again(nodes: list[Node], backward: list[Node], kept: set[int]) -> list[int]:
    """Forward nodes of a layer, in their order, whose results its backward reads and nobody keeps."""
    wanted = {storage for node in backward for storage in node["reads"]} - kept
    chosen: list[int] = []
    for node in reversed(nodes):
        if wanted.intersection(node["writes"]):
            chosen.append(node["id"])
            wanted.update(set(node["reads"]) - kept)
    return chosen[::-1]


def steps_of(graph: Graph, rule: str) -> list[int]:
    nodes: list[Node] = graph["nodes"]
    gathers, kept = layers_of_gathers(graph), kept_of_layers(graph, rule)
    copies = copies_of_layers(graph, gathers)
    forward = [node for node in nodes if node["phase"] == "forward" and node["id"] not in gathers]
    backward = [node for node in nodes if node["phase"] == "backward"]
    layers = sorted({layer_of(node["name"]) for node in forward} - {OUTSIDE})
    of_layer = {layer: [node for node in forward if layer_of(node["name"]) == layer] for layer in layers}
    steps = [gather for gather, layer in gathers.items() if layer in (OUTSIDE, 0)]
    begun = {OUTSIDE, 0}

    def gather(layer: int) -> None:
        if layer not in begun:
            begun.add(layer)
            steps.extend(node for node, of in gathers.items() if of == layer)

    for node in forward:
        if layer_of(node["name"]) != OUTSIDE:
            gather(min(layer_of(node["name"]) + 1, layers[-1]))
        steps.append(node["id"])
    begun = {OUTSIDE}
    again: set[int] = set()
    for node in nodes:
        if node["phase"] not in ("loss", "backward"):
            continue
        layer = layer_of(node["name"])
        if layer != OUTSIDE and layer not in again:
            again.add(layer)
            gather(layer)
            steps.extend(copies.get(layer, ()))
            gather(max(layer - 1, 0))
            own = [other for other in backward if layer_of(other["name"]) == layer]
            steps.extend(needed_again(of_layer[layer], own, kept))
        steps.append(node["id"])
    updates = [node for node in nodes if node["phase"] == "update"]
    return with_updates(nodes, steps, updates, graph["fuse"] == "backward")


def with_updates(nodes: list[Node], steps: list[int], updates: list[Node], fused: bool) -> list[int]:
    """Updates at the end, or each behind the last that has to do with its gradient and its parameter."""
    if not fused:
        return steps + [node["id"] for node in updates]
    last: dict[int, int] = {}
    for position, step in enumerate(steps):
        for storage in (*nodes[step]["reads"], *nodes[step]["writes"], *nodes[step].get("adds", ())):
            last[storage] = position
    behind: dict[int, list[int]] = {}
    for node in updates:
        behind.setdefault(max(last.get(storage, 0) for storage in node["reads"]), []).append(node["id"])
    return [node for position, step in enumerate(steps) for node in (step, *behind.get(position, ()))]


def of_graph(graph: Graph, rule: str) -> dict[str, Any]:
    """A plan for this graph under a rule: none, selective, gathers, core or full."""
    seen: set[int] = set()
    steps = []
    for node in steps_of(graph, rule):
        steps.append({"node": node, "recompute": node in seen})
        seen.add(node)
    return {
        "format": "memplan-plan",
        "version": 1,
        "graph": {"name": graph["name"], "hash": graph.get("hash")},
        "budget_bytes": None,
        "steps": steps,
    }


def verified(memplan: str, graph: Graph, rule: str, folder: Path) -> dict[str, Any]:
    """The plan under a rule, which `memplan check` has found to hold. It lies in plan.json beside graph.json."""
    graph_path, plan_path = folder / "graph.json", folder / "plan.json"
    graph_path.write_text(json.dumps(graph))
    plan = of_graph(graph, rule)
    check = [memplan, "check", str(graph_path), str(plan_path), "--json"]
    while True:  # each claim of the plan is verified
        plan_path.write_text(json.dumps(plan))
        answer = json.loads(subprocess.run(check, capture_output=True, text=True, check=False).stdout)
        if answer["holds"]:
            return plan
        claim = re.search(r"claims (?:an? )?(\w+) of .*; found ([-\d.e+]+)", answer["fault"])
        if not claim or claim[1] in plan:
            raise ValueError(answer["fault"])
        plan[claim[1]] = json.loads(claim[2])


def kept_bytes(memplan: str, graph: Graph, rule: str, folder: Path) -> int:
    """Storages kept for backward at the end of forward, by the trace of `memplan timeline`."""
    verified(memplan, graph, rule, folder)
    plan, trace = folder / "plan.json", folder / "trace.json"
    drawn = [memplan, "timeline", str(folder / "graph.json"), "--plan", str(plan), "-o", str(trace)]
    subprocess.run(drawn, capture_output=True, check=True)
    kept = 0
    for event in json.loads(trace.read_text())["traceEvents"]:
        if event["ph"] == "C":
            kept = event["args"]["kept activations"]
        elif event.get("cat") == "backward":
            break
    return kept
