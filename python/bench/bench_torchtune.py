"""The memory of torchtune's recipes for one GPU, with torchtune's networks and loss, against the tables of its README.

    PYTHONPATH=python/src:TORCHTUNE:NEEDS python python/bench/bench_torchtune.py [ROW]...

TORCHTUNE is a folder with torchtune 0.3.1 (rows TUNE-0 to TUNE-3) or 0.4.0 (rows TUNE-3B). NEEDS is a folder with their
requirements, among them torchao 0.5. Published figures: README.md of meta-pytorch/torchtune, rows TUNE of published.csv. The
figures are maxima of active memory in GiB (`training.get_memory_stats`).

Sources of the settings:

* TUNE-0 to TUNE-3: pull request 1664 of 24 September 2024: batch 2, packed to 2048 tokens, torch.compile. The files
  8B_full_single_device.yaml and 8B_lora_single_device.yaml of that commit name LoRA's modules, the paged 8-bit AdamW and the
  optimizer step within backward. bitsandbytes keeps paged states outside of PyTorch's allocator.
* TUNE-3B: pull request 2003 of 18 November 2024: batch 2, packed to 4096 tokens. Each row adds one setting to the row above.
  Other configurations of torchtune use AdamW with fused=True. 8-bit AdamW is torchao's, as in torchtune's documentation.
  TUNE-3B-8 is the row LoRA of the README, with the file 3B_lora_single_device.yaml.

The README does not state checkpointing and offloading of the rows TUNE-0 to TUNE-3. We chose an assumption after a look at the
rows. Rows of the RTX 4090 (24 GB) checkpoint layers and store activations on the host. Rows of the A6000 (48 GB) do neither.
A maintainer later named both settings for TUNE-0, offloading as optional (issue 2168). Without offloading, the estimate of
TUNE-0 is 19.8 GiB.

The script runs the code that Inductor of the installed PyTorch generates (inductor_on_meta.py). torchtune compiles each layer
and the chunks of the chunked loss. It does not compile the other loss: `compile_loss` returns a compiled loss, but the recipe
ignores the result. Flex attention is compiled separately, and allocates the same tensors as flash attention.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any
from unittest import mock

import torch
from inductor_on_meta import Compiled, CompiledModule, functions_of_gpu
from published_rows import comparison, error_table
from torch import nn
from torchtune import modules, training
from torchtune.models import llama3_1, llama3_2
from torchtune.modules.loss import CEWithChunkedOutputLoss
from torchtune.modules.peft import get_adapter_params, set_trainable_params

import memplan

GIB = 1 << 30
IGNORED = -100
ADAMW = functools.partial(torch.optim.AdamW, fused=True)
PAGED = functools.partial(torch.optim.SGD, fused=True)  # states that PyTorch's allocator does not count
EIGHT_BITS = functools.partial(torch.optim.SGD, fused=True, momentum=0.9)  # two states of 8 bits have the bytes of one of 16
SCALES = 2 * 4 / 256  # bytes of scales per element: fp32 numbers of blocks of 256, two states


class Found(Exception):
    """The tensors that a call of attention would receive."""


def stop(*tensors: torch.Tensor, **_: Any) -> None:
    raise Found(*tensors[:3])


def queries(attention: Any, x: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return queries, keys and values."""
    try:
        with mock.patch.object(attention, "_attention_call", stop):
            attention(x, x, input_pos=positions)
    except Found as found:
        return found.args
    raise AssertionError("torchtune calls attention by another name")


def after_attention(attention: Any, x: torch.Tensor) -> torch.Tensor:
    return attention.output_proj(x.transpose(1, 2).contiguous().flatten(2))


