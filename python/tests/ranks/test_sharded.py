"""Models sharded by `fully_shard` (FSDP2), on processes of one machine.

Losses, gradients and weights are bit-identical to FSDP2. Peaks are as planned and below FSDP2's. Every rank reports a model
that memplan cannot plan.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from against_eager import peak_of_call
from networks import Transformer
from sharded_models import ODD, Perceptron, assert_same, numbers, peak, process, pytestmark, sharded, words  # noqa: F401
from torch import fx, nn

import memplan
from memplan.graph import shards
from memplan.memory import host
from memplan.run.backend import Backend


def trained(model: Any, batch: Callable[[int, int], Any], rank: int, parts: int = 1) -> list[torch.Tensor]:
    """Losses of three steps, with an evaluation and batches whose gradients are added up."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for step in range(3):
        for part in range(parts):
            inputs = batch(step + 10 * part, rank)
            torch.manual_seed(step)
            loss = model(*inputs)
            loss.backward()
            losses.append(loss.detach())
        if step < 2:
            optimizer.step()
            optimizer.zero_grad()
            with torch.no_grad():
                losses.append(model(*batch(7, rank)))
    return losses


def check(
    make: Callable[[], Any], batch: Callable[[int, int], Any], budget: str, rank: int, parts: int = 1, **options: Any
) -> Any:
    eager, ours = make(), make()
    memplan.compile(ours, budget, accumulate=parts > 1, **options)
    expected, got = trained(eager, batch, rank, parts), trained(ours, batch, rank, parts)
    assert len(expected) == len(got) and all(torch.equal(a, b) for a, b in zip(expected, got))
    assert_same(eager, ours)
    report = ours.memplan
    assert report.graphs and not report.fallbacks, report.fallbacks
    if parts == 1:
        inputs = batch(0, rank)
        of_fsdp, measured = peak(eager, inputs), peak(ours, inputs)
        assert abs(measured - report.planned_bytes) <= 0.01 * measured, (measured, report.planned_bytes)
        assert report.planned_bytes <= report.budget_bytes
        if budget == "min":
            assert measured < 0.8 * of_fsdp, (measured, of_fsdp)
    return ours


def plain(rank: int) -> None:
    check(lambda: sharded(Perceptron), numbers, "min", rank)
    check(lambda: sharded(Perceptron, per_layer=False), numbers, "min+50%", rank)
    model = check(lambda: sharded(lambda: Transformer(0.1, 32, 3)), words, "min+40%", rank)
    assert model.memplan.recomputed


def of_several_types(rank: int) -> None:
    from torch.distributed.fsdp import MixedPrecisionPolicy

    half = torch.bfloat16
    for policy in (
        MixedPrecisionPolicy(half),
        MixedPrecisionPolicy(half, torch.float32, half),
        MixedPrecisionPolicy(),
    ):
        check(lambda policy=policy: sharded(Perceptron, mp_policy=policy), numbers, "min+30%", rank)  # type: ignore[misc]


def habits(rank: int) -> None:
    check(lambda: sharded(Perceptron), numbers, "min+50%", rank, parts=2)

    def frozen() -> Any:
        torch.manual_seed(0)
        model = Perceptron()
        model.layers[0].requires_grad_(False)
        model.layers[2][0].requires_grad_(False)
        return sharded(lambda: model)

    check(frozen, numbers, "min+50%", rank)
    eager, ours = sharded(Perceptron), memplan.compile(Perceptron(), "min+50%")
    torch.manual_seed(0)
    with torch.no_grad():  # compiled before it is sharded
        for p, q in zip(ours.parameters(), Perceptron().parameters()):
            p.copy_(q)
    ours = sharded(lambda: ours)
    assert_same(eager, ours)
    assert all(torch.equal(a, b) for a, b in zip(trained(eager, numbers, rank), trained(ours, numbers, rank)))
    assert ours.memplan.graphs
    state = ours.state_dict()
    assert state.keys() == eager.state_dict().keys() and all(hasattr(v, "to_local") for v in state.values())
    eager.load_state_dict(state)
    memplan.uncompile(ours)
    assert all(torch.equal(a, b) for a, b in zip(trained(eager, numbers, rank), trained(ours, numbers, rank)))


