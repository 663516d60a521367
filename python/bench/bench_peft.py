"""The memory of fine-tuning methods of peft against peft's published comparison on Llama 3.2 3B.

    PYTHONPATH=python/src:PEFT/src python python/bench/bench_peft.py ROWS.csv EXPERIMENTS [--cache CACHE.json] [--check]

PEFT is a checkout of github.com/huggingface/peft of August 2026, and EXPERIMENTS its folder
method_comparison/MetaMathQA/experiments. Later versions of the method OSF need less memory. A run on an L40S evaluates a loss
over long texts, and then makes 5,000 steps with batch 4. peft publishes two figures of a run:

* the largest reserved memory of the run
* the mean of the reserved memory after each step. The run frees the cache every ten steps, so the mean is the memory of a batch
  of some mean length.

The lengths are not published, but they are the same in all rows. A hash of the names chooses a third of the rows as fitted
rows. TOKENS was changed from 660 to 700 after a look at three fitted rows. MEAN_TOKENS was chosen on the fitted rows. The other
rows are unseen, except that two of them (DoRA, LoHa) were seen with other values of MEAN_TOKENS.

`--check`: exit with 1 if the median error of a figure's unseen rows is above 5 %.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peft.optimizers
import torch
import transformers
from peft_on_meta import without_values
from published_rows import Cache, comparison, error_table, is_fitted, margin_line, rows_of
from torch import nn

import memplan

LLAMA_3B = {
    "vocab_size": 128256,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 28,
    "num_attention_heads": 24,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "tie_word_embeddings": True,
    "max_position_embeddings": 131072,
}
BATCH, LONGEST_TEXT, STEPS = 4, 768, 3
TOKENS = 700
MEAN_TOKENS = 345
TARGET = 0.05
READS_VALUES = ("UNILORA",)  # methods whose creation reads values of the adapter
LARGEST, MEAN = "largest", "mean"


def new_model(folder: Path, training: dict[str, Any]) -> nn.Module:
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA_3B)).to(torch.bfloat16)
    if not (folder / "adapter_config.json").exists():
        return model
    config = peft.PeftConfig.from_pretrained(str(folder))
    is_in_fp32 = training.get("autocast_adapter_dtype", True)
    with without_values(), torch.device("cpu" if config.peft_type in READS_VALUES else "meta"):
        return peft.get_peft_model(model, config, autocast_adapter_dtype=is_in_fp32).to("meta")


def new_optimizer(model: nn.Module, training: dict[str, Any]) -> torch.optim.Optimizer:
    kind, options = training.get("optimizer_type", "AdamW"), training.get("optimizer_kwargs", {"lr": 1e-4, "weight_decay": 0.1})
    if hasattr(torch.optim, kind):
        return getattr(torch.optim, kind)(model.parameters(), **options)
    made = {"lora-fa": peft.optimizers.create_lorafa_optimizer}
    return made[kind](model, **options)


def loop(model: nn.Module, training: dict[str, Any], figure: str) -> Callable[[], None]:
    """Return the comparison's loop.

    For LARGEST, a loss over long texts precedes steps with the longest batch. For MEAN, steps have a batch of the mean length.
    """
    optimizer = new_optimizer(model, training)
    clip = training.get("grad_norm_clip", 1.0)

    def batch(length: int) -> dict[str, torch.Tensor]:
        return {name: torch.empty(BATCH, length, dtype=torch.long, device="meta") for name in ("input_ids", "attention_mask")}

    def evaluate() -> None:
        with torch.inference_mode():
            model(**batch(LONGEST_TEXT if figure == LARGEST else 1))

    def train() -> None:
        model.eval()
        with model.disable_adapter() if hasattr(model, "peft_config") else contextlib.nullcontext():
            evaluate()  # afterwards peft trains all parameters of the adapter, also those that LoRA-FA has frozen
        if figure == LARGEST:
            evaluate()
        model.train()
        for _ in range(STEPS):
            given = batch(TOKENS if figure == LARGEST else MEAN_TOKENS)
            given["labels"] = given["input_ids"].clone()
            n_items = given["attention_mask"].sum().item()
            optimizer.zero_grad()
            loss = model(**given, num_items_in_batch=n_items).loss
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()

    return train


def reserved_bytes(folder: Path, figure: str) -> int:
    path = folder / "training_params.json"
    training = json.loads(path.read_text()) if path.exists() else {}
    model = new_model(folder, training)
    with without_values():
        needs = memplan.estimate(loop(model, training, figure), (), device="l40s", calls=1).needs
    assert needs is not None
    return needs.reserved_bytes


def figures_of(path: str) -> dict[tuple[str, str], int]:
    """Return the measured bytes by experiment and figure."""
    kinds = {"max_memory_reserved": LARGEST, "mean memory_reserved": MEAN}
    return {
        (row["note"].partition(";")[0], kind): int(row["value"])
        for row in rows_of(path, "peft")
        for begin, kind in kinds.items()
        if row["quantity"].startswith(begin)
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows")
    parser.add_argument("experiments", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--only", default="", help="experiments whose names contain this text")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    cache = Cache(given.cache)
    errors: dict[str, list[float]] = {f"{kind}, {part}": [] for kind in (LARGEST, MEAN) for part in ("fitted", "unseen")}
    for (name, figure), measured in figures_of(given.rows).items():
        if given.only not in name:
            continue
        key = f"{name} {TOKENS if figure == LARGEST else f'mean {MEAN_TOKENS}'}"
        found = cache.get(key, reserved_bytes, given.experiments / name, figure)
        if isinstance(found, str):
            sys.stdout.write(f"{name}: {found}\n")
            continue
        part = "fitted" if is_fitted("peft", name) else "unseen"
        errors[f"{figure}, {part}"].append(found / measured - 1)
        sys.stdout.write(f"{name}: {figure} {comparison(measured, found)}, {part}\n")
        sys.stdout.flush()
    sys.stdout.write(error_table(errors))
    largest_unseen, largest_fitted = errors[f"{LARGEST}, unseen"], errors[f"{LARGEST}, fitted"]
    if largest_unseen:
        sys.stdout.write(margin_line("16-bit transformer", largest_unseen, largest_fitted))
    unseen = [found for part, found in errors.items() if part.endswith("unseen")]
    return int(given.check and any(statistics.median(map(abs, found)) > TARGET for found in unseen))


if __name__ == "__main__":
    sys.exit(main())
