#!/usr/bin/env python3
"""make_blocks.py GRAPH RATE - the blocks of a transformer (an output of `memplan graph` with modules h.0, h.1, ...) as a chain for
`memplan plan`, on standard output: each block is one node forward and one backward, with the seconds, the state and the kept
tensors of the first. Everything of 1 MiB or more may be copied to the host and back at RATE GB/s each way, without latency."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

LEAST_BYTES = 1 << 20


class Chain:
    def __init__(self) -> None:
        self.storages: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []

    def storage(self, name: str, n_bytes: int, kind: str, **more: str) -> int:
        self.storages.append({"id": len(self.storages), "name": name, "bytes": n_bytes, "kind": kind, **more})
        return len(self.storages) - 1

    def node(self, name: str, phase: str, seconds: float, reads: list[int], writes: list[int], **more: Any) -> dict[str, Any]:
        self.nodes.append({"id": len(self.nodes), "name": name, "op": "Block", "phase": phase, "seconds": seconds, "reads": reads,
                           "writes": writes, **more})
        return self.nodes[-1]


def block_of(name: str) -> int:
    found = re.match(r"/?h\.(\d+)/", name)
    return int(found.group(1)) if found else -1


def main() -> int:
    graph, rate = json.loads(Path(sys.argv[1]).read_text()), float(sys.argv[2]) * 1e9
    made = {s: block_of(n["name"]) for n in graph["nodes"] if n["phase"] == "forward" for s in n["writes"]}
    first = [n for n in graph["nodes"] if block_of(n["name"]) == 0]
    forward, backward = (sum(n["seconds"] for n in first if n["phase"] == phase) for phase in ("forward", "backward"))
    n_blocks = 1 + max(made.values())
    readers = {(s, block_of(n["name"]), n["phase"]) for n in graph["nodes"] for s in n["reads"] if made.get(s) == 0}
    state = next(graph["storages"][s]["bytes"] for s, block, phase in readers if phase == "forward" and block == 1)
    out = {s for s, block, phase in readers if phase == "forward" and block == 1}
    kept = sorted(graph["storages"][s]["bytes"] for s in {s for s, _, phase in readers if phase == "backward"} - out)
    large, small = [b for b in kept if b >= LEAST_BYTES], sum(b for b in kept if b < LEAST_BYTES)
    c = Chain()
    states = [c.storage("x0", 0, "input")] + [c.storage(f"x{k + 1}", state, "activation") for k in range(n_blocks)]
    saved = [[c.storage(f"s{k}.{i}", b, "saved") for i, b in enumerate([*large, small])] for k in range(n_blocks)]
    gradients = [c.storage(f"g{k}", state, "activation_gradient") for k in range(n_blocks + 1)]
    blocks = [c.node(f"F{k}", "forward", forward, [states[k]], [states[k + 1], *saved[k]], alternatives=[]) for k in range(n_blocks)]
    c.node("L", "loss", 1e-6, [states[n_blocks]], [gradients[n_blocks]])
    for k in reversed(range(n_blocks)):
        c.node(f"B{k}", "backward", backward, [gradients[k + 1], states[k], *saved[k]], [gradients[k]], forward_of=k)
    for k in range(n_blocks):
        for s in [*([states[k + 1]] if k + 1 < n_blocks else []), *saved[k][:-1]]:
            what = c.storages[s]
            copy, seconds = c.storage(f"{what['name']} on the host", what["bytes"], what["kind"], tier="host"), what["bytes"] / rate
            c.node(f"{what['name']} to the host", "forward", seconds, [s], [copy], channel="copy out", flags=["optional"])
            blocks[k]["alternatives"].append({"seconds": seconds, "reads": [copy], "writes": [s], "channel": "copy in", "returns": True})
    json.dump({"format": "memplan-graph", "version": 1, "name": "blocks", "options": {}, "target": "", "alignment": 1,
               "tick_seconds": 1e-9, "fuse": "none", "channels": ["copy out", "copy in"], "tiers": ["host"], "storages": c.storages,
               "nodes": c.nodes}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
