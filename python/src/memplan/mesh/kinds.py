"""Memory at a step's peak by kind, with the names of PyTorch's own trackers (torch.distributed._tools)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch import fx

from memplan.graph.capture import Capture, storage_key, tensors_of
from memplan.graph.shards import GATHER, PACK, REDUCE, begin_gather, begin_sum
from memplan.memory.trace import Trace

SHARDED_PARAM, UNSHARDED_PARAM = "Sharded Param", "Unsharded Param"
SHARDED_GRAD, UNSHARDED_GRAD = "Sharded Grad", "Unsharded Grad"
PARAM, GRAD, BUFFER, INPUT = "Parameter", "Gradient", "Buffer", "Inputs"
ACTIVATION, TEMP, STATE = "Activation", "Temp", "OptState"
ALL_GATHER, REDUCE_SCATTER, BUCKETS, OTHER = "All Gather", "Reduce Scatter", "DDP Buckets", "Other"
WORKSPACES: dict[Any, str] = {GATHER: ALL_GATHER, REDUCE: REDUCE_SCATTER}
# for an operator that begins a collective: the kind of memory of the collective's buffer
BEGUN: dict[Any, str] = {begin_gather: ALL_GATHER, begin_sum: REDUCE_SCATTER}
OF_STORAGES = {"activation": ACTIVATION, "saved": ACTIVATION, "gradient": GRAD}


def kinds_of(capture: Capture) -> dict[int, str]:
    """Return the kind of each dynamic storage, by storage key."""
    collectives = [n for n in capture.places if n.target in (GATHER, PACK, REDUCE)]
    sharded: dict[int, str] = {}
    for node in collectives:
        if node.target is PACK:
            sharded.update(dict.fromkeys(capture.storages_of(node.all_input_nodes), UNSHARDED_GRAD))
    named = {GATHER: UNSHARDED_PARAM, PACK: REDUCE_SCATTER, REDUCE: SHARDED_GRAD}
    for node in collectives:
        sharded.update(dict.fromkeys(capture.storages_of([node]), named[node.target]))
    return {
        storage_key(tensor): sharded.get(place, OF_STORAGES.get(capture.storages[place].kind, TEMP))
        for node, places in capture.places.items()
        for tensor, place in zip(tensors_of(node.meta.get("val")), [p for p in places if p is not None])
    }


def dynamic_at_peak(trace: Trace, capture: Capture) -> dict[str, int]:
    """Return the dynamic bytes at the peak, by kind."""
    kinds = kinds_of(capture)
    sizes = {number: n_bytes for number, n_bytes in trace.step if n_bytes}

    def kind(number: int, passes: bool) -> str:
        node: fx.Node = trace.makers[number]
        if passes or node.target in BEGUN:
            return BEGUN.get(node.target) or WORKSPACES.get(node.target, TEMP)
        keys = [storage_key(t) for t in tensors_of(node.meta.get("val"))]
        return next((kinds[k] for k in keys if k in kinds), TEMP)

    now: Counter[str] = Counter()
    known: dict[int, str] = {}
    most, found = -1, Counter[str]()
    for at, (number, n_bytes) in enumerate(trace.step):
        if n_bytes:
            passes = at + 1 < len(trace.step) and trace.step[at + 1] == (number, 0)
            known[number] = kind(number, passes)
            now[known[number]] += n_bytes
            if (total := now.total()) > most:
                most, found = total, Counter(now)
        else:
            now[known[number]] -= sizes[number]
    return {name: n for name, n in found.items() if n}
