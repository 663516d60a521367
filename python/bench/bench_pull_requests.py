"""The memory of whole networks and functions against figures that people published in pull requests.

    PYTHONPATH=python/src python python/bench/bench_pull_requests.py ROWS.csv [--mingpt FOLDER] [--only TEXT]

FOLDER is a checkout of github.com/karpathy/minGPT. Sources of the figures:

* model: MODel (facebookresearch/MODel_opt, pull request 23). MODel runs a graph operator by operator. After each operator,
  MODel reads the reserved memory, and then frees the cache. MODel reads the allocated memory after the operator with the
  largest reserved memory. The process traced a step before. Assumption after a look at the rows: the gradients of the traced
  step remain allocated.
* colossal: memory that the network and its forward add (hpcaitech/ColossalAI, pull request 1587). The source writes MB for MiB.
  We assume the batch. After a look at the rows we also assume that the published column contains the parameters.
* hf48131: the loss that balances experts, before the pull request, with its operands (huggingface/transformers, pull request
  48131). Figures after the pull request are not compared, because the function has changed again since.
* mingpt: the sorting of minGPT's demo.ipynb (karpathy/minGPT, pull request 106). The thread does not name the example. We tried
  the adder first, but its activations are too small.

Not run, because their settings are not published: rfdetr, skyrl, trainstream, rotor, OPT of MODel. bench_autochunk.py runs
pt136702 and titan2186. Simulated peaks of MODel are results of another program.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torchvision
from published_rows import comparison, error_table, rows_of
from torch import nn
from torch.nn import functional as F

import memplan
from memplan.memory.allocator import Settings
from memplan.step.eager_step import recorded_step

MIB = 1 << 20
UNITS = {"bytes": 1, "MB": MIB, "GB": 10**9}
LAYERS, EXPERTS, TOP = 48, 128, 8  # of Qwen3-30B-A3B
BLOCK, WORDS, BATCH = 11, 3, 64  # minGPT sorts six numbers
WORKSPACE = 8519680  # bytes of the workspace of cuBLAS before Hopper: 4096 KiB twice, 16 KiB eight times
Row = dict[str, str]
Figure = tuple[int, str]  # bytes, and the kind of figure


def network(name: str, batch: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    with torch.device("meta"):
        if name == "transformer_dflt":
            return nn.Transformer(), tuple(torch.rand(n, batch, 512) for n in (10, 20))
        model = getattr(torchvision.models, {"mobilenet": "mobilenet_v2", "resnet": "resnet18"}.get(name, name))()
        return model, (torch.rand(batch, 3, 224, 224),)


def of_model(row: Row) -> Figure | None:
    """Estimate a training step with SGD, or forward with a graph for backward."""
    if "simulated" in row["quantity"] or "OPT" in row["model"]:
        return None
    model, inputs = network(row["model"].removeprefix("MODel_opt "), int(row["batch"]))
    is_reserved = "reserved" in row["quantity"]
    if row["note"] == "eval":
        return forward_peaks(model.eval(), inputs)[is_reserved], "evaluation"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)

    traced = nn.ParameterList(torch.empty_like(p) for p in model.parameters())

    def train_step(*given: torch.Tensor) -> None:
        assert traced is not None  # keeps a reference to `traced`, because memplan counts the modules that a step refers to
        out = model(*given)
        F.cross_entropy(out, torch.zeros_like(out)).backward()
        optimizer.step()

    needs = memplan.estimate(train_step, inputs, device="a100", calls=1).needs
    assert needs is not None
    return needs.reserved_bytes if is_reserved else needs.tensors_bytes, "training"


def forward_peaks(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[int, int]:
    """Return allocated and reserved bytes of forward."""

    def forward(*given: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = model(*given)
        return result

    used = recorded_step(forward, inputs, {}, True, 1).allocator(Settings(), WORKSPACE)
    return used.peak_allocated_bytes, used.peak_reserved_bytes


def of_colossal(row: Row) -> Figure | None:
    if "forward" not in row["quantity"]:
        return None
    model, inputs = network(row["model"].removeprefix("torchvision "), 4)
    return forward_peaks(model.train(), inputs)[0], "forward"


def one_hot_loss(gates: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Compute the loss as transformers did before the change."""
    weights = F.softmax(torch.cat(gates), dim=-1)
    _values, selected = torch.topk(weights, TOP, dim=-1)
    mask = F.one_hot(selected, EXPERTS)
    tokens_per_expert = torch.mean(mask.float(), dim=0)
    return torch.sum(tokens_per_expert * torch.mean(weights, dim=0).unsqueeze(0)) * EXPERTS


def of_hf48131(row: Row) -> Figure | None:
    if "after" in row["id"]:
        return None
    tokens = int(row["seq"].partition("K")[0]) * 1024
    gates = tuple(torch.empty(tokens, EXPERTS, dtype=torch.bfloat16, device="meta") for _ in range(LAYERS))
    used = recorded_step(lambda: one_hot_loss(gates), (), {}, True, 1).allocator(Settings(), 0)
    return used.peak_allocated_bytes, "function"


def of_mingpt(row: Row) -> Figure | None:
    module = importlib.import_module("mingpt.model")
    config = module.GPT.get_default_config()
    config.model_type = row["model"].removeprefix("minGPT ")
    config.block_size, config.vocab_size = BLOCK, WORDS
    with torch.device("meta"):
        model = module.GPT(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, foreach=False)

    def train_step(x: torch.Tensor, y: torch.Tensor) -> Any:
        if "after" in row["id"]:
            model.zero_grad(set_to_none=True)
        _logits, loss = model(x, y)
        model.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        optimizer.step()
        return _logits, loss

    batch = tuple(torch.empty(BATCH, BLOCK, dtype=torch.long) for _ in range(2))
    needs = memplan.estimate(train_step, batch, device="a100").needs
    assert needs is not None
    return needs.tensors_bytes, "step"


SOURCES: dict[str, Callable[[Row], Figure | None]] = {
    "model": of_model,
    "colossal": of_colossal,
    "hf48131": of_hf48131,
    "mingpt": of_mingpt,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows")
    parser.add_argument("--mingpt", type=Path)
    parser.add_argument("--only", default="", help="rows whose id contains this text")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    if given.mingpt:
        sys.path.insert(0, str(given.mingpt))
    errors: dict[str, list[float]] = {}
    for row in rows_of(given.rows, *SOURCES):
        source = row["id"].partition("-")[0]
        if given.only not in row["id"] or (source == "mingpt" and not given.mingpt):
            continue
        found = SOURCES[source](row)
        if found is None:
            sys.stdout.write(f"{row['id']}: not run\n")
            continue
        measured = float(row["value"]) * UNITS[row["unit"]]
        errors.setdefault(f"{source}, {found[1]}", []).append(found[0] / measured - 1)
        sys.stdout.write(f"{row['id']}: {comparison(measured, found[0], 'MiB')}\n")
        sys.stdout.flush()
    sys.stdout.write(error_table(errors))


if __name__ == "__main__":
    main()
