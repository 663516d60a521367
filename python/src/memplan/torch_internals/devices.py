"""Registration of a callback for failed allocations on a GPU."""

from __future__ import annotations

from collections.abc import Callable

from memplan.torch_internals.names import Private

OUT_OF_MEMORY = Private(
    "torch._C._cuda_attach_out_of_memory_observer",
    use="explains a failed allocation on a GPU before any tensor is released",
    instead="memplan reads the exception",
)


def on_out_of_memory(told: Callable[[int, int, int, int], None]) -> bool:
    """Register a callback for failed allocations on a GPU. The callback cannot be unregistered.

    Args:
        told: receives device, requested bytes, total bytes of the device, and free bytes.

    Returns:
        Whether this PyTorch version supports it.
    """
    if OUT_OF_MEMORY:
        OUT_OF_MEMORY(told)
    return bool(OUT_OF_MEMORY)
