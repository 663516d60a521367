"""What a GPU's allocator tells, on a CPU: an observer that is called inside of an operator, and a snapshot of a simulated
allocator; what explain_oom leaves alone until memory runs out; and what calls are matched by."""

from __future__ import annotations

import copy
import gc
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import networks
import pytest
import torch
from slow_allocator import FREE, HOLE, SlowAllocator
from torch import nn
from torch.nn.modules import module as modules

import memplan
from memplan.explain import failed_allocation_hooks
from memplan.explain.failed_allocation_hooks import Watching
from memplan.explain.failed_call import starts
from memplan.explain.failure import Failure, first_of, of_threads, tried_bytes
from memplan.explain.reserved import Reserved
from memplan.memory.allocator import MIB, Settings

CPU = torch.device("cpu")


@pytest.fixture
def watching() -> Iterator[Watching]:
    found = memplan.explain_oom()
    yield found
    found.remove()
    found.last = None


def snapshot_of(allocator: SlowAllocator) -> list[dict[str, Any]]:
    """As torch.cuda.memory_snapshot has it."""
    return [
        {
            "device": 0,
            "total_size": sum(size for size, state in runs if state != HOLE),
            "allocated_size": sum(size for size, state in runs if state > FREE),
            "blocks": [
                {"size": size, "state": "active_allocated" if state > FREE else "inactive"}
                for size, state in runs
                if state != HOLE
            ],
        }
        for _, runs in allocator.segments
    ]


def test_fragments_are_counted_by_the_snapshot_of_the_allocator() -> None:
    """Three of ten blocks of 4 MiB go, no two of them neighbours, and two of 30 MiB: 8 would fit, were they one."""
    allocator = SlowAllocator(Settings(), 100 * MIB)
    small = [allocator.allocate(4 * MIB) for _ in range(10)]
    for number in small[1:7:2]:
        assert number is not None
        allocator.free(number)
    reserved = Reserved.of(snapshot_of(allocator), 0, 3 * MIB)
    assert (
        (reserved.allocated_bytes, reserved.reserved_bytes)
        == (28 * MIB, 40 * MIB)
        == (
            allocator.allocated(),
            allocator.reserved(),
        )
    )
    assert (reserved.fragmented_bytes, reserved.largest_bytes, reserved.limit_bytes) == (12 * MIB, 4 * MIB, 43 * MIB)
    assert reserved.is_fragmented(8 * MIB) and not reserved.is_fragmented(13 * MIB) and not reserved.is_fragmented(4 * MIB)
    assert (
        str(reserved)
        == "reserved: 40.00 MiB, of which 28.00 MiB are allocated and 12.00 MiB are fragments, the largest of 4.00 MiB"
    )
    # an RTX 3060 has 28 multiprocessors, so its context and loaded kernels take 24 + 28 * 2.83 + 30 = 133 MiB
    assert "the process needs 173.00 MiB with" in str(Reserved.of(snapshot_of(allocator), 0, 3 * MIB, "rtx3060"))
    assert "process" not in str(Reserved.of(snapshot_of(allocator), 0, 3 * MIB, "AMD Instinct MI300X"))
    assert Reserved.of(snapshot_of(allocator), 1, 0).reserved_bytes == 0
    empty = SlowAllocator(Settings(), 100 * MIB)
    number = empty.allocate(12 * MIB)
    assert number is not None
    empty.free(number)
    assert Reserved.of(snapshot_of(empty), 0, 0).fragmented_bytes == 0  # goes back to the device as a whole


