"""Plans overwrite memory wherever eager PyTorch does: "100%" needs at most the peak of eager PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from against_eager import assert_like_eager, eager_copy, peak_of_step, static_bytes
from torch import nn

import memplan
from memplan.graph.overwriting import in_place_form
from memplan.run.backend import COSTS

ROWS, WIDTH = 256, 64
aten = torch.ops.aten
Layer = Callable[..., torch.Tensor]
Inputs = tuple[torch.Tensor, ...]


class After(nn.Module):
    """A linear layer, and an operator at which the peak is."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.linear, self.layer = nn.Linear(WIDTH, WIDTH), layer

    def forward(self, x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        return self.layer(self.linear(x), *others).square().mean()


class Grouped(nn.Module):
    """Attention whose key heads are repeated for the query heads."""

    def __init__(self, repeat: Layer) -> None:
        super().__init__()
        self.queries, self.keys, self.values = (nn.Linear(32, n * 16) for n in (16, 2, 2))
        self.repeat = repeat

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (p(x).view(2, 128, -1, 16).transpose(1, 2) for p in (self.queries, self.keys, self.values))
        return F.scaled_dot_product_attention(q, self.repeat(k), self.repeat(v)).square().mean()


def after(layer: Layer, *others: torch.Tensor) -> Callable[[], tuple[nn.Module, Inputs]]:
    return lambda: (After(layer), (torch.randn(ROWS, WIDTH), *others))


def grouped(repeat: Layer) -> Callable[[], tuple[nn.Module, Inputs]]:
    return lambda: (Grouped(repeat), (torch.randn(2, 128, 32),))


def written(change: Callable[[torch.Tensor], Any]) -> Layer:
    def layer(h: torch.Tensor) -> torch.Tensor:
        h = h * 2
        change(h)
        return h

    return layer


FEW = torch.arange(0, ROWS, 16)
EACH = torch.arange(ROWS * WIDTH).reshape(ROWS, WIDTH) % ROWS
CASES: dict[str, Callable[[], tuple[nn.Module, Inputs]]] = {
    "topk of rows": after(lambda h: h.topk(16).values),
    "topk of columns": after(lambda h: h.topk(16, 0).values),
    "max": after(lambda h: h.max(0).values),
    "min": after(lambda h: h.min(1).values),
    "median": after(lambda h: h.median(0).values),
    "mode": after(lambda h: h.mode(0).values),
    "kthvalue": after(lambda h: h.kthvalue(3, 0).values),
    "sort": after(lambda h: h.sort(0).values),
    "cummax": after(lambda h: h.cummax(0).values),
    "nanmedian": after(lambda h: h.nanmedian(0).values),
    "index_select": after(lambda h, i: h.index_select(0, i), FEW),
    "index": after(lambda h, i: h[i], FEW),
    "index of columns": after(lambda h, i: h[:, i], FEW // 16),
    "take": after(lambda h, i: h.take(i), FEW),
    "take_along_dim": after(lambda h, i: h.take_along_dim(i, 0), EACH[:16]),
    "gather": after(lambda h, i: h.gather(0, i), EACH[:16]),
    "as_strided": after(lambda h: h.as_strided((100, 16), (64, 2))),
    "index_add": after(lambda h, i: torch.zeros(ROWS, WIDTH).index_add(0, i, h), EACH[:, 0]),
    "scatter_add": after(lambda h, i: torch.zeros(ROWS, WIDTH).scatter_add(0, i, h), EACH),
    "masked_fill": after(lambda h, m: h.masked_fill(m, 0.5), EACH > 99),
    "masked_fill_": after(written(lambda h: h.masked_fill_(EACH > 99, 0.5))),
    "clamp_": after(written(lambda h: h.clamp_(-1, 1))),
    "h[0] = number": after(written(lambda h: h[0].fill_(0.5))),
    "h[a:b] *= number": after(written(lambda h: h[3:100].mul_(2))),
    "cumprod": after(lambda h: h.cumprod(0)),
    "cumprod of columns": after(lambda h: h.cumprod(1)),
    "vander": after(lambda h: torch.linalg.vander(h[:, :16], N=4)),
    "where, zeros": after(lambda h: torch.where(h > 0.1, h * 2, torch.zeros_like(h))),
    "key heads, repeat_interleave": grouped(lambda k: k.repeat_interleave(8, 1)),
    "key heads, expand": grouped(lambda k: k[:, :, None].expand(-1, -1, 8, -1, -1).reshape(2, 16, 128, 16)),
    "key heads, repeat": grouped(lambda k: k.repeat(1, 8, 1, 1)),
    "key heads, index": grouped(lambda k: k[:, torch.arange(16) // 8]),
    "key heads, index_select": grouped(lambda k: k.index_select(1, torch.arange(16) // 8)),
    "key heads, cat": grouped(lambda k: torch.cat([k] * 8, 1)),
}
# Eager reads in the backward of cumprod that no value is zero, and then needs no mask of the zeros.
MASKS = {"cumprod": ROWS * WIDTH, "cumprod of columns": ROWS * WIDTH, "vander": ROWS * 16 * 3}


@pytest.mark.parametrize("name", CASES)
def test_all_that_eager_has_is_enough(name: str) -> None:
    torch._dynamo.reset()
    COSTS.known.clear()
    torch.manual_seed(0)
    model, inputs = CASES[name]()
    eager = eager_copy(model)
    eager(*inputs).backward()
    needed = static_bytes(model, inputs) + peak_of_step(eager, inputs) + MASKS.get(name, 0)
    compiled = memplan.compile(model, "100%", cache="off", time_limit=3)
    compiled(*inputs).backward()
    measured = static_bytes(model, inputs) + peak_of_step(compiled, inputs)
    assert measured <= needed + 1024, f"{measured} measured, eager {needed}"
    assert measured <= compiled.memplan.planned_bytes + 1024
    torch._dynamo.reset()
    model, inputs = CASES[name]()
    assert_like_eager(model, memplan.compile(model, "100%", time_limit=0), inputs)


# fmt: off
UNARY = [
    aten.abs.default, aten.acos.default, aten.asin.default, aten.atan.default, aten.ceil.default, aten.cos.default,
    aten.cosh.default, aten.digamma.default, aten.elu.default, aten.erf.default, aten.erfc.default, aten.exp.default,
    aten.exp2.default, aten.expm1.default, aten.floor.default, aten.frac.default, aten.gelu.default,
    aten.hardsigmoid.default, aten.hardswish.default, aten.hardtanh.default, aten.leaky_relu.default, aten.lgamma.default,
    aten.log.default, aten.log10.default, aten.log1p.default, aten.log2.default, aten.logit.default, aten.mish.default,
    aten.nan_to_num.default, aten.neg.default, aten.reciprocal.default, aten.relu.default, aten.round.default,
    aten.rsqrt.default, aten.sgn.default, aten.sigmoid.default, aten.sign.default, aten.silu.default, aten.sin.default,
    aten.sinc.default, aten.sinh.default, aten.sqrt.default, aten.tan.default, aten.tanh.default, aten.tril.default,
    aten.triu.default, aten.trunc.default, aten.zero.default,
]
# fmt: on
BINARY = [
    aten.add.Tensor,
    aten.copysign.Tensor,
    aten.div.Tensor,
    aten.fmod.Tensor,
    aten.mul.Tensor,
    aten.remainder.Tensor,
    aten.sub.Tensor,
    aten.xlogy.Tensor,
]
A, B = (torch.rand(33, 47, generator=torch.Generator().manual_seed(k)) for k in (1, 2))
AT, PAIRS = torch.arange(33).flip(0), torch.arange(33 * 47).reshape(33, 47) % 33
FORMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    **{operator.name(): (operator, (A,)) for operator in UNARY},
    **{operator.name(): (operator, (A, B)) for operator in BINARY},
    "atan2": (aten.atan2.default, (A, B)),
    "hypot": (aten.hypot.default, (A, B)),
    "copy": (aten.copy.default, (A, B)),
    "add a number": (aten.add.Scalar, (A, 0.3)),
    "sub a number": (aten.sub.Scalar, (A, 0.3)),
    "div by a number": (aten.div.Scalar, (A, 0.3)),
    "addcmul": (aten.addcmul.default, (A, B, B)),
    "addcdiv": (aten.addcdiv.default, (A, B, B)),
    "clamp": (aten.clamp.default, (A, 0.2, 0.7)),
    "lerp": (aten.lerp.Scalar, (A, B, 0.3)),
    "fill": (aten.fill.Scalar, (A, 0.3)),
    "cumsum": (aten.cumsum.default, (A, 0)),
    "cumprod": (aten.cumprod.default, (A, 1)),
    "addmm": (aten.addmm.default, (A, B, torch.ones(47, 47))),
    "renorm": (aten.renorm.default, (A, 2, 0, 0.5)),
    "masked_fill": (aten.masked_fill.Scalar, (A, PAIRS > 9, 0.3)),
    "masked_scatter": (aten.masked_scatter.default, (A, PAIRS > 9, B)),
    "index_add": (aten.index_add.default, (A, 0, AT, B)),
    "index_copy": (aten.index_copy.default, (A, 0, AT, B)),
    "index_fill": (aten.index_fill.int_Scalar, (A, 0, AT[:9], 0.3)),
    "index_put": (aten.index_put.default, (A, [AT[:9]], B[:9])),
    "index_put, added": (aten.index_put.default, (A, [AT % 3], B, True)),
    "put": (aten.put.default, (A, PAIRS, B)),
    "scatter": (aten.scatter.src, (A, 0, PAIRS, B)),
    "scatter a number": (aten.scatter.value, (A, 0, PAIRS, 0.3)),
    "scatter_add": (aten.scatter_add.default, (A, 0, PAIRS, B)),
    "scatter_reduce": (aten.scatter_reduce.two, (A, 0, PAIRS, B, "amax")),
    "slice_scatter": (aten.slice_scatter.default, (A, B[3:9], 0, 3, 9)),
    "select_scatter": (aten.select_scatter.default, (A, B[3], 0, 3)),
    "diagonal_scatter": (aten.diagonal_scatter.default, (A, B.diagonal())),
    "as_strided_scatter": (aten.as_strided_scatter.default, (A, B[:5, :7], (5, 7), (47, 2), 1)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", FORMS)
def test_the_form_that_writes_into_an_argument_has_the_same_bits(name: str, dtype: torch.dtype) -> None:
    target, given = FORMS[name]
    args = [a.to(dtype) if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in given]
    form = in_place_form(target)
    expected, whole = target(*args), args[0].clone()
    assert form is not None
    assert form(whole, *args[1:]).data_ptr() == whole.data_ptr()
    assert torch.equal(whole.nan_to_num(), expected.nan_to_num())


@pytest.mark.parametrize(
    "target", [aten.mul.Scalar, aten.bernoulli.default, aten.rand_like.default, aten.mm.default, aten.view.default, aten.set]
)
def test_others_have_none(target: Any) -> None:
    """Other bits in bfloat16; draws; no form at all."""
    assert in_place_form(target) is None


@pytest.mark.parametrize("layer", [lambda h: h.quantile(0.3, 0), lambda h: torch.nanquantile(h, 0.3)])
def test_a_notice_tells_of_the_sort_for_quantiles_that_eager_spares(layer: Layer) -> None:
    model, x = After(layer), torch.randn(ROWS, WIDTH)
    eager = eager_copy(model)
    eager(x).backward()
    needed = static_bytes(model, (x,)) + peak_of_step(eager, (x,))
    compiled = memplan.compile(model, "100%", cache="off", time_limit=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled(x).backward()
    more = static_bytes(model, (x,)) + peak_of_step(compiled, (x,)) - needed
    told = [w for w in caught if "quantile" in str(w.message)]
    assert len(told) == (more > x.numel() * 4 // 100) and more <= 3 * ROWS * WIDTH * 4
