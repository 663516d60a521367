#!/usr/bin/env python3
"""bench_formulas.py MEMPLAN DATA - peaks that torchtitan and torchtune have published (DATA/bench/published/published.csv).

Each row also has the replayed peak and the peak by hand formulas. For runs that fitted into 80 GB it has the verdicts of both.

Here: the training graph of a rank by --rules pytorch, with the loss as the framework computes it, and its rule of checkpoints
replayed by `memplan check`. By hand: bytes of states per parameter, and activations as Megatron-LM's report of theoretical
memory has them (Korthikanti et al. 2022, table 2); where a layer is computed again, its input, and one layer."""

from __future__ import annotations

import csv
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import checkpoints
from bench_published import MPT
from measured import is_there

GIB, CARD = 2**30, 80e9
TOKENS_OF_405B = 1 << 24  # a step
ADAPTERS = ("8:*query*", "8:*value*", "8:*attention.output*", "8:*mlp*")
THREE = ("llama3-8b", "layers=28", "width=3072", "heads=24", "key-value-heads=8", "feed-forward=8192")


@dataclass(frozen=True)
class Setup:
    """`state`: bytes a parameter of moments and master weights, of the 12 of a graph; `weights`: of its 2.

    `loss`: eager casts scores to fp32, and keeps them; fp32 has them so, in one kernel; fused keeps them as they are."""

    network: tuple[str, ...]
    rule: str
    loss: str
    options: tuple[str, ...] = ()
    state: float = 12
    weights: float = 2
    by_hand: float = 16  # bytes a parameter
    is_tied: bool = False
    reason: str = ""
    on_host: tuple[str, ...] = field(default=())  # kinds of storages
    reduced: float = 1  # bytes of a reduced gradient, of its 2


def titan(rule: str, loss: str, reason: str = "", network: str = "llama3-8b") -> Setup:
    return Setup((network,), rule, loss, ("--device", "h100"), reason=reason, reduced=2)  # MixedPrecisionPolicy reduces in fp32


def tune(network: tuple[str, ...], rule: str, loss: str, **more: Any) -> Setup:
    return Setup(network, rule, loss, ("--device", "a100", *more.pop("options", ())), **{"state": 4, "by_hand": 8, **more})


