"""Modules and uses of which nobody thinks: eager's bits, or one sentence; the interpreter stays."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import networks
import pytest
import torch
import torch.utils.checkpoint
from torch import nn

import memplan
from memplan.plan import planner
from memplan.plan.emit import Emission, draw, draw_again

WIDTH = 8
N_VIEWS = 120
Call = Callable[..., Any]


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))


class Odd(nn.Module):
    """Does what a function says with `layers` and whatever else it is given."""

    def __init__(self, call: Call, **parts: Any) -> None:
        super().__init__()
        self.layers, self.call = layers(), call
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args: Any) -> Any:
        return self.call(self, *args)


def values(*shape: int) -> torch.Tensor:
    return torch.randn(shape or (4, WIDTH), generator=torch.Generator().manual_seed(1))


def written(m: Any, x: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    with torch.no_grad():
        m.layers[0].weight.mul_(0.9)
    return m.layers(x).pow(2).sum()


def many_views(m: Any, x: torch.Tensor) -> torch.Tensor:
    y = m.layers(x)
    for _ in range(N_VIEWS):
        y = y.t()
    return m.layers(y.reshape(4, WIDTH)).sum()


def random_numbers(m: Any, x: torch.Tensor) -> torch.Tensor:
    y = m.layers(nn.functional.dropout(m.layers(x), 0.5)) * torch.rand(4, WIDTH)
    return (m.layers(y)[torch.randperm(4)] * torch.bernoulli(x.sigmoid())).pow(2).sum()


def infinite(m: Any, x: torch.Tensor) -> torch.Tensor:
    return torch.nan_to_num(m.layers(x) * float("nan"), nan=2.0).add(m.layers(x)).clamp(-float("inf"), 3).sum()


class Sine(torch.autograd.Function):
    """With a gradient that nobody could guess."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return 3 * gradient * ctx.saved_tensors[0].cos()


