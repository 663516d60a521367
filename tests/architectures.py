#!/usr/bin/env python3
"""architectures.py MEMPLAN - small networks of every family that is known by name, against the originals of transformers.

By hand, not in CI: needs torch, transformers, onnx and onnxruntime. `memplan model` writes two layers of each; onnx's checker
judges the file, and onnxruntime computes from it, with the original's random weights, the outputs of the original. A line per
family: the largest difference, and the largest number. Experts are as many as each token has, so that the load is balanced.

Then a line per family for the bytes that autograd holds of one more layer of the original's own width, beside those of
`memplan estimate --rules pytorch`. Llama is left out: nn.RMSNorm keeps two tensors more on a CPU than its kernel for GPUs.
T5 writes its normalizations out, and the product with the weight keeps one tensor more: it is subtracted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
import onnxruntime
import torch
import transformers as hf
from torch import Tensor, nn

BATCH, TOKENS, WORDS, WIDTH, INNER, HEADS, PAIRS, EXPERTS = 2, 16, 11, 16, 32, 4, 2, 4
FAR = 300  # tokens, so that every row of a table of distances is read
WORST = 1e-5  # of the largest number: float32, added up in another order

Weights = dict[str, Tensor]


def linear(weights: Weights, name: str, module: nn.Module) -> None:
    """A Linear, whose weight memplan has as (in, out)."""
    weights[f"{name}.weight"] = module.weight.T
    if getattr(module, "bias", None) is not None:
        weights[f"{name}.bias"] = module.bias


def plain(weights: Weights, name: str, module: nn.Module) -> None:
    """A module whose parameters are as memplan has them."""
    weights.update({f"{name}.{entry}": value for entry, value in module.named_parameters(recurse=False)})


def gpt() -> tuple[nn.Module, Weights, Weights]:
    model = hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=WORDS, n_embd=WIDTH, n_inner=INNER, n_layer=2, n_head=HEADS))
    weights: Weights = {
        "embedding.weight": model.transformer.wte.weight,
        "position.weight": model.transformer.wpe.weight,
    }
    plain(weights, "norm", model.transformer.ln_f)
    for k, block in enumerate(model.transformer.h):
        at = f"layers.{k}"
        plain(weights, f"{at}.attention.norm", block.ln_1)
        plain(weights, f"{at}.attention.qkv", block.attn.c_attn)
        plain(weights, f"{at}.attention.output", block.attn.c_proj)
        plain(weights, f"{at}.mlp.norm", block.ln_2)
        plain(weights, f"{at}.mlp.up", block.mlp.c_fc)
        plain(weights, f"{at}.mlp.down", block.mlp.c_proj)
    return model, {"tokens": torch.randint(WORDS, (BATCH, TOKENS))}, weights


def llama_sizes() -> dict[str, int | float | bool]:
    return {
        "vocab_size": WORDS, "hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": 2,
        "num_attention_heads": HEADS, "num_key_value_heads": PAIRS, "tie_word_embeddings": False,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    }  # fmt: skip


def of_llama(model: nn.Module) -> tuple[nn.Module, Weights, Weights]:
    """All but the mlp."""
    weights: Weights = {"embedding.weight": model.model.embed_tokens.weight}
    plain(weights, "norm", model.model.norm)
    linear(weights, "classifier", model.lm_head)
    for k, block in enumerate(model.model.layers):
        at = f"layers.{k}"
        plain(weights, f"{at}.attention.norm", block.input_layernorm)
        plain(weights, f"{at}.mlp.norm", block.post_attention_layernorm)
        for name, letter in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "o")):
            linear(weights, f"{at}.attention.{name}", getattr(block.self_attn, f"{letter}_proj"))
    return model, {"tokens": torch.randint(WORDS, (BATCH, TOKENS))}, weights


def llama() -> tuple[nn.Module, Weights, Weights]:
    model, data, weights = of_llama(hf.LlamaForCausalLM(hf.LlamaConfig(**llama_sizes())))
    for k, block in enumerate(model.model.layers):
        for name in ("gate", "up", "down"):
            linear(weights, f"layers.{k}.mlp.{name}", getattr(block.mlp, f"{name}_proj"))
    return model, data, weights


def mixtral() -> tuple[nn.Module, Weights, Weights]:
    sizes = {"num_local_experts": EXPERTS, "num_experts_per_tok": EXPERTS}
    model, data, weights = of_llama(hf.MixtralForCausalLM(hf.MixtralConfig(**llama_sizes(), **sizes)))
    for k, block in enumerate(model.model.layers):
        at = f"layers.{k}.mlp"
        gate, up = block.mlp.experts.gate_up_proj.chunk(2, dim=1)
        linear(weights, f"{at}.router", block.mlp.gate)
        for name, stack in (("gate", gate), ("up", up), ("down", block.mlp.experts.down_proj)):
            weights[f"{at}.{name}.weight"] = stack.transpose(1, 2)
    return model, data, weights


def bert() -> tuple[nn.Module, Weights, Weights]:
    sizes = {"num_hidden_layers": 2, "num_attention_heads": HEADS, "intermediate_size": INNER}
    model = hf.BertModel(hf.BertConfig(vocab_size=WORDS, hidden_size=WIDTH, **sizes))
    weights: Weights = {}
    plain(weights, "embedding", model.embeddings.word_embeddings)
    plain(weights, "position", model.embeddings.position_embeddings)
    plain(weights, "token_type", model.embeddings.token_type_embeddings)
    plain(weights, "embedding.norm", model.embeddings.LayerNorm)
    linear(weights, "pooler", model.pooler.dense)
    for k, block in enumerate(model.encoder.layer):
        at = f"layers.{k}"
        for name in ("query", "key", "value"):
            linear(weights, f"{at}.attention.{name}", getattr(block.attention.self, name))
        linear(weights, f"{at}.attention.output", block.attention.output.dense)
        plain(weights, f"{at}.attention.norm", block.attention.output.LayerNorm)
        linear(weights, f"{at}.mlp.up", block.intermediate.dense)
        linear(weights, f"{at}.mlp.down", block.output.dense)
        plain(weights, f"{at}.mlp.norm", block.output.LayerNorm)
    shape = (BATCH, TOKENS)
    return model, {"tokens": torch.randint(WORDS, shape), "token_types": torch.randint(2, shape)}, weights


def vit() -> tuple[nn.Module, Weights, Weights]:
    sizes = {"num_hidden_layers": 2, "num_attention_heads": HEADS, "intermediate_size": INNER, "num_labels": WORDS}
    model = hf.ViTForImageClassification(hf.ViTConfig(hidden_size=WIDTH, image_size=16, patch_size=4, **sizes))
    table = model.vit.embeddings
    weights: Weights = {"class.weight": table.cls_token, "position.weight": table.position_embeddings}
    plain(weights, "patch", table.patch_embeddings.projection)
    plain(weights, "norm", model.vit.layernorm)
    linear(weights, "classifier", model.classifier)
    for k, block in enumerate(model.vit.layers):
        at = f"layers.{k}"
        plain(weights, f"{at}.attention.norm", block.layernorm_before)
        plain(weights, f"{at}.mlp.norm", block.layernorm_after)
        for name, letter in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "o")):
            linear(weights, f"{at}.attention.{name}", getattr(block.attention, f"{letter}_proj"))
        linear(weights, f"{at}.mlp.up", block.mlp.fc1)
        linear(weights, f"{at}.mlp.down", block.mlp.fc2)
    return model, {"images": torch.randn(BATCH, 3, 16, 16)}, weights


def t5() -> tuple[nn.Module, Weights, Weights]:
    sizes = {"num_layers": 2, "num_heads": HEADS, "d_ff": INNER, "d_kv": 2 * WIDTH // HEADS}
    model = hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=WORDS, d_model=WIDTH, **sizes))
    weights: Weights = {"embedding.weight": model.shared.weight}
    for stack, name in ((model.encoder, "encoder"), (model.decoder, "decoder")):
        plain(weights, f"{name}.distances", stack.block[0].layer[0].SelfAttention.relative_attention_bias)
        plain(weights, f"{name}.norm", stack.final_layer_norm)
        for k, block in enumerate(stack.block):
            at = f"{name}.layers.{k}"
            parts = [("attention", block.layer[0], block.layer[0].SelfAttention)]
            if name == "decoder":
                parts.append(("cross", block.layer[1], block.layer[1].EncDecAttention))
            for part, around, within in parts:
                plain(weights, f"{at}.{part}.norm", around.layer_norm)
                for module, letter in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "o")):
                    linear(weights, f"{at}.{part}.{module}", getattr(within, letter))
            plain(weights, f"{at}.mlp.norm", block.layer[-1].layer_norm)
            linear(weights, f"{at}.mlp.up", block.layer[-1].DenseReluDense.wi)
            linear(weights, f"{at}.mlp.down", block.layer[-1].DenseReluDense.wo)
    shape = (BATCH, FAR)
    return model, {"tokens": torch.randint(WORDS, shape), "decoder_tokens": torch.randint(WORDS, shape)}, weights


SIZES = {"layers": 2, "width": WIDTH, "feed-forward": INNER, "heads": HEADS, "vocabulary": WORDS, "sequence": TOKENS}
SHARED = {"key-value-heads": PAIRS}
FAMILIES = {
    "gpt2": (gpt, {}),
    "llama3-8b": (llama, SHARED),
    "mixtral-8x7b": (mixtral, {**SHARED, "experts": EXPERTS, "experts-per-token": EXPERTS}),
    "bert-base": (bert, {}),
    "vit-base": (vit, {"sequence": 17, "patch": 4}),
    "t5-small": (t5, {"sequence": FAR, "head-width": 2 * WIDTH // HEADS}),
}


def difference(memplan: str, name: str, folder: Path) -> tuple[float, float]:
    """The largest difference between the outputs of the file and of the original, and the largest number."""
    build, sizes = FAMILIES[name]
    original, data, weights = build()
    for parameter in original.parameters():
        nn.init.normal_(parameter, std=0.3)
    given = {
        "tokens": "input_ids", "decoder_tokens": "decoder_input_ids", "token_types": "token_type_ids", "images": "pixel_values",
    }  # fmt: skip
    with torch.no_grad():
        answer = original.eval()(**{given[key]: value for key, value in data.items()})
    expected = answer.pooler_output if name == "bert-base" else answer.logits

    path = folder / f"{name}.onnx"
    dims = [f"--dim={size}={value}" for size, value in {**SIZES, **sizes}.items()]
    subprocess.run([memplan, "model", name, *dims, "-o", str(path)], check=True)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    for node in model.graph.node:
        if node.op_type == "Dropout":
            del node.input[2:]  # as in evaluation
    inputs = {key: value.detach().numpy() for key, value in {**data, **weights}.items()}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # that a constant is not read any more is no news
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found = torch.from_numpy(session.run(None, inputs)[0])
    return (found - expected).abs().max().item(), expected.abs().max().item()


def held_bytes(model: nn.Module, data: Weights) -> int:
    """Bytes of storages that autograd holds when forward ends, but for parameters, buffers and the batch."""
    always = [*model.parameters(), *model.buffers(), *data.values()]
    known = {t.untyped_storage().data_ptr() for t in always}
    held: dict[int, torch.UntypedStorage] = {}  # which keeps them alive, so that no address comes twice

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            held[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        answer = model.train()(**data)
    del answer
    return sum(storage.nbytes() for storage in held.values())


def memplan_bytes(memplan: str, name: str, layers: int, dims: list[str]) -> int:
    command = [memplan, "estimate", name, "--batch", str(BATCH), f"--dim=layers={layers}", *dims]
    told = subprocess.run([*command, "--device", "cpu", "--rules", "pytorch", "--loss", "none", "--json"], check=True, capture_output=True)
    return json.loads(told.stdout)["saved_activation_bytes"]


def layer_bytes(memplan: str, name: str) -> tuple[int, int]:
    """Bytes that one more layer holds: in PyTorch, in memplan. With dropout attention is written out, without it is one operator."""
    tokens = {"input_ids": torch.randint(WORDS, (BATCH, 128))}
    both = {**tokens, "decoder_input_ids": torch.randint(WORDS, (BATCH, 128))}
    build, data = {
        "gpt2": (
            lambda n: hf.GPT2LMHeadModel(
                hf.GPT2Config(n_layer=n, activation_function="gelu_pytorch_tanh", attn_implementation="eager")
            ),
            tokens,
        ),
        "bert-base": (
            lambda n: hf.BertModel(hf.BertConfig(num_hidden_layers=n, attn_implementation="eager")),
            tokens,
        ),
        "vit-base": (
            lambda n: hf.ViTForImageClassification(hf.ViTConfig(num_hidden_layers=n, attn_implementation="sdpa")),
            {"pixel_values": torch.randn(BATCH, 3, 224, 224)},
        ),
        "t5-small": (
            lambda n: hf.T5ForConditionalGeneration(hf.T5Config(num_layers=n, attn_implementation="eager")),
            both,
        ),
    }[name]
    dims = [] if name == "vit-base" else ["--dim=sequence=128"]
    theirs = held_bytes(build(3), data) - held_bytes(build(2), data)
    if name == "t5-small":
        theirs -= 5 * BATCH * 128 * 512 * 4  # normalizations of an encoder's layer and a decoder's
    return theirs, memplan_bytes(memplan, name, 3, dims) - memplan_bytes(memplan, name, 2, dims)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    torch.manual_seed(0)
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in FAMILIES:
            worst, largest = difference(sys.argv[1], name, Path(folder))
            bad += worst > WORST * largest
            print(f"{name:14} differs by {worst:.1e} of {largest:.2f}")
    for name in ("gpt2", "bert-base", "vit-base", "t5-small"):
        theirs, ours = layer_bytes(sys.argv[1], name)
        bad += theirs != ours
        print(f"{name:14} a layer holds {theirs:,} bytes in PyTorch, {ours:,} in memplan")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
