"""How long a functional collective runs beside what computes: it is waited for as late as the budget permits."""

from __future__ import annotations

from torch import fx

from memplan.graph.collectives import has_wait, held_by, is_sum_on_host, part_of_sum, put_wait, results_of, wait
from memplan.memory.liveness import SECONDS, WORKSPACE, Liveness
from memplan.plan.ahead import Time


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
