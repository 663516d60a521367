"""Of equal blocks, AOTAutograd traces four. The extended joint graph must equal the joint graph of all blocks."""

from __future__ import annotations

import contextlib
import copy
import re
from collections.abc import Callable
from typing import Any

import networks
import pytest
import torch
from against_eager import Context, assert_like_eager
from torch import fx, nn

import memplan
from memplan.graph.capture import storage_key, tensors_of
from memplan.graph.equal_blocks import EqualBlocks
from memplan.run import blocks
from memplan.run.backend import Backend

BLOCKS = 8
WIDTH = 16
IDENTITIES = re.compile(r"\d{12,}|0x[0-9a-f]+")
META = ("nn_module_stack", "fwd_nn_module_stack", "stack_trace", "partitioner_tag", "desc", "original_aten", "tensor_meta")


class Block(nn.Module):
    def __init__(self, shared: nn.Module | None = None) -> None:
        super().__init__()
        self.one, self.two, self.norm = shared or nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.reads_sum = False

    def forward(self, h: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
        h = h + nn.functional.dropout(self.two(torch.relu(self.one(self.norm(h)))), 0.2, self.training)
        small = torch.tanh(h)
        return torch.addcmul(h, small, h if self.reads_sum else small) + torch.tanh(first) * torch.tensor(0.5)


class Blocks(nn.Module):
    """Blocks that all read the first value, so its gradient is a sum over the blocks. `shares`: all blocks share one layer."""

    def __init__(self, shares: bool = False, shows: bool = False) -> None:
        super().__init__()
        self.first, self.shows = nn.Linear(WIDTH, WIDTH), shows
        self.blocks = nn.ModuleList(Block(self.first if shares else None) for _ in range(BLOCKS))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = first = self.first(x)
        states = []
        for block in self.blocks:
            self.seen += 1
            states.append(h := block(h, first))
        return (torch.stack(states) if self.shows else h).square().mean()


class Normalized(nn.Sequential):
    """Blocks that write buffers."""

    def __init__(self) -> None:
        super().__init__(*(m for _ in range(BLOCKS) for m in (nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Tanh())))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).square().mean()


class Halved(nn.Module):
    """A block with further operators."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, h: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
        h = self.block(h, first)
        return (h * 0.5).sin()


def changed(change: Callable[[Any], Any], at: int = BLOCKS - 3) -> Callable[[], nn.Module]:
    """Return a constructor of blocks, of which one differs. By default it is the third last: too few equal blocks remain."""

    def make() -> nn.Module:
        model = Blocks()
        made = change(model.blocks[at])
        if isinstance(made, nn.Module):
            model.blocks[at] = made
        return model

    return make


def frozen(block: Block) -> None:
    block.two.weight.requires_grad_(False)


def reads_sum(block: Block) -> None:
    """The operators of the block are equal, but one reads its first operand twice instead of its second."""
    block.reads_sum = True


def told(block: Block) -> None:
    block.register_forward_hook(lambda module, given, result: result * 2)


def exchanged() -> nn.Module:
    """Return blocks, of which two omitted ones use each other's layer."""
    model = Blocks()
    model.blocks[2].two, model.blocks[4].two = model.blocks[4].two, model.blocks[2].two
    return model


def llama() -> nn.Module:
    return networks.Llama(BLOCKS, WIDTH, 4, 2, 2 * WIDTH, 30, 24)


def rows() -> tuple[Any, ...]:
    return (torch.randn(4, WIDTH),)


def bfloat16() -> Any:
    return torch.autocast("cpu", torch.bfloat16)


