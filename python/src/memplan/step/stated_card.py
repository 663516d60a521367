"""Answers of PyTorch and Triton about an absent GPU, and launches of Triton kernels on tensors without memory.

Libraries choose kernels, grids and sizes of temporaries by the properties of the GPU. A step on the meta device reads those of
the stated card.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from memplan.library.quantities import process_memory

KIB = 1 << 10
REGISTERS = 65536  # 32-bit registers of a multiprocessor, of all cards since compute capability 5.0
LANES = 32  # threads of a warp
# shared memory that a block can use, in KiB (CUDA C++ Programming Guide, table of technical specifications)
SHARED_KIB = {70: 96, 75: 64, 80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 120: 99}
# threads of a multiprocessor by compute capability (same table)
THREADS = {75: 1024, 86: 1536, 87: 1536, 89: 1536, 120: 1536}
USUAL_THREADS = 2048
NOTHING = ("synchronize", "empty_cache", "reset_peak_memory_stats", "reset_max_memory_allocated", "set_device", "init")
ZERO = ("current_device", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")


@dataclass(frozen=True)
class Card:
    """Properties of a GPU. `capability`: compute capability times 10."""

    name: str
    n_processors: int
    capability: int
    n_bytes: int

    @property
    def threads_per_processor(self) -> int:
        return THREADS.get(self.capability, USUAL_THREADS)


def answers(card: Card) -> dict[str, Callable[..., Any]]:
    """Return functions that replace those of torch.cuda, by name."""
    major, minor = divmod(card.capability, 10)
    properties = SimpleNamespace(
        name=card.name,
        major=major,
        minor=minor,
        total_memory=card.n_bytes,
        multi_processor_count=card.n_processors,
        warp_size=LANES,
        regs_per_multiprocessor=REGISTERS,
        shared_memory_per_block_optin=SHARED_KIB.get(card.capability, 0) * KIB,
    )
    fixed = {
        "get_device_name": card.name,
        "get_device_capability": (major, minor),
        "get_device_properties": properties,
        "mem_get_info": (card.n_bytes, card.n_bytes),
        "is_bf16_supported": True,
        "is_current_stream_capturing": False,
        **dict.fromkeys(NOTHING),
        **dict.fromkeys(ZERO, 0),
    }
    return {name: fixed_answer(value) for name, value in fixed.items()}


def fixed_answer(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def launched(_kernel: Any, _grid: Any) -> Callable[..., None]:
    """Return the launch of a Triton kernel: it computes nothing."""
    return lambda *_, **__: None


def stated_card(name: str) -> Card | None:
    """Return the properties of a card of the library's table; None for an unknown card."""
    known = process_memory(name, "other", 0)
    return Card(name, known.n_processors, known.capability, known.card_bytes) if known is not None else None


def triton_on(card: Card) -> list[contextlib.AbstractContextManager[Any]]:
    """Return contexts in which Triton's kernels compute nothing, and its driver answers for the card."""
    triton = sys.modules.get("triton")
    if triton is None or not hasattr(triton, "runtime"):
        return []
    known = {
        "multiprocessor_count": card.n_processors,
        "max_shared_mem": SHARED_KIB.get(card.capability, 0) * KIB,
        "max_num_regs": REGISTERS,
        "warpSize": LANES,
    }
    driver = SimpleNamespace(
        utils=SimpleNamespace(get_device_properties=lambda _device: known),
        get_current_device=lambda: 0,
        get_current_stream=lambda _device=0: 0,
        get_current_target=lambda: SimpleNamespace(backend="cuda", arch=card.capability, warp_size=LANES),
    )
    interface = triton.runtime.jit.KernelInterface
    return [
        mock.patch.object(interface, "__getitem__", launched),
        mock.patch.object(triton.runtime.driver, "_active", driver),
    ]


@contextlib.contextmanager
def answering(card: Card) -> Iterator[None]:
    """Within the context, PyTorch and Triton answer for the card, and launches of Triton kernels compute nothing.

    `torch.cuda.is_available` remains False: libraries keep that answer beyond the context.
    """
    with contextlib.ExitStack() as stack:
        for name, answer in answers(card).items():
            for module in (torch.cuda, torch.cuda.memory):
                if hasattr(module, name):
                    stack.enter_context(mock.patch.object(module, name, answer))
        for context in triton_on(card):
            stack.enter_context(context)
        yield
