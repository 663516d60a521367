"""Plans as checkpoints, for models that cannot be compiled: bits as in eager PyTorch, and the planned peak is measured."""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import itertools
import sys
from typing import Any

import networks
import pytest
import torch
from against_eager import assert_like_eager, peak_of_step, static_bytes
from torch import nn
from torch.utils import checkpoint as checkpointing

import memplan
from memplan.checkpoints.coarse import CoarseStep
from memplan.checkpoints.modules import Checkpoints
from memplan.checkpoints.remat import RematCheckpoints
from memplan.graph.regions import module_name, regions

KIB = 1024
needs_policies = pytest.mark.skipif(
    not hasattr(checkpointing, "create_selective_checkpoint_contexts"), reason="selective checkpointing came with PyTorch 2.5"
)


class Chain(nn.Module):
    """Equal blocks one after the other, with what is written in place in each."""

    def __init__(self, blocks: int = 6, width: int = 64) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Linear(width, 2 * width),
                nn.GELU(),
                nn.Linear(2 * width, width),
                nn.ReLU(inplace=True),
                nn.BatchNorm1d(width),
                nn.Dropout(0.1),
            )
            for _ in range(blocks)
        )

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return nn.functional.mse_loss(x, y)


def chain() -> tuple[nn.Module, tuple[Any, ...]]:
    torch.manual_seed(0)
    return Chain(), networks.vectors(256, 64)


CASES = {"chain": chain, **{name: functools.partial(networks.make, name) for name in ("convolutions", "transformer", "unet")}}


def exported(case: str, budget: str, means: str) -> tuple[nn.Module, tuple[Any, ...], Checkpoints]:
    model, inputs = CASES[case]()
    report = memplan.estimate(model, inputs, budget=budget)
    return model, inputs, getattr(report, means)(model, inputs)


@pytest.mark.parametrize("means", ["modules", pytest.param("policy", marks=needs_policies)])
@pytest.mark.parametrize("case", ["chain", "convolutions", "transformer"])
def test_checkpoints_fit_and_compute_what_eager_does(case: str, means: str) -> None:
    model, inputs, found = exported(case, "floor+60%", means)
    eager = copy.deepcopy(model)
    found.apply(model)
    assert_like_eager(model, model, inputs, eager=eager)
    assert found.names and found.overhead > 0
    base = static_bytes(model, inputs)
    assert base + peak_of_step(eager, inputs) == pytest.approx(found.eager_bytes, abs=2 * KIB)
    assert base + peak_of_step(model, inputs) == pytest.approx(found.peak_bytes, abs=2 * KIB)
    assert found.fits and found.peak_bytes <= found.budget_bytes < found.eager_bytes
    assert found.counted_bytes == pytest.approx(found.peak_bytes, rel=0.08)


@needs_policies
def test_a_policy_keeps_what_the_plan_keeps() -> None:
    """At less extra time than whole modules: convolutions are kept, normalizations run again."""
    torch.manual_seed(0)
    model, inputs = networks.Convolutions(48), networks.images(4, 32)
    report = memplan.estimate(model, inputs, budget="floor+60%")
    modules, policy = report.modules(model, inputs), report.policy(model, inputs)
    assert modules.fits and policy.fits and policy.overhead < 0.6 * modules.overhead
    assert ("convolution", 1) in set().union(*policy.kept.values())
    eager = copy.deepcopy(model)
    policy.apply(model)
    assert_like_eager(model, model, inputs, eager=eager)


@needs_policies
def test_a_policy_is_a_function_for_pytorch() -> None:
    model, inputs, found = exported("chain", "floor+60%", "policy")
    assert isinstance(model, Chain) and any(found.kept.values())
    eager, (x, y) = copy.deepcopy(model), inputs
    torch.manual_seed(1)
    eager(x, y).backward()
    torch.manual_seed(1)
    for k, block in enumerate(model.blocks):
        make = functools.partial(checkpointing.create_selective_checkpoint_contexts, found.function(f"blocks.{k}"))
        x = checkpointing.checkpoint(block, x, use_reentrant=False, context_fn=make)
    nn.functional.mse_loss(x, y).backward()
    for ours, theirs in zip(model.parameters(), eager.parameters()):
        assert torch.equal(ours.grad, theirs.grad)


