#!/usr/bin/env python3
"""PyTorch's gradients where a derivative has a choice, as rows of C: tests/kernels/choices.def, which test_choices.c includes.

Run as  python3 tests/gradients/make_choices.py > tests/kernels/choices.def  (figures in the file: PyTorch 2.15). Every row is
an operator at ties, at borders and at zeros: its operands, and the gradients of all that have one where those of the outputs
are 1, 2, 3 ...
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, tensor
from torch.nn import functional as F

TYPES = {torch.float32: "float32", torch.int64: "int64", torch.bool: "bool"}
INF = math.inf


def row(*values: float) -> Tensor:
    return tensor(values, dtype=torch.float32)


def numbers(values: Tensor) -> list[str]:
    words = {"nan": "NAN", "inf": "INFINITY", "-inf": "-INFINITY"}
    texts = [f"{v:.9g}" for v in values.to(torch.float64).flatten().tolist()]
    return [words.get(t, "0" if t == "-0" else t) for t in texts]


def operand(t: Tensor | None) -> str:
    if t is None:
        return "-"
    values = t.to(torch.int64) if t.dtype == torch.bool else t
    listed = ",".join(f"{v:.9g}" for v in values.flatten().tolist())
    return f"{TYPES[t.dtype]}[{','.join(str(n) for n in t.shape)}]={{{listed}}}"


def case(
    kind: str,
    version: int,
    operands: Sequence[Tensor | None],
    compute: Callable[..., Tensor | tuple[Tensor, ...]],
    attributes: str = "",
    wanted: Sequence[int] | None = None,
) -> None:
    """`wanted`: the operands that have a gradient; all of floats, if nothing else is said."""
    floats = [k for k, t in enumerate(operands) if t is not None and t.is_floating_point()]
    asked = floats if wanted is None else list(wanted)
    given = [None if t is None else t.clone().requires_grad_(k in asked) for k, t in enumerate(operands)]
    found = compute(*given)
    outputs = found if isinstance(found, tuple) else (found,)
    y = outputs[0]
    upstream = torch.arange(1.0, y.numel() + 1).reshape(y.shape)
    leaves = [t for k in asked if (t := given[k]) is not None]
    slopes = torch.autograd.grad(y, leaves, upstream)
    expected = [text for slope in slopes for text in numbers(slope)]
    mask = sum(1 << k for k in asked)
    print(f'CHOICE("{kind}", {version}, "{attributes}", {len(outputs)}, {mask},')
    print(f'       "{" ".join(operand(t) for t in operands)}",')
    print(textwrap.fill(f"{', '.join(expected)})", 120, initial_indent="       ", subsequent_indent="       "))


def unaries() -> None:
    around = row(-1, -0.0, 0, 1)
    case("Relu", 14, [around], F.relu)
    case("LeakyRelu", 16, [around], lambda x: F.leaky_relu(x, 0.25), "alpha=0.25")
    case("memplan:LeakyRelu", 1, [around], lambda x: F.leaky_relu(x, -0.5), "alpha=-0.5")
    case("Elu", 6, [around], lambda x: F.elu(x, 1.5), "alpha=1.5")
    case("memplan:Elu", 1, [around], lambda x: F.elu(x, -1.5), "alpha=-1.5")
    case("Selu", 6, [around], F.selu)
    case("Celu", 12, [around], lambda x: F.celu(x, 2.0), "alpha=2.0")
    case("ThresholdedRelu", 10, [row(-1, 0, 0.5, 0.75, 1)], lambda x: F.threshold(x, 0.5, 0.0), "alpha=0.5")
    case("HardSigmoid", 6, [row(-4, -3, 0, 3, 4)], F.hardsigmoid, "alpha=0.16666666666666666")
    case("HardSwish", 14, [row(-4, -3, 0, 3, 4)], F.hardswish)
    case("Shrink", 9, [row(-1, -0.5, 0, 0.5, 1)], lambda x: F.hardshrink(x, 0.5), "lambd=0.5")
    case("Shrink", 9, [row(-1, -0.5, 0, 0.5, 1)], lambda x: F.softshrink(x, 0.5), "lambd=0.5 bias=0.5")
    case("Softplus", 1, [row(-100, -1, 0, 1, 100)], F.softplus)
    case("Softsign", 1, [around], F.softsign)
    case("Abs", 13, [around], torch.abs)
    case("Sqrt", 13, [row(0, 1, 4)], torch.sqrt)
    case("Reciprocal", 13, [row(0, 1, -2)], torch.reciprocal)
    case("Log", 13, [row(0, 1, 2)], torch.log)
    case("Asin", 7, [row(-1, 0, 1)], torch.asin)
    case("Acos", 7, [row(-1, 0, 1)], torch.acos)
    case("Acosh", 9, [row(1, 2)], torch.acosh)
    case("Atanh", 9, [row(-1, 0, 1)], torch.atanh)
    clipped = row(-2, -1, 0, 1, 2)
    case("Clip", 6, [clipped], lambda x: torch.clamp(x, -1, 1), "min=-1.0 max=1.0")
    case("Clip", 6, [clipped], lambda x: torch.clamp(x, min=-1), "min=-1.0")
    case("Clip", 6, [clipped], lambda x: torch.clamp(x, max=1), "max=1.0")
    case("Clip", 6, [clipped], lambda x: torch.clamp(x, 1, 1), "min=1.0 max=1.0")
    case("Clip", 6, [clipped], lambda x: torch.clamp(x, 1, -1), "min=1.0 max=-1.0")
    case("Clip", 6, [row(-1, 0, 3, 6, 7)], F.relu6, "min=0.0 max=6.0")
    case("Clip", 13, [clipped, tensor(-1.0), tensor(1.0)], lambda x, a, b: torch.clamp(x, -1, 1), wanted=[0])
    dropped = [around, tensor(1.0), tensor(True)]
    case("Dropout", 13, dropped, lambda x, ratio, mode: F.dropout(x, 1.0), wanted=[0])
    case("Dropout", 13, [around, tensor(0.0), tensor(True)], lambda x, ratio, mode: F.dropout(x, 0.0), wanted=[0])


def binaries() -> None:
    a, b = row(-1, 0, 1, 2, 3, math.nan, 1), row(-1, 1, 1, 1, 3, 1, math.nan)
    case("Max", 13, [a, b], torch.maximum)
    case("Min", 13, [a, b], torch.minimum)
    matrix, line = row(1, 2, 3, 2, 2, 2).reshape(2, 3), row(2, 2, 2)
    case("Max", 13, [matrix, line], torch.maximum)
    case("Min", 13, [line, matrix], torch.minimum)
    case("Max", 13, [matrix, tensor(2.0)], torch.maximum)
    case("Max", 13, [matrix], lambda x: x * 1)
    three = [row(1, 2, 2, 1, 0), row(1, 2, 1, 2, 1), row(1, 1, 2, 2, 0)]
    case("Max", 13, three, lambda *all: torch.stack(all).amax(0))
    case("Min", 13, three, lambda *all: torch.stack(all).amin(0))
    case("Max", 13, [matrix, line, tensor(2.0)], lambda *all: torch.stack(torch.broadcast_tensors(*all)).amax(0))
    dividend, divisor = row(-3, 3, -4, 4, 0, 7.5, -7.5, 1), row(2, -2, 2, -2, 1, 2.5, 2, 0)
    case("Mod", 13, [dividend, divisor], torch.fmod, "fmod=1")
    case("Mod", 13, [dividend, divisor], torch.remainder)
    case("Mod", 13, [matrix, tensor(1.5)], torch.fmod, "fmod=1")
    case("Div", 14, [row(0, 1, -1, 2), row(0, 0, 0, -2)], torch.div)
    base, power = row(0, 0, 0, 0, 0, 1, 2, -2, -2), row(-1, 0, 0.5, 1, 2, 0, 0, 2, 3)
    case("Pow", 15, [base, power], torch.pow)
    case("PRelu", 16, [row(-1, 0, 1, -2), row(0.25, 0.25, 0.25, -0.5)], lambda x, w: torch.where(x > 0, x, w * x))
    case("PRelu", 16, [row(-1, 0, 1, -2).reshape(1, 4), row(0.25)], torch.prelu)
    condition = tensor([True, False, True, False])
    case("Where", 16, [condition, row(INF, 1, 0, INF), row(1, 2, math.nan, 0)], torch.where)
    where = torch.tensor([[0, 0, 1, 1, 1]])
    data, updates = row(2, 1, 5, 4).reshape(1, 4), row(2, 2, 0, 1, 1).reshape(1, 5)
    for reduction, name in (("max", "amax"), ("min", "amin"), ("mul", "prod")):
        given = [data, where, updates]
        attributes = f"axis=1 reduction={reduction}"
        case("memplan:ScatterElements", 18, given, lambda x, i, u, name=name: x.scatter_reduce(1, i, u, name), attributes)
        given = [data.reshape(4), where.reshape(5, 1), updates.reshape(5)]
        attributes = f"reduction={reduction}"
        case("memplan:ScatterND", 18, given, lambda x, i, u, name=name: x.scatter_reduce(0, i[:, 0], u, name), attributes)
    predicted, target = row(-2, -1, 0, 1, 2, 0), row(0, 0, 0, 0, 0, 1)
    case("memplan:HuberLoss", 1, [predicted, target], F.huber_loss)
    likely = row(0, 1, 0.5, 0, 1, 1)
    case("memplan:BinaryCrossEntropyWithLogits", 1, [predicted, likely], F.binary_cross_entropy_with_logits, wanted=[0])


def reductions() -> None:
    ties = row(3, 1, 3, 3, 0, 0, 0, 1, -2, -2, -2, -2).reshape(3, 4)
    case("ReduceMax", 18, [ties, tensor([1])], lambda x, axes: x.amax(1), "keepdims=0", [0])
    case("ReduceMin", 18, [ties, tensor([0])], lambda x, axes: x.amin(0), "keepdims=0", [0])
    case("ReduceMax", 18, [ties], lambda x: x.max(), "keepdims=0")
    zeros = row(2, 3, 4, 2, 0, 4, 0, 3, 0).reshape(3, 3)
    case("ReduceProd", 18, [zeros, tensor([1])], lambda x, axes: x.prod(1), "keepdims=0", [0])
    norm = torch.linalg.vector_norm
    origin = row(0, 0, 3, 4, 0, -2).reshape(3, 2)
    case("ReduceL1", 18, [origin, tensor([1])], lambda x, axes: norm(x, 1, 1), "keepdims=0", [0])
    case("ReduceL2", 18, [origin, tensor([1])], lambda x, axes: norm(x, 2, 1), "keepdims=0", [0])
    case("ReduceSumSquare", 18, [origin, tensor([1])], lambda x, axes: x.square().sum(1), "keepdims=0", [0])
    case("ReduceLogSum", 18, [row(0, 0, 1, 0).reshape(2, 2), tensor([1])], lambda x, axes: x.sum(1).log(), "keepdims=0", [0])
    hidden = row(-INF, 0, -INF, -INF).reshape(2, 2)
    case("ReduceLogSumExp", 18, [hidden, tensor([1])], lambda x, axes: x.logsumexp(1), "keepdims=0", [0])
    case("CumSum", 14, [zeros, tensor(1)], lambda x, axis: x.cumsum(1), "", [0])
    best = row(1, 4, 4, 0, 4, -1, -1, -2, -1, 7).reshape(2, 5)
    for largest in (1, 0):

        def first(x: Tensor, k: Tensor, descending: bool = bool(largest)) -> tuple[Tensor, ...]:
            values, places = x.sort(dim=1, descending=descending, stable=True)
            return values[:, :2], places[:, :2]

        case("TopK", 11, [best, tensor([2])], first, f"largest={largest}", [0])
    for p in (1, 2):
        rows = row(0, 1, -2, 3, 0, 4).reshape(2, 3)
        case("LpNormalization", 18, [rows], lambda x, p=p: x / norm(x, p, 1, keepdim=True), f"axis=1 p={p}")


def cells() -> None:
    """Relu inside another operator: its input is 0, from a constant channel or from a step's input."""
    flat = row(1, 1, -1, 2, 1, 1, 0, 1).reshape(2, 2, 2)
    given = [flat, row(2, 1), row(0, 0), row(0, 0), row(1, 1)]

    def normalized(x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return F.batch_norm(x, mean, variance, scale, bias, True)

    how = "training_mode=1"
    case("memplan:BatchNormalizationRelu", 1, given, lambda *all: F.relu(normalized(*all)), how, [0, 1, 2])
    added = row(0, 1, 0, 0, -1, 0, 1, 0).reshape(2, 2, 2)

    def sums(*all: Tensor) -> Tensor:
        return F.relu(normalized(*all[:5]) + all[5])

    case("memplan:BatchNormalizationAddRelu", 1, [*given, added], sums, how, [0, 1, 2, 5])

    def recurrent(x: Tensor, w: Tensor, r: Tensor) -> Tensor:
        h, steps = torch.zeros(1, 1), []
        for step in x:
            h = F.relu(step @ w[0].T + h @ r[0].T)
            steps.append(h)
        return torch.stack(steps).unsqueeze(1)

    one = torch.ones(1, 1, 1)
    case("RNN", 14, [row(1, -1, 0, 2, -3).reshape(5, 1, 1), one, one], recurrent, "hidden_size=1 activations=Relu")


def windows() -> None:
    equal = row(1, 1, 0, 0, 1, 1, 0, 2, 2, 0, 2, 2, 0, 0, 2, 2).reshape(1, 1, 4, 4)
    below = -row(*range(1, 10)).reshape(1, 1, 3, 3)
    pooled = "kernel_shape=[2,2]"
    case("MaxPool", 12, [equal], lambda x: F.max_pool2d(x, 2, 1), pooled)
    case("MaxPool", 12, [equal], lambda x: F.max_pool2d(x, 2, 2), pooled + " strides=[2,2]")
    padded = "kernel_shape=[3,3] pads=[1,1,1,1] strides=[2,2]"
    case("MaxPool", 12, [below], lambda x: F.max_pool2d(x, 3, 2, 1), padded)
    case("MaxPool", 12, [equal], lambda x: F.max_pool2d(x, 2, 2, dilation=2), pooled + " strides=[2,2] dilations=[2,2]")
    case("MaxPool", 12, [equal[:, :, 1]], lambda x: F.max_pool1d(x, 3, 2, 1), "kernel_shape=[3] pads=[1,1] strides=[2]")
    case("GlobalMaxPool", 1, [equal], lambda x: F.adaptive_max_pool2d(x, 1))
    case("AveragePool", 19, [equal], lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), padded)
    signs = row(1, -1, 0, 2, 0, -2, 0, 0, 3).reshape(1, 1, 3, 3)
    for p in (1, 2, 3):
        case("LpPool", 18, [signs], lambda x, p=p: (4 * F.avg_pool2d(x.abs() ** p, 2, 1)) ** (1 / p), f"{pooled} p={p}")
        case("GlobalLpPool", 2, [signs], lambda x, p=p: (x.abs() ** p).sum((2, 3), keepdim=True) ** (1 / p), f"p={p}")


