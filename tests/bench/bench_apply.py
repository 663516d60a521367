#!/usr/bin/env python3
"""bench_apply.py [-h] [NET...] - runs the lines of `memplan apply` in PyTorch and transformers, and compares with its figures.

By hand, not in CI: needs torch and onnx; transformers for the networks hf_*. For each network a plan is made at a share of the peak with
everything kept. The lines for each framework are run on the network; PyTorch's MemTracker says the peak of a step with AdamW on tensors
without memory, and the gradients of a real step are compared with those of the network as it was, bit by bit."""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from bench_modules import make as make_own
from torch import Tensor, nn
from torch.nn import functional as F
from torch_step import Network, tracked_peak, write_file

OWN, SELECTIVE, HUGGING_FACE = "pytorch", "pytorch-selective", "huggingface"
NETS = {  # the framework of each row
    "gpt2_small": (OWN, SELECTIVE), "bert_base": (OWN, SELECTIVE), "resnet50": (OWN,), "unet": (OWN,),
    "hf_gpt2": (HUGGING_FACE, OWN, SELECTIVE), "hf_bert": (HUGGING_FACE, OWN, SELECTIVE), "hf_llama": (HUGGING_FACE, OWN, SELECTIVE),
}  # fmt: skip
TOKENS, VOCABULARY = 256, 8000


def logits_only(kind: type[nn.Module]) -> type[nn.Module]:
    """A model of transformers that returns the scores alone, a row for each token."""

    def forward(self: nn.Module, ids: Tensor) -> Tensor:
        scores: Tensor = kind.forward(self, input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        return scores.flatten(0, 1)

    return type(kind.__name__, (kind,), {"forward": forward})


def make_hugging_face(name: str) -> nn.Module:
    import transformers as hf

    small = {"vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    inner = {**small, "hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 6, "intermediate_size": 2048}
    makers: dict[str, Callable[[], nn.Module]] = {
        "hf_gpt2": lambda: logits_only(hf.GPT2LMHeadModel)(hf.GPT2Config(n_layer=6, n_embd=512, n_head=8, use_cache=False, **small)),
        "hf_bert": lambda: logits_only(hf.BertForMaskedLM)(hf.BertConfig(**inner)),
        "hf_llama": lambda: logits_only(hf.LlamaForCausalLM)(hf.LlamaConfig(num_key_value_heads=4, use_cache=False, **inner)),
    }
    return makers[name]()


def make(name: str) -> Network:
    """The network in training mode, its inputs and labels."""
    if not name.startswith("hf_"):
        return make_own(name)
    torch.manual_seed(0)
    net = make_hugging_face(name)
    return net.train(), (torch.randint(VOCABULARY, (4, TOKENS)),), torch.randint(VOCABULARY, (4 * TOKENS,))


def applied(name: str, lines: str) -> Network:
    net, inputs, labels = make(name)
    exec(lines, {"model": net})  # runs the printed lines themselves
    return net, inputs, labels


def gradients(network: Network) -> list[Tensor]:
    net, inputs, labels = network
    torch.manual_seed(1)
    F.cross_entropy(net(*inputs), labels).backward()  # type: ignore[no-untyped-call]
    return [p.grad for p in net.parameters() if p.grad is not None]


def answer(program: str, *words: str) -> dict[str, object]:
    done = subprocess.run([program, *words, "--json"], capture_output=True, text=True, check=False)
    if done.returncode and not done.stdout:
        raise SystemExit(done.stderr.strip())
    found: dict[str, object] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(NETS), help=f"of {', '.join(NETS)}")
    parser.add_argument("--memplan", default=str(Path(__file__).resolve().parents[2] / "build/memplan"), help="the program")
    parser.add_argument("--budget", type=float, default=0.85, help="of the plan, as a share of the peak with everything kept")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in args.names:
            model, plan = str(Path(scratch, f"{name}.onnx")), str(Path(scratch, "plan.json"))
            net, inputs, _ = make(name)
            write_file(net, inputs, Path(model))
            kept = int(str(answer(args.memplan, "estimate", model, "--device", "cpu", "--rules", "pytorch")["peak_bytes"]))
            budget = str(int(args.budget * kept))
            answer(args.memplan, "plan", model, "--device", "cpu", "--rules", "pytorch", "--budget", budget, "--effort", "quick", "--time-limit", "20", "-o", plan)
            plain = gradients(make(name))
            for whom in NETS[name]:
                told = answer(args.memplan, "apply", model, plan, "--for", whom)
                if not told["fits"]:
                    print(f"{name} {whom}: {str(told['text']).strip()}", flush=True)
                    continue
                lines, said = str(told["text"]), int(str(told["peak_bytes"]))
                tracked = tracked_peak(functools.partial(applied, name, lines))
                equal = all(torch.equal(a, b) for a, b in zip(plain, gradients(applied(name, lines)), strict=True))
                off = said / tracked - 1
                failed += not equal or abs(off) > 0.03
                print(
                    f"{name} {whom}: keep all {kept:,}, budget {int(budget):,}, said {said:,}, tracked {tracked:,}, {100 * off:+.2f} %, "
                    f"time {float(str(told['overhead'])):+.1%}, gradients {'equal' if equal else 'NOT equal'}; {lines.splitlines()[0]}",
                    flush=True,
                )
    sys.exit(f"{failed} rows are off by more than 3 % or have other gradients" if failed else 0)


if __name__ == "__main__":
    main()
