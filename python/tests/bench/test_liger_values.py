"""Random numbers of a GPU, as the bench of Liger computes them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from liger_values import Generator, normal, philox

ONES = 2**64 - 1


@pytest.mark.parametrize(
    "counter, subsequence, seed, expected",
    [
        (0, 0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (ONES, ONES, ONES, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (0x85A308D3243F6A88, 0x0370734413198A2E, 0x299F31D0A4093822, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_philox_gives_the_published_vectors(counter: int, subsequence: int, seed: int, expected: str) -> None:
    """Test vectors of philox4x32 with 10 rounds from the library Random123."""
    words = philox(np.array([counter], np.uint64), np.array([subsequence], np.uint64), seed)
    assert " ".join(f"{int(word[0]):08x}" for word in words) == expected


@pytest.mark.parametrize(
    "index, expected",
    [
        (0, [0.1940, 2.1614, -0.1721]),
        (2045, [1.4540, -2.7733, -0.8932]),
        (4093, [0.1124, 0.2769, -1.2535]),
        (61 * 2048, [-0.4861, 0.3358, 1.0578]),
        (64 * 2048 - 3, [-0.4841, 1.2850, -0.0282]),
    ],
)
def test_normal_numbers_are_those_of_a_gpu(index: int, expected: list[float]) -> None:
    """Numbers of torch.randn([1, 64, 2048]) with seed 42, printed by a user of a GPU (issue 158398 of pytorch/pytorch).

    The last numbers depend on the number of the GPU's threads: 28 multiprocessors with 1536 threads each. This number was
    found by trial.
    """
    generator = Generator(42, 28 * 1536 // 256)
    found = normal(64 * 2048, generator.seed, 0, generator.threads(64 * 2048))
    assert torch.allclose(found[index : index + 3], torch.tensor(expected), atol=5.1e-5, rtol=0)


def test_a_second_round_continues_the_first() -> None:
    n_threads, n = 512, 2048
    assert torch.equal(normal(2 * n, 0, 0, n_threads)[n:], normal(n, 0, 4, n_threads))


@pytest.mark.parametrize(
    "n_blocks, n_threads",
    [
        (40 * 1024 // 256, 40_960),  # T4 (issue 194676 of pytorch/pytorch)
        (58 * 1536 // 256, 89_088),  # L4 (the same issue)
        (78 * 2048 // 256, 159_744),  # H20 (pull request 176584)
    ],
)
def test_large_tensors_have_several_rounds_of_threads(n_blocks: int, n_threads: int) -> None:
    """From one element more than a GPU has threads, its random numbers differ from the numbers of a larger GPU."""
    generator = Generator(0, n_blocks)
    assert generator.threads(n_threads) == generator.threads(n_threads + 1) == n_threads
    assert generator.threads(n_threads - 256) == n_threads - 256
    few, many = normal(n_threads + 1, 0, 0, n_threads), normal(n_threads + 1, 0, 0, n_threads + 256)
    assert torch.equal(few[:-1], many[:n_threads]) and few[-1] != many[n_threads]


def test_draws_advance_the_offset_by_whole_rounds() -> None:
    generator = Generator(0, 2)
    assert [generator.skip(n) for n in (1, 2048, 2049, 1)] == [0, 4, 8, 16]