def samples() -> None:
    picture = row(*range(9)).reshape(1, 1, 3, 3)
    places = row(-1.5, -1, -1, 1, 0, 0, 1, 1.5, 1.25, -1.25, 0.5, -0.5, 2, 0.25).reshape(1, 1, 7, 2)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for aligned in (0, 1):
                sample = partial(F.grid_sample, mode=mode, padding_mode=padding, align_corners=bool(aligned))
                attributes = f"mode={mode} padding_mode={padding} align_corners={aligned}"
                case("GridSample", 16, [picture, places], sample, attributes)
    for mode, name in (("linear", "bilinear"), ("cubic", "bicubic"), ("nearest", "nearest")):
        for size in ((5, 4), (2, 2)):
            how = "asymmetric nearest_mode=floor" if mode == "nearest" else "pytorch_half_pixel"
            sizes = tensor([1, 1, *size])
            attributes = f"mode={mode} coordinate_transformation_mode={how}"
            resize = partial(F.interpolate, size=size, mode=name)
            case("Resize", 13, [picture, None, None, sizes], lambda x, *_, resize=resize: resize(x), attributes, [0])


def main() -> None:
    print("/* choices.def - CHOICE(kind, version, attributes, outputs, which operands have a gradient, operands, PyTorch's")
    print(" * gradients), written by make_choices.py. */")
    print("/* clang-format off */")
    for part in (unaries, binaries, reductions, cells, windows, samples):
        print(f"/* {part.__name__} */")
        part()
    print("/* clang-format on */")
    print("#undef CHOICE")


if __name__ == "__main__":
    main()
