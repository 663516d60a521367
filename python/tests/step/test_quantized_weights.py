"""4-bit weights of bitsandbytes in estimates of a whole step: sizes by hand."""

from __future__ import annotations

import pytest
import torch

from memplan.memory.allocator import Settings
from memplan.step.eager_step import recorded_step

bnb = pytest.importorskip("bitsandbytes")

ROWS, WIDTH, WIDE = 2048, 1024, 4096
MIB, LEAST = 1 << 20, 512
N_WEIGHTS = WIDTH * WIDE
QUANTIZED = N_WEIGHTS // 2
SCALES = N_WEIGHTS // 64  # one per 64 weights
CODE = LEAST  # 16 values in fp32
PLAIN = 4 * SCALES + CODE
NESTED = SCALES + SCALES // 256 * 4 + 256 * 4 + LEAST + CODE  # 8 bits each, their scales, their 256 values, an offset
OPERAND, RESULT, COPY = 2 * ROWS * WIDTH, 2 * ROWS * WIDE, 2 * N_WEIGHTS


def peak_bytes(is_nested: bool, rows: int, has_backward: bool = True) -> int:
    options = {"bias": False, "compute_dtype": torch.bfloat16, "compress_statistics": is_nested, "quant_type": "nf4"}
    layer = bnb.nn.Linear4bit(WIDTH, WIDE, device="meta", **options)
    layer.weight.data = layer.weight.data.bfloat16()
    x = torch.empty(rows, WIDTH, dtype=torch.bfloat16, device="meta", requires_grad=True)

    def step() -> None:
        y = layer(x)
        if has_backward:
            y.backward(torch.ones_like(y))
            x.grad = None

    return recorded_step(step, (), {}, True, 1).allocator(Settings(), 0).peak_allocated_bytes


@pytest.mark.parametrize("is_nested, scales", [(False, PLAIN), (True, NESTED)])
def test_backward_copies_the_weight(is_nested: bool, scales: int) -> None:
    assert peak_bytes(is_nested, ROWS) == QUANTIZED + scales + OPERAND + 2 * RESULT + COPY + OPERAND


@pytest.mark.parametrize("is_nested, scales, copies", [(False, PLAIN, 0), (True, NESTED, 8 * SCALES)])
def test_a_product_with_many_rows_copies_weight_and_scales(is_nested: bool, scales: int, copies: int) -> None:
    found = peak_bytes(is_nested, ROWS, has_backward=False)
    assert found == QUANTIZED + scales + OPERAND + RESULT + COPY + copies


def test_a_product_with_few_rows_copies_nothing() -> None:
    assert peak_bytes(False, 4, has_backward=False) == QUANTIZED + PLAIN + (OPERAND + RESULT) * 4 // ROWS
