"""CUDA's caching allocator, simulated: its rules counted by hand, random sequences against a slow second simulation."""

from __future__ import annotations

import random

import networks
import pytest
import torch
from slow_allocator import SlowAllocator

import memplan
from memplan.memory.allocator import MIB, UNLIMITED, Block, CachingAllocator, NotSimulated, OutOfMemory, Settings
from memplan.memory.trace import Trace

KIB = 1024
PLAIN = Settings()
EXPANDABLE = Settings(expandable=True)


def state(allocator: CachingAllocator) -> tuple[int, int]:
    return allocator.allocated_bytes, allocator.reserved_bytes


@pytest.mark.parametrize(("asked", "given"), [(1, 512), (512, 512), (513, 1024), (1200, 1536), (MIB + 1, MIB + 512)])
def test_requests_are_rounded(asked: int, given: int) -> None:
    allocator = CachingAllocator(PLAIN)
    allocator.allocate(asked)
    assert allocator.allocated_bytes == given
    assert allocator.allocate(0) is None and allocator.allocated_bytes == given


def test_rounding_to_parts_of_a_power_of_two() -> None:
    quarters = Settings(divisions=4)
    assert [quarters.rounded(n) for n in (1200, 2048, 2049, 5 * MIB, 5 * MIB + 1)] == [1536, 2048, 2560, 5 * MIB, 6 * MIB]


@pytest.mark.parametrize(
    ("asked", "segment"),
    [
        (1, 2),
        (MIB, 2),
        (MIB + 1, 20),
        (10 * MIB - 512, 20),
        (10 * MIB - 1, 10),
        (10 * MIB, 10),
        (10 * MIB + 1, 12),
        (33 * MIB, 34),
    ],
)
def test_segments_by_the_size_of_the_request(asked: int, segment: int) -> None:
    allocator = CachingAllocator(PLAIN)
    allocator.allocate(asked)
    assert allocator.reserved_bytes == segment * MIB


def test_small_and_large_requests_share_nothing() -> None:
    allocator = CachingAllocator(PLAIN)
    allocator.free(allocator.allocate(4 * MIB))
    allocator.allocate(MIB)
    assert allocator.reserved_bytes == 22 * MIB
    for _ in range(2):  # the rest of the segment of 2 MiB; then another
        allocator.allocate(MIB)
    assert allocator.reserved_bytes == 24 * MIB


def test_the_rest_of_a_large_block_is_cut_off_above_a_mebibyte_only() -> None:
    allocator = CachingAllocator(PLAIN)
    allocator.free(allocator.allocate(12 * MIB))
    whole = allocator.allocate(11 * MIB)
    assert whole is not None and state(allocator) == (12 * MIB, 12 * MIB)  # a rest of 1 MiB stays with it
    allocator.free(whole)
    allocator.allocate(11 * MIB - 512)
    assert state(allocator) == (11 * MIB - 512, 12 * MIB)
    allocator = CachingAllocator(PLAIN)
    allocator.free(allocator.allocate(2 * MIB))
    allocator.allocate(2 * MIB)
    allocator.allocate(9 * MIB)
    allocator.allocate(9 * MIB)  # 2 + 9 + 9 fill a segment of 20
    assert state(allocator) == (20 * MIB, 20 * MIB)


def test_the_smallest_block_that_fits_and_the_lowest_of_its_equals() -> None:
    allocator = CachingAllocator(PLAIN)
    blocks = [allocator.allocate(n * MIB) for n in (30, 14, 16, 14)]
    addresses = [b.address for b in blocks if b is not None]
    for block in reversed(blocks):
        allocator.free(block)
    first, second, third = (allocator.allocate(13 * MIB) for _ in range(3))
    assert first is not None and second is not None and third is not None
    assert (first.address, second.address, third.address) == (addresses[1], addresses[3], addresses[2])
    assert allocator.reserved_bytes == 74 * MIB


def test_free_neighbours_become_one() -> None:
    allocator = CachingAllocator(PLAIN)
    blocks = [allocator.allocate(4 * MIB) for _ in range(5)]
    assert allocator.reserved_bytes == 20 * MIB
    for k in (1, 3, 2):  # the last joins both
        allocator.free(blocks[k])
    allocator.allocate(9 * MIB + 512 * KIB)
    assert allocator.reserved_bytes == 20 * MIB
    for k in (0, 4):
        allocator.free(blocks[k])
    assert allocator.allocate(5 * MIB) is not None and allocator.reserved_bytes == 20 * MIB  # 4, 9.5, 5 and 1.5