LORA = tuple(word for pattern in ADAPTERS for word in ("--lora", pattern))
EIGHT_BIT = {"state": 2, "by_hand": 6}
SETUPS = {
    "TT24-T1-0": titan("selective", "eager"),
    "TT24-T1-1": titan("selective", "eager", "Inductor"),
    "TT24-T1-2": titan("selective", "eager", "Inductor, float8"),
    "TT24-T2-0": titan("full", "eager", "Inductor, float8"),
    "TT24-T3-0": titan("selective", "eager"),
    "TT24-T3-1": titan("selective", "eager", "Inductor"),
    "TT24-T3-2": titan("selective", "eager", "Inductor, float8"),
    "TT24-T4-0": titan("full", "eager", "Inductor, float8", "llama3-70b"),
    "TT24-T4-1": titan("full", "eager", "Inductor, float8, async", "llama3-70b"),
    "TT-TRAINY-4": titan("selective", "fused", "Inductor, float8 gathers"),
    "TT-TRAINY-8": titan("selective", "fused", "Inductor, float8 gathers"),
    "TUNE-0": tune(
        ("llama3-8b",),
        "full",
        "fused",
        options=("--fuse", "backward"),
        reason="8-bit Adam, paged",
        by_hand=2,
        on_host=("optimizer_state",),
    ),
    "TUNE-1": tune(
        ("llama3-8b",), "full", "fused", options=("--fuse", "backward"), reason="8-bit Adam", **{**EIGHT_BIT, "by_hand": 4}
    ),
    "TUNE-2": tune(("llama3-8b",), "full", "fused", options=LORA, reason="LoRA", by_hand=2),
    "TUNE-3": tune(
        ("llama3-8b",), "full", "fused", options=LORA, reason="LoRA; as the row before, and nearly twice as much", by_hand=2
    ),
    "TUNE-4": tune(
        ("llama3-8b",), "full", "fused", options=LORA, reason="QLoRA: 4 bits, not dequantized", weights=0.516, by_hand=0.516
    ),
    "TUNE-5": tune(
        ("llama3-70b",),
        "full",
        "fused",
        reason="states on the host",
        options=("--fsdp-unit", "embedding", "--fsdp-unit", "classifier"),  # custom_sharded_layers of 70B_full.yaml
        by_hand=0,
        on_host=("parameter", "gradient", "optimizer_state"),
    ),
    "TUNE-3B-1": tune(THREE, "none", "eager", is_tied=True),
    "TUNE-3B-2": tune(THREE, "none", "fp32", is_tied=True, reason="Inductor"),
    "TUNE-3B-3": tune(THREE, "none", "fused", is_tied=True, reason="Inductor, chunked loss"),
    "TUNE-3B-4": tune(THREE, "full", "fused", is_tied=True, reason="the same"),
    "TUNE-3B-5": tune(THREE, "full", "fused", is_tied=True, options=("--fuse", "backward"), by_hand=6, reason="the same"),
}
UNASKED = (
    ("TT24-T2-", "context parallel"),
    ("TT24-T5-", "micro-batches are not recorded"),
    ("TT24-T6-2", "context parallel"),
    ("TT24-T6-", "micro-batches are not recorded"),
    ("TT4636-", "the network is not named"),
    ("TUNE-7", "4 bits, gathered"),
    ("TUNE-3B-0", "lengths are not recorded"),
    ("TUNE-3B-", "activations on the host"),
    ("LL3-T4-2", "context parallel"),
)


def options_of(row: dict[str, str], setup: Setup) -> list[str]:
    dims = [*setup.network[1:], f"sequence={row['seq']}"]
    mesh = [f"shard={row['dp']}"] if int(row["dp"]) > 1 and row["system"] != "torchtune" else []
    mesh += [f"shard={row['devices']}"] if row["system"] == "torchtune" and int(row["devices"]) > 1 else []
    mesh += [f"tp={row['tp']}"] if row["tp"] not in ("", "1") else []
    return [
        setup.network[0],
        *(word for dim in dims for word in ("--dim", dim)),
        "--batch",
        row["micro_batch"],
        "--dtype",
        "bf16",
        *(("--mesh", ",".join(mesh)) if mesh else ()),
        "--rules",
        "pytorch",
        *setup.options,
    ]


def set_loss(graph: dict[str, Any], loss: str) -> None:
    """Scores in fp32 are kept, and twice more while their gradient is made; fused, they are kept as they are."""
    forward = next(node for node in graph["nodes"] if node["phase"] == "loss")
    scores = graph["storages"][forward["reads"][0]]["bytes"]
    kept = next(graph["storages"][k] for k in forward["writes"] if graph["storages"][k]["bytes"] >= scores)
    backward = next(node for node in graph["nodes"] if kept["id"] in node["reads"])
    kept["bytes"] = scores if loss == "fused" else 2 * scores
    backward["workspace_bytes"] = {"eager": 3, "fp32": 1, "fused": 0}[loss] * scores


def share_of(storage: dict[str, Any], setup: Setup) -> float:
    """Of the bytes that a graph has, those of the framework."""
    kind, name = storage["kind"], storage["name"]
    if kind in setup.on_host or (setup.is_tied and "classifier.weight" in name):
        return 0
    if kind == "optimizer_state":
        return setup.state / 12
    if name.startswith("reduce-scatter buffer"):
        return setup.reduced
    is_quantized = kind == "parameter" and name.startswith("layers.") and "norm" not in name and "lora" not in name
    return setup.weights / 2 if is_quantized else 1


