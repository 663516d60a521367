"""Check one feature on a GPU in seconds: gpu_features.py FEATURE [cpu].

The features are copies, explain_oom, ddp, fsdp and tp. The last three use a process group of one rank: NCCL on a GPU, gloo
on the CPU. The last line of the output is the result. The exit status is 1 after a failure, and 77 if this PyTorch lacks the
feature.
"""

from __future__ import annotations

import copy
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ["MEMPLAN_CACHE"] = "off"

import torch
from torch import nn

import memplan

MIB = 1 << 20
LIMIT_BYTES = 512 * MIB  # of the process, for explain_oom
OPTIONS: dict[str, Any] = {"effort": "quick", "time_limit": 3}


class LacksFeature(Exception):
    """This PyTorch version lacks the feature."""


def require(holds: bool, text: str) -> None:
    if not holds:
        raise AssertionError(text)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h: torch.Tensor = self.down(nn.functional.gelu(self.up(self.norm(x))))
        return x + h


class Network(nn.Module):
    """Residual blocks and a loss."""

    def __init__(self, width: int, depth: int = 6) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


def pair(device: str) -> tuple[Network, Network, torch.Tensor]:
    """Return two equal networks and a batch."""
    torch.manual_seed(0)
    width, n = (512, 4096) if device == "cuda" else (128, 2048)
    first = Network(width)
    return first.to(device), copy.deepcopy(first).to(device), torch.randn(n, width).to(device)


def here(value: Any) -> torch.Tensor:
    local: torch.Tensor = value.to_local() if hasattr(value, "to_local") else value
    return local


