"""The memory of fine-tuning methods of peft against peft's published comparison on Llama 3.2 3B.

    PYTHONPATH=python/src python python/bench/bench_peft.py ROWS.csv EXPERIMENTS [--cache CACHE.json] [--check]

EXPERIMENTS is the folder method_comparison/MetaMathQA/experiments of github.com/huggingface/peft. Each row is
max_memory_reserved of a run on an L40S: a loss over long texts, 5,000 steps with batch 4, and generation.

The number of tokens of the longest batch is not published. It is the same in all rows. TOKENS was changed from 660 to 700 after
a look at three of the rows that a hash of their names chooses, a third of all rows. The others are unseen.

`--check`: exit with 1 if the median error of the unseen rows is above 5 %.
"""

from __future__ import annotations

import argparse
import csv
import gc
import hashlib
import json
import statistics
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peft
import torch
import transformers
from error_table import summary
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
TARGET = 0.05
OTHER_OPTIMIZERS = ("lora+", "lora-fa", "riemannian")


def is_fitted(name: str) -> bool:
    return int(hashlib.sha256(f"peft {name}".encode()).hexdigest(), 16) % 3 == 0


def new_model(folder: Path, training: dict[str, Any]) -> nn.Module:
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA_3B)).to(torch.bfloat16)
        if not (folder / "adapter_config.json").exists():
            return model
        config = peft.PeftConfig.from_pretrained(str(folder))
        return peft.get_peft_model(model, config, autocast_adapter_dtype=training.get("autocast_adapter_dtype", True))


def loop(model: nn.Module, training: dict[str, Any], tokens: int) -> Callable[[], None]:
    """Return the comparison's loop: a loss over long texts, and steps with the longest batch."""
    kind = training.get("optimizer_type", "AdamW")
    if kind in OTHER_OPTIMIZERS:
        raise ValueError(f"the optimizer {kind}")
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=1e-4, weight_decay=0.1)
    clip = training.get("grad_norm_clip", 1.0)

    def batch(length: int) -> dict[str, torch.Tensor]:
        return {name: torch.empty(BATCH, length, dtype=torch.long, device="meta") for name in ("input_ids", "attention_mask")}

    def train() -> None:
        model.eval()
        with torch.inference_mode():
            model(**batch(LONGEST_TEXT))
        model.train()
        for _ in range(STEPS):
            given = batch(tokens)
            given["labels"] = given["input_ids"].clone()
            n_items = given["attention_mask"].sum().item()
            optimizer.zero_grad()
            loss = model(**given, num_items_in_batch=n_items).loss
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()

    return train


def reserved_bytes(folder: Path, tokens: int) -> int | str:
    """Return the estimate, or the reason why there is none."""
    path = folder / "training_params.json"
    training = json.loads(path.read_text()) if path.exists() else {}
    try:
        model = new_model(folder, training)
        needs = memplan.estimate(loop(model, training, tokens), (), device="l40s", calls=1).needs
        assert needs is not None
        return needs.reserved_bytes
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:120]}"


def rows_of(path: str) -> dict[str, int]:
    with open(path, encoding="utf-8", newline="") as file:
        return {
            row["note"].partition(";")[0]: int(row["value"])
            for row in csv.DictReader(file)
            if row["id"].startswith("peft-") and row["quantity"].startswith("max_memory_reserved")
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows")
    parser.add_argument("experiments", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--only", default="", help="a part of the names of methods")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    cache: dict[str, int | str] = json.loads(given.cache.read_text()) if given.cache and given.cache.exists() else {}
    errors: dict[bool, list[float]] = {True: [], False: []}
    for name, measured in rows_of(given.rows).items():
        if given.only not in name:
            continue
        key = f"{name} {given.tokens}"
        if key not in cache:
            cache[key] = reserved_bytes(given.experiments / name, given.tokens)
            gc.collect()
            if given.cache:
                given.cache.write_text(json.dumps(cache))
        found = cache[key]
        if isinstance(found, str):
            sys.stdout.write(f"{name}: {found}\n")
            continue
        error = found / measured - 1
        errors[is_fitted(name)].append(error)
        part = "fitted" if is_fitted(name) else "unseen"
        sys.stdout.write(f"{name}: measured {measured / 1e9:.2f} GB, estimate {found / 1e9:.2f} ({error:+.1%}), {part}\n")
    sys.stdout.write("| methods | n | median error | bias | range |\n|---|---:|---:|---:|---:|\n")
    sys.stdout.write(summary("fitted", errors[True]) + summary("unseen", errors[False]))
    return int(given.check and statistics.median(map(abs, errors[False])) > TARGET)


if __name__ == "__main__":
    sys.exit(main())
