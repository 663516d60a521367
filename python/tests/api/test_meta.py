"""The meta device: nothing runs, and costs are those of a named device."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import memplan
from memplan.costs.kernels import Kernel, kernels_of
from memplan.costs.roofline import flops_of

WIDTH, HEADS, LENGTH = 64, 4, 50


class Attention(nn.Module):
    def __init__(self, has_mask: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.projections = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(3))
        self.has_mask, self.dropout = has_mask, dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, length, _ = x.shape
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril() if self.has_mask else None
        for projection in self.projections:
            q, k, v = (t.view(n, length, HEADS, -1).transpose(1, 2) for t in projection(x).chunk(3, -1))
            made = scaled_dot_product_attention(q, k, v, mask, self.dropout, is_causal=mask is None)
            x = x + made.transpose(1, 2).reshape(x.shape)
        return x.square().mean()


def given(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(2, LENGTH, WIDTH, dtype=dtype)


def away(model: nn.Module, *inputs: torch.Tensor, **options: Any) -> Any:
    return memplan.estimate(copy.deepcopy(model).to("meta"), tuple(x.to("meta") for x in inputs), **options)


def called(report: Any) -> set[str]:
    return {o.op.removeprefix("aten.").partition(".")[0] for o in report.graph.capture.operations}


def storages(report: Any) -> list[tuple[str, int]]:
    return [(s.kind, s.n_bytes) for s in report.graph.capture.storages]


OLD_MASKS = pytest.mark.skipif(torch.__version__ < "2.5", reason="PyTorch 2.4 makes attention's mask by other operators")


@pytest.mark.filterwarnings("ignore:memplan. nothing runs on the meta device")
@pytest.mark.parametrize("has_mask", [False, pytest.param(True, marks=OLD_MASKS)])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_memory_in_tensors_is_the_hosts(has_mask: bool, device: str | None) -> None:
    model, x = Attention(has_mask), given()
    host = memplan.estimate(copy.deepcopy(model), (x,))
    report = away(model, x, device=device)
    assert called(report) == called(host) and any("flash_attention_for_cpu" in name for name in called(host))
    assert storages(report) == storages(host)


class Classes(nn.Module):
    """Operators that eager makes of others, with the gradients of those."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, 7)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        scores = self.layer(x / x.std())
        return nn.functional.cross_entropy(scores, y) + scores.var(0).sum()


def test_what_eager_makes_of_other_operators_has_gradients() -> None:
    inputs = torch.randn(5, WIDTH), torch.zeros(5, dtype=torch.int64)
    host = memplan.estimate(Classes(), inputs)
    report = away(Classes(), *inputs, device="cpu")
    assert called(report) == called(host) and "nll_loss_backward" in called(host)
    assert storages(report) == storages(host)


@pytest.mark.parametrize(
    "dtype, has_mask, dropout, expected",
    [
        (torch.bfloat16, False, 0.0, "flash"),
        (torch.bfloat16, False, 0.1, "flash"),
        (torch.bfloat16, True, 0.0, "efficient"),
        (torch.float32, False, 0.0, "efficient"),
        (torch.float32, True, 0.1, "efficient"),
    ],
)
def test_attention_is_that_of_a_gpu(dtype: torch.dtype, has_mask: bool, dropout: float, expected: str) -> None:
    """As sdp_utils of PyTorch choose; what is saved is linear in the length."""
    report = away(Attention(has_mask, dropout).to(dtype), given(dtype), device="h100", budget="min+20%")
    forward = f"_scaled_dot_product_{expected}_attention"
    assert {name for name in called(report) if "attention" in name} == {forward, forward + "_backward"}
    scores = 2 * HEADS * LENGTH * LENGTH * dtype.itemsize
    made = [s.n_bytes for s in report.graph.capture.storages if s.kind in ("activation", "saved")]
    assert max(made) < scores


def test_seconds_are_of_the_roofline() -> None:
    """An H100 multiplies 989.5e12 bf16 numbers a second, adding included, and moves 3.35e12 bytes; a kernel takes 5 us."""
    m = n = k = 4096
    report = away(
        nn.Sequential(nn.Linear(k, n, bias=False)).to(torch.bfloat16),
        torch.empty(m, k, dtype=torch.bfloat16),
        device="h100",
        budget="100%",
        rates="peak",
    )
    products = [o for o in report.graph.capture.operations if ".mm" in o.op]
    assert len(products) == 2  # forward, and the weight's gradient
    for product in products:
        assert report.graph.costs[product.source].seconds == pytest.approx(5e-6 + 2 * m * n * k / 989.5e12)
    small = away(nn.Sequential(nn.Tanh(), nn.Linear(1, 1)), torch.empty(1 << 20, 1), device="h100", budget="100%", rates="peak")
    # an H100 has 132 multiprocessors: 24 + 2.83 * 132 + 30 MiB of context and kernels
    assert small.process_bytes - small.reserved_bytes == 427 << 20 and "the process needs" in str(small)
    tanh = next(o for o in small.graph.capture.operations if o.op == "aten.tanh.default")
    assert small.graph.costs[tanh.source].seconds == pytest.approx(5e-6 + (8 << 20) / 3.35e12)
    assert small.seconds == pytest.approx(sum(c.seconds for c in small.graph.costs.values()), abs=1e-6)


