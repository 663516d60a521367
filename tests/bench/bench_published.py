#!/usr/bin/env python3
"""bench_published.py MEMPLAN DATA - what a rank holds, beside what others have published (DATA/bench/published/published.csv):
ZeRO's table 1, DeepSpeed's estimators, figures 1 and 7 of Korthikanti et al. 2022, and what Megatron-LM's tests record between
steps, of pipelines also at most. Runs of MPTs that fitted into 80 GB are asked of `memplan parallel`.

Each row is asked of `memplan estimate --mesh`; where something is computed again, a plan that does just that is replayed. Where
published figures are of another arithmetic, a reason says what differs, and the last column is the error with that difference
taken out. Rows without a network of that shape say so."""

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
# GPTs of about as many parameters: layers, width, heads. ZeRO's table is of any network, so what counts is bytes per parameter.
OF_ABOUT = {"7.5B": (36, 4096, 32), "128B": (101, 10240, 80), "1T": (128, 25600, 160)}
KORTHIKANTI = {"22B": "megatron-22b", "175B": "megatron-175b", "1T": "megatron-1t"}
CHUNKS = {"175B": 3}  # of an interleaved pipeline's stage
# Of a row's kind: the mesh, and what is computed again (checkpoints.py).
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
ENGINE = {"A100": 4 << 20, "H100": 32 << 20}  # the workspace of Transformer Engine
LAYERS_ALIKE = "a gated MLP with as many parameters keeps more"


@dataclass(frozen=True)
class Answer:
    """What is predicted, in bytes or percent; the same with what is known to differ taken out; and what that is."""

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
    """What one more layer adds to a rank, in bytes."""
    shape = [name, "--batch", row["micro_batch"], "--dtype", "fp16", *more]
    two, three = (estimate(memplan, *shape, *sizes(layers=layers)) for layers in (2, 3))
    return float(states(three) - states(two)) if what == "state" else float(three[what] - two[what])


@cache
def kept_of_a_layer(memplan: str, name: str, batch: str, mesh: str, rule: str) -> int:
    """What one more layer keeps for backward under a rule of recomputation, in bytes."""

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
    """What lies on a GPU: with the optimizer's state on the host no gradients either, with zero=3 the largest layer besides,
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


def first_block(memplan: str, row: dict[str, str]) -> int:
    """The block with which the first layer begins: the first with at least a fifth of a layer's parameters."""

    mesh, layers = f",tp={row['tp']}" if int(row["tp"]) > 1 else "", int(row["layers"])

    def of_stage(block: int) -> int:
        ranks = estimate(memplan, *of_row(row, layers), "--mesh", f"pp=2{mesh}", "--stages", f"0,{block}")["ranks"]
        return int(ranks[0]["parameter_bytes"])

    more, fewer = (
        int(estimate(memplan, *of_row(row, n), "--mesh", f"dp=1{mesh}")["parameter_bytes"]) for n in (layers, layers - 1)
    )
    block = 1
    while of_stage(block + 1) - of_stage(block) < (more - fewer) / 5:
        block += 1
    return block


def last_rank(memplan: str, row: dict[str, str], shape: list[str]) -> dict[str, Any]:
    """The last rank of a pipeline of which each stage has as many layers."""
    pp, dp, tp, layers = (int(row[key]) for key in ("pp", "dp", "tp", "layers"))
    micro_batches = int(row["global_batch"]) // int(row["micro_batch"]) // dp
    chunks = layers // pp if "interleaved, 1 layer" in row["note"] else 1
    first, per_stage = first_block(memplan, row), layers // pp // chunks
    begins = [
        0,
        *(first + 2 * per_stage * k for k in range(1, pp * chunks)),
    ]  # a layer is two blocks
    mesh = f"tp={tp},pp={pp}" + (f",shard={dp},zero=1" if row["zero"][0] == "1" else f",dp={dp}")
    schedule = ["--pipeline", "interleaved", "--chunks", str(chunks)] if chunks > 1 else []
    shape = [
        *shape,
        "--batch",
        str(micro_batches * int(row["micro_batch"])),
        "--micro-batches",
        str(micro_batches),
    ]
    stages = ["--stages", ",".join(map(str, begins)), "--rank", str(pp - 1)]
    return estimate(memplan, *shape, "--mesh", mesh, *schedule, *stages, "--rules", "pytorch")


