"""Without its names about modules and optimizers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import memplan
from memplan import compiled_modules
from memplan.errors import MemplanError
from memplan.graph import shards
from memplan.run import in_place
from memplan.step.eager_step import CALLS, Requests, recorded_step
from memplan.torch_internals import autocast_on_meta, autograd, modules, sharding, without_gpu
from without.case import Take, Two, assert_eagers_bits, planned, said, without, x_of


@without(modules.CALL)
def hooks_of_the_whole_run(*_: Any) -> None:
    model, seen = Two(), []
    model.register_forward_hook(lambda *given: seen.append(len(given)))
    planned(model)(x_of())
    assert seen == [3] and model.memplan.graphs


@without(modules.COMPILED_CALL)
def a_shallow_copy_is_eager(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in (in_place, compiled_modules):
        monkeypatch.setattr(file, "COMPILED", "_gone")
        monkeypatch.setattr(file, "OURS", ("_gone", *compiled_modules.OURS[1:]))
    assert_eagers_bits()
    model = planned(Two())
    again = copy.copy(model)
    assert torch.isfinite(again(x_of())) and not again.memplan.graphs
    memplan.uncompile(model)


@without(modules.ALL_HOOKS)
def hooks_on_all_modules_are_not_seen(*_: Any) -> None:
    handle = nn.modules.module.register_module_forward_hook(lambda *given: None)
    try:
        assert not modules.has_hooks_on_all()
    finally:
        handle.remove()
    assert_eagers_bits()


@without(modules.REPLICA)
def a_replica_is_compiled_for_itself(*_: Any) -> None:
    replica = planned(Two())._replicate_for_data_parallel()
    replica.layer, replica.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)
    replica(x_of()).backward()
    assert replica.memplan.graphs


@without(modules.ACTIVE)
def no_replica_is_active(*_: Any) -> None:
    assert modules.active_replica() is None
    assert_eagers_bits()


@without(modules.PARAMETRIZE_CACHE)
def cached_parametrizations_are_not_seen(*_: Any) -> None:
    with torch.nn.utils.parametrize.cached():
        assert not modules.parametrizations_are_cached()
    assert_eagers_bits()


@without(modules.OPTIMIZED)
def what_torch_compile_made_is_a_module(*_: Any) -> None:
    assert modules.inside(torch.compile(Two(), backend="eager")) is None


@without(modules.STEPPED)
def a_scheduler_warns(*_: Any) -> None:
    model = Two()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    memplan.TrainStep(model, None, optimizer, "100%")(x_of())
    with pytest.warns(UserWarning, match=r"lr_scheduler\.step"):
        scheduler.step()


@without(sharding.STATE)
def nothing_is_known_of_shards(*_: Any) -> None:
    with pytest.raises(memplan.MemplanError, match="reads the state of models sharded by fully_shard"):
        shards.groups_of(Two())
    assert_eagers_bits()


@without(sharding.FAKE_STORE)
def there_is_no_mesh(*_: Any) -> None:
    with pytest.raises(memplan.MemplanError, match=r"a process group of absent ranks.*memplan refuses mesh="):
        memplan.estimate(Two(), (x_of(),), mesh={"shard": 2})


@without(sharding.NO_META)
def shards_on_the_meta_device_are_refused(*_: Any) -> None:
    with pytest.raises(
        memplan.MemplanError, match=r"refuses models sharded by fully_shard on the meta device|no public fully_shard"
    ):
        memplan.estimate(Two().to("meta"), (x_of().to("meta"),), mesh={"shard": 2}, device="h100")


@without(autograd.AFTER_BACKWARD, modules.OWN_HOOKS, modules.OWN_HOOKS_BEFORE)
def tensors_that_a_hook_stores_are_in_no_plan(*_: Any) -> None:
    """The hook runs all the same."""
    model = planned(Two())
    hook = model.register_forward_hook if modules.OWN_HOOKS_BEFORE else model.register_forward_pre_hook
    hook(lambda module, *_: setattr(module, "kept", torch.zeros(1 << 20)))
    assert not any("user code stores" in s for s in said(lambda: model(x_of()).backward()))
    assert model.kept.numel() == 1 << 20


def of_step(kind: str, **options: Any) -> Requests:
    """The requests of a whole step on the meta device, in which a tensor has two readers."""
    model = nn.Linear(64, 64, device="meta")
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.1, **options)

    def step(x: torch.Tensor) -> None:
        for _ in range(4):
            x = x + model(x).sin()
        x.sum().backward()
        optimizer.step()

    return recorded_step(step, (torch.empty(256, 64),), {}, True)


@without(without_gpu.FOREACH)
def temporaries_of_one_parameter_count(*_: Any) -> None:
    assert len(of_step("AdamW").events) == len(of_step("AdamW", foreach=False).events)


@without(without_gpu.FUSED)
def fused_optimizers_are_refused(*_: Any) -> None:
    with pytest.raises(MemplanError, match="fused=True"):
        of_step("AdamW", fused=True)


@without(without_gpu.CHECKPOINT_DEVICE)
def checkpoints_within_autocast_are_refused(*_: Any) -> None:
    model = nn.Linear(8, 8, device="meta")

    def step(x: torch.Tensor) -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False).sum()
        loss.backward()

    with pytest.raises(MemplanError, match="Recomputed values"):
        recorded_step(step, (torch.empty(4, 8),), {}, True)


@without(without_gpu.FUSED_RMS_NORM)
def parts_of_rms_normalization_count(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    norm = nn.RMSNorm(64, device="meta")

    def requests() -> int:
        return len(recorded_step(lambda x: norm(x).sum().backward(), (torch.empty(8, 64),), {}, True).events)

    in_parts = requests()
    monkeypatch.undo()
    assert requests() < in_parts


@without(without_gpu.NODE_NOW)
def sums_of_gradients_are_new_tensors(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    def allocations() -> int:
        return sum(n_bytes > 0 for _, n_bytes in of_step("SGD").events)

    n_without = allocations()
    monkeypatch.undo()
    # each call adds three gradients of the weight, of the bias and of values. The first of the three addends is a view, and
    # nothing is added in place to a view
    assert allocations() == n_without - 3 * 2 * CALLS


@without(autocast_on_meta.INCLUDE, autocast_on_meta.EXCLUDE)
def autocast_is_refused_in_a_whole_step(*_: Any) -> None:
    layer = nn.Linear(4, 4, device="meta")

    def step(x: torch.Tensor) -> None:
        with torch.autocast("cuda", torch.float16):
            layer(x).sum().backward()

    with pytest.raises(memplan.MemplanError, match="no autocast on the meta device"):
        recorded_step(step, (torch.empty(2, 4),), {}, True)
