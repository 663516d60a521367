"""What an operator's results take where there is no memory to run it: by calls of it with less of the batch, along which
memory grows evenly but for the rounding of pieces to pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from memplan.costs.measure import apart
from memplan.graph.capture import storage_bytes, tensors_of

BATCH = -2  # the dimension that has the batch
OF_RNN = (0, 5, 6)  # arguments that have it: input, hidden state, cell state
FEW, MORE = 2, 4  # of the batch


def rnn_result_bytes(values: Sequence[Any]) -> tuple[int, ...]:
    """Of a layer of an LSTM with arguments like these, of which what it keeps for backward is known when it has run."""

    def zeros(k: int, n: int) -> torch.Tensor:
        shape = list(values[k].shape)
        if k in OF_RNN:
            shape[BATCH] = n
        return torch.zeros(shape, dtype=values[k].dtype, device=values[k].device)

    def sizes(n: int) -> list[int]:
        made = torch.ops.memplan.rnn_layer.default(
            *(zeros(k, n) if isinstance(v, torch.Tensor) else v for k, v in enumerate(values))
        )
        return [storage_bytes(t) for t in tensors_of(made)]

    batch = int(values[0].shape[BATCH])
    pairs = zip(*apart(lambda: (sizes(FEW), sizes(MORE))))
    return tuple(math.ceil(few + (more - few) / (MORE - FEW) * (batch - FEW)) for few, more in pairs)