class Doubled(torch.autograd.Function):
    """Writes into what it is given."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        x.mul_(2)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient * 2


def checkpointed(m: Any, x: torch.Tensor) -> torch.Tensor:
    return torch.utils.checkpoint.checkpoint(m.layers, m.layers(x), use_reentrant=False).pow(2).sum()


CASES: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {
    "no parameters": lambda: (nn.ReLU(), (values(),)),
    "nothing returned": lambda: (Odd(lambda m, x: None), (values(),)),
    "nested results": lambda: (Odd(lambda m, x: {"a": (m.layers(x), [None, {"b": m.layers(x).sum()}]), "c": 3}), (values(),)),
    "empty batch": lambda: (Odd(lambda m, x: m.layers(x).sum()), (values(0, WIDTH),)),
    "empty slice": lambda: (Odd(lambda m, x: m.layers(x)[:, :0].sum() + m.layers(x).sum()), (values(),)),
    "double": lambda: (Odd(lambda m, x: m.layers(x).sum()).double(), (values().double(),)),
    "half": lambda: (Odd(lambda m, x: m.layers(x).float().sum()).half(), (values().half(),)),
    "integers": lambda: (Odd(lambda m, i: m.layers(m.e(i)).sum(), e=nn.Embedding(9, WIDTH)), (torch.arange(5),)),
    "complex": lambda: (Odd(lambda m, x: torch.fft.fft(m.layers(x)).abs().sum()), (values(),)),
    "sparse gradient": lambda: (
        Odd(lambda m, i: m.layers(m.e(i)).sum(), e=nn.Embedding(9, WIDTH, sparse=True)),
        (torch.arange(5),),
    ),
    "input and parameter written": lambda: (Odd(written), (values(),)),
    "views returned": lambda: (Odd(lambda m, x: (m.layers(x).t(), x[0], m.layers[0].weight.t())), (values(),)),
    "many views": lambda: (Odd(many_views), (values(),)),
    "random numbers": lambda: (Odd(random_numbers), (values(),)),
    "infinite": lambda: (Odd(infinite), (values(),)),
    "double, half and float": lambda: (
        Odd(lambda m, x: (m.layers(x).double() @ m.w).half().float().sum(), w=nn.Parameter(values(WIDTH, 2).double())),
        (values(),),
    ),
    "complex parameter": lambda: (
        Odd(lambda m, x: (m.layers(x) * m.w).abs().sum(), w=nn.Parameter(torch.complex(values(WIDTH), values(WIDTH) + 1))),
        (values(),),
    ),
    "own function": lambda: (Odd(lambda m, x: m.layers(Sine.apply(m.layers(x))).sum()), (values(),)),
    "own function that writes": lambda: (Odd(lambda m, x: m.layers(Doubled.apply(m.layers(x))).sum()), (values(),)),
    "checkpoint inside": lambda: (Odd(checkpointed), (values(),)),
    "transposed input": lambda: (Odd(lambda m, x: m.layers(x).sum()), (values(WIDTH, 4).t(),)),
    "nothing trained": lambda: (layers().requires_grad_(False), (values(),)),
    "sizes from data": lambda: (Odd(lambda m, x: m.layers(x)[x.sum(1) > 0].sum()), (values(),)),
}


def tensors(value: Any) -> list[torch.Tensor]:
    return [t for t in torch.utils._pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]


def two_steps(call: Call, model: nn.Module, inputs: tuple[Any, ...]) -> list[torch.Tensor]:
    seen = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        given = [i.clone() for i in inputs]
        results = tensors(call(*given))
        trained = [r.sum() for r in results if r.requires_grad]
        if trained:
            torch.stack([t.to(torch.float64) for t in trained]).sum().backward()
        seen += [*results, *given, *model.parameters(), *model.buffers(), torch.rand(1)]
        seen += [p.grad.to_dense() for p in model.parameters() if p.grad is not None]
        seen = [t.detach().clone() for t in seen]
        model.zero_grad()
    return seen


@pytest.mark.parametrize("name", CASES)
def test_an_odd_module_is_eagers_bit_by_bit(name: str) -> None:
    torch.manual_seed(0)
    model, inputs = CASES[name]()
    eager = copy.deepcopy(model)
    expected = two_steps(eager, eager, inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", memplan.FallbackWarning)
        compiled = memplan.compile(model, "floor+0%", time_limit=0, on_infeasible="smallest")
        got = two_steps(compiled, model, inputs)
    assert len(got) == len(expected)
    for k, (a, b) in enumerate(zip(expected, got)):
        assert a.dtype == b.dtype and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)), k


def test_inputs_that_share_memory_in_another_way_are_refused_where_they_are_written() -> None:
    """PyTorch captures such a model for the way they lay, and would compute something else without a word."""
    model = Odd(lambda m, x, y: m.layers(x.mul_(2) + y).sum())
    apart, together = (values(), values()), values(2 * WIDTH, WIDTH)
    over = (together[:4], together[2:6])
    for first, second in ((apart, over), (over, apart), (over, (together[:4], together[1:5]))):
        torch._dynamo.reset()
        compiled = memplan.compile(model, "100%", time_limit=0)
        compiled(*first)
        with pytest.raises(memplan.MemplanError, match="share memory in another way"):
            compiled(*second)
    reads = Odd(lambda m, x, y: m.layers(x + y).sum())
    compiled = memplan.compile(copy.deepcopy(reads), "100%", time_limit=0)
    assert all(torch.equal(compiled(*given), reads(*given)) for given in (apart, over, apart))


def test_views_of_views_are_no_calls_within_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    def shallow(*args: Any) -> Any:
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(len(inspect.stack(0)) + N_VIEWS)
        try:
            return Emission(*args)
        finally:
            sys.setrecursionlimit(before)

    monkeypatch.setattr(planner, "Emission", shallow)
    model, inputs = CASES["many views"]()
    assert memplan.estimate(model, inputs).planned_bytes > 0


@pytest.mark.filterwarnings("ignore::memplan.FallbackWarning")
def test_inputs_that_pytorch_does_not_capture_are_for_eager() -> None:
    model = layers()
    eager, compiled = model, memplan.compile(copy.deepcopy(model), "100%", time_limit=0)
    sparse, nested = torch.eye(WIDTH).to_sparse(), torch.nested.nested_tensor([values(2, WIDTH), values(3, WIDTH)])
    for given in (sparse, nested, "x", None):
        try:
            expected = eager(given)
        except Exception as error:
            with pytest.raises(type(error)):
                compiled(given)
        else:
            assert all(torch.equal(a, b) for a, b in zip(compiled(given).unbind(), expected.unbind()))
    compiled(values())  # as often as it takes until captures are tried again
    with torch.no_grad():
        assert torch.equal(compiled(values()), model(values())) and not compiled(values()).requires_grad
    with torch.inference_mode():
        assert torch.equal(compiled(values()), model(values()))
    assert torch.equal(compiled(values()), model(values())) and compiled(values()).requires_grad
    away = copy.deepcopy(model).to("meta")
    memplan.compile(away, "100%", time_limit=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "memplan: nothing runs on the meta device", memplan.FallbackWarning)
        away(values().to("meta")).sum().backward()
    assert all(p.grad is not None and p.grad.device.type == "meta" for p in away.parameters())


def test_a_sparse_gradient_is_not_planned_and_said() -> None:
    compiled = memplan.compile(*CASES["sparse gradient"]()[:1], "100%")
    with pytest.warns(memplan.FallbackWarning, match="sparse tensor"):
        compiled(torch.arange(5)).backward()


@pytest.mark.skipif(torch.__version__ < "2.5", reason="older versions do not capture it")
def test_an_lstm_does_not_end_the_interpreter() -> None:
    model = Odd(lambda m, x: m.layers(m.rnn(x)[0]).sum(), rnn=nn.LSTM(WIDTH, WIDTH))
    assert memplan.estimate(model, (values(3, 2, WIDTH),)).planned_bytes > 0


def test_a_copy_of_a_compiled_model_has_a_plan_and_gradients_of_its_own() -> None:
    model, inputs = networks.make("convolutions")
    compiled = memplan.compile(model, "floor+60%", time_limit=0)
    compiled(*inputs).backward()
    report = copy.deepcopy(compiled.memplan)
    again = copy.deepcopy(compiled)
    assert all(p.grad is not None for p in model.parameters())
    model.zero_grad(), again.zero_grad()
    again(*inputs).backward()
    assert all(p.grad is not None for p in again.parameters()) and all(p.grad is None for p in model.parameters())
    assert again.memplan.planned_bytes == compiled.memplan.planned_bytes and again.memplan is not compiled.memplan
    steps = compiled.memplan.graph.planning.steps()
    planning = copy.copy(compiled.memplan.graph.planning)
    del planning, report, again
    gc.collect()
    assert compiled.memplan.graph.planning.steps() == steps
    with pytest.raises(memplan.MemplanError, match="state_dict"):
        pickle.dumps(compiled.memplan)
    other = memplan.compile(networks.make("convolutions")[0])
    other.load_state_dict(compiled.state_dict())


def test_a_draw_and_its_repetition_are_one_whatever_other_threads_draw() -> None:
    """Two threads with dropout: a mask that is drawn again is the first one's."""
    x, wrong = torch.ones(2000), []

    def work() -> None:
        for _ in range(300):
            state, (_, mask) = draw(torch.ops.aten.native_dropout.default, x, 0.5, True)
            again = draw_again(state, torch.ops.aten.native_dropout.default, x, 0.5, True)[1]
            if not torch.equal(mask, again):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
