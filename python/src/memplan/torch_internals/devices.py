"""Of devices: who is told when an allocator has no more to give."""

from __future__ import annotations

from collections.abc import Callable

from memplan.torch_internals.names import Private

OUT_OF_MEMORY = Private(
    "torch._C._cuda_attach_out_of_memory_observer",
    use="to explain an allocation on a GPU while everything is alive, whoever catches the error",
    instead="the error as it passes",
)


def on_out_of_memory(told: Callable[[int, int, int, int], None]) -> bool:
    """Has a GPU's allocator call this when an allocation has failed: device, bytes, what the device has in all, what is free.
    There is no way to take it back. Whether it will."""
    if OUT_OF_MEMORY:
        OUT_OF_MEMORY(told)
    return bool(OUT_OF_MEMORY)
