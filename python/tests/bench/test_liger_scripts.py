"""Peaks of windows, which are the parts of a process that belong to one row of Liger's benchmark."""

from __future__ import annotations

from liger_scripts import Process

from memplan.step.stated_card import stated_card

MIB = 1 << 20


def process_of(*events: tuple[int, int]) -> Process:
    card = stated_card("a100")
    assert card is not None
    process = Process(card)
    process.events = list(events)
    return process


def test_a_new_segment_counts_with_its_remainder() -> None:
    """A segment is a multiple of 2 MiB, and the allocator does not split off a remainder of 1 MiB."""
    assert process_of((1, 501 * MIB), (1, 0)).peaks([(0, 2)], 0) == [502 * MIB]


def test_a_cached_block_of_an_earlier_run_leaves_no_remainder() -> None:
    process = process_of((1, 1002 * MIB), (1, 0), (2, 501 * MIB), (2, 0))
    assert process.peaks([(0, 2), (2, 4)], 0) == [1002 * MIB, 501 * MIB]


def test_tensors_of_an_earlier_run_count_until_they_are_freed() -> None:
    process = process_of((1, 2 * MIB), (2, 3 * MIB), (1, 0), (2, 0), (3, 4 * MIB), (3, 0))
    assert process.peaks([(1, 3), (4, 6)], 0) == [5 * MIB, 4 * MIB]


def test_the_first_product_of_a_thread_allocates_its_workspace() -> None:
    assert process_of((0, 0), (1, MIB), (1, 0)).peaks([(1, 3)], 8 * MIB) == [9 * MIB]
