"""Simulation of PyTorch's caching allocator for CUDA, for one stream: the memory it reserves for a sequence of requests.

`Settings.serve` calls the library's simulation. CachingAllocator shows the blocks to memory snapshots; tests compare the two.

Requests are rounded to 512 bytes. Requests up to 1 MiB use a pool with segments of 2 MiB; others use a pool of large segments.
A free block that is larger than needed is split, and free neighbours are merged. Cached memory returns to the device only if
the device is full. With expandable segments, each pool has one address range, and pages are appended as needed.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from memplan.errors import MemplanError
from memplan.library.quantities import AllocatorSettings, AllocatorUse, replay

KIB, MIB = 1 << 10, 1 << 20
GRAIN = 512
MOST_SMALL = MIB  # size in bytes of the largest request that uses the small pool
SMALL_SEGMENT = 2 * MIB
LEAST_OWN_SEGMENT = 10 * MIB  # requests of at least this size receive a segment of their own size
LARGE_STEP = 2 * MIB  # the sizes of segments for a single large request are multiples of this many bytes
ADDRESS_SPACE = 1 << 46  # bytes of address space that an expandable segment reserves
UNLIMITED = 1 << 62


class OutOfMemory(MemplanError):
    """Raised if the simulated device has no memory for a request."""


def no_memory(size: int, reserved_bytes: int, limit: int) -> OutOfMemory:
    return OutOfMemory(f"{size} bytes do not fit beside {reserved_bytes} reserved bytes within {limit} bytes")


class NotSimulated(MemplanError):
    """The simulation does not support a setting of the allocator."""


@dataclass(frozen=True)
class Settings:
    """Settings of PYTORCH_CUDA_ALLOC_CONF. Sizes are in bytes."""

    expandable: bool = False
    max_split: int = UNLIMITED
    max_rounding: int = 20 * MIB  # maximum number of bytes by which a used block above max_split may exceed the request
    large_segment: int = 20 * MIB
    divisions: int = 0  # number of sizes between two powers of two to which requests are rounded; 0: no such rounding

    @staticmethod
    def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
        """Read the settings. Raises NotSimulated for an unsupported setting that changes the reserved memory."""
        found = Settings()
        text = environment.get("PYTORCH_ALLOC_CONF") or environment.get("PYTORCH_CUDA_ALLOC_CONF", "")
        for part in filter(None, text.replace(" ", "").split(",")):
            name, _, value = part.partition(":")
            try:
                found = found._with(name, value)
            except ValueError:
                raise NotSimulated(f"memplan does not simulate the allocator setting {part!r}") from None
        return found

    def _with(self, name: str, value: str) -> Settings:
        if name == "expandable_segments":
            return replace(self, expandable=value.lower() == "true")
        if name == "max_split_size_mb":
            return replace(self, max_split=int(value) * MIB)
        if name == "max_non_split_rounding_mb":
            return replace(self, max_rounding=int(value) * MIB)
        if name == "large_segment_size_mb":
            return replace(self, large_segment=int(value) * MIB)
        if name == "roundup_power2_divisions":
            return replace(self, divisions=int(value))
        if name == "backend" and value != "native":
            raise ValueError
        return self

    def serve(self, requests: Iterable[tuple[int, int]], limit: int = UNLIMITED) -> AllocatorUse:
        """Serve (number, bytes) pairs, where 0 bytes free the number's block. Return the peaks. Raises OutOfMemory.

        `limit`: device memory for the allocator.
        """
        sizes = self.max_split, self.max_rounding, self.large_segment, self.divisions, ADDRESS_SPACE, int(self.expandable)
        use = replay(AllocatorSettings(limit, *sizes), requests)
        if use.refused >= 0:
            raise no_memory(use.refused_bytes, use.held_bytes, limit)
        return use

    def rounded(self, n_bytes: int) -> int:
        if self.divisions > 1 and n_bytes > GRAIN * self.divisions:
            step = (1 << (n_bytes.bit_length() - 1)) // self.divisions
            return max(GRAIN, -(-n_bytes // step) * step)
        return max(GRAIN, -(-n_bytes // GRAIN) * GRAIN)

    def segment(self, rounded: int) -> int:
        """Return the size of a new segment for a request."""
        if rounded <= MOST_SMALL:
            return SMALL_SEGMENT
        if rounded < LEAST_OWN_SEGMENT:
            return self.large_segment
        return -(-rounded // LARGE_STEP) * LARGE_STEP


@dataclass(eq=False)
class Block:
    """A piece of a segment, linked to its neighbours. An unmapped block has addresses but no memory."""

    address: int
    size: int
    pool: Pool
    in_use: bool = False
    mapped: bool = True
    before: Block | None = None
    after: Block | None = None

    def cut(self, size: int) -> Block:
        """Shorten this block to `size` bytes, and return the rest as a new block behind it."""
        rest = Block(self.address + size, self.size - size, self.pool, False, self.mapped, self, self.after)
        if self.after is not None:
            self.after.before = rest
        self.after, self.size = rest, size
        return rest

    def merges(self, other: Block | None) -> bool:
        return other is not None and not other.in_use and other.mapped == self.mapped

    def is_whole(self) -> bool:
        return self.before is None and self.after is None


class Pool:
    """The free blocks of a pool, sorted by size and then by address."""

    def __init__(self, is_small: bool) -> None:
        self.is_small = is_small
        self.order: list[tuple[int, int]] = []
        self.free: dict[int, Block] = {}
        self.unmapped: list[Block] = []  # unmapped blocks, sorted by address

    def add(self, block: Block) -> None:
        if block.mapped:
            bisect.insort(self.order, (block.size, block.address))
            self.free[block.address] = block
        else:
            bisect.insort(self.unmapped, block, key=lambda b: b.address)

    def remove(self, block: Block) -> None:
        if block.mapped:
            del self.order[bisect.bisect_left(self.order, (block.size, block.address))]
            del self.free[block.address]
        else:
            self.unmapped.remove(block)

    def from_size(self, size: int) -> list[Block]:
        """Return the free blocks of at least this size, smallest first."""
        return [self.free[address] for _, address in self.order[bisect.bisect_left(self.order, (size, 0)) :]]

    def add_merged(self, block: Block) -> Block:
        """Add a block to the pool, merged with its free neighbours."""
        if block.merges(block.before):
            assert block.before is not None
            self.remove(block.before)
            block.address, block.size = block.before.address, block.before.size + block.size
            block.before = block.before.before
            if block.before is not None:
                block.before.after = block
        if block.merges(block.after):
            assert block.after is not None
            self.remove(block.after)
            block.size += block.after.size
            block.after = block.after.after
            if block.after is not None:
                block.after.before = block
        self.add(block)
        return block


class CachingAllocator:
    """A simulated allocator that receives requests in order. `limit`: device memory for the allocator."""

    def __init__(self, settings: Settings, limit: int = UNLIMITED) -> None:
        self.settings, self.limit = settings, limit
        self.small, self.large = Pool(True), Pool(False)
        self.allocated_bytes = self.reserved_bytes = self.peak_allocated_bytes = self.peak_reserved_bytes = 0
        self._next_address = ADDRESS_SPACE

    def allocate(self, n_bytes: int) -> Block | None:
        """Return a block for a request, or None for an empty request. Raises OutOfMemory."""
        if n_bytes == 0:
            return None
        size = self.settings.rounded(n_bytes)
        pool = self.small if size <= MOST_SMALL else self.large
        block = self._free_block(pool, size) or self._more(pool, size)
        if block is None and self._release_oversize(pool, size):
            block = self._more(pool, size)
        if block is None:
            self._release_cached()
            block = self._more(pool, size)
        if block is None:
            raise no_memory(size, self.reserved_bytes, self.limit)
        if self._splits(block, size):
            pool.add(block.cut(size))
        block.in_use = True
        self.allocated_bytes += block.size
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, self.allocated_bytes)
        return block

    def free(self, block: Block | None) -> None:
        if block is not None:
            block.in_use = False
            self.allocated_bytes -= block.size
            block.pool.add_merged(block)

    def _free_block(self, pool: Pool, size: int) -> Block | None:
        """Return the best free block for a request, and remove it from its pool."""
        found = pool.from_size(size)
        if not found:
            return None
        best = found[0]
        if self.settings.expandable:
            for other in found[1:]:
                if growth(other) >= growth(best):
                    break
                best = other
        if size < self.settings.max_split <= best.size:
            return None
        if size >= self.settings.max_split and best.size >= size + self.settings.max_rounding:
            return None
        pool.remove(best)
        return best

    def _splits(self, block: Block, size: int) -> bool:
        rest = block.size - size
        if block.pool.is_small or self.settings.expandable:
            return rest >= GRAIN
        return size < self.settings.max_split and rest > MOST_SMALL

    def _reserve(self, n_bytes: int) -> bool:
        if self.reserved_bytes + n_bytes > self.limit:
            return False
        self.reserved_bytes += n_bytes
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)
        return True

    def _more(self, pool: Pool, size: int) -> Block | None:
        """Return a new block of at least this size. Its memory comes from the device, and the block is not in the pool."""
        if self.settings.expandable:
            return self._expanded(pool, size)
        segment = self.settings.segment(size)
        if not self._reserve(segment):
            return None
        block = Block(self._next_address, segment, pool)
        self._next_address += segment
        return block

    def _release_oversize(self, pool: Pool, size: int) -> bool:
        """Free cached blocks above max_split: a block of at least `size` bytes, or the largest ones until their sum is `size`.

        Return whether that many bytes were freed.
        """
        if self.settings.max_split == UNLIMITED:
            return False
        wanted = max(size, self.settings.max_split)
        enough = pool.from_size(wanted)
        if enough:
            self._release(enough[0])
            return True
        released = 0
        for block in reversed(pool.from_size(self.settings.max_split)):
            if released >= wanted:
                break
            released += block.size
            self._release(block)
        return released >= wanted

    def _release(self, block: Block) -> None:
        block.pool.remove(block)
        self.reserved_bytes -= block.size

    def _release_cached(self) -> None:
        """Free all unused segments, or all unused pages of expandable segments."""
        for pool in (self.large, self.small):
            for block in list(pool.free.values()):
                if self.settings.expandable:
                    self._unmap(block)
                elif block.is_whole():
                    self._release(block)

    # ---- expandable segments

    def _page(self, pool: Pool) -> int:
        return SMALL_SEGMENT if pool.is_small else self.settings.large_segment

    def _expanded(self, pool: Pool, size: int) -> Block | None:
        """Return a block at the lowest possible address: a free block with appended pages, or new pages alone."""
        first = self._expandable(pool, size)
        block = first if first.mapped else self._map(first, min(size, first.size))
        while block is not None and block.size < size:
            assert block.after is not None
            block = self._map(block.after, min(size - block.size, block.after.size))
        if block is not None:
            pool.remove(block)
        return block

    def _expandable(self, pool: Pool, size: int) -> Block:
        for unmapped in pool.unmapped:
            first = unmapped.before if unmapped.before is not None and not unmapped.before.in_use else unmapped
            block: Block | None = first
            room = 0
            while room < size and block is not None and not block.in_use:
                room += block.size
                block = block.after
            if room >= size:
                return first
        fresh = Block(self._next_address, ADDRESS_SPACE, pool, mapped=False)
        self._next_address += ADDRESS_SPACE
        pool.add(fresh)
        return fresh

    def _map(self, block: Block, n_bytes: int) -> Block | None:
        """Map pages at the beginning of this block. Return the merged free block, or None if the device is full."""
        page = self._page(block.pool)
        n_bytes = -(-n_bytes // page) * page
        if not self._reserve(n_bytes):
            return None
        block.pool.remove(block)
        if n_bytes < block.size:
            block.pool.add(block.cut(n_bytes))
        block.mapped = True
        return block.pool.add_merged(block)

    def _unmap(self, block: Block) -> None:
        """Unmap the pages of a free block that contain no part of another block."""
        page, pool = self._page(block.pool), block.pool
        begin = -(-(block.address % ADDRESS_SPACE) // page) * page - block.address % ADDRESS_SPACE
        end = (block.address + block.size) % ADDRESS_SPACE // page * page - block.address % ADDRESS_SPACE
        if begin >= end:
            return
        pool.remove(block)
        if end < block.size:
            pool.add(block.cut(end))
        if begin > 0:
            head, block = block, block.cut(begin)
            pool.add(head)
        block.mapped = False
        self.reserved_bytes -= block.size
        pool.add_merged(block)


def growth(block: Block) -> int:
    """Return the possible size of a free block, including the unmapped block behind it."""
    return block.size + (block.after.size if block.after is not None and not block.after.mapped else 0)
