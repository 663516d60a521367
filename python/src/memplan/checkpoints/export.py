"""Choose activation checkpoints from a plan, and measure that a step with them fits the budget."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import checkpoint as checkpointing

from memplan.budget import in_units
from memplan.checkpoints.coarse import CoarseStep, Kept
from memplan.checkpoints.modules import Checkpoints, Counted, family, plain
from memplan.compiled_modules import eager_copy
from memplan.errors import FallbackWarning, MemplanError
from memplan.graph.capture import Capture
from memplan.graph.regions import Region, regions
from memplan.plan.graph_report import GraphReport
from memplan.torch_internals.dispatch import schema_of, watched

ROUNDS = 4  # number of attempts: each chooses checkpoints and measures a step with them


def operators_of(model: nn.Module, inputs: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, list[bool]]:
    """Run the model's forward and return one flag per executed operator, in order, grouped by operator family.

    The flag states whether the operator writes into an argument. The model is a copy, because the run changes its state.
    """
    seen: dict[str, list[bool]] = {}
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        for operator in watched(lambda: model(*inputs, **kwargs)):
            schema = schema_of(operator)
            seen.setdefault(family(operator), []).append(bool(schema is not None and schema.is_mutable))
    return seen


def may_be_kept(capture: Capture, eager: Mapping[str, list[bool]]) -> Kept:
    """Return the forward operators whose results a checkpoint may keep: eager runs them too, and nothing overwrites them."""
    forward = [o for o in capture.operations[: capture.boundary] if o.source is not None]
    families = [family(o.source.target) for o in forward if o.source is not None]
    captured, number = Counter(families), Counter[str]()
    # for each captured operator that eager runs as well: whether eager's operator writes into its first argument
    known: dict[int, bool] = {}
    for index, name in enumerate(families):
        if captured[name] == len(eager.get(name, ())):
            known[index] = eager[name][number[name]]
        number[name] += 1
    written: set[int] = set()
    for index, operation in enumerate(forward):
        assert operation.source is not None
        if known.get(index, True) and operation.source.all_input_nodes:
            written.update(capture.storages_of(operation.source.all_input_nodes[:1]))
    return frozenset(i for i, inside in known.items() if not inside and not written & set(forward[i].writes))


def saved_by(capture: Capture, steps: Sequence[int]) -> Kept:
    """Return the forward operators for which the plan saves more than half of the result's bytes for backward."""
    at = list(steps).index(capture.boundary)
    forward = set(steps[:at])
    made_again: set[int] = set()
    saved: set[int] = set()
    for step in steps[at + 1 :]:
        saved.update(s for s in capture.operations[step].reads if s not in made_again)
        made_again.update(capture.operations[step].writes)

    def total(storages: Iterable[int]) -> int:
        return sum(capture.storages[s].n_bytes for s in storages)

    return frozenset(k for k in forward if 2 * total(saved & (made := set(capture.operations[k].writes))) > total(made))


class Exporter:
    """One captured graph, its plan, and the model to checkpoint. Only the submodules of module `below` are checkpointed."""

    def __init__(self, graph: GraphReport, model: Any, inputs: Sequence[Any], kwargs: dict[str, Any], below: str = "") -> None:
        self.graph, self.model, self.inputs, self.kwargs = graph, plain(model), inputs, kwargs
        inside = f"{below}." if below else ""
        names = {name for name, _ in self.model.named_modules() if name.startswith(inside)}
        self.modules = {n: r for n, r in regions(graph.capture).items() if n in names}
        if not self.modules:
            raise MemplanError("the plan contains no operator of a module of this model")
        self.coarse = CoarseStep(graph.capture, graph.costs, graph.static_bytes, self.modules)

    def keepable(self) -> Kept:
        """Return the forward operators whose results the plan saves and that selective checkpointing can keep."""
        if not hasattr(checkpointing, "create_selective_checkpoint_contexts"):
            raise MemplanError("a policy needs PyTorch 2.5 or newer, because older versions have no selective checkpointing")
        eager = operators_of(eager_copy(self.model), self.inputs, self.kwargs)
        return may_be_kept(self.graph.capture, eager) & saved_by(self.graph.capture, self.graph.planning.steps())

    def choose(self, keep: Kept = frozenset()) -> Checkpoints:
        """Choose checkpoints by simulation, and measure them on a copy of the model.

        If the measured step exceeds the budget by n bytes, memplan chooses again for a budget that is n bytes lower.
        """
        budget = self.graph.budget_bytes
        variants = {n: [frozenset[int](), keep & operators(r)] for n, r in self.modules.items()}
        eager = self._measured({}, budget, 0)
        best, target = eager, budget
        for _ in range(ROUNDS if eager.peak_bytes > budget else 0):
            found = self._measured(self.coarse.choose(variants, target), budget, eager.peak_bytes)
            best = min(best, found, key=lambda c: c.peak_bytes)
            if found.fits:
                break
            target -= found.peak_bytes - budget
        if keep and not best.fits:
            return self.choose()
        if not best.fits:
            over = in_units(best.peak_bytes - budget)
            sentence = (
                f"no checkpoints were found with which an eager step fits {in_units(budget)}; the best exceed it by {over}"
            )
            warnings.warn(sentence, FallbackWarning, stacklevel=3)
        return best

    def _measured(self, choice: Mapping[str, Kept], budget: int, eager_bytes: int) -> Checkpoints:
        counted = self.coarse.count(choice, budget)
        found = self.made(
            dict(choice),
            names=sorted(choice),
            budget_bytes=budget,
            counted_bytes=counted.peak_bytes,
            peak_bytes=0,
            eager_bytes=eager_bytes,
            overhead=counted.seconds / self.coarse.keep_all_seconds,
        )
        found.peak_bytes = self.graph.static_bytes + found.measure(self.model, self.inputs, self.kwargs)
        found.eager_bytes = eager_bytes or found.peak_bytes
        return found

    def made(self, kept: dict[str, Kept], **known: Any) -> Checkpoints:
        """Return checkpoints of the chosen modules. `kept`: per module, the forward operators whose results its checkpoint
        keeps.
        """
        counted = {name: self._counted(self.modules[name], which) for name, which in kept.items()}
        return Checkpoints(**known, kept={name: k for name, k in counted.items() if k})

    def _counted(self, region: Region, kept: Kept) -> frozenset[Counted]:
        """Return the kept operators of a module as pairs (family, index), the form that the checkpoint policy uses."""
        found: set[Counted] = set()
        for call in region.calls:
            number = Counter[str]()
            for index in call.operators:
                source = self.graph.capture.operations[index].source
                assert source is not None
                name = family(source.target)
                if index in kept:
                    found.add((name, number[name]))
                number[name] += 1
        return frozenset(found)


def operators(region: Region) -> Kept:
    return frozenset(k for call in region.calls for k in call.operators)
