#!/usr/bin/env python3
"""metamorphic.py MEMPLAN MODEL... - the same training graph, written otherwise, has the same answers.

Random graphs and those of the models are changed in ways whose effect is known: other names and numbers, independent nodes in
another order, twice the bytes, three times the seconds, a branch that nobody reads, a storage in two halves. Keep-all, floor and
bound have to change by exactly that, but that the floor may fall where a storage is halved, and that another order of the list has
another keep-all and a bound of its own; the time of the plan within a budget may change by 0.1 % of a step.
"""
from __future__ import annotations

import copy
import json
import pathlib
import random
import subprocess
import sys
import tempfile

STEP = 1e-3
memplan, models = sys.argv[1], sys.argv[2:]
folder = tempfile.TemporaryDirectory()
work = pathlib.Path(folder.name)
faults: list[str] = []


def plan(graph: dict, budget: int) -> dict | None:
    path, out = work / "graph.json", work / "plan.json"
    path.write_text(json.dumps(graph))
    out.unlink(missing_ok=True)
    done = subprocess.run([memplan, "plan", path, "--budget", str(budget), "--no-offsets", "-o", out], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"metamorphic: plan {graph['name']}: {done.stderr}")
    return json.loads(out.read_text()) if done.returncode == 0 else None


def forms(node: dict) -> list[dict]:
    return [node, *node.get("alternatives", [])]


def renamed(graph: dict) -> None:
    """Other names, and other numbers in the same order."""
    for what in ("storages", "nodes"):
        for row in graph[what]:
            row["name"] = "other " + str(row.get("name", ""))
    for storage in graph["storages"]:
        storage["id"] = 3 * storage["id"] + 7
    for node in graph["nodes"]:
        node["id"] = 5 * node["id"] + 11
        if "forward_of" in node and node["forward_of"] is not None:
            node["forward_of"] = 5 * node["forward_of"] + 11
        for form in forms(node):
            for key in ("reads", "writes", "adds"):
                if key in form:
                    form[key] = [3 * s + 7 for s in form[key]]
            if "in_place" in form:
                form["in_place"] = [[3 * s + 7 for s in pair] for pair in form["in_place"]]


def uses(node: dict) -> tuple[set, set]:
    reads, changes = set(), set()
    for form in forms(node):
        reads |= set(form.get("reads", []))
        changes |= {*form.get("writes", []), *form.get("adds", [])}
    return reads, changes


def permuted(graph: dict) -> None:
    """Swaps neighbours of one phase if neither writes a storage that the other uses."""
    source = random.Random(1)
    nodes = graph["nodes"]
    for _ in range(2 * len(nodes)):
        i = source.randrange(len(nodes) - 1)
        (reads, changes), (others_reads, others_changes) = uses(nodes[i]), uses(nodes[i + 1])
        if nodes[i]["phase"] == nodes[i + 1]["phase"] and not changes & (others_reads | others_changes) and not reads & others_changes:
            nodes[i], nodes[i + 1] = nodes[i + 1], nodes[i]


def twice_the_bytes(graph: dict) -> None:
    for storage in graph["storages"]:
        storage["bytes"] *= 2
    graph["alignment"] = 2 * graph.get("alignment", 1)
    for node in graph["nodes"]:
        for form in forms(node):
            if "workspace" in form:
                form["workspace"] *= 2


def thrice_the_seconds(graph: dict) -> None:
    graph["tick_seconds"] *= 3
    for node in graph["nodes"]:
        for form in forms(node):
            if "seconds" in form:
                form["seconds"] *= 3


def unused_branch(graph: dict) -> None:
    """A node at the beginning whose output of one unit nobody reads."""
    storage, node = (1 + max(row["id"] for row in graph[what]) for what in ("storages", "nodes"))
    graph["storages"].append({"id": storage, "name": "unused", "bytes": graph.get("alignment", 1), "kind": "activation"})
    graph["nodes"].insert(0, {"id": node, "name": "unused", "op": "Unused", "phase": "forward", "seconds": 0, "reads": [], "writes": [storage],
                              "adds": []})


