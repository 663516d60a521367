"""Lower precision: eager's bits and draws under autocast, around a model or in it, and with parameters of 16 bits."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import networks
import pytest
import torch
import torch.nn.functional as F
from against_eager import assert_like_eager
from torch import nn

import memplan
from memplan.graph.casts import KEEPS_ANY_CAST
from memplan.graph.native import overloads

BUDGETS = ("100%", "floor+30%")


class Inside(nn.Module):
    """A model in a region of its own."""

    def __init__(self, inner: nn.Module, **options: Any) -> None:
        super().__init__()
        self.inner, self.options = inner, options

    def forward(self, *args: Any) -> Any:
        with torch.autocast("cpu", **self.options):
            return self.inner(*args)


class Shared(nn.Module):
    """A matrix of three uses: two that eager casts once, and a cast of the user's own."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = F.dropout(self.linear(F.gelu(self.norm(self.linear(x)))), 0.1)
        own = self.linear.weight.to(torch.bfloat16).float()
        with torch.autocast("cpu", enabled=False):
            h = self.linear(h.float()) @ own
        return F.mse_loss(self.linear(h).float(), y)


class Cycles(nn.Module):
    """Runs its layer without gradients first, and then with them, and once more without."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            h = torch.tanh(self.linear(x))
        h = self.linear(torch.tanh(self.linear(h)))
        with torch.no_grad():
            shift = self.linear(x)
        return F.mse_loss((self.linear(h) + shift).float(), y)


OWN = {"shared": Shared, "cycles": Cycles}


def make(name: str, region: str = "") -> tuple[nn.Module, tuple[Any, ...]]:
    if name == "cycles" and KEEPS_ANY_CAST and region != "no cache":
        pytest.skip("this PyTorch keeps a cast that was made without gradients: eager has no gradients to compare with")
    if name not in OWN:
        return networks.make(name)
    torch.manual_seed(0)
    return OWN[name](), networks.vectors(32, 16)


REGIONS = {
    "bf16": {"dtype": torch.bfloat16},
    "fp16": {"dtype": torch.float16},
    "no cache": {"dtype": torch.bfloat16, "cache_enabled": False},
}


CASES = [(name, region) for name in ("shared", "cycles", "tied") for region in REGIONS] + [
    (name, "bf16") for name in ("transformer", "recurrent", "convolutions")
]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(("name", "region"), CASES)
def test_a_region_around_a_model_is_eagers(name: str, region: str, budget: str) -> None:
    model, inputs = make(name, region)
    compiled = memplan.compile(model, budget, time_limit=0, on_infeasible="smallest")
    assert_like_eager(model, compiled, inputs, lambda: torch.autocast("cpu", **REGIONS[region]))


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("name", ["shared", "cycles", "tied"])
def test_a_region_in_a_model_is_eagers(name: str, region: str) -> None:
    model, inputs = make(name, region)
    model = Inside(model, **REGIONS[region])
    assert_like_eager(model, memplan.compile(model, "floor+30%", time_limit=0, on_infeasible="smallest"), inputs)


@pytest.mark.parametrize("name", ["transformer", "tied"])
def test_parameters_of_16_bits(name: str) -> None:
    if name == "tied" and torch.__version__ < "2.5":
        pytest.skip("PyTorch 2.4 has no mse_loss of bf16 on a CPU")
    model, inputs = networks.make(name)
    model, inputs = model.bfloat16(), tuple(i.bfloat16() if i.is_floating_point() else i for i in inputs)
    assert_like_eager(model, memplan.compile(model, "floor+30%", time_limit=0, on_infeasible="smallest"), inputs)


class Dropped(nn.Module):
    def __init__(self, dropout: Any, layout: Any) -> None:
        super().__init__()
        self.scale, self.dropout, self.layout = nn.Parameter(torch.randn(3, 5, 4, 6)), dropout, layout

    def forward(self) -> torch.Tensor:
        return self.dropout(self.layout(self.scale * 2)).float().square().mean()


LAYOUTS = {
    "rows": lambda x: x,
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(0, 2),
    "expanded": lambda x: x[:1].expand(7, -1, -1, -1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropouts_of_all_kinds_draw_and_round_as_eagers(dtype: torch.dtype, layout: str) -> None:
    def dropouts(x: torch.Tensor) -> torch.Tensor:
        x = F.dropout(F.dropout(x, 0.1) + 1, 0.3, inplace=True)
        x = F.feature_alpha_dropout(F.alpha_dropout(x, 0.2), 0.3) + F.dropout2d(x, 0.4)
        return x + F.dropout(x, 1.0) + F.dropout(x, 0.0) + F.dropout(x, 0.5, training=False) + torch.rand_like(x)

    torch.manual_seed(0)
    model = Dropped(dropouts, LAYOUTS[layout]).to(dtype)
    assert_like_eager(model, memplan.compile(model, "100%", time_limit=0), ())


def test_what_a_capture_takes_out_is_back_afterwards() -> None:
    cast = torch.ops.aten._to_copy.default
    operators = [*overloads(), cast, torch.ops.aten.bernoulli_.float]
    before = [dict(o.py_kernels) for o in operators]
    model, inputs = networks.make("tied")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        memplan.compile(copy.deepcopy(model), time_limit=0)(*inputs).backward()
    assert [dict(o.py_kernels) for o in operators] == before
    assert torch.is_autocast_cache_enabled()


class Attention(nn.Module):
    """What eager computes in fp32 under autocast, whose backward is not unless it is called outside."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.linear(x).view(2, 4, 4, 16)
        return F.scaled_dot_product_attention(h, h, h, dropout_p=0.2).float().square().mean()


def gradients(model: nn.Module, x: torch.Tensor, is_inside: bool) -> list[torch.Tensor]:
    torch.manual_seed(1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(x).sum()
        if is_inside:
            loss.backward()
    if not is_inside:
        loss.backward()
    found = [p.grad for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    return found


def test_backward_inside_of_a_region_is_told_where_it_matters() -> None:
    torch.manual_seed(0)
    x = torch.randn(32, 16)
    for model in (Attention(), nn.Sequential(nn.Linear(16, 4), nn.GELU())):
        eager = [gradients(model, x, is_inside) for is_inside in (False, True)]
        matters = not all(map(torch.equal, *eager))  # on PyTorch 2.4 attention, too, is in lower precision
        compiled = memplan.compile(model, "100%", time_limit=0)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            gradients(compiled, x, False)
            assert not [w for w in told if "inside autocast" in str(w.message)]
            for _ in range(2):
                gradients(compiled, x, True)
        assert len([w for w in told if "inside autocast" in str(w.message)]) == matters


def test_attention_written_out_is_eagers() -> None:
    torch.manual_seed(0)
    model = Attention()
    compiled = memplan.compile(model, "100%", time_limit=0)
    assert_like_eager(model, compiled, (torch.randn(32, 16),), lambda: torch.autocast("cpu", dtype=torch.bfloat16))
