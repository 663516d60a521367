"""Schedules of torch.distributed.pipelining on two processes of one machine: losses, gradients and weights have eager's bits,
each rank's peak is as planned, and a stage with more micro-batches in flight computes more again."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from against_eager import peak_of_call
from networks import Layer
from sharded_models import process
from torch import nn

import memplan
from memplan.errors import RankError
from memplan.schedules import schedule_events as events
from memplan.schedules.api import actions_of

pipelining = pytest.importorskip("torch.distributed.pipelining")
pytestmark = pytest.mark.skipif(
    not torch.distributed.is_gloo_available() or not hasattr(pipelining.PipelineStage, "release_fwd_send_outputs"),
    reason="this PyTorch has no gloo, or its pipelines hold other things",
)
PARTS, ROWS, STEPS = 4, 2, 5
BUDGETS = "100%", "min+60%", "min+20%"
V_SHAPED = ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")
INTERLEAVED, SPLIT = "ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble"
ONE_STAGE = ("ScheduleGPipe", "Schedule1F1B")


class Perceptron(nn.Module):
    """Of which each stage has some layers; numbers in, and numbers out."""

    def __init__(self, k: int, n_stages: int) -> None:
        super().__init__()
        layers = [nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16), nn.Tanh()) for _ in range(2)]
        self.layers = nn.Sequential(*layers, *([nn.Linear(16, 10)] if k == n_stages - 1 else []))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Words(nn.Module):
    """Of a transformer with dropout."""

    def __init__(self, k: int, n_stages: int) -> None:
        super().__init__()
        first, last = [nn.Embedding(50, 32)], [nn.LayerNorm(32), nn.Linear(32, 10)]
        self.layers = nn.Sequential(*(first if k == 0 else []), Layer(32, 0.1), *(last if k == n_stages - 1 else []))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def batch(kind: type[nn.Module], step: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(step)
    shape = (PARTS * ROWS, 16)
    x = torch.randn(*shape, 16) if kind is Perceptron else torch.randint(50, shape)
    return x, torch.randint(10, shape)


def loss(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(out.flatten(0, 1), y.flatten())


class Run:
    """One rank of a pipeline, eager or within a budget."""

    def __init__(self, name: str, kind: type[nn.Module], rank: int, budget: str = "", **options: Any) -> None:
        from torch.distributed import pipelining

        n = 2 if name in ONE_STAGE else 4
        self.kind, self.first, self.last = kind, rank == 0, rank == (0 if name in V_SHAPED else 1)
        own = [rank] if n == 2 else [rank, 3 - rank if name in V_SHAPED else rank + 2]
        self.modules = []
        for k in range(n):
            torch.manual_seed(k)
            module = kind(k, n)
            self.modules += [module] if k in own else []
        self.stages = [pipelining.PipelineStage(m, k, n, torch.device("cpu")) for m, k in zip(self.modules, own)]
        given: Any = self.stages[0] if name in ONE_STAGE else self.stages
        schedule = getattr(pipelining, name)
        if budget:
            options = {"effort": "quick", "time_limit": 600.0, **options}  # no search is cut short on a busy machine
            self.schedule = memplan.pipeline(schedule, given, PARTS, budget, loss_fn=loss, **options)
        else:
            self.schedule = schedule(given, PARTS, loss_fn=loss)

    def parameters(self) -> list[nn.Parameter]:
        return [p for m in self.modules for p in m.parameters()]

    def step(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        losses: list[torch.Tensor] = []
        self.schedule.step(*((x,) if self.first else ()), **({"target": y, "losses": losses} if self.last else {}))
        return losses

    def train(self) -> list[torch.Tensor]:
        """Losses, and gradients of the last step."""
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        losses = []
        for k in range(STEPS):
            x, y = batch(self.kind, k)
            torch.manual_seed(k)
            optimizer.zero_grad()
            losses += [one.detach().clone() for one in self.step(x, y)]
            optimizer.step()
        return losses + [p.grad.clone() for p in self.parameters() if p.grad is not None]

    def peak(self) -> int:
        """Of a step, with what is there before."""
        for p in self.parameters():
            p.grad = None
        gc.collect()  # what earlier steps have left would be counted as it goes
        x, y = batch(self.kind, 0)
        static = sum(p.nbytes for p in self.parameters()) + (x.nbytes if self.first else 0) + (y.nbytes if self.last else 0)
        torch.distributed.barrier()
        return static + peak_of_call(lambda: self.step(x, y))


def check(name: str, kind: type[nn.Module], rank: int, budgets: tuple[str, ...]) -> None:
    eager = Run(name, kind, rank)
    expected = eager.train()
    of_eager = eager.peak()
    for budget in budgets:
        ours = Run(name, kind, rank, budget)
        got = ours.train()
        assert len(expected) == len(got) and all(torch.equal(a, b) for a, b in zip(expected, got)), (name, budget)
        assert all(torch.equal(a, b) for a, b in zip(eager.parameters(), ours.parameters())), (name, budget)
        measured, plan = ours.peak(), ours.schedule.memplan
        assert abs(measured - plan.planned_bytes) <= 0.01 * measured, (name, budget, rank, measured, plan.planned_bytes)
        assert measured <= plan.budget_bytes
        assert measured < of_eager or budget == "100%"


def one_stage_each(rank: int) -> None:
    check("ScheduleGPipe", Perceptron, rank, BUDGETS)
    check("Schedule1F1B", Perceptron, rank, BUDGETS)
    check("Schedule1F1B", Words, rank, BUDGETS[:2])


def two_stages_each(rank: int) -> None:
    check(INTERLEAVED, Perceptron, rank, BUDGETS)


def gradients_apart(rank: int) -> None:
    """Zero-bubble."""
    check(SPLIT, Perceptron, rank, BUDGETS)
    check(SPLIT, Words, rank, BUDGETS)


def there_and_back(rank: int) -> None:
    """Stages that hand on what they compute to another one of the same rank; DualPipeV has both kinds of backward."""
    for name in V_SHAPED:
        check(name, Perceptron, rank, BUDGETS)


def less_in_flight_less_again(rank: int) -> None:
    """Within the same bytes the first stage computes more again than the last."""
    least = Run("Schedule1F1B", Words, rank, "100%")
    least.step(*batch(Words, 0))
    known: list[Any] = [None, None]
    torch.distributed.all_gather_object(known, least.schedule.memplan.keep_all_bytes)
    run = Run("Schedule1F1B", Words, rank, str(int(0.9 * min(known))))
    run.step(*batch(Words, 0))
    (report,) = run.schedule.memplan.stages.values()
    torch.distributed.all_gather_object(known, (run.schedule.memplan.in_flight[rank], report.overhead))
    assert [n for n, _ in known] == [2, 1] and known[0][1] > known[1][1] > 0, known


def a_budget_of_one_rank(rank: int) -> None:
    """That cannot be met there is said on both, behind the step, in which none has waited for the other."""
    for short in (0, 1):
        run = Run("Schedule1F1B", Perceptron, rank, "40000" if rank == short else "100%", timeout=60.0)
        error = memplan.BudgetError if rank == short else RankError
        sentence = rf"^rank {short}: a budget of 39.06 KiB \(40000 bytes\) cannot be met by this rank's stages {short} with"
        for _ in range(2):  # as long as it is so
            with pytest.raises(error, match=sentence):
                run.step(*batch(Perceptron, 0))
    assert check_step(Run("Schedule1F1B", Perceptron, rank, "40000" if rank == 1 else "100%", on_infeasible="smallest"), rank)


def check_step(run: Run, rank: int) -> bool:
    """Whether a step has eager's losses and gradients."""
    eager = Run("Schedule1F1B", Perceptron, rank)
    expected, got = ([*r.step(*batch(Perceptron, 0)), *(p.grad for p in r.parameters())] for r in (eager, run))
    return all(torch.equal(a, b) for a, b in zip(expected, got))


