"""Copies to host memory: bits as in eager PyTorch, device and host memory as planned, simultaneous calls, and refusals."""

from __future__ import annotations

import ctypes
import mmap
import threading
from typing import Any

import networks
import pytest
import torch
import zoo
from against_eager import assert_like_eager, eager_copy, peak_of_step, static_bytes
from torch import nn

import memplan
from memplan.library.planning import Copy, Step
from memplan.memory import host
from memplan.plan.emitted import Emitted
from memplan.plan.planner import GraphPlanner

KIB = 1024
BUDGETS = {
    "convolutions": ("90%", "80%", "75%"),
    "transformer": ("80%", "65%", "50%"),
    "unet": ("85%", "75%", "65%"),
    "upsampled": ("97%", "94%", "91%"),
    "tied": ("80%", "60%", "45%"),
    "graph": ("85%", "70%", "60%"),
}
OFFLOAD: dict[str, Any] = {"offload": "64MiB", "effort": "quick"}


@pytest.fixture(autouse=True)
def small_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The networks of the tests are small."""
    monkeypatch.setattr(host, "LEAST_BYTES", 16 * KIB)


def make(name: str) -> tuple[nn.Module, tuple[Any, ...]]:
    return networks.make(name) if name in networks.NETWORKS else zoo.make(name)


def written_bytes(slab: host.Slab) -> int:
    """Of a slab, the pages that the system has given, which it does when they are first written."""
    pages = (ctypes.c_ubyte * -(-slab.n_bytes // mmap.PAGESIZE))()
    system = ctypes.CDLL(None, use_errno=True)
    assert system.mincore(ctypes.c_void_p(slab.address), ctypes.c_size_t(slab.n_bytes), pages) == 0
    return sum(page & 1 for page in pages) * mmap.PAGESIZE


def slabs_of(report: memplan.Report) -> list[host.Slab]:
    """The slabs of a model that nobody uses at the moment."""
    pool = report.graph.pool
    assert pool is not None
    pool.measure_from_now()
    assert pool.leased_bytes == 0
    return pool.idle


@pytest.mark.parametrize(("name", "budget"), [(n, b) for n, budgets in BUDGETS.items() for b in budgets])
def test_both_memories_are_as_planned_and_the_bits_are_eagers(name: str, budget: str) -> None:
    model, inputs = make(name)
    compiled = memplan.compile(model, budget, **OFFLOAD)
    report = compiled.memplan
    assert_like_eager(model, compiled, inputs)
    assert report.copied and not report.fallbacks and report.planned_bytes <= report.budget_bytes
    measured = static_bytes(model, inputs) + peak_of_step(compiled, inputs)
    states = 6 * KIB * sum("dropout" in r.op for r in report.recomputed)
    assert abs(measured - report.planned_bytes) <= 0.005 * report.planned_bytes + states
    (slab,) = slabs_of(report)  # of all steps
    assert slab.n_bytes == report.host_bytes <= 64 * KIB * KIB
    assert 0.995 * report.host_bytes <= written_bytes(slab) <= report.host_bytes + mmap.PAGESIZE
    model.zero_grad()
    report.measure(lambda: compiled(*inputs).backward())
    assert report.measured_host_bytes == report.host_bytes
    assert f"{len(report.copied)} tensors are copied" in str(report)
    assert 0 < report.out_bytes <= report.back_bytes


class Once(nn.Module):
    """Layers that read a buffer which is written afterwards: what they make is kept, as they may not run again."""

    def __init__(self, layers: int = 6, width: int = 64) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        for k in range(layers):
            self.register_buffer(f"shift{k}", torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shifts = list(self.buffers())
        for layer, shift in zip(self.layers, shifts):
            x = torch.tanh(layer(x) + shift)
        for shift in shifts:
            shift.add_(0.1)
        return x.square().mean()


def once() -> tuple[nn.Module, tuple[Any, ...]]:
    torch.manual_seed(0)
    return Once(), (torch.randn(512, 64),)


def test_a_budget_that_fits_with_copies_only() -> None:
    model, inputs = once()
    static = memplan.estimate(model, inputs).static_bytes
    budget = static + 6 * 512 * 64 * 4
    torch._dynamo.reset()
    with pytest.raises(memplan.BudgetError):
        memplan.estimate(model, inputs, budget=budget)
    torch._dynamo.reset()
    with pytest.raises(memplan.BudgetError):
        memplan.estimate(model, inputs, budget=budget, offload="64KiB")  # less than a tensor
    torch._dynamo.reset()
    compiled = memplan.compile(model, budget, **OFFLOAD)
    assert_like_eager(model, compiled, inputs)
    assert static_bytes(model, inputs) + peak_of_step(compiled, inputs) <= budget


def copied_as_often_as_possible(planner: GraphPlanner) -> list[Step]:
    """Return an extreme plan: it copies each copyable tensor out as soon as it exists, and waits some steps later.

    Before each backward operator, it copies the operands of the operator back. The operator waits for these copies.
    """
    assert planner.host is not None
    capture, may = planner.capture, planner.host.makers
    known: list[tuple[Step, int]] = []  # and the number of steps until the plan waits for it
    for k, operation in enumerate(capture.operations):
        back = [Copy(s, True, 0) for s in operation.reads if s in may and k > capture.boundary]
        known += [(copy, len(back) - n) for n, copy in enumerate(back)]
        known.append((k, 0))
        known += [(Copy(s, False, 0), 1 + s % 5) for s in operation.writes if s in may and k < capture.boundary]
    n, end = len(known), 0
    places: dict[int, int] = {}  # for each storage that is copied back: its offset in the slab
    for s in sorted({c.storage for c, _ in known if isinstance(c, Copy) and c.is_back}):
        places[s], end = end, end + -(-capture.storages[s].n_bytes // 512) * 512

    def copy(given: Copy, until: int) -> Copy:
        return Copy(given.storage, given.is_back, min(until, n), places.get(given.storage))

    return [copy(s, t + w) if isinstance(s, Copy) else s for t, (s, w) in enumerate(known)]


@pytest.mark.parametrize("name", BUDGETS)
def test_every_tensor_may_be_copied(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    emit = GraphPlanner.emit
    emitted: list[Emitted] = []

    def emit_copies(self: GraphPlanner, _: list[Step]) -> Emitted:
        emitted.append(emit(self, copied_as_often_as_possible(self)))
        return emitted[-1]

    monkeypatch.setattr(GraphPlanner, "emit", emit_copies)
    model, inputs = make(name)
    compiled = memplan.compile(model, "10GiB", **OFFLOAD)
    assert_like_eager(model, compiled, inputs)
    assert compiled.memplan.graphs and not compiled.memplan.fallbacks
    made = emitted[-1].finished()
    nodes = [n for graph in (made.forward, made.backward) for n in graph.graph.nodes]
    waits = [n for n in nodes if n.target is host.wait and n.args[0].target is host.copy_out]
    assert waits and all(n.args[1] is n.args[0].args[1] for n in waits)  # which hold what is copied


def compiled_unet() -> tuple[nn.Module, Any, tuple[Any, ...], list[torch.Tensor]]:
    model, inputs = make("unet")
    compiled = memplan.compile(model, "65%", **OFFLOAD)
    eager = eager_copy(model)
    return model, compiled, inputs, gradients(eager, eager(*inputs))


def gradients(model: nn.Module, loss: torch.Tensor, **options: Any) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss, list(model.parameters()), **options))


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_calls_that_wait_have_a_slab_each() -> None:
    model, compiled, inputs, expected = compiled_unet()
    first = compiled(*inputs)
    other = compiled(inputs[0] * 2, inputs[1])
    assert same(gradients(model, first), expected)
    assert not same(gradients(model, other), expected)
    assert len(slabs_of(compiled.memplan)) == 2
    for _ in range(3):
        assert same(gradients(model, compiled(*inputs)), expected)
    assert len(slabs_of(compiled.memplan)) == 2


def test_backward_may_run_twice_and_a_call_may_be_let_go() -> None:
    model, compiled, inputs, expected = compiled_unet()
    loss = compiled(*inputs)
    assert same(gradients(model, loss, retain_graph=True), expected)
    assert same(gradients(model, loss), expected)
    compiled(*inputs)
    assert len(slabs_of(compiled.memplan)) == 1


def test_more_calls_than_the_host_has_room_for_are_told_of_once() -> None:
    model, inputs = make("unet")
    compiled = memplan.compile(model, "65%", offload="600KiB", effort="quick")
    waiting = [compiled(*inputs)]
    with pytest.warns(memplan.FallbackWarning, match=r"offload=600\.00 KiB limits each of them") as told:
        waiting += [compiled(*inputs), compiled(*inputs)]
    assert sum("limits each of them" in str(w.message) for w in told) == 1
    del waiting


def test_threads() -> None:
    model, compiled, inputs, expected = compiled_unet()
    assert same(gradients(model, compiled(*inputs)), expected)
    found: list[bool] = []

    def steps() -> None:
        for _ in range(5):
            found.append(same(gradients(model, compiled(*inputs)), expected))

    threads = [threading.Thread(target=steps) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 20


def test_gradients_add_up_and_sizes_share_the_hosts_memory() -> None:
    model, inputs = make("transformer")
    compiled = memplan.compile(model, "65%", accumulate=True, **OFFLOAD)
    assert_like_eager(model, compiled, inputs, accumulate=2, steps=2)
    model.zero_grad()
    assert_like_eager(model, compiled, networks.sequences(6), accumulate=2, steps=2)
    assert len(compiled.memplan.graphs) == 2 and all(g.copied for g in compiled.memplan.graphs)


def test_another_budget_and_no_copies_any_more() -> None:
    model, inputs = make("unet")
    compiled = memplan.compile(model, "65%", **OFFLOAD)
    compiled(*inputs).backward()
    assert compiled.memplan.copied
    for budget, options in (("75%", OFFLOAD), ("75%", {"effort": "quick"}), ("65%", OFFLOAD)):
        model.zero_grad()
        compiled = memplan.compile(model, budget, **options)
        assert_like_eager(model, compiled, inputs, steps=2)
        assert bool(compiled.memplan.copied) == ("offload" in options) == bool(compiled.memplan.host_bytes)


def test_a_plan_with_copies_is_kept_on_disk(tmp_path: Any) -> None:
    model, inputs = make("unet")
    found = []
    for offload in ("64MiB", "64MiB", "200KiB"):
        torch._dynamo.reset()
        report = memplan.estimate(model, inputs, budget="75%", offload=offload, effort="quick", cache=str(tmp_path))
        found.append(report.graph.planning.schedule())
        assert report.host_bytes <= (200 * KIB if offload == "200KiB" else 64 * KIB * KIB)
    assert found[0] == found[1] != found[2]
    assert len(list(tmp_path.glob("**/plan-*"))) >= 2


class Cut(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = networks.layered(6, 64)[0], networks.layered(6, 64)[0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        torch._dynamo.graph_break()
        loss: torch.Tensor = self.second(x).square().mean()
        return loss


def test_the_parts_of_a_cut_graph_share_the_hosts_memory() -> None:
    torch.manual_seed(0)
    model, x = Cut(), torch.randn(256, 64)
    compiled = memplan.compile(model, "80%", fullgraph=False, offload="192KiB", effort="quick", on_infeasible="smallest")
    assert_like_eager(model, compiled, (x,), steps=2)
    parts = [g.host_bytes for g in compiled.memplan.graphs]
    assert len(parts) == 2 and 0 < sum(parts) <= 192 * KIB


def test_by_name() -> None:
    model, inputs = make("unet")
    report = memplan.Report()
    options = {"budget": "70%", "report": report, "link": "1GB/s", **OFFLOAD}
    assert_like_eager(model, torch.compile(model, backend="memplan", options=options), inputs)
    assert report.copied


def test_a_slow_link_is_not_used() -> None:
    model, inputs = make("unet")
    quick = memplan.estimate(model, inputs, budget="75%", link="350GB/s", **OFFLOAD)
    torch._dynamo.reset()
    slow = memplan.estimate(model, inputs, budget="75%", link="1kB/s", **OFFLOAD)
    assert quick.copied and not slow.copied and slow.recomputed


def test_a_device_that_is_not_here_has_the_link_of_its_row() -> None:
    with torch.device("meta"):
        model, inputs = networks.UNet(), (torch.empty(2, 3, 32, 32), torch.empty(2, 32, 32, dtype=torch.int64))
    report = memplan.estimate(model, inputs, budget="75%", device="h100", link="350GB/s", **OFFLOAD)
    assert report.planned_bytes <= report.budget_bytes
    with pytest.raises(memplan.MemplanError, match="needs a named device on the meta device"):
        memplan.estimate(model, inputs, budget="75%", **OFFLOAD)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"offload": "many"}, "'many' is not a number of bytes"),
        ({"offload": 0}, "offload=0 provides no host memory"),
        ({"offload": True}, "True is not a number of bytes"),
        ({"offload": "1GiB", "link": "pcie99"}, "there is no link 'pcie99'"),
        ({"offload": "1GiB", "link": -1}, "-1 is not a link"),
    ],
)
def test_what_is_refused(options: dict[str, Any], sentence: str) -> None:
    model, inputs = make("unet")
    with pytest.raises(memplan.MemplanError, match=sentence):
        memplan.compile(model, "75%", **options)(*inputs)