class Observed(torch.autograd.Function):
    """An operator in whose forward, or backward, an allocation fails."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, tell: Any, is_backward: bool) -> torch.Tensor:
        context.tell = tell if is_backward else None
        if not is_backward:
            tell()
        return x.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> Any:
        if context.tell is not None:
            context.tell()
        return gradient, None, None


class Network(nn.Module):
    def __init__(self, tell: Any, is_backward: bool) -> None:
        super().__init__()
        self.layers, self.tell, self.is_backward = nn.Sequential(*[nn.Linear(64, 64) for _ in range(4)]), tell, is_backward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers(x).tanh()
        return Observed.apply(x, self.tell, self.is_backward).square().mean()  # type: ignore[no-any-return]


@pytest.mark.parametrize("is_backward", [False, True])
def test_an_observer_inside_of_an_operator_explains(
    is_backward: bool, watching: Watching, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def tell() -> None:
        if not asked:  # once: what is done again is told of, too
            asked.append(True)
            alive = sum(t.untyped_storage().nbytes() for t in {t.untyped_storage()._cdata: t for t in tensors()}.values())
            reserved = Reserved(alive + MIB, 4 * MIB, 0, 0, 64 * MIB)
            watching._explain_apart(Failure(MIB, CPU, of_threads()), reserved)

    network, x = Network(tell, is_backward), torch.randn(512, 64)
    loss = network(x)
    loss.backward()
    assert watching.last is not None
    found, text = watching.last, capsys.readouterr().err
    assert found.failure.phase == ("backward" if is_backward else "forward")
    assert found.account.total() == found.reserved.allocated_bytes  # type: ignore[union-attr]
    assert "memplan: an allocation of 1.00 MiB failed on cpu in " in text and "test_observed.py:" in text
    assert found.suggestion is not None and found.suggestion.report is not None and found.suggestion.line in text
    assert found.suggestion.report.graph.reserved_within(64 * MIB) <= 64 * MIB
    assert found.account.total("parameters") >= sum(p.numel() * 4 for p in network.parameters())


def tensors() -> list[torch.Tensor]:
    return [o for o in gc.get_objects() if type(o) in (torch.Tensor, nn.Parameter) and o.device == CPU]


def test_a_gpu_observer_is_attached_once_and_when_the_gpu_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    attached: list[Any] = []
    monkeypatch.setattr(failed_allocation_hooks, "on_out_of_memory", lambda told: attached.append(told) or True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    watching = Watching().install()
    model, x = networks.layered(2, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(x).sum().backward()
        optimizer.step()
    watching.remove()
    assert attached == [watching._observe]
    watching._observe(0, 1, 2, 3)  # nobody asked for it any more
    assert watching.last is None


def test_until_then_a_step_has_eagers_bits_and_nothing_is_held(watching: Watching) -> None:
    torch.manual_seed(0)
    model, inputs = networks.make("transformer")
    alone = copy.deepcopy(model)
    for each in (model, alone):
        optimizer = torch.optim.SGD(each.parameters(), lr=0.1)
        for _ in range(3):
            torch.manual_seed(1)
            each(*inputs).backward()
            assert not modules._global_forward_pre_hooks  # between the first call of a step and its end
            optimizer.step()
            optimizer.zero_grad()
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), alone.parameters()))
    x = torch.randn(4, 3)
    layer = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    optimizer.step()
    layer(x).sum().backward()
    assert watching.calls is not None and watching.calls.last is not None and watching.calls.last.model() is layer
    gone = weakref.ref(x), weakref.ref(layer)
    del x, layer, optimizer
    assert gone[0]() is None and gone[1]() is None


def test_other_errors_are_not_explained_and_hooks_go(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.excepthook
    with pytest.raises(ValueError, match="else"), memplan.explain_oom():
        raise ValueError("something else")
    assert sys.excepthook is before and not modules._global_forward_pre_hooks and capsys.readouterr().err == ""
    outer = memplan.explain_oom()
    with memplan.explain_oom():
        pass
    assert sys.excepthook is not before  # still asked for
    outer.remove()
    assert sys.excepthook is before


def test_what_was_asked_for_is_read_from_the_error() -> None:
    assert tried_bytes(RuntimeError("can't allocate memory: you tried to allocate 4194304 bytes. Error code 12")) == 4 * MIB
    assert tried_bytes(RuntimeError("CUDA out of memory. Tried to allocate 20.50 MiB. GPU 0 has")) == 20.5 * MIB
    assert tried_bytes(RuntimeError("std::bad_alloc")) is None
    inner, outer = RuntimeError("DefaultCPUAllocator: can't allocate memory"), ValueError("the trainer says")
    outer.__cause__ = inner
    assert first_of(outer) is inner and first_of(ValueError("no")) is None and first_of(MemoryError()) is not None


def test_calls_are_found_by_their_nodes() -> None:
    call = {0: "T", 1: "Addmm", 2: "Relu", 3: "T", 4: "Addmm"}
    two = {7 + k: name for k, name in call.items()} | {30 + k: name for k, name in call.items()} | {12: "Add", 35: "Add"}
    assert starts(two, call) == [7, 30]
    assert starts(two | {50: "T", 51: "Addmm"}, call) == [7, 30, 50]  # the last has not ended
    assert starts({3: "Mul", 4: "Sum"}, call) == [] == starts({}, call) == starts(two, {})
