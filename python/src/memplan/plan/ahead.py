"""Collectives beside compute: a gather is begun ahead of where a plan needs it, and a reduction waited for behind it, as far as
the budget has room for what they hold. What is computed, and in which order, stays, and all bits with it.

A gather of 2 ms that its layer needs at node 7, with 1 ms of compute in each node before:

    node                 4     5     6     7
    room within budget   0    40    60          and the gather holds 30
    begun at node 5: nodes 5 and 6 hide it, and node 4 would have no room

Reductions look for nodes behind them in the same way. A second of compute hides a second of one collective only, and gathers
begin in the order in which they are needed. Of functional collectives only the wait moves: they are issued where the plan has
them, and waited for as late as the budget permits. All ranks decide by the same numbers, and so in the same way.
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
    """Of the collectives of a step: seconds, and how many of them compute hides."""

    seconds: float = 0.0
    hidden: float = 0.0

    def __str__(self) -> str:
        return f"collectives take {1e3 * self.seconds:.3g} ms, of which {1e3 * self.hidden:.3g} run beside compute"


class Beside:
    """The nodes of a graph, with the bytes that are left while each runs, and its seconds that hide nothing yet. `spare`: bytes
    that are left at the step's peak."""

    def __init__(self, graph: fx.Graph, room: list[int], spare: int) -> None:
        self.graph, self.room, self.spare = graph, room, spare
        self.nodes = list(graph.nodes)
        self.taken = [0] * len(self.nodes)  # by collectives on their way, beside what they hold
        self.at = {node: i for i, node in enumerate(self.nodes)}
        self.free = [0.0 if is_collective(n) else float(n.meta.get(SECONDS, 0.0)) for n in self.nodes]
        self.first = next((i for i, n in enumerate(self.nodes) if n.op != "placeholder"), len(self.nodes))

    def take(self, places: range, n_bytes: int, taken: int, copies: bool, seconds: float) -> tuple[list[int], float]:
        """Of these nodes, one after the other, those that hide so much and have so many bytes, some of which may be gone before
        (`taken`): where these are `copies`, no more is live than at the step's peak. And what they hide."""
        found, left = [], seconds
        for i in places:
            if left <= 0 or self.room[i] < n_bytes + (self.spare if copies else 0):
                break
            found.append(i)
            left -= self.free[i]
        while found and self.free[found[-1]] == 0:  # which hides nothing
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
    """Rewrites the collectives of a graph that compute can hide, and adds up their time. `room`: bytes that are left within
    the budget while each node runs; `spare`: at the step's peak. Copies that are taken beside a collective may be gone before
    it ends, and never make the peak, which would be another one in each step."""
    beside = Beside(graph, room, spare)
    earliest = beside.first
    split: list[tuple[int, Apart, int]] = []  # where it stands, and the farthest node that hides some of it
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
    """Two operators in the place of one, each before a node, with what is beside collectives that are on their way there."""
    given, group = node.args
    with graph.inserting_before(begins[0]):
        going = graph.call_function(two.begin, (given, group))
        going.meta = {"val": two.going, WORKSPACE: begins[1]}
    with graph.inserting_before(ends[0]):
        done = graph.call_function(two.end, (going, group, given) if two.holds_given else (going, group))
        done.meta = {**node.meta, WORKSPACE: two.workspace_bytes + ends[1]}
    node.replace_all_uses_with(done)
    graph.erase_node(node)


# ---- functional collectives, for which PyTorch waits by an operator


def put_waits(liveness: Liveness, most_bytes: int, before: int, time: Time) -> bool:
    """Waits for every collective of a graph: where what it makes is first read, or before the first node at which more than
    this would be live beside what it holds until then. Whether there are any. `liveness` is of the graph without waits,
    `before`: what others hold. The collectives' seconds are added to those of the step, and what hides them."""
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
        for k in range(start + 1, end + 1):  # a second of compute hides a second of one collective
            used = min(left, free[k])
            time.hidden, left, free[k] = time.hidden + used, left - used, free[k] - used
        for made in results_of(node):
            put_wait(made, liveness.nodes[end] if made is node else made, wait, *held_by(node))
    for node in sending[:1]:
        node.graph.lint()
    return bool(sending)


def latest(node: fx.Node, liveness: Liveness, live: list[int], most_bytes: int) -> int:
    """Behind which node a collective is waited for. What it holds until then is added to `live`."""
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
