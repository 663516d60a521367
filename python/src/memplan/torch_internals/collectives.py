"""Functional collectives, the form of collectives in captured graphs: issuing, waiting, and process groups."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable
from typing import Any

import torch

from memplan.errors import NotPlannable
from memplan.torch_internals.names import Private

IN_PLACE = ("c10d",)  # namespaces of collectives that overwrite their arguments
FUNCTIONAL = ("_c10d_functional", "_dtensor")  # namespaces of collectives that return new tensors
LOST = "graphs with collectives run without a plan"

WAIT = Private("torch.ops._c10d_functional.wait_tensor.default", use="waits for the result of a collective", lost=LOST)
WAIT_FOR_ALL = Private(
    "torch.ops._c10d_functional.wait_tensors.default",
    use="waits for all results of a collective",
    lost="memplan waits for such results twice",
    since="2.15",
)
LONGER = "on a CPU, operands of a collective may exist slightly longer than planned"
USES = Private("torch.Tensor._use_count", use="tells whether gloo has released the result of a collective", lost=LONGER)
USES_OF_MEMORY = Private("torch._C._storage_Use_Count", use="tells the same about views of the result", lost=LONGER)
MEMORY = Private("torch.UntypedStorage._cdata", use="identifies the memory of the result", lost=LONGER)
GROUP = Private(
    "torch.distributed.distributed_c10d._resolve_process_group",
    use="finds the ranks of a collective by the name in the graph",
    lost=LOST,
)


def group_of(name: Any) -> Any:
    """Return the process group by its name in a graph."""
    return GROUP(name) if isinstance(name, str) else name


def stride_of(group: Any) -> int:
    """Return the distance between consecutive ranks of a process group. Ranks with consecutive numbers share a machine."""
    ranks = torch.distributed.get_process_group_ranks(group)
    return max(1, ranks[1] - ranks[0]) if len(ranks) > 1 else 1


def need_to_wait() -> None:
    """Raise NotPlannable if this PyTorch version cannot separate a collective from its wait."""
    for row in (WAIT, GROUP):
        if not row:
            raise NotPlannable(f"PyTorch {torch.__version__} has no {row}")


@functools.cache
def gloo_has_means() -> bool:
    """Whether gloo's all-reduce supports averages, which PyTorch 2.7 does not. The test uses a group of one process."""
    distributed: Any = torch.distributed
    options = distributed.AllreduceOptions()
    options.reduceOp = distributed.ReduceOp.AVG
    group = distributed.ProcessGroupGloo(distributed.HashStore(), 0, 1)
    try:
        group.allreduce([torch.zeros(1)], options).wait()
    except RuntimeError:
        return False
    return True


class Patience:
    """Time limit in seconds for gloo to release a tensor. gloo usually releases it at once; each timeout lowers the limit."""

    seconds = 0.2


def uses_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the number of references to a tensor object, and to its storage."""
    if not (USES and USES_OF_MEMORY and MEMORY):
        return 0, 0
    own: Any = tensor.untyped_storage()
    return tensor._use_count(), int(USES_OF_MEMORY(own._cdata))


OF_ONE = uses_of(torch.empty(1))


def wait(pending: torch.Tensor) -> torch.Tensor:
    """Wait for the result of a collective.

    On a CPU, also wait until gloo's thread has released the result and the operands. Otherwise result and operands would be
    freed at a time that no plan knows.
    """
    made: torch.Tensor = WAIT.get()(pending)
    if made.device.type == "cpu":
        until = time.monotonic() + Patience.seconds
        while uses_of(made) > OF_ONE:
            if time.monotonic() > until:
                Patience.seconds /= 2
                break
            time.sleep(0)
    return made


class GatherOnHost:
    """A replacement of FSDP2's all-gather for gloo.

    gloo's thread may refer to the buffer after the gather has ended. This class therefore frees the buffer's memory itself.
    """

    def __init__(self) -> None:
        self.sent: torch.Tensor | None = None  # the buffer of the last gather; None: freed

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        self.sent = torch.empty(*size, dtype=dtype, device=device)
        return self.sent

    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, async_op: bool = False) -> None:
        """Gather the parts of all ranks.

        `input_tensor` is this rank's part of `output_tensor`. gloo's own gather allocates memory that no one else can free.
        """
        ranks = torch.distributed.get_process_group_ranks(group)
        parts = zip(ranks, output_tensor.chunk(len(ranks)))
        works: list[Any] = [torch.distributed.broadcast(part, rank, group=group, async_op=True) for rank, part in parts]
        for work in works:
            work.wait()

    def give_back(self) -> None:
        """Free the buffer of the last gather, once all parameters are gathered."""
        if self.sent is not None:
            self.sent.untyped_storage().resize_(0)
        self.sent = None


class SumOnHost:
    """A replacement of FSDP2's reduce-scatter for gloo, which reduces all rows in a copy."""

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, op: Any, async_op: bool = False) -> None:
        rows = input_tensor.clone()
        torch.distributed.all_reduce(rows, op=op, group=group)
        output_tensor.copy_(rows.view(-1, output_tensor.numel())[torch.distributed.get_rank(group)])
        rows.untyped_storage().resize_(0)


def outwards(groups: Iterable[Any]) -> list[Any]:
    """Return the groups in which ranks plan together, those of close ranks first.

    Duplicates, groups of one rank, and groups that other groups contain are omitted.
    """
    ranks = {tuple(torch.distributed.get_process_group_ranks(g)): g for g in groups}
    wide = [r for r in ranks if len(r) > 1 and not any(set(r) < set(other) for other in ranks)]
    return [ranks[r] for r in sorted(wide, key=lambda r: (r[1] - r[0], r))]