def test_what_fits_needs_no_checkpoint_and_what_cannot_is_said() -> None:
    model, inputs, found = exported("convolutions", "100%", "modules")
    assert found.names == [] and found.fits and found.peak_bytes == found.eager_bytes and found.overhead == 0
    torch._dynamo.reset()
    report = memplan.estimate(model, inputs, budget="floor+20%")
    with pytest.warns(memplan.FallbackWarning, match="no checkpoints were found with which an eager step fits"):
        found = report.modules(model, inputs)
    assert not found.fits and report.planned_bytes < found.peak_bytes < found.eager_bytes
    assert "over the budget of" in str(found)


def test_checkpoints_are_taken_out_again() -> None:
    model, inputs, found = exported("chain", "floor+60%", "modules")
    eager_peak = peak_of_step(model, inputs)
    found.apply(model)
    assert peak_of_step(model, inputs) < 0.9 * eager_peak
    with pytest.raises(memplan.MemplanError, match="are already in a model"):
        found.apply(model)
    with pytest.raises(memplan.MemplanError, match="this model already contains"):
        found.measure(model, inputs)
    with torch.no_grad():
        assert torch.equal(model.eval()(*inputs), copy.deepcopy(model)(*inputs))
    found.remove()
    model.train()
    assert all("forward" not in m.__dict__ for m in model.modules())
    assert peak_of_step(model, inputs) == pytest.approx(eager_peak, abs=2 * KIB)


def test_the_search_finds_the_best_set_of_blocks() -> None:
    """Of all 64 subsets of six blocks, counted one by one."""
    model, inputs = chain()
    graph = memplan.estimate(model, inputs, budget="floor+50%").graph
    found = regions(graph.capture)
    blocks = {f"blocks.{k}": found[f"blocks.{k}"] for k in range(6)}
    step = CoarseStep(graph.capture, graph.costs, graph.static_bytes, blocks)
    subsets = [dict.fromkeys(s, frozenset[int]()) for n in range(7) for s in itertools.combinations(blocks, n)]
    nothing, everything = step.count({}, 0), step.count(subsets[-1], 0)
    for share in (0.2, 0.5, 0.8):
        budget = everything.peak_bytes + int(share * (nothing.peak_bytes - everything.peak_bytes))
        best = min(c.seconds for s in subsets if not (c := step.count(s, budget)).excess)
        got = step.count(step.choose({name: [frozenset()] for name in blocks}, budget), budget)
        assert got.peak_bytes <= budget and got.seconds <= 1.05 * best
    all_modules = CoarseStep(graph.capture, graph.costs, graph.static_bytes, found)
    for share in (0.05, 0.1, 0.2, 0.3):  # and with the modules in them
        budget = everything.peak_bytes + int(share * (nothing.peak_bytes - everything.peak_bytes))
        assert all_modules.count(all_modules.choose({name: [frozenset()] for name in found}, budget), budget).excess == 0


def test_what_is_kept_waits_for_the_second_run() -> None:
    """Also where backward does not read it: of each block the second product, which is written over."""
    model, inputs = chain()
    graph = memplan.estimate(model, inputs, budget="100%").graph
    found = {f"blocks.{k}": region for k, region in enumerate(regions(graph.capture)[f"blocks.{k}"] for k in range(6))}
    step = CoarseStep(graph.capture, graph.costs, graph.static_bytes, found)
    products = {n: [k for k in r.calls[0].operators if "addmm" in graph.capture.operations[k].op] for n, r in found.items()}
    kept = step.count({n: frozenset(p[1:]) for n, p in products.items()}, 0)
    plain = step.count(dict.fromkeys(found, frozenset()), 0)
    assert kept.peak_bytes - plain.peak_bytes == pytest.approx(5 * 256 * 64 * 4, rel=0.1)
    assert kept.seconds < plain.seconds