def as_framework(graph: dict[str, Any], setup: Setup) -> None:
    for storage in graph["storages"]:
        storage["bytes"] = int(storage["bytes"] * share_of(storage, setup))
    set_loss(graph, setup.loss)


def replayed(memplan: str, row: dict[str, str], setup: Setup, folder: Path) -> float:
    graph_path = folder / "graph.json"
    subprocess.run([memplan, "graph", *options_of(row, setup), "-o", str(graph_path)], capture_output=True, check=True)
    graph = json.loads(graph_path.read_text())
    as_framework(graph, setup)
    del graph["hash"], graph["options"]
    return float(checkpoints.verified(memplan, graph, setup.rule, folder)["peak_bytes"])


def activations(sizes: dict[str, int], tokens: int, rule: str, tensor: int) -> float:
    """Bytes by hand: in layers, and outside of them."""
    width, words = sizes["width"], sizes["vocabulary"]
    layer = tokens * width * (18 + 4 * sizes["feed-forward"] / width) / tensor
    inside = 2 * tokens * width * sizes["layers"] / tensor + layer if rule == "full" else sizes["layers"] * layer
    return inside + (8 * tokens + tokens * width + 4 * tokens * width * (1 + words / width)) / tensor


def by_hand(memplan: str, row: dict[str, str], setup: Setup) -> float:
    listed = subprocess.run([memplan, "models", "--json"], capture_output=True, text=True, check=True).stdout
    known = next(one for one in json.loads(listed)["models"] if one["name"] == setup.network[0])
    sizes = {name.replace("_", "-"): size for name, size in known["sizes"].items()}
    sizes.update({name: int(size) for name, size in (dim.split("=") for dim in setup.network[1:])})
    parameters = float(row["params"][:-1]) * 1e9 if row["params"] else known["parameters"]
    tensor = int(row["tp"] or 1)
    tokens = int(row["micro_batch"]) * int(row["seq"])
    return setup.by_hand * parameters / int(row["devices"]) + activations(sizes, tokens, setup.rule, tensor)


def of_errors(name: str, errors: list[float]) -> str:
    sizes = [abs(error) for error in errors]
    median, worst = statistics.median(sizes), max(errors, key=abs)
    return f"{name}: median {median:.1%}, worst {worst:+.1%}, from {min(errors):+.1%} to {max(errors):+.1%}"


def peaks(memplan: str, rows: list[dict[str, str]]) -> None:
    print(f"{'row':<16} {'rule':<10} {'published':>9} {'here':>7} {'error':>8} {'by hand':>7} {'error':>8}  what differs")
    errors: dict[str, tuple[list[float], list[float]]] = {"torchtitan": ([], []), "torchtune": ([], [])}
    with tempfile.TemporaryDirectory() as folder:
        for row in rows:
            name = row["id"].removesuffix("-mem")
            if name not in SETUPS:
                print(f"{name:<16} not asked: {next(why for prefix, why in UNASKED if name.startswith(prefix))}")
                continue
            published, setup = float(row["value"]) * (GIB if row["unit"] == "GiB" else 1e9), SETUPS[name]
            found = replayed(memplan, row, setup, Path(folder)), by_hand(memplan, row, setup)
            error = [peak / published - 1 for peak in found]
            for known, one in zip(errors[row["system"]], error, strict=True):
                known.append(one)
            both = " ".join(f"{peak / GIB:>7.2f} {one:>+8.1%}" for peak, one in zip(found, error, strict=True))
            print(f"{name:<16} {setup.rule:<10} {published / GIB:>9.2f} {both}  {setup.reason}")
    errors["all"] = tuple(first + second for first, second in zip(*errors.values(), strict=True))
    for system, (here, hand) in errors.items():
        print(of_errors(f"{system}, {len(here)} rows, here", here))
        print(of_errors(f"{system}, {len(hand)} rows, by hand", hand))