Case = tuple[Callable[[], nn.Module], Callable[[], tuple[Any, ...]], Context]
PLAIN: Context = contextlib.nullcontext
EQUAL: dict[str, Case] = {
    "dropout": (lambda: networks.Transformer(layers=BLOCKS), networks.sequences, PLAIN),
    "llama": (llama, networks.sequences, PLAIN),
    "autocast": (llama, networks.sequences, bfloat16),
    "first value": (Blocks, rows, PLAIN),
    "hook behind": (changed(told, BLOCKS - 1), rows, PLAIN),
    "operands before": (changed(reads_sum, 0), rows, PLAIN),
    "exchanged layers": (exchanged, rows, PLAIN),
    "shared layer": (lambda: Blocks(shares=True), rows, PLAIN),
    "shared layer, autocast": (lambda: Blocks(shares=True), rows, bfloat16),
}
OTHERS: dict[str, Case] = {
    "batch normalization": (Normalized, rows, PLAIN),
    "states": (lambda: Blocks(shows=True), rows, PLAIN),
    "frozen": (changed(frozen), rows, PLAIN),
    "evaluated": (changed(lambda block: block.eval() and None), rows, PLAIN),
    "operands": (changed(reads_sum), rows, PLAIN),
    "hook": (changed(told), rows, PLAIN),
    "another module": (changed(Halved), rows, PLAIN),
}


def described(graph: fx.Graph) -> tuple[list[Any], list[int]]:
    """Return the nodes of a joint graph with their values and metadata, and the sequence numbers of autograd."""
    found, numbers = list[Any](), list[int]()
    storages: dict[int, int] = {}
    for node in graph.nodes:
        values = [
            (t.shape, t.stride(), t.storage_offset(), t.dtype, t.device, storages.setdefault(storage_key(t), len(storages)))
            for t in tensors_of(node.meta.get("val"))
        ]
        meta = [IDENTITIES.sub("", str(node.meta.get(name))) for name in META]
        found.append((node.op, node.name, str(node.target), str(node.args), str(node.kwargs), values, meta))
        numbers.append(node.meta.get("seq_nr", 0))
    return found, numbers


def captured(model: nn.Module, case: Case, is_whole: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Return the joint graphs that memplan plans, and the equal blocks that it has found."""
    graphs: list[Any] = []
    found: list[EqualBlocks | None] = []
    partition, equal_blocks = Backend.partition, blocks.equal_blocks

    def noted(self: Backend, joint: fx.GraphModule, *args: Any, **known: Any) -> Any:
        graphs.append(described(joint.graph))
        return partition(self, joint, *args, **known)

    def looked(*args: Any) -> EqualBlocks | None:
        found.append(None if is_whole else equal_blocks(*args))
        return found[-1]

    torch._dynamo.reset()
    torch.manual_seed(0)
    inputs = case[1]()
    with monkeypatch.context() as patch, case[2]():
        patch.setattr(Backend, "partition", noted)
        patch.setattr(blocks, "equal_blocks", looked)
        memplan.compile(model, "100%")(*inputs).backward()
    return graphs, found[-1]


@pytest.mark.parametrize("name", EQUAL | OTHERS)
def test_the_joint_graph_is_that_of_all_blocks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = (EQUAL | OTHERS)[name]
    torch.manual_seed(0)
    model = case[0]()
    ours, found = captured(copy.deepcopy(model), case, False, monkeypatch)
    whole, _ = captured(copy.deepcopy(model), case, True, monkeypatch)
    assert len(ours) == 1  # no capture is repeated
    assert ours[-1][0] == whole[-1][0]
    offsets = {a - b for a, b in zip(ours[-1][1], whole[-1][1]) if a or b}
    assert len(offsets) == 1
    assert (found is not None) == (name in EQUAL)


@pytest.mark.parametrize("name", EQUAL | OTHERS)
def test_bits_are_eagers(name: str) -> None:
    make, inputs, context = (EQUAL | OTHERS)[name]
    torch.manual_seed(0)
    model = make()
    assert_like_eager(model, memplan.compile(model, "min+20%"), inputs(), context)


def test_an_irregular_joint_graph_is_traced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def irregular(*_: Any) -> None:
        raise KeyError

    monkeypatch.setattr(EqualBlocks, "insert", irregular)
    torch.manual_seed(0)
    model = Blocks()
    assert_like_eager(model, memplan.compile(model, "min+20%"), rows())


def test_a_call_without_gradients_is_whole() -> None:
    torch.manual_seed(0)
    model = Blocks().requires_grad_(False)
    x = rows()[0]
    expected = copy.deepcopy(model).eval()(x)
    assert torch.equal(memplan.compile(model.eval(), "100%")(x), expected)
