#!/usr/bin/env python3
"""convert_graphs.py CHECKOUT FOLDER - converts published graphs into graphs of memplan in FOLDER. CHECKOUT is a clone of
github.com/pfnet-research/recompute (Kusumoto et al. 2019) or of github.com/haoming-codes/moccasin (Bartan et al. 2023: random
layered graphs, and Checkmate's training graphs); the files in it decide which. docs/internals/data.md describes the graphs."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KUSUMOTO = ("vgg19", "unet", "resnet50", "densenet")
MOCCASIN = {
    "RL_n100": "random_layered_n100_w0.27_nlv0.75_ed0.2_scd0.14",
    "RL_n500": "random_layered_n500_w0.36_nlv0.75_ed0.2_scd0.14",
    "checkmate_fcn_8_vgg_train_b32": "fcn_8_vgg (MLSys)_32_(416, 608, 3)_train_nx",
    "checkmate_mobilenet_train_b512": "MobileNet (MLSys)_512_(224, 224, 3)_train_nx",
    "checkmate_resnet50_train_b256": "ResNet50 (MLSys)_256_(224, 224, 3)_train_nx",
    "checkmate_vgg_unet_train_b32": "vgg_unet (MLSys)_32_(416, 608, 3)_train_nx",
}
HEAVY = ("Convolution2DFunction", "Deconvolution2DFunction", "LinearFunction")  # 10 units, 20 backward; all else takes 1
Row = dict[str, Any]


def topological(readers: list[list[int]]) -> list[int]:
    """Every node after those that it reads, in the order in which they become ready; `readers` lists each node's."""
    waits = [0] * len(readers)
    for those in readers:
        for reader in those:
            waits[reader] += 1
    ready, order = deque(k for k, n in enumerate(waits) if n == 0), []
    while ready:
        order.append(ready.popleft())
        for reader in readers[order[-1]]:
            waits[reader] -= 1
            if waits[reader] == 0:
                ready.append(reader)
    return order


def kusumoto(lines: Iterator[str]) -> tuple[list[Row], list[Row]]:
    """Forward and backward functions in the units of the paper, where parameters and their gradients have 0 bytes. A variable
    and its gradient are two storages. A gradient to which several functions contribute is a sum."""
    n_variables, n_functions = map(int, next(lines).split())
    variables = {int(i): (int(n), name) for i, n, name in (next(lines).split() for _ in range(n_variables))}
    storages: list[Row] = [{"id": k, "name": f"v{k}" if name == "_" else name, "bytes": n if name == "_" else 0,
                            "kind": "activation" if name == "_" else "parameter"} for k, (n, name) in sorted(variables.items())]
    gradients: dict[int, int] = {}

    def gradient(variable: int) -> int:
        if variable not in gradients:
            gradients[variable] = len(storages)
            n, name = variables[variable]
            storages.append({"id": len(storages), "name": f"dv{variable}" if name == "_" else "d" + name,
                             "bytes": n if name == "_" else 0, "kind": "activation_gradient" if name == "_" else "gradient"})
        return gradients[variable]

    nodes: list[Row] = []
    for k in range(n_functions):
        phase = next(lines).strip()
        n_read, n_written = map(int, next(lines).split())
        read = [next(lines).split() for _ in range(n_read)]
        reads = sorted({gradient(int(i)) if role == "gradient" else int(i) for i, role in read})
        written = [int(next(lines)) for _ in range(n_written)]
        op = next(lines).strip()
        next(lines)  # its attributes
        nodes.append({"id": k, "name": f"{op}:{k}", "op": op, "phase": phase, "workspace_bytes": 0, "reads": reads,
                      "seconds": 1.0 if op not in HEAVY else 10.0 if phase == "forward" else 20.0,
                      "writes": [gradient(i) for i in written] if phase == "backward" else written, "adds": []})
    writers: dict[int, list[int]] = {}
    for k, node in enumerate(nodes):
        for s in node["writes"]:
            writers.setdefault(s, []).append(k)
    for s in gradients.values():
        if s not in writers:  # the gradient of the loss is given
            storages[s] |= {"bytes": 0, "kind": "input"}
    order: list[int] = []
    done: set[int] = set()
    while len(order) < len(nodes):  # in passes over the file, as its authors' program does
        for k, node in enumerate(nodes):
            if k not in done and all(done.issuperset(writers.get(s, ())) for s in node["reads"]):
                order.append(k)
                done.add(k)
    for s, those in writers.items():
        if len(those) > 1:
            storages[s]["sum_order"] = "any"
    for node in nodes:
        node["adds"] = [s for s in node["writes"] if len(writers[s]) > 1]
        node["writes"] = [s for s in node["writes"] if len(writers[s]) == 1]
    return storages, [nodes[k] for k in order]


def moccasin(graph: Row) -> tuple[list[Row], list[Row]]:
    """One output per node, in the published order where there is one. There is no backward phase: every node may run again."""
    layered = "order" in graph["graph"]
    number = {node["name" if layered else "id"]: k for k, node in enumerate(graph["nodes"])}
    ends = ("0", "1") if layered else ("source", "target")
    links = [(number[link[ends[0]]], number[link[ends[1]]]) for link in graph["links"]]
    readers: list[list[int]] = [[] for _ in number]
    for source, target in links:
        readers[source].append(target)
    order = [number[name] for name in graph["graph"]["order"]] if layered else topological(readers)
    place = {k: at for at, k in enumerate(order)}
    storages: list[Row] = []
    nodes: list[Row] = []
    for at, k in enumerate(order):
        row = graph["nodes"][k]
        storages.append({"id": at, "name": f"v{k}", "bytes": row["out_cost" if layered else "cost_ram"], "kind": "activation"})
        nodes.append({"name": f"n{k}", "op": "node", "phase": "forward", "workspace_bytes": 0, "writes": [at],
                      "seconds": float(row["duration" if layered else "cost_cpu"]),
                      "reads": sorted(place[source] for source, target in links if target == k)})
    return storages, nodes


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    checkout, folder = Path(sys.argv[1]), Path(sys.argv[2])
    found: dict[str, tuple[list[Row], list[Row]]] = {}
    if (checkout / "computational_graphs").is_dir():
        for name in KUSUMOTO:
            lines = (checkout / f"computational_graphs/cg_{name}.txt").read_text().splitlines()
            found[f"kusumoto_{name}"] = kusumoto(iter(lines))
    elif (checkout / "data").is_dir():
        for name, theirs in MOCCASIN.items():
            found[name] = moccasin(json.loads((checkout / f"data/{theirs}.json").read_text()))
    else:
        print(f"convert_graphs: {checkout} has neither computational_graphs/ nor data/", file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    for name, (storages, nodes) in found.items():
        numbered = [{**node, "id": k} for k, node in enumerate(nodes)]
        graph = {"format": "memplan-graph", "version": 1, "name": name, "storages": storages, "nodes": numbered}
        (folder / f"{name}.json").write_text(json.dumps(graph, separators=(",", ":")) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
