"""The shape rules of batch normalization give the tensors of PyTorch's own decomposition."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode

from memplan.torch_internals import batch_norm

ATEN = torch.ops.aten
SIZES = [(2, 3), (4, 8, 5), (2, 3, 4, 5), (1, 3, 4, 5), (2, 1, 4, 5), (2, 3, 1, 1), (2, 3, 1, 5), (1, 3, 1, 5), (2, 3, 4, 5, 6)]
FORMATS = {2: (torch.contiguous_format,), 4: (torch.contiguous_format, torch.channels_last)}


def layouts(results: Any) -> list[Any]:
    return [(tuple(t.shape), t.stride(), t.dtype, t.device, t.untyped_storage().nbytes()) for t in results]


@pytest.mark.parametrize("device", ["cuda", "cpu", "meta"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_rules_give_the_layouts_of_pytorchs_operators(device: str, dtype: torch.dtype) -> None:
    n_rules = 0
    for size, format, weight_dtype in itertools.product(SIZES, FORMATS[4], (torch.float32, dtype)):
        if format not in FORMATS.get(len(size), FORMATS[2]):
            continue
        mode = FakeTensorMode()
        with mode:
            x = torch.empty(size, dtype=dtype, device=device, memory_format=format)
            gradient = torch.empty_like(x)
            weight, bias = (torch.empty(size[1], dtype=weight_dtype, device=device) for _ in range(2))
            mean, variance = (torch.empty(size[1], device=device) for _ in range(2))
            saved = torch.empty_like(mean), torch.empty_like(variance)
            given = x, weight, bias, mean, variance, True, 0.1, 1e-5
            calls: list[tuple[Any, tuple[Any, ...]]] = [
                (ATEN._native_batch_norm_legit.default, given),
                (ATEN._native_batch_norm_legit_functional.default, given),
                (
                    ATEN.native_batch_norm_backward.default,
                    (gradient, x, weight, mean, variance, *saved, True, 1e-5, [True] * 3),
                ),
            ]
            expected = [operator(*args) for operator, args in calls]
        for (operator, args), results in zip(calls, expected):
            found = batch_norm.RULES[operator](mode, *args)
            if found is not NotImplemented:
                n_rules += 1
                assert layouts(found) == layouts(results)
    assert n_rules >= 3 * 2 * len(SIZES)


def test_captures_use_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    import memplan

    used: list[Any] = []
    rules = batch_norm.RULES

    def noting(operator: Any) -> Any:
        def rule(*args: Any) -> Any:
            used.append((operator, found := rules[operator](*args)))
            return found

        return rule

    monkeypatch.setattr(batch_norm, "RULES", {operator: noting(operator) for operator in rules})
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
    memplan.estimate(model, (torch.empty(2, 3, 8, 8, device="meta"),), device="a100", cache="off")
    assert {operator for operator, _ in used} == set(rules)
    assert all(found is not NotImplemented for _, found in used)
