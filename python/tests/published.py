"""Small networks of transformers with a loss over a vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

VOCABULARY = 97
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


class Published(nn.Module):
    """A network of transformers that returns its loss only."""

    def __init__(self, name: str) -> None:
        super().__init__()
        made = pytest.importorskip("transformers")
        small = {"vocab_size": VOCABULARY, "num_hidden_layers": 1}
        configs: dict[str, Callable[[], Any]] = {
            "GPT2LMHeadModel": lambda: made.GPT2Config(vocab_size=VOCABULARY, n_embd=16, n_layer=1, n_head=2, n_positions=16),
            "LlamaForCausalLM": lambda: made.LlamaConfig(**SIZES, num_key_value_heads=1),
            "Qwen3ForCausalLM": lambda: made.Qwen3Config(**SIZES, num_key_value_heads=1, head_dim=8, tie_word_embeddings=True),
            "BertForMaskedLM": lambda: made.BertConfig(**SIZES, max_position_embeddings=16),
            "OPTForCausalLM": lambda: made.OPTConfig(
                **small, hidden_size=16, word_embed_proj_dim=16, ffn_dim=32, num_attention_heads=2, max_position_embeddings=16
            ),
            "T5ForConditionalGeneration": lambda: made.T5Config(
                vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=0
            ),
        }
        self.inner = getattr(made, name)(configs[name]())

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.inner(input_ids=x, labels=labels).loss
        return loss


PUBLISHED = (
    *("GPT2LMHeadModel", "LlamaForCausalLM", "Qwen3ForCausalLM", "BertForMaskedLM", "OPTForCausalLM"),
    "T5ForConditionalGeneration",
)


def published(name: str) -> tuple[Published, tuple[torch.Tensor, torch.Tensor]]:
    """Return a network and its inputs. Some labels are ignored."""
    model = Published(name)
    x = torch.randint(1, VOCABULARY, (2, 8))
    return model, (x, x.where(torch.rand(x.shape) < 0.7, -100))
