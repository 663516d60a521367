"""Find autograd graphs of earlier calls that are still alive, for example through a list of losses that are not detached."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memplan.budget import in_units
from memplan.explain.account import Objects
from memplan.explain.failure import At, Failure
from memplan.explain.holders import holders
from memplan.graph.capture import storage_bytes, storage_key
from memplan.run.outside_tensors import reachable
from memplan.torch_internals.autograd import everything_saved_by

FEWEST = 2  # minimum number of earlier calls to report; fewer calls are considered parts of one step
MOST_NAMED = 3
LEAST_SHARE = 0.5  # a holder is named if it keeps at least this share of the nodes that the largest holder keeps


@dataclass
class Earlier:
    n_calls: int
    n_bytes: int
    holders: list[str]

    @staticmethod
    def of(objects: Objects, nodes: dict[Any, int], begun: Sequence[int], failure: Failure) -> Earlier | None:
        """Find the live autograd graphs of earlier calls, or return None.

        `begun`: for each call, the autograd number of its first node. The last call is the failed one.
        """
        leaves = {storage_key(t) for t in objects.tensors if t.is_leaf}
        before = {node for node, number in nodes.items() if number < begun[-1]}
        kept = {storage_key(t): storage_bytes(t) for node in before for t in everything_saved_by(node)}
        n_bytes = sum(n for key, n in kept.items() if key not in leaves)
        n_calls = len(begun) - 1
        if n_calls < FEWEST or not n_bytes:
            return None
        return Earlier(n_calls, n_bytes, held_by(objects, before, failure.stack))

    def __str__(self) -> str:
        who = "; held by " + ", ".join(self.holders) if self.holders else ""
        return (
            f"{in_units(self.n_bytes)} are saved for backward by {self.n_calls} earlier calls, whose graphs are"
            f" alive{who}\n    what would have helped: keep loss.item() or loss.detach(), run backward before the"
            " next call, or call under torch.no_grad()"
        )


def held_by(objects: Objects, before: set[Any], stack: Sequence[At]) -> list[str]:
    """Return the variables that keep autograd nodes of `before` alive, those with the most nodes first.

    Variables that keep few nodes alive are omitted. For example, the loss of the last call is omitted if a list holds all
    losses.
    """
    known = {id(t) for t in objects.tensors if t.grad_fn is not None}
    roots: dict[str, set[Any]] = {}
    for tensor, _, words, file in holders(stack):
        if id(tensor) in known:
            roots.setdefault(f"{words} ({file})", set()).add(tensor.grad_fn)
    kept = {who: len(before & reachable(of, set())) for who, of in roots.items()}
    most = max(kept.values(), default=0)
    found = sorted((who for who, n in kept.items() if n > LEAST_SHARE * most), key=lambda who: -kept[who])
    return found[:MOST_NAMED] if most else unnamed(objects, before)


def unnamed(objects: Objects, before: set[Any]) -> list[str]:
    """Return the classes of the objects that keep autograd nodes of `before` alive, if no variable refers to these objects."""
    held = [t for t in objects.tensors if t.grad_fn is not None and not before.isdisjoint(reachable([t.grad_fn], set()))]
    return sorted({type(o).__name__ for o in gc.get_referrers(*held)})[:MOST_NAMED]
