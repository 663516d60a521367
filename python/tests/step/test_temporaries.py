"""Memory that PyTorch's kernels for GPUs allocate beside their results: published peaks of single modules, exact."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import memplan
from memplan.memory.allocator import Settings
from memplan.step.eager_step import recorded_step
from memplan.step.reductions import partial_results
from memplan.step.stated_card import stated_card

MIB = 1 << 20


@pytest.mark.parametrize("width, published_mib", [(128, 0.0029296875), (4096, 0.09375)])
def test_backward_of_softmax_allocates_the_product_of_gradient_and_result(width: int, published_mib: float) -> None:
    """Peaks of Liger's benchmark for PyTorch's softmax: six tensors of the input's size."""
    x = torch.empty(width, device="meta", requires_grad=True)

    def step() -> None:
        y = x.softmax(-1)
        y.backward(torch.ones_like(y), retain_graph=True)

    report = memplan.estimate(step, (), device="rtx4090")
    assert report.needs is not None and report.needs.tensors_bytes == published_mib * MIB


@pytest.mark.parametrize(
    "given, wanted, bytes_per_element",
    [
        (torch.bool, None, 1 + 8),  # cast to int64: Liger's cross entropy counts tokens of 16384 and needs 131072 bytes
        (torch.float32, None, 4),
        (torch.bfloat16, torch.float32, 2),  # the kernel reads half precision and adds in fp32
        (torch.float32, torch.float64, 4 + 8),
    ],
)
def test_a_sum_casts_its_operand(given: torch.dtype, wanted: torch.dtype | None, bytes_per_element: int) -> None:
    layer = nn.Linear(2, 2, bias=False, device="meta")

    def step(x: torch.Tensor) -> None:
        x.sum(dtype=wanted)
        layer(torch.empty(2, device="meta")).sum().backward()

    requests = recorded_step(step, (torch.empty(16384, dtype=given),), {}, True, 1)
    assert 0 <= requests.allocator(Settings(), 0).peak_allocated_bytes - 16384 * bytes_per_element < 4096


