"""Common uses of a module, with a module that memplan has compiled in place and with the same module in eager PyTorch."""

from __future__ import annotations

import copy
import io
import pickle
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.utils import prune

import memplan

WIDTH = 8
Compile = Callable[[Any], Any]
Tensors = list[torch.Tensor]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.last = nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, scale: float = 1.0, *, shift: float = 0.0) -> torch.Tensor:
        return self.last(torch.tanh(self.norm(self.first(x)))) * scale + shift


def x_of(rows: int = 4) -> torch.Tensor:
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(1))


def compiled(model: Any, **options: Any) -> Any:
    return memplan.compile(model, "floor+50%", time_limit=0, on_infeasible="smallest", **options)


def step(model: nn.Module, *args: Any, call: Any = None, **kwargs: Any) -> Tensors:
    """The result of a call, gradients and buffers."""
    model.zero_grad()
    result = (call or model)(*(args or (x_of(),)), **kwargs)
    result.pow(2).sum().backward()
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    return [result.detach().clone(), *gradients, *(b.clone() for b in model.buffers())]


# Each takes what compiles (or does nothing), and returns what is compared. The last module it names has plans.


def saved_and_loaded(compile: Compile) -> tuple[Any, Tensors]:
    model, other = compile(Net()), Net()
    kept = io.BytesIO()
    before = step(model)
    torch.save(model.state_dict(), kept)
    kept.seek(0)
    with torch.no_grad():
        other.last.weight.zero_()
    other.load_state_dict(torch.load(kept))
    compile(other).load_state_dict(model.state_dict(), assign=True)
    return model, [*before, *step(model), *step(other)]


def pickled(compile: Compile) -> tuple[Any, Tensors]:
    model = compile(Net())
    before = step(model)
    again = pickle.loads(pickle.dumps(model))
    assert not hasattr(again, "memplan") and vars(again).keys() == vars(Net()).keys()
    return model, [*before, *step(again), *step(model)]


def saved_whole(compile: Compile) -> tuple[Any, Tensors]:
    model, kept = compile(Net()), io.BytesIO()
    torch.save({"model": model}, kept)
    kept.seek(0)
    again = torch.load(kept, weights_only=False)["model"]
    assert vars(again).keys() == vars(Net()).keys()
    return model, [*step(again), *step(compile(again)), *step(model)]


def copied(compile: Compile) -> tuple[Any, Tensors]:
    model = compile(Net())
    first = step(model)
    shallow, deep = copy.copy(model), copy.deepcopy(model)
    assert type(shallow) is type(deep) is Net and shallow.last.weight is model.last.weight is not deep.last.weight
    shallow.last = nn.Linear(WIDTH, WIDTH)
    found = [*first, *step(shallow), *step(deep), *step(model)]
    if hasattr(model, "memplan"):
        reports = [m.memplan for m in (model, shallow, deep)]
        assert len(set(map(id, reports))) == 3 and all(len(r.graphs) >= 1 for r in reports)
    return model, found


def averaged(compile: Compile) -> tuple[Any, Tensors]:
    model = compile(Net())
    average = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        step(model)
        optimizer.step()
        average.update_parameters(model)
    return model, [p.detach() for p in average.parameters()]


def forward_by_name(compile: Compile) -> tuple[Any, Tensors]:
    model = compile(Net())
    forward = model.forward
    return model, [*step(model, call=model.forward), *step(model, call=forward, scale=2.0)]


def forward_replaced(compile: Compile) -> tuple[Any, Tensors]:
    model = compile(Net())
    first = step(model)
    model.forward = types.MethodType(lambda self, x: self.last(x) + x, model)
    second = step(model)
    del model.forward
    return model, [*first, *second, *step(model)]


def forward_wrapped_and_bound_again(compile: Compile) -> tuple[Any, Tensors]:
    """As accelerate does where precision is mixed."""
    model = compile(Net())
    original = model.forward
    model.forward = lambda *args, **kwargs: original(*args, **kwargs) * 2
    first = step(model)
    model.forward = types.MethodType(getattr(original, "__func__", original), model)
    return model, [*first, *step(model)]


def forward_of_its_own(compile: Compile) -> tuple[Any, Tensors]:
    model = Net()
    model.forward = types.MethodType(lambda self, x: self.last(x) * 3, model)
    first = step(compile(model))
    if hasattr(model, "memplan"):
        memplan.uncompile(model)
    return compile(model), [*first, *step(model)]


