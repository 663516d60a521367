"""Compilation of captured calls with equal blocks, of which AOTAutograd traces four."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from memplan.graph.equal_blocks import EqualBlocks, kinds_of, shortened
from memplan.graph.unroll import Unequal
from memplan.torch_internals.capture import with_backward

if TYPE_CHECKING:
    from memplan.run.captured_graph import Captured

PLAIN = (torch.Tensor, torch.nn.Parameter)


def equal_blocks(captured: Captured, inputs: list[Any]) -> EqualBlocks | None:
    """Return the equal blocks of a captured call, or None if AOTAutograd must trace all of it."""
    backend = captured.backend()
    if backend is None or backend.repeats is not None or backend.is_fallback_graph:
        return None
    if not torch.is_grad_enabled() or not all(type(i) in PLAIN for i in inputs):
        return None
    return shortened(captured.module, list(kinds_of(inputs, captured.inputs)))


def compiled_by_blocks(captured: Captured, inputs: list[Any], compilers: dict[str, Any]) -> Callable[..., Any]:
    """Compile a captured graph with AOTAutograd. Of many equal blocks only four are traced, if the joint graph is regular."""
    with contextlib.suppress(Unequal):
        if (blocks := equal_blocks(captured, inputs)) is not None:
            return with_backward(blocks.module, inputs, **instead(blocks, compilers))
    return with_backward(captured.module, inputs, **compilers)


def instead(blocks: EqualBlocks, compilers: dict[str, Any]) -> dict[str, Any]:
    """Return compilers for a shortened call: they insert the omitted blocks before the joint graph is partitioned."""
    partition, given = compilers["partition_fn"], [blocks]

    def whole(joint: fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, **known: Any) -> Any:
        try:
            given.pop().insert(joint, num_fwd_outputs)  # PyTorch keeps this function, but not the blocks
        except Exception as error:  # a joint graph of another form than memplan knows
            raise Unequal(str(error)) from error
        return partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **known)

    def refuse(*_: Any) -> Any:
        raise Unequal("it has no backward")

    return {**compilers, "partition_fn": whole, "inference_compiler": refuse}
