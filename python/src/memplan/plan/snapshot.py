"""PyTorch memory snapshots of planned steps, with simulated segments of CUDA's allocator, for PyTorch's viewer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from memplan.costs.recorded import CALL, Piece
from memplan.memory.allocator import ADDRESS_SPACE, Block, CachingAllocator, Pool, Settings
from memplan.memory.trace import Trace
from memplan.plan.holders import lines_of, module_of

RANGES = 8  # address ranges reserved per device, so that devices do not overlap and viewers can represent every address
Frames = list[dict[str, Any]]


def frame(name: str, file: str = "", line: int = 0) -> dict[str, Any]:
    return {"name": name, "filename": file, "line": line}


def frames_of(node: fx.Node) -> Frames:
    """Return the frames of a request, innermost first: operator, module, lines of user code."""
    module = module_of(node)
    lines = [frame(line.function, line.file, line.number) for line in reversed(lines_of(node))]
    return [frame(node.name, str(node.target)), *([frame(module, "module")] if module else []), *lines]


def called(name: str) -> dict[str, Any]:
    """Return a caller named by PyTorch's profiler as a frame."""
    found = CALL.fullmatch(name)
    return frame(found["function"], found["file"], int(found["line"])) if found else frame(name)


@dataclass
class Requests:
    """The memory requests of a step with their callers: static requests, then pairs (number, size) as in a trace."""

    title: str
    before: list[tuple[Frames, int]]
    step: list[tuple[int, int]]
    frames: Mapping[int, Frames] = field(repr=False)

    @staticmethod
    def of(trace: Trace, title: str) -> Requests:
        before = [([frame(name, "there throughout")], n) for name, n in zip(trace.names, trace.before)]
        return Requests(title, before, trace.step, {number: frames_of(node) for number, node in trace.makers.items()})

    @staticmethod
    def recorded(pieces: Sequence[Piece], trace: Trace, title: str) -> Requests:
        """Return the requests of a real step, with static requests from a trace. Memory in use at the end is freed then."""
        last = max((p.end or p.begin for p in pieces), default=0) + 1
        moments = [(p.begin, k, p.n_bytes) for k, p in enumerate(pieces)]
        moments += [(p.end if p.end is not None else last, k, 0) for k, p in enumerate(pieces)]
        frames = {k: [called(name) for name in p.callers] for k, p in enumerate(pieces)}
        return Requests(title, Requests.of(trace, title).before, [(k, n) for _, k, n in sorted(moments)], frames)

    def peak(self) -> int:
        """Return the number of requests from the beginning of the step to its peak."""
        sizes: dict[int, int] = {}
        now = top = at = 0
        for k, (number, n_bytes) in enumerate(self.step):
            now += n_bytes - sizes.pop(number, 0)
            sizes[number] = n_bytes
            if now > top:
                top, at = now, k + 1
        return at


