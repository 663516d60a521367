"""The memory of vision networks on an A100 against the measurements of GPUMemNet.

    PYTHONPATH=python/src python python/bench/bench_gpumemnet.py ROWS.csv [--cache CACHE.json] [--check]

Each row states the largest memory that the driver reported, with the CUDA context (itu-rad/GPUMemNet). Rows `faketensor` ran
timm's training script in fp32 with SGD and the default input of the network. That script lets cuDNN measure its algorithms.
So the memory contains the workspaces of these algorithms, which memplan does not model. The rows also state the estimate of
another program, which counts tensors only. Rows `gpumemnet` ran scripts of the repository with Adam. The script
does not run the repository's transformers, because their number of tokens is not published.

OUTSIDE is the memory besides tensors and the allocator's cache. A hash of the networks' names chooses a third of the rows
`faketensor`. OUTSIDE is the median of these rows. The other rows are unseen.

`--check`: exit with 1 if the median error of the unseen rows is above 5 %.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import timm
import torch
import torchvision
from published_rows import Cache, comparison, error_table, is_fitted, margin_line, rows_of

import memplan

MIB = 1 << 20
OUTSIDE = 1837  # MiB
TARGET = 0.05
LEFT_OUT = "faketensor-efficientnet_b4-128"  # its figure is below the figure of a batch of 16
SCRIPTS = {
    "mobilenetV2": "mobilenet_v2",
    "efficientnet": "efficientnet_b0",
    "inception": "inception_v3",
    "Xception": "xception",
}
FAMILIES = {"transformers": r"beit|cait|coat|deit|levit|maxvit|mixer|resmlp|swin|tnt|vit|volo", "VGG": "vgg"}


def family(network: str) -> str:
    return next((name for name, names in FAMILIES.items() if re.match(names, network)), "convolution")


def network_of(row: dict[str, str]) -> tuple[torch.nn.Module, tuple[int, ...]]:
    """Return the network and the shape of an image."""
    name = row["model"].removeprefix("timm ")
    if row["id"].startswith("faketensor-"):
        model = timm.create_model(name)
        return model, timm.data.resolve_model_data_config(model)["input_size"]
    options = {"aux_logits": False, "init_weights": False} if name == "inception" else {}
    name, size = SCRIPTS.get(name, name), 299 if name == "inception" else 224
    create = timm.create_model if name == "xception" else torchvision.models.get_model
    return create(name, **options), (3, size, size)


def step_of(model: torch.nn.Module, is_script: bool) -> Callable[..., torch.Tensor]:
    """Return a step of timm's train.py, or of GPUMemNet's scripts."""
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    if is_script:
        optimizer = torch.optim.Adam(model.parameters())
    loss_of = torch.nn.CrossEntropyLoss()

    def train_step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if is_script:
            optimizer.zero_grad()
        loss = loss_of(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return train_step


def reserved_mib(row: dict[str, str]) -> float:
    """Return the estimate without the context."""
    with torch.device("meta"):
        model, size = network_of(row)
    inputs = torch.empty(int(row["batch"]), *size), torch.empty(int(row["batch"]), dtype=torch.long)
    needs = memplan.estimate(step_of(model.train(), row["id"].startswith("gpumemnet-")), inputs, device="a100").needs
    assert needs is not None
    return needs.reserved_bytes / MIB


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    cache = Cache(given.cache)
    errors: dict[str, list[float]] = {}
    outside = []
    for row in rows_of(given.rows, "faketensor", "gpumemnet"):
        network, measured = row["model"].removeprefix("timm "), float(row["value"])
        if row["seq"] == "(see paper)" or row["id"] == LEFT_OUT:
            continue
        found = cache.get(row["id"], reserved_mib, row)
        if isinstance(found, str):
            sys.stdout.write(f"{row['id']}: {found}\n")
            continue
        part = "fitted" if is_fitted("gpumemnet", network) and row["id"].startswith("faketensor-") else "unseen"
        if part == "fitted":
            outside.append(measured - found)
        kind = family(network) if row["id"].startswith("faketensor-") else "scripts"
        errors.setdefault(f"{part}, {kind}", []).append((found + OUTSIDE) / measured - 1)
        text = comparison(measured * MIB, (found + OUTSIDE) * MIB, "MiB")
        sys.stdout.write(f"{row['id']}: {text}, {part}\n")
        sys.stdout.flush()
    median = statistics.median(outside)
    sys.stdout.write(f"memory besides tensors and the allocator's cache, median of the fitted rows: {median:.0f} MiB\n")
    sys.stdout.write(error_table(dict(sorted(errors.items()))))
    attending = [errors[f"{part}, transformers"] for part in ("unseen", "fitted")]
    sys.stdout.write(margin_line("vision transformer", *attending))
    unseen = [error for part, found in errors.items() if part.startswith("unseen") for error in found]
    return int(given.check and statistics.median(map(abs, unseen)) > TARGET)


if __name__ == "__main__":
    sys.exit(main())
