"""Estimates of a whole step: memory requests equal eager PyTorch's, variables of the loop count, refusals are clear."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import memplan
from memplan.costs.measure import peak_of
from memplan.memory.allocator import Settings
from memplan.step.eager_step import Requests, recorded_step, runs_backward
from memplan.torch_internals.autocast_on_meta import casting

MIB = 1 << 20


def mlp(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width))


class Residual(nn.Module):
    """Blocks whose input has two readers, so that backward adds two gradients."""

    def __init__(self, width: int = 256, depth: int = 4) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.layers = nn.ModuleList(mlp(width) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return x


def live_peak(requests: Requests) -> int:
    live = top = 0
    sizes: dict[int, int] = {}
    for number, n_bytes in requests.events:
        sizes[number] = n_bytes or sizes.get(number, 0)
        live += n_bytes if n_bytes else -sizes[number]
        top = max(top, live)
    return top


def step_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> Any:
    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def whole_loop(device: str, kind: str, options: dict[str, Any]) -> None:
    with torch.device(device):
        model = Residual()
        step = step_of(model, getattr(torch.optim, kind)(model.parameters(), **options))
        for _ in range(3):
            x = torch.empty(512, 256)
            step(x)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("SGD", {"foreach": False}),
        ("SGD", {"momentum": 0.9, "foreach": True}),
        ("AdamW", {"foreach": False}),
        ("AdamW", {"foreach": True}),
        ("SGD", {"momentum": 0.9, "fused": True}),
        ("Adam", {"amsgrad": True, "fused": True}),
        ("AdamW", {"fused": True}),
        ("Adagrad", {"fused": True}),
    ],
)
def test_requests_have_the_peak_of_eager_pytorch(kind: str, options: dict[str, Any]) -> None:
    requests = recorded_step(lambda: whole_loop("meta", kind, options), (), {}, True, calls=1)
    measured = peak_of(lambda: whole_loop("cpu", kind, options))
    assert live_peak(requests) == pytest.approx(measured, rel=1e-3)


def test_foreach_is_the_optimizers_choice_on_a_gpu() -> None:
    peaks = {}
    for foreach in (None, True, False):
        model = Residual().to("meta")
        step = step_of(model, torch.optim.AdamW(model.parameters(), foreach=foreach))
        peaks[foreach] = live_peak(recorded_step(step, (torch.empty(4, 256),), {}, True))
    parameters = sum(p.numel() * 4 for p in model.parameters())
    assert peaks[None] == peaks[True] > peaks[False] + parameters // 2  # temporaries of all parameters at once


def test_results_and_batches_of_the_step_before_count() -> None:
    head = nn.Linear(8, 100_000, bias=False, device="meta")
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        out = head(x)
        out.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        return out

    def without(x: torch.Tensor) -> None:
        step(x)

    x = torch.empty(50, 8)
    kept, dropped = (live_peak(recorded_step(s, (x,), {}, True)) for s in (step, without))
    assert kept - dropped == 50 * 100_000 * 4


def test_a_dropout_keeps_a_byte_per_element() -> None:
    layer = nn.Linear(4, 4, device="meta")

    def step(x: torch.Tensor) -> None:
        F.dropout(layer(x), 0.5).sum().backward()

    requests = recorded_step(step, (torch.empty(1000, 4),), {}, True)
    assert 4000 in {n_bytes for _, n_bytes in requests.events}
    assert any("native_dropout" in name for name in requests.operators)


def test_estimate_returns_the_needs_of_a_process() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 32 * 32, 10))
    optimizer = torch.optim.AdamW(model.parameters())
    losses: list[float] = []

    def train_step(x: torch.Tensor, y: torch.Tensor) -> None:
        x, y = x.to("cuda"), y.cuda(non_blocking=True)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    inputs = (torch.empty(256, 3, 32, 32), torch.empty(256, dtype=torch.long))
    report = memplan.estimate(train_step, inputs, device="rtx3090")
    needs = report.needs
    assert needs is not None and needs.family == "convolution" and needs.n_jobs > 0
    activations = 256 * 64 * 32 * 32 * 4
    assert needs.tensors_bytes > 2 * activations
    assert needs.tensors_bytes <= needs.reserved_bytes < needs.process_bytes < needs.likely_bytes
    assert needs.process_bytes - needs.reserved_bytes > 200 * MIB  # the CUDA context
    text = str(report)
    assert "tensors" in text and "process" in text and "19 of 20 such jobs" in text and "loss.item()" in text
    assert losses == [0.0, 0.0, 0.0]


def test_a_region_for_the_device_of_the_tensors_is_one_of_the_gpu() -> None:
    layer = nn.Linear(4, 4, device="meta")

    def step(x: torch.Tensor) -> None:
        with torch.autocast(x.device.type, enabled=False):  # rotary embeddings of transformers
            layer(x).sum().backward()

    assert recorded_step(step, (torch.empty(2, 4),), {}, True).events


def test_inference_mode_runs_the_parts_of_composite_operators() -> None:
    """The requests of an evaluation in inference mode equal those without gradients, and `item` returns 0."""

    def requests_in(region: Any) -> Requests:
        layer = nn.Linear(64, 64, device="meta")

        def step(x: torch.Tensor) -> None:
            with region():
                assert layer(x.view(2, 4, 64)).sum().item() == 0
            layer(x).sum().backward()

        return recorded_step(step, (torch.empty(8, 64),), {}, True, 1)

    first, second = requests_in(torch.inference_mode), requests_in(torch.no_grad)
    assert first.events == second.events and first.reads_values
    assert first.events.index((0, 0)) < 6  # the workspace of the evaluation's product


def test_a_full_card_frees_cached_blocks_or_the_step_does_not_fit() -> None:
    layer = nn.Linear(1024, 1024, bias=False, device="meta")

    def step(x: torch.Tensor) -> None:
        for n in (40, 60):  # tensors of 40 and of 60 MiB, one after the other
            torch.empty(n * MIB, dtype=torch.uint8, device="meta")
        layer(x).sum().backward()

    found = [
        memplan.estimate(step, (torch.empty(8, 1024),), device="a100", memory=m, calls=1) for m in ("80GiB", "470MiB", "370MiB")
    ]
    needs = [report.needs for report in found]
    assert all(n is not None for n in needs)
    reserved = [n.reserved_bytes for n in needs if n is not None]
    assert reserved[0] > reserved[1] > 60 * MIB and reserved[2] == reserved[0]
    assert [n.fits for n in needs if n is not None] == [True, True, False]
    assert ["does not fit" in str(report) for report in found] == [False, False, True]


def test_refusals_name_the_remedy() -> None:
    here, away = nn.Linear(4, 4), nn.Linear(4, 4, device="meta")

    def step_here(x: torch.Tensor) -> None:
        here(x).sum().backward()

    def step_away(x: torch.Tensor) -> None:
        away(x).sum().backward()

    def fails(x: torch.Tensor) -> None:
        away(x, x).sum().backward()

    x = torch.empty(2, 4)
    for step, options, message in (
        (step_here, {"device": "a100"}, "meta device"),
        (step_away, {}, "name the card"),
        (step_away, {"device": "mi300x"}, "no known GPU"),
        (step_away, {"device": "a100", "budget_": 1}, "budget_= has no meaning"),
        (fails, {"device": "a100"}, "TypeError"),
    ):
        with pytest.raises(memplan.MemplanError, match=message):
            memplan.estimate(step, (x,), **options)


def test_a_step_is_a_function_that_calls_backward() -> None:
    model = nn.Linear(2, 2)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return model(x).sum()

    def inner(x: torch.Tensor) -> None:
        loss(x).backward()

    def outer(x: torch.Tensor) -> None:
        inner(x)

    assert [runs_backward(f) for f in (model, loss, inner, outer)] == [False, False, True, True]


def test_each_thread_allocates_a_workspace_of_cublas() -> None:
    """Forward and backward have a thread each: peaks of Liger's benchmark for SwiGLU contain two times 8.125 MiB."""
    layer = nn.Linear(64, 64, device="meta")

    def step(x: torch.Tensor) -> None:
        layer(x).sum().backward()

    requests = recorded_step(step, (torch.empty(8, 64),), {}, True)
    assert [e for e in requests.events if e == (0, 0)] == [(0, 0)] * 2
    sizes = [requests.allocator(Settings(), n).peak_allocated_bytes for n in (8 * MIB, 32 * MIB)]
    assert sizes[1] - sizes[0] == 2 * 24 * MIB


