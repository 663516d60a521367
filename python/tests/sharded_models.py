"""Models sharded by `fully_shard`, their batches, and the processes that train them."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
from against_eager import peak_of_call
from torch import nn

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available()
    or not torch.distributed.is_gloo_available()
    or not hasattr(torch.distributed, "fsdp")
    or not hasattr(torch.distributed.fsdp, "fully_shard"),
    reason="this PyTorch has no gloo, or no public fully_shard",
)
ODD = 127  # not divisible by the number of ranks


class Perceptron(nn.Module):
    def __init__(self, width: int = ODD, layers: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(layers)
        )
        self.head = nn.Linear(width, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x).float().square().mean()


def numbers(step: int, rank: int) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(100 * step + rank)
    return (torch.randn(256, ODD),)


def words(step: int, rank: int) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(100 * step + rank)
    return tuple(torch.randint(50, (2, 8, 32)))


def sharded(make: Callable[[], nn.Module], per_layer: bool = True, mesh: Any = None, **options: Any) -> Any:
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model: Any = make()
    for layer in model.layers if per_layer else ():
        fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def assert_same(eager: Any, ours: Any) -> None:
    for (name, a), b in zip(eager.named_parameters(), ours.parameters()):
        assert torch.equal(a.to_local(), b.to_local()), name
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is not None:
            assert type(a.grad) is type(b.grad) and a.grad.dtype == b.grad.dtype
            assert torch.equal(a.grad.to_local(), b.grad.to_local()), f"gradient of {name}"


def peak(model: Any, inputs: tuple[Any, ...]) -> int:
    """Return the peak of one step on this rank in bytes, including the shards and the batch."""
    for p in model.parameters():
        p.grad = None
    torch.distributed.barrier()
    static = sum(p.to_local().untyped_storage().nbytes() for p in model.parameters()) + sum(i.nbytes for i in inputs)
    return static + peak_of_call(lambda: model(*inputs).backward())


def process(rank: int, folder: str, n_ranks: int, what: Callable[[int], None]) -> None:
    torch.set_num_threads(1)
    os.environ["MEMPLAN_CACHE"] = f"{folder}/cache{rank}"
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=n_ranks)
    try:
        what(rank)
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        torch.distributed.destroy_process_group()