def words_of(row: dict[str, str]) -> int:
    rows_of = 128 * int(row["tp"])
    return math.ceil((50257 if "12x512" in row["model"] else 131073) / rows_of) * rows_of


def of_row(row: dict[str, str], layers: int) -> list[str]:
    """The network of a row: of a GPT of Megatron's with a plain MLP and grouped heads, one of as many parameters a layer."""
    shared = {
        "layers": layers,
        "sequence": int(row["seq"]),
        "vocabulary": words_of(row),
    }
    if "12x512" in row["model"]:
        return ["gpt2", *sizes(width=512, heads=8, feed_forward=2048, **shared)]
    return ["llama3-8b", *sizes(feed_forward=10924, **shared)]


def lasting(row: dict[str, str]) -> int:
    """Bytes that stay allocated between steps, besides states."""
    card = next(name for name in ENGINE if name in row["id"])
    return CUBLAS + (ENGINE[card] if "transformer_engine" in row["note"] else 0)


def of_pipeline(memplan: str, row: dict[str, str], shape: list[str]) -> Answer:
    """Of the last rank. Megatron's loss, not fused, has scores in fp32 and in 16 bits at once: 2 bytes a score less than PyTorch's."""
    mine = last_rank(memplan, row, shape)
    output = 2 * words_of(row) * int(row["hidden"]) / int(row["tp"])
    more = mine["parameter_bytes"] + output + lasting(row)
    if row["id"].endswith("-live"):
        return Answer(states(mine), MAIN_GRADIENTS + "; the output layer's own gradient stays; workspaces", states(mine) + more)
    scores = int(row["micro_batch"]) * int(row["seq"]) * words_of(row) / int(row["tp"])
    return Answer(mine["peak_bytes"], "likewise; Megatron's loss" + ("; " + LAYERS_ALIKE if "7B" in row["model"] else ""),
                  mine["peak_bytes"] + more - 2 * scores)


def megatron(memplan: str, row: dict[str, str]) -> Answer:
    """Between steps, and at most."""
    if "12x512" not in row["model"] and "7B" not in row["model"]:
        return Answer(None, f"no shape: {row['model']}")
    if row["cp"] != "1" or row["ep"] != "1":
        return Answer(None, "context parallel")
    dp, tp, stage = int(row["dp"]), int(row["tp"]), int(row["zero"][0])
    shape = [*of_row(row, int(row["layers"])), "--dtype", "bf16"]
    if row["pp"] != "1":
        return of_pipeline(memplan, row, shape)
    if not row["id"].endswith("-live"):
        return Answer(None, "no pipeline")
    mesh = f"tp={tp}" + (f",shard={dp},zero={stage}" if stage else f",dp={dp}")
    mine = estimate(memplan, *shape, "--batch", row["micro_batch"], "--mesh", mesh)
    more = 2 * mine["n_parameters"] / (dp if stage >= 2 else 1) + lasting(row)
    if "7B" in row["model"]:  # learned positions, which the network that stands for it has not
        more += int(row["seq"]) * int(row["hidden"]) * (6 + 12 / dp)
    return Answer(states(mine), MAIN_GRADIENTS + "; workspaces" + ("; positions" if "7B" in row["model"] else ""), states(mine) + more)


def mpt(memplan: str, row: dict[str, str]) -> str:
    """What `memplan parallel` says of a run that was measured."""
    layers, width, heads = MPT[row["id"].split("-")[1]]
    asked = [memplan, "parallel", "gpt2", "--device", "h100", "--amp", "bf16", "--devices", row["devices"], "--mesh",
             f"shard={row['devices']},zero={row['zero']}", "--global-batch", row["global_batch"], "--micro-batch", row["micro_batch"],
             *sizes(layers=layers, width=width, heads=heads, feed_forward=4 * width, sequence=int(row["seq"]), vocabulary=50432), "--json"]
    answer = json.loads(subprocess.run(asked, capture_output=True, text=True, check=False).stdout)
    choice = (answer["best"] + answer["set_aside"])[0]
    if not answer["best"]:
        return f"does not fit: {choice['peak_bytes'] / 2**30:.1f} GiB"
    tokens = int(row["global_batch"]) * int(row["seq"]) / int(row["devices"]) / choice["seconds"]
    return f"fits: {choice['peak_bytes'] / 2**30:.1f} GiB; {tokens:,.0f} tokens a second and device, measured {float(row['value']):,.0f}"


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
