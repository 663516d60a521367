"""`optimizer=` counts the bytes that a real step leaves in the optimizer's state, for PyTorch's optimizers and for others."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import nn

import memplan
from memplan.memory.optimizer_state import optimizer_bytes

CLASSES = [
    kind
    for _, kind in sorted(inspect.getmembers(torch.optim, inspect.isclass))
    if issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.Optimizer
]
NOT_HERE = {"SparseAdam", "LBFGS"}  # sparse gradients; a closure


def size(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, dict):
        return sum(map(size, value.values()))
    return sum(map(size, value)) if isinstance(value, (list, tuple)) else 0


class Own(torch.optim.Optimizer):
    """Calls `keep(state, p)` for each parameter in its first step."""

    def __init__(self, parameters: Any, keep: Any = None, lr: float = 1e-3) -> None:
        super().__init__(parameters, {"lr": lr, "keep": keep})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None and not self.state[p]:
                    group["keep"](self.state[p], p)


def kronecker(state: dict[str, Any], p: torch.Tensor) -> None:
    if p.ndim == 2:
        state["left"], state["right"] = torch.zeros(len(p), len(p)), torch.zeros(p.shape[1], p.shape[1])
        state["left"] += p.grad @ p.grad.t()


def eight_bits(state: dict[str, Any], p: torch.Tensor) -> None:
    state.update(code=torch.zeros(p.numel(), dtype=torch.uint8), scale=torch.zeros(-(-p.numel() // 256)))


def flat(state: dict[str, Any], p: torch.Tensor) -> None:
    state.update(moment=torch.zeros(p.numel()), nested={"list": [torch.zeros(3), torch.zeros(2, dtype=torch.int64)]})


def by_norm(state: dict[str, Any], p: torch.Tensor) -> None:
    state["norm"] = torch.full((4,), float(p.grad.norm()))


class Flat(torch.optim.Optimizer):
    """One moment for all parameters, stored beside the first."""

    def __init__(self, parameters: Any, lr: float = 1e-3) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        params = self.param_groups[0]["params"]
        gradients = torch.cat([p.grad.flatten() for p in params])
        state = self.state[params[0]]
        state["moment"] = state.get("moment", torch.zeros_like(gradients)) * 0.9 + gradients


def model_of() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.Linear(40, 16), nn.LayerNorm(16))


def after_a_step(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    model(torch.randn(8, 24)).square().mean().backward()
    optimizer.step()
    return size(dict(optimizer.state))


OTHERS = {
    "kronecker": lambda p: Own(p, kronecker),
    "eight bits": lambda p: Own(p, eight_bits),
    "nested": lambda p: Own(p, flat),
    "by a norm": lambda p: Own(p, by_norm),
    "flat": Flat,
    "SGD with momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "amsgrad": lambda p: torch.optim.AdamW(p, amsgrad=True),
    "centred RMSprop": lambda p: torch.optim.RMSprop(p, centered=True, momentum=0.9),
    "two groups": lambda p: torch.optim.Adam([{"params": list(p)[:2]}, {"params": list(p)[:0]}]),
}


@pytest.mark.parametrize("kind", [k for k in CLASSES if k.__name__ not in NOT_HERE], ids=lambda k: k.__name__)
def test_state_of_pytorchs_optimizers_is_counted_to_the_byte(kind: Any) -> None:
    model = model_of()
    parameters = [p for p in model.parameters() if p.ndim == 2 or kind.__name__ != "Muon"]
    optimizer = kind(parameters)
    before = optimizer_bytes(optimizer)
    assert before == after_a_step(model, optimizer)
    assert optimizer_bytes(optimizer) == before, "state that exists is counted as it is"


@pytest.mark.parametrize("name", OTHERS)
def test_state_of_other_shapes_is_counted_to_the_byte(name: str) -> None:
    model = model_of()
    optimizer = OTHERS[name](model.parameters())
    before = optimizer_bytes(optimizer)
    assert before == after_a_step(model, optimizer) > 0


def of_timm() -> list[str]:
    """The names of its optimizers; those of other packages are not installed."""
    try:
        import timm.optim
    except ImportError:
        return []
    return [name for name in timm.optim.list_optimizers() if not name.startswith(("bnb", "fused", "apex"))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", of_timm())
def test_state_of_timms_optimizers_is_counted_to_the_byte(name: str) -> None:
    """AdaHessian differentiates gradients and has a counter from the start; kron has compiled code; others have generators."""
    import timm.optim

    model = model_of()
    optimizer = timm.optim.create_optimizer_v2(model, opt=name, lr=1e-3)
    before = optimizer_bytes(optimizer)
    model(torch.randn(8, 24)).square().mean().backward(create_graph="hessian" in name)
    optimizer.step()
    assert before == size(dict(optimizer.state))


def test_state_of_transformers_adafactor_is_counted_to_the_byte() -> None:
    optimization = pytest.importorskip("transformers.optimization")
    model = model_of()
    optimizer = optimization.Adafactor(model.parameters())
    before = optimizer_bytes(optimizer)
    assert before == after_a_step(model, optimizer) > 0


def test_state_of_sparse_gradients_is_counted_to_the_byte() -> None:
    model = nn.EmbeddingBag(50, 8, sparse=True)
    optimizer = torch.optim.SparseAdam(model.parameters())
    before = optimizer_bytes(optimizer)
    model(torch.zeros(2, 3, dtype=torch.int64)).sum().backward()
    optimizer.step()
    assert before == size(dict(optimizer.state)) == 2 * 4 * 50 * 8


class Around(torch.optim.Optimizer):
    """Moves along the gradient, asks for the loss there, and has another optimizer step from where it was, as SAM does."""

    def __init__(self, parameters: Any, inner: Any, lr: float = 1e-3) -> None:
        super().__init__(parameters, {"lr": lr})
        self.inner = inner(self.param_groups, lr=lr)
        self.param_groups = self.inner.param_groups

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        assert closure is not None, "it needs a closure"
        for p in self.param_groups[0]["params"]:
            self.state[p]["before"] = p.clone()
            p.add_(p.grad)
        self.zero_grad()
        with torch.enable_grad():
            closure()
        for p in self.param_groups[0]["params"]:
            p.copy_(self.state[p]["before"])
        self.inner.step()


def test_an_optimizer_around_another_is_counted_with_it_and_changes_nothing() -> None:
    model = model_of()
    before = [p.detach().clone() for p in model.parameters()]
    optimizer = Around(model.parameters(), torch.optim.AdamW)
    found = optimizer_bytes(optimizer)
    numbers, n = sum(p.numel() for p in model.parameters()), len(before)
    assert found == 4 * (3 * numbers + n)
    assert all(map(torch.equal, before, model.parameters())) and all(p.grad is None for p in model.parameters())
    assert not optimizer.state and not optimizer.inner.state


def test_hooks_schedulers_and_frozen_parameters() -> None:
    model = model_of()
    model[0].requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters())
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    calls: list[int] = []
    optimizer.register_step_pre_hook(lambda *_: calls.append(1))
    before = optimizer_bytes(optimizer)
    assert not calls
    assert before == after_a_step(model, optimizer)


def test_state_from_the_constructor_is_that_of_a_rank() -> None:
    """Adagrad makes its sums at once, of the whole parameter; a rank has a part."""
    whole, part = nn.Parameter(torch.zeros(64, 3)), nn.Parameter(torch.zeros(16, 3))
    optimizer = torch.optim.Adagrad([whole])
    assert optimizer_bytes(optimizer) == 4 * 64 * 3 + 4
    assert optimizer_bytes(optimizer, {id(whole): part}) == 4 * 16 * 3 + 4


def test_state_of_a_step_that_was_broken_off() -> None:
    """As where memory runs out in an update: a counter is there, and its moments are not."""
    model = model_of()
    optimizer = torch.optim.AdamW(model.parameters())
    expected = optimizer_bytes(optimizer)
    after_a_step(model, optimizer)
    last = list(model.parameters())[-1]
    del optimizer.state[last]["exp_avg"], optimizer.state[last]["exp_avg_sq"]
    model[0].weight.grad = None
    del optimizer.state[model[0].weight]
    assert optimizer_bytes(optimizer) == expected


def test_an_optimizer_that_holds_a_module_is_refused() -> None:
    class Holds(Own):
        def __init__(self, model: nn.Module) -> None:
            super().__init__(model.parameters(), flat)
            self.model = model

    with pytest.raises(memplan.MemplanError, match=r"its state contains a Sequential\); .*reserve="):
        optimizer_bytes(Holds(model_of()))


def test_it_is_in_the_estimate() -> None:
    model, x = nn.Sequential(nn.Linear(24, 40), nn.Linear(40, 4)), torch.randn(8, 24)
    optimizer = Own(model.parameters(), kronecker)
    added = memplan.estimate(model, (x,), optimizer=optimizer).static_bytes - memplan.estimate(model, (x,)).static_bytes
    assert added == 4 * (40 * 40 + 24 * 24 + 4 * 4 + 40 * 40)


@pytest.mark.parametrize("name", ["LBFGS", "a step with arguments"])
def test_a_step_that_needs_arguments_is_refused_with_a_remedy(name: str) -> None:
    class Needs(Own):
        def step(self, loss: Any) -> None:  # type: ignore[override]
            raise AssertionError("never called")

    model = model_of()
    optimizer = torch.optim.LBFGS(model.parameters()) if name == "LBFGS" else Needs(model.parameters())
    with pytest.raises(memplan.MemplanError, match=r"its step needs (closure|loss), .*reserve="):
        memplan.estimate(model, (torch.randn(8, 24),), optimizer=optimizer)


def test_a_large_model_takes_no_memory_and_runs_nothing() -> None:
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(8192, 8192, bias=False) for _ in range(40)))
    assert optimizer_bytes(torch.optim.AdamW(model.parameters())) == 40 * (8192 * 8192 * 8 + 4)


def test_a_step_that_needs_values_of_a_large_parameter_is_refused() -> None:
    with torch.device("meta"):
        model = nn.Linear(8192, 8192)
    with pytest.raises(memplan.MemplanError, match=r"cannot run on the meta device; .*reserve="):
        optimizer_bytes(Own(model.parameters(), by_norm))
