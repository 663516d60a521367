"""Without its names about collectives."""

from __future__ import annotations

import contextlib
import copy
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from against_eager import assert_like_eager

import memplan
from memplan.torch_internals import collectives, sharding
from without.case import Two, planned, said, without, x_of


class Sums(Two):
    """The same on all ranks, of which there is one."""

    def forward(self, x: torch.Tensor) -> Any:
        from torch.distributed import _functional_collectives as functional

        return functional.all_reduce(super().forward(x), "sum", torch.distributed.group.WORLD)


@contextlib.contextmanager
def one_rank() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
        try:
            yield
        finally:
            torch.distributed.destroy_process_group()


@without(collectives.WAIT, collectives.GROUP)
def collectives_run_without_a_plan(*_: Any) -> None:
    with one_rank():
        model = Sums()
        with pytest.warns(memplan.FallbackWarning, match="graphs with collectives run without a plan"):
            assert_like_eager(model, planned(model), (x_of(),), eager=copy.deepcopy(model))
        assert not model.memplan.graphs


@without(collectives.WAIT_FOR_ALL, collectives.USES, collectives.USES_OF_MEMORY, collectives.MEMORY)
def collectives_are_planned(*_: Any) -> None:
    with one_rank():
        model = Sums()
        assert_like_eager(model, planned(model), (x_of(),))
        assert model.memplan.graphs


@without(sharding.KEPT)
def gradients_that_stay_whole_are_fsdps(*_: Any) -> None:
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    if not hasattr(fsdp, "fully_shard"):
        pytest.skip("this PyTorch has no public fully_shard")

    def steps(model: Any) -> None:
        for k in range(2):
            model.set_requires_gradient_sync(k == 1)
            model(x_of()).square().mean().backward()

    with one_rank():
        torch.manual_seed(0)
        eager = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8))
        model = planned(fsdp.fully_shard(copy.deepcopy(eager)))
        eager = fsdp.fully_shard(eager)
        steps(eager)
        assert "leaves gradients unreduced in a way that memplan cannot plan" in " ".join(said(lambda: steps(model)))
        assert all(torch.equal(a.grad.to_local(), b.grad.to_local()) for a, b in zip(eager.parameters(), model.parameters()))


@without(sharding.FINALIZE)
def sharded_stages_of_pipelines_are_refused(*_: Any) -> None:
    fsdp, pipelining = (pytest.importorskip(f"torch.distributed.{name}") for name in ("fsdp", "pipelining"))
    if not hasattr(fsdp, "fully_shard"):
        pytest.skip("this PyTorch has no public fully_shard")
    with one_rank():
        stage = pipelining.PipelineStage(fsdp.fully_shard(torch.nn.Linear(8, 8)), 0, 1, torch.device("cpu"))
        with pytest.raises(memplan.MemplanError, match="memplan refuses pipeline stages sharded by fully_shard"):
            memplan.pipeline(pipelining.ScheduleGPipe, stage, 2, loss_fn=torch.nn.functional.mse_loss)
