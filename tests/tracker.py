#!/usr/bin/env python3
"""tracker.py [-h] [--amp TYPE] [--head-chunks N] [NAME...] - the peak of a training step: `memplan estimate --rules pytorch` beside PyTorch's tracker.

By hand, not in CI: needs torch and onnx; torchvision for the networks that are not in tests/bench/torch_nets.py. PyTorch's MemTracker runs
two steps with AdamW (fused: without temporaries) on tensors without memory, so that networks of any size take seconds; the second step counts. The same module is
exported without its parameters (TorchScript, training mode) and estimated at the same batch. Dropout is off with --no-dropout, since with it
PyTorch runs its attention operator by operator. With --lora RANK transformers get adapters of that rank beside the products that make
queries and values: those of the package peft there, --lora here; the numbers of trained parameters must be equal.
PyTorch runs its attention operator by operator. With --head-chunks N, PyTorch computes the logits and their loss in N chunks of rows, and
memplan has --row-chunks head=N. Networks need a linear head without bias. With --amp both have mixed precision: PyTorch as on a card (torch_on_cards.py), where
dropout would cost other bytes than on the CPU, so it is off.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional as F

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "bench"))

import torch_nets
from torch_on_cards import card_peak
from torch_step import Network, chunked_backward, tracked_peak, whole_backward, write_file

BATCHES = {
    "gpt2_small": 2, "llama": 2, "bert_base": 2, "vit_b_16": 8,
    "resnet50": 8, "mobilenet_v2": 8, "vgg16": 8, "densenet121": 8, "mobilenet_v3_large": 8,
}  # fmt: skip

TYPES = {"none": None, "bf16": torch.bfloat16, "fp16": torch.float16}


class WithoutDropout:
    """torch.nn.functional, where nothing is dropped."""

    def __getattr__(self, name: str) -> Any:
        return getattr(F, name)

    @staticmethod
    def dropout(x: Tensor, _p: float) -> Tensor:
        return x

    @staticmethod
    def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, **how: Any) -> Tensor:
        """On a card the kernels that run there in 16 bits: without a driver PyTorch would take the one that keeps all scores."""
        causal = how.get("is_causal", False)
        how["dropout_p"] = 0.0
        if not q.is_cuda:
            return F.scaled_dot_product_attention(q, k, v, attn_mask, **how)
        if attn_mask is None:
            return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)[0]
        low = torch.get_autocast_dtype("cuda")
        q, k, v, mask = (t.to(low) for t in (q, k, v, attn_mask))
        return torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, mask.expand(*q.shape[:3], k.shape[2]), True, 0.0, causal)[0]


ADAPTED = {"gpt2_small": ("qkv",), "llama": ("q", "v"), "bert_base": ("q", "v"), "vit_b_16": ("qkv",)}


HEADS = {"gpt2_small": "tokens.weight", "llama": "head.weight"}


def make_adapted(name: str, dropout: bool, rank: int) -> Network:
    """The same with peft's adapters."""
    from peft import LoraConfig, inject_adapter_in_model

    net, inputs, labels = make(name, dropout)
    if rank:
        with mock.patch.object(nn.Module, "to", lambda module, *_, **__: module):  # fake tensors cannot be moved, and are where they should be
            inject_adapter_in_model(LoraConfig(r=rank, target_modules=list(ADAPTED[name])), net)
    return net.train(), inputs, labels


def make(name: str, dropout: bool) -> Network:
    """The network in training mode, its inputs and labels."""
    batch = BATCHES[name]
    if name in torch_nets.NAMES and name not in torch_nets.IMAGES:
        net, (inputs, labels) = torch_nets.make_net(name), torch_nets.make_inputs(name, batch)
    else:
        import torchvision

        net = getattr(torchvision.models, name)()
        inputs, labels = (torch.randn(batch, 3, 224, 224),), torch.randint(1000, (batch,))
    if not dropout:
        for part in net.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.0
    return net.train(), inputs, labels


def estimated(program: str, name: str, dropout: bool, rank: int, folder: Path, amp: str, n_chunks: int) -> dict[str, int]:
    path = folder / f"{name}.onnx"
    net, inputs, _ = make(name, dropout)
    write_file(net, inputs, path)
    options = [f"--lora={rank}:layers.*.{module}.weight" for module in ADAPTED[name]] if rank else []
    options += ["--row-chunks", f"head={n_chunks}"] if n_chunks else []
    options += ["--rules", "pytorch", "--amp", amp, *(("--device", "cpu") if dropout else ())]  # whose masks are larger
    done = subprocess.run([program, "estimate", str(path), "--json", *options], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    answer: dict[str, int] = json.loads(done.stdout)
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(BATCHES), help=f"of {', '.join(BATCHES)}")
    parser.add_argument("--memplan", default=str(HERE.parent / "build/memplan"), help="the program")
    parser.add_argument("--no-dropout", action="store_true", help="modules that drop drop nothing")
    parser.add_argument("--lora", type=int, default=0, metavar="RANK", help="with adapters, of transformers")
    parser.add_argument("--amp", default="none", choices=list(TYPES), help="mixed precision; without dropout")
    parser.add_argument("--head-chunks", type=int, default=0, metavar="N", help="chunks of the logits, of networks without autocast")
    parser.add_argument("--engine", action="store_true", help="PyTorch's engine beside torch_on_cards.py's, on the CPU")
    args = parser.parse_args()
    dropout = not args.no_dropout and args.amp == "none"
    if args.amp != "none":
        torch_nets.F = WithoutDropout()  # type: ignore[assignment]
        torch_nets.BertLayer.fused = True
    with tempfile.TemporaryDirectory() as scratch:
        for name in args.names:
            if (args.lora and name not in ADAPTED) or (args.head_chunks and name not in HEADS):
                continue
            network = functools.partial(make_adapted, name, dropout, args.lora) if args.lora else functools.partial(make, name, dropout)
            answer = estimated(args.memplan, name, dropout, args.lora, Path(scratch), args.amp, args.head_chunks)
            backward = chunked_backward(HEADS[name], args.head_chunks) if args.head_chunks else whole_backward
            truth = tracked_peak(network, backward) if args.amp == "none" else card_peak(network, TYPES[args.amp])
            ours = card_peak(network, None, "cpu") if args.engine else answer["peak_bytes"]
            if args.lora:
                with torch.device("meta"):
                    trained = sum(p.numel() for p in network()[0].parameters() if p.requires_grad)
                print(f"{'':14} trained   PyTorch {trained:14,}  memplan {answer['n_trained_parameters']:14,}", flush=True)
            print(f"{name:14} batch {BATCHES[name]:2}  PyTorch {truth:14,}  memplan {ours:14,}  {100 * (ours / truth - 1):+.2f} %", flush=True)


if __name__ == "__main__":
    main()