def divided(rank: int) -> None:
    """Sums that are divided by a number of the user's: by how many words there are, later, as torchtitan does."""

    def made(factor: float, only_sums: bool) -> Any:
        model = sharded(Perceptron)
        for module in (*model.layers, model):
            module.set_gradient_divide_factor(factor)
            module.set_force_sum_reduction_for_comms(only_sums)
        return model

    for factor in (1.0, 3.0):
        check(lambda factor=factor: made(factor, only_sums=True), numbers, "min+50%", rank)  # type: ignore[misc]
    check(lambda: made(2.0, only_sums=False), numbers, "min+50%", rank)  # the ranks
    with pytest.raises(memplan.MemplanError, match="another divisor of sums"):  # nothing that gloo can
        memplan.compile(made(3.0, only_sums=False), "min")(*numbers(0, rank))


def other_budgets(rank: int) -> None:
    """Are other plans of what was captured once."""
    captures = []
    inner = Backend.__call__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Backend, "__call__", lambda self, *given, **known: captures.append(1) or inner(self, *given, **known))
        model = sharded(Perceptron)
        for budget in ("100%", "min+60%", "min+20%"):
            memplan.compile(model, budget)
            measured = [peak(model, numbers(step, rank)) for step in range(2)][-1]
            assert abs(measured - model.memplan.planned_bytes) <= 0.01 * measured, (measured, model.memplan.planned_bytes)
            assert model.memplan.planned_bytes <= model.memplan.budget_bytes
    assert len(captures) == 1


def other_budgets_beside_other_bytes(rank: int) -> None:
    """All ranks have the plans of the one that has most beside the graph."""
    model = sharded(Perceptron)
    model.register_buffer("unread", torch.zeros(1000 * (1 + rank)))
    for budget in ("100%", "min+60%", "min+20%"):
        memplan.compile(model, budget)
        measured = peak(model, numbers(0, rank))
        here, report = model.unread.nbytes, model.memplan
        told: list[Any] = [None, None]
        torch.distributed.all_gather_object(told, (report.planned_bytes, report.budget_bytes))
        assert told[0] == told[1] and report.planned_bytes <= report.budget_bytes, told
        assert abs(measured + here - report.planned_bytes) <= 0.01 * measured, (measured, report.planned_bytes)
    memplan.compile(model, "min+50%" if rank == 0 else "min+40%")
    with pytest.raises(memplan.errors.RankError, match=r"the option budget on rank 1: min\+40%, and on rank 0: min\+50%"):
        model(*numbers(0, rank))


