"""The memory of torchtune's recipes for one GPU against the tables of its README, with torchtune's own networks and loss.

    PYTHONPATH=python/src:TORCHTUNE python python/bench/bench_torchtune.py [ROW]...

TORCHTUNE is a folder with torchtune 0.6.1 and its requirements, among them torchao 0.10. Published figures: the README of
meta-pytorch/torchtune, rows TUNE of published.csv.

Rows with torch.compile compile each layer and the loss. On the meta device nothing is compiled. So this script states which
tensors Inductor stores: norms, rotary embeddings, SwiGLU and the loss are one kernel each. Two assumptions were made after
the published figures were known: backward recomputes no kernel (TUNE-3B-3), and runs on the RTX 4090 store activations on the
host (TUNE-0, TUNE-2). 16-bit momentum replaces 8-bit AdamW.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import nn
from torchtune import modules, training
from torchtune.models.llama3_1 import llama3_1_8b, lora_llama3_1_8b
from torchtune.models.llama3_2 import llama3_2_3b
from torchtune.modules.loss import CEWithChunkedOutputLoss
from torchtune.modules.peft import get_adapter_params, set_trainable_params

import memplan

GIB = 1 << 30
IGNORED = -100
ADAMW = functools.partial(torch.optim.AdamW, fused=True)
SGD = functools.partial(torch.optim.SGD, fused=True)
MOMENTUM = functools.partial(SGD, momentum=0.9)


class Kernel(torch.autograd.Function):
    """A kernel that saves some of its operands, and whose backward writes a gradient for each differentiable operand."""

    @staticmethod
    def forward(ctx: Any, shape: Any, dtype: torch.dtype | None, extra: int, *operands: torch.Tensor) -> torch.Tensor:
        saved = [operands[0].new_empty(extra, dtype=torch.float32)] if extra else []
        ctx.save_for_backward(*operands, *saved)
        ctx.n = len(operands)
        return operands[0].new_empty(shape, dtype=dtype)

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> Any:
        operands = ctx.saved_tensors[: ctx.n]
        grads = [torch.empty_like(x) if need else None for x, need in zip(operands, ctx.needs_input_grad[3:])]
        return None, None, None, *grads


def norm(self: Any, x: torch.Tensor) -> torch.Tensor:
    return Kernel.apply(x.shape, x.dtype, x.numel() // x.shape[-1], x, self.scale)


def feed_forward(self: Any, x: torch.Tensor) -> torch.Tensor:
    gate, up = self.w1(x), self.w3(x)
    return self.w2(Kernel.apply(gate.shape, gate.dtype, 0, gate, up))


class Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return torch.empty_like(grads[0])


def rotate(self: Any, x: torch.Tensor, *, input_pos: Any = None) -> torch.Tensor:
    return Rotate.apply(x)


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor, normalize: bool = True) -> torch.Tensor:
    return Kernel.apply((), torch.float32, len(logits), logits, labels)


def pack(x: torch.Tensor) -> Any:
    """Move a saved tensor to the host, unless it is a parameter or a view of one."""
    return x if isinstance(x if x._base is None else x._base, nn.Parameter) else (x.shape, x.dtype)


def unpack(saved: Any) -> torch.Tensor:
    return saved if isinstance(saved, torch.Tensor) else torch.empty(saved[0], dtype=saved[1], device="meta")


@contextlib.contextmanager
def compiled(model: nn.Module) -> Iterator[None]:
    """Within the context, the layers store the tensors that Inductor stores."""
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            if type(module).__name__ == "Llama3ScaledRoPE":
                stack.enter_context(mock.patch.object(type(module), "forward", rotate))
        stack.enter_context(mock.patch.object(modules.RMSNorm, "forward", norm))
        stack.enter_context(mock.patch.object(modules.FeedForward, "forward", feed_forward))
        yield


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


def lora() -> Any:
    model = lora_llama3_1_8b(["q_proj", "v_proj", "output_proj"], apply_lora_to_mlp=True, lora_rank=8, lora_alpha=16)
    set_trainable_params(model, get_adapter_params(model))
    return model


ROWS = (
    Row("TUNE-0", 18.9, llama3_1_8b, 2048, in_backward=True, is_on_host=True, optimizer=SGD),  # paged states
    Row("TUNE-1", 37.4, llama3_1_8b, 2048, in_backward=True, optimizer=MOMENTUM),
    Row("TUNE-2", 16.2, lora, 2048, is_on_host=True),
    Row("TUNE-3", 30.3, lora, 2048, is_checkpointed=False),
    Row("TUNE-3B-1", 60.0, llama3_2_3b, is_compiled=False, is_chunked=False, is_checkpointed=False),
    Row("TUNE-3B-3", 42.9, llama3_2_3b, is_checkpointed=False),
    Row("TUNE-3B-4", 24.9, llama3_2_3b),
    Row("TUNE-3B-5", 23.1, llama3_2_3b, in_backward=True),
    Row("TUNE-3B-6", 21.8, llama3_2_3b, in_backward=True, is_on_host=True),
    Row("TUNE-3B-7", 17.6, llama3_2_3b, in_backward=True, is_on_host=True, optimizer=MOMENTUM),
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


def needs(row: Row) -> Any:
    model = model_of(row)
    loss_of: Any = CEWithChunkedOutputLoss() if row.is_chunked else nn.CrossEntropyLoss()
    if row.is_chunked:
        model.set_num_output_chunks(loss_of.num_output_chunks)
    if row.is_compiled:
        loss_of.compute_cross_entropy = cross_entropy
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = None if row.in_backward else row.optimizer(trained, lr=1e-5)
    if row.in_backward:
        training.register_optim_in_bwd_hooks(model=model, optim_dict={p: row.optimizer([p], lr=1e-5) for p in trained})
    ignored = torch.full((2, 1), IGNORED, device="meta")

    def train_step(tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack) if row.is_on_host else contextlib.nullcontext():
            logits = model(tokens=tokens)
        labels = torch.hstack((labels[..., 1:], ignored))
        if not row.is_chunked:
            logits, labels = logits.flatten(0, 1), labels.flatten()
        loss = loss_of(logits, labels)
        del logits
        loss.backward()
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    batch = tuple(torch.empty(2, row.tokens, dtype=torch.long) for _ in range(2))
    with compiled(model) if row.is_compiled else contextlib.nullcontext():
        return memplan.estimate(train_step, batch, device="a100").needs


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    for row in ROWS:
        if not names or row.id in names:
            tensors = needs(row).tensors_bytes / GIB
            sys.stdout.write(f"{row.id:10} published {row.published:6.2f} GiB, tensors {tensors:6.2f} GiB ")
            sys.stdout.write(f"({tensors / row.published - 1:+.1%})\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
