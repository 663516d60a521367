"""MLPs in chunks of rows. Oracles: eager PyTorch in float64, and the same chunks with everything kept."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import networks
import pytest
import torch
import torch.nn.functional as F
from against_eager import eager_copy
from torch import nn

import memplan
from memplan.graph.mlps import NO_MLP

ROWS, WIDTH, HIDDEN = (2, 6), 8, 24


class Block(nn.Module):
    """An MLP behind a normalization, with a residual connection."""

    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.gate = nn.Linear(WIDTH, HIDDEN, bias=bias), nn.Linear(WIDTH, HIDDEN, bias=bias)
        self.middle, self.down = nn.Linear(HIDDEN, 2 * HIDDEN, bias=bias), nn.Linear(HIDDEN, WIDTH, bias=bias)
        self.last = nn.Linear(2 * HIDDEN, WIDTH, bias=bias)


def gelu(block: Block, x: torch.Tensor) -> torch.Tensor:
    return block.down(F.gelu(block.up(x)))


def relu_squared(block: Block, x: torch.Tensor) -> torch.Tensor:
    return block.down(F.relu(block.up(x)).square())


def swiglu(block: Block, x: torch.Tensor) -> torch.Tensor:
    return block.down(F.silu(block.gate(x)) * block.up(x))


def fused_swiglu(block: Block, x: torch.Tensor) -> torch.Tensor:
    gate, up = F.linear(x, torch.cat((block.gate.weight, block.up.weight))).chunk(2, -1)
    return block.down(F.silu(gate) * up)


def deep(block: Block, x: torch.Tensor) -> torch.Tensor:
    return block.last(torch.tanh(block.middle(torch.sigmoid(block.up(x)))))


def normalized(block: Block, x: torch.Tensor) -> torch.Tensor:
    h = F.gelu(block.up(x))
    return block.down(h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-3))


def with_adapter(block: Block, x: torch.Tensor) -> torch.Tensor:
    h = block.up(x) + F.linear(F.linear(x, block.gate.weight[:2]), block.gate.weight[:, :2])
    return block.down(F.gelu(h))


def dropped(block: Block, x: torch.Tensor) -> torch.Tensor:
    return block.down(F.dropout(F.gelu(block.up(x)), 0.1, block.training))


def of_all_rows(block: Block, x: torch.Tensor) -> torch.Tensor:
    h = block.up(x)
    return block.down(h - h.mean((0, 1)))


def mixed_rows(block: Block, x: torch.Tensor) -> torch.Tensor:
    return block.down(F.gelu(block.up(x)).flip(1))


MLPS = {f.__name__: f for f in (gelu, relu_squared, swiglu, fused_swiglu, deep, normalized, with_adapter)}
WHOLE = {"dropped": (dropped, "bernoulli"), "of_all_rows": (of_all_rows, "mean"), "mixed_rows": (mixed_rows, "flip")}


class Stack(nn.Module):
    """Blocks with one kind of MLP. `is_shared`: all blocks have the same weights."""

    def __init__(self, mlp: Callable[[Block, torch.Tensor], torch.Tensor], bias: bool = True, is_shared: bool = False) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.blocks = nn.ModuleList([Block(bias)] * 2 if is_shared else [Block(bias) for _ in range(2)])
        self.mlp = mlp
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + self.mlp(block, block.norm(x))  # type: ignore[operator]
        return x.square().mean()


def inputs(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor]:
    torch.manual_seed(2)
    return (torch.randn(*ROWS, WIDTH, dtype=dtype),)


def results(model: Any, given: tuple[Any, ...]) -> list[torch.Tensor]:
    """Return loss and gradients of one step."""
    model.zero_grad()
    loss = model(*given)
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


def are_close(found: list[torch.Tensor], expected: list[torch.Tensor], tolerance: float = 1e-12) -> bool:
    return all(torch.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("name", MLPS)
def test_an_mlp_in_chunks_is_the_mlp(name: str) -> None:
    for n, is_shared in ((2, False), (5, True), (99, False)):
        torch._dynamo.reset()
        model = Stack(MLPS[name], bias=n != 5, is_shared=is_shared)
        expected = results(eager_copy(model), inputs())
        compiled = memplan.compile(model, "100%", chunks={"mlp": n})
        assert are_close(results(compiled, inputs()), expected), (name, n)
        assert compiled.memplan.graph.chunks == (1, min(n, 12))


@pytest.mark.parametrize("name", WHOLE)
def test_an_mlp_that_cannot_be_cut_stays_whole(name: str) -> None:
    mlp, reason = WHOLE[name]
    with pytest.raises(memplan.MemplanError, match="chunks=") as raised:
        memplan.compile(Stack(mlp), "100%", chunks={"mlp": 2})(*inputs())
    assert reason in str(raised.value)
    torch._dynamo.reset()
    compiled = memplan.compile(Stack(mlp), "min", chunks="auto", effort="quick")
    results(compiled, inputs())
    assert compiled.memplan.graph.chunks == (1, 1)


def test_a_network_without_an_mlp_is_refused() -> None:
    with pytest.raises(memplan.MemplanError, match=NO_MLP):
        memplan.compile(nn.Linear(4, 4), chunks={"mlp": 2})(torch.ones(3, 4))


def test_one_row_is_not_cut() -> None:
    """Batches of several sizes may use one model. A batch of one row has nothing to cut."""
    model = networks.Transformer(dropout=0.0, words=200, layers=1)
    eager = eager_copy(model)
    compiled = memplan.compile(model, "floor+50%", chunks={"head": 4, "mlp": 2}, effort="quick")
    for rows, chunks in (((2, 12), (4, 2)), ((1, 1), (1, 1)), ((1, 3), (3, 2))):
        given = networks.sequences(*rows, 200)
        assert are_close(results(compiled, given), results(eager, given), 1e-5)
        assert compiled.memplan.graphs[-1].chunks == chunks


def test_frozen_weights_have_no_gradient() -> None:
    model = Stack(swiglu)
    for block in model.blocks:
        block.requires_grad_(False)  # type: ignore[union-attr]
        block.norm.requires_grad_(True)  # type: ignore[union-attr,operator]
    expected = results(eager_copy(model), inputs())
    compiled = memplan.compile(model, "min", chunks={"mlp": 3}, effort="quick")
    assert are_close(results(compiled, inputs()), expected)


def test_a_plan_has_the_bits_of_the_same_chunks_kept() -> None:
    """The measured peak is the planned one, and chunks of MLPs need less memory than whole MLPs."""
    given, found, least = inputs(torch.float32), list[list[torch.Tensor]](), dict[int, int]()
    for n in (1, 4):
        found.clear()
        for budget in ("100%", "floor+40%", "min"):
            torch._dynamo.reset()
            model = Stack(swiglu).float()
            compiled = memplan.compile(model, budget, chunks={"mlp": n}, effort="quick")
            found.append(results(compiled, given))
            model.zero_grad()
            report = compiled.memplan

            def step(compiled: Any = compiled) -> None:
                compiled(*given).backward()

            assert report.measure(step) == report.planned_bytes
            least[n] = report.planned_bytes
        assert all(map(torch.equal, found[1], found[0])) and all(map(torch.equal, found[2], found[0]))
    assert least[4] < least[1]


def test_auto_cuts_mlps() -> None:
    least = memplan.estimate(Stack(swiglu), inputs(), budget="min", chunks="off", effort="quick").planned_bytes
    report = memplan.estimate(Stack(swiglu), inputs(), budget="min", chunks="auto", effort="quick")
    assert report.graph.chunks.mlp > 1 and report.planned_bytes < least
    assert any("each MLP is computed in" in note for note in report.graph.notes)


def test_head_and_mlps_are_cut_together() -> None:
    torch.manual_seed(0)
    model, given = networks.Transformer(words=200, layers=2).double(), networks.sequences(2, 12, 200)
    model.eval()
    expected = results(eager_copy(model), given)
    compiled = memplan.compile(model, "floor+30%", chunks={"head": 4, "mlp": 3}, effort="quick", verify=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert are_close(results(compiled, given), expected)
    assert compiled.memplan.graph.chunks == (4, 3)
    (note,) = (n for n in compiled.memplan.graph.notes if n.startswith("verified"))
    assert "(head=4, mlp=3)" in note and "output 0" in note