def store_behind(module: Any, _: Any, out: torch.Tensor) -> None:
    module.kept = torch.cat([out.detach()] * 2)


def stored(rank: int) -> None:
    """If hooks of a stage or of its modules store tensors, memplan warns once, because the plans do not count them."""
    for name in (*ONE_STAGE, INTERLEAVED, SPLIT):
        for where, maker in (("", "computed in a hook of Perceptron"), ("layers.0", "computed in module layers.0 (")):
            torch._dynamo.reset()
            run = Run(name, Perceptron, rank, "100%")
            for module in run.modules:
                module.get_submodule(where).register_forward_hook(store_behind)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                run.train()
            said = [str(w.message) for w in caught if issubclass(w.category, memplan.FallbackWarning)]
            assert len(said) == len(run.modules), (name, where, said)
            assert all("user code stores tensors of stage " in s and maker in s for s in said), said


def note_calls(stage: Any, done: list[events.Action]) -> None:
    """Append each later call of the stage to `done`."""

    def noted(was: Callable[..., Any], what: Callable[[dict[str, Any]], str]) -> Callable[..., Any]:
        def call(part: int, *args: Any, **known: Any) -> Any:
            done.append((stage.stage_index, what(known), part))
            return was(part, *args, **known)

        return call

    stage.forward_one_chunk = noted(stage.forward_one_chunk, lambda _: "F")
    stage.backward_one_chunk = noted(stage.backward_one_chunk, lambda known: "B" if known.get("full_backward", True) else "I")
    stage.backward_weight_one_chunk = noted(stage.backward_weight_one_chunk, lambda _: "W")


def orders(rank: int) -> None:
    """What the replay is told is what each schedule does."""
    for name in (*ONE_STAGE, "ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble", *V_SHAPED):
        run = Run(name, Perceptron, rank)
        run.step(*batch(Perceptron, 0))  # in which it also asks what each stage returns
        done: list[events.Action] = []
        for stage in run.stages:
            note_calls(stage, done)
        run.step(*batch(Perceptron, 1))
        told = [a for a in actions_of(run.schedule, run.stages, PARTS) if a[1] in ("F", "B", "I", "W")]
        assert done == told, (name, rank, done, told)


def stages_of_replicas(_: int) -> None:
    """DDP in a stage is refused, and FSDP2 in a part of it."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    replica = nn.parallel.DistributedDataParallel(Perceptron(0, 1))
    sharded = Perceptron(0, 1)
    fully_shard(sharded.layers[0], mesh=init_device_mesh("cpu", (1,)))
    for module, sentence in (
        (replica, "stage 0 is wrapped by Distributed"),
        (sharded, "fully_shard shards parts of stage 0"),
    ):
        stage = pipelining.PipelineStage(module, 0, 1, torch.device("cpu"))
        with pytest.raises(memplan.MemplanError, match=sentence):
            memplan.pipeline(pipelining.ScheduleGPipe, stage, PARTS, loss_fn=loss)


def test_one_rank(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(process, (str(tmp_path), 1, stages_of_replicas), 1)


@pytest.mark.parametrize(
    "what",
    [
        one_stage_each,
        two_stages_each,
        gradients_apart,
        there_and_back,
        less_in_flight_less_again,
        a_budget_of_one_rank,
        orders,
        stored,
    ],
    ids=lambda f: f.__name__,
)
def test_two_ranks(what: Callable[[int], None], tmp_path: Path) -> None:
    torch.multiprocessing.spawn(process, (str(tmp_path), 2, what), 2)
