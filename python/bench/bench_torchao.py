"""The memory of training vision transformers with torchao's optimizers against the tables of its README.

    PYTHONPATH=python/src python python/bench/bench_torchao.py ROWS.csv [--only TEXT]

Published figures: max_memory_allocated / 1e9 of benchmarks/benchmark_low_bit_adam.py (pytorch/ao), without validation. The
rows of ViT-H run under autocast with one compiled graph. memplan estimates these rows as eager code. The compiled optimizers
allocate no temporaries.

Not run: DeepSpeed's offload, because options determine its buffers, and the rows of Llama 2, because their number of tokens is
not published.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

import timm
import torch
from published_rows import comparison, error_table, rows_of
from torch import nn
from torch.nn import functional as F

import memplan

CLASSES, SIZE = 45, 224
LEAST_QUANTIZED = 4096  # elements of the smallest quantized state
STATES = {"8-bit": (8, 256), "4-bit": (4, 128)}  # bits, and elements per scale


class Quantized(torch.optim.Optimizer):
    """The memory of Adam with quantized states. A state has codes, and scales in fp32."""

    def __init__(self, parameters: Any, bits: int, block: int) -> None:
        super().__init__(parameters, {})
        self.bits, self.block = bits, block

    def step(self, closure: Any = None) -> None:
        for p in self.param_groups[0]["params"]:
            if p not in self.state:
                self.state[p] = {name: self.zeros(p) for name in ("exp_avg", "exp_avg_sq")}

    def zeros(self, p: torch.Tensor) -> list[torch.Tensor]:
        if p.numel() < LEAST_QUANTIZED or p.numel() % self.block:
            return [torch.zeros_like(p)]
        codes = torch.zeros(p.numel() * self.bits // 8, dtype=torch.uint8, device=p.device)
        return [codes, torch.zeros(p.numel() // self.block, device=p.device)]


class OnHost(torch.optim.Optimizer):
    """The GPU memory of an optimizer whose states are in the host's memory."""

    def __init__(self, parameters: Any, with_gradients: bool = False) -> None:
        super().__init__(parameters, {})
        if with_gradients:
            for p in self.param_groups[0]["params"]:
                p.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))

    def step(self, closure: Any = None) -> None:
        pass


def optimizer_of(text: str, parameters: Any) -> torch.optim.Optimizer | None:
    for name, (bits, block) in STATES.items():
        if name in text:
            return Quantized(parameters, bits, block)
    kind = text.partition("offload: ")[2].removesuffix(" compiled")
    if kind == "none":
        return torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    known = {"ao": False, "ao CPUOffloadOptimizer": False, "ao offload_gradients": True}
    return OnHost(parameters, known[kind]) if kind in known else None


def step_of(model: nn.Module, optimizer: torch.optim.Optimizer, is_autocast: bool) -> Callable[..., None]:
    def train_step(images: torch.Tensor, labels: torch.Tensor) -> None:
        with torch.autocast("cuda", torch.bfloat16) if is_autocast else contextlib.nullcontext():
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return train_step


def estimated(row: dict[str, str]) -> int | None:
    """Return the bytes of tensors; None for a row that is not run."""
    if not row["model"].startswith("timm "):
        return None
    name, is_autocast = row["model"].split()[1].partition(".")[0], "AMP" in row["dtype"]
    with torch.device("meta"):
        model = timm.create_model(name, num_classes=CLASSES, img_size=SIZE)
    model = model if is_autocast else model.to(torch.bfloat16)
    if "checkpointing" in row["note"]:
        model.set_grad_checkpointing()
    optimizer = optimizer_of(row["optimizer"], model.parameters())
    if optimizer is None:
        return None
    n = int(row["batch"])
    images = torch.empty(n, 3, SIZE, SIZE, dtype=torch.float32 if is_autocast else torch.bfloat16)
    batch = images, torch.empty(n, dtype=torch.long)
    needs = memplan.estimate(step_of(model, optimizer, is_autocast), batch, device="rtx4090").needs
    assert needs is not None
    return needs.tensors_bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows")
    parser.add_argument("--only", default="", help="rows whose id contains this text")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    errors: dict[str, list[float]] = {}
    for row in (row for row in rows_of(given.rows, "ao") if given.only in row["id"]):
        found, measured = estimated(row), float(row["value"]) * 1e9
        if found is None:
            sys.stdout.write(f"{row['id']}: not run\n")
            continue
        errors.setdefault(row["id"].partition("-")[2].partition("-")[0], []).append(found / measured - 1)
        sys.stdout.write(f"{row['id']}: {comparison(measured, found)}\n")
        sys.stdout.flush()
    sys.stdout.write(error_table(errors))


if __name__ == "__main__":
    main()
