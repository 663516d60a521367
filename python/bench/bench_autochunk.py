"""The memory of steps whose loss Inductor's auto chunker splits into chunks, against published peaks on one GPU.

    PYTHONPATH=python/src python python/bench/bench_autochunk.py [ROW]...

The script runs the code that Inductor of the installed PyTorch generates (inductor_on_meta.py).

GPT-2: pytorch/pytorch#136702 publishes the number of chunks, and the allocated memory that train_gpt2.py of llm.c prints. The
script compiles model and loss as one graph. llm.c's example uses bf16 autocast and 1024 tokens. Three settings were
chosen after a look at the rows: 32 sequences, flash attention, and the option `optimize_scatter_upon_const_tensor`. The
published figures for 8, 16 and 32 chunks show 8 bytes per logit of a chunk. With this option PyTorch 2.15 needs 4 bytes per
logit. Without this option a chunk also contains the gradient of its log-probabilities in fp32. PyTorch 2.15 then needs 8 bytes.

Qwen3 1.7B: pytorch/torchtitan#2186 publishes two commands for one GPU with 16 sequences. The log prints the reserved memory.
qwen3_1.7b.toml of that commit has 4096 tokens per sequence and selective checkpointing of operators. torchtitan compiles each
layer. torchtitan also compiles the loss. For the auto chunker the compiled loss includes the output layer. On one GPU
parameters are in fp32, and forward runs under bf16 autocast. run_train.sh sets expandable segments. The commit does not tie
the output layer to the embedding, although the model's settings say so (pytorch/torchtitan#2252).
"""

from __future__ import annotations

import operator
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from inductor_on_meta import Compiled, CompiledModule
from published_rows import comparison, error_table
from torch import fx, nn
from torch.utils.checkpoint import CheckpointPolicy

import memplan

MIB, GIB = 1 << 20, 1 << 30
HALF = torch.bfloat16


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """A product under autocast."""
    return F.linear(x.to(HALF), weight.to(HALF), None if bias is None else bias.to(HALF))


def gelu(x: torch.Tensor) -> torch.Tensor:
    """GELU of GPT-2 under autocast: the cube is in fp32."""
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * x.float().pow(3.0))))


