"""Plans for torch_remat, where it is installed: eager's bits, its own account of what is saved, and measured peaks."""

from __future__ import annotations

import copy
import sys
from typing import Any

import pytest
from against_eager import assert_like_eager, peak_of_step, static_bytes
from test_export import CASES, KIB
from torch import nn

import memplan

pytest.importorskip("torch_remat", reason="torch_remat is not installed, or not for this PyTorch", exc_type=ImportError)


def exported(case: str, budget: str, means: str) -> tuple[nn.Module, tuple[Any, ...], Any]:
    model, inputs = CASES[case]()
    report = memplan.estimate(model, inputs, budget=budget)
    return model, inputs, getattr(report, means)(model, inputs, by="torch_remat")


@pytest.mark.parametrize("means", ["modules", "policy"])
@pytest.mark.parametrize("case", ["chain", "transformer"])
def test_steps_fit_and_compute_what_eager_does(case: str, means: str) -> None:
    model, inputs, found = exported(case, "min+60%", means)
    eager = copy.deepcopy(model)
    found.apply(model)
    assert_like_eager(model, model, inputs, eager=eager)  # draws of the generator behind the step, and buffers, too
    assert found.names and found.fits
    base = static_bytes(model, inputs)
    assert abs(base + peak_of_step(model, inputs) - found.peak_bytes) <= 8 * KIB
    found.remove()
    assert not any("forward" in vars(m) for m in model.modules())


def test_regions_are_saved_and_the_rest_runs_again() -> None:
    """By torch_remat's own trace, and by counting calls."""
    import torch_remat

    model, inputs, found = exported("chain", "min+60%", "policy")
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
        exported("chain", "min+60%", "modules")


def test_by_whom_is_one_of_two() -> None:
    model, inputs = CASES["chain"]()
    with pytest.raises(memplan.MemplanError, match="not 'deepspeed'"):
        memplan.estimate(model, inputs, budget="min+60%").modules(model, inputs, by="deepspeed")
