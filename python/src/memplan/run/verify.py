"""Option verify=True: before a graph's first real step, memplan runs it as planned and eagerly, and compares."""

from __future__ import annotations

import contextlib
import functools
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from memplan.budget import in_units
from memplan.costs.measure import peak_of
from memplan.errors import FallbackWarning
from memplan.graph.capture import tensors_of
from memplan.plan.graph_report import GraphReport
from memplan.run.second_order import drawing_from, generators

Run = Callable[..., Any]


def apart_from(inputs: Sequence[Any]) -> list[Any]:
    """Return inputs that protect the user's objects: parameters without gradients and hooks, and copies of other tensors.

    A tensor that occurs twice remains one tensor.
    """
    made: dict[int, Any] = {}
    for i in inputs:
        if isinstance(i, torch.Tensor) and id(i) not in made:
            made[id(i)] = i.detach().requires_grad_() if i.requires_grad else i.clone()
    return [made.get(id(i), i) for i in inputs]


def step(run: Run, given: Sequence[Any], found: list[tuple[str, torch.Tensor]], names: Sequence[str]) -> None:
    """Run forward and backward, and append all results with their names to `found`."""
    outputs = tensors_of(run(*given))
    leaves = {id(i): (i, name) for i, name in zip(given, names) if isinstance(i, torch.Tensor) and i.requires_grad}
    ends = [o for o in outputs if o.requires_grad]
    found += [(f"output {k}", o.detach()) for k, o in enumerate(outputs)]
    found += [(name, i) for i, name in zip(given, names) if isinstance(i, torch.Tensor) and not i.requires_grad]
    if ends and leaves:
        with contextlib.ExitStack() as stack:
            for kind in ("cpu", "cuda"):
                stack.enter_context(torch.autocast(kind, enabled=False))
            wanted = [i for i, _ in leaves.values()]
            gradients = torch.autograd.grad(ends, wanted, [torch.ones_like(o) for o in ends], allow_unused=True)
        of_names = (f"the gradient of {name}" for _, name in leaves.values())
        found += [(name, g) for name, g in zip(of_names, gradients) if g is not None]
    found += [(f"random generator {k}", g.get_state()) for k, g in enumerate(generators())]


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the largest difference between two tensors, relative to the largest value in them."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    if torch.equal(a, b) or (torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num())):
        return 0.0
    wide = torch.complex128 if a.is_complex() else torch.float64
    a, b = a.to(wide), b.to(wide)
    return float((a - b).abs().max() / b.abs().max().clamp_min(torch.finfo(torch.float64).tiny))


class Verified:
    """A compiled graph with verification. `module` is the captured graph."""

    def __init__(self, module: fx.GraphModule, compiled: Run, graph: GraphReport) -> None:
        self.module, self.compiled = module, compiled
        # a weak reference: PyTorch keeps this object, which would otherwise keep plans and parameters alive
        self.graph = weakref.ref(graph)
        self.names = [str(n.target).strip("_") for n in module.graph.nodes if n.op == "placeholder"]
        self.is_verified = False

    def __call__(self, *inputs: Any) -> Any:
        if not self.is_verified and torch.is_grad_enabled():
            self.is_verified = True
            if (graph := self.graph()) is not None:
                self.compare(inputs, graph)
        return self.compiled(*inputs)

    def compare(self, inputs: Sequence[Any], graph: GraphReport) -> None:
        """Run both steps from the same generator states, compare them, and restore the states."""
        states = [g.clone_state() for g in generators()]
        results: list[list[tuple[str, torch.Tensor]]] = []
        peaks = []
        for run in (self.compiled, self.module):
            for is_measured in (False, True):
                # a first run is not measured, because it may compile; it also collects the results
                found: list[tuple[str, torch.Tensor]] = []
                with drawing_from(states):
                    call = functools.partial(step, run, apart_from(inputs), found, self.names)
                    if is_measured:
                        peaks.append(graph.static_bytes + peak_of(call))
                    else:
                        call()
                        results.append(found)
        planned, eager = ({**dict(r)} for r in results)
        distances = {name: distance(planned[name], eager[name]) for name in eager if name in planned}
        distances |= dict.fromkeys(planned.keys() ^ eager.keys(), float("inf"))
        tell(graph, distances, *peaks)


def tell(graph: GraphReport, distances: dict[str, float], planned_bytes: int, eager_bytes: int) -> None:
    where = max(distances, key=lambda name: distances[name])
    peaks = f"{in_units(planned_bytes)} measured, {in_units(graph.planned_bytes)} planned, {in_units(eager_bytes)} eagerly"
    if distances[where] == 0:
        graph.notes.append(f"verified: its first step has eager's bits; peaks: {peaks}")
        return
    if cut := graph.chunks.option():  # other rounding is expected
        same = ", ".join(name for name, d in distances.items() if d == 0) or "none"
        furthest = f"the largest difference is {distances[where]:.2g} of the largest element of {where}"
        numbers = ", ".join(f"{kind}={n}" for kind, n in cut.items())
        told = f"with chunks of rows ({numbers}), eager's bits are in: {same}; {furthest}"
        graph.notes.append(f"verified: {told}; peaks: {peaks}")
        return
    n = sum(d > 0 for d in distances.values())
    furthest = f"the largest difference is {distances[where]:.2g} of the largest element of {where}"
    told = f"{n} of {len(distances)} tensors differ from eager's; {furthest}"
    graph.notes.append(f"verified: {told}; peaks: {peaks}")
    warnings.warn(f"memplan: {graph.name}: {told}", FallbackWarning, stacklevel=2)
