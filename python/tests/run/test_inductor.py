"""The plan inside Inductor: within the budget as measured, gradients as near to eager's as Inductor's own."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any

import networks
import pytest
import torch
from against_eager import peak_of_step, static_bytes
from torch import fx, nn
from torch._inductor import config

import memplan

KIB = 1024
needs_hook = pytest.mark.skipif(not hasattr(config, "custom_partitioner_fn"), reason="this PyTorch asks no partitioner of ours")

slow = pytest.mark.skipif(not os.environ.get("MEMPLAN_SLOW"), reason="takes a minute; MEMPLAN_SLOW=1 runs it")


class Small(nn.Module):
    """Convolutions with what Inductor fuses between them, and statistics that it writes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.second, self.third = (nn.Conv2d(16, 16, 3, padding=1) for _ in range(2))
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = nn.functional.silu(self.third(torch.relu(self.second(x))))
        return nn.functional.cross_entropy(self.head(x.mean((2, 3))), y)


def step(model: Any, inputs: tuple[Any, ...]) -> torch.Tensor:
    loss = model(*inputs)
    loss.backward()
    return loss.detach()


@needs_hook
@pytest.mark.parametrize(
    ("network", "inputs", "share"),
    [
        (Small, lambda: networks.images(4, 32), 0.7),
        pytest.param(lambda: networks.Transformer(0.0, 16, 1, 30), lambda: networks.sequences(4, 24, 30), 0.8, marks=slow),
    ],
    ids=["convolutions", "transformer"],
)
def test_a_measured_step_is_within_the_budget(
    network: Callable[[], nn.Module], inputs: Callable[[], tuple[Any, ...]], share: float
) -> None:
    torch.manual_seed(0)
    model, given = network(), inputs()
    eager = copy.deepcopy(model)
    expected = step(eager, given)
    base = static_bytes(model, given)
    budget = int(share * (base + peak_of_step(copy.deepcopy(eager), given)))
    state = torch.get_rng_state()
    compiled = memplan.compile(model, budget, inductor=True)
    got = step(compiled, given)
    assert torch.equal(torch.get_rng_state(), state)
    torch.testing.assert_close(got, expected)
    for (name, p), theirs in zip(model.named_parameters(), eager.parameters()):
        assert torch.allclose(p.grad, theirs.grad, rtol=1e-4, atol=1e-5 * float(theirs.grad.abs().max())), name
    for (name, b), theirs in zip(model.named_buffers(), eager.buffers()):
        assert torch.allclose(b, theirs), f"{name} has moved otherwise: measuring is no step"
    report = compiled.memplan
    assert report.budget_bytes == budget and 1 <= report.graph.rounds <= 3 and not report.fallbacks
    measured = base + peak_of_step(compiled, given)
    assert measured == pytest.approx(report.measured_bytes, abs=2 * KIB)
    assert measured <= budget


def without_inductor(self: Any, module: fx.GraphModule, inputs: tuple[Any, ...]) -> Callable[..., Any]:
    """The same plan, run by our executor, which takes no time to compile."""
    from memplan.run.execute import compile_graph
    from memplan.torch_internals.capture import boxed, with_backward

    def compiler(graph: fx.GraphModule, _: Any) -> Any:
        return boxed(compile_graph(graph))

    compilers = dict.fromkeys(("fw_compiler", "bw_compiler", "inference_compiler"), compiler)
    return with_backward(copy.deepcopy(module), list(inputs), **compilers, partition_fn=self.partition)


def fitted(monkeypatch: pytest.MonkeyPatch, outside: list[int], budget: str) -> tuple[Any, list[int]]:
    """A network whose steps are told to take so much more than they do, round by round; and what rounds have planned."""
    from memplan.run import inductor

    measure, planned = inductor.step_bytes, []
    report = inductor.InductorPlanner.report

    def noted(self: Any, emitted: Any, *rest: Any) -> Any:
        planned.append(emitted.peak_bytes)
        return report(self, emitted, *rest)

    monkeypatch.setattr(inductor.InductorBackend, "compile", without_inductor)
    monkeypatch.setattr(inductor, "step_bytes", lambda run, inputs: measure(run, inputs) + outside[len(planned) - 1])
    monkeypatch.setattr(inductor.InductorPlanner, "report", noted)
    torch.manual_seed(0)
    model, inputs = networks.Transformer(0.1, 32, 3, 30), networks.sequences()
    eager = copy.deepcopy(model)
    compiled = memplan.compile(model, budget, inductor=True)
    state = torch.get_rng_state()
    got = step(compiled, inputs)
    torch.set_rng_state(state)
    assert torch.equal(got, step(eager, inputs)), "measuring has drawn numbers"
    assert all(torch.equal(p.grad, q.grad) for p, q in zip(model.parameters(), eager.parameters()))
    return compiled.memplan, planned


@needs_hook
def test_what_is_over_the_budget_lowers_the_next_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    report, planned = fitted(monkeypatch, [64 * KIB] * 3, "floor+70%")
    assert report.graph.rounds == len(planned) >= 2
    assert planned[1] <= planned[0] - 32 * KIB
    assert report.measured_bytes <= report.budget_bytes


@needs_hook
def test_what_is_left_of_the_budget_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    report, planned = fitted(monkeypatch, [-128 * KIB] * 3, "floor+40%")
    assert planned[-1] > planned[0] and report.measured_bytes <= report.budget_bytes


@needs_hook
def test_what_does_not_come_within_the_budget_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(memplan.FallbackWarning, match=r"exceeds its budget of .* with Inductor, after 2 rounds"):
        report, _ = fitted(monkeypatch, [1 << 20] * 3, "floor+50%")
    assert report.measured_bytes > report.budget_bytes


@needs_hook
def test_which_nodes_are_in_no_memory() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    from memplan.graph.fused import fused_nodes

    def function(x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
        a = x.cos()  # its reader is a product
        b = (a @ w).sin().exp()  # sin is read by exp, exp by two
        return [b.tan().sum(), b.neg().t().mm(w).relu()]  # tan by a sum, neg by a view for a product, relu by the caller

    graph = make_fx(function, tracing_mode="fake")(torch.ones(8, 8), torch.ones(8, 8)).graph
    assert {n.name for n in fused_nodes(graph)} == {"sin", "tan"}


@pytest.mark.skipif(hasattr(config, "custom_partitioner_fn"), reason="this PyTorch has the hook")
def test_an_older_pytorch_says_so() -> None:
    with pytest.raises(memplan.MemplanError, match="memplan refuses inductor=True, which needs a newer PyTorch"):
        memplan.compile(networks.Tied(), inductor=True)