@pytest.mark.parametrize("channels, published_mib", [(32, 40.06640625), (1024, 1282.03125)])
def test_backward_of_group_norm_allocates_sums(channels: int, published_mib: float) -> None:
    """Peaks of Liger's benchmark for PyTorch's group normalization on a B200."""
    layer, other = (nn.GroupNorm(channels // 4, channels, device="meta") for _ in range(2))  # the script has Liger's layer, too
    x = torch.empty(128, channels, 512, device="meta", requires_grad=True)
    dy = torch.empty_like(x, requires_grad=False)

    def step() -> None:
        assert other.weight is not None
        layer(x).backward(dy, retain_graph=True)

    report = memplan.estimate(step, (), device="b200")
    assert report.needs is not None and report.needs.tensors_bytes == published_mib * MIB


@pytest.mark.skipif(not hasattr(torch.ops.aten, "_fused_rms_norm"), reason="PyTorch computes it in parts")
@pytest.mark.parametrize("width, published_mib", [(1024, 40.0224609375), (16384, 640.1103515625)])
def test_rms_norm_is_one_kernel_on_a_gpu(width: int, published_mib: float) -> None:
    """Peaks of Liger's benchmark of Megatron's RMSNorm on an H100. The gradient of the sum is made contiguous."""
    layer = nn.RMSNorm(width, dtype=torch.bfloat16, device="meta")
    x = torch.empty(4096, 1, width, dtype=torch.bfloat16, device="meta", requires_grad=True)

    def step() -> None:
        y = layer(x)
        y.sum().backward()

    report = memplan.estimate(step, (), device="h100")
    assert report.needs is not None and report.needs.tensors_bytes == published_mib * MIB


@pytest.mark.parametrize("width, published_mib", [(1024, 104.03173828125), (8192, 832.19580078125), (16384, 1664.3125)])
def test_a_sum_over_rows_stores_partial_results(width: int, published_mib: float) -> None:
    """Peaks of Liger's benchmark for a sum with RMS normalization on an H100.

    The gradient of the weight is a sum over 2048 rows. If it has few columns, 32 blocks add parts of each column.
    """
    weights = nn.ParameterList([torch.ones(width, device="meta") for _ in range(4)])  # the script has Liger's layers, too
    x, residual, dy, ds = (torch.empty(2048, width, device="meta") for _ in range(4))
    x.requires_grad_(True)
    residual.requires_grad_(True)

    def forward() -> tuple[torch.Tensor, torch.Tensor]:
        both = x + residual
        normalized = both * torch.rsqrt(both.pow(2).mean(-1, keepdim=True) + 1e-6)
        return weights[0] * normalized, both

    def step() -> None:
        torch.autograd.backward(forward(), (dy, ds))

    report = memplan.estimate(step, (), device="h100")
    assert report.needs is not None and report.needs.tensors_bytes == published_mib * MIB


@pytest.mark.parametrize("n, partial", [(1 << 16, 0), (1 << 17, 4 * 16), (1 << 28, 4 * 2048), (1 << 30, 4 * 4096)])
def test_a_sum_over_all_elements_stores_a_number_per_block(n: int, partial: int) -> None:
    """Each of 512 threads of a block adds 16 to 256 elements. An operand above 2 GiB is summed in two halves."""
    card = stated_card("h100")
    assert card is not None
    found = partial_results(torch.empty(n, device="meta"), [0], 4, 4, card)
    assert found == ([partial, 4] if partial else [])


class Gated(torch.autograd.Function):
    """The gate of Liger's benchmark for SwiGLU: it saves its operands, and its backward overwrites them with gradients."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(a.flatten(0, -2), b.flatten(0, -2))
        return torch.empty_like(a)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        a, b = ctx.saved_tensors
        return a.view(grads[0].shape), b.view(grads[0].shape)


@pytest.mark.parametrize("tokens, published_mib", [(4096, 4474.25), (8192, 8330.25)])
def test_a_gradient_that_is_a_view_is_not_added_in_place(tokens: int, published_mib: float) -> None:
    """A view refers to its base, so that PyTorch's engine does not hold the only reference. Peaks: Liger's GEGLU on an A100."""
    with torch.device("meta"):
        gate, up = (nn.Linear(4096, 11008, bias=False, dtype=torch.bfloat16) for _ in range(2))
        down = nn.Linear(11008, 4096, bias=False, dtype=torch.bfloat16)
        x = torch.empty(8, tokens, 4096, dtype=torch.bfloat16, requires_grad=True)

    def step() -> None:
        y = down(Gated.apply(gate(x), up(x)))
        y.backward(torch.randn_like(y), retain_graph=True)

    report = memplan.estimate(step, (), device="a100")
    assert report.needs is not None and report.needs.tensors_bytes == published_mib * MIB


def sparse(x: torch.Tensor) -> torch.Tensor:
    """Project rows onto the simplex (Martins and Astudillo 2016), with the variables of the published script."""
    values, _order = torch.sort(x, dim=-1, descending=True)
    sums = torch.cumsum(values, dim=-1)
    ranks = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
    bounds = 1 + ranks * values
    support = bounds > sums
    n = support.sum(dim=-1, keepdim=True).clamp(min=1)
    total = (values * support).sum(dim=-1, keepdim=True)
    threshold = (total - 1) / n
    return torch.clamp(x - threshold, min=0)


@pytest.mark.parametrize("width, published_mib", [(2048, 164.0390625), (4096, 328.046875), (8192, 704.00048828125)])
def test_sorts_allocate_copies_and_gradients_are_scattered_in_place(width: int, published_mib: float) -> None:
    """Peaks of Liger's benchmark for PyTorch's sparsemax on an RTX 3090. Long rows are sorted beside the results.

    The gradient of a sort is scattered into zeros. A mode makes PyTorch use `scatter`, but the step uses `scatter_`.
    """
    x = torch.empty(2048, width, device="meta", requires_grad=True)
    dy = torch.empty(2048, width, device="meta")

    def step() -> None:
        sparse(x).backward(dy, retain_graph=True)

    report = memplan.estimate(step, (), device="rtx3090")
    assert report.needs is not None and report.needs.tensors_bytes == published_mib * MIB


@pytest.mark.parametrize("words, published_mib", [(1024, 12356.537109375), (4096, 12401.40625), (16384, 12581.6875)])
def test_the_gradient_of_an_embedding_sorts_the_indices(words: int, published_mib: float) -> None:
    """Peaks of Liger's benchmark for PyTorch's embedding on an A100.

    The measured process held three times the weights of 2**10 to 2**17 words of width 4096, of runs of torch.compile. The rows
    of Liger's own embedding, which has no temporaries, show this, too.
    """
    held = 3 * (2**18 - 2**10) * 4096 * 4
    table, other = (nn.Embedding(words, 768, device="meta") for _ in range(2))  # the script has Liger's table, too
    indices = torch.empty(16384, dtype=torch.long, device="meta")

    def step() -> None:
        y = table(indices)
        assert other.weight is not None
        y.backward(torch.randn_like(y))

    report = memplan.estimate(step, (), device="a100")
    assert report.needs is not None and report.needs.tensors_bytes + held == published_mib * MIB


def test_few_indices_are_not_sorted() -> None:
    table = nn.Embedding(50000, 768, device="meta")
    peaks = {}

    def step(i: torch.Tensor) -> None:
        table(i).exp().backward(torch.empty(len(i), 768, device="meta"))

    for n in (3072, 3073):
        table.weight.grad = None
        requests = recorded_step(step, (torch.empty(n, dtype=torch.long),), {}, True, 1)
        peaks[n] = requests.allocator(Settings(), 0).peak_allocated_bytes
    assert peaks[3073] - peaks[3072] > 3073 * 768 * 4
