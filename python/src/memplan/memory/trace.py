"""The memory requests of a training step in order, and the memory that CUDA's allocator reserves for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from memplan.memory.allocator import UNLIMITED, Settings
from memplan.memory.liveness import Block as Life
from memplan.memory.liveness import Event, Liveness, keys_of

STEPS = 3  # number of simulated steps; each step after the first reuses blocks that earlier steps have cached


@dataclass
class Trace:
    """A trace of memory requests.

    Attributes:
        before: sizes of static memory.
        names: names of static memory.
        step: pairs (number, size). The first pair of a number allocates; the second one has size 0 and frees.
        makers: the graph node of each number.
    """

    before: list[int]
    step: list[tuple[int, int]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    makers: dict[int, fx.Node] = field(default_factory=dict, repr=False)

    def reserved_bytes(self, settings: Settings, limit: int = UNLIMITED) -> int:
        """Return the peak of reserved bytes over several steps. Raises allocator.OutOfMemory above the limit."""
        before = [(-1 - k, n_bytes) for k, n_bytes in enumerate(self.before) if n_bytes]
        return settings.serve(before + STEPS * self.step, limit).peak_reserved_bytes


class Recorder:
    """Gives a number to each block of memory, and appends its allocation and release to a trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.alive: dict[Life, int] = {}
        self.n_seen = 0

    def add(self, events: Iterable[Event], known: dict[Life, Life]) -> None:
        """Append the events of a graph to the trace.

        `known`: maps blocks of the graph to the same blocks of an earlier graph.
        """
        for block, n_bytes, node in events:
            whose = known.get(block, block)
            if n_bytes > 0 and whose not in self.alive:
                self.n_seen += 1
                self.alive[whose] = self.n_seen
                self.trace.step.append((self.n_seen, n_bytes))
                self.trace.makers[self.n_seen] = node
            elif n_bytes < 0:
                self.end(whose)

    def end(self, block: Life) -> None:
        if block in self.alive:
            self.trace.step.append((self.alive.pop(block), 0))


def trace_of(before: Mapping[str, int], forward: Liveness, backward: Liveness, held: Iterable[Any]) -> Trace:
    """Return the memory requests of a step. `held`: outputs that the user keeps; they are freed at the end, like gradients."""
    there = {name: n for name, n in before.items() if n}
    trace = Trace(list(there.values()), names=list(there))
    recorder = Recorder(trace)
    recorder.add(forward.events(), {})
    returned = by_key(forward, (n for n in forward.nodes if n.op == "output"))
    given = by_key(backward, (n for n in backward.nodes if n.op == "placeholder"))
    wanted = given.keys() | keys_of(held)
    for key, block in returned.items():
        if key not in wanted:
            recorder.end(block)
    known = {block: returned[key] for key, block in given.items() if key in returned}
    recorder.add(backward.events(), {**known, **dict(zip(backward.earlier_blocks(), forward.earlier_blocks()))})
    for block in list(recorder.alive):
        recorder.end(block)
    return trace


def by_key(liveness: Liveness, nodes: Iterable[fx.Node]) -> dict[int, Life]:
    """Return the blocks of these nodes' results by storage key. For an output node, return the blocks of its arguments."""
    those = [m for n in nodes for m in (n.all_input_nodes if n.op == "output" else [n])]
    return {key: block for n in those for key, block in liveness.blocks[n].items()}
