"""The public function `pipeline`: a schedule of torch.distributed.pipelining with planned stages."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from memplan.api import backend_for, compiled_with
from memplan.budget import Budget, only_bytes
from memplan.errors import BudgetError, MemplanError, RankError
from memplan.graph.distributed import is_replicated
from memplan.memory.optimizer_state import optimizer_bytes
from memplan.plan.options import Options, given_to
from memplan.ranks.rank_group import ALONE, RankGroup
from memplan.report import Report
from memplan.run.backend import Backend
from memplan.schedules import schedule_events as events
from memplan.schedules.rank_memory import Rank
from memplan.torch_internals import sharding
from memplan.torch_internals.collectives import outwards


class Pipeline:
    """The attribute `schedule.memplan`: the memory of all stages of this rank, and a report per stage.

    `reports`: by stage index; the last one is the report of the loss.
    """

    def __init__(self, rank: Rank, reports: dict[int, Report]) -> None:
        self.rank, self.reports = rank, reports

    @property
    def planned_bytes(self) -> int:
        return self.rank.planned_bytes

    @property
    def keep_all_bytes(self) -> int:
        return self.rank.keep_all_bytes

    @property
    def budget_bytes(self) -> int:
        return self.rank.budget_bytes

    @property
    def in_flight(self) -> dict[int, int]:
        """The largest number of micro-batches in flight, by stage."""
        return self.rank.in_flight

    @property
    def stages(self) -> dict[int, Report]:
        """The report of each stage that has run, by the stage's index."""
        return {s: report for s, report in self.reports.items() if s <= self.rank.last}

    def __str__(self) -> str:
        return "\n".join(f"stage {s}: {report}" for s, report in self.stages.items())


def pipeline(
    schedule: Callable[..., Any],
    stages: Any,
    n_microbatches: int,
    budget: Budget = "auto",
    *,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    accumulate: bool = False,
    returns_outputs: bool = True,
    reserve: Budget = 0,
    effort: str = "normal",
    time_limit: float = 20.0,
    on_infeasible: str = "raise",
    cache: str | None = None,
    timeout: float = 600.0,
    **of_schedule: Any,
) -> Any:
    """Make a pipeline schedule that trains within a memory budget for everything on this rank.

    The schedule is made by `schedule(stages, n_microbatches, loss_fn=..., **of_schedule)`. The modules of the stages and the
    loss are compiled in place. memplan plans each stage for the number of micro-batches that the schedule keeps in flight.
    If one rank cannot meet its budget, all ranks raise an error after the first step.

    Args:
        stages: the stage of this rank, or a list of stages, as the schedule expects.
        budget: as in memplan.compile, for the rank. The same holds for optimizer, accumulate, reserve, effort, time_limit,
            on_infeasible, cache and timeout.
        accumulate: whether gradients exist before a step.
        returns_outputs: whether steps return the output of the last stage, which is PyTorch's default. False corresponds to
            `step(..., return_outputs=False)`.

    Returns:
        The schedule. Its attribute `memplan` has `planned_bytes`, `in_flight` and the reports of the `stages`.
    """
    options = given_to("pipeline", locals()) | {"reserve": 0}  # the rank counts the reserve once for all stages
    own = list(stages) if isinstance(stages, (list, tuple)) else [stages]
    for stage in own:
        refuse_others_calls(stage.stage_index, stage.submod)
    backends = {s.stage_index: backend_for(Backend, s.submod, [], False, **options) for s in own}
    last = own[0].num_stages - 1
    loss: Any = loss_fn
    if last in backends and loss_fn is not None:
        backends[last + 1] = backend_for(Backend, None, [], False, **options)
        loss = compiled_with(called(loss_fn), backends[last + 1], True)
    made = schedule(stages, n_microbatches, loss_fn=loss, **of_schedule)
    actions = actions_of(made, own, n_microbatches)
    sharded = [s.stage_index for s in own if isinstance(s.submod, sharding.kind())]
    played = events.Replay(backends.keys() - {last + 1}, last + 1, returns_outputs, accumulate, sharded)
    moments = played.run(actions)
    in_flight = {s.stage_index: played.in_flight(s.stage_index) for s in own}
    counted = only_bytes(reserve) + (optimizer_bytes(optimizer) if optimizer is not None else 0)
    is_split = any(what == "I" for _, what, _ in actions)
    rank = Rank(moments, in_flight, n_microbatches, counted, is_split, last)
    modules = {s.stage_index: s.submod for s in own}
    for index, backend in backends.items():
        module = modules.get(index)
        backend.feedback = rank.add(index, weakref.ref(module) if module is not None else lambda: None)
        if module is not None:
            compiled_with(module, backend, True)
    made.memplan = Pipeline(rank, {index: backend.report for index, backend in backends.items()})
    if own[0].group_size > 1:
        rank.defers = True
        made.step = Agreeing(made, own, backends[own[0].stage_index].options)
    return made