def planned(memplan: str, row: dict[str, str]) -> dict[str, Any]:
    """The verdict of `memplan parallel` on a run that fitted into 80 GB."""
    if row["id"].startswith("MPT-"):
        layers, width, heads = MPT[row["id"].split("-")[1]]
        dims = {
            "layers": layers,
            "width": width,
            "heads": heads,
            "feed-forward": 4 * width,
            "sequence": row["seq"],
            "vocabulary": 50432,
        }
        shape = ["gpt2", "--amp", "bf16", *(word for name, size in dims.items() for word in ("--dim", f"{name}={size}"))]
        mesh, batch, micro_batch = f"shard={row['devices']},zero={row['zero']}", row["global_batch"], row["micro_batch"]
    else:
        shape, mesh = ["llama3-405b", "--dtype", "bf16"], f"shard={row['dp']},zero=2,tp={row['tp']},pp={row['pp']}"
        batch, micro_batch = str(TOKENS_OF_405B // int(row["seq"])), "1"
    asked = [
        memplan,
        "parallel",
        *shape,
        "--device",
        "h100",
        "--rules",
        "executor",
        "--devices",
        row["devices"],
        "--mesh",
        mesh,
        "--global-batch",
        batch,
        "--micro-batch-size",
        micro_batch,
        "--json",
    ]
    answer = json.loads(subprocess.run(asked, capture_output=True, text=True, check=False).stdout)
    choice: dict[str, Any] = (answer["best"] + answer["set_aside"])[0]
    return {**choice, "fits": bool(answer["best"])}


def held_by_hand(row: dict[str, str]) -> float:
    """Bytes of the first stage, which holds as many micro-batches as there are stages: those of one with all layers."""
    if row["id"].startswith("MPT-"):
        layers, width, _ = MPT[row["id"].split("-")[1]]
        parameters, tensor, states, words, inner = float(row["params"]), 1, 16 / int(row["devices"]), 50432, 4 * width
    else:
        layers, width, tensor, words, inner = int(row["layers"]), int(row["hidden"]), int(row["tp"]), 0, 53248
        parameters, states = float(row["params"][:-1]) * 1e9 / tensor / int(row["pp"]), 6 + 12 / int(row["dp"])
    if row["zero"] == "2":
        states = 4 + 12 / int(row["devices"])
    rule = "full" if row["ac"].startswith("full") else "none"
    sizes = {"layers": layers, "width": width, "vocabulary": words, "feed-forward": inner}
    return states * parameters + activations(sizes, int(row["micro_batch"] or 1) * int(row["seq"]), rule, tensor)


def fits(memplan: str, rows: list[dict[str, str]]) -> None:
    print(f"\n{'fitted into 80 GB':<18} {'layers again':<12} {'here':<8} {'GiB':>6} {'by hand':<8} {'GiB':>6}")
    right = [0, 0]
    for row in rows:
        if row["id"] in dict(UNASKED):
            continue
        choice, hand = planned(memplan, row), held_by_hand(row)
        right = [right[0] + choice["fits"], right[1] + (hand <= CARD)]
        peaks_of = ((choice["fits"], choice["peak_bytes"]), (hand <= CARD, hand))
        said = " ".join(f"{'fits' if fit else 'does not':<8} {peak / GIB:>6.1f}" for fit, peak in peaks_of)
        print(f"{row['id']:<18} {row['ac'][:12]:<12} {said}")
    print(f"said to fit: here {right[0]}, by hand {right[1]}")


def main(memplan: str, data: str) -> int:
    path = Path(data) / "bench/published/published.csv"
    if not is_there(path):
        return 0
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    peaks(memplan, [row for row in rows if row["id"].startswith(("TT", "TUNE-")) and row["unit"] in ("GiB", "GB")])
    fits(memplan, [row for row in rows if row["id"].startswith(("MPT-", "LL3-"))])
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2]))
