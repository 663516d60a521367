#!/usr/bin/env python3
"""bench_chunks.py MEMPLAN [--settings|--time] [NETWORK...] - plans of long sequences with recomputation, with chunks of rows, with copies, and with all of them.

One sample in bf16 on one H100, as memplan's executor trains it. The budget is the static memory plus a share of the rest that keep-all needs. Each row has the
peak in GiB and the milliseconds of a step; a choice that does not fit has its smallest peak, in brackets. Exits with 1 if all choices together are slower than the
best single choice, or do not fit although a single one does.

--settings: another table. Each row keeps all tensors with the default chunks of a library (torchtitan: 8 chunks, TRL: 256 tokens). Its budget is the peak with these
chunks. The last columns are the step and the chunks that memplan chooses within this budget. Exits with 1 if memplan's step is slower than the library's default.

--time: processor seconds of plan with --row-chunks off and auto, for models of the folder DATA and networks known by name.
The last line is the median ratio. Exits with 1 if the median ratio exceeds 2.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

MEMPLAN, SETTINGS, TIME = sys.argv[1], "--settings" in sys.argv, "--time" in sys.argv
NETWORKS = [word for word in sys.argv[2:] if not word.startswith("--")] or ["gpt2", "qwen3-1.7b", "llama3-8b"]
TOKENS = (8192, 32768, 131072)
SHARE = 0.4
USUAL = ("--batch", "1", "--dtype", "bf16", "--device", "h100", "--rules", "executor", "--json")
CHOICES = {
    "recomputation": (),
    "chunks": ("--row-chunks", "auto", "--solver", "none"),
    "copies": ("--offload", "host", "--solver", "copy-only"),
    "all": ("--row-chunks", "auto", "--offload", "host"),
}


def answer(command: str, network: str, tokens: int, *more: str) -> dict:
    words = [MEMPLAN, command, network, "--dim", f"sequence={tokens}", *USUAL, *more]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.stdout, (words, done.stderr)
    return json.loads(done.stdout)


def of(found: dict) -> tuple[bool, float, float]:
    return found["feasible"] is True, found["peak_bytes"] / 2**30, found["seconds"] * 1e3


def settings() -> int:
    """Prints the table of the libraries' defaults. Returns 1 if a row of memplan is slower."""
    is_worse = False
    print("| network | tokens | setting | peak | step | memplan's step | memplan's chunks |\n|-|-:|-|-:|-:|-:|-|")
    for network in NETWORKS:
        for tokens in TOKENS:
            for setting, parts in (("whole logits", 0), ("torchtitan: 8 chunks", 8), ("TRL: 256 tokens", tokens // 256)):
                chunks = ("--row-chunks", f"head={parts}" if parts else "off")
                peak = answer("estimate", network, tokens, *chunks)["peak_bytes"]
                budget = ("--budget", f"{peak}B")
                theirs = of(answer("plan", network, tokens, *budget, "--solver", "none", *chunks))
                plan = answer("plan", network, tokens, *budget, "--effort", "quick", *CHOICES["all"])
                ours = of(plan)
                named = ", ".join(f"{kind}={n}" for kind, n in plan.get("row_chunks", {}).items()) or "none"
                print(f"| {network} | {tokens:,} | {setting} | {peak / 2**30:.1f} GiB | {theirs[2]:,.0f} ms | {ours[2]:,.0f} ms | {named} |", flush=True)
                is_worse |= not ours[0] or ours[2] > theirs[2]
    return is_worse


# networks, batches and budgets of --time; the last budgets of a row are below the floor
TIMED = (
    ("llama3-8b", 1, ("min", "70%", "80%", "50% backward", "70% backward")),
    ("qwen3-1.7b", 4, ("min", "50%", "70%", "40% backward")),
    ("gpt2", 8, ("min", "50%", "70%", "50% backward", "10%", "20% backward")),
    ("gpt2_small.onnx", 4, ("min", "50%", "30%")),
    ("bert_base_loss.onnx", 8, ("min", "50%", "25%")),
    ("vit_b_16.onnx", 16, ("50%", "70%")),
    ("mlp4.onnx", 4096, ("min", "50%")),
    ("resnet50.onnx", 32, ("50%",)),
    ("unet.onnx", 2, ("50%",)),
    ("vgg16.onnx", 32, ("50%",)),
    ("mobilenet_v2.onnx", 32, ("50%",)),
)


def processor_seconds(*words: str) -> float:
    before = os.times()
    subprocess.run([MEMPLAN, "plan", *words, "--json"], capture_output=True, check=False)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def times() -> int:
    """Prints the table of planning times. Returns 1 if the median ratio exceeds 2."""
    ratios = []
    print("| network | batch | budget | off | auto | ratio |\n|-|-:|-|-:|-:|-:|")
    for network, batch, budgets in TIMED:
        path = str(Path(os.environ["DATA"], "models", network)) if network.endswith(".onnx") else network
        for text in budgets:
            budget, *fuse = text.split()
            words = (path, "--batch", str(batch), "--budget", budget, "--fuse", fuse[0] if fuse else "none", "--row-chunks")
            off, auto = (processor_seconds(*words, chunks) for chunks in ("off", "auto"))
            ratios.append(auto / off)
            print(f"| {network.removesuffix('.onnx')} | {batch} | {text} | {off:.2f} s | {auto:.2f} s | {auto / off:.2f} |", flush=True)
    print(f"median of {len(ratios)} ratios: {statistics.median(ratios):.2f}")
    return statistics.median(ratios) > 2


def main() -> int:
    if TIME:
        return times()
    if SETTINGS:
        return settings()
    is_worse = False
    print("| network | tokens | keep all | budget | " + " | ".join(CHOICES) + " | chunks of all |")
    print("|-|-:|-:|-:|" + "-:|" * len(CHOICES) + "-|")
    for network in NETWORKS:
        for tokens in TOKENS:
            whole = answer("estimate", network, tokens)
            static = whole["static_bytes"]
            budget = int(static + SHARE * (whole["peak_bytes"] - static))
            found = {name: answer("plan", network, tokens, "--budget", f"{budget}B", "--effort", "quick", *more) for name, more in CHOICES.items()}
            cells = [f"{peak:.1f} GiB, {time:,.0f} ms" if fits else f"({peak:.1f} GiB)" for fits, peak, time in map(of, found.values())]
            chunks = ", ".join(f"{kind}={n}" for kind, n in found["all"].get("row_chunks", {}).items())
            keep_all = f"{whole['peak_bytes'] / 2**30:.1f} GiB, {found['recomputation']['baseline_seconds'] * 1e3:,.0f} ms"
            print(f"| {network} | {tokens} | {keep_all} | {budget / 2**30:.1f} GiB | {' | '.join(cells)} | {chunks} |", flush=True)
            fits, _, best = of(found.pop("all"))
            singles = [time for does, _, time in map(of, found.values()) if does]
            is_worse |= bool(singles) and (not fits or best > min(singles))
    return is_worse


if __name__ == "__main__":
    sys.exit(main())
