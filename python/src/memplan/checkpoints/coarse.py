"""Simulation of a step under torch.utils.checkpoint on the captured graph, and a search for modules to checkpoint.

A checkpointed module keeps its inputs. When backward first needs one of its tensors, the module runs again, up to the last
tensor that backward reads. Operators with kept results are skipped in this run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import fx

from memplan.costs.measure import LEAST_SECONDS, Cost
from memplan.graph.capture import DYNAMIC, Capture
from memplan.graph.regions import Region, forward_of_backward

MOST_COUNTS = 3000  # maximum number of simulated steps per search

Kept = frozenset[int]  # indices of the forward operators whose results a checkpoint keeps
Choice = Mapping[str, Kept]  # for each checkpointed module, by name: the operators whose results its checkpoint keeps


@dataclass(frozen=True)
class Again:
    """The recomputation that backward causes for one call of a checkpointed module."""

    operators: tuple[int, ...]  # indices of the forward operators that run again
    cached: tuple[int, ...]  # indices of the storages kept for the recomputation, whether or not backward reads them


@dataclass(frozen=True)
class Counted:
    peak_bytes: int
    excess: int  # sum over the operators of the step: bytes by which live memory exceeds the budget
    seconds: float  # seconds spent on recomputation


def related(a: str, b: str) -> bool:
    """Whether one of two modules contains the other, or both are the same."""
    return a == b or a.startswith(b + ".") or b.startswith(a + ".")


class CoarseStep:
    """Simulates checkpoints on one captured step. `static_bytes`: memory that exists during the whole step."""

    def __init__(
        self, capture: Capture, costs: Mapping[fx.Node, Cost], static_bytes: int, modules: Mapping[str, Region]
    ) -> None:
        self.capture, self.static_bytes, self.modules = capture, static_bytes, modules
        self.costs = [costs[o.source] if o.source is not None else Cost(0.0, 0) for o in capture.operations]
        self.keep_all_seconds = sum(c.seconds for c in self.costs)
        self.forward_of = forward_of_backward(capture)
        self.bytes_of = [s.n_bytes if s.kind in DYNAMIC else 0 for s in capture.storages]
        self.n_counts = 0

    def _again(self, choice: Choice) -> tuple[dict[int, int], list[Again]]:
        """Return the recomputation of each call of a checkpointed module, and a map from forward operators to these calls."""
        call_of: dict[int, int] = {}
        calls = [(call, kept) for name, kept in choice.items() for call in self.modules[name].calls]
        for number, (call, _) in enumerate(calls):
            call_of.update(dict.fromkeys(call.operators, number))
        # for each call of a checkpointed module: the storages that backward reads
        needed: list[set[int]] = [set() for _ in calls]
        for index, forward in self.forward_of.items():
            if forward in call_of:
                needed[call_of[forward]].update(self.capture.operations[index].reads)
        again: list[Again] = []
        for needs, (call, kept) in zip(needed, calls):
            last = max((f for f in call.operators if needs & set(self.capture.operations[f].writes)), default=-1)
            cached = tuple(s for f in call.operators if f in kept for s in self.capture.operations[f].writes)
            again.append(Again(tuple(f for f in call.operators if f <= last and f not in kept), cached))
        return call_of, again

    def count(self, choice: Choice, budget: int) -> Counted:
        """Simulate a step with these checkpoints.

        The second run of a module writes storages of its own, which only the module's backward reads.
        """
        self.n_counts += 1
        operations = self.capture.operations
        call_of, again = self._again(choice)
        renamed: list[dict[int, int]] = [{} for _ in again]
        sizes = list(self.bytes_of)
        # per operator in order of execution: workspace in bytes, storages read, storages written
        steps: list[tuple[int, list[int], list[int]]] = []
        waiting = dict(enumerate(again))
        seconds = 0.0
        for index, operation in enumerate(operations):
            own: dict[int, int] = {}
            number = call_of.get(self.forward_of.get(index, -1), -1)
            if number >= 0:
                own = renamed[number]
                found = waiting.pop(number, Again((), ()))
                steps.append((0, list(found.cached), []))
                for f in found.operators:
                    reads = [own.get(s, s) for s in operations[f].reads]
                    for s in operations[f].writes:
                        own[s] = len(sizes)
                        sizes.append(self.bytes_of[s])
                    steps.append((self.costs[f].workspace_bytes, reads, [own[s] for s in operations[f].writes]))
                    seconds += self.costs[f].seconds
            reads = [own.get(s, s) for s in operation.reads]
            steps.append((self.costs[index].workspace_bytes, reads, operation.writes))
        return self._walk(steps, sizes, budget, seconds)

    def _walk(self, steps: list[tuple[int, list[int], list[int]]], sizes: list[int], budget: int, seconds: float) -> Counted:
        last: dict[int, int] = {}
        for k, (_, reads, writes) in enumerate(steps):
            for s in (*reads, *writes):
                last[s] = k
        ends: list[list[int]] = [[] for _ in steps]
        for s, k in last.items():
            ends[k].append(s)
        live, top, excess = self.static_bytes, 0, 0
        for k, (workspace, _, writes) in enumerate(steps):
            live += sum(sizes[s] for s in writes)
            top = max(top, live + workspace)
            excess += max(0, live + workspace - budget)
            live -= sum(sizes[s] for s in ends[k])
        return Counted(top, excess, seconds)

    def choose(self, variants: Mapping[str, Iterable[Kept]], budget: int) -> dict[str, Kept]:
        """Choose checkpoints so that the step fits the budget at little extra time, or else exceeds the budget the least."""
        self.n_counts = 0
        options = [(name, kept) for name, all_kept in variants.items() for kept in dict.fromkeys(all_kept)]
        return self._thinned(self._grown(options, budget), options, budget)

    def _grown(self, options: list[tuple[str, Kept]], budget: int) -> dict[str, Kept]:
        """Repeatedly add the checkpoint that reduces the bytes over the budget most per second of recomputation."""
        chosen: dict[str, Kept] = {}
        now = self.count(chosen, budget)
        # for each candidate checkpoint, by index: the bytes that it saved per second of recomputation in its last simulation
        gains = dict.fromkeys(range(len(options)), math.inf)
        while now.excess and options and self.n_counts < MOST_COUNTS:
            counted: dict[int, Counted] = {}
            while True:
                best = max(gains, key=lambda k: (max(gains[k], 0.0), k not in counted))
                if best in counted:
                    break
                found = counted[best] = self.count(self._with(chosen, options[best]), budget)
                gains[best] = (now.excess - found.excess) / max(found.seconds - now.seconds, LEAST_SECONDS)
            if gains[best] <= 0:
                break
            chosen, now = self._with(chosen, options[best]), counted[best]
            gains.update((k, math.inf) for k, (name, _) in enumerate(options) if related(name, options[best][0]))
        return chosen

    def _with(self, chosen: Choice, option: tuple[str, Kept]) -> dict[str, Kept]:
        """Add a checkpoint to the choice.

        Chosen modules that are inside the new module, or contain it, are removed from the choice.
        """
        return {n: k for n, k in chosen.items() if not related(n, option[0])} | {option[0]: option[1]}

    def _thinned(self, chosen: dict[str, Kept], options: list[tuple[str, Kept]], budget: int) -> dict[str, Kept]:
        """Remove or replace single checkpoints as long as this saves time and does not exceed the budget by more bytes."""
        now = self.count(chosen, budget)
        better = True
        while better:
            better = False
            for name in list(chosen):
                rest = {n: k for n, k in chosen.items() if n != name}
                for candidate in [rest, *(self._with(rest, o) for o in options)]:
                    if self.n_counts >= MOST_COUNTS:
                        return chosen
                    found = self.count(candidate, budget)
                    if (found.excess, found.seconds) < (now.excess, now.seconds):
                        chosen, now, better = candidate, found, True
                        break
                if better:
                    break
        return chosen
