"""Values of tensors on the meta device, computed on the CPU when a script reads them.

Sizes can depend on values: a mask selects rows, and a router counts tokens. This module records the call of each operator. If a
script reads a value, the module repeats the recorded calls on the CPU. It computes the normal random numbers that a GPU draws
for the script's seed.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.weak import WeakTensorKeyDictionary

from memplan.step.stated_card import Card

THREADS = 256  # threads of a block in PyTorch's kernels for random numbers
DRAWS = 4  # numbers that a thread draws at once
MOST_ELEMENTS = 1 << 26  # elements of the largest tensor whose value is computed
UNWRITTEN = ("aten.empty.", "aten.empty_like.", "aten.empty_strided.", "aten.new_empty.", "aten.new_empty_strided.")
WORD = 0xFFFFFFFF
WEYL = (0x9E3779B9, 0xBB67AE85)
FACTORS = (0xD2511F53, 0xCD9E8D57)


def philox(counters: np.ndarray, subsequences: np.ndarray, seed: int) -> list[np.ndarray]:
    """Return four random 32-bit numbers per element: Philox-4x32-10 (Salmon et al., 2011) as cuRAND uses it.

    Args:
        counters: the low 64 bits of the generator's counter.
        subsequences: the high 64 bits of the counter. cuRAND stores the number of the thread here.
        seed: the key of 64 bits.
    """
    word, shift = np.uint64(WORD), np.uint64(32)
    a, b, c, d = (part for n in (counters, subsequences) for part in (n.astype(np.uint64) & word, n.astype(np.uint64) >> shift))
    key = [seed & WORD, seed >> 32]
    for _ in range(10):
        low, high = a * np.uint64(FACTORS[0]), c * np.uint64(FACTORS[1])
        a, b, c, d = (
            (high >> shift) ^ b ^ np.uint64(key[0]),
            high & word,
            (low >> shift) ^ d ^ np.uint64(key[1]),
            low & word,
        )
        key = [(k + w) & WORD for k, w in zip(key, WEYL, strict=True)]
    return [a, b, c, d]


@dataclass
class Generator:
    """The state of a GPU's generator of random numbers.

    `n_blocks`: blocks that run at once. `offset`: 32-bit numbers that each thread has drawn.
    """

    seed: int
    n_blocks: int
    offset: int = 0

    def threads(self, n: int) -> int:
        return min(self.n_blocks, -(-n // THREADS)) * THREADS

    def skip(self, n: int) -> int:
        """Draw `n` numbers. Return the offset before the draw."""
        before = self.offset
        self.offset += DRAWS * ((n - 1) // (self.threads(n) * DRAWS) + 1)
        return before


def normal(n: int, seed: int, offset: int, n_threads: int) -> torch.Tensor:
    """Return normal random numbers in fp32 as a GPU draws them, up to rounding errors."""
    n_rounds = -(-n // (n_threads * DRAWS))
    rounds = np.repeat(np.arange(n_rounds), n_threads) + offset // DRAWS
    words = philox(rounds, np.tile(np.arange(n_threads), n_rounds), seed)
    found = np.empty((n_rounds, DRAWS, n_threads), np.float32)
    for k in (0, 2):  # Box-Muller
        u = words[k].astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)
        angle = words[k + 1].astype(np.float32) * np.float32(2.0**-32 * 2 * np.pi) + np.float32(2.0**-33 * 2 * np.pi)
        radius = np.sqrt(-2 * np.log(u))
        found[:, k] = (radius * np.sin(angle)).reshape(n_rounds, n_threads)
        found[:, k + 1] = (radius * np.cos(angle)).reshape(n_rounds, n_threads)
    return torch.from_numpy(found.reshape(-1)[:n])


class Unknown(Exception):
    """A value that depends on a tensor whose value is not recorded."""


@dataclass
class Call:
    """A recorded call.

    An argument that is a tensor has a value, or is a `Result`: another call and the index of its result.
    """

    operator: Any
    args: Any
    kwargs: Any
    results: list[torch.Tensor] | None = None

    def result(self, index: int) -> torch.Tensor:
        if self.results is None:
            args, kwargs = tree_map(real, (self.args, self.kwargs), is_leaf=lambda v: isinstance(v, Result))
            if "device" in kwargs:
                kwargs["device"] = torch.device("cpu")
            self.results = tree_flatten(self.operator(*args, **kwargs))[0]
        return self.results[index]


@dataclass(frozen=True)
class Result:
    call: Call
    index: int


def real(value: Any) -> Any:
    return value.call.result(value.index) if isinstance(value, Result) else value


class Values:
    """The recorded calls of a process."""

    def __init__(self, card: Card) -> None:
        self.n_blocks = card.n_processors * (card.threads_per_processor // THREADS)
        self.results: Any = WeakTensorKeyDictionary()
        self.written: weakref.WeakSet[Any] = weakref.WeakSet()  # storages that an operator has overwritten
        self.generator: Generator | None = None

    @contextlib.contextmanager
    def seeded(self) -> Iterator[None]:
        """Within the context, torch.manual_seed also sets the seed of this generator."""
        seed = torch.manual_seed

        def noted(number: int) -> Any:
            self.generator = Generator(int(number), self.n_blocks)
            return seed(number)

        with mock.patch.object(torch, "manual_seed", noted):
            yield

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the value of a tensor. Raises Unknown."""
        return real(self._argument(tensor))  # type: ignore[no-any-return]

    def state(self, tensor: torch.Tensor, value: torch.Tensor) -> None:
        """Record the value of a tensor."""
        self.results[tensor] = Result(Call(None, (), {}, [value]), 0)

    def _argument(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.device.type != "meta":
            return value
        found = self.results.get(value)
        if found is None or value.untyped_storage() in self.written:
            raise Unknown
        return found

    def note(self, operator: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Record a call."""
        flat = [value for value in tree_flatten(result)[0] if isinstance(value, torch.Tensor)]
        if operator._schema.is_mutable:
            written = (
                v for v, a in zip(args, operator._schema.arguments, strict=False) if a.alias_info and a.alias_info.is_write
            )
            self.written.update(t.untyped_storage() for t in tree_flatten(list(written))[0] if isinstance(t, torch.Tensor))
            flat = []
        if torch.Tag.nondeterministic_seeded in operator.tags:
            call = self._drawn(operator, flat)
        elif str(operator).startswith(UNWRITTEN) or any(t.numel() > MOST_ELEMENTS for t in flat):
            call = None
        else:
            try:
                call = Call(operator, *tree_map(self._argument, (args, kwargs)))
            except Unknown:
                call = None
        if call is not None:
            self.results.update({t: Result(call, k) for k, t in enumerate(flat)})

    def _drawn(self, operator: Any, flat: list[torch.Tensor]) -> Call | None:
        """Record a call that draws random numbers. After other operators than `randn` the generator's state is unknown."""
        if str(operator) != "aten.randn.default":
            self.generator = None
        if self.generator is None:
            return None
        n = flat[0].numel()
        generator, shape, dtype = self.generator, flat[0].shape, flat[0].dtype
        offset = generator.skip(n)
        n_threads = generator.threads(n)
        return Call(lambda: normal(n, generator.seed, offset, n_threads).view(shape).to(dtype), (), {})
