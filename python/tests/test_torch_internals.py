"""PyTorch's private names: they are in one folder of the package, and each is taken away here to see what is so without it."""

from __future__ import annotations

import ast
import contextlib
import copy
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import networks
import pytest
import torch
from against_eager import Context, assert_like_eager, train
from torch import nn
from torch.autograd import forward_ad
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.flop_counter import FlopCounterMode

import memplan
from memplan import in_place, torch_internals
from memplan.costs.measure import Costs, host_workspaces
from memplan.graph import native
from memplan.run import backend, outside
from memplan.run.between import OverwrittenError
from memplan.run.ledger import LEDGER
from memplan.torch_internals import autograd, capture, dispatch, modules, names, tensors
from memplan.torch_internals.names import NAMES, Private

SOURCES = Path(memplan.__file__).parent
PRIVATE = re.compile(r"_[A-Za-z]\w*")
NOT_PYTORCHS = {"_getframe", "_compiler_ctx"}  # Python's, Lightning's
Take = Callable[[Private], None]
Case = Callable[[Take, pytest.MonkeyPatch], None]
CASES: dict[str, Case] = {}


def without(*rows: Private) -> Callable[[Case], Case]:
    """The test of these names, one at a time."""

    def add(case: Case) -> Case:
        CASES.update({row.paths[0]: case for row in rows})
        return case

    return add


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch) -> Take:
    """Has this PyTorch not have a name, or none of the names for the same."""
    native.overloads.cache_clear()
    return lambda row: monkeypatch.setattr(row, "place", None)


