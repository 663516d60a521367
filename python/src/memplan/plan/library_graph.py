"""States a captured graph to the library: its storages and operations."""

from __future__ import annotations

from torch import fx

from memplan.costs.measure import Cost
from memplan.graph.capture import MOVED, Capture
from memplan.library.planning import Planning

OUTSIDE = "outside"  # name of the storage that stands for memory outside of the graph


def library_graph(capture: Capture, costs: dict[fx.Node, Cost], outside_bytes: int, name: str) -> Planning:
    """Return the library's graph of a capture. `outside_bytes` is the constant memory besides it."""
    planning = Planning(name)
    for storage in capture.storages:
        kind = "optimizer_state" if storage.kind == MOVED else storage.kind
        planning.add_storage(storage.name, kind, storage.n_bytes)
    planning.add_storage(OUTSIDE, "buffer", outside_bytes)
    for operation in capture.operations:
        cost = costs[operation.source] if operation.source is not None else Cost(0.0, operation.workspace_bytes)
        n = planning.add_node(operation.name, operation.op, operation.phase, cost.seconds, cost.workspace_bytes)
        planning.connect(n, "reads", operation.reads)
        planning.connect(n, "writes", operation.writes)
        planning.connect(n, "in_place", operation.in_place)
        if operation.once and operation.phase == "forward":
            planning.flag(n, "once")
        if n == capture.boundary and operation.source is None:
            planning.flag(n, "turn")
    if capture.fuse != "none":
        planning.set("fuse", capture.fuse)
    planning.finish()
    return planning