class Watch(TorchDispatchMode):
    """Records operators with the types of their tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not any(name in str(func) for name in ("empty", "prim", "detach", "batch_norm", "add_.")):
            results = result if isinstance(result, (tuple, list)) else [result]
            self.seen.append((str(func), *([t.dtype for t in ts if isinstance(t, torch.Tensor)] for ts in (args, results))))
        return result


def in_a_region(device: str, dtype: torch.dtype, layers: nn.Sequential) -> None:
    with torch.autocast("cuda", dtype):
        h = layers(torch.empty(2, 3, 8, 8, device=device))
        h = h.sum(1, keepdim=True) + h.exp() + layers[6](torch.empty(3, 8, device=device)).mean()
        F.cross_entropy(h.to(dtype), torch.empty(2, dtype=torch.long, device=device))
        F.mse_loss(h, h)
        torch.addcmul(h, h, h.to(dtype))
    with torch.autocast("cuda", enabled=False):
        layers[6](torch.empty(3, 8, device=device))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_casts_as_pytorch_does_on_a_gpu(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's own autocast runs on fake tensors of a GPU."""
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *_, **__: True)
    ours, pytorchs = Watch(), Watch()

    def layers(device: str) -> nn.Sequential:
        with torch.device(device):
            first = (nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
            return nn.Sequential(*first, nn.LayerNorm(8), nn.Linear(8, 10), nn.Softmax(1))

    for _ in range(2):
        away = layers("meta")
        with casting(), ours:
            in_a_region("meta", dtype, away)
        with FakeTensorMode(allow_non_fake_inputs=True):
            fake = layers("cuda")
            with pytorchs:
                in_a_region("cuda", dtype, fake)
    assert ours.seen == pytorchs.seen and len(ours.seen) > 60


def test_a_checkpoint_recomputes_under_the_autocast_of_forward() -> None:
    model, devices = nn.Linear(512, 512, device="meta"), []

    def step(x: torch.Tensor) -> None:
        with torch.autocast("cuda", torch.bfloat16):
            devices.append((torch.is_autocast_enabled(x.device.type), torch.get_autocast_dtype(x.device.type)))
            loss = torch.utils.checkpoint.checkpoint(lambda x: model(x).exp(), x, use_reentrant=False).sum()
        loss.backward()

    requests = recorded_step(step, (torch.empty(4096, 512),), {}, True, calls=1)
    halves = [n_bytes for _, n_bytes in requests.events if n_bytes == 4096 * 512 * 2]
    assert len(halves) == 2 * 2 + 1  # x and the product in forward and again, and a gradient
    assert devices == [(True, torch.bfloat16)]


def test_a_step_under_autocast_saves_half_precision() -> None:
    model = nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 512)).to("meta")

    def step(x: torch.Tensor) -> None:
        with torch.autocast("cuda", torch.float16):
            h = model(x)
            loss = F.scaled_dot_product_attention(h.view(8, 4, 512, 128), h.view(8, 4, 512, 128), x.view(8, 4, 512, 128)).sum()
        loss.backward()

    requests = recorded_step(step, (torch.empty(4096, 512),), {}, True)
    assert requests.has_halves and any("flash_attention" in name for name in requests.operators)
    saved = [n_bytes for _, n_bytes in requests.events if n_bytes == 4096 * 512 * 2]
    assert len(saved) > 6 * 3  # x and two results in half precision, and gradients, per call


