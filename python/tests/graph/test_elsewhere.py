"""A device that is not here: types under autocast, operators and branches of a model on the meta device are those of the GPU
that is named. Beside eager PyTorch on tensors without memory, which are said to be on a GPU."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any
from unittest import mock

import networks
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses import FakeTensorMode

import memplan
from memplan.__main__ import main
from memplan.graph.capture import storage_bytes, storage_key
from memplan.torch_internals import engine

WIDTH, ROWS, LAYERS = 512, 4096, 6


class Calls(nn.Module):
    """A function of modules and an input."""

    def __init__(self, call: Callable[..., torch.Tensor], *modules: nn.Module) -> None:
        super().__init__()
        self.call, self.inner = call, nn.ModuleList(modules)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.call(x, *self.inner)


def layers() -> nn.Module:
    return nn.Sequential(*[m for _ in range(LAYERS) for m in (nn.Linear(WIDTH, WIDTH), nn.GELU())])


def mixed(x: torch.Tensor, linear: nn.Module) -> torch.Tensor:
    """Sums of both types."""
    return torch.cat([linear(x), x]) + torch.stack([linear(x), x]).sum(0).repeat(2, 1)


def apart(x: torch.Tensor, linear: nn.Module) -> torch.Tensor:
    """A region that is switched off inside."""
    h = linear(x)
    with torch.autocast(x.device.type, enabled=False):
        return linear(h.float()).tanh()


def on_gpu_only(x: torch.Tensor, linear: nn.Module) -> torch.Tensor:
    """Another way on a GPU, with tensors that are made there."""
    if x.is_cuda:
        return linear(x).sigmoid() * torch.arange(x.shape[1], device="cuda")
    return linear(x).exp().exp().exp()


def twice(x: torch.Tensor, linear: nn.Module) -> torch.Tensor:
    """A parameter that is cast once."""
    return linear(linear(x).relu())


def scores(x: torch.Tensor, linear: nn.Module) -> torch.Tensor:
    h = linear(x)
    return F.cross_entropy(h, torch.zeros(len(h), dtype=torch.int64, device=x.device)) + h.softmax(-1).pow(2).sum()


FORMS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "layers": (layers, (64, WIDTH)),
    "mixed": (lambda: Calls(mixed, nn.Linear(16, 16)), (8, 16)),
    "apart": (lambda: Calls(apart, nn.Linear(16, 16)), (8, 16)),
    "on a GPU only": (lambda: Calls(on_gpu_only, nn.Linear(16, 16)), (8, 16)),
    "twice": (lambda: Calls(twice, nn.Linear(16, 16)), (8, 16)),
    "scores": (lambda: Calls(scores, nn.Linear(16, 16)), (8, 16)),
    "norms": (lambda: nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 8), nn.Softmax(-1)), (8, 16)),
    "convolutions": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.GroupNorm(2, 8), nn.Conv2d(8, 4, 1)),
        (2, 3, 8, 8),
    ),
    "products": (lambda: Calls(lambda x, a: torch.bmm(a(x)[None], x.t()[None]).exp().cumsum(-1), nn.Linear(16, 16)), (8, 16)),
}


def saved_on_gpu(model: nn.Module, shape: tuple[int, ...], dtype: torch.dtype | None) -> int:
    """Bytes that eager saves for backward beside parameters and inputs."""
    kept: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept[storage_key(tensor)] = tensor
        return tensor

    with FakeTensorMode(allow_non_fake_inputs=True), torch.device("cuda"):
        for module in model.modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                setattr(module, name, nn.Parameter(torch.empty(parameter.shape)))
            for name, buffer in list(module.named_buffers(recurse=False)):
                setattr(module, name, torch.empty(buffer.shape, dtype=buffer.dtype))
        x = torch.empty(shape)
        torch.set_autocast_enabled("cuda", dtype is not None)
        torch.set_autocast_dtype("cuda", dtype or torch.float16)
        torch.autocast_increment_nesting()
        try:
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
                loss = model(x).float().square().mean()
        finally:
            torch.autocast_decrement_nesting()
            torch.clear_autocast_cache()
            torch.set_autocast_enabled("cuda", False)
            torch.set_autocast_dtype("cuda", torch.float16)
        static = {storage_key(t) for t in (*model.parameters(), *model.buffers(), x, loss)}
    return sum(storage_bytes(t) for key, t in kept.items() if key not in static)


class Loss(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.model(*inputs).float().square().mean()


def estimated(model: nn.Module, *shapes: tuple[int, ...], **options: Any) -> Any:
    away = copy.deepcopy(model).to("meta")
    return memplan.estimate(away, [torch.empty(s, device="meta") for s in shapes], **{"device": "h100", **options})


@pytest.mark.parametrize("dtype", [None, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_saved_is_eagers_on_that_device(form: str, dtype: torch.dtype | None) -> None:
    make, shape = FORMS[form]
    model = make()
    report = estimated(Loss(model), shape, autocast=dtype or False)
    assert report.saved_bytes == saved_on_gpu(model, shape, dtype)


BY_HAND = 2 * LAYERS * ROWS * WIDTH * 2 + (LAYERS - 1) * WIDTH * WIDTH * 2
"""In bf16: the input and what each operator makes but for the last, and the weights by which gradients are multiplied."""


def test_six_layers_by_hand() -> None:
    report = estimated(layers(), (ROWS, WIDTH), autocast=torch.bfloat16)
    assert report.saved_bytes == BY_HAND
    plain = estimated(layers(), (ROWS, WIDTH))
    assert plain.saved_bytes == (2 * LAYERS - 1) * ROWS * WIDTH * 4
    assert report.seconds < plain.seconds


def regions() -> dict[str, Callable[[], tuple[nn.Module, Any]]]:
    """Ways to write the same region."""

    class Inside(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cuda", torch.bfloat16):
                return super().forward(x)

    class OfItsDevice(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast(x.device.type, torch.bfloat16):
                return super().forward(x)

    def decorated() -> nn.Module:
        model = layers()
        model.forward = torch.autocast("cuda", torch.bfloat16)(model.forward)  # type: ignore[method-assign]
        return model

    return {
        "inside": lambda: (Inside(*layers()), None),
        "of its device": lambda: (OfItsDevice(*layers()), None),
        "decorated": lambda: (decorated(), None),
        "around": lambda: (layers(), torch.autocast("cuda", torch.bfloat16)),
    }


@pytest.mark.filterwarnings("ignore:CUDA is not available")
@pytest.mark.parametrize("way", regions())
def test_regions_are_those_of_the_named_device(way: str) -> None:
    """Without a GPU PyTorch switches regions off when they are made outside of the capture, which is told."""
    with torch.device("meta"):
        model, around = regions()[way]()
        inputs = [torch.empty(ROWS, WIDTH)]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if around is None:
            report = memplan.estimate(model, inputs, device="a100")
        else:
            with around:
                report = memplan.estimate(model, inputs, device="a100")
    assert report.saved_bytes == BY_HAND
    is_switched_off = way in ("decorated", "around") and not torch.cuda.is_available()
    assert any("has disabled torch.autocast('cuda')" in str(w.message) for w in told) == is_switched_off


def test_a_region_of_another_device_is_told() -> None:
    with pytest.warns(memplan.FallbackWarning, match=r"torch.autocast\('cpu'\) has no effect on h100"), torch.autocast("cpu"):
        plain = estimated(layers(), (ROWS, WIDTH))
    assert plain.saved_bytes == (2 * LAYERS - 1) * ROWS * WIDTH * 4


def test_a_region_of_the_host() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        report = estimated(layers(), (ROWS, WIDTH), device="cpu")
    assert report.saved_bytes == BY_HAND


def test_a_region_needs_a_device() -> None:
    with torch.autocast("cpu"), pytest.raises(memplan.MemplanError, match="the meta device has no autocast"):
        estimated(layers(), (ROWS, WIDTH), device=None)
    with pytest.raises(memplan.MemplanError, match="autocast= needs a named device"):
        memplan.estimate(layers(), [torch.empty(8, WIDTH)], autocast=torch.bfloat16)
    with pytest.raises(memplan.MemplanError, match="is not a type of autocast"):
        estimated(layers(), (ROWS, WIDTH), autocast=torch.int8)


def test_a_batch_and_a_mesh_are_under_autocast() -> None:
    with torch.device("meta"):
        model = layers()

        def inputs(n: int) -> list[torch.Tensor]:
            return [torch.empty(n, WIDTH)]

        fits = {
            dtype: memplan.fit(model, inputs, "40MiB", device="h100", autocast=dtype, most=4096, overhead=0.0)[0]
            for dtype in (False, torch.bfloat16)
        }
        ranks = {
            dtype: memplan.estimate(model, inputs(ROWS), mesh={"dp": 2}, device="h100", autocast=dtype)
            for dtype in (False, torch.bfloat16)
        }
    assert fits[torch.bfloat16] > 1.3 * fits[False]
    assert ranks[torch.bfloat16].saved_bytes == BY_HAND
    assert ranks[False].saved_bytes == (2 * LAYERS - 1) * ROWS * WIDTH * 4


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["estimate", "test_elsewhere:layers", "--inputs", f"({ROWS},{WIDTH})", "--device", "h100", "--json"]
    assert main([*asked, "--autocast", "bfloat16"]) == 0
    assert f'"saved_bytes": {BY_HAND}' in capsys.readouterr().out
    assert main([*asked, "--autocast", "int8"]) == 2
    assert "not a type of autocast" in capsys.readouterr().err


def attention(x: torch.Tensor) -> torch.Tensor:
    h = x[None, None]
    return F.scaled_dot_product_attention(h, h, h)


@pytest.mark.parametrize(
    ("device", "dtype", "expected"),
    [
        ("a100", torch.bfloat16, "flash_attention"),
        ("t4", torch.float16, "efficient_attention"),
        ("v100", torch.float16, "efficient_attention"),
        ("t4", torch.bfloat16, "softmax"),
        ("v100", None, "efficient_attention"),
    ],
)
def test_attention_is_of_the_cards_generation(device: str, dtype: torch.dtype | None, expected: str) -> None:
    """Flash attention, and attention of bf16 in one kernel, begin with Ampere."""
    model = nn.Sequential(nn.Linear(16, 16), Calls(attention))
    report = estimated(Loss(model), (8, 16), device=device, autocast=dtype or False)
    assert any(expected in o.op for o in report.graph.capture.operations if o.phase == "forward")


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_are_told(name: str) -> None:
    model = Calls(lambda x, layer: layer(x)[0], getattr(nn, name)(8, 8))
    with pytest.warns(memplan.FallbackWarning, match="is estimated with PyTorch's own kernels"):
        assert estimated(Loss(model), (5, 3, 8)).saved_bytes > 0


# Backward without PyTorch's engine


def operators(model: nn.Module, inputs: tuple[Any, ...]) -> list[Any]:
    torch._dynamo.reset()
    capture = memplan.estimate(model, inputs).graph.capture
    numbers = [o.source.meta["seq_nr"] for o in capture.operations if o.source is not None and "seq_nr" in o.source.meta]
    return [
        (o.op, o.phase, [capture.storages[s].n_bytes for s in o.writes], sorted(o.source.meta), number(o, min(numbers)))
        for o in capture.operations
        if o.source is not None
    ]


def number(operation: Any, first: int) -> int:
    return int(operation.source.meta.get("seq_nr", first - 1)) - first


@pytest.mark.parametrize("name", ["convolutions", "transformer", "unet", "tied"])
def test_backward_is_the_engines(name: str) -> None:
    """The same operators in the same order, with the same lines and numbers of forward."""
    model, inputs = networks.make(name)
    expected = operators(model, inputs)
    with mock.patch.object(torch.autograd, "grad", engine.gradients):
        assert operators(model, inputs) == expected


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.save_for_backward(x)
        return x * x, x + 1

    @staticmethod
    def backward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return 2 * a * ctx.saved_tensors[0] + b


def test_gradients_are_the_engines() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(3, 4, requires_grad=True), torch.randn(4, requires_grad=True)
    unused = torch.randn(2, requires_grad=True)
    z = x * y
    outputs = [(z.sin() + z).sum(), (z @ z.t()).exp(), Doubled.apply(z)[0].double()]  # type: ignore[no-untyped-call]
    given = [None, torch.randn(3, 3), torch.randn(3, 4, dtype=torch.float64)]
    for wanted in ([x, y], [z, x], [y], [z, unused]):
        expected = torch.autograd.grad(outputs, wanted, given, retain_graph=True, allow_unused=True)
        found = engine.gradients(outputs, wanted, given, allow_unused=True)
        assert [g is None for g in found] == [g is None for g in expected]
        assert all(torch.equal(a, b) for a, b in zip(found, expected) if a is not None and b is not None)
    with pytest.raises(RuntimeError, match="has no gradient"):
        engine.gradients(outputs, [unused], given)
