"""Networks that nobody chose: drawn by a fixed seed from the lists of torchvision, timm and transformers, with the sizes that
fit a CPU. What is too large, or does not run in eager PyTorch, is drawn again."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator
from typing import Any

import torch
import zoo
from torch import nn

SEED = 20260
N_OF = {"torchvision": 14, "timm": 13, "transformers": 13}  # networks of each library
MOST_PARAMETERS = 12_000_000
BATCH, LENGTH, WORDS, CLASSES = 8, 32, 128, 10
SIZES = (64, 96, 128, 224, 256)  # of pictures: the first that eager takes
TASKS = {
    "CausalLM": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MaskedLM": "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "Seq2SeqLM": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
}
SMALL = {  # what configurations of transformers call their sizes
    64: ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "emb_dim", "embedding_size", "block_size"),
    2: ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers"),
    4: ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads"),
    1: ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"),
    16: ("head_dim", "d_kv", "d_head"),
    128: ("intermediate_size", "d_ff", "n_inner", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "hidden_dim", "d_inner"),
    WORDS: ("vocab_size",),
}


def names(library: str) -> list[str]:
    """All that the library lists, in the order of the draw."""
    if library == "torchvision":
        module = importlib.import_module("torchvision.models")
        listed = module.list_models(module=module)
    elif library == "timm":
        listed = importlib.import_module("timm").list_models()
    else:
        auto = importlib.import_module("transformers.models.auto.modeling_auto")
        listed = [f"{task}:{kind}" for task, table in TASKS.items() for kind in getattr(auto, table)]
    listed = sorted(listed)
    random.Random(SEED).shuffle(listed)
    return listed


def picture_model(library: str, name: str) -> nn.Module:
    if library == "torchvision":
        made = importlib.import_module("torchvision.models").get_model(name, weights=None)
    else:
        made = importlib.import_module("timm").create_model(name, pretrained=False, num_classes=CLASSES)
    return zoo.Classifier(made)


def text_model(name: str) -> nn.Module:
    task, _, kind = name.partition(":")
    library = importlib.import_module("transformers")
    known = library.AutoConfig.for_model(kind).to_dict()
    small = {word: size for size, words in SMALL.items() for word in words if word in known}
    if known.get("num_key_value_heads") is not None:
        small["num_key_value_heads"] = 2
    if isinstance(known.get("max_position_embeddings"), int):
        small["max_position_embeddings"] = WORDS
    config = library.AutoConfig.for_model(kind, **small)
    return zoo.Labelled(getattr(library, f"AutoModelFor{task}").from_config(config), "input_ids", "labels")


def n_parameters(library: str, name: str) -> int:
    """Without their memory."""
    with torch.device("meta"):
        model = text_model(name) if library == "transformers" else picture_model(library, name)
    return sum(p.numel() for p in model.parameters())


def runs(model: nn.Module, inputs: tuple[Any, ...]) -> bool:
    """Whether eager trains it, and gets the same twice."""
    found = []
    for _ in range(2):
        torch.manual_seed(0)
        try:
            loss = model(*inputs)
            loss.backward()
        except Exception:  # whatever a network has against these inputs
            return False
        found.append(loss.detach())
        model.zero_grad()
    return bool(torch.isfinite(found[0])) and next(model.parameters()).dtype == torch.float32


def make(library: str, name: str) -> zoo.Made | None:
    """The network with its inputs, always the same; None where it is to be drawn again."""
    try:
        if n_parameters(library, name) > MOST_PARAMETERS:
            return None
        torch.manual_seed(0)
        model = text_model(name) if library == "transformers" else picture_model(library, name)
    except Exception:  # needs another library, or sizes that do not go together
        return None
    for inputs in [texts()] if library == "transformers" else map(pictures, SIZES):
        if runs(model, inputs):
            torch.manual_seed(0)  # anew: what ran may have moved statistics
            return (text_model(name) if library == "transformers" else picture_model(library, name)), inputs
    return None


def pictures(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(BATCH, 3, size, size, generator=generator), torch.randint(0, CLASSES, (BATCH,), generator=generator)


def texts() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(4, WORDS, (BATCH, LENGTH), generator=torch.Generator().manual_seed(1))
    return tokens, tokens.clone()


def drawn() -> Iterator[tuple[str, str]]:
    """All candidates, library by library, in the order of the draw."""
    for library in N_OF:
        for name in names(library):
            yield library, name
