"""Copied traces of equal modules. The oracle is Dynamo's trace of all modules, and eager PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from memplan.torch_internals import equal_modules
from memplan.torch_internals.equal_modules import ACTIVE
from memplan.torch_internals.module_trace import BUILD, CHECKS, RESULT, SOURCE, layouts

N, WIDTH = 9, 8
ALL = N - 3  # copied modules if all modules are equal; the input of the first one requires no gradient
SEEN: list[int] = []

PRIVATE = (equal_modules.CALL, CHECKS, BUILD, RESULT, SOURCE)
pytestmark = pytest.mark.skipif(not all(PRIVATE), reason="this PyTorch version traces all modules")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.rate, self.number, self.act, self.calls = 0.1, 0, F.gelu, 0
        self.register_buffer("scale", None)

    def forward(self, x: torch.Tensor, factor: torch.Tensor, k: int = 0) -> torch.Tensor:
        h = self.act(self.up(self.norm(x.to(self.up.weight.dtype))))
        h = F.dropout(self.down(h), self.rate, self.training).to(x.dtype)
        return x + (h if self.scale is None else h * self.scale) * factor


class Counting(Block):
    def forward(self, x: torch.Tensor, factor: torch.Tensor, k: int = 0) -> torch.Tensor:
        self.calls += 1
        return super().forward(x, factor) * self.calls


class Appending(Block):
    def forward(self, x: torch.Tensor, factor: torch.Tensor, k: int = 0) -> torch.Tensor:
        SEEN.append(len(SEEN))
        return super().forward(x, factor)


class Overwriting(Block):
    def forward(self, x: torch.Tensor, factor: torch.Tensor, k: int = 0) -> torch.Tensor:
        return super().forward(x, factor).mul_(2)


class Normalized(Block):
    def __init__(self) -> None:
        super().__init__()
        self.batch = nn.BatchNorm1d(WIDTH)

    def forward(self, x: torch.Tensor, factor: torch.Tensor, k: int = 0) -> torch.Tensor:
        return self.batch(super().forward(x, factor))


class Twice(Block):
    def __init__(self) -> None:
        super().__init__()
        self.again = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())

    def forward(self, x: torch.Tensor, factor: torch.Tensor, k: int = 0) -> torch.Tensor:
        return self.again(self.again(super().forward(x, factor)))


class Hooked(Block):
    def forward(self, x: torch.Tensor, factor: torch.Tensor, k: int = 0) -> torch.Tensor:
        h = super().forward(x, factor)
        h.register_hook(lambda g: g * 2)
        return h


class Numbered(Block):
    def forward(self, x: torch.Tensor, factor: torch.Tensor, k: int = 0) -> torch.Tensor:
        return super().forward(x, factor) * (1 + k)


class Graded(Block):
    def forward(self, x: torch.Tensor, factor: torch.Tensor, k: int = 0) -> torch.Tensor:
        with torch.no_grad():
            factor = factor * 2
        return super().forward(x, factor)


class Network(nn.Module):
    def __init__(self, kind: type[Block] = Block, of: str = "factor") -> None:
        super().__init__()
        self.layers = nn.ModuleList(kind() for _ in range(N))
        self.factor, self.factors = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.ones(N, WIDTH))
        self.of = of

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for k, layer in enumerate(self.layers):
            if self.of == "factor":
                x = layer(x, self.factor)
            elif self.of == "factors":
                x = layer(x, self.factors[k] * 2)
            elif self.of == "x":
                x = layer(x, x) if k == 5 else layer(x, self.factor)
            elif self.of == "mode" and k == 5:
                with torch.no_grad():
                    x = layer(x, self.factor)
            else:
                x = layer(x, self.factor, k if self.of == "number" else 0)
        return x.sum()


def changed(change: Callable[[Any, Any], Any], kind: type[Block] = Block) -> nn.Module:
    network = Network(kind)
    change(network.layers[5], network.layers)
    return network


def assign(name: str, value: Any) -> Callable[[Any, Any], Any]:
    def change(block: Any, _: Any) -> None:
        owner, _, attribute = name.rpartition(".")
        setattr(block.get_submodule(owner), attribute, value)

    return change


def number_all(_: Any, layers: Any) -> None:
    for k, layer in enumerate(layers):
        layer.number = k


def tie(block: Any, layers: Any) -> None:
    block.up.weight = layers[4].up.weight


def tie_all(_: Any, layers: Any) -> None:
    for layer in layers:
        layer.up.weight = layers[0].up.weight


def tie_within(block: Any, _: Any) -> None:
    block.norm.bias = block.down.bias


def share_module(_: Any, layers: Any) -> None:
    for layer in layers:
        layer.norm = layers[0].norm


def doubled(g: Any, *_: Any) -> Any:
    return None


CASES: dict[str, tuple[Callable[[], nn.Module], int | None]] = {
    "equal": (Network, ALL),
    "an attribute that no block reads": (lambda: changed(number_all), ALL),
    "a dropout rate": (lambda: changed(assign("rate", 0.2)), ALL - 1),
    "a flag": (lambda: changed(assign("training", False)), ALL - 1),
    "a flag within": (lambda: changed(assign("norm.eps", 1e-3)), ALL - 1),
    "a buffer": (lambda: changed(assign("scale", torch.ones(WIDTH))), ALL - 1),
    "a function": (lambda: changed(assign("act", F.relu)), ALL - 1),
    "a type": (lambda: changed(lambda block, _: block.to(torch.float64)), ALL - 1),
    "a frozen parameter": (lambda: changed(lambda block, _: block.up.weight.requires_grad_(False)), ALL - 1),
    "no parameter": (lambda: changed(assign("up.bias", None)), ALL - 1),
    "another class": (lambda: changed(lambda block, layers: layers.__setitem__(5, Graded())), None),
    "another class within": (lambda: changed(assign("norm", nn.RMSNorm(WIDTH))), ALL - 1),
    "another width": (lambda: changed(assign("up", nn.Linear(WIDTH, 2 * WIDTH, bias=False))), ALL - 1),
    "a hook": (lambda: changed(lambda block, _: block.register_forward_hook(lambda *_: _[2] * 2)), None),
    "a hook before": (lambda: changed(lambda block, _: block.up.register_forward_pre_hook(lambda *_: (_[1][0] * 2,))), ALL - 1),
    "a hook behind": (lambda: changed(lambda block, _: block.register_full_backward_hook(doubled)), None),
    "its own forward": (lambda: changed(assign("forward", lambda x, factor: x * factor)), None),
    "a parameter of another block": (lambda: changed(tie), ALL),
    "one parameter of all blocks": (lambda: changed(tie_all), ALL),
    "one parameter twice": (lambda: changed(tie_within), ALL - 1),
    "one module of all blocks": (lambda: changed(share_module), ALL),
    "an attribute that changes": (lambda: Network(Counting), 0),
    "a list that grows": (lambda: Network(Appending), 0),
    "an overwritten value": (lambda: Network(Overwriting), 0),
    "overwritten buffers": (lambda: Network(Normalized), 0),
    "a module called twice": (lambda: Network(Twice), ALL),
    "a hook on a tensor": (lambda: Network(Hooked), 0),
    "a mode within": (lambda: Network(Graded), ALL),
    "a number": (lambda: Network(Numbered, "number"), 0),
    "a number that no block reads": (lambda: Network(Block, "number"), 0),
    "other arguments": (lambda: Network(Block, "factors"), ALL),
    "one argument twice": (lambda: Network(Block, "x"), None),
    "a mode": (lambda: Network(Block, "mode"), None),
}


@pytest.fixture(autouse=True)
def guards_on_hooks() -> Iterator[None]:
    with torch._dynamo.config.patch(skip_nnmodule_hook_guards=False):
        yield


def captured(network: nn.Module, x: torch.Tensor, *, copies: bool) -> tuple[list[Any], list[Any], int, Any]:
    """Return the nodes and guards of a capture, the number of copied modules, and the compiled network."""
    nodes, guards = list[Any](), list[Any]()

    def backend(module: Any, _: Any) -> Any:
        for n in module.graph.nodes:
            notes = [str(n.meta.get(key)) for key in ("nn_module_stack", "source_fn_stack", "stack_trace")]
            keys = sorted(key for key in n.meta if key != "grapharg")
            nodes.append(
                (n.op, n.name, str(n.target), str(n.args), str(n.kwargs), layouts(n.meta.get("example_value")), notes, keys)
            )
        found = torch._guards.TracingContext.get().guards_context.dynamo_guards
        guards.extend({(g.name, g.create_fn_name(), g.originating_source) for g in found if "__builtins_dict__" not in g.name})
        return module.forward

    torch._dynamo.reset()
    SEEN.clear()
    compiled = torch.compile(network, backend=backend)
    with equal_modules.copying_equal_modules(network if copies else None):
        torch.manual_seed(0)
        compiled(x)
        n_copied = ACTIVE.modules[-1].n_copied if copies else 0
    return nodes, sorted(guards, key=str), n_copied, compiled


@pytest.mark.parametrize("name", CASES)
def test_a_copied_trace_is_dynamos_own(name: str) -> None:
    make, n_copied = CASES[name]
    torch.manual_seed(0)
    network, x = make(), torch.randn(3, WIDTH)
    nodes, guards, _, _ = captured(copy.deepcopy(network), x, copies=False)
    nodes_of_copies, guards_of_copies, n, compiled = captured(copy.deepcopy(network), x, copies=True)
    strip = lambda rows: [[*row[:6], row[6][2], row[7]] for row in rows]  # noqa: E731  (identifiers of modules differ)
    assert strip(nodes_of_copies) == strip(nodes)
    assert guards_of_copies == guards
    assert n == n_copied or (n_copied is None and n < ALL)
    SEEN.clear()
    again = copy.deepcopy(network)
    for model in (compiled, again):
        torch.manual_seed(1)
        model.loss = model(x)
    assert torch.equal(compiled.loss, again.loss) or name == "an attribute that changes"


LATER: dict[str, Callable[[Any], Any]] = {
    "a dropout rate": lambda block: setattr(block, "rate", 0.5),
    "a flag": lambda block: block.eval(),
    "a hook": lambda block: block.register_forward_hook(lambda *_: _[2] * 2),
    "a hook within": lambda block: block.up.register_forward_hook(lambda *_: _[2] * 2),
    "a frozen parameter": lambda block: block.up.weight.requires_grad_(False),
    "a function": lambda block: setattr(block, "act", F.relu),
    "its own forward": lambda block: setattr(block, "forward", lambda x, factor: x * factor),
    "a module": lambda block: setattr(block, "norm", nn.Identity()),
    "a parameter": lambda block: setattr(block.up, "bias", None),
    "a buffer": lambda block: setattr(block, "scale", torch.ones(WIDTH) * 2),
    "a type": lambda block: block.to(torch.float64),
}


@pytest.mark.parametrize("name", LATER)
def test_a_copied_module_that_changes_is_captured_again(name: str) -> None:
    torch.manual_seed(0)
    network, x = Network(), torch.randn(3, WIDTH)
    nodes, _, n, compiled = captured(network, x, copies=True)
    assert n == ALL
    n_nodes = len(nodes)
    eager = copy.deepcopy(network)
    for model in (network, eager):
        LATER[name](model.layers[6])
    losses = []
    for model in (compiled, eager):
        torch.manual_seed(1)
        losses.append(model(x))
    assert torch.equal(*losses)
    assert len(nodes) > n_nodes
