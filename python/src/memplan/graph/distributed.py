"""Models on several devices: DDP's replicas are planned like a model, what is sharded is refused.

PyTorch cuts a graph where DDP's buckets end, so that communication overlaps with backward; a budget needs the whole graph.
Its gradients arrive together, at the end of backward, and are then communicated.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import torch

from memplan.errors import MemplanError, RankError
from memplan.torch_internals.capture import setting
from memplan.torch_internals.modules import active_replica

FIRST_BUCKET = 1 << 20  # bytes of DDP's, where nobody says
OF_DEEPSPEED = "ds_id"  # an attribute of parameters that it has sharded
NO_OVERLAP = "gradients arrive together: DDP's communication begins when backward is done"


def replicas() -> type[Any] | None:
    """DDP's class; None where PyTorch is built without it."""
    if not torch.distributed.is_available():
        return None
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel


def bucket_caps(replica: Any) -> list[int]:
    """The bytes at which DDP closes its first bucket, its second, and so on; the last is for all further ones. None where this
    PyTorch does not say."""
    if caps := getattr(replica, "bucket_bytes_cap_list", None):
        return list(caps)
    cap = getattr(replica, "bucket_bytes_cap", None)
    if cap is None:
        return []
    return [min(FIRST_BUCKET, cap), cap] if getattr(replica, "bucket_bytes_cap_default", True) else [cap]


def is_replicated(model: Any) -> bool:
    kind = replicas()
    return kind is not None and isinstance(model, kind)


def plainly(error: BaseException) -> str:
    """The first sentence of what gloo says, without the line of its code."""
    return re.split(r"\.\s|\n", re.sub(r"^\[[^\]]*\]\s*", "", str(error)), maxsplit=1)[0]


@contextlib.contextmanager
def waiting_for_ranks(what: str) -> Iterator[None]:
    """In it, a rank does what the others do, too. RankError where one of them is gone or does not come."""
    try:
        yield
    except RuntimeError as error:
        rank = torch.distributed.get_rank()
        raise RankError(f"rank {rank} waited for the other ranks {what}, and has failed: {plainly(error)}") from error


def refuse_cut() -> None:
    """MemplanError where PyTorch is about to hand over the pieces of a graph that it has cut at DDP's buckets."""
    if active_replica() is not None and setting("optimize_ddp", False) not in (False, "no_optimization"):
        raise MemplanError(
            "PyTorch cuts this graph at DDP's buckets, and a budget needs it whole: use memplan.compile(model) or set"
            " torch._dynamo.config.optimize_ddp = False; gradients then arrive together, at the end of backward"
        )


def refuse_sharded(model: Any, whole_steps: bool = False) -> None:
    """MemplanError for FSDP's first form and DeepSpeed's third stage, whose parameters come and go by hooks that no graph
    shows; and for FSDP's second form where more than the model's own call is captured."""
    if not isinstance(model, torch.nn.Module):
        return
    if any(hasattr(p, OF_DEEPSPEED) for p in model.parameters()):
        raise MemplanError(
            "this model's parameters are sharded by DeepSpeed (ZeRO-3), whose hooks are in no graph: no plan would hold; shard"
            " it by fully_shard (FSDP2), which memplan.compile plans"
        )
    for module in model.modules():
        if any(kind.__name__ == "FullyShardedDataParallel" for kind in type(module).__mro__):
            raise MemplanError(
                "this model is sharded by FullyShardedDataParallel, whose hooks are in no graph: no plan would hold; shard it"
                " by fully_shard (FSDP2), which memplan.compile plans"
            )
        if whole_steps and any(kind.__name__ == "FSDPModule" for kind in type(module).__mro__):
            raise MemplanError(
                "this model is sharded by FSDP (fully_shard): memplan.compile(model) plans it, and no whole step"
            )