def class_changed(compile: Compile) -> tuple[Any, Tensors]:
    """A class's forward that is replaced, as libraries do that patch models."""

    class Other(Net):
        pass

    model = compile(Other())
    first = step(model)
    Other.forward = lambda self, x: self.last(x)  # type: ignore[method-assign, assignment]
    return model, [*first, *step(model)]


def hooked(compile: Compile) -> tuple[Any, Tensors]:
    """Hooks of the whole, registered before and after, that return something."""
    model, seen = Net(), []
    model.register_forward_pre_hook(lambda m, args: (args[0] * 2, *args[1:]))
    model.register_forward_pre_hook(lambda m, args, kwargs: (args, {**kwargs, "shift": 1.0}), with_kwargs=True)
    compile(model)
    model.register_forward_hook(lambda m, args, y: seen.append(y.detach()) or y * 3)
    model.register_full_backward_pre_hook(lambda m, gradients: tuple(2 * g for g in gradients))
    handle = model.register_full_backward_hook(lambda m, into, of: seen.extend(g.clone() for g in of))
    x = x_of().requires_grad_()
    first = step(model, x)
    handle.remove()
    return model, [*first, x.grad, *step(model), *seen]


def hooked_within(compile: Compile) -> tuple[Any, Tensors]:
    model, seen = compile(Net()), []
    model.first.register_forward_hook(lambda m, args, y: seen.append(y.detach()) or y + 1)
    return model, [*step(model), *seen]


def moved(compile: Compile) -> tuple[Any, Tensors]:
    model = compile(Net()).double()
    first = step(model, x_of().double())
    return model.to(torch.float32), [*first, *step(model)]


def evaluated(compile: Compile) -> tuple[Any, Tensors]:
    model = compile(Net())
    first = step(model)
    with torch.no_grad():
        quiet = [model.eval()(x_of(rows)) for rows in (3, 5)]
    assert not model.training and not model.norm.training and not any(q.requires_grad for q in quiet)
    with torch.inference_mode():
        quiet.append(model(x_of()).clone())
    return model, [*first, *quiet, *step(model), *step(model.train())]


def frozen(compile: Compile) -> tuple[Any, Tensors]:
    model = compile(Net())
    first = step(model)
    model.first.requires_grad_(False)
    second = step(model)
    return model.requires_grad_(True), [*first, *second, *step(model)]


def part_replaced(compile: Compile) -> tuple[Any, Tensors]:
    model = compile(Net())
    first = step(model)
    torch.manual_seed(1)
    model.last = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
    model.extra = nn.Linear(2, 2)
    return model, [*first, *step(model)]


def parametrized(compile: Compile) -> tuple[Any, Tensors]:
    model = compile(Net())
    first = step(model)
    nn.utils.parametrizations.weight_norm(model.last)
    second = step(model)
    nn.utils.parametrize.remove_parametrizations(model.last, "weight")
    return model, [*first, *second, *step(model)]


def pruned(compile: Compile) -> tuple[Any, Tensors]:
    model = compile(Net())
    prune.l1_unstructured(model.last, "weight", 0.5)
    return model, step(model)


def initialized(compile: Compile) -> tuple[Any, Tensors]:
    model = compile(Net())
    model.apply(lambda m: nn.init.ones_(m.weight) if isinstance(m, nn.Linear) else None)
    return model, step(model)


def clipped_and_scheduled(compile: Compile) -> tuple[Any, Tensors]:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)  # made before
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    compile(model)
    for _ in range(3):
        step(model)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        schedule.step()
    return model, step(model)


def functional(compile: Compile) -> tuple[Any, Tensors]:
    model = compile(Net())
    given = {name: p.detach() * 2 for name, p in model.named_parameters()}
    given["last.weight"].requires_grad_()
    result = torch.func.functional_call(model, given, (x_of(),))
    result.sum().backward()
    return model, [result.detach(), given["last.weight"].grad, *step(model)]


def ensemble(compile: Compile) -> tuple[Any, Tensors]:
    models = nn.ModuleList([compile(Net()), compile(Net())])
    assert list(models.state_dict()) == list(nn.ModuleList([Net(), Net()]).state_dict())
    return models[1], step(models, call=lambda x: torch.stack([m(x) for m in models]))


