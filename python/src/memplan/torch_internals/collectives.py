"""Of functional collectives, which captured graphs have for all others: what issues one, what waits for it, and which ranks it
is among."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable
from typing import Any

import torch

from memplan.errors import NotPlannable
from memplan.torch_internals.names import Private

IN_PLACE = ("c10d",)  # namespaces of operators: of collectives that write into what they are given
FUNCTIONAL = ("_c10d_functional", "_dtensor")  # of those that return what they make
LOST = "graphs with collectives run without a plan"

WAIT = Private("torch.ops._c10d_functional.wait_tensor.default", use="to wait for what a collective makes", lost=LOST)
WAIT_FOR_ALL = Private(
    "torch.ops._c10d_functional.wait_tensors.default",
    use="to wait for all that one collective makes",
    lost="such results are waited for twice",
    since="2.15",
)
LONGER = "on a CPU what a collective reads may be in memory for a moment longer than planned"
USES = Private("torch.Tensor._use_count", use="whether gloo has let go of what a collective has made", lost=LONGER)
USES_OF_MEMORY = Private("torch._C._storage_Use_Count", use="the same, of views of it", lost=LONGER)
MEMORY = Private("torch.UntypedStorage._cdata", use="the same", lost=LONGER)
GROUP = Private(
    "torch.distributed.distributed_c10d._resolve_process_group",
    use="the ranks of a collective, of which a graph has a name",
    lost=LOST,
)


def group_of(name: Any) -> Any:
    """The process group that a graph calls so."""
    return GROUP(name) if isinstance(name, str) else name


def stride_of(group: Any) -> int:
    """How far each rank of a process group is from the next: ranks next to each other are on one machine."""
    ranks = torch.distributed.get_process_group_ranks(group)
    return max(1, ranks[1] - ranks[0]) if len(ranks) > 1 else 1


def need_to_wait() -> None:
    """NotPlannable where collectives could not be taken apart."""
    for row in (WAIT, GROUP):
        if not row:
            raise NotPlannable(f"PyTorch {torch.__version__} has no {row}")


@functools.cache
def gloo_has_means() -> bool:
    """Whether gloo's all-reduce makes mean values, as that of PyTorch 2.7 does not; asked of a group that is this process."""
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
    """How long we wait for gloo to let go, which is usually over at once; less and less where it never does."""

    seconds = 0.2


def uses_of(tensor: torch.Tensor) -> tuple[int, int]:
    """How often somebody has a tensor, and tensors its memory."""
    if not (USES and USES_OF_MEMORY and MEMORY):
        return 0, 0
    own: Any = tensor.untyped_storage()
    return tensor._use_count(), int(USES_OF_MEMORY(own._cdata))


OF_ONE = uses_of(torch.empty(1))


def wait(pending: torch.Tensor) -> torch.Tensor:
    """Waits for what a collective makes. On a CPU also until gloo's thread lets go of it, and so of all that the collective has
    read: what is freed later would be in no plan."""
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
    """FSDP2's, with gloo, whose thread holds what ranks send for a moment after it is there, and may be the last to do so: we
    hold it longer, and give that memory back."""

    def __init__(self) -> None:
        self.sent: torch.Tensor | None = None  # of the last

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        self.sent = torch.empty(*size, dtype=dtype, device=device)
        return self.sent

    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, async_op: bool = False) -> None:
        """`input_tensor` lies in the rank's place of the other. Gloo's own gather has memory that nobody else can give back."""
        ranks = torch.distributed.get_process_group_ranks(group)
        parts = zip(ranks, output_tensor.chunk(len(ranks)))
        works: list[Any] = [torch.distributed.broadcast(part, rank, group=group, async_op=True) for rank, part in parts]
        for work in works:
            work.wait()

    def give_back(self) -> None:
        """When all parameters are whole."""
        if self.sent is not None:
            self.sent.untyped_storage().resize_(0)
        self.sent = None


class SumOnHost:
    """The same for its sums, which gloo makes of all rows in a copy."""

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, op: Any, async_op: bool = False) -> None:
        rows = input_tensor.clone()
        torch.distributed.all_reduce(rows, op=op, group=group)
        output_tensor.copy_(rows.view(-1, output_tensor.numel())[torch.distributed.get_rank(group)])
        rows.untyped_storage().resize_(0)


def outwards(groups: Iterable[Any]) -> list[Any]:
    """Each of these groups once, without those that are within another, or have one rank: innermost, whose ranks lie nearest to
    each other, first."""
    ranks = {tuple(torch.distributed.get_process_group_ranks(g)): g for g in groups}
    wide = [r for r in ranks if len(r) > 1 and not any(set(r) < set(other) for other in ranks)]
    return [ranks[r] for r in sorted(wide, key=lambda r: (r[1] - r[0], r))]
