"""Chunks of rows with other options and in other situations. Oracle: eager PyTorch, in float32 rounding."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import networks
import pytest
import torch
import torch.nn.functional as F
from against_eager import eager_copy
from torch import nn

import memplan
from memplan.memory import host
from memplan.run.backend import in_chunks

CHUNKS = {"head": 4, "mlp": 2}
WORDS = 200
Step = Callable[[Any], None]


def transformer() -> nn.Module:
    torch.manual_seed(0)
    return networks.Transformer(dropout=0.0, words=WORDS, layers=2)


def given() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    return networks.sequences(2, 12, WORDS)


def once(model: Any) -> None:
    model(*given()).backward()


def twice(model: Any) -> None:
    once(model)
    once(model)


def gradients(model: Any, step: Step = once) -> list[torch.Tensor]:
    model.zero_grad()
    step(model)
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def distance(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """Return the largest difference, relative to the largest element of the tensor."""
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, expected, strict=True))


def compiled_with(model: nn.Module, budget: Any = "floor+40%", **options: Any) -> Any:
    return memplan.compile(model, budget, effort="quick", **{"chunks": CHUNKS, **options})


def test_gradients_add_up() -> None:
    model = transformer()
    expected = gradients(eager_copy(model), twice)
    compiled = compiled_with(model, accumulate=True)
    assert distance(gradients(compiled, twice), expected) < 1e-5
    assert compiled.memplan.graph.chunks == (4, 2)


def under_autocast(model: Any) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(*given())
    loss.backward()


def test_autocast_rounds_no_more_than_in_eager() -> None:
    model = transformer()
    exact = gradients(eager_copy(model))
    eager = distance(gradients(eager_copy(model), under_autocast), exact)
    assert distance(gradients(compiled_with(model), under_autocast), exact) < 1.5 * eager


def test_copies_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "LEAST_BYTES", 1024)
    model = transformer()
    expected = gradients(eager_copy(model))
    compiled = compiled_with(model, "floor+10%", offload="64MiB")
    assert distance(gradients(compiled), expected) < 1e-5
    assert compiled.memplan.graph.copied and compiled.memplan.graph.chunks == (4, 2)


def test_layers_share_weights() -> None:
    model: Any = transformer()
    model.layers[1] = model.layers[0]
    expected = gradients(eager_copy(model))
    assert distance(gradients(compiled_with(model)), expected) < 1e-5


def test_the_largest_batch_grows() -> None:
    def largest(chunks: Any) -> int:
        make = functools.partial(networks.sequences, length=12, words=WORDS)
        return memplan.fit(transformer(), make, "500KiB", overhead=0.5, chunks=chunks, effort="quick", most=32)[0]

    assert 0 < largest("off") < largest(CHUNKS)


def test_a_named_device_counts_chunks() -> None:
    with torch.device("meta"):
        model, inputs = transformer(), tuple(t.to("meta") for t in given())
    report = memplan.estimate(model, inputs, budget="floor+40%", device="h100", chunks=CHUNKS, effort="quick")
    assert report.graph.chunks == (4, 2)


class Cut(nn.Module):
    """A network with a graph break in front of its head."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = transformer()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h: torch.Tensor = self.inner.words(x)  # type: ignore[operator]
        for layer in self.inner.layers:  # type: ignore[union-attr]
            h = layer(h)
        torch._dynamo.graph_break()
        logits = self.inner.head(self.inner.norm(h))  # type: ignore[operator]
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())


def test_parts_without_a_region_are_named() -> None:
    """With graph breaks, numbers are refused in parts without a region. "auto" plans all parts."""
    model = Cut()
    expected = gradients(eager_copy(model))
    with pytest.raises(memplan.MemplanError, match='use chunks="auto"'):
        compiled_with(model, "100%", fullgraph=False)(*given())
    torch._dynamo.reset()
    compiled = compiled_with(Cut(), "100%", fullgraph=False, chunks="auto")
    assert distance(gradients(compiled), expected) < 1e-5
    assert len(compiled.memplan.graphs) == 2 and not compiled.memplan.fallbacks


@pytest.fixture
def one_rank(tmp_path: Any) -> Iterator[None]:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/ranks", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("one_rank")
def test_replicas_compute_in_chunks() -> None:
    model = transformer()
    expected = gradients(eager_copy(model))
    compiled = nn.parallel.DistributedDataParallel(compiled_with(model))
    assert distance(gradients(compiled), expected) < 1e-5
    assert model.memplan.graph.chunks == (4, 2)  # type: ignore[union-attr]


def test_a_sharded_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sharded = functools.partial(in_chunks, is_sharded=True)
    monkeypatch.setattr("memplan.run.backend.in_chunks", lambda joint, chunks, _: sharded(joint, chunks))
    with pytest.raises(memplan.MemplanError, match='sharded over ranks; use chunks="off"'):
        compiled_with(transformer())(*given())
    torch._dynamo.reset()
    assert compiled_with(transformer(), "min", chunks="auto")(*given()).isfinite()


def test_updates_within_backward() -> None:
    model = transformer()
    eager = eager_copy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = memplan.TrainStep(model, None, optimizer, "floor+30%", chunks=CHUNKS, effort="quick")
    assert torch.allclose(step(*given()), eager(*given()), rtol=1e-6)
    expected = gradients(eager)
    for p, before, gradient in zip(model.parameters(), eager.parameters(), expected, strict=True):
        assert torch.allclose(p, before - 0.1 * gradient, rtol=1e-5, atol=1e-6)
    assert step.memplan.graph.chunks == (4, 2)
