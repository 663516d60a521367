"""Stages of a pipeline that FSDP2 has sharded, on two by two processes of one machine: eager's bits over five steps, and each
rank's peak as planned."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from against_eager import peak_of_call
from sharded_models import process
from test_pipeline import BUDGETS, INTERLEAVED, ONE_STAGE, PARTS, SPLIT, STEPS, Perceptron, Words, batch, loss, pipelining
from test_pipeline import pytestmark as pipelines_run
from torch import nn

import memplan
from memplan.errors import RankError
from memplan.torch_internals import sharding

pytestmark = [
    pipelines_run,
    pytest.mark.skipif(not sharding.KEPT, reason="this PyTorch's schedules sum what FSDP2 has sharded in another way"),
]


class Run:
    """One of the ranks, eager or within a budget: of each stage two ranks have a part each; or all of it (`is_whole`), and the
    mean of their gradients."""

    def __init__(
        self,
        name: str,
        kind: type[nn.Module],
        rank: int,
        budget: str = "",
        policy: Any = None,
        is_whole: bool = False,
        **options: Any,
    ) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("stages", "shards"))
        at, self.replica = divmod(rank, 2)
        n = 2 if name in ONE_STAGE else 4
        self.kind, self.first, self.last = kind, at == 0, at == 1
        self.modules, stages = [], []
        for k in [at] if n == 2 else [at, at + 2]:
            torch.manual_seed(k)
            module: Any = kind(k, n)
            sharded = {"mesh": mesh["shards"], **({"mp_policy": policy} if policy is not None else {})}
            for part in (*module.layers, module) if not is_whole else ():
                fully_shard(part, **sharded)
            self.modules.append(module)
            stages.append(pipelining.PipelineStage(module, k, n, torch.device("cpu"), group=mesh["stages"].get_group()))
        given: Any = stages[0] if name in ONE_STAGE else stages
        schedule = getattr(pipelining, name)
        self.replicas = mesh["shards"].get_group() if is_whole else None
        if budget:
            options = {"effort": "quick", "time_limit": 600.0, **options}  # no search is cut short on a busy machine
            self.schedule = memplan.pipeline(schedule, given, PARTS, budget, loss_fn=loss, **options)
        else:
            self.schedule = schedule(given, PARTS, loss_fn=loss)

    def parameters(self) -> list[Any]:
        return [p for m in self.modules for p in m.parameters()]

    def step(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        losses: list[torch.Tensor] = []
        self.schedule.step(*((x,) if self.first else ()), **({"target": y, "losses": losses} if self.last else {}))
        for p in self.parameters() if self.replicas is not None else ():
            torch.distributed.all_reduce(p.grad, torch.distributed.ReduceOp.AVG, self.replicas)
        return losses

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        return batch(self.kind, 2 * step + self.replica)

    def train(self) -> list[torch.Tensor]:
        """Losses, and gradients of the last step."""
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        losses = []
        for k in range(STEPS):
            x, y = self.batch(k)
            torch.manual_seed(k)
            optimizer.zero_grad()
            losses += [one.detach().clone() for one in self.step(x, y)]
            optimizer.step()
        return losses + [full(p.grad) for p in self.parameters()]

    def peak(self) -> int:
        """Of a step, with what is there before."""
        for p in self.parameters():
            p.grad = None
        gc.collect()  # what earlier steps have left would be counted as it goes
        x, y = self.batch(0)
        static = sum(p.to_local().untyped_storage().nbytes() for p in self.parameters())
        static += (x.nbytes if self.first else 0) + (y.nbytes if self.last else 0)
        torch.distributed.barrier()
        return static + peak_of_call(lambda: self.step(x, y))


def full(tensor: Any) -> torch.Tensor:
    whole: torch.Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return whole.detach().clone()


def check(name: str, kind: type[nn.Module], rank: int, budgets: tuple[str, ...] = BUDGETS, policy: Any = None) -> None:
    is_whole = name == SPLIT  # PyTorch 2.15 has no gradients for the last stage of a zero-bubble schedule under FSDP2
    eager = Run(name, kind, rank, policy=policy, is_whole=is_whole)
    expected = eager.train()
    of_eager = eager.peak() if not is_whole else 1 << 40
    for budget in budgets:
        ours = Run(name, kind, rank, budget, policy)
        got = ours.train()
        assert len(expected) == len(got) and all(torch.equal(a, b) for a, b in zip(expected, got)), (name, budget)
        pairs = zip(eager.parameters(), ours.parameters())
        assert all(torch.equal(full(a), full(b)) for a, b in pairs), (name, budget)
        measured, plan = ours.peak(), ours.schedule.memplan
        assert not any(report.fallbacks for report in plan.reports.values())
        assert abs(measured - plan.planned_bytes) <= 0.01 * measured, (name, budget, rank, measured, plan.planned_bytes)
        assert measured <= plan.planned_bytes <= plan.budget_bytes
        assert measured < of_eager or budget == "100%"


def one_stage_each(rank: int) -> None:
    check("ScheduleGPipe", Perceptron, rank)
    check("Schedule1F1B", Perceptron, rank)
    check("Schedule1F1B", Words, rank)


def two_stages_each(rank: int) -> None:
    check(INTERLEAVED, Perceptron, rank)
    check(SPLIT, Perceptron, rank)


def in_two_types(rank: int) -> None:
    """What is computed in one type and summed in another."""
    from torch.distributed.fsdp import MixedPrecisionPolicy

    check("Schedule1F1B", Perceptron, rank, ("min+30%",), MixedPrecisionPolicy(torch.bfloat16, torch.float32))


def a_budget_of_one_rank(rank: int) -> None:
    """That cannot be met there is said on all four, behind the step: no rank waits for one that has raised."""
    run = Run("Schedule1F1B", Perceptron, rank, "40000" if rank == 2 else "100%", timeout=60.0)
    with pytest.raises(memplan.BudgetError if rank == 2 else RankError, match=r"^rank 2: a budget of 39.06 KiB"):
        run.step(*run.batch(0))


def evaluated_between(rank: int) -> None:
    """What runs without gradients runs as FSDP2 runs it."""
    eager, ours = Run("Schedule1F1B", Perceptron, rank), Run("Schedule1F1B", Perceptron, rank, "min+50%")
    found = []
    for run in (eager, ours):
        x, y = run.batch(1)
        losses: list[torch.Tensor] = []
        run.step(*run.batch(0))
        with torch.no_grad():
            run.schedule.eval(*((x,) if run.first else ()), **({"target": y, "losses": losses} if run.last else {}))
        losses += run.step(*run.batch(2))
        found.append(losses + [full(p.grad) for p in run.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


WHAT = [one_stage_each, two_stages_each, in_two_types, a_budget_of_one_rank, evaluated_between]


@pytest.mark.parametrize("what", WHAT, ids=lambda f: f.__name__)
def test_four_ranks(what: Callable[[int], None], tmp_path: Path) -> None:
    torch.multiprocessing.spawn(process, (str(tmp_path), 4, what), 4)
