"""The memory that a GPU's allocator had reserved when an allocation failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from memplan.budget import in_units
from memplan.library.quantities import process_memory


@dataclass(frozen=True)
class Reserved:
    """The state of a GPU's allocator when an allocation failed.

    Attributes:
        fragmented_bytes: free bytes in partly used segments, which cannot return to the device.
        largest_bytes: the largest such piece.
        limit_bytes: the maximum that the allocator could reserve.
        context_bytes: memory of the process besides the allocator, for the CUDA context and loaded kernels; -1: unknown.
    """

    allocated_bytes: int
    reserved_bytes: int
    fragmented_bytes: int
    largest_bytes: int
    limit_bytes: int
    context_bytes: int = -1

    @staticmethod
    def of(snapshot: Sequence[Mapping[str, Any]], device: int, free_bytes: int, card: str = "") -> Reserved:
        """Read the state from PyTorch's snapshot (torch.cuda.memory_snapshot) and the device's free bytes."""
        segments = [s for s in snapshot if s["device"] == device]
        free = [int(b["size"]) for s in segments if s["allocated_size"] > 0 for b in s["blocks"] if b["state"] == "inactive"]
        reserved = sum(int(s["total_size"]) for s in segments)
        allocated = sum(int(s["allocated_size"]) for s in segments)
        known = process_memory(card, "other", 0) if card else None
        context = known.context_bytes if known is not None else -1
        return Reserved(allocated, reserved, sum(free), max(free, default=0), reserved + free_bytes, context)

    @staticmethod
    def now(device: int, free_bytes: int) -> Reserved:
        cuda: Any = torch.cuda
        return Reserved.of(cuda.memory_snapshot(), device, free_bytes, cuda.get_device_name(device))

    def __str__(self) -> str:
        process = (
            f"; the process needs {in_units(self.reserved_bytes + self.context_bytes)} with the CUDA context and loaded kernels"
            if self.context_bytes >= 0
            else ""
        )
        return (
            f"reserved: {in_units(self.reserved_bytes)}, of which {in_units(self.allocated_bytes)} are allocated and"
            f" {in_units(self.fragmented_bytes)} are fragments, the largest of {in_units(self.largest_bytes)}{process}"
        )

    def is_fragmented(self, tried_bytes: int) -> bool:
        """Whether the fragmented free bytes would suffice for the failed request if they were contiguous."""
        return self.fragmented_bytes >= tried_bytes > self.largest_bytes