def test_a_step_reads_the_properties_of_the_named_card() -> None:
    """Liger's RMSNorm on an H100 has 132 rows of partial gradients, one per multiprocessor (NVIDIA's whitepaper)."""
    layer = nn.Linear(64, 64, bias=False, device="meta")
    seen: list[Any] = []

    def step(x: torch.Tensor) -> None:
        torch.cuda.synchronize()
        known = torch.cuda.get_device_properties(x.device)
        seen.append((known.multi_processor_count, torch.cuda.get_device_capability(), torch.cuda.max_memory_allocated()))
        partial = torch.empty(known.multi_processor_count, 1 << 20, dtype=torch.uint8, device="meta")
        layer(x).sum().backward()
        assert partial.numel()

    needs = [memplan.estimate(step, (torch.empty(8, 64),), device=name, calls=1).needs for name in ("h100", "rtx3090")]
    assert seen == [(132, (9, 0), 0), (82, (8, 6), 0)]
    bytes_of = [n.tensors_bytes for n in needs if n is not None]
    workspaces = 2 * (32768 - 8320) * 1024  # of cuBLAS, which are larger on an H100, too
    assert bytes_of[0] - bytes_of[1] == pytest.approx((132 - 82) * MIB + workspaces, abs=MIB / 16)
    assert not torch.cuda.is_available() or torch.cuda.get_device_properties(0).name != "h100"


def test_launches_of_triton_kernels_compute_nothing_on_meta() -> None:
    triton = pytest.importorskip("triton")
    layer = nn.Linear(64, 64, bias=False, device="meta")
    seen: list[Any] = []

    @triton.jit
    def kernel(pointer: Any, n: Any) -> None:
        pass

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            y = torch.empty_like(x)
            kernel[(x.shape[0],)](y, x.shape[0])
            seen.append(triton.runtime.driver.active.utils.get_device_properties(0)["multiprocessor_count"])
            return y

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> Any:
            kernel[lambda meta: (1,)](grads[0], 1)
            return grads[0]

    def step(x: torch.Tensor) -> None:
        Own.apply(layer(x)).sum().backward()

    needs = memplan.estimate(step, (torch.empty(1 << 16, 64),), device="a100", calls=1).needs
    assert seen == [108]
    x = (1 << 16) * 64 * 4
    workspace = 8320 * 1024  # of forward; backward begins with fewer tensors
    assert needs is not None and 0 <= needs.tensors_bytes - 3 * x - workspace < MIB  # x, layer's result and own result