class Moving(nn.Module):
    """Its first half reads a buffer that it then writes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Shift(), nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x)).square().mean()


class Shift(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.register_buffer("shift", torch.ones(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.exp(torch.tanh(self.linear(x)) + self.shift)
        self.shift += 0.5
        return x


def test_a_module_that_reads_what_it_writes_is_none_to_run_again() -> None:
    torch.manual_seed(0)
    model, inputs = Moving(), (torch.randn(512, 64),)
    found = regions(memplan.estimate(model, inputs).graph.capture)
    assert "second" in found and "first.linear" in found and "first" not in found


@pytest.mark.parametrize(
    ("captured", "name"),
    [
        ("L['self'].blocks.0.1", "blocks.0.1"),
        ("getattr(L['self'].blocks[0], '1')", "blocks.0.1"),
        ("getattr(getattr(L['self'].layers[2], '0'), '3').up", "layers.2.0.3.up"),
        ("L['model']._modules['head']", "head"),
        (
            "L['self'].__dict__['_modules']['base_model'].__dict__['_modules']['model'].transformer.h.0",
            "base_model.model.transformer.h.0",
        ),
        ("L['self']", ""),
    ],
)
def test_names_of_modules(captured: str, name: str) -> None:
    assert module_name(captured) == name


def has_torch_remat() -> bool:
    """Whether it is installed, and for this PyTorch."""
    with contextlib.suppress(ImportError):
        importlib.import_module("torch_remat")
        return True
    return False


needs_remat = pytest.mark.skipif(not has_torch_remat(), reason="torch_remat is not installed, or not for this PyTorch")


def exported_to_remat(case: str, budget: str, means: str) -> tuple[nn.Module, tuple[Any, ...], Any]:
    model, inputs = CASES[case]()
    report = memplan.estimate(model, inputs, budget=budget)
    return model, inputs, getattr(report, means)(model, inputs, by="torch_remat")


@needs_remat
@pytest.mark.parametrize("means", ["modules", "policy"])
@pytest.mark.parametrize("case", ["chain", "transformer"])
def test_steps_by_torch_remat_fit_and_compute_what_eager_does(case: str, means: str) -> None:
    model, inputs, found = exported_to_remat(case, "min+60%", means)
    eager = copy.deepcopy(model)
    found.apply(model)
    assert_like_eager(model, model, inputs, eager=eager)  # draws of the generator behind the step, and buffers, too
    assert found.names and found.fits
    base = static_bytes(model, inputs)
    assert abs(base + peak_of_step(model, inputs) - found.peak_bytes) <= 8 * KIB
    found.remove()
    assert not any("forward" in vars(m) for m in model.modules())


@needs_remat
def test_blocks_by_torch_remat_draw_what_they_drew_and_generators_go_on() -> None:
    model, inputs = chain()
    eager = copy.deepcopy(model)
    names = [f"blocks.{k}" for k in range(6)]
    RematCheckpoints(names, 0, 0, 0, 0, 0.0, regions={"blocks.0": ["blocks.0.0", "blocks.0.4"]}).apply(model)
    assert_like_eager(model, model, inputs, eager=eager)


@needs_remat
def test_regions_are_saved_and_the_rest_runs_again() -> None:
    """By torch_remat's own trace, and by counting calls."""
    import torch_remat

    model, inputs, found = exported_to_remat("chain", "min+60%", "policy")
    assert found.regions and "regions saved" in str(found)
    calls: dict[str, int] = {}

    def counted(name: str, forward: Any) -> Any:
        def run(*args: Any) -> Any:
            calls[name] = calls.get(name, 0) + 1
            return forward(*args)

        return run

    inside = {n for name in found.names for n, _ in model.named_modules() if n.startswith(name + ".")}
    for name in inside:
        module = model.get_submodule(name)
        module.forward = counted(name, module.forward)
    # apply takes modules that nobody has changed: theirs are counted behind its back
    found._applied.clear()
    for name in found.names:
        found.put(model, name)
    with torch_remat.collect_trace() as trace:
        model(*inputs).backward()
    kept = {n for regions in found.regions.values() for n in regions}
    assert kept and all(name in trace.format() for name in kept)
    assert {calls[n] for n in kept} == {1} and {calls[n] for n in inside - kept} == {2}


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_remat", None)
    with pytest.raises(memplan.MemplanError, match="pip install torch_remat"):
        exported_to_remat("chain", "min+60%", "modules")


def test_by_whom_is_one_of_two() -> None:
    model, inputs = CASES["chain"]()
    with pytest.raises(memplan.MemplanError, match="not 'deepspeed'"):
        memplan.estimate(model, inputs, budget="min+60%").modules(model, inputs, by="deepspeed")