def after_sum(layer: Any, attended: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    h = attended + x
    return h + layer.mlp(layer.mlp_norm(h))


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(logits.float(), labels, ignore_index=IGNORED, reduction="sum")


def tensors_of(*names: str) -> Callable[[nn.Module], dict[str, torch.Tensor]]:
    """Return a function that lists the parameters and buffers of some children of a module."""

    def found(module: nn.Module) -> dict[str, torch.Tensor]:
        state = [*module.named_parameters(), *module.named_buffers()]
        return {name: tensor for name, tensor in state if name.partition(".")[0] in names}

    return found


NORM = CompiledModule(lambda layer, x: layer.sa_norm(x), tensors_of("sa_norm"))
QUERIES = CompiledModule(queries, tensors_of("q_proj", "k_proj", "v_proj", "pos_embeddings"))
PROJECTION = CompiledModule(after_attention, tensors_of("output_proj"))
SUM = CompiledModule(after_sum, tensors_of("mlp", "mlp_norm"))
LOSS = Compiled(cross_entropy)


def compiled_layer(self: Any, x: torch.Tensor, *, input_pos: Any = None, **_: Any) -> torch.Tensor:
    """Run a layer as four compiled graphs. torch.compile breaks the graph at the attention module and at flex attention."""
    q, k, v = QUERIES(self.attn, NORM(self, x), input_pos)
    attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return SUM(self, PROJECTION(self.attn, attended), x)


class Offloaded:
    """torchtune's OffloadActivations with its stream of copies.

    Activations of at least 1 KiB move to the host. The last five activations stay on the GPU until the first node of backward
    that reads an activation has run. Fetched activations stay until the next such node has run.
    """

    STASH, LEAST = 5, 1024

    def __init__(self) -> None:
        self.n = 0
        self.stash: dict[int, torch.Tensor] = {}
        self.fetched: dict[int, torch.Tensor] = {}

    def pack(self, x: torch.Tensor) -> Any:
        self.n += 1
        if x.numel() * x.element_size() < self.LEAST or isinstance(x, (nn.Parameter, nn.Buffer)):
            return x
        self.stash = {k: kept for k, kept in self.stash.items() if k > self.n - self.STASH}
        self.stash[self.n] = x
        return self.n, x.size(), x.stride(), x.dtype

    def unpack(self, saved: Any) -> torch.Tensor:
        if isinstance(saved, torch.Tensor):
            return saved
        number, size, stride, dtype = saved
        before = list(self.fetched)
        x = self.stash.get(number)
        if x is None:
            x = self.fetched[number] = torch.empty_strided(size, stride, dtype=dtype, device="meta")

        def drop(*_: Any) -> None:
            self.stash.clear()
            for k in before:
                self.fetched.pop(k, None)

        node: Any = torch._C._current_autograd_node()
        node.register_hook(drop)
        return x


@dataclass(frozen=True)
class Row:
    id: str
    published: float
    make: Callable[[], Any]
    tokens: int = 4096
    is_compiled: bool = True
    is_chunked: bool = True
    is_checkpointed: bool = True
    in_backward: bool = False
    is_on_host: bool = False  # activations
    optimizer: Callable[..., Any] = ADAMW


def lora_8b() -> Any:
    model = llama3_1.lora_llama3_1_8b(["q_proj", "v_proj"], lora_rank=8, lora_alpha=16)
    set_trainable_params(model, get_adapter_params(model))
    return model


def llama_8b() -> Any:
    return llama3_1.llama3_1_8b()


def llama_3b() -> Any:
    return llama3_2.llama3_2_3b()


def lora_3b() -> Any:
    wanted = ["q_proj", "v_proj", "output_proj"]
    model = llama3_2.lora_llama3_2_3b(wanted, apply_lora_to_mlp=True, lora_rank=64, lora_alpha=128)
    set_trainable_params(model, get_adapter_params(model))
    return model


ROWS = (
    Row("TUNE-0", 18.9, llama_8b, 2048, in_backward=True, is_on_host=True, optimizer=PAGED),
    Row("TUNE-1", 37.4, llama_8b, 2048, in_backward=True, is_checkpointed=False, optimizer=PAGED),
    Row("TUNE-2", 16.2, lora_8b, 2048, is_on_host=True),
    Row("TUNE-3", 30.3, lora_8b, 2048, is_checkpointed=False),
    Row("TUNE-3B-1", 60.0, llama_3b, is_compiled=False, is_chunked=False, is_checkpointed=False),
    Row("TUNE-3B-2", 51.0, llama_3b, is_chunked=False, is_checkpointed=False),
    Row("TUNE-3B-3", 42.9, llama_3b, is_checkpointed=False),
    Row("TUNE-3B-4", 24.9, llama_3b),
    Row("TUNE-3B-5", 23.1, llama_3b, in_backward=True),
    Row("TUNE-3B-6", 21.8, llama_3b, in_backward=True, is_on_host=True),
    Row("TUNE-3B-7", 17.6, llama_3b, in_backward=True, is_on_host=True, optimizer=EIGHT_BITS),
    Row("TUNE-3B-8", 8.5, lora_3b, is_on_host=True),
)


def model_of(row: Row) -> Any:
    with torch.device("meta"), training.set_default_dtype(torch.bfloat16):
        model = row.make()
    for module in model.modules():
        if hasattr(module, "rope_init"):
            module.rope_init()
            module.to("meta")
    if row.is_checkpointed:
        training.set_activation_checkpointing(model, auto_wrap_policy={modules.TransformerSelfAttentionLayer})
    return model.train()


@contextlib.contextmanager
def settings(row: Row, model: Any) -> Iterator[None]:
    """Within the context, layers run compiled code, and the output layer saves its tensors on the GPU."""
    output = model.chunked_output

    def outside(x: torch.Tensor) -> Any:
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
            return output(x)

    with contextlib.ExitStack() as stack:
        if row.is_compiled:
            stack.enter_context(mock.patch.object(modules.TransformerSelfAttentionLayer, "forward", compiled_layer))
        if row.is_on_host:
            stack.enter_context(mock.patch.object(model, "chunked_output", outside))
        yield


def steps_of(row: Row, model: Any) -> tuple[Callable[..., torch.Tensor], Callable[..., torch.Tensor]]:
    """Return two functions: forward, and a whole step."""
    loss_of: Any = CEWithChunkedOutputLoss() if row.is_chunked else nn.CrossEntropyLoss()
    if row.is_chunked:
        model.set_num_output_chunks(loss_of.num_output_chunks)
        if row.is_compiled:
            loss_of.compute_cross_entropy = LOSS
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = None if row.in_backward else row.optimizer(trained, lr=1e-5)
    if row.in_backward:
        training.register_optim_in_bwd_hooks(model=model, optim_dict={p: row.optimizer([p], lr=1e-5) for p in trained})
    ignored = torch.full((2, 1), IGNORED, device="meta")

    def forward(tokens: torch.Tensor, labels: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        hooks = Offloaded()
        with torch.autograd.graph.saved_tensors_hooks(hooks.pack, hooks.unpack) if row.is_on_host else contextlib.nullcontext():
            logits = model(tokens=tokens, input_pos=positions)
        labels = torch.hstack((labels[..., 1:], ignored))
        if not row.is_chunked:
            logits, labels = logits.flatten(0, 1), labels.flatten()
        return loss_of(logits, labels)

    def train_step(*batch: torch.Tensor) -> torch.Tensor:
        loss = forward(*batch)
        loss.backward()
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return forward, train_step


def tensors_bytes(row: Row) -> float:
    model = model_of(row)
    forward, step = steps_of(row, model)
    batch = tuple(torch.empty(2, row.tokens, dtype=torch.long, device="meta") for _ in range(3))
    with settings(row, model):
        if row.is_compiled:
            with functions_of_gpu():
                forward(*batch)  # outside of memplan's modes, Inductor generates code
        needs = memplan.estimate(step, batch, device="a100").needs
    assert needs is not None
    scales = SCALES * sum(p.numel() for p in model.parameters()) if row.optimizer is EIGHT_BITS else 0
    return needs.tensors_bytes + scales


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    is_3b = version("torchtune") >= "0.4"
    errors: list[float] = []
    for row in ROWS:
        if ("3B" in row.id) is is_3b and (not names or row.id in names):
            published, found = row.published * GIB, tensors_bytes(row)
            errors.append(found / published - 1)
            sys.stdout.write(f"{row.id}: tensors {comparison(published, found, 'GiB')}\n")
            sys.stdout.flush()
    sys.stdout.write(error_table({"torchtune": errors}))


if __name__ == "__main__":
    main(sys.argv[1:])
