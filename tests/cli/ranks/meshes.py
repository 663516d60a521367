#!/usr/bin/env python3
"""meshes.py MEMPLAN - rates beside a calculation by hand, notes beside the verdict, and remedies if no mesh fits."""

from __future__ import annotations

import json
import subprocess
import sys

MEMPLAN = sys.argv[1]


def run(command: str, *words: str) -> str:
    return " ".join(subprocess.run([MEMPLAN, command, *words], capture_output=True, text=True).stdout.split())


def ask(command: str, *words: str) -> dict:
    return json.loads(run(command, *words, "--json"))


def rates() -> None:
    """6 FLOPs per token and parameter of a product, 12 layers * width * sequence per token for attention (PaLM, appendix B)."""
    for words, peak in ((["--dtype", "bf16"], 312e12), ([], 19.5e12), (["--amp", "fp16"], 312e12), (["--tf32"], 156e12)):
        found = ask("parallel", "gpt2", "--devices", "4", "--device", "a100", "--global-batch", "32", *words)
        best = found["best"][0]
        assert found["tokens_per_sample"] == 1024
        assert abs(best["samples_per_second"] * best["seconds"] / 32 - 1) < 1e-9
        assert abs(best["tokens_per_second"] / best["samples_per_second"] / 1024 - 1) < 1e-9
        flops = 32 * 1024 * (6 * (12 * 12 * 768**2 + 50257 * 768) + 12 * 12 * 768 * 1024)
        share = flops / (best["seconds"] * 4 * peak)
        assert abs(best["flops_share"] / share - 1) < 0.02, (words, best["flops_share"], share)
    found = ask("parallel", "resnet50.onnx", "--devices", "2", "--device", "a100", "--global-batch", "16")
    best = found["best"][0]
    assert found["tokens_per_sample"] is None and best["tokens_per_second"] is None
    # 4.1 billion multiply-adds per image in forward, twice as many in backward
    assert abs(best["flops_share"] / (16 * 3 * 2 * 4.1e9 / (best["seconds"] * 2 * 19.5e12)) - 1) < 0.03


def types() -> None:
    """The first line names the type; the next ones say how to change it, unless the user chose it."""
    words = ["gpt2-small", "--devices", "2", "--global-batch", "8"]
    for chosen, name, has_note in (([], "fp32", True), (["--dtype", "fp32"], "fp32", False), (["--amp", "bf16"], "bf16", False)):
        said, found = run("parallel", *words, *chosen), ask("parallel", *words, *chosen)
        note = f"Planned in {name} because neither --dtype nor --amp is given."
        assert said.startswith(f"gpt2 in {name} on 2 devices") and found["type"] == name, said
        assert (note in said[:500]) == has_note and any(note in n for n in found["notes"]) == has_note, (chosen, said)
        assert not has_note or "--dtype bf16 or --amp bf16" in said


def tight() -> None:
    """A stage that fills more than 97 % is reported with a mesh that fills at most 95 %, or with the option for one."""
    words = ["gpt2-small", "--devices", "2", "--global-batch", "8", "--mesh", "dp=2", "--micro-batch-size", "4"]
    peak = ask("parallel", *words)["best"][0]["peak_bytes"]
    for share, is_tight in ((0.98, True), (0.9, False)):
        said = run("parallel", *words, "--memory", str(int(peak / share)))
        assert ("The fit is tight: the fullest stage holds 98.0 % of the memory" in said) == is_tight, (share, said)
    found = ask("parallel", "llama3-8b", "--dim", "layers=4", "--devices", "8", "--device", "h100", "--dtype", "bf16", "--global-batch", "64")
    full = found["best"][0]["peak_bytes"] / found["memory_bytes"]
    assert (full > 0.97) == any("tight" in n for n in found["notes"]), (full, found["notes"])


def order() -> None:
    """Each mesh is ranked once. Of those within 3 % of the fastest, none is more complex than one ranked behind it."""
    found = ask("parallel", "gpt2-small", "--devices", "8", "--global-batch", "64")
    best = found["best"]
    assert len({json.dumps(c["mesh"]) for c in best}) == len(best) == 5
    fastest = min(c["seconds"] for c in best + found["set_aside"] if c["seconds"])
    weights = {"dp": 1, "shard": 1, "tp": 2, "pp": 3, "ep": 2}
    used = [
        sum(w * (c["mesh"][d] > 1) for d, w in weights.items()) + (c["mesh"]["zero"] in (1, 2)) for c in best if c["seconds"] <= 1.03 * fastest
    ]
    assert len(used) > 2 and used == sorted(used), used


def remedies() -> None:
    """Each change fits if it is asked for, in the seconds that were said."""
    words = ["gpt2", "--devices", "2", "--memory", "900MiB", "--global-batch", "4"]
    found, said = ask("parallel", *words), run("parallel", *words)
    changes = [r["change"] for r in found["remedies"]]
    assert not found["best"] and "--lora 16:*" in changes and "--devices 4 --global-batch 8" in changes, changes
    for remedy in found["remedies"]:
        changed = [w for k, w in enumerate(words) if not ("--devices" in remedy["change"] and k in (1, 2, 5, 6))]
        best = ask("parallel", *changed, *remedy["change"].split())["best"][0]
        assert remedy["change"] in said and best["peak_bytes"] <= 900 << 20, (remedy, best)
        assert abs(best["seconds"] / remedy["seconds"] - 1) < 1e-9, (remedy, best["seconds"])
    words = ["gpt2", "--devices", "2", "--memory", "3GiB", "--global-batch", "64", "--mesh", "dp=2", "--micro-batch-size", "16"]
    for more, offered in ([], {"--micro-batch-size 1", "without --mesh"}), (["--lora", "8:*"], {"--micro-batch-size 1"}):
        changes = {r["change"] for r in ask("parallel", *words, *more)["remedies"]}
        assert offered <= changes and "--lora 16:*" not in changes, changes


rates()
types()
tight()
order()
remedies()
