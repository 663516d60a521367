"""The training jobs of xMem's published runs (Stone-ResearchLife/xMem, Middleware 2025), on the meta device without weights.

Configurations are the published numbers of each network. The loops have the variables of xMem's loops. xMem used PyTorch 2.6,
torchvision 0.21 and transformers 4.51.3; other versions of transformers allocate other temporaries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torchvision
from torch import nn

SIDE, MOST_TOKENS, ITERATIONS = 86, 128, 4
CLASSES_10 = {"num_classes": 10}
VISION = {
    "ConvNeXtBase": ("convnext_base", {}),
    "ConvNeXtTiny": ("convnext_tiny", {}),
    "MnasNet": ("mnasnet1_0", CLASSES_10),
    "MobeNetV3Large": ("mobilenet_v3_large", CLASSES_10),
    "MobeNetV3Small": ("mobilenet_v3_small", CLASSES_10),
    "MobileNetV2": ("mobilenet_v2", {}),
    "RegNetX400MF": ("regnet_x_400mf", {}),
    "RegNetY400MF": ("regnet_y_400mf", {}),
    "RegNetX32GF": ("regnet_x_32gf", {}),
    "ResNet50": ("resnet50", {}),
    "ResNet101": ("resnet101", {}),
    "ResNet152": ("resnet152", {}),
    "VGG16": ("vgg16", {}),
    "VGG19": ("vgg19", {}),
}
GPT2 = {"n_positions": 1024, "n_embd": 768, "n_head": 12}
CEREBRAS = {"n_positions": 2048, "n_embd": 768, "n_layer": 10, "n_head": 12, "n_inner": 3072, "activation_function": "gelu"}
NO_DROPOUT = {"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
OPT = {"vocab_size": 50272, "max_position_embeddings": 2048, "attention_dropout": 0.0, "dropout": 0.1}
T5 = {"vocab_size": 32128, "d_kv": 64, "decoder_start_token_id": 0, "pad_token_id": 0}
GPT_NEO = {
    "vocab_size": 50257,
    "hidden_size": 768,
    "num_layers": 12,
    "num_heads": 12,
    "attention_types": [[["global", "local"], 6]],
    "window_size": 256,
}
QWEN2 = {"vocab_size": 151936, "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28}
QWEN3 = {"vocab_size": 151936, "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36}
LLAMA = {"vocab_size": 128256, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 28}
# by name: kind, class of the model, attention, numbers of the configuration
LANGUAGE: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "EleutherAI/gpt-neo-125M": ("GPTNeo", "ForCausalLM", "eager", GPT_NEO),
    "T5-small": (
        "T5",
        "ForConditionalGeneration",
        "eager",
        {**T5, "d_model": 512, "d_ff": 2048, "num_layers": 6, "num_heads": 8},
    ),
    "t5-base": (
        "T5",
        "ForConditionalGeneration",
        "eager",
        {**T5, "d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12},
    ),
    "cerebras/Cerebras-GPT-111M": ("GPT2", "LMHeadModel", "sdpa", {**CEREBRAS, **NO_DROPOUT}),
    "distilbert/distilgpt2": ("GPT2", "LMHeadModel", "sdpa", {**GPT2, "n_layer": 6}),
    "openai-community/gpt2": ("GPT2", "LMHeadModel", "sdpa", {**GPT2, "n_layer": 12}),
    "facebook/opt-125m": (
        "OPT",
        "ForCausalLM",
        "sdpa",
        {
            **OPT,
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "ffn_dim": 3072,
            "num_attention_heads": 12,
            "word_embed_proj_dim": 768,
        },
    ),
    "facebook/opt-350m": (
        "OPT",
        "ForCausalLM",
        "sdpa",
        {
            **OPT,
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "ffn_dim": 4096,
            "num_attention_heads": 16,
            "word_embed_proj_dim": 512,
            "do_layer_norm_before": False,
        },
    ),
    "Qwen/Qwen3-4B": (
        "Qwen3",
        "ForCausalLM",
        "sdpa",
        {**QWEN3, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": True},
    ),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": (
        "Qwen2",
        "ForCausalLM",
        "sdpa",
        {**QWEN2, "num_attention_heads": 12, "num_key_value_heads": 2, "tie_word_embeddings": False},
    ),
    "meta-llama/Llama-3.2-3B-Instruct": (
        "Llama",
        "ForCausalLM",
        "sdpa",
        {**LLAMA, "num_attention_heads": 24, "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": True},
    ),
    "google/gemma-2-2b-it": (
        "Gemma2",
        "ForCausalLM",
        "eager",
        {
            "vocab_size": 256000,
            "hidden_size": 2304,
            "intermediate_size": 9216,
            "num_hidden_layers": 26,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
        },
    ),
}


def network(name: str) -> nn.Module:
    if name in VISION:
        build, options = VISION[name]
        try:
            with torch.device("meta"):
                return getattr(torchvision.models, build)(**options)
        except NotImplementedError:  # RegNet computes its widths with tensors
            return getattr(torchvision.models, build)(**options).to("meta")
    import transformers

    kind, head, attention, numbers = LANGUAGE[name]
    config = getattr(transformers, f"{kind}Config")(**numbers)
    config._attn_implementation = attention
    with torch.device("meta"):
        return getattr(transformers, f"{kind}{head}")(config)


def vision_loop(model: nn.Module, optimizer: torch.optim.Optimizer, batch: int, clears_at: int) -> Callable[[], None]:
    """Return xMem's loop for images. `clears_at`: gradients are cleared 0: first, 1: before backward, 2: last."""
    criterion = nn.CrossEntropyLoss()

    def train() -> None:
        for _ in range(ITERATIONS):
            if clears_at == 0:
                optimizer.zero_grad()
            inputs = torch.empty(batch, 3, SIDE, SIDE, device="meta")
            labels = torch.empty(batch, dtype=torch.long, device="meta")
            outputs = model(inputs)
            loss = criterion(outputs, labels)
            if clears_at == 1:
                optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            _preds = torch.max(outputs, 1)  # stays alive until the next iteration
            if clears_at == 2:
                optimizer.zero_grad()

    return train


def language_loop(model: nn.Module, optimizer: torch.optim.Optimizer, batch: int, clears_at: int) -> Callable[[], None]:
    """Return xMem's loop for texts. The model's output object, with its key/value cache, stays alive."""

    def train() -> None:
        for _ in range(ITERATIONS):
            if clears_at == 0:
                optimizer.zero_grad()
            names = ("input_ids", "attention_mask", "labels")
            tokens = {name: torch.empty(batch, MOST_TOKENS, dtype=torch.long, device="meta") for name in names}
            outputs = model(**tokens)
            loss = outputs.loss
            if clears_at == 1:
                optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if clears_at == 2:
                optimizer.zero_grad()

    return train


def job(name: str, optimizer: str, batch: int, clears_at: int) -> Callable[[], None]:
    """Return the loop of a job."""
    model = network(name).train()
    trained = getattr(torch.optim, optimizer)(model.parameters(), lr=0.001)
    loop = vision_loop if name in VISION else language_loop
    return loop(model, trained, batch, clears_at)
