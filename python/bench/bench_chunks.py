"""The memory of steps whose loss is computed in chunks, against published peaks on one GPU.

    PYTHONPATH=python/src python python/bench/bench_chunks.py [ROW]...

Published figures: TRL's SFT with its default loss, chunks of 256 tokens (huggingface/trl#6859). Peak memory on an H100, batch
1, at most 2048 tokens, bf16 weights and AdamW. The source writes GB for GiB: weights, gradients and two bf16 moments of
Qwen3-8B have 61.0 GiB. Model sizes are those of the published configurations.

TRL computes the loss of answers only, and drops chunks without scored tokens. The number of tokens is not published. TOKENS was
chosen after a look at the rows, one number for all: with 2048 scored tokens gemma-3-270m takes 6.9 GiB, because the graph of
the logged entropy keeps two tensors of each recomputed chunk.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import AutoConfig, AutoModelForCausalLM

import memplan

GIB = 1 << 30
TOKENS, CHUNK = 256, 256
COMMON = {"tie_word_embeddings": True, "head_dim": 128, "attention_bias": False}
ROWS: dict[str, tuple[float, str, dict[str, Any]]] = {
    "gemma-3-270m": (
        3.1,
        "gemma3_text",
        {
            "vocab_size": 262144,
            "hidden_size": 640,
            "intermediate_size": 2048,
            "num_hidden_layers": 18,
            "num_attention_heads": 4,
            "num_key_value_heads": 1,
            "head_dim": 256,
        },
    ),
    "Llama-3.2-1B": (
        10.3,
        "llama",
        {
            "vocab_size": 128256,
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "tie_word_embeddings": True,
        },
    ),
    "Qwen3-0.6B": (
        5.2,
        "qwen3",
        {
            **COMMON,
            "vocab_size": 151936,
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
        },
    ),
    "Qwen3-8B": (
        61.1,
        "qwen3",
        {
            **COMMON,
            "tie_word_embeddings": False,
            "vocab_size": 151936,
            "hidden_size": 4096,
            "intermediate_size": 12288,
            "num_hidden_layers": 36,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
        },
    ),
}


def chunk_loss(rows: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the loss of a chunk and the entropy that TRL logs."""
    logs = F.log_softmax(rows.float() @ weight.float().t(), -1)
    return F.nll_loss(logs, labels, reduction="sum"), -(logs.exp() * logs).sum()


def estimate(kind: str, sizes: dict[str, Any]) -> Any:
    """Return the needs of a step with checkpointed blocks and checkpointed chunks of the loss."""
    config = AutoConfig.for_model(kind, **sizes)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def train_step(tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast("cuda", torch.bfloat16):
            hidden = model.model(input_ids=tokens, use_cache=False).last_hidden_state[0]
            labels, weight = tokens[0].roll(-1), model.lm_head.weight
            parts = zip(hidden.split(CHUNK), labels.split(CHUNK))
            pairs = [checkpoint(chunk_loss, a, weight, b, use_reentrant=False) for a, b in parts]
            loss, entropy = (sum(column) / TOKENS for column in zip(*pairs))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach(), entropy.detach()

    return memplan.estimate(train_step, (torch.empty(1, TOKENS, dtype=torch.long),), device="h100").needs


def main(names: list[str]) -> None:
    for name in names or ROWS:
        published, kind, sizes = ROWS[name]
        needs = estimate(kind, sizes)
        tensors = needs.tensors_bytes / GIB
        share = tensors / published - 1
        sys.stdout.write(f"{name:14} published {published:6.2f} GiB, tensors {tensors:6.2f} GiB ({share:+.1%})\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
