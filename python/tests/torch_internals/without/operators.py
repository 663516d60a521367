"""Without its names about operators and what watches them."""

from __future__ import annotations

from typing import Any

import networks
import pytest
import torch
from against_eager import assert_like_eager
from torch import nn
from torch.autograd import forward_ad
from torch.utils.flop_counter import FlopCounterMode

import memplan
from memplan.graph import native
from memplan.torch_internals import absent_device, dispatch, engine
from without.case import Two, assert_eagers_bits, assert_trains, planned, without, x_of


@without(dispatch.KEY, dispatch.KERNELS, dispatch.ALL_OPERATORS, dispatch.DECOMPOSITIONS)
def captures_see_pytorchs_kernels(*_: Any) -> None:
    assert native.overloads() == ()
    assert_trains()
    model = planned(Two())
    model(x_of()).backward()
    assert model.memplan.graphs


@without(dispatch.REGION, dispatch.CAST, dispatch.CAST_CACHE)
def casts_are_pytorchs(*_: Any) -> None:
    assert_trains()
    assert_trains(context=lambda: torch.autocast("cpu", torch.bfloat16))


@without(dispatch.WATCHING)
def a_policy_is_refused(*_: Any) -> None:
    with pytest.raises(memplan.MemplanError, match=r"memplan refuses report\.policy"):
        dispatch.watched(lambda: torch.ones(1))


@without(dispatch.MODE)
def a_mode_is_not_seen(*_: Any) -> None:
    with FlopCounterMode(display=False):
        assert dispatch.mode_now() == ""
    assert_eagers_bits()


@without(dispatch.FUNC_LEVEL)
def a_transform_is_not_seen(*_: Any) -> None:
    assert torch.func.grad(lambda x: x.sum() if dispatch.transform_now() == "" else x.prod())(torch.ones(2) * 3).tolist() == [
        1,
        1,
    ]
    assert_eagers_bits()


@without(dispatch.FORWARD_LEVEL)
def forward_mode_is_not_seen(*_: Any) -> None:
    with forward_ad.dual_level():
        assert not dispatch.is_forward_mode()
    assert_eagers_bits()


@without(dispatch.BATCH_NORM, dispatch.BATCH_NORM_AGAIN)
def no_batch_normalization_runs_twice(*_: Any) -> None:
    model, inputs = networks.make("convolutions")
    assert_like_eager(model, planned(model), inputs)
    assert model.memplan.recomputed and not any("batch_norm" in r.op for r in model.memplan.recomputed)


@without(dispatch.FLASH, dispatch.EFFICIENT, dispatch.HOST_FLASH, dispatch.WRITTEN_OUT)
def attention_is_written_out(*_: Any) -> None:
    q = torch.randn(1, 2, 64, 8, device="meta", requires_grad=True)
    found = memplan.estimate(lambda q: nn.functional.scaled_dot_product_attention(q, q, q).sum(), (q,), device="h100")
    assert max(s.n_bytes for s in found.graph.capture.storages) >= 2 * 64 * 64 * 4


@without(engine.INPUT_METADATA, absent_device.FAKE_TENSOR)
def a_named_gpu_is_refused(*_: Any) -> None:
    with (
        torch.device("meta"),
        pytest.raises(memplan.MemplanError, match="memplan refuses models on the meta device for a named GPU"),
    ):
        memplan.estimate(Two(), [torch.empty(4, 8)], device="h100")


@without(absent_device.SWITCH)
def a_decorated_forward_is_not_looked_at(*_: Any) -> None:
    model = Two()
    model.forward = torch.autocast("cpu", enabled=False)(model.forward)  # type: ignore[method-assign]
    with absent_device.gpu_is_there(model, True) as off:
        assert off == []
