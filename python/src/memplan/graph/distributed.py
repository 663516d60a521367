"""Models on several devices. DDP replicas are planned like single models. Unsupported forms of sharding are rejected.

PyTorch breaks a graph at the ends of DDP's buckets to overlap communication with backward. A budget requires the whole graph.
The gradients of the whole graph are complete together at the end of backward, and are communicated afterwards.
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

FIRST_BUCKET = 1 << 20  # size in bytes of DDP's first bucket
OF_DEEPSPEED = "ds_id"  # attribute by which DeepSpeed marks parameters that it has sharded
NO_OVERLAP = "gradients are complete together: DDP communicates only after backward"


def replicas() -> type[Any] | None:
    """Return DDP's class, or None if PyTorch is built without it."""
    if not torch.distributed.is_available():
        return None
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel


def bucket_caps(replica: Any) -> list[int]:
    """Return the sizes in bytes of DDP's first bucket, second bucket and so on. The last size applies to all further buckets.

    [] if this PyTorch version does not state them.
    """
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
    """Return the first sentence of gloo's error message, without the position in its code."""
    return re.split(r"\.\s|\n", re.sub(r"^\[[^\]]*\]\s*", "", str(error)), maxsplit=1)[0]


@contextlib.contextmanager
def waiting_for_ranks(what: str) -> Iterator[None]:
    """Run a collective within the context. Raises RankError if another rank has ended or does not respond."""
    try:
        yield
    except RuntimeError as error:
        rank = torch.distributed.get_rank()
        raise RankError(f"rank {rank} failed while it waited for the other ranks {what}: {plainly(error)}") from error


def refuse_cut() -> None:
    """Raise MemplanError if PyTorch is about to break the graph at DDP's buckets."""
    if active_replica() is not None and setting("optimize_ddp", False) not in (False, "no_optimization"):
        raise MemplanError(
            "PyTorch splits this graph at DDP's buckets, but a budget needs the whole graph. Use"
            " memplan.compile(model), or set torch._dynamo.config.optimize_ddp = False. Then all gradients are"
            " complete together, at the end of backward"
        )


def refuse_sharded(model: Any, whole_steps: bool = False) -> None:
    """Raise MemplanError for FSDP1 and DeepSpeed ZeRO-3, whose hooks are invisible in graphs.

    Also raise it for FSDP2 if the capture contains more than the model's own call.
    """
    if not isinstance(model, torch.nn.Module):
        return
    if any(hasattr(p, OF_DEEPSPEED) for p in model.parameters()):
        raise MemplanError(
            "DeepSpeed (ZeRO-3) shards the parameters of this model with hooks that no graph contains, so a plan"
            " would be wrong; shard it with fully_shard (FSDP2), which memplan.compile plans"
        )
    for module in model.modules():
        if any(kind.__name__ == "FullyShardedDataParallel" for kind in type(module).__mro__):
            raise MemplanError(
                "FullyShardedDataParallel shards this model with hooks that no graph contains, so a plan would be"
                " wrong; shard it with fully_shard (FSDP2), which memplan.compile plans"
            )
        if whole_steps and any(kind.__name__ == "FSDPModule" for kind in type(module).__mro__):
            raise MemplanError(
                "this model is sharded by FSDP (fully_shard); use memplan.compile(model), because memplan does not"
                " plan its whole step"
            )
