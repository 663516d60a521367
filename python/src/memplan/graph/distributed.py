"""Models on several devices: DDP's replicas are planned like a model, what is sharded is refused.

PyTorch cuts a graph where DDP's buckets end, so that communication overlaps with backward; a budget needs the whole graph.
Its gradients arrive together, at the end of backward, and are then communicated.
"""

from __future__ import annotations

from typing import Any

import torch

from memplan.errors import MemplanError
from memplan.torch_internals.capture import setting
from memplan.torch_internals.modules import active_replica

NO_OVERLAP = "gradients arrive together: DDP's communication begins when backward is done"


def replicas() -> type[Any] | None:
    """DDP's class; None where PyTorch is built without it."""
    if not torch.distributed.is_available():
        return None
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel


def is_replicated(model: Any) -> bool:
    kind = replicas()
    return kind is not None and isinstance(model, kind)


def refuse_cut() -> None:
    """MemplanError where PyTorch is about to hand over the pieces of a graph that it has cut at DDP's buckets."""
    if active_replica() is not None and setting("optimize_ddp", False) not in (False, "no_optimization"):
        raise MemplanError(
            "PyTorch cuts this graph at DDP's buckets, and a budget needs it whole: use memplan.compile(model) or set"
            " torch._dynamo.config.optimize_ddp = False; gradients then arrive together, at the end of backward"
        )


def refuse_sharded(model: Any) -> None:
    """MemplanError for FSDP: parameters come and go by hooks that no graph shows."""
    if not isinstance(model, torch.nn.Module):
        return
    for module in model.modules():
        if any(kind.__name__ in ("FSDPModule", "FullyShardedDataParallel") for kind in type(module).__mro__):
            raise MemplanError(
                "this model is sharded by FSDP (fully_shard): its parameters come and go by hooks that are in no graph, so no"
                " plan would hold; train it without memplan, or replicate it by DDP"
            )
