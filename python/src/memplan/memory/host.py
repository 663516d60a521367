"""Host memory for copies of tensors, and the operators that copy to it and back.

Each call of a planned graph leases one slab, in which every copy has a fixed offset. The slab is memory of memplan, so that no
allocator counts it as device memory. It is pinned for a GPU and reused by later calls. On a GPU, a copy runs on a separate
stream per direction, after all work queued on the current stream; the current stream waits for it where the plan waits. On a
CPU, a copy is complete when its operator returns. The GPU part is untested.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from memplan.budget import Budget, in_units, only_bytes
from memplan.errors import FallbackWarning

LEAST_BYTES = 1 << 20  # bytes of the smallest tensor that is worth a copy; latency dominates smaller copies
# the pools of the process, by the number with which graphs refer to a pool
POOLS: weakref.WeakValueDictionary[int, Pool] = weakref.WeakValueDictionary()
NUMBERS = itertools.count()
STREAMS: dict[tuple[torch.device, str], Any] = {}
# for each destination address of a copy: the event at the copy's end, until a step has waited for it
EVENTS: dict[int, Any] = {}


def pays(n_bytes: int) -> bool:
    """Whether a copy of this size is worth its latency."""
    return n_bytes >= LEAST_BYTES


class Slab:
    """A block of host memory that is not shared with forked processes.

    `is_pinned`: whether the pages are locked, as GPU copies require.
    """

    def __init__(self, n_bytes: int, is_pinned: bool) -> None:
        self.n_bytes, self.is_pinned = n_bytes, is_pinned
        self.memory = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.is_registered = False
        if is_pinned:
            cuda: Any = torch.cuda
            cuda.check_error(cuda.cudart().cudaHostRegister(self.address, n_bytes, 0))
            self.is_registered = True

    def tensor(self, end: Callable[[Slab], None]) -> torch.Tensor:
        """Return the slab as a tensor of bytes. `end` is called when no tensor refers to it any more."""
        kind: Any = type("Lease", (ctypes.c_char * self.n_bytes,), {})
        lease = kind.from_buffer(self.memory)
        weakref.finalize(lease, end, self)
        return torch.frombuffer(lease, dtype=torch.uint8)

    def __del__(self) -> None:
        if getattr(self, "is_registered", False):
            cuda: Any = torch.cuda
            cuda.synchronize()
            cuda.cudart().cudaHostUnregister(self.address)


class Pool:
    """The slabs of one model. `most_bytes`: limit on their total size."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.number = most_bytes, next(NUMBERS)
        self.lock = threading.Lock()
        self.idle: list[Slab] = []
        self.returned: deque[Slab] = deque()  # slabs whose tensors Python has freed since the last lease
        self.leased: set[int] = set()  # start addresses of slabs in use
        self.leased_bytes = self.peak_bytes = 0
        self.is_over = False  # whether memplan has warned that the slabs exceed most_bytes
        POOLS[self.number] = self

    def lease(self, n_bytes: int, is_pinned: bool, is_exact: bool = False) -> torch.Tensor:
        """Return a slab of at least this size (or exactly this size). The slab is in use as long as a tensor refers to it."""
        with self.lock:
            self._take_back()
            fitting = [s for s in self.idle if s.n_bytes >= n_bytes and s.is_pinned == is_pinned]
            fitting = [s for s in fitting if s.n_bytes == n_bytes or not is_exact]
            slab = min(fitting, key=lambda s: s.n_bytes, default=None)
            if slab is None:
                if self.leased_bytes + sum(s.n_bytes for s in self.idle) + n_bytes > self.most_bytes:
                    self.idle.clear()
                slab = Slab(n_bytes, is_pinned)
            else:
                self.idle.remove(slab)
            self.leased.add(slab.address)
            self.leased_bytes += slab.n_bytes
            self.peak_bytes = max(self.peak_bytes, self.leased_bytes)
            is_first_over = self.leased_bytes > self.most_bytes and not self.is_over
            self.is_over = self.is_over or is_first_over
        if is_first_over:
            who = "an optimizer's state and the buffers of earlier states" if is_exact else "calls that wait for their backward"
            sentence = (
                f"memplan: {who} together use {in_units(self.leased_bytes)} of host memory;"
                f" offload={in_units(self.most_bytes)} limits each of them"
            )
            warnings.warn(sentence, FallbackWarning, stacklevel=2)
        return slab.tensor(self.returned.append)

    def _take_back(self) -> None:
        while self.returned:
            slab = self.returned.popleft()
            self.leased.discard(slab.address)
            self.leased_bytes -= slab.n_bytes
            self.idle.append(slab)

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor begins at the start of a slab in use."""
        with self.lock:
            self._take_back()
            return tensor.data_ptr() in self.leased

    def measure_from_now(self) -> None:
        """Restart the measurement of `peak_bytes`, the peak of leased bytes."""
        with self.lock:
            self._take_back()
            self.peak_bytes = self.leased_bytes


def pool_for(offload: Budget | None) -> Pool | None:
    return Pool(only_bytes(offload)) if offload is not None else None


# ---- operators in the graphs of a plan


def lease_slab(pool: int, n_bytes: int, kind: str) -> torch.Tensor:
    """Lease a slab for copies of tensors on a device of this kind."""
    if kind == "meta":
        return torch.empty(n_bytes, dtype=torch.uint8, device="meta")
    return POOLS[pool].lease(n_bytes, kind == "cuda")


def copy_out(slab: torch.Tensor, source: torch.Tensor, offset: int) -> torch.Tensor:
    """Copy a tensor into the slab.

    The result shares no version counter with other tensors of the slab. Otherwise a write to one of them would count as a write
    to all.
    """
    there = torch.empty(0, dtype=source.dtype, device=slab.device)
    there.set_(slab.untyped_storage(), offset // source.element_size(), source.shape, source.stride())
    return issue(there, source, source.device, "out")


def copy_back(source: torch.Tensor, device: torch.device) -> torch.Tensor:
    back = torch.empty_strided(source.shape, source.stride(), dtype=source.dtype, device=device)
    return issue(back, source, device, "back")


def issue(target: torch.Tensor, source: torch.Tensor, device: torch.device, way: str) -> torch.Tensor:
    if device.type != "cuda":
        return target.copy_(source)
    cuda: Any = torch.cuda
    if (device, way) not in STREAMS:
        STREAMS[device, way] = cuda.Stream(device)
    stream = STREAMS[device, way]
    stream.wait_stream(cuda.current_stream(device))
    if (event := EVENTS.get(source.data_ptr())) is not None:  # the source is itself the target of a copy that has not finished
        stream.wait_event(event)
    with cuda.stream(stream):
        target.copy_(source, non_blocking=True)
        EVENTS[target.data_ptr()] = stream.record_event()
    return target


def finish(way: str) -> None:
    """Wait for all copies in the direction `way`, so that the host may read their results."""
    for (_, known), stream in STREAMS.items():
        if known == way:
            stream.synchronize()


def wait(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Wait until a copy has finished, and return its destination. The source of the copy may be freed only after this call."""
    if EVENTS and (event := EVENTS.pop(target.data_ptr(), None)) is not None:
        torch.cuda.current_stream(target.device if target.is_cuda else source.device).wait_event(event)
    return target