class Outer(nn.Module):
    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.inside, self.head = inside, nn.Linear(WIDTH, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.inside(x) + self.inside.forward(x))


def part_of_one_that_is_not(compile: Compile) -> tuple[Any, Tensors]:
    model = Outer(compile(Net()))
    return model.inside, step(model)


def part_of_one_that_is(compile: Compile) -> tuple[Any, Tensors]:
    model = Outer(compile(Net()))
    return compile(model), step(model)


def part_of_one_that_is_later(compile: Compile) -> tuple[Any, Tensors]:
    model = compile(Outer(Net()))
    first = step(model)
    compile(model.inside)
    return model, [*first, *step(model), *step(model.inside)]


def function_within(compile: Compile) -> tuple[Any, Tensors]:
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2

    model = Outer(Net())
    inside, called = model.inside.forward, compile(twice)
    model.inside.forward = lambda x: called(inside(x))  # type: ignore[method-assign]
    return compile(model), step(model)


def method(compile: Compile) -> tuple[Any, Tensors]:
    model = Net()
    call = compile(model.forward)
    return call, step(model, call=call)


def sequence(compile: Compile) -> tuple[Any, Tensors]:
    torch.manual_seed(0)
    model = compile(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)))
    assert len(model) == 3 and [type(m).__name__ for m in model] == ["Linear", "Tanh", "Linear"] and len(model[:2]) == 2
    model.append(nn.ReLU())
    return model, step(model)


def data_parallel(compile: Compile) -> tuple[Any, Tensors]:
    return (model := compile(Net())), step(model, call=nn.DataParallel(model))


def lazy(compile: Compile) -> tuple[Any, Tensors]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.LazyLinear(WIDTH), nn.Tanh(), nn.LazyLinear(2))
    model(x_of())
    return compile(model), step(model)


def of_fx(compile: Compile) -> tuple[Any, Tensors]:
    model = compile(torch.fx.symbolic_trace(Net()))
    again = copy.deepcopy(model)
    return model, [*step(model), *step(again)]


def shared(compile: Compile) -> tuple[Any, Tensors]:
    return (model := compile(Net().share_memory())), step(model)


def exported(compile: Compile) -> tuple[Any, Tensors]:
    """Traced, exported and taken apart after it was trained."""
    model = compile(Net())
    first = step(model)
    model.eval()
    traced, graph = torch.jit.trace(model, x_of()), torch.fx.symbolic_trace(model)
    program = torch.export.export(model, (x_of(),)).module()
    return model, [*first, *(m(x_of()).detach() for m in (traced, graph, program))]


def subclass_call(compile: Compile) -> tuple[Any, Tensors]:
    class Called(Net):
        def __call__(self, x: torch.Tensor) -> Any:
            return super().__call__(x) + 1

        def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return super().forward(x, 2.0)

    return (model := compile(Called())), step(model)


def own_state(compile: Compile) -> tuple[Any, Tensors]:
    """A class that says itself what is pickled."""
    model = compile(Stateful())
    again = pickle.loads(pickle.dumps(model))
    assert again.unpickled and "memplan" not in vars(again)
    return model, [*step(model), *step(again)]


class Stateful(Net):
    unpickled = False

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        self.unpickled = True


def in_autocast(compile: Compile) -> tuple[Any, Tensors]:
    model = compile(Net())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return model, step(model)


def threads(compile: Compile) -> tuple[Any, Tensors]:
    from concurrent.futures import ThreadPoolExecutor

    models = [compile(Net()) for _ in range(2)]
    first = [step(m) for m in models]
    with ThreadPoolExecutor(2) as pool:
        return models[0], [t for found in [*first, *pool.map(step, models)] for t in found]


HABITS = [
    saved_and_loaded, pickled, saved_whole, copied, averaged, forward_by_name, forward_replaced,
    forward_wrapped_and_bound_again, forward_of_its_own, class_changed, hooked, hooked_within, moved, evaluated, frozen,
    part_replaced, parametrized, pruned, initialized, clipped_and_scheduled, functional, ensemble, part_of_one_that_is_not,
    part_of_one_that_is, part_of_one_that_is_later, function_within, method, sequence, data_parallel, lazy, of_fx, shared,
    exported, subclass_call, own_state, in_autocast, threads,
]  # fmt: skip