class Recorded(CachingAllocator):
    """An allocator that records its actions in the format of PyTorch's memory history."""

    def __init__(self, requests: Requests, settings: Settings, device: int) -> None:
        super().__init__(settings)
        self.requests, self.device = requests, device
        self._next_address = ADDRESS_SPACE * (1 + device * RANGES)
        self.entries: list[dict[str, Any]] = []
        self.ranges: list[tuple[int, int, Pool]] = []  # address ranges of the segments: first address, bytes, pool
        # by address: the block that is in use there, its bytes and callers
        self.held: dict[int, tuple[Block, int, Frames]] = {}

    def note(self, action: str, address: int, n_bytes: int, frames: Frames) -> None:
        time = {"time_us": len(self.entries), "stream": 0}
        self.entries.append({"action": action, "addr": address, "size": n_bytes, "frames": frames, **time})

    def give(self, n_bytes: int, frames: Frames) -> Block | None:
        asked_by = [*frames, frame(self.requests.title, "memplan")]
        block = self.allocate(n_bytes)
        if block is not None:
            self.held[block.address] = block, n_bytes, asked_by
            self.note("alloc", block.address, n_bytes, asked_by)
        return block

    def take(self, block: Block | None) -> None:
        if block is not None:
            _, n_bytes, asked_by = self.held.pop(block.address)
            for action in ("free_requested", "free_completed"):
                self.note(action, block.address, n_bytes, asked_by)
            self.free(block)

    def _more(self, pool: Pool, size: int) -> Block | None:
        block = super()._more(pool, size)
        if block is not None and not self.settings.expandable:
            self._grown("segment_alloc", block.address, block.size, pool)
        return block

    def _map(self, block: Block, n_bytes: int) -> Block | None:
        address, before = block.address, self.reserved_bytes
        mapped = super()._map(block, n_bytes)
        if mapped is not None:
            self._grown("segment_map", address, self.reserved_bytes - before, block.pool)
        return mapped

    def _grown(self, action: str, address: int, n_bytes: int, pool: Pool) -> None:
        self.note(action, address, n_bytes, [frame(self.requests.title, "memplan")])
        joins = self.settings.expandable and any(sum(r[:2]) == address for r in self.ranges)
        if joins:
            at = next(k for k, r in enumerate(self.ranges) if sum(r[:2]) == address)
            address, n_bytes = self.ranges[at][0], self.ranges[at][1] + n_bytes
            del self.ranges[at]
        self.ranges.append((address, n_bytes, pool))

    def run(self) -> None:
        """Run a step that fills the cache, a recorded step, and the next step up to its peak, where the snapshot is taken."""
        for frames, n_bytes in self.requests.before:
            self.give(n_bytes, frames)
        step = self.requests.step
        self._serve(step)
        self.entries.clear()
        self._serve(step)
        self._serve(step[: self.requests.peak()])

    def _serve(self, step: list[tuple[int, int]]) -> None:
        given: dict[int, Block | None] = {}
        for number, n_bytes in step:
            if n_bytes:
                given[number] = self.give(n_bytes, self.requests.frames[number])
            else:
                self.take(given.pop(number))

    def segments(self) -> list[dict[str, Any]]:
        free: dict[int, tuple[Block, int, Frames]] = {
            a: (b, 0, []) for pool in (self.small, self.large) for a, b in pool.free.items()
        }
        return [self._segment(*r, {**free, **self.held}) for r in sorted(self.ranges, key=lambda r: r[0])]

    def _segment(
        self, address: int, n_bytes: int, pool: Pool, known: Mapping[int, tuple[Block, int, Frames]]
    ) -> dict[str, Any]:
        blocks: list[dict[str, Any]] = []
        at = address
        while at < address + n_bytes:
            block, asked, asked_by = known[at]
            state = "active_allocated" if block.in_use else "inactive"
            blocks.append({"address": at, "size": block.size, "requested_size": asked, "state": state, "frames": asked_by})
            at += block.size
        used = sum(b["size"] for b in blocks if b["state"] == "active_allocated")
        asked_for = sum(b["requested_size"] for b in blocks)
        return {
            "device": self.device,
            "address": address,
            "total_size": n_bytes,
            "allocated_size": used,
            "active_size": used,
            "requested_size": asked_for,
            "stream": 0,
            "segment_type": "small" if pool.is_small else "large",
            "segment_pool_id": (0, 0),
            "is_expandable": self.settings.expandable,
            "frames": [],
            "blocks": blocks,
        }


def snapshot_of(devices: list[Requests], settings: Settings) -> dict[str, Any]:
    """Return a snapshot like torch.cuda.memory._snapshot(), with one device per item."""
    recorded = [Recorded(requests, settings, device) for device, requests in enumerate(devices)]
    for device in recorded:
        device.run()
    return {
        "segments": [segment for device in recorded for segment in device.segments()],
        "device_traces": [device.entries for device in recorded],
        "allocator_settings": {},
        "external_annotations": [],
    }
