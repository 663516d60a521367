"""One decision for all ranks. What operators cost is measured on each rank, and a search may end earlier on one than on the
others; but ranks that gather in another order wait for each other for ever. So the first rank's numbers and plans are all
ranks', and a rank whose graph is another one is named on all of them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import fx

from memplan.costs.measure import Cost, describe
from memplan.errors import MemplanError
from memplan.graph.capture import Capture, tensors_of
from memplan.graph.shards import is_ours
from memplan.torch_internals.dispatch import in_thread

T = TypeVar("T")


class Together:
    """The ranks of these process groups, the innermost first; of none: this process alone."""

    def __init__(self, groups: Sequence[Any] = ()) -> None:
        self.groups = tuple(groups)

    def __bool__(self) -> bool:
        return bool(self.groups)

    def is_first(self) -> bool:
        return all(torch.distributed.get_rank(g) == 0 for g in self.groups)

    def of_first(self, value: T) -> T:
        """The value that the first rank has."""
        kept = [value]

        def talk() -> None:
            for group in reversed(self.groups):
                torch.distributed.broadcast_object_list(kept, torch.distributed.get_global_rank(group, 0), group=group)

        if self.groups:
            in_thread(talk)  # where no mode of a compilation is
        return kept[0]

    def of_all(self, value: T) -> list[T]:
        """The values of all ranks, in their order."""
        found: list[Any] = [value]

        def talk() -> None:
            for group in self.groups:
                parts: list[Any] = [None] * torch.distributed.get_world_size(group)
                torch.distributed.all_gather_object(parts, found.copy(), group=group)
                found[:] = [one for part in parts for one in part]

        if self.groups:
            in_thread(talk)
        return found

    def same(self, values: dict[str, list[str]], name: str) -> None:
        """MemplanError, on all ranks, where one has another list than the first."""
        first, *others = self.of_all(values)
        for rank, other in enumerate(others, 1):
            for what, here in first.items():
                for a, b in zip_longest(here, other[what], fillvalue="nothing"):
                    if a != b:
                        raise MemplanError(
                            f"{name} is another one on rank {rank} than on rank 0, so that they would wait for each other:"
                            f" {what} there: {b}, and on rank 0: {a}"
                        )

    def searched(self, search: Callable[[], bool], save: Callable[[str], None], take: Callable[[str], bool]) -> bool:
        """Whether the first rank's search has found a plan, which all ranks then have: it saves the plan to a file, and the
        others take it from one. What it raises is raised on all."""
        if not self.groups:
            return search()
        found, plan, raised = False, b"", None
        with tempfile.TemporaryDirectory(prefix="memplan-") as folder:
            path = os.path.join(folder, "plan.json")
            if self.is_first():
                try:
                    if found := search():
                        save(path)
                        plan = Path(path).read_bytes()
                except BaseException as error:
                    raised = error
            found, plan, sentence = self.of_first((found, plan, "" if raised is None else str(raised) or type(raised).__name__))
            if raised is not None:
                raise raised
            if sentence:
                raise MemplanError(f"rank 0 has found no plan: {sentence}")
            if found and not self.is_first():
                Path(path).write_bytes(plan)
                take(path)
        return found


ALONE = Together()


def agreed(
    together: Together, capture: Capture, name: str, costs: dict[fx.Node, Cost], outside_bytes: int
) -> tuple[dict[fx.Node, Cost], int]:
    """What a graph's operators cost, and the bytes beside it, for all ranks: seconds of the first, and the most bytes. The
    capture takes them. MemplanError where a rank computes something else."""
    if not together:
        return costs, outside_bytes
    own = set(capture.static_nodes)
    given = [str(list(t.shape)) for n in capture.primals if n not in own for t in tensors_of(n.meta.get("val"))]
    sources = [o.source for o in capture.operations if o.source is not None]
    calls = [str(n.target) if is_ours(n) else describe(n) for n in sources]  # shards need not be equal
    together.same({"the sizes of its inputs": given, "what it computes": calls}, name)
    costs = dict(zip(costs, together.of_first(list(costs.values()))))
    for node, cost in costs.items():
        capture.take_sizes(node, cost.result_bytes)
    known = [outside_bytes, *(o.workspace_bytes for o in capture.operations), *(s.n_bytes for s in capture.storages)]
    outside_bytes, *most = (max(n_bytes) for n_bytes in zip(*together.of_all(known)))
    for what, n_bytes in zip(capture.operations, most):
        what.workspace_bytes = n_bytes
    for storage, n_bytes in zip(capture.storages, most[len(capture.operations) :]):
        storage.n_bytes = n_bytes
    return costs, outside_bytes