class Agreeing:
    """The `step` of a schedule until all ranks have their plans.

    Ranks wait for each other within a step. A rank that cannot meet its budget therefore reports to all ranks after the step.
    As soon as all ranks have their plans, steps run unchanged.
    """

    def __init__(self, schedule: Any, stages: Sequence[Any], options: Options) -> None:
        self.was: Callable[..., Any] = schedule.step
        self.pipeline: Pipeline = schedule.memplan
        self.stages, self.options = stages, options
        self.rank_group = ALONE
        self.have_agreed = False
        functools.update_wrapper(self, schedule.step)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self.was(*args, **kwargs)
        if not self.have_agreed:
            self.agree()
        return result

    def agree(self) -> None:
        """Compare the results of all ranks.

        Raises:
            BudgetError: this rank cannot meet its budget.
            RankError: another rank cannot meet its budget.
        """
        rank = self.pipeline.rank
        rank.plan_whole(self.options)
        if not self.rank_group:
            groups = [g for stage in self.stages for g in groups_of_shards(stage.submod)]
            self.rank_group = RankGroup(outwards([self.stages[0].group or torch.distributed.group.WORLD, *groups]))
        has_plans = rank.is_whole or any(report.fallbacks for report in self.pipeline.reports.values())
        own = torch.distributed.get_rank(), has_plans, "" if rank.trouble is None else str(rank.trouble)
        with self.rank_group.planning("the pipeline", self.options.wait_seconds()):
            known = self.rank_group.of_all(own, "the plans of its stages")
        troubles = [f"rank {number}: {trouble}" for number, _, trouble in known if trouble]
        if rank.trouble is not None:
            sizes = {"budget_bytes": rank.trouble.budget_bytes, "smallest_bytes": rank.trouble.smallest_bytes}
            raise BudgetError("; ".join(troubles), **sizes)
        if troubles:
            raise RankError("; ".join(troubles))
        self.have_agreed = all(has_plans for _, has_plans, _ in known)


def refuse_others_calls(index: int, module: torch.nn.Module) -> None:
    """Raise MemplanError if the schedule would gather or reduce tensors of a stage between planned calls."""
    if is_replicated(module):
        raise MemplanError(
            f"stage {index} is wrapped by DistributedDataParallel, which memplan does not plan in a pipeline; remove"
            " the wrapper, and average gradients over the replicas after schedule.step"
        )
    if not isinstance(module, sharding.kind()) and any(isinstance(m, sharding.kind()) for m in module.modules()):
        raise MemplanError(
            f"fully_shard shards parts of stage {index}, but not the whole stage, so the schedule would not sum the"
            " remaining gradients; call fully_shard(stage) last"
        )
    if isinstance(module, sharding.kind()):
        sharding.FINALIZE.need()


def groups_of_shards(stage: torch.nn.Module) -> list[Any]:
    """Return the groups of ranks that reduce a stage's gradients with this rank, and would wait for it if it failed."""
    if not isinstance(stage, sharding.kind()):
        return []
    return [g for of_one in sharding.groups(stage) for g in (of_one.among, of_one.replicas) if g is not None]


def called(loss: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a loss in a function of user code. PyTorch would not capture one of its own losses by itself."""

    def loss_of_a_microbatch(*args: Any, **kwargs: Any) -> Any:
        return loss(*args, **kwargs)

    return loss_of_a_microbatch


def actions_of(schedule: Any, stages: Sequence[Any], n_parts: int) -> list[events.Action]:
    """Return the actions of this rank in a step. Raises MemplanError for schedules whose actions are unknown."""
    if (order := getattr(schedule, "pipeline_order_with_comms", None)) is not None:
        return events.listed(order[stages[0].group_rank])
    stage, kind = stages[0], type(schedule).__name__
    if kind == "ScheduleGPipe":
        return events.gpipe(stage.stage_index, n_parts)
    if kind == "Schedule1F1B":
        return events.one_forward_one_backward(stage.stage_index, stage.num_stages, n_parts)
    raise MemplanError(f"{kind} does not report the order of its stages; memplan plans GPipe, 1F1B and lists of actions")