def test_blocks_above_a_limit_are_not_split() -> None:
    allocator = CachingAllocator(Settings(max_split=32 * MIB))
    allocator.free(allocator.allocate(40 * MIB))
    allocator.allocate(30 * MIB)
    assert allocator.reserved_bytes == 70 * MIB  # a smaller request does not get such a block
    allocator.allocate(36 * MIB)
    assert state(allocator) == (70 * MIB, 70 * MIB)  # another large one gets it whole
    allocator = CachingAllocator(Settings(max_split=32 * MIB))
    allocator.free(allocator.allocate(60 * MIB))
    allocator.allocate(40 * MIB)
    assert allocator.reserved_bytes == 100 * MIB  # but not if 20 MiB would be wasted
    allocator = CachingAllocator(Settings(max_split=32 * MIB), limit=100 * MIB)
    for block in [allocator.allocate(40 * MIB), allocator.allocate(50 * MIB)]:
        allocator.free(block)
    allocator.allocate(20 * MIB)
    assert state(allocator) == (20 * MIB, 70 * MIB)  # of what is never split as much is given back as needed
    allocator = CachingAllocator(Settings(max_split=32 * MIB), limit=120 * MIB)
    for block in [allocator.allocate(n * MIB) for n in (34, 36, 40)]:
        allocator.free(block)
    allocator.allocate(60 * MIB)
    assert state(allocator) == (60 * MIB, 94 * MIB)  # the largest first


def test_what_is_cached_goes_back_when_the_device_is_full() -> None:
    allocator = CachingAllocator(PLAIN, limit=50 * MIB)
    allocator.allocate(20 * MIB)
    allocator.free(allocator.allocate(12 * MIB))
    assert allocator.reserved_bytes == 32 * MIB
    allocator.allocate(22 * MIB)
    assert (allocator.reserved_bytes, allocator.peak_reserved_bytes) == (42 * MIB, 42 * MIB)  # 12 are gone, 20 are in use
    with pytest.raises(OutOfMemory):
        allocator.allocate(20 * MIB)


def test_an_expandable_segment_grows_by_pages_and_loses_what_is_free() -> None:
    allocator = CachingAllocator(EXPANDABLE, limit=82 * MIB)
    allocator.allocate(1)
    assert state(allocator) == (512, 2 * MIB)
    first = allocator.allocate(30 * MIB)
    allocator.allocate(25 * MIB)
    assert state(allocator) == (512 + 55 * MIB, 62 * MIB)  # 55 of three pages of 20
    allocator.free(first)
    again = allocator.allocate(29 * MIB)
    assert again is not None and state(allocator) == (512 + 54 * MIB, 62 * MIB)  # the rest of 1 MiB is cut off
    allocator.free(again)
    # 30 are free below: one whole page of them goes back, and two follow the 5 that are free at the end.
    last = allocator.allocate(40 * MIB)
    assert state(allocator) == (512 + 65 * MIB, 82 * MIB) and allocator.peak_reserved_bytes == 82 * MIB
    allocator.free(last)
    allocator.allocate(21 * MIB)  # of the 45 at the end, of which 24 stay
    assert state(allocator) == (512 + 46 * MIB, 82 * MIB)
    with pytest.raises(OutOfMemory):
        allocator.allocate(60 * MIB)


@pytest.mark.parametrize("settings", [PLAIN, EXPANDABLE, Settings(max_split=24 * MIB)])
@pytest.mark.parametrize("limit", [UNLIMITED, 150 * MIB])
def test_random_sequences_against_a_slow_simulation(settings: Settings, limit: int) -> None:
    for seed in range(6):
        generator = random.Random(seed)
        fast, slow = CachingAllocator(settings, limit), SlowAllocator(settings, limit)
        alive: list[tuple[Block, int]] = []
        for _ in range(250):
            if alive and generator.random() < 0.45:
                block, number = alive.pop(generator.randrange(len(alive)))
                fast.free(block)
                slow.free(number)
            else:
                n_bytes = int(2 ** generator.uniform(12, 25.5))
                theirs = slow.allocate(n_bytes)
                if theirs is None:
                    with pytest.raises(OutOfMemory):
                        fast.allocate(n_bytes)
                else:
                    ours = fast.allocate(n_bytes)
                    assert ours is not None and ours.size >= n_bytes
                    alive.append((ours, theirs))
            assert state(fast) == (slow.allocated(), slow.reserved())
            assert fast.allocated_bytes == sum(b.size for b, _ in alive) <= fast.reserved_bytes <= limit
            spans = sorted((b.address, b.address + b.size) for b, _ in alive)
            assert all(end <= begin for (_, end), (begin, _) in zip(spans, spans[1:]))


