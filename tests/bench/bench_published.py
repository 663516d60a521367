#!/usr/bin/env python3
"""bench_published.py MEMPLAN DATA - the memory of a rank, beside published figures (DATA/bench/published/published.csv):
ZeRO's table 1, DeepSpeed's estimators, figures 1 and 7 of Korthikanti et al. 2022, and the records of Megatron-LM's tests
between steps, for pipelines also their maxima. `memplan parallel` judges runs of MPTs that fitted into 80 GB.

`memplan estimate --mesh` computes each row. If the published run recomputes, a plan with this recomputation is replayed. If a
published figure counts differently, a reason names the difference, and the last column is the error without this difference. Rows without a network of that shape say so."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import checkpoints
from measured import is_there

UNITS = {"GB (1e9)": 1e9, "GiB": 2**30, "B": 1.0, "%": 1.0}
STATES = ("parameter_bytes", "gradient_bytes", "optimizer_state_bytes")
# GPTs of about as many parameters: layers, width, heads. ZeRO's table is for any network, so bytes per parameter are compared.
OF_ABOUT = {"7.5B": (36, 4096, 32), "128B": (101, 10240, 80), "1T": (128, 25600, 160)}
KORTHIKANTI = {"22B": "megatron-22b", "175B": "megatron-175b", "1T": "megatron-1t"}
CHUNKS = {"175B": 3}  # of an interleaved pipeline's stage
# Per kind of row: the mesh, and the rule of recomputation (checkpoints.py).
RECOMPUTED = {
    "act-base": ("tp=8,sp=0", "none"),
    "act-present": ("tp=8", "core"),
    "seq": ("tp=8", "gathers"),
    "sel": ("tp=8,sp=0", "core"),
    "seqsel": ("tp=8", "core"),
    "full": ("tp=8,sp=0", "full"),
}
# MPTs: layers, width, heads. Their rows say tokens a second of a run that fits into 80 GB.
MPT = {"1B": (24, 2048, 16), "3B": (32, 2560, 20), "7B": (32, 4096, 32), "13B": (40, 5120, 40), "70B": (80, 8192, 64)}
MAIN_GRADIENTS = "main gradients in fp32: 2 bytes a parameter more"
CUBLAS = 8 << 22  # CUBLAS_WORKSPACE_CONFIG is :4096:8 in every one of these tests
CUBLAS_OF_A100 = (2 << 22) + (8 << 14)  # PyTorch's own choice
THREADS = 2  # PyTorch has a workspace of cuBLAS for each: that of forward, and that of autograd
LEFT = 2  # outputs of a chunk that are there between steps, as the records show
ENGINE = {"A100": 4 << 20, "H100": 32 << 20}  # the workspace of Transformer Engine


@dataclass(frozen=True)
class Answer:
    """The prediction in bytes or percent; the prediction without a known difference; and the name of this difference."""

    value: float | None
    reason: str = ""
    adjusted: float | None = None


@cache
def estimate(memplan: str, *arguments: str) -> dict[str, Any]:
    found = subprocess.run(
        [memplan, "estimate", *arguments, "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(found.stdout)
    return answer


def sizes(**named: int) -> list[str]:
    return [word for name, size in named.items() for word in ("--dim", f"{name.replace('_', '-')}={size}")]


def states(answer: dict[str, Any]) -> int:
    return sum(answer[name] for name in STATES)


def zero(memplan: str, row: dict[str, str]) -> Answer:
    """Bytes per parameter of a GPT of that size, times the published parameters."""
    layers, width, heads = OF_ABOUT[row["params"]]
    parameters = float(row["params"][:-1]) * {"B": 1e9, "T": 1e12}[row["params"][-1]]
    shape = [
        "gpt2",
        "--batch",
        "1",
        "--dtype",
        "fp16",
        *sizes(layers=layers, width=width, heads=heads, feed_forward=4 * width, sequence=64),
    ]
    mesh = ["--mesh", f"shard={row['dp']},zero={row['zero']}"] if int(row["dp"]) > 1 else []
    whole = estimate(memplan, *shape)["n_parameters"]
    return Answer(states(estimate(memplan, *shape, *mesh)) / whole * parameters)


def of_a_layer(memplan: str, name: str, row: dict[str, str], what: str, *more: str) -> float:
    """The bytes that one more layer adds to a rank."""
    shape = [name, "--batch", row["micro_batch"], "--dtype", "fp16", *more]
    two, three = (estimate(memplan, *shape, *sizes(layers=layers)) for layers in (2, 3))
    return float(states(three) - states(two)) if what == "state" else float(three[what] - two[what])


@cache
def kept_of_a_layer(memplan: str, name: str, batch: str, mesh: str, rule: str) -> int:
    """The bytes that one more layer keeps for backward under a rule of recomputation."""

    def of_layers(layers: int) -> int:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "graph.json"
            shape = [name, "--batch", batch, "--dtype", "fp16", *sizes(layers=layers), "--mesh", mesh, "--rules", "pytorch"]
            subprocess.run([memplan, "graph", *shape, "-o", str(path)], capture_output=True, check=True)
            return checkpoints.kept_bytes(memplan, json.loads(path.read_text()), rule, Path(folder))

    return of_layers(3) - of_layers(2)


def korthikanti(memplan: str, row: dict[str, str]) -> Answer:
    size, kind = row["id"].split("-", 3)[2:]
    name, stages, layers = KORTHIKANTI[size], int(row["pp"]), int(row["layers"])
    if kind == "state":
        mine = of_a_layer(memplan, name, row, "state", "--mesh", "tp=8") * layers / stages
        elements = of_a_layer(memplan, name, row, "n_parameters", "--mesh", "tp=8") * layers / stages
        return Answer(mine, MAIN_GRADIENTS, mine + 2 * elements)
    if kind not in RECOMPUTED:
        return Answer(None, "relative to what is kept without recomputation")
    base = kept_of_a_layer(memplan, name, row["micro_batch"], *RECOMPUTED["act-base"])
    mine = kept_of_a_layer(memplan, name, row["micro_batch"], *RECOMPUTED[kind])
    if row["unit"] == "%":
        return Answer(100 * mine / base)
    alive = layers * (1 + (stages - 1) / (stages * CHUNKS[size])) if size in CHUNKS else layers
    statistics = 2 * 8 * int(row["seq"]) * int(row["micro_batch"]) / (8 if row["sp"] == "yes" else 1)
    return Answer(mine * alive, "statistics of norms", (mine - statistics) * alive)


def deepspeed(memplan: str, row: dict[str, str]) -> Answer:
    """Bytes on a GPU. With the optimizer's state on the host there are no gradients, with zero=3 there is the largest layer,
    gathered, and its gradient. Published figures have two decimals."""
    asked, n = [row["model"], "--batch", "1", "--dtype", "fp16"], int(row["dp"])
    mine = estimate(memplan, *asked, "--mesh", f"shard={n},zero={row['zero']}")
    largest = max(operator["parameter_bytes"] for operator in estimate(memplan, *asked)["operators"])
    gathered, copy = (2 * largest if row["zero"] == "3" else 0), 4 * mine["n_parameters"] / n
    if "optimizer=cpu" in row["offload"]:
        return Answer((0 if "param=cpu" in row["offload"] else mine["parameter_bytes"]) + gathered)
    if row["zero"] == "3":
        theirs = states(mine) - mine["gradient_bytes"] + gathered + copy
        return Answer(states(mine) + gathered, "gradients in fp32 only", theirs)
    theirs = states(mine) - mine["gradient_bytes"] + 2 * mine["n_parameters"] + copy
    return Answer(states(mine), "gradients whole, and a part in fp32", theirs)


def split(row: dict[str, str]) -> str:
    """How operators are split, as a part of a mesh."""
    return f"tp={row['tp']}" + (",sp=0" if row["sp"] == "no" and row["tp"] != "1" else "")


def mesh_of(row: dict[str, str]) -> str:
    """The mesh of a row. Of ranks that share a context each has all parameters, as with dp."""
    replicas, stage = int(row["dp"]) * int(row["cp"]), row["zero"][0]
    return split(row) + (f",shard={replicas},zero={stage}" if stage != "0" else f",dp={replicas}")


def words_of(row: dict[str, str]) -> int:
    rows_of, words = 128 * int(row["tp"]), {"GPT": 50257, "7B ": 131073, "BER": 30522}[of_kind(row)]
    return math.ceil(words / rows_of) * rows_of


def of_kind(row: dict[str, str]) -> str:
    return next((kind for kind in ("7B ", "BER", "GPT") if kind in row["model"]), "")


def of_row(row: dict[str, str], layers: int, name: str = "gpt2") -> list[str]:
    """The network of a row. BERT of Megatron is a GPT that sees all tokens, with a head more."""
    heads, width = int(row["heads"].split()[0]), int(row["hidden"])
    pairs = 8 if of_kind(row) == "7B " else heads
    inner = sizes(width=width, heads=heads, key_value_heads=pairs, feed_forward=4 * width)
    shape = [*inner, *sizes(layers=layers, sequence=int(row["seq"]), vocabulary=words_of(row))]
    return ["megatron-7b" if of_kind(row) == "7B " else name, *shape, "--dtype", "bf16"]


def first_block(memplan: str, row: dict[str, str]) -> int:
    """The block with which the first layer begins: the first that has a layer's parameters together with the next one."""
    layers = int(row["layers"])

    def of_stage(block: int) -> int:
        mesh = ["--mesh", f"pp=2,{split(row)}", "--stages", f"0,{block}"]
        return int(estimate(memplan, *of_row(row, layers), *mesh)["ranks"][0]["parameter_bytes"])

    more, fewer = (
        int(estimate(memplan, *of_row(row, n), "--mesh", split(row))["parameter_bytes"]) for n in (layers, layers - 1)
    )
    block = 1
    while of_stage(block + 2) - of_stage(block) != more - fewer:
        block += 1
    return block


