"""4-bit weights of bitsandbytes in a whole step on the meta device.

bitsandbytes quantizes a weight when the model moves to a GPU. A model on the meta device never moves, so memplan quantizes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import torch

LIBRARY = "bitsandbytes"
PRODUCT = "bitsandbytes.gemm_4bit."
MOST_ROWS_WITHOUT_COPY = 4  # up to this number of rows in the operand, the product never dequantizes the whole weight
SHAPE, SCALES, NESTED_SCALES = 2, 3, 7  # positions of operands of PRODUCT


def quantize(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Quantize the 4-bit weights that bitsandbytes would quantize when they move to a GPU. Return their scales and codes."""
    kind: Any = getattr(getattr(sys.modules.get(LIBRARY), "nn", None), "Params4bit", None)
    found: list[torch.Tensor] = []
    for weight in [t for t in tensors if kind is not None and isinstance(t, kind)]:
        if weight.device.type == "meta" and not weight.bnb_quantized:
            weight._quantize("meta")
        found += tensors_of(weight.quant_state)
    return found


def tensors_of(state: Any) -> list[torch.Tensor]:
    """Return the tensors of a quantized weight's state, and of the state of its scales if they are quantized, too."""
    values = [] if state is None else list(vars(state).values())
    found = [value for value in values if isinstance(value, torch.Tensor)]
    return found + [t for value in values if type(value) is type(state) for t in tensors_of(value)]


def of_product(args: Any, kwargs: Any) -> list[int]:
    """Return the temporaries of a product with a 4-bit weight: scales in fp32, and the weight in the operand's type.

    Up to 1,536 rows, the kernel reads the 4-bit weight in place on some cards. In this case the result is an upper bound.
    """
    x, (n, k) = args[0], args[SHAPE]
    if x.numel() // k <= MOST_ROWS_WITHOUT_COPY:
        return []
    nested = args[NESTED_SCALES] if len(args) > NESTED_SCALES else kwargs.get("absmax_8bit")
    scales = [] if nested is None else [nested.numel() * 4] * 2
    return [*scales, n * k * x.element_size()]
