"""Unusual uses of backward: bits as in eager PyTorch or an exception, and the next call is correct."""

from __future__ import annotations

import copy
import gc
import random
import signal
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from networks import layered
from torch import nn

import memplan
from memplan.library.planning import Planning
from memplan.run.execute import compile_graph

MANY = 10_000  # nodes


def small(model: nn.Module) -> Any:
    return memplan.compile(model, "100%", time_limit=0)


def gradients(model: nn.Module, call: Callable[..., Any], *inputs: Any) -> list[torch.Tensor]:
    model.zero_grad()
    call(*inputs).pow(2).sum().backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) > 0 and all(map(torch.equal, a, b))


def test_backward_twice_is_eagers_if_the_graph_is_retained_and_else_refused() -> None:
    model, x = layered()
    eager = copy.deepcopy(model)
    compiled = small(model)
    for call in (compiled, eager):
        loss = call(x).pow(2).sum()
        loss.backward(retain_graph=True)
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
    assert same([p.grad for p in model.parameters()], [p.grad for p in eager.parameters()])  # type: ignore[misc]


def test_a_hook_that_raises_leaves_the_next_call_right() -> None:
    model, x = layered()
    eager = copy.deepcopy(model)
    compiled = small(model)

    def wrong(_: torch.Tensor) -> None:
        raise ZeroDivisionError

    hook = next(model.parameters()).register_hook(wrong)
    with pytest.raises(ZeroDivisionError):
        gradients(model, compiled, x)
    hook.remove()
    assert same(gradients(model, compiled, x), gradients(eager, eager, x))


@pytest.mark.parametrize("changed", ["input", "parameter", "output"])
def test_what_backward_needs_cannot_be_changed_before_it(changed: str) -> None:
    model, x = layered()
    result = small(nn.Sequential(model, nn.Tanh()))(x)
    with torch.no_grad():
        {"input": x, "parameter": model[2].weight, "output": result}[changed].mul_(2)  # type: ignore[index]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_parameters_are_frozen_and_freed_between_steps() -> None:
    """PyTorch 2.7 and 2.10 would run the old capture on, in which nothing comes for what was freed."""
    model, x = layered()
    eager = copy.deepcopy(model)
    compiled = small(model)
    for is_trained in (False, True, False, True):
        for each in (model, eager):
            each[0].requires_grad_(is_trained)
        assert same(gradients(model, compiled, x), gradients(eager, eager, x))
        assert all((p.grad is None) == (q.grad is None) for p, q in zip(model.parameters(), eager.parameters()))
    assert len(compiled.memplan.graphs) == 2


def test_by_name_what_was_freed_has_its_gradient_or_is_refused() -> None:
    model, x = layered()
    eager = copy.deepcopy(model)
    compiled = torch.compile(model, backend="memplan", options={"budget": "100%"})
    model[0].requires_grad_(False)
    gradients(model, compiled, x)
    model[0].requires_grad_(True)
    try:
        assert same(gradients(model, compiled, x), gradients(eager, eager, x))
    except memplan.MemplanError as error:
        assert "was frozen at capture" in str(error) and torch.__version__ < "2.15"
    torch.compiler.reset()
    assert same(gradients(model, compiled, x), gradients(eager, eager, x))


def test_hooks_on_saved_tensors_see_what_is_saved() -> None:
    model, x = layered()
    eager = copy.deepcopy(model)
    packed: list[torch.Size] = []

    def pack(t: torch.Tensor) -> torch.Tensor:
        packed.append(t.shape)
        return t.clone()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        got = gradients(model, small(model), x)
    assert packed and same(got, gradients(eager, eager, x))


def interrupted(call: Callable[[], Any], seconds: float) -> bool:
    """Whether Ctrl-C after so long has ended the call."""

    def press(*_: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGALRM, press), signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            call()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return True
    finally:
        signal.signal(signal.SIGALRM, before[0])
        signal.signal(signal.SIGINT, before[1])
    return False


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # PyTorch's own callbacks are interrupted, too
def test_ctrl_c_anywhere_leaves_the_next_call_right() -> None:
    chance = random.Random(1)
    model, x = layered()
    expected = gradients(model, model, x)
    small(model)(x)
    torch._dynamo.reset()
    start = time.monotonic()
    gradients(model, small(model), x)
    took = time.monotonic() - start
    for k in range(8):
        torch._dynamo.reset()
        compiled = small(model)
        interrupted(lambda compiled=compiled: gradients(model, compiled, x), (k + chance.random()) * took / 8)
        assert same(gradients(model, compiled, x), expected), k


def test_ctrl_c_in_backward_leaves_the_next_call_right() -> None:
    chance = random.Random(1)
    model, x = layered(40, 64)
    expected = gradients(model, model, x)
    compiled = small(model)
    gradients(model, compiled, x)
    start = time.monotonic()
    gradients(model, compiled, x)
    took = time.monotonic() - start
    n = sum(interrupted(lambda: gradients(model, compiled, x), 1e-6 + chance.random() * took) for _ in range(30))
    assert n > 0 and same(gradients(model, compiled, x), expected)


@pytest.mark.skipif(torch.__version__ < "2.5", reason="PyTorch 2.4 does not capture what is compiled within a step")
def test_what_was_compiled_goes_with_its_model() -> None:
    """No plan, graph, model, or optimizer stays. What PyTorch itself keeps until torch._dynamo.reset is not ours."""
    left = []
    for _ in range(2):
        model, x = layered()
        compiled = small(model)
        gradients(model, compiled, x)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model.zero_grad()
        step = memplan.TrainStep(model, lambda y, t: (y - t).sum(), optimizer, "100%", time_limit=0)
        step(x, x)
        left += [weakref.ref(o) for o in (model, optimizer, compiled.memplan.graph, step.memplan.graph)]
        left += [weakref.ref(o.graph.planning) for o in (compiled.memplan, step.memplan)]
        del model, compiled, optimizer, step
    gc.collect()
    assert [r() for r in left] == [None] * len(left)


def test_a_graph_of_ten_thousand_operators_is_no_deep_call() -> None:
    graph = torch.fx.Graph()
    node = graph.placeholder("x")
    node.meta["val"] = torch.ones(1)
    for _ in range(MANY):
        node = graph.call_function(torch.ops.aten.relu.default, (node,))
        node.meta["val"] = torch.ones(1)
    graph.output((node,)).meta = {}
    assert compile_graph(torch.fx.GraphModule(nn.Module(), graph)).code.count("\n") >= MANY  # type: ignore[attr-defined]
    planning = Planning("many")
    storages = [planning.add_storage("a", "activation", 100) for _ in range(MANY)]
    for k in range(MANY):
        planning.connect(planning.add_node("f", "op", "forward", 1e-6, 0), "writes", storages[k : k + 1])
        planning.connect(k, "reads", storages[max(k - 1, 0) : k])
    planning.finish()
    planning.set("time_limit", 1)
    assert planning.number("keep_all_bytes") == 200
    assert planning.solve(200) and len(planning.steps()) == MANY
