"""Overlap of collectives with compute.

A gather begins before the plan needs it, and a reduction is awaited later, as far as the budget has room for their buffers.
Operators and their order do not change, so results are bit-identical.

A gather of 2 ms that its layer needs at node 7, with 1 ms of compute in each node before:

    node                 4     5     6     7
    room within budget   0    40    60          and the gather holds 30
    begun at node 5: nodes 5 and 6 hide it, and node 4 would have no room

A reduction is overlapped with later nodes in the same way. One second of compute hides one second of one collective only.
Gathers begin in the order of their use. A functional collective is issued at its place in the plan; only its wait moves, as
late as the budget permits. All ranks decide from the same numbers and therefore agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import fx

from memplan.graph.capture import allocated, storage_bytes
from memplan.graph.collectives import has_wait, held_by, is_sum_on_host, part_of_sum, put_wait, results_of, wait
from memplan.graph.shards import GATHER, REDUCE, Apart, apart
from memplan.memory.liveness import SECONDS, WORKSPACE, Liveness


@dataclass
class Time:
    """Sums over the collectives of a step: their seconds, and the seconds that compute hides."""

    seconds: float = 0.0
    hidden: float = 0.0

    def __str__(self) -> str:
        return f"collectives take {1e3 * self.seconds:.3g} ms, of which {1e3 * self.hidden:.3g} run beside compute"


class Beside:
    """For each node of a graph: unused bytes of the budget while it runs, and its seconds that can hide a collective.

    `spare`: the budget's unused bytes at the step's peak.
    """

    def __init__(self, graph: fx.Graph, room: list[int], spare: int) -> None:
        self.graph, self.room, self.spare = graph, room, spare
        self.nodes = list(graph.nodes)
        # for each node: bytes of copies made by the collectives in progress, besides the buffers that the collectives hold
        self.taken = [0] * len(self.nodes)
        self.at = {node: i for i, node in enumerate(self.nodes)}
        self.free = [0.0 if is_collective(n) else float(n.meta.get(SECONDS, 0.0)) for n in self.nodes]
        self.first = next((i for i, n in enumerate(self.nodes) if n.op != "placeholder"), len(self.nodes))

    def take(self, places: range, n_bytes: int, taken: int, copies: bool, seconds: float) -> tuple[list[int], float]:
        """Reserve consecutive nodes for the overlap of one collective.

        Args:
            places: the candidate nodes, in order.
            n_bytes: the bytes that the collective needs until it ends, including `taken`.
            taken: bytes of copies, which the collective may free before it ends.
            copies: whether the live memory has to stay within the step's peak, as for a gather that makes copies.
            seconds: the time of the collective.

        Returns:
            The reserved nodes, and the seconds of the collective that they hide.
        """
        found, left = [], seconds
        for i in places:
            if left <= 0 or self.room[i] < n_bytes + (self.spare if copies else 0):
                break
            found.append(i)
            left -= self.free[i]
        while found and self.free[found[-1]] == 0:  # nodes at the end that hide no time are not reserved
            found.pop()
        left = seconds
        for i in found:
            self.room[i] -= n_bytes
            self.taken[i] += taken
            used = min(left, self.free[i])
            self.free[i] -= used
            left -= used
        return found, seconds - left


def is_collective(node: fx.Node) -> bool:
    return node.target in (GATHER, REDUCE)


def bytes_of(value: Any) -> int:
    return allocated(storage_bytes(value), value.device)


def spread(graph: fx.Graph, room: list[int], spare: int, time: Time) -> None:
    """Split the collectives of a graph that compute can hide, and add up their time.

    Copies that a collective makes may be freed at an unpredictable time. They are kept out of the peak, which would otherwise
    differ between steps.

    Args:
        graph: the graph.
        room: the unused bytes within the budget while each node runs.
        spare: the unused bytes at the step's peak.
        time: the sums.
    """
    beside = Beside(graph, room, spare)
    earliest = beside.first
    # for each split collective: its index, its two operators, and the farthest node that hides a part of its time
    split: list[tuple[int, Apart, int]] = []
    for i, node in enumerate(beside.nodes):
        if not is_collective(node):
            continue
        seconds = float(node.meta.get(SECONDS, 0.0))
        time.seconds += seconds
        two = apart(node)
        if two is None:
            continue
        is_gather = node.target is GATHER
        if is_gather:
            begins = max(earliest, *(beside.at[a] + 1 for a in node.all_input_nodes))
            places = range(i - 1, begins - 1, -1)
        else:
            places = range(i + 1, min(beside.at[u] for u in node.users))
        held = (
            two.beside_bytes
            + bytes_of(two.going)
            + two.holds_given * sum(bytes_of(a.meta["val"]) for a in node.all_input_nodes)
        )
        found, hidden = beside.take(places, held, two.beside_bytes, is_gather and two.beside_bytes > 0, seconds)
        time.hidden += hidden
        if found:
            split.append((i, two, found[-1]))
        if is_gather:
            earliest = found[-1] if found else i
    for node, n_bytes in zip(beside.nodes, beside.taken):
        if n_bytes:
            node.meta[WORKSPACE] = node.meta.get(WORKSPACE, 0) + n_bytes
    for i, two, far in split:
        own, here, there = two.beside_bytes, beside.taken[i], beside.taken[far]
        if beside.nodes[i].target is GATHER:
            rewrite(graph, beside.nodes[i], two, (beside.nodes[far], there), (beside.nodes[i], here))
        else:
            rewrite(graph, beside.nodes[i], two, (beside.nodes[i], here + own), (beside.nodes[far + 1], there - own))
    graph.lint()


def rewrite(graph: fx.Graph, node: fx.Node, two: Apart, begins: tuple[fx.Node, int], ends: tuple[fx.Node, int]) -> None:
    """Replace a collective by two operators, inserted before the nodes in `begins` and `ends`.

    `begins` and `ends` are pairs of a node and the bytes of copies that other collectives make while this node runs.
    """
    given, group = node.args
    with graph.inserting_before(begins[0]):
        going = graph.call_function(two.begin, (given, group))
        going.meta = {"val": two.going, WORKSPACE: begins[1]}
    with graph.inserting_before(ends[0]):
        done = graph.call_function(two.end, (going, group, given) if two.holds_given else (going, group))
        done.meta = {**node.meta, WORKSPACE: two.workspace_bytes + ends[1]}
    node.replace_all_uses_with(done)
    graph.erase_node(node)


# ---- functional collectives, with PyTorch's wait operators


def put_waits(liveness: Liveness, most_bytes: int, before: int, time: Time) -> bool:
    """Insert the wait of every collective.

    A wait is placed before the first reader of the result. It is placed earlier if the live memory plus the held operands would
    exceed `most_bytes`.

    Args:
        liveness: the liveness of the graph without waits.
        most_bytes: the limit on live memory.
        before: the bytes held by others.
        time: the sums of collective seconds and hidden seconds.

    Returns:
        Whether the graph has collectives.
    """
    sending = [n for n in liveness.nodes if has_wait(n)]
    live = liveness.live_bytes(before) if sending else []
    free = [0.0 if has_wait(n) else float(n.meta.get(SECONDS, 0.0)) for n in liveness.nodes]
    for node in sending:
        start = liveness.at[node]
        end = latest(node, liveness, live, most_bytes)
        time.seconds += (left := float(node.meta.get(SECONDS, 0.0)))
        if is_sum_on_host(node):
            node.target = part_of_sum
            continue
        for k in range(start + 1, end + 1):
            # each second of a node hides a second of one collective only, so the used seconds are subtracted
            used = min(left, free[k])
            time.hidden, left, free[k] = time.hidden + used, left - used, free[k] - used
        for made in results_of(node):
            put_wait(made, liveness.nodes[end] if made is node else made, wait, *held_by(node))
    for node in sending[:1]:
        node.graph.lint()
    return bool(sending)


def latest(node: fx.Node, liveness: Liveness, live: list[int], most_bytes: int) -> int:
    """Return the index of the node after which a collective is awaited.

    Add the bytes that the collective holds until this node to `live`.
    """
    start = liveness.at[node]
    if node.meta.get(WORKSPACE) or node not in results_of(node):
        return start
    ends = {b: max(liveness.last_use[h] for h in b.holders) for a in held_by(node) for b in liveness.blocks[a].values()}
    for k in range(start + 1, min((liveness.at[u] for u in node.users), default=0)):
        here = liveness.nodes[k]
        more = sum(b.n_bytes for b, end in ends.items() if end < k and not b.stays)
        overwrites = here in liveness.in_place and not ends.keys().isdisjoint(liveness.blocks[here].values())
        if overwrites or live[k] + more > most_bytes:
            return k - 1
        live[k] += more
    return max(start, min((liveness.at[u] for u in node.users), default=0) - 1)