def chunks_of(row: dict[str, str]) -> int:
    return int(row["layers"]) // int(row["pp"]) if "interleaved, 1 layer" in row["note"] else 1


def asked_of(row: dict[str, str], name: str = "gpt2") -> list[str]:
    """The network and the mesh of a row without a pipeline, with all micro-batches of a step."""
    micro_batches = int(row["global_batch"]) // int(row["micro_batch"]) // int(row["dp"])
    batch = ["--batch", row["micro_batch"], "--accumulate", str(micro_batches)]
    return [*of_row(row, int(row["layers"]), name), *batch, "--mesh", mesh_of(row), "--rules", "pytorch"]


def last_rank(memplan: str, row: dict[str, str]) -> dict[str, Any]:
    """The last rank: of a pipeline of which each stage has as many layers, each of two blocks."""
    pp, layers, chunks = int(row["pp"]), int(row["layers"]), chunks_of(row)
    if pp == 1:
        return estimate(memplan, *asked_of(row))
    first, per_stage = first_block(memplan, row), layers // pp // chunks
    begins = [0, *(first + 2 * per_stage * k for k in range(1, pp * chunks))]
    batch = int(row["global_batch"]) // int(row["dp"])
    parts = ["--batch", str(batch), "--micro-batches", str(batch // int(row["micro_batch"]))]
    schedule = ["--pipeline-schedule", "interleaved", "--chunks", str(chunks)] if chunks > 1 else []
    stages = ["--stages", ",".join(map(str, begins)), "--rank", str(pp - 1)]
    return estimate(
        memplan, *of_row(row, layers), *parts, "--mesh", f"{mesh_of(row)},pp={pp}", *schedule, *stages, "--rules", "pytorch"
    )


def peak(memplan: str, row: dict[str, str], mine: dict[str, Any]) -> int:
    """Of keep-all, or where each layer is computed again of a plan that does that.

    Where attention and its dropout are one kernel, a network that has that stands for the row; the states of its output layer,
    which is its own, are taken out."""
    if "transformer_engine" in row["note"] and "unfused" not in row["note"] and of_kind(row) == "GPT":
        fused = estimate(memplan, *asked_of(row, "megatron-7b"))
        return int(fused["peak_bytes"] - states(fused) + states(mine))
    if not row["ac"].startswith("full"):
        return int(mine["peak_bytes"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.json"
        subprocess.run([memplan, "graph", *asked_of(row), "-o", str(path)], capture_output=True, check=True)
        return int(checkpoints.verified(memplan, json.loads(path.read_text()), "full", Path(folder))["peak_bytes"])


def main_gradients(row: dict[str, str], mine: dict[str, Any]) -> float:
    """Bytes beside gradients of 2 an element. With bf16 they take 4; the one row in fp16 has a part of them in fp32 besides."""
    is_fp16 = row["dtype"] == "see config"
    return float(2 * mine["gradient_bytes"] / int(row["dp"]) if is_fp16 else mine["gradient_bytes"])


def lasting(row: dict[str, str]) -> float:
    """Bytes of workspaces that stay. Without Transformer Engine there are twice as many of cuBLAS, as the records show."""
    card = next(name for name in ENGINE if name in row["id"])
    has_engine = "transformer-impl=local" not in row["note"]
    cublas = CUBLAS if card == "H100" or "nondeterministic" not in row["id"] else CUBLAS_OF_A100
    return THREADS * cublas + (ENGINE[card] if has_engine else THREADS * cublas)


def heads_of_bert(row: dict[str, str]) -> float:
    """Elements of BERT's heads beside the classifier: two products of the width, a bias over the vocabulary, and small tensors."""
    width, words = int(row["hidden"]), words_of(row) / int(row["tp"])
    return 2 * (width * width + width) + 4 * width + 2 + words if of_kind(row) == "BER" else 0


def megatron(memplan: str, row: dict[str, str]) -> Answer:
    """Of the last rank, between steps and at most."""
    if row["ep"] != "1":
        return Answer(None, f"no shape: {row['model']}")
    is_live, pp = row["id"].endswith("-live"), int(row["pp"])
    if row["cp"] != "1" and not is_live:
        return Answer(None, "context parallel")
    mine = last_rank(memplan, row)
    more = main_gradients(row, mine) + lasting(row) + 18 * heads_of_bert(row)
    tokens = int(row["micro_batch"]) * int(row["seq"])
    if is_live:
        handed_on = 2 * tokens * int(row["hidden"]) / (int(row["cp"]) * (int(row["tp"]) if row["sp"] == "yes" else 1))
        if pp > 1:
            more += LEFT * chunks_of(row) * handed_on
        reason = "fp32 gradients, workspaces" + (", outputs" if pp > 1 else "") + (", heads" if heads_of_bert(row) else "")
        return Answer(states(mine), reason, states(mine) + more)
    found = peak(memplan, row, mine)
    # Megatron's loss, not fused, has scores in fp32 and in 16 bits at once: 2 bytes a score less than PyTorch's.
    return Answer(found, "likewise; Megatron's loss", found + more - 2 * tokens * words_of(row) / int(row["tp"]))


def mpt(memplan: str, row: dict[str, str]) -> str:
    """The answer of `memplan parallel` for a measured run."""
    layers, width, heads = MPT[row["id"].split("-")[1]]
    mesh = ["--devices", row["devices"], "--mesh", f"shard={row['devices']},zero={row['zero']}"]
    batch = ["--global-batch", row["global_batch"], "--micro-batch-size", row["micro_batch"]]
    shape = sizes(layers=layers, width=width, heads=heads, feed_forward=4 * width, sequence=int(row["seq"]), vocabulary=50432)
    asked = [memplan, "parallel", "gpt2", "--device", "h100", "--rules", "executor", "--amp", "bf16", *mesh, *batch, *shape, "--json"]
    answer = json.loads(subprocess.run(asked, capture_output=True, text=True, check=False).stdout)
    choice = (answer["best"] + answer["set_aside"])[0]
    if not answer["best"]:
        return f"does not fit: {choice['peak_bytes'] / 2**30:.1f} GiB"
    tokens = int(row["global_batch"]) * int(row["seq"]) / int(row["devices"]) / choice["seconds"]
    measured = f"{float(row['value']):,.0f}"
    return f"fits: {choice['peak_bytes'] / 2**30:.1f} GiB; {tokens:,.0f} tokens a second and device, measured {measured}"


KINDS = (
    ("ZERO-", "", zero),
    ("DS-", "-gpu", deepspeed),
    ("K22-F1-", "", korthikanti),
    ("K22-F7-", "", korthikanti),
    ("MG-", "", megatron),
)


def error(predicted: float | None, published: float) -> str:
    return "" if predicted is None else f"{100 * (predicted / published - 1):+.2f} %"


def main(memplan: str, data: str) -> int:
    path = Path(data) / "bench/published/published.csv"
    if not is_there(path):
        return 0
    print(f"{'row':<60} {'published':>12} {'predicted':>12} {'error':>10} {'adjusted':>10}  reason")
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["id"].startswith("MPT-"):
                print(f"{row['id']:<18} recomputed: {row['ac']:<6} {mpt(memplan, row)}")
            for prefix, ending, ask in KINDS:
                if not row["id"].startswith(prefix) or not row["id"].endswith(ending):
                    continue
                published, answer = (
                    float(row["value"]) * UNITS[row["unit"]],
                    ask(memplan, row),
                )
                shown = 1 if row["unit"] == "%" else 2**30
                predicted = "" if answer.value is None else f"{answer.value / shown:.3f}"
                print(
                    f"{row['id'][:60]:<60} {published / shown:>12.3f} {predicted:>12} {error(answer.value, published):>10} "
                    f"{error(answer.adjusted, published):>10}  {answer.reason}"
                )
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2]))
