"""Unsharded gradients of earlier steps, in the graph of the step that reduces them.

For each parameter group, `pack` adds the earlier gradients to the new ones and frees the earlier ones. An example with 30 units
of earlier gradients:

    earlier: all gradients      forward   boundary   backward ...   pack of the last block   ...   pack of the first
    memory  30                  30        30         30             20                             0

In the planner's graph, a first operation creates the earlier gradients, so that they are live from the start. Operations that
read no other dynamic storage run after it. In the final graphs no operator creates earlier gradients, so the meta of each pack
states their size (EARLIER).
"""

from __future__ import annotations

from torch import fx

from memplan.graph.capture import DYNAMIC, Capture, Operation, Storage
from memplan.graph.shards import GROUPS, PACK

RESULTS = "results of earlier calls"


def earlier_bytes(graph: fx.Graph) -> dict[fx.Node, int]:
    """Return the bytes of earlier gradients that each pack frees, for groups that may keep gradients."""
    packs = [n for n in graph.nodes if n.target is PACK and GROUPS[n.args[-1]].keeps]
    return {n: sum(map(GROUPS[n.args[-1]].kept_bytes, n.args[1])) for n in packs}


def hold_earlier(capture: Capture) -> None:
    """Add the gradients of earlier steps to a capture, if earlier steps may have kept some."""
    known, capture.earlier = capture.earlier, earlier_bytes(capture.joint.graph)
    if known or not capture.earlier:
        return
    storages, first = capture.storages, begin_with(capture, "earlier")
    for operation in capture.operations:
        if operation.source is not None and (n_bytes := capture.earlier.get(operation.source, 0)) > 0:
            first.writes.append(len(storages))
            operation.reads.append(len(storages))
            storages.append(Storage(f"{operation.name} earlier", "saved", n_bytes))


def hold_results(capture: Capture, n_bytes: int) -> None:
    """Add a storage for n_bytes of results of earlier calls. It is live from the start to the boundary, where user code
    replaces the results.
    """
    capture.results_bytes = n_bytes
    if capture.results is None:
        if not n_bytes:
            return
        first, capture.results = begin_with(capture, RESULTS), len(capture.storages)
        capture.storages.append(Storage(RESULTS, "saved", n_bytes))
        first.writes.append(capture.results)
        capture.operations[capture.boundary].reads.append(capture.results)
    capture.storages[capture.results].n_bytes = n_bytes


def begin_with(capture: Capture, name: str) -> Operation:
    """Insert an operation that runs before all others, and return it."""
    storages = capture.storages
    first = Operation(name, "earlier", "forward", None, [], [len(storages)], once=True)
    storages.append(Storage(name, "saved", 0))
    for operation in capture.operations:
        if not any(storages[s].kind in DYNAMIC for s in operation.reads):
            operation.reads.append(first.writes[0])
    capture.operations.insert(0, first)
    capture.boundary, capture.end = capture.boundary + 1, capture.end + 1
    return first