def split(graph: dict) -> None:
    """The largest activation that some node writes, and that is in no in-place pair, becomes two."""
    pairs = {s for node in graph["nodes"] for form in forms(node) for pair in form.get("in_place", []) for s in pair}
    written = {s for node in graph["nodes"] for s in node["writes"]}
    unit = 2 * graph.get("alignment", 1)
    whole = max((s for s in graph["storages"] if s["kind"] == "activation" and s["id"] in written - pairs and s["bytes"] % unit == 0),
                key=lambda s: s["bytes"])
    half = {**whole, "id": 1 + max(s["id"] for s in graph["storages"]), "name": "half", "tensors": []}
    half["bytes"] = whole["bytes"] = whole["bytes"] // 2
    graph["storages"].append(half)
    for node in graph["nodes"]:
        for form in forms(node):
            for key in ("reads", "writes"):
                if whole["id"] in form.get(key, []):
                    form[key] = [*form[key], half["id"]]


# name: the change, the factors of bytes and of seconds, whether the order of the list stays
CHANGES = {"renamed": (renamed, 1, 1, True), "twice the bytes": (twice_the_bytes, 2, 1, True),
           "thrice the seconds": (thrice_the_seconds, 1, 3, True), "an unused branch": (unused_branch, 1, 1, True),
           "split": (split, 1, 1, True), "permuted": (permuted, 1, 1, False)}


def compare(name: str, graph: dict, share: float) -> None:
    least = plan(graph, 2**62)
    budget = round(least["floor_bytes"] + share * (least["baseline_peak_bytes"] - least["floor_bytes"]))
    old = plan(graph, budget)
    for change, (make, times_bytes, times_seconds, keeps_order) in CHANGES.items():
        other = copy.deepcopy(graph)
        make(other)
        new = plan(other, times_bytes * budget)
        if not old or not new:
            if bool(old) != bool(new):
                faults.append(f"{name}, {share}: {change}: a plan {'before' if old else 'after'} only")
            continue
        exact = [("baseline_seconds", times_seconds)]
        if make is not split:
            exact.append(("floor_bytes", times_bytes))
        elif new["floor_bytes"] > old["floor_bytes"]:  # it looks at one kept storage at a time, and may see half of the whole
            faults.append(f"{name}, {share}: split: the floor rose")
        if keeps_order:
            exact += [("baseline_peak_bytes", times_bytes), ("lower_bound_seconds", times_seconds)]
        for key, factor in exact:
            if abs(new[key] - factor * old[key]) > 1e-9 * abs(new[key]) * (key[-5:] != "bytes"):
                faults.append(f"{name}, {share}: {change}: {key} {old[key]} became {new[key]}")
        moved = abs(new["seconds"] / times_seconds - old["seconds"]) / old["baseline_seconds"]
        if moved > STEP:
            faults.append(f"{name}, {share}: {change}: the plan's time moves by {100 * moved:.3f} % of a step")


def random_graph(seed: int) -> dict:
    """A chain with side branches, backward in its reverse, sums of gradients left out; bytes and seconds at random."""
    source = random.Random(seed)
    n = 12 + seed % 9
    storages = [{"id": 0, "name": "x", "bytes": 64, "kind": "input"}]
    nodes: list[dict] = []

    def node(phase: str, reads: list[int], kind: str) -> int:
        storages.append({"id": len(storages), "name": f"s{len(storages)}", "bytes": 16 * source.randint(1, 40), "kind": kind})
        nodes.append({"id": len(nodes), "name": f"n{len(nodes)}", "op": "Any", "phase": phase, "seconds": source.randint(1, 30) * 1e-6,
                      "reads": reads, "writes": [len(storages) - 1], "adds": []})
        return len(storages) - 1

    made = [node("forward", [0], "activation")]
    for _ in range(n):
        made.append(node("forward", sorted({made[-1], source.choice(made)}), "activation"))
    grad = node("loss", [made[-1]], "activation_gradient")
    for k in range(n, -1, -1):
        grad = node("backward", sorted({grad, made[k], source.choice(made[:k + 1])}), "activation_gradient")
    return {"format": "memplan-graph", "version": 1, "name": f"random {seed}", "tick_seconds": 1e-6, "storages": storages, "nodes": nodes}


for seed in range(2):
    compare(f"random {seed}", random_graph(seed), 0.3)
for model in models:
    made = json.loads(subprocess.run([memplan, "graph", model, "--batch", "32"], capture_output=True, check=True).stdout)
    compare(pathlib.Path(model).stem, made, 0.6)
print("\n".join(faults) or f"metamorphic: {len(CHANGES)} changes in order")
sys.exit(bool(faults))
