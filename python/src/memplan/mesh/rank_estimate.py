"""Estimates for one rank in a single process, before the devices are rented. The graph equals the graph of real ranks."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

import torch

from memplan.api import backend_for, report_of
from memplan.budget import Budget, only_bytes, total_bytes
from memplan.errors import MemplanError
from memplan.graph.shards import GROUPS
from memplan.graph.unroll import Unequal
from memplan.memory.optimizer_state import optimizer_bytes
from memplan.mesh.kinds import BUCKETS, BUFFER, GRAD, INPUT, PARAM, SHARDED_GRAD, SHARDED_PARAM, STATE
from memplan.mesh.rank_report import RankReport
from memplan.mesh.ranks import Blocks, Mesh, Placed, Split, fake_ranks, placed
from memplan.run.backend import Backend
from memplan.torch_internals import sharding


def is_on_fake_ranks(model: Any) -> bool:
    """Whether the user has sharded the model on a fake process group."""
    kind = sharding.kind()
    return isinstance(model, kind) and bool(kind) and torch.distributed.get_backend() == sharding.FAKE


def estimate_on(
    given: Any,
    model: Any,
    inputs: Sequence[Any],
    *,
    kwargs: dict[str, Any],
    tp_plan: Split = None,
    blocks: Blocks = None,
    shard: dict[str, Any] | None = None,
    **options: Any,
) -> RankReport:
    """Estimate a model on a mesh. memplan places a copy of the model on the mesh."""
    mesh = Mesh.read(given) if not isinstance(given, Mesh) else given
    named = {"kwargs": kwargs, "tp_plan": tp_plan, "blocks": blocks, "shard": shard, **options}
    again = functools.partial(estimate_on, model=model, inputs=inputs, **named)
    with fake_ranks(mesh.n_ranks):
        # with `device`, no operator runs, so that equal blocks can be omitted: the extended graph is not executable
        is_away = options.get("device") is not None
        for is_short in (True, False) if is_away else (False,):
            with contextlib.suppress(Unequal):
                here = placed(model, mesh, tp_plan, blocks, shard or {}, is_short)
                return of_rank(here, mesh, inputs, kwargs, again, **options)
    raise AssertionError


def estimate_sharded(model: Any, inputs: Sequence[Any], *, kwargs: dict[str, Any], **options: Any) -> RankReport:
    """Estimate a model that is on a fake process group already."""

    def again(mesh: Mesh) -> RankReport:
        raise MemplanError(f"to estimate it on {mesh}, shard it on a fake process group of {mesh.n_ranks} ranks")

    found = of_rank(Placed(model), Mesh(), inputs, kwargs, again, **options)
    group = GROUPS[-1]
    replicas = 1 if group.replicas is None else torch.distributed.get_world_size(group.replicas)
    found.mesh, found.n_blocks = Mesh(replicas, group.n_ranks), sum(isinstance(m, sharding.kind()) for m in model.modules()) - 1
    return found


def of_rank(
    here: Placed, mesh: Mesh, inputs: Sequence[Any], kwargs: dict[str, Any], again: Any, *, budget: Budget, **options: Any
) -> RankReport:
    optimizer, accumulate = options.pop("optimizer", None), options.pop("accumulate", False)
    reserve = only_bytes(options.pop("reserve", 0))
    state = optimizer_bytes(optimizer, here.own) if optimizer is not None else 0
    bucket_bytes = here.gradient_bytes() if here.has_buckets else 0
    gradients = here.gradient_bytes() if accumulate else 0
    counted = reserve + state + bucket_bytes + gradients
    backend = backend_for(Backend, here.model, [], False, budget=budget, reserve=counted, only_report=True, **options)
    backend.repeats = here.repeats
    if backend.options.meant is not None:
        backend.options.meant.is_split = sharding.is_split(here.model)
    is_sharded = isinstance(here.model, sharding.kind())
    static = {
        SHARDED_PARAM if is_sharded else PARAM: here.parameter_bytes(),
        BUFFER: total_bytes(here.model.buffers()),
        SHARDED_GRAD if is_sharded else GRAD: gradients,
        STATE: state,
        BUCKETS: bucket_bytes,
    }
    backend.report = report = RankReport(mesh, here.n_blocks, static, again)
    report_of(backend, here.model, inputs, kwargs)
    report.planner, report.options = backend.estimated, backend.options
    static[INPUT] = sum(s.n_bytes for s in report.graph.capture.storages if s.kind == "input")
    return report
