"""The requests for memory of a training step, in their order, and what CUDA's allocator reserves for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from memplan.memory.allocator import UNLIMITED, Block, CachingAllocator, Settings
from memplan.memory.liveness import Block as Life
from memplan.memory.liveness import Event, Liveness, keys_of

STEPS = 3  # that are simulated: what is cached after one is used by the next


@dataclass
class Trace:
    """`before`: sizes of what is there throughout, in its order, with `names`. `step`: pairs of a number and a size, each
    number first given out, then taken back (size 0); `makers`: the node of the graph that runs of each."""

    before: list[int]
    step: list[tuple[int, int]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    makers: dict[int, fx.Node] = field(default_factory=dict, repr=False)

    def reserved_bytes(self, settings: Settings, limit: int = UNLIMITED) -> int:
        """The most that is reserved in some steps, one after the other. allocator.OutOfMemory beyond the limit."""
        allocator = CachingAllocator(settings, limit)
        for n_bytes in self.before:
            allocator.allocate(n_bytes)
        for _ in range(STEPS):
            held: dict[int, Block | None] = {}
            for number, n_bytes in self.step:
                if n_bytes:
                    held[number] = allocator.allocate(n_bytes)
                else:
                    allocator.free(held.pop(number))
        return allocator.peak_reserved_bytes


class Recorder:
    """Numbers blocks and writes what happens to them into a trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.alive: dict[Life, int] = {}
        self.n_seen = 0

    def add(self, events: Iterable[Event], known: dict[Life, Life]) -> None:
        """`known`: blocks of this graph that are blocks of an earlier one."""
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
    """A step of two graphs. `held`: forward's outputs that the user has; they go, as gradients do, when the step is done."""
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
    """The blocks of these nodes, or of what an output returns, by the key of their storage."""
    those = [m for n in nodes for m in (n.all_input_nodes if n.op == "output" else [n])]
    return {key: block for n in those for key, block in liveness.blocks[n].items()}
