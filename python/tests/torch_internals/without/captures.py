"""Without PyTorch's names about captures."""

from __future__ import annotations

import builtins
import contextlib
from typing import Any

import pytest
import torch
from against_eager import assert_like_eager

import memplan
from memplan.api import backend_for, compiled_with
from memplan.costs.measure import Costs
from memplan.run import backend
from memplan.run.ledger import LEDGER
from memplan.schedules import schedule_events as events
from memplan.schedules.rank_memory import Rank
from memplan.torch_internals import autograd, capture, dispatch, equal_modules, fake, leaves, module_trace, texts
from without.case import Take, Two, assert_eagers_bits, assert_trains, planned, said, without, x_of


@without(
    capture.AOT,
    capture.BOXED,
    capture.LAZY_MODULE,
    capture.USE_LAZY,
    dispatch.KNOWN_KERNELS,
    dispatch.RUN_KERNEL,
    dispatch.SCHEMA,
    fake.NAMESPACE,
    fake.UNSET,
    texts.CARETS,
    texts.HALVES_TEXT,
    texts.JOINT_TEXT,
)
def bits_are_eagers(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "COSTS", Costs())
    assert_eagers_bits()


@without(equal_modules.CALL, module_trace.BUILD, module_trace.CHECKS, module_trace.RESULT, module_trace.SOURCE)
def all_equal_modules_are_traced(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    with equal_modules.copying_equal_modules(Two()):
        assert not equal_modules.ACTIVE.modules
    assert_trains()


@without(autograd.FORWARD_CLASS)
def the_node_of_a_graph_is_found_by_its_name(*_: Any) -> None:
    before = LEDGER.n_calls
    loss = planned(Two())(x_of())
    assert LEDGER.n_calls == before + 1
    loss.backward()
    assert LEDGER.n_calls == before
    assert_eagers_bits()


@without(capture.CONFIG)
def settings_are_pytorchs(*_: Any) -> None:
    assert capture.limit() == 8 and isinstance(capture.dynamo_settings(allow_rnn=True), contextlib.nullcontext)
    assert_trains()


class Branches(Two):
    def forward(self, x: torch.Tensor) -> Any:
        h = self.layer(x)
        return h.square().sum() if h.sum().item() > 0 else h.sum()


@without(capture.LIMIT)
def the_limit_ends_in_pytorchs_error(*_: Any) -> None:
    assert capture.limit_errors() == ()
    assert_eagers_bits()


class Asks(Two):
    def forward(self, x: torch.Tensor) -> Any:
        return super().forward(x) * (2 if torch.compiler.is_compiling() else 1)


class Begins(Two):
    """Whose input, or a result of it, begins to require a gradient."""

    def __init__(self, of_input: bool = False) -> None:
        super().__init__()
        self.of_input = of_input

    def forward(self, x: torch.Tensor) -> Any:
        return super().forward((x if self.of_input else x * 2).requires_grad_())


@without(leaves.RETURNED)
def what_a_layer_returns_ends_a_capture(*_: Any) -> None:
    model = planned(Begins())
    assert any("requires_grad" in s for s in said(lambda: model(x_of()).backward())) and not model.memplan.graphs


@without(leaves.METHOD)
def an_input_ends_a_capture(*_: Any) -> None:
    model = planned(Begins(of_input=True))
    assert any("requires_grad" in s for s in said(lambda: model(x_of()).backward())) and not model.memplan.graphs


@without(capture.ANSWER)
def who_asks_is_not_told_of(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not said(lambda: planned(Asks())(x_of()))
    monkeypatch.undo()
    assert any("tests whether it is compiled" in s for s in said(lambda: planned(Asks())(x_of())))


@without(capture.COUNT)
def what_is_skipped_is_not_told_of(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    with capture.counting(True) as is_skipped:  # nothing that was captured runs in it
        assert not is_skipped()
    monkeypatch.undo()
    with capture.counting(True) as is_skipped:
        assert is_skipped() == bool(capture.COUNT)
    assert_eagers_bits()


class Prints(Two):
    def forward(self, x: torch.Tensor) -> Any:
        for _ in range(2):
            x = self.layer(x)
            builtins.print(end="")
        return x.square().sum()


def in_parts() -> list[str]:
    return said(lambda: planned(Prints(), fullgraph=False)(x_of()))


@without(capture.CONVERT)
def what_is_given_up_is_not_told_of(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not in_parts()
    with pytest.raises(torch._dynamo.exc.TorchDynamoException):
        planned(Branches())(x_of())
    monkeypatch.undo()
    assert any("runs Prints eagerly" in s for s in in_parts())


class Skips(Two):
    @torch.compiler.disable
    def begin(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).tanh()

    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(self.begin(x)).square().sum()


@without(capture.CUTS)
def a_part_that_is_eager_has_no_line(*_: Any) -> None:
    (sentence,) = (s for s in said(lambda: planned(Skips(), fullgraph=False)(x_of())) if "eagerly" in s)
    assert __file__ not in sentence and "torch.compiler.disable" in sentence


@without(capture.TRACING)
def calls_are_not_watched(*_: Any) -> None:
    model, before = Two(), LEDGER.n_calls
    loss = planned(model)(x_of())
    assert LEDGER.n_calls == before
    loss.backward()
    assert_eagers_bits()


@without(capture.COMPILING)
def graphs_have_no_number(*_: Any) -> None:
    assert_eagers_bits()
    model = planned(Two())
    model(x_of())
    assert model.memplan.graph.name == "graph"


@without(capture.SYMBOLIC)
def symbolic_tracing_is_not_seen(*_: Any) -> None:
    assert not capture.is_symbolically_traced()
    assert_eagers_bits()


@without(capture.REGISTER)
def a_name_is_not_registered(*_: Any) -> None:
    capture.register(lambda *given: None, "memplan_again")
    assert "memplan_again" not in torch.compiler.list_backends(())


@without(capture.EXTRACT)
def all_runs_as_eager_does(*_: Any) -> None:
    model = Two()
    with pytest.warns(memplan.FallbackWarning, match="memplan plans nothing, and all code runs eagerly"):
        assert_like_eager(model, planned(model), (x_of(),))
    assert not model.memplan.graphs


@without(autograd.WILL_RUN)
def both_parts_of_a_backward_run_whole(*_: Any) -> None:
    eager, stage, found = Two(), Two(), []
    stage.load_state_dict(eager.state_dict())
    rank = Rank(events.Replay([1], 3, True, False).run(events.gpipe(1, 1)), {1: 1}, 1, 0, True, 2)
    made = backend_for(backend.Backend, stage, [], False, budget="100%")
    made.feedback = rank.add(1, lambda: stage)
    compiled_with(stage, made, True)
    for model in (eager, stage):
        x = x_of().requires_grad_()
        torch.manual_seed(0)
        loss = model(x)
        found.append([*torch.autograd.grad(loss, x, retain_graph=True), *torch.autograd.grad(loss, list(model.parameters()))])
    assert stage.memplan.graphs
    assert all(torch.equal(a, b) for a, b in zip(*found))
