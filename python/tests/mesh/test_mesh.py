"""Before renting: what one rank of a mesh takes, asked in one process, is what real ranks plan and measure; what it is made of,
and which meshes there are not."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import unittest.mock
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from networks import Transformer
from sharded_models import Perceptron, numbers, peak, process, sharded, words
from torch import nn
from torch.utils.checkpoint import checkpoint

import memplan
from memplan.__main__ import main
from memplan.mesh import equal_blocks
from memplan.mesh.ranks import blocks_of, fake_ranks

fsdp = pytest.importorskip("torch.distributed.fsdp", exc_type=ImportError)
pytestmark = pytest.mark.skipif(not hasattr(fsdp, "fully_shard"), reason="this PyTorch has no public fully_shard")
HALF = {"mp_policy": fsdp.MixedPrecisionPolicy(torch.bfloat16, torch.float32)} if hasattr(fsdp, "MixedPrecisionPolicy") else {}
CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "perceptron": (Perceptron, numbers, HALF),
    "transformer": (lambda: Transformer(0.0, 32, 2), words, {}),
}


def of_real_ranks(rank: int, path: str) -> None:
    """Writes what rank 0 knows of its graph, and measures."""
    found = {}
    for name, (make, batch, options) in CASES.items():
        model = memplan.compile(sharded(make, **options), "min")
        model(*batch(0, rank)).backward()
        report = model.memplan
        found[name] = [report.keep_all_bytes, report.floor_bytes, peak(model, batch(0, rank))]
    if rank == 0:
        Path(path).write_text(json.dumps(found))


def process_of(rank: int, folder: str, path: str) -> None:
    process(rank, folder, 2, lambda rank: of_real_ranks(rank, path))


def on(mesh: Any, model: nn.Module, inputs: Any, budget: Any = "100%", **options: Any) -> Any:
    return memplan.estimate(model, inputs, mesh=mesh, budget=budget, cache="off", **options)


def test_two_ranks_take_what_was_estimated(tmp_path: Path) -> None:
    path = str(tmp_path / "found.json")
    torch.multiprocessing.spawn(process_of, (str(tmp_path), path), 2)
    for name, (keep_all, floor, measured) in json.loads(Path(path).read_text()).items():
        make, batch, options = CASES[name]
        report = on({"shard": 2}, make(), batch(0, 0), "min", shard=options)
        assert (report.keep_all_bytes, report.floor_bytes) == (keep_all, floor), name
        assert abs(report.planned_bytes - measured) <= 0.01 * measured, name
        assert sum(report.kinds.values()) == report.planned_bytes


def test_twice_the_ranks_have_half_of_the_shards() -> None:
    model = Perceptron(128)
    model.head = nn.Linear(128, 32)
    inputs = (torch.randn(64, 128),)
    few = on({"shard": 8}, model, inputs, optimizer=torch.optim.AdamW(model.parameters()))
    many = few.wider
    parameters = sum(4 * p.numel() for p in model.parameters())
    assert many.mesh.n_ranks == 16
    for report, n in ((few, 8), (many, 16)):
        assert report.kinds["Sharded Param"] == parameters // n
        counters = 4 * len(list(model.parameters()))  # of steps, which AdamW keeps as tensors
        assert report.kinds["OptState"] == 2 * parameters // n + counters
        assert report.n_blocks == 3
    assert many.kinds["Inputs"] == few.kinds["Inputs"] == inputs[0].nbytes
    assert few.kinds["Unsharded Param"] == many.kinds["Unsharded Param"] > 0
    assert few.smallest_bytes < few.planned_bytes
    assert many.planned_bytes < few.planned_bytes


def test_replicas_have_everything_and_buckets() -> None:
    model = Perceptron()
    report = on({"dp": 4}, model, numbers(0, 0))
    parameters = sum(4 * p.numel() for p in model.parameters())
    assert report.kinds["Parameter"] == report.kinds["DDP Buckets"] == parameters
    both = on({"dp": 2, "shard": 4}, model, numbers(0, 0))
    assert both.kinds["Sharded Param"] == on({"shard": 4}, model, numbers(0, 0)).kinds["Sharded Param"]


def checkpointed(model: Transformer) -> nn.Module:
    for layer in model.layers:
        layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)
    return model


@pytest.mark.parametrize(
    "make, batch",
    [
        (lambda: Perceptron(256, 4), lambda: (torch.randn(512, 256),)),
        (lambda: Transformer(0.0, 256, 3), lambda: words(0, 0)),
        (lambda: Transformer(0.0, 256, 3), lambda: tuple(torch.randint(50, (2, 64, 32)))),
        (lambda: checkpointed(Transformer(0.0, 256, 3)), lambda: tuple(torch.randint(50, (2, 64, 32)))),
    ],
)
def test_fsdp_by_itself_takes_what_pytorchs_tracker_sees(make: Any, batch: Any) -> None:
    tracking = pytest.importorskip("torch.distributed._tools.fsdp2_mem_tracker")
    inputs = batch()
    with fake_ranks(8):
        model = sharded(make)
        tracker = tracking.FSDPMemTracker(model)
        tracker.track_inputs(inputs)
        with tracker:
            model(*inputs).backward()
        (seen,) = [kinds for device, kinds in tracker.get_tracker_snapshot("peak").items() if device.type == "cpu"]
    theirs = {str(getattr(kind, "value", kind)): n for kind, n in seen.items()}
    report = on({"shard": 8}, make(), inputs)
    assert abs(report.fsdp_bytes - theirs["Total"]) <= 0.01 * theirs["Total"]
    for kind in ("Sharded Param", "All Gather", "Inputs"):
        assert report.fsdp_kinds[kind] == theirs[kind], kind
    assert report.fsdp_bytes < report.keep_all_bytes


@contextlib.contextmanager
def on_meta() -> Iterator[tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    with torch.device("meta"):
        model, inputs = Perceptron(), (torch.empty(256, 127),)
    yield model, inputs


def test_a_model_that_is_sharded_already() -> None:
    with on_meta() as (model, inputs):
        expected = on({"shard": 4}, model, inputs, device="h100")
        with fake_ranks(4):
            report = memplan.estimate(sharded(lambda: model), inputs, device="h100", cache="off")
            assert (report.planned_bytes, report.kinds) == (expected.planned_bytes, expected.kinds)
            assert report.seconds == expected.seconds > report.graph.collectives.seconds > 0
            assert report.step_seconds == expected.step_seconds < report.seconds
            assert report.mesh == expected.mesh and report.n_blocks == 3
            with pytest.raises(memplan.MemplanError, match="on a fake process group of 8 ranks"):
                report.wider  # noqa: B018


class Mlp(nn.Module):
    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.norm, self.up, self.down = norm(64), nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.up(self.norm(x)).relu())


class Mlps(nn.Module):
    def __init__(self, norm: Any = nn.Identity) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Mlp(norm) for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x.square().mean()


def test_operators_that_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each product a rank has a quarter; what comes out of a pair is summed in forward, and once more in backward."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    tp_plan = {"layers.*.up": ColwiseParallel(), "layers.*.down": RowwiseParallel()}
    with torch.device("meta"):
        model, inputs = Mlps(), (torch.empty(1024, 64, requires_grad=True),)
    optimizer = torch.optim.AdamW(model.parameters())
    report = on({"dp": 8, "tp": 4}, model, inputs, device="h100", tp_plan=tp_plan, optimizer=optimizer)
    own = 6 * 4 * (2 * 64 * 256 // 4 + 256 // 4 + 64)
    assert report.kinds["Parameter"] == report.kinds["DDP Buckets"] == own
    assert report.kinds["OptState"] == 2 * own + 4 * len(list(model.parameters()))  # counters of steps
    assert str(report.mesh) == "dp 8, tp 4" and report.mesh.n_ranks == 32 and str(report.mesh.twice()) == "dp 16, tp 4"
    assert "collectives on nvlink4+ib400" in str(report)
    sums = [o for o in report.graph.capture.operations if o.op.startswith("_c10d_functional.all_reduce")]
    assert len(sums) == 12
    seconds = report.graph.costs[sums[0].source].seconds
    sending = 2 * 3 / 4 * 1024 * 64 * 4 / 365e9  # by a ring on NVLink
    assert sending < seconds < sending + 100e-6
    both = on({"shard": 8, "tp": 4}, model, inputs, device="h100", tp_plan=tp_plan, optimizer=optimizer)
    assert own // 8 <= both.kinds["Sharded Param"] <= own // 8 + 6 * 4 * 8 * 2
    assert both.n_blocks == 6
    monkeypatch.setattr(equal_blocks, "KEPT", 99)
    for mesh, short in (({"dp": 8, "tp": 4}, report), ({"shard": 8, "tp": 4}, both)):
        assert known(short) == known(on(mesh, model, inputs, device="h100", tp_plan=tp_plan, optimizer=optimizer))


def test_sequences_that_are_split_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of a norm is summed over the ranks that have other words, and so leaves when its block's others do: while
    those of the blocks before it are made."""
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel

    tp_plan = {
        "layers.*.norm": SequenceParallel(sequence_dim=0),
        "layers.*.up": ColwiseParallel(input_layouts=Shard(0)),
        "layers.*.down": RowwiseParallel(output_layouts=Shard(0)),
    }
    with torch.device("meta"):
        model, inputs = Mlps(nn.LayerNorm), (torch.empty(256, 64, requires_grad=True),)
    report = on({"shard": 8, "tp": 4}, model, inputs, device="h100", tp_plan=tp_plan)
    steps = [(o.op + ".").split(".")[1] for o in report.graph.capture.operations]
    order = [name for name in steps if name in ("native_layer_norm_backward", "reduce")]
    assert order == ["native_layer_norm_backward", "reduce"] * 6
    assert steps.count("all_reduce") == 2 * 6
    monkeypatch.setattr(equal_blocks, "KEPT", 99)
    assert known(report) == known(on({"shard": 8, "tp": 4}, model, inputs, device="h100", tp_plan=tp_plan))