class Gpt2Block(nn.Module):
    """A layer of GPT-2 under autocast: the residual stream is in fp32."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        qkv = linear(self.first(x), self.attend.weight, self.attend.bias)
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in qkv.chunk(3, 2))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).contiguous().flatten(2)
        x = x + linear(attended, self.project.weight, self.project.bias)
        return x + linear(gelu(linear(self.second(x), self.up.weight, self.up.bias)), self.down.weight, self.down.bias)


class Gpt2(nn.Module):
    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12, vocabulary: int = 50257) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(1024, width)
        self.blocks = nn.ModuleList([Gpt2Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), ignore_index=-1)


def gpt2(chunks: int, batch: int = 32, length: int = 1024) -> Any:
    """Return the needs of a step of train_gpt2.py."""
    with torch.device("meta"):
        model = Gpt2()
    names = [name for name, _ in model.named_parameters()]

    def run(*tensors: torch.Tensor) -> Any:
        return torch.func.functional_call(model, dict(zip(names, tensors)), tensors[len(names) :])

    options = {"auto_chunker.enable": True, "auto_chunker.num_chunk": chunks, "optimize_scatter_upon_const_tensor": False}
    compiled = Compiled(run, options)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def forward(tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return compiled(*model.parameters(), tokens, labels)

    def train_step(tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = forward(tokens, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    inputs = tuple(torch.empty(batch, length, dtype=torch.long, device="meta") for _ in range(2))
    forward(*inputs)
    return memplan.estimate(train_step, inputs, device="a100").needs


class QwenBlock(nn.Module):
    """A layer of torchtitan's Qwen3 under autocast."""

    def __init__(self, width: int, heads: int, kv_heads: int, head: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head = heads, kv_heads, head
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q_norm, self.k_norm = nn.RMSNorm(head), nn.RMSNorm(head)
        self.wq, self.wo = nn.Linear(width, heads * head, bias=False), nn.Linear(heads * head, width, bias=False)
        self.wk, self.wv = (nn.Linear(width, kv_heads * head, bias=False) for _ in range(2))
        self.w1, self.w3 = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.w2 = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        q, k, v = (linear(h, layer.weight).unflatten(2, (-1, self.head)) for layer in (self.wq, self.wk, self.wv))
        cos, sin = (part.to(HALF)[None, :, None] for part in cache.chunk(2, 1))
        q, k = (rotated(norm(part), cos, sin) for norm, part in ((self.q_norm, q), (self.k_norm, k)))
        n = self.heads // self.kv_heads
        k, v = (part.unsqueeze(3).expand(-1, -1, -1, n, -1).flatten(2, 3) for part in (k, v))
        attended = F.scaled_dot_product_attention(*(part.transpose(1, 2) for part in (q, k, v)), is_causal=True)
        x = x + linear(attended.transpose(1, 2).contiguous().flatten(2), self.wo.weight)
        h = self.second(x)
        return x + linear(F.silu(linear(h, self.w1.weight)) * linear(h, self.w3.weight), self.w2.weight)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def selective(joint: fx.GraphModule) -> None:
    """Mark the operators of forward like torchtitan: it saves the results of attention and of every second product."""
    products = 0
    of_backward: set[fx.Node] = set()
    for node in joint.graph.nodes:
        if "tangents" in node.name or any(source in of_backward for source in node.all_input_nodes):
            of_backward.add(node)
        elif node.op == "call_function":
            is_product = node.target is torch.ops.aten.mm.default
            products += is_product
            name = str(node.target)
            is_saved = "scaled_dot_product" in name or (is_product and products % 2 == 1)
            if node.target is operator.getitem:
                is_saved = node.args[0].meta["recompute"] is CheckpointPolicy.MUST_SAVE
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE if is_saved else CheckpointPolicy.PREFER_RECOMPUTE
            node.meta["ac_graph_id"] = 0


class Qwen3(nn.Module):
    def __init__(self, layers: int = 28, width: int = 2048, vocabulary: int = 151936) -> None:
        super().__init__()
        self.tokens, self.norm = nn.Embedding(vocabulary, width), nn.RMSNorm(width)
        self.output = nn.Linear(width, vocabulary, bias=False)
        self.blocks = nn.ModuleList([QwenBlock(width, 16, 8, 128, 6144) for _ in range(layers)])
        self.register_buffer("cache", torch.empty(4096, 256))


def qwen3(is_chunked: bool, batch: int = 16, length: int = 4096) -> Any:
    """Return the needs of a step of torchtitan."""
    with torch.device("meta"):
        model = Qwen3()
    block = CompiledModule(lambda block, x, cache: block(x, cache), lambda m: dict(m.named_parameters()), partition=selective)

    def loss_of(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())

    plain = Compiled(loss_of)
    chunked = Compiled(lambda x, w, labels: loss_of(linear(x, w), labels), {"auto_chunker.enable": True})
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def forward(tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = model.tokens(tokens)
        for layer in model.blocks:
            x = block(layer, x, model.cache)
        x = F.rms_norm(x, (x.shape[-1],), model.norm.weight)
        return chunked(x, model.output.weight, labels) if is_chunked else plain(linear(x, model.output.weight), labels)

    def train_step(tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = forward(tokens, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        return loss.detach()

    inputs = tuple(torch.empty(batch, length, dtype=torch.long, device="meta") for _ in range(2))
    forward(*inputs)
    with mock.patch.dict(os.environ, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}):
        return memplan.estimate(train_step, inputs, device="h100").needs


@dataclass(frozen=True)
class Row:
    id: str
    published: int  # bytes
    make: Callable[[], Any]
    is_reserved: bool = False


ROWS = (
    Row("gpt2-chunks8", 14049 * MIB, partial(gpt2, 8)),
    Row("gpt2-chunks16", 13267 * MIB, partial(gpt2, 16)),
    Row("gpt2-chunks32", 12880 * MIB, partial(gpt2, 32)),
    Row("gpt2-chunks64", 12603 * MIB, partial(gpt2, 64)),
    Row("qwen3-plain", round(115.85 * GIB), partial(qwen3, False), is_reserved=True),
    Row("qwen3-chunked", round(84.15 * GIB), partial(qwen3, True), is_reserved=True),
)


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    errors: list[float] = []
    for row in ROWS:
        if names and row.id not in names:
            continue
        needs = row.make()
        found = needs.reserved_bytes if row.is_reserved else needs.tensors_bytes
        errors.append(found / row.published - 1)
        kind = "reserved" if row.is_reserved else "tensors"
        sys.stdout.write(f"{row.id}: {kind} {comparison(row.published, found, 'GiB')}\n")
        sys.stdout.flush()
    sys.stdout.write(error_table({"Inductor's auto chunker": errors}))


if __name__ == "__main__":
    main(sys.argv[1:])