@pytest.mark.parametrize("row", NAMES, ids=lambda row: row.paths[0].rpartition("torch.")[2])
def test_without(row: Private, take: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    take(row)
    with contextlib.ExitStack() as stack:
        if row.lost and not row.on_demand and names.missing():
            stack.enter_context(
                pytest.warns(memplan.FallbackWarning, match=re.escape(f"{row.paths[0]} ({row.use}): {row.lost}"))
            )
            torch_internals.probe()
    CASES[row.paths[0]](take, monkeypatch)
    native.overloads.cache_clear()


def test_every_name_is_taken_away() -> None:
    assert CASES.keys() == {row.paths[0] for row in NAMES}


def test_nothing_is_missing_here() -> None:
    """Of what this version of PyTorch should have."""
    assert names.missing() == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch_internals.probe()


# One folder


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def private_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """What a file uses that begins with an underscore, and is not its object's own."""
    for node in ast.walk(tree):
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [a.name for a in node.names if a.name.startswith("torch")]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
            found = [f"{node.module}.{a.name}" for a in node.names]
        elif isinstance(node, ast.Attribute) and dotted(node.value) not in ("self", "cls"):
            found = [node.attr]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and PRIVATE.fullmatch(node.value):
            found = [node.value]
        for name in found:
            if any(PRIVATE.fullmatch(part) for part in name.split(".")):
                yield node.lineno, name


def own_names(tree: ast.AST) -> set[str]:
    """What a file defines."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    defined = {n.name for n in ast.walk(tree) if isinstance(n, kinds)}
    defined |= {n.target.id for n in ast.walk(tree) if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    stored = (n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return defined | {n.attr for n in stored if dotted(n.value) == "self"}


def test_no_other_file_has_a_private_name() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCES.rglob("*.py"))}
    own = {name for tree in trees.values() for name in own_names(tree)} | NOT_PYTORCHS
    elsewhere = [
        f"{path.relative_to(SOURCES)}:{line}: {name}"
        for path, tree in trees.items()
        if path.parent.name != "torch_internals"
        for line, name in private_names(tree)
        if name not in own
    ]
    assert not elsewhere, "these belong into memplan/torch_internals: " + ", ".join(elsewhere)


@pytest.mark.parametrize(
    "line",
    [
        "torch._C._functorch",
        "x = t._version",
        "from torch._dynamo import config",
        "import torch._guards",
        "getattr(t, '_base')",
    ],
)
def test_a_private_name_is_seen(line: str) -> None:
    assert list(private_names(ast.parse(line)))


def test_names_that_are_nowhere_are_missing_and_nothing_fails() -> None:
    try:
        gone = [
            Private(path, use="nothing", lost="nothing is")
            for path in ("torch._gone.name", "torch.Tensor._gone", "torch._gone")
        ]
        assert not any(gone) and gone[0].get(3) == 3
        assert set(gone) <= set(names.missing())
        with pytest.raises(memplan.MemplanError, match=r"has no torch._gone.name \(nothing\): nothing is"):
            gone[0]()
    finally:
        del NAMES[-3:]


def test_the_second_name_is_found_where_the_first_is_not() -> None:
    row = Private("torch._gone", "torch.ones", use="nothing", instead="nothing")
    NAMES.remove(row)
    assert row.get() is torch.ones


# What is used


class Two(nn.Module):
    """A weight that is used twice, dropout, normalization and views; a loss, or what it is of."""

    def __init__(self, shows: bool = False) -> None:
        super().__init__()
        self.layer, self.norm, self.shows = nn.Linear(8, 8), nn.BatchNorm1d(8), shows

    def forward(self, x: torch.Tensor) -> Any:
        h = torch.tanh(self.layer(nn.functional.dropout(self.norm(torch.tanh(self.layer(x))), 0.2, self.training)))
        return h.t() if self.shows else h.square().mean()


def x_of() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(4, 8)


def planned(model: nn.Module, budget: str = "min+20%", **options: Any) -> Any:
    return memplan.compile(model, budget, **options)


def assert_eagers_bits() -> None:
    """Of a model with all that captures change, whose operators are measured now, and under autocast."""
    for context in (contextlib.nullcontext, lambda: torch.autocast("cpu", torch.bfloat16)):
        model = Two()
        backend.COSTS = Costs()
        assert_like_eager(model, planned(model), (x_of(),), context)
        assert model.memplan.graph.name and not model.memplan.fallbacks


def assert_trains(context: Context = contextlib.nullcontext) -> None:
    """Planned steps run, and come near eager's."""
    model = Two().eval()
    eager = copy.deepcopy(model)
    for ours, theirs in zip(train(planned(model), (x_of(),), 2, context), train(eager, (x_of(),), 2, context)):
        assert torch.allclose(ours, theirs, rtol=0.02)
    assert model.memplan.graphs


def said(call: Callable[[], Any]) -> list[str]:
    """What our warnings say during a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in caught if issubclass(w.category, memplan.FallbackWarning)]


# The public way: the same bits


@without(
    autograd.FORWARD_CLASS,
    capture.AOT,
    capture.BOXED,
    capture.LAZY_MODULE,
    capture.USE_LAZY,
    dispatch.BELOW_AUTOGRAD,
    dispatch.KNOWN_KERNELS,
    dispatch.RUN_KERNEL,
    dispatch.SCHEMA,
)
def bits_are_eagers(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "COSTS", Costs())
    assert_eagers_bits()


@without(autograd.KEEPS_GRAPH)
def a_graph_that_is_kept_is_seen(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    for row, name in ((autograd.ENGINE, "place"), (outside, "PYTORCHS")):
        monkeypatch.setattr(row, name, getattr(row, name))  # both as they are, at the end
    monkeypatch.setattr(torch.autograd, "_engine_run_backward", torch.autograd._engine_run_backward)
    autograd.note_what_is_kept()
    monkeypatch.setattr(outside, "PYTORCHS", autograd.ENGINE.get())
    loss, before = planned(Two())(x_of()), LEDGER.n_calls
    loss.backward(retain_graph=True)
    assert LEDGER.n_calls == before
    loss.backward()
    assert LEDGER.n_calls == before - 1


@without(autograd.BEGIN_EVENTS, autograd.END_EVENTS, autograd.EVENTS_CONFIG)
def torch_profiler_has_the_same_events(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(64, 64)
    calls = [lambda: torch.softmax(x.t().contiguous() @ x, 1), lambda: torch.linalg.qr(x), x.sort]
    here = host_workspaces(calls)
    monkeypatch.undo()
    torch.set_num_threads(1)
    assert here == host_workspaces(calls) and max(here) > 0


@without(modules.CALL)
def hooks_of_the_whole_run(*_: Any) -> None:
    model, seen = Two(), []
    model.register_forward_hook(lambda *given: seen.append(len(given)))
    planned(model)(x_of())
    assert seen == [3] and model.memplan.graphs


# Without a public way: what the sentence says


@without(capture.CONFIG)
def settings_are_pytorchs(*_: Any) -> None:
    assert capture.limit() == 8 and isinstance(capture.dynamo_settings(allow_rnn=True), contextlib.nullcontext)
    assert_trains()


class Branches(Two):
    def forward(self, x: torch.Tensor) -> Any:
        h = self.layer(x)
        return h.square().sum() if h.sum().item() > 0 else h.sum()


@without(capture.CANNOT)
def what_cannot_be_captured_ends_in_pytorchs_error(*_: Any) -> None:
    with pytest.raises(torch._dynamo.exc.TorchDynamoException):
        planned(Branches())(x_of())


@without(capture.LIMIT)
def the_limit_ends_in_pytorchs_error(*_: Any) -> None:
    assert capture.limit_errors() == () and len(capture.capture_errors()) == 1
    assert_eagers_bits()


class Asks(Two):
    def forward(self, x: torch.Tensor) -> Any:
        return super().forward(x) * (2 if torch.compiler.is_compiling() else 1)


@without(capture.ANSWER)
def who_asks_is_not_told_of(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not said(lambda: planned(Asks())(x_of()))
    monkeypatch.undo()
    assert any("asks whether it is compiled" in s for s in said(lambda: planned(Asks())(x_of())))


class Skipped(Two):
    @torch.compiler.disable
    def forward(self, x: torch.Tensor) -> Any:
        return super().forward(x)


@without(capture.COUNT)
def what_is_skipped_is_not_told_of(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not said(lambda: planned(Skipped())(x_of()))
    monkeypatch.undo()
    assert any("PyTorch has captured nothing" in s for s in said(lambda: planned(Skipped())(x_of()))) == bool(capture.COUNT)


@without(capture.TRACING)
def calls_are_not_watched(*_: Any) -> None:
    model, before = Two(), LEDGER.n_calls
    loss = planned(model)(x_of())
    assert LEDGER.n_calls == before
    loss.backward()
    assert_eagers_bits()


@without(capture.COMPILING)
def graphs_have_no_number(*_: Any) -> None:
    assert_eagers_bits()
    model = planned(Two())
    model(x_of())
    assert model.memplan.graph.name == "graph"


@without(dispatch.KEY, dispatch.KERNELS, dispatch.ALL_OPERATORS, dispatch.DECOMPOSITIONS)
def captures_see_pytorchs_kernels(*_: Any) -> None:
    assert native.overloads() == ()
    assert_trains()
    model = planned(Two())
    model(x_of()).backward()
    assert model.memplan.graphs


@without(dispatch.REGION, dispatch.CAST, dispatch.CAST_CACHE)
def casts_are_pytorchs(*_: Any) -> None:
    assert_trains()
    assert_trains(context=lambda: torch.autocast("cpu", torch.bfloat16))


@without(tensors.TREE_ITER)
def own_classes_are_not_taken_apart(*_: Any) -> None:
    value = {"a": [torch.ones(1), (2, None)], "b": torch.return_types.max((torch.ones(1), torch.zeros(1)))}
    assert len(list(tensors.tree_iter(value))) == 5
    assert_eagers_bits()


@without(tensors.VERSION)
def writes_in_between_are_not_noticed(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    def overwritten() -> None:
        model = Two(shows=True)
        outputs = planned(model)(x_of())
        outputs.detach().zero_()
        outputs.sum().backward()

    overwritten()
    monkeypatch.undo()
    with pytest.raises((OverwrittenError, RuntimeError), match="inplace"):
        overwritten()


@without(tensors.BASE)
def gradients_of_gradients_of_views_are_refused(*_: Any) -> None:
    class Views(Two):
        def forward(self, x: torch.Tensor) -> Any:
            h = torch.tanh(self.layer(x))
            return h.view(-1), h.t()

    x = x_of().requires_grad_()
    with pytest.raises(memplan.MemplanError, match=re.escape("torch.Tensor._base")):
        torch.autograd.grad(planned(Views())(x)[0].sum(), x, create_graph=True)
    assert_eagers_bits()


@without(tensors.HOOKS, tensors.HOOKS_BEHIND, modules.HOOKS_BEFORE, modules.HOOKS_BEHIND)
def hooks_are_not_seen_by_a_step(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Two()
    optimizer, weight = torch.optim.SGD(model.parameters(), lr=0.1), model.layer.weight
    if not tensors.HOOKS:
        weight.register_hook(lambda gradient: gradient)
    elif not tensors.HOOKS_BEHIND:
        weight.register_post_accumulate_grad_hook(lambda parameter: None)
    elif not modules.HOOKS_BEFORE:
        optimizer.register_step_pre_hook(lambda *given: None)
    else:
        optimizer.register_step_post_hook(lambda *given: None)
    step = memplan.TrainStep(model, None, optimizer, "100%")
    step(x_of())
    monkeypatch.undo()
    with pytest.raises(memplan.MemplanError, match="hooks"):
        step(x_of())


@without(tensors.UNWRAP)
def a_parameter_is_cast_at_each_use(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    def n_casts() -> int:
        model = Two()
        with torch.autocast("cpu", torch.bfloat16):
            report = memplan.estimate(model, (x_of(),))
        return sum("_to_copy" in o.op and o.phase == "forward" for o in report.graph.capture.operations)

    more = n_casts()
    monkeypatch.undo()
    assert n_casts() < more


@without(autograd.ENGINE, autograd.RAW_SAVED)
def a_loss_outside_is_in_no_plan(*_: Any) -> None:
    model = planned(Two(shows=True))
    outputs = model(x_of())
    if not autograd.ENGINE:
        assert not outside.WATCHED
    assert outside.saved_storages([outputs.square().grad_fn], set()) == {} or not autograd.ENGINE
    outputs.square().sum().backward()


@without(autograd.PROFILING)
def a_profiler_is_not_seen(*_: Any) -> None:
    with profile(activities=[ProfilerActivity.CPU]), record_function("here"):
        assert not autograd.profiler_is_on()
    assert_eagers_bits()


@without(modules.COMPILED_CALL)
def a_shallow_copy_is_eager(_: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place, "COMPILED", "_gone")
    monkeypatch.setattr(in_place, "OURS", ("_gone", *in_place.OURS[1:]))
    assert_eagers_bits()
    model = planned(Two())
    again = copy.copy(model)
    assert torch.isfinite(again(x_of())) and not again.memplan.graphs
    memplan.uncompile(model)


@without(modules.ALL_HOOKS)
def hooks_on_all_modules_are_not_seen(*_: Any) -> None:
    handle = nn.modules.module.register_module_forward_hook(lambda *given: None)
    try:
        assert not modules.has_hooks_on_all()
    finally:
        handle.remove()
    assert_eagers_bits()


@without(modules.REPLICA)
def a_replica_is_compiled_for_itself(*_: Any) -> None:
    replica = planned(Two())._replicate_for_data_parallel()
    replica.layer, replica.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)
    replica(x_of()).backward()
    assert replica.memplan.graphs


@without(modules.ACTIVE)
def no_replica_is_active(*_: Any) -> None:
    assert modules.active_replica() is None
    assert_eagers_bits()


@without(modules.OPTIMIZED)
def what_torch_compile_made_is_a_module(*_: Any) -> None:
    assert modules.inside(torch.compile(Two(), backend="eager")) is None


@without(modules.STEPPED)
def a_scheduler_warns(*_: Any) -> None:
    model = Two()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    memplan.TrainStep(model, None, optimizer, "100%")(x_of())
    with pytest.warns(UserWarning, match=r"lr_scheduler\.step"):
        scheduler.step()


@without(dispatch.WATCHING)
def a_policy_is_refused(*_: Any) -> None:
    with pytest.raises(memplan.MemplanError, match="report.policy is refused"):
        dispatch.watched(lambda: torch.ones(1))


@without(dispatch.MODE)
def a_mode_is_not_seen(*_: Any) -> None:
    with FlopCounterMode(display=False):
        assert dispatch.mode_now() == ""
    assert_eagers_bits()


@without(dispatch.FUNC_LEVEL)
def a_transform_is_not_seen(*_: Any) -> None:
    assert torch.func.grad(lambda x: x.sum() if dispatch.transform_now() == "" else x.prod())(torch.ones(2) * 3).tolist() == [
        1,
        1,
    ]
    assert_eagers_bits()


@without(dispatch.FORWARD_LEVEL)
def forward_mode_is_not_seen(*_: Any) -> None:
    with forward_ad.dual_level():
        assert not dispatch.is_forward_mode()
    assert_eagers_bits()


@without(dispatch.BATCH_NORM, dispatch.BATCH_NORM_AGAIN)
def no_batch_normalization_runs_twice(*_: Any) -> None:
    model, inputs = networks.make("convolutions")
    assert_like_eager(model, planned(model), inputs)
    assert model.memplan.recomputed and not any("batch_norm" in r.op for r in model.memplan.recomputed)


@without(dispatch.FLASH, dispatch.EFFICIENT, dispatch.HOST_FLASH, dispatch.WRITTEN_OUT)
def attention_is_written_out(*_: Any) -> None:
    q = torch.randn(1, 2, 64, 8, device="meta", requires_grad=True)
    found = memplan.estimate(lambda q: nn.functional.scaled_dot_product_attention(q, q, q).sum(), (q,), device="h100")
    assert max(s.n_bytes for s in found.graph.capture.storages) >= 2 * 64 * 64 * 4


@without(capture.SYMBOLIC)
def symbolic_tracing_is_not_seen(*_: Any) -> None:
    assert not capture.is_symbolically_traced()
    assert_eagers_bits()


@without(capture.REGISTER)
def a_name_is_not_registered(*_: Any) -> None:
    capture.register(lambda *given: None, "memplan_again")
    assert "memplan_again" not in torch.compiler.list_backends(())


@without(*capture.FOR_INDUCTOR)
def inductor_is_refused(*_: Any) -> None:
    with pytest.raises(memplan.MemplanError, match=r"inductor=True is refused"):
        planned(Two(), inductor=True)


@without(capture.EXTRACT)
def all_runs_as_eager_does(*_: Any) -> None:
    model = Two()
    with pytest.warns(memplan.FallbackWarning, match="nothing is planned, and all runs as eager does"):
        assert_like_eager(model, planned(model), (x_of(),))
    assert not model.memplan.graphs