def test_collectives_take_what_the_network_does() -> None:
    """A rank gets its parameters from the others by NVLink, and sends their gradients."""
    with on_meta() as (model, inputs):
        report = on({"shard": 4}, model, inputs, device="h100")
    gathers = [o for o in report.graph.capture.operations if o.op == "memplan.gather.default"]
    assert len(gathers) == 4
    padded = sum(4 * (-(-p.shape[0] // 4) * 4) * p[0].numel() for p in model.layers[0].parameters())
    seconds = report.graph.costs[gathers[0].source].seconds
    assert 0.75 * padded / 365e9 < seconds < 60e-6 + 0.75 * padded / 365e9


def test_blocks_are_the_items_of_the_outermost_lists() -> None:
    model = Perceptron()
    assert blocks_of(model) == list(model.layers)
    assert blocks_of(model, nn.Linear) == [m for m in model.modules() if isinstance(m, nn.Linear)]
    with pytest.raises(memplan.MemplanError, match="this Perceptron has no module of class Conv2d"):
        blocks_of(model, nn.Conv2d)


class Odd(Perceptron):
    """Its blocks look alike, and one of them does something else."""

    def __init__(self) -> None:
        super().__init__(64, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for k, layer in enumerate(self.layers):
            x = x + layer(x).tanh() if k == 2 else x + layer(x)
        return self.head(x).square().mean()


def known(report: Any) -> Any:
    """What does not depend on how a plan was searched for."""
    graph = report.graph
    calls = Counter(o.op for o in graph.capture.operations)
    least = report.keep_all_bytes, report.floor_bytes, report.fsdp_bytes
    return *least, report.static_bytes, report.seconds, report.kinds, calls


@pytest.mark.parametrize("mesh", [{"shard": 8}, {"dp": 8}], ids=str)
@pytest.mark.parametrize(
    "make",
    [lambda: Transformer(0.1, 32, 7), lambda: checkpointed(Transformer(0.1, 32, 7)), Odd],
    ids=["transformer", "checkpointed", "odd"],
)
def test_blocks_that_stand_for_others(mesh: Any, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph of four blocks that is made one of seven is the graph of seven."""
    with torch.device("meta"):
        model = make()
    inputs = (
        tuple(x.to("meta") for x in words(0, 0)) if isinstance(model, Transformer) else (torch.empty(9, 64, device="meta"),)
    )
    optimizer = torch.optim.AdamW(model.parameters())
    short = on(mesh, model, inputs, device="h100", optimizer=optimizer, accumulate=True)
    assert len(model.layers) == 7
    monkeypatch.setattr(equal_blocks, "KEPT", 99)
    whole = on(mesh, model, inputs, device="h100", optimizer=optimizer, accumulate=True)
    assert known(short) == known(whole)
    assert short.n_blocks == whole.n_blocks == (7 if "shard" in mesh else 0)


def test_blocks_that_differ_are_captured_each() -> None:
    model = nn.Module()
    model.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(9))
    assert equal_blocks.shortened(copy.deepcopy(model)) == (equal_blocks.Repeats("layers", 0, 5), unittest.mock.ANY)
    model.layers[5].requires_grad_(False)
    found = equal_blocks.shortened(copy.deepcopy(model))
    assert found is not None and found[0] == equal_blocks.Repeats("layers", 0, 1)
    model.layers[2] = nn.Linear(4, 4, bias=False)
    assert equal_blocks.shortened(model) is None


@pytest.mark.parametrize(
    "mesh, sentence",
    [
        ({"shard": 2.0}, '"shard" is a number of ranks from 1, not 2.0'),
        ({"shard": True}, "not True"),
        ({"dp": 0}, "is a number of ranks from 1, not 0"),
        ({"batch": 8}, "a mesh has no dimension 'batch'"),
        ({"tp": 8}, "needs tp_plan="),
        ({}, "a mesh must be written like"),
        (8, "a mesh must be written like"),
    ],
)
def test_refused(mesh: Any, sentence: str) -> None:
    with pytest.raises(memplan.MemplanError, match=sentence):
        on(mesh, Perceptron(), numbers(0, 0))
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize(
    "tp_plan, sentence",
    [
        ({}, "tp_plan= splits none of its parameters"),
        (lambda model, ranks: None, "tp_plan= splits none of its parameters"),
        (lambda model, ranks: model.nowhere, "tp_plan= cannot split this model: .*nowhere"),
        ({"layers.0.up": 4}, "tp_plan= cannot split this model"),
    ],
)
def test_refused_plans_of_operators(tp_plan: Any, sentence: str) -> None:
    with pytest.raises(memplan.MemplanError, match=sentence):
        on({"tp": 2}, Mlps(), (torch.empty(4, 64),), tp_plan=tp_plan)


def test_refused_where_there_are_others() -> None:
    with fake_ranks(4):
        with pytest.raises(memplan.MemplanError, match=r"already has a process group of 4 ranks \(fake\)"):
            on({"shard": 8}, Perceptron(), numbers(0, 0))
        with pytest.raises(memplan.MemplanError, match="omit mesh="):
            on({"shard": 4}, sharded(Perceptron), numbers(0, 0))


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["estimate", "test_sharded:Perceptron", "--inputs", "(256,127)", "--device", "h100", "--cache", "off"]
    assert main([*asked, "--mesh", "shard=4", "--precision", "bfloat16"]) == 0
    said = capsys.readouterr().out
    assert "a rank of shard 4 (4 in all), 3 blocks gathered one at a time" in said
    assert "Sharded Param" in said and "on shard 8" in said
    assert main([*asked, "--mesh", "shard=four"]) == 2
    assert "'shard=four' is not a mesh" in capsys.readouterr().err
