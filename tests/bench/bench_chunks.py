#!/usr/bin/env python3
"""bench_chunks.py MEMPLAN [--settings] [NETWORK...] - plans of long sequences with recomputation, with chunks of rows, with copies, and with all of them.

One sample in bf16 on one H100, as memplan's executor trains it. The budget is the static memory plus a share of the rest that keep-all needs. Each row has the
peak in GiB and the milliseconds of a step; a choice that does not fit has its smallest peak, in brackets. Exits with 1 if all choices together are slower than the
best single choice, or do not fit although a single one does.

--settings: another table. Each row keeps all tensors with the default chunks of a library (torchtitan: 8 chunks, TRL: 256 tokens). Its budget is the peak with these
chunks. The last columns are the step and the chunks that memplan chooses within this budget. Exits with 1 if memplan's step is slower than the library's default.
"""

from __future__ import annotations

import json
import subprocess
import sys

MEMPLAN, SETTINGS = sys.argv[1], "--settings" in sys.argv
NETWORKS = [word for word in sys.argv[2:] if word != "--settings"] or ["gpt2", "qwen3-1.7b", "llama3-8b"]
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


def main() -> int:
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
