"""Explanations of explain_oom for common networks, and runs of the line that explain_oom suggests.

make bench-python BENCH=explained [NETWORKS="resnet18 lstm"]

python/tests/explain/limit.c limits the bytes of PyTorch's allocator to a share of the peak of eager steps. Three kinds of
processes run: eager steps without a limit, eager steps that fail at the limit, and steps with the suggested line at the same
limit.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import networks
import torch
import zoo
from explain import out_of_memory, test_explain

import memplan

STEPS = 2
PARTS = (0.85, 0.7)
MIB = 1 << 20
BERT = {**zoo.BERT, "hidden_size": 256, "intermediate_size": 1024}
GPT2 = {"n_embd": 256, "n_layer": 6, "n_head": 4}


def text(kind: str, model: str, config: dict[str, Any], batch: int) -> zoo.Made:
    made, _ = zoo.text(kind, model, config, words=4096)
    tokens = torch.randint(4, 4096, (batch, 256))
    return made, (tokens, tokens.clone())


NETWORKS: dict[str, Callable[[], zoo.Made]] = {
    "resnet18": lambda: zoo.vision("resnet18", 48, 128),
    "gpt2": lambda: text("GPT2", "GPT2LMHeadModel", GPT2, 4),
    "bert": lambda: text("Bert", "BertForMaskedLM", BERT, 8),
    "unet": lambda: (networks.UNet(32), networks.pictures(8, 192)),
    "lstm": lambda: (zoo.Sequence(1000, 256), networks.sequences(64, 64, 1000)),
    "vision_transformer": lambda: (zoo.vision_transformer()[0], networks.images(128, 64)),
}


def train(name: str, line: str) -> None:
    torch.manual_seed(0)
    model, inputs = NETWORKS[name]()
    optimizer = torch.optim.AdamW(model.parameters())
    known: dict[str, Any] = {"memplan": memplan, "model": model, "optimizer": optimizer}
    exec(line, known)
    for _ in range(STEPS):
        if "step" in known:
            known["step"](*inputs)
        else:
            model(*inputs).backward()
            optimizer.step()
            optimizer.zero_grad()


def child(name: str, limit: int, line: str) -> dict[str, Any]:
    torch.set_num_threads(1)
    process: Any = ctypes.CDLL(None)
    process.limit_live.restype = process.limit_most.restype = ctypes.c_long
    process.limit_set.argtypes = [ctypes.c_long]
    before = process.limit_live()
    process.limit_set(before + limit if limit else 0)
    if line or not limit:
        train(name, line)
        return {"peak": process.limit_most() - before}
    found, tracked = out_of_memory.until_failure(lambda: train(name, ""))
    return {
        "part": found.account.total() / tracked,
        "tracked": tracked,
        "inside": found.inside[1],
        "at": f"{found.failure.phase}, {found.where.module}",
        "line": found.suggestion.line if found.suggestion is not None else "",
        "says": found.suggestion.sentence if found.suggestion is not None else "",
    }


def run(name: str, limit: int = 0, line: str = "") -> dict[str, Any]:
    """Return the answer of a process, or an empty dictionary if the process has failed."""
    command = [sys.executable, "-B", os.path.abspath(__file__), name, str(limit), line]
    environment = {**os.environ, "LD_PRELOAD": test_explain.limit_library()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}
    if not said:
        sys.stderr.write(done.stderr.splitlines()[-1] + "\n")
    return said


def mib(n_bytes: float) -> str:
    return f"{n_bytes / MIB:.1f}"


def main(names: list[str]) -> None:
    sys.stdout.write("| network | eager MiB | limit | alive | of the profiler's | fails in | the line's budget | its peak |\n")
    sys.stdout.write("|---|---:|---:|---:|---:|---|---|---:|\n")
    for name in names or NETWORKS:
        peak = run(name)["peak"]
        for part in PARTS:
            limit = int(part * peak)
            found = run(name, limit)
            ran = run(name, limit, found["line"]).get("peak") if found["line"] else None
            budget = found["line"].partition('budget="')[2].partition('"')[0] if found["line"] else f"none: {found['says']}"
            row = [
                name,
                mib(peak),
                mib(limit),
                mib(found["part"] * found["tracked"]),
                f"{found['part']:.3f}",
                found["at"],
                budget,
            ]
            sys.stdout.write(f"| {' | '.join(row)} | {mib(ran) if ran is not None else ''} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[2].isdigit():
        sys.stdout.write(f"{json.dumps(child(sys.argv[1], int(sys.argv[2]), sys.argv[3]))}\n")
    else:
        main(sys.argv[1:])
