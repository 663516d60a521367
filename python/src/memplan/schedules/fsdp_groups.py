"""Memory of stages under FSDP2. Parameters and gradients are gathered from the first micro-batch to the end of the step.

Gathering adds the groups one by one. While a group is gathered, memory holds the buffer with the shards of all ranks and
all groups that were gathered before. Reducing handles the groups from the last to the first. FSDP2 frees the parameters of
a group, packs its gradients into a buffer, frees these gradients, and keeps the shard of this rank.
"""

from __future__ import annotations

from collections.abc import Sequence

from memplan.graph.capture import Capture
from memplan.torch_internals.sharding import ParameterGroup, here


class Group:
    """Bytes of one group of parameters.

    `made`: bytes of the gradients that backward computes; `kept`: bytes of the accumulated gradients.
    """

    def __init__(self, group: ParameterGroup) -> None:
        params, n = group.known.fsdp_params, group.n_ranks
        trained = [k for k, p in enumerate(params) if p.sharded_param.requires_grad]
        numels, types = [int(shape.numel()) for shape in group.shapes], group.compute_types
        self.shards = int(sum(here(p).untyped_storage().nbytes() for p in group.parameters()))
        self.whole = int(sum(n * size.numel() * kind.itemsize for size, kind in zip(group.padded, types)))
        self.sent = self.whole
        self.made = [numels[k] * types[k].itemsize for k in trained]
        self.kept = [numels[k] * (params[k].unsharded_grad_dtype or types[k]).itemsize for k in trained]
        kind = params[0].reduce_dtype or params[0].unsharded_grad_dtype or types[0]
        of_one = sum(group.padded[k].numel() for k in trained)
        self.part = int(of_one * group.given_type.itemsize)
        self.packed = int(n * of_one * kind.itemsize)
        # gloo reduces in its own copy of the sent buffer, so the buffer counts twice
        is_cast, is_of_gloo = kind != group.given_type, group.known.device.type == "cpu" and n > 1
        self.summing = (1 + is_of_gloo) * self.packed + self.packed // n + is_cast * self.part


class Whole:
    """Bytes of one stage; without groups the stage is not sharded.

    `widened_bytes`: the bytes by which accumulated gradients exceed new ones, because they may have a wider type.
    """

    def __init__(self, groups: Sequence[ParameterGroup]) -> None:
        self.groups = [Group(g) for g in groups]
        self.shard_bytes = sum(g.shards for g in self.groups)
        self.whole_bytes = sum(g.whole for g in self.groups)
        self.sent_bytes = sum(g.sent for g in self.groups)
        self.summed_bytes = sum(g.part for g in self.groups)
        self.widened_bytes = sum(sum(g.kept) - sum(g.made) for g in self.groups)

    def widen(self, capture: Capture) -> None:
        """Count the memory that the end of backward needs to cast gradients, one by one, to the wider type."""
        wider = [kept for g in self.groups for made, kept in zip(g.made, g.kept) if kept > made]
        capture.operations[capture.end].workspace_bytes += self.widened_bytes + max(wider, default=0)

    def gather_bytes(self) -> int:
        live = most = 0
        for g in self.groups:
            live += g.whole
            most = max(most, live + g.sent)
        return most

    def sum_bytes(self, gradient_bytes: int) -> int:
        live = most = self.whole_bytes + gradient_bytes
        for g in reversed(self.groups):
            live -= g.whole
            most = max(most, live + g.packed)
            live -= sum(g.kept)
            most = max(most, live + g.summing)
            live += g.part
        return most
