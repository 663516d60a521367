"""Without its names about tensors and autograd."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function

import memplan
from memplan.costs.measure import host_workspaces
from memplan.run import outside_tensors
from memplan.run.ledger import LEDGER
from memplan.run.saved_tensors import OverwrittenError
from memplan.torch_internals import autograd, batch_norm, modules, tensors
from without.case import Take, Two, assert_eagers_bits, planned, without, x_of


@without(autograd.KEEPS_GRAPH)
def a_graph_that_is_kept_is_seen(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    for row, name in ((autograd.ENGINE, "place"), (outside_tensors, "PYTORCHS")):
        monkeypatch.setattr(row, name, getattr(row, name))  # both as they are, at the end
    monkeypatch.setattr(torch.autograd, "_engine_run_backward", torch.autograd._engine_run_backward)
    autograd.note_what_is_kept()
    monkeypatch.setattr(outside_tensors, "PYTORCHS", autograd.ENGINE.get())
    loss, before = planned(Two())(x_of()), LEDGER.n_calls
    loss.backward(retain_graph=True)
    assert LEDGER.n_calls == before
    loss.backward()
    assert LEDGER.n_calls == before - 1


@without(autograd.BEGIN_EVENTS, autograd.END_EVENTS, autograd.EVENTS_CONFIG)
def torch_profiler_has_the_same_events(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(64, 64)
    calls = [lambda: torch.softmax(x.t().contiguous() @ x, 1), lambda: torch.linalg.qr(x), x.sort]
    here = host_workspaces(calls)
    monkeypatch.undo()
    torch.set_num_threads(1)
    assert here == host_workspaces(calls) and max(here) > 0


@without(tensors.TREE_ITER)
def own_classes_are_not_taken_apart(*_: Any) -> None:
    value = {"a": [torch.ones(1), (2, None)], "b": torch.return_types.max((torch.ones(1), torch.zeros(1)))}
    assert len(list(tensors.tree_iter(value))) == 5
    assert_eagers_bits()


@without(tensors.VERSION)
def writes_in_between_are_not_noticed(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    def overwritten() -> None:
        model = Two(shows=True)
        outputs = planned(model)(x_of())
        outputs.detach().zero_()
        outputs.sum().backward()

    overwritten()
    monkeypatch.undo()
    with pytest.raises((OverwrittenError, RuntimeError), match="inplace"):
        overwritten()


@without(tensors.BASE)
def gradients_of_gradients_of_views_are_refused(*_: Any) -> None:
    class Views(Two):
        def forward(self, x: torch.Tensor) -> Any:
            h = torch.tanh(self.layer(x))
            return h.view(-1), h.t()

    x = x_of().requires_grad_()
    with pytest.raises(memplan.MemplanError, match=re.escape("torch.Tensor._base")):
        torch.autograd.grad(planned(Views())(x)[0].sum(), x, create_graph=True)
    assert_eagers_bits()


@without(tensors.HOOKS, tensors.HOOKS_BEHIND, modules.HOOKS_BEFORE, modules.HOOKS_BEHIND)
def hooks_are_not_seen_by_a_step(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Two()
    optimizer, weight = torch.optim.SGD(model.parameters(), lr=0.1), model.layer.weight
    if not tensors.HOOKS:
        weight.register_hook(lambda gradient: gradient)
    elif not tensors.HOOKS_BEHIND:
        weight.register_post_accumulate_grad_hook(lambda parameter: None)
    elif not modules.HOOKS_BEFORE:
        optimizer.register_step_pre_hook(lambda *given: None)
    else:
        optimizer.register_step_post_hook(lambda *given: None)
    step = memplan.TrainStep(model, None, optimizer, "100%")
    step(x_of())
    monkeypatch.undo()
    with pytest.raises(memplan.MemplanError, match="hooks"):
        step(x_of())


@without(tensors.UNWRAP)
def a_parameter_is_cast_at_each_use(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    def n_casts() -> int:
        model = Two()
        with torch.autocast("cpu", torch.bfloat16):
            report = memplan.estimate(model, (x_of(),))
        return sum("_to_copy" in o.op and o.phase == "forward" for o in report.graph.capture.operations)

    more = n_casts()
    monkeypatch.undo()
    assert n_casts() < more


@without(autograd.ENGINE, autograd.RAW_SAVED)
def a_loss_outside_is_in_no_plan(*_: Any) -> None:
    model = planned(Two(shows=True))
    outputs = model(x_of())
    if not autograd.ENGINE:
        assert not outside_tensors.WATCHED
    assert outside_tensors.saved_storages([outputs.square().grad_fn], set()) == {} or not autograd.ENGINE
    outputs.square().sum().backward()


@without(autograd.TOP_HOOKS)
def hooks_around_a_call_are_not_seen(*_: Any) -> None:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert autograd.saved_tensors_hook() is None


@without(autograd.PUSH_HOOKS, autograd.POP_HOOKS)
def nodes_may_have_packed_what_they_save(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where PyTorch does not show it."""
    x = x_of().requires_grad_()
    monkeypatch.setattr(autograd, "SHOWS_PACKED", False)
    assert list(autograd.saved_by(x.exp().grad_fn)) == []
    monkeypatch.undo()
    for name in ("_push_saved_tensors_default_hooks", "_pop_saved_tensors_default_hooks"):
        monkeypatch.setattr(torch._C._autograd, name, getattr(torch._C._autograd, name))  # as they are, at the end
    monkeypatch.setattr(autograd, "SHOWS_PACKED", False)
    autograd.note_who_packs()
    unpacked: list[torch.Tensor] = []
    before = x.exp()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: unpacked.append(t) or t):
        packed = x.exp()
    behind = x.exp()
    saved = [[t.data_ptr() for t in autograd.saved_by(y.grad_fn)] for y in (before, packed, behind)]
    assert saved == [[before.data_ptr()], [], [behind.data_ptr()]] and not unpacked


@without(autograd.PROFILING)
def a_profiler_is_not_seen(*_: Any) -> None:
    with profile(activities=[ProfilerActivity.CPU]), record_function("here"):
        assert not autograd.profiler_is_on()
    assert_eagers_bits()


@without(batch_norm.DISPATCH, batch_norm.IN_KERNEL)
def pytorchs_shapes_of_batch_normalization_count(*_: Any) -> None:
    pytorchs = torch._subclasses.FakeTensorMode._dispatch_impl
    with batch_norm.batch_norm_rules():
        assert torch._subclasses.FakeTensorMode._dispatch_impl is pytorchs
    assert_eagers_bits()