def test_without_a_device_there_are_no_seconds() -> None:
    model, x = Attention(), given()
    with pytest.warns(memplan.FallbackWarning, match="no device is named"):
        report = away(model, x, budget="min+20%")
    assert all(map(math.isnan, (report.overhead, report.proved_overhead, report.seconds)))
    assert report.recomputed and all(math.isnan(r.seconds) for r in report.recomputed)
    assert "extra time not known; " in str(report)
    assert report.planned_bytes < report.keep_all_bytes


@pytest.mark.filterwarnings("ignore:memplan. nothing runs on the meta device")
def test_a_batch_that_fits_needs_seconds() -> None:
    with torch.device("meta"):
        model = Attention()

        def inputs(n: int) -> tuple[torch.Tensor]:
            return (torch.empty(n, LENGTH, WIDTH),)

        with pytest.raises(memplan.MemplanError, match="extra time is unknown on the meta device"):
            memplan.fit(model, inputs, "1MiB")
        batch, report = memplan.fit(model, inputs, "2MiB", device="a100")
    assert batch > 1 and report is not None and report.planned_bytes <= 2 << 20


def test_auto_is_what_a_step_may_have_of_the_device() -> None:
    report = away(Attention(), given(), device="H100", budget="auto")
    # 81,000 MiB are visible, and the context takes 427; 19 of 20 jobs need at most 5.5 % more than the estimate
    assert report.budget_bytes == (81000 - 427) * 2**20 // 1055 * 1000


def test_a_device_is_named_in_full_and_for_the_meta_device_alone() -> None:
    with pytest.raises(memplan.MemplanError, match="'h1000' is an unknown device; choose one of cpu, v100, a10,"):
        away(Attention(), given(), device="h1000")
    with pytest.raises(memplan.MemplanError, match="device='h100' needs a model on the meta device"):
        memplan.estimate(Attention(), (given(),), device="h100")


class Convolutions(nn.Module):
    """A grouped convolution with a stride and a bias, a normalization, and a depthwise convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.grouped = nn.Conv2d(64, 128, 3, stride=2, padding=1, groups=2)
        self.norm = nn.BatchNorm2d(128)
        self.depthwise = nn.Conv2d(128, 128, 3, padding=1, groups=128, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.depthwise(self.norm(self.grouped(x))).square().mean()


@pytest.mark.parametrize("is_last", [False, True])
def test_kernels_have_the_sizes_of_their_operators(is_last: bool) -> None:
    """8 images of 32 x 32: the first convolution has 8192 positions in its input and 2048 in its output."""
    layout = torch.channels_last if is_last else torch.contiguous_format
    model, x = Convolutions().to(memory_format=layout), torch.randn(8, 64, 32, 32).to(memory_format=layout).requires_grad_()
    report = away(model, x, device="rtx3090", budget="100%")
    found = {k for node in report.graph.costs for k in kernels_of(node, flops_of)}
    first = (2, 32, 64, 9, 8192, 2048, float(is_last))
    depthwise = (128, 1, 1, 9, 2048, 2048, float(is_last))
    moved, moved_deep = 4 * (8192 * 64 + 64 * 32 * 9 * 2 + 2048 * 128), 4 * (2 * 2048 * 128 + 128 * 9)
    for part in ("forward", "data", "weight"):
        assert Kernel(f"convolution {part}", "float32", moved, first) in found
        assert Kernel(f"convolution {part}", "float32", moved_deep, depthwise) in found
    assert Kernel("reduction", "float32", 4 * 2048 * 128) in found  # the gradient of the bias
    names = {k.name for k in found}
    last = ", channels last" if is_last else ""
    assert {f"batch normalization{last}, forward", f"batch normalization{last}, backward"} <= names
    assert report.seconds == pytest.approx(sum(c.seconds for c in report.graph.costs.values()), abs=1e-6)
    assert "achieved rates of rtx3090" in str(report) and "mostly convolutions" in " ".join(report.graph.notes)


def test_achieved_rates_are_below_the_peaks_of_a_large_step() -> None:
    """A step that is bound by products and bandwidth takes longer than at peak rates, but not five times as long."""
    model, x = nn.Sequential(nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 1)).to(torch.bfloat16), torch.empty(8192, 4096)
    peak, achieved = (
        away(model, x.to(torch.bfloat16), device="a100", budget="100%", rates=rates).seconds for rates in ("peak", "achieved")
    )
    assert peak < achieved < 5 * peak
    with pytest.raises(memplan.MemplanError, match="rates is 'best', but it must be one of achieved, peak"):
        away(model, x, device="a100", rates="best")