def train(model: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """Return the losses of four steps, and then the parameters and gradients."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(4):
        optimizer.zero_grad()
        loss = model(x + step)
        loss.backward()
        losses.append(loss.detach())
        if step < 3:
            optimizer.step()
    parameters = list(model.parameters())
    return [here(t) for t in [*losses, *parameters, *(p.grad for p in parameters)]]


def require_same(eager: Any, ours: Any, x: torch.Tensor) -> str:
    expected, got = train(eager, x), train(ours, x)
    n = sum(not torch.equal(a, b) for a, b in zip(expected, got))
    require(len(got) == len(expected) and n == 0, f"{n} of {len(expected)} tensors differ from eager PyTorch's")
    return f"same bits in {len(got)} tensors"


def report_text(report: Any) -> str:
    require(bool(report.graphs) and not report.fallbacks, f"memplan did not plan: {report.fallbacks}")
    require(report.planned_bytes <= report.budget_bytes, "the plan exceeds its budget")
    return f"planned {report.planned_bytes / MIB:.1f} MiB of {report.keep_all_bytes / MIB:.1f}"


def copies(device: str) -> str:
    """Copies to pinned host memory on side streams."""
    eager, ours, x = pair(device)
    compiled = memplan.compile(ours, "60%", offload="4GiB", link=1e12, **OPTIONS)
    text = require_same(eager, compiled, x)
    report = compiled.memplan
    text += ", " + report_text(report)
    require(bool(report.copied), "the plan copies nothing")
    ours.zero_grad()
    measured = report.measure(lambda: compiled(x).backward())
    require(report.measured_host_bytes == report.host_bytes, f"host: {report.measured_host_bytes} of {report.host_bytes} bytes")
    pool = report.graph.pool
    pool.measure_from_now()  # takes back the slabs whose tensors are freed
    require(bool(pool.idle), "the pool has no host memory")
    require(device == "cpu" or all(slab.is_pinned for slab in pool.idle), "host memory is not pinned")
    share = measured / report.planned_bytes - 1
    return f"{text} ({share:+.2%} measured), {report.host_bytes / MIB:.1f} MiB on the host"


def explain_oom(device: str) -> str:
    """The allocator calls the observer, and the explanation accounts for the allocated bytes."""
    torch.manual_seed(0)
    if device == "cuda":
        total = torch.cuda.mem_get_info()[1]
        torch.cuda.set_per_process_memory_fraction(LIMIT_BYTES / total)
    model = Network(512).to(device)
    x = torch.randn(16384, 512).to(device)
    allocated = 0
    watching = memplan.explain_oom()
    try:
        with watching:
            model(x[:64]).backward()  # the observer is attached after CUDA's initialization
            if device == "cuda":
                model(x).backward()
            torch.empty(1 << 60)
    except RuntimeError:
        allocated = torch.cuda.memory_allocated() if device == "cuda" else 0
    explained = watching.last
    if explained is None:
        raise AssertionError("nothing was explained")
    if device == "cpu":
        return f"explained on {explained.account.device}"
    require(watching.is_observing, "PyTorch did not accept the observer")
    found = explained.account.total()
    text = f"the observer was called; {found / MIB:.1f} MiB explained of {allocated / MIB:.1f} MiB allocated"
    require(0.95 * allocated <= found <= 1.05 * allocated, text)
    return text


def with_group(device: str, check: Callable[[], str]) -> str:
    """Run a check in a process group of one rank."""
    if not torch.distributed.is_available():
        raise LacksFeature("this PyTorch has no torch.distributed")
    name = "nccl" if device == "cuda" else "gloo"
    with tempfile.TemporaryDirectory() as folder:
        store = f"file://{Path(folder) / 'store'}"
        if device == "cuda":
            torch.cuda.set_device(0)
        torch.distributed.init_process_group(name, init_method=store, rank=0, world_size=1)
        try:
            text = check()
        finally:
            torch.distributed.destroy_process_group()
    return f"{name}: {text}"


def ddp(device: str) -> str:
    """A replica of DistributedDataParallel around a compiled model."""

    def check() -> str:
        eager, ours, x = pair(device)
        compiled = memplan.compile(ours, "70%", **OPTIONS)
        text = require_same(nn.parallel.DistributedDataParallel(eager), nn.parallel.DistributedDataParallel(compiled), x)
        return f"{text}, {report_text(compiled.memplan)}"

    return with_group(device, check)


def fsdp(device: str) -> str:
    """A model sharded by fully_shard."""

    def check() -> str:
        try:
            from torch.distributed.fsdp import fully_shard
        except ImportError:
            raise LacksFeature("this PyTorch has no public fully_shard") from None

        def sharded(model: Network) -> Any:
            for block in model.blocks:
                fully_shard(block)
            return fully_shard(model)

        eager, ours, x = pair(device)
        compiled = memplan.compile(sharded(ours), "70%", **OPTIONS)
        return f"{require_same(sharded(eager), compiled, x)}, {report_text(compiled.memplan)}"

    return with_group(device, check)


def tp(device: str) -> str:
    """A tensor-parallel model of DTensors."""

    def check() -> str:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        mesh = init_device_mesh(device, (1,))

        def parallel(model: Network) -> Any:
            for block in model.blocks:
                parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
            return model

        is_old = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 15)
        eager, ours, x = pair(device)
        try:
            compiled = memplan.compile(parallel(ours), "70%", **OPTIONS)
            text = require_same(parallel(eager), compiled, x)
        except AssertionError:
            raise
        except Exception as error:
            if not is_old:
                raise
            why = str(error).split("\n")[0]
            raise LacksFeature(f"memplan plans DTensors from PyTorch 2.15 on, not {torch.__version__}: {why}") from error
        if compiled.memplan.fallbacks and is_old:
            raise LacksFeature(f"PyTorch {torch.__version__} takes a DTensor apart in another way; {text} without a plan")
        return f"{text}, {report_text(compiled.memplan)}"

    return with_group(device, check)


FEATURES = {f.__name__: f for f in (copies, explain_oom, ddp, fsdp, tp)}


def main(name: str, device: str = "cuda") -> int:
    if device == "cuda" and not torch.cuda.is_available():
        sys.stdout.write("no GPU\n")
        return 77
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        text, status = FEATURES[name](device), 0
    except LacksFeature as why:
        text, status = str(why), 77
    except Exception as error:
        text, status = f"{type(error).__name__}: {error}".split("\n")[0][:300], 1
    sys.stdout.write(text + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