def with_copies(rank: int) -> None:
    """Activations, and parameters that are whole, may be copied to the host's memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host, "LEAST_BYTES", 1 << 14)
        model = check(lambda: sharded(Perceptron), numbers, "min+30%", rank, offload="64MiB", link=1e15)
        assert model.memplan.copied


def refused(rank: int) -> None:
    model = memplan.compile(sharded(Perceptron), "min+50%")
    with pytest.raises(memplan.MemplanError, match=r"sizes of its inputs on rank 1: \[224, 127\], and on rank 0: \[256, 127\]"):
        model(numbers(0, rank)[0][: 256 - 32 * rank])  # a rank with a smaller batch
    part: Any = Perceptron()
    part.head = sharded(lambda: nn.Linear(ODD, 7), per_layer=False)
    with pytest.raises(memplan.MemplanError, match="FSDP shards parts of this Perceptron"):
        memplan.compile(part, "min")(*numbers(0, rank))
    with pytest.raises(memplan.MemplanError, match="does not plan its whole step"):
        memplan.TrainStep(sharded(Perceptron), None, torch.optim.SGD(part.parameters()), "min")
    model = memplan.compile(sharded(Perceptron), "min")
    model(*numbers(0, rank)).backward()
    between = (model.memplan.static_bytes + model.memplan.floor_bytes) // 2
    for budget in ("10KiB", between):
        model = memplan.compile(sharded(Perceptron), budget)
        with pytest.raises(memplan.BudgetError, match="the smallest plan found needs"):
            model(*numbers(0, rank))


def beside_compute(rank: int) -> None:
    """Where the budget has room, products run between the beginning of a collective and its end."""

    def marked(function: Any) -> Any:
        def call(*args: Any) -> Any:
            with torch.profiler.record_function(function.__name__):
                return function(*args)

        return call

    for name in ("begin_gather", "end_gather", "begin_sum", "end_sum"):
        setattr(shards, name, marked(getattr(shards, name)))
    model = check(lambda: sharded(Perceptron), numbers, "100%", rank)
    found = model.memplan.graphs[0].collectives
    assert 0 < found.hidden < found.seconds
    assert f"of which {1e3 * found.hidden:.3g} run beside compute" in str(model.memplan)
    shards.GOING[0] = "of a step that was broken off"
    with torch.profiler.profile() as profiler:
        model(*numbers(0, rank)).backward()
    assert not shards.GOING
    events = sorted(profiler.events(), key=lambda e: e.time_range.start)
    for begin, end in (("begin_gather", "end_gather"), ("begin_sum", "end_sum")):
        marks = {"aten::addmm": "*", "aten::mm": "*", begin: "(", end: ")"}
        assert "(*" in (order := "".join(marks.get(e.name, "") for e in events)), order


def replicated(rank: int) -> None:
    """HSDP, 2 x 2."""
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards"))
    check(lambda: sharded(Perceptron, mesh=mesh), numbers, "min+50%", rank)


def a_sum_on_its_way(rank: int) -> None:
    """What gloo's thread takes of PyTorch's memory, while others compute."""
    number = shards.groups_of(sharded(Perceptron))[0]
    shards.gloo_has_means()  # asked once, by a sum of its own, which gloo's thread may still hold
    for kind in (torch.float32, torch.bfloat16):
        rows, graph = torch.ones(2, 64, dtype=kind), fx.Graph()
        given = graph.placeholder("rows")
        given.meta["val"] = rows
        two = shards.apart(graph.call_function(shards.REDUCE, (given, number)))
        assert two is not None

        def begun(rows: torch.Tensor = rows) -> None:
            shards.arrived(shards.begin_sum(rows, number), "a sum")

        measured = peak_of_call(begun)
        assert measured <= two.going.nbytes + two.beside_bytes <= measured + 4, (kind, measured, two)


def store_before(module: Any, args: tuple[torch.Tensor]) -> None:
    module.kept = torch.cat([args[0]] * 4)


def store_behind(module: Any, _: Any, out: torch.Tensor) -> None:
    module.kept = torch.ones(256, 2 * ODD)


def store_views(module: Any, args: tuple[torch.Tensor], _: Any) -> None:
    module.kept, module.own = args[0].detach(), [p.detach() for p in module.parameters()]


def stored_by_hooks(rank: int) -> None:
    """If hooks of the whole model store tensors, memplan reports new tensors, but neither views nor memory of FSDP2's hooks."""
    for hook, n_rows in ((store_before, 4), (store_behind, 2), (store_views, 0)):
        for is_sharded_first in (False, True):
            torch._dynamo.reset()
            model: Any = Perceptron()
            of_model = sharded(lambda model=model: model) if is_sharded_first else model  # type: ignore[misc]
            (of_model.register_forward_pre_hook if hook is store_before else of_model.register_forward_hook)(hook)
            model = memplan.compile(of_model if is_sharded_first else sharded(lambda model=model: model), "min+50%")  # type: ignore[misc]
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                measured = peak(model, numbers(0, rank))
            said = [str(w.message) for w in caught if issubclass(w.category, memplan.FallbackWarning)]
            text = f"user code stores {n_rows * 127} KiB of results of earlier calls, computed in a hook of FSDPPerceptron"
            assert len(said) == bool(n_rows) and all(text.replace(" KiB", ".00 KiB") in s for s in said), (hook, said)
            assert measured <= 1.001 * model.memplan.planned_bytes, (hook, measured, model.memplan.planned_bytes)


@pytest.mark.parametrize(
    "what",
    [
        plain,
        of_several_types,
        habits,
        divided,
        other_budgets,
        with_copies,
        refused,
        beside_compute,
        a_sum_on_its_way,
        other_budgets_beside_other_bytes,
        stored_by_hooks,
    ],
    ids=lambda f: f.__name__,
)
def test_two_ranks(what: Callable[[int], None], tmp_path: Path) -> None:
    torch.multiprocessing.spawn(process, (str(tmp_path), 2, what), 2)


@pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 10), reason="FSDP2 asks gloo for mean values, which it cannot give"
)
def test_four_ranks(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(process, (str(tmp_path), 4, replicated), 4)