@pytest.mark.parametrize("settings", [PLAIN, EXPANDABLE, Settings(max_split=40 * MIB), Settings(divisions=8)])
@pytest.mark.parametrize("limit", [UNLIMITED, 120 * MIB])
def test_the_library_serves_requests_alike(settings: Settings, limit: int) -> None:
    n_refused = 0
    for seed in range(20):
        generator = random.Random(seed)
        allocator, held, events, said = CachingAllocator(settings, limit), dict[int, Block | None](), [], ""
        for k in range(200):
            frees = bool(held) and generator.random() < 0.45
            number = generator.choice(list(held)) if frees else k
            n_bytes = 0 if frees else int(2 ** generator.uniform(3, 25.5))
            events.append((number, n_bytes))
            try:
                if n_bytes:
                    held[number] = allocator.allocate(n_bytes)
                else:
                    allocator.free(held.pop(number))
            except OutOfMemory as error:
                said = str(error)
                n_refused += 1
                with pytest.raises(OutOfMemory, match=said):
                    settings.serve(events, limit)
                break
        if not said:
            use = settings.serve(events, limit)
            assert use.peak_allocated_bytes == allocator.peak_allocated_bytes
            assert use.peak_reserved_bytes == allocator.peak_reserved_bytes
    assert (n_refused > 0) == (limit < UNLIMITED)


def test_settings_of_the_environment() -> None:
    def read(text: str) -> Settings:
        return Settings.from_environment({"PYTORCH_CUDA_ALLOC_CONF": text})

    assert read("") == PLAIN
    assert read("expandable_segments:True, max_split_size_mb:64") == Settings(expandable=True, max_split=64 * MIB)
    assert read("garbage_collection_threshold:0.8,roundup_power2_divisions:8,backend:native") == Settings(divisions=8)
    both = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "PYTORCH_ALLOC_CONF": "max_split_size_mb:30"}
    assert Settings.from_environment(both) == Settings(max_split=30 * MIB)
    for text in ("backend:cudaMallocAsync", "roundup_power2_divisions:[256:1,>:4]"):
        with pytest.raises(NotSimulated):
            read(text)


def test_a_trace_is_replayed_over_several_steps() -> None:
    # Before: 15 and 20 of 20. A step takes 14, then 6 beside it; 14 goes, and 8 begins.
    trace = Trace([15 * MIB, 20 * MIB], [(1, 14 * MIB), (2, 6 * MIB), (1, 0), (3, 8 * MIB), (2, 0), (3, 0)])
    # 16 and 20 before; 14; 20, of which 6; 8 in the 14 that are free, or in those 20: the smaller, of which 6 are left. In
    # the second step 14 finds its own 14 again: nothing is added.
    assert trace.reserved_bytes(PLAIN) == (16 + 20 + 14 + 20) * MIB
    assert trace.reserved_bytes(PLAIN, limit=70 * MIB) == 70 * MIB
    with pytest.raises(OutOfMemory):
        trace.reserved_bytes(PLAIN, limit=69 * MIB)
    assert trace.reserved_bytes(EXPANDABLE) == 60 * MIB  # 15 + 20 + 14 + 6 = 55 of pages of 20


def test_a_later_step_may_need_more_than_the_first() -> None:
    # First step: 8 and 12 share a segment of 20, 16 have their own. Second: 8 take those 16, the smallest that fits, 12 the
    # 20, and for 16 there is nothing.
    trace = Trace([], [(1, 8 * MIB), (2, 12 * MIB), (3, 16 * MIB), (1, 0), (2, 0), (3, 0)])
    assert trace.reserved_bytes(PLAIN) == 52 * MIB
    assert trace.reserved_bytes(EXPANDABLE) == 40 * MIB


@pytest.mark.parametrize("budget", ["100%", "floor+30%"])
def test_a_report_says_what_is_reserved(budget: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF", raising=False)
    model = networks.Convolutions(32)
    report = memplan.estimate(model, networks.images(8, 64), budget=budget, on_infeasible="smallest")
    graph = report.graph
    assert report.reserved_bytes is not None and report.reserved_bytes >= report.planned_bytes
    assert report.reserved_bytes == graph.reserved_within(report.reserved_bytes)
    assert report.context_bytes is None or torch.cuda.is_available()
    assert "allocator reserves" in str(report)
    assert len(graph.trace.step) % 2 == 0 and live_peak(graph.trace) == graph.planned_bytes
    with pytest.raises(memplan.BudgetError, match=r"does not fit a device of 1\.00 MiB"):
        graph.reserved_within("1MiB")
    assert graph.reserved_within("1TiB", EXPANDABLE) >= report.planned_bytes


def live_peak(trace: Trace) -> int:
    """What the planner counted is what the trace asks for."""
    live = top = sum(trace.before)
    held = {}
    for number, n_bytes in trace.step:
        live += n_bytes or -held.pop(number)
        if n_bytes:
            held[number] = n_bytes
        top = max(top, live)
    assert not held
    return top


def test_settings_that_are_not_simulated_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync")
    model, inputs = networks.make("tied")
    report = memplan.estimate(model, inputs)
    assert report.reserved_bytes is None and "cannot be simulated with these settings" in str(report)
