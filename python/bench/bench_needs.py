"""The command line's memory of a process against xMem's published runs: known networks by name, and exported files.

    PYTHONPATH=python/src python python/bench/bench_needs.py build/memplan ROWS.csv FOLDER

ROWS.csv as in bench_xmem.py. FOLDER keeps the files that examples/export_pytorch.py writes; missing ones are exported. VGG is
left out, because the exporter refuses its pooling of 2x2 to 7x7 elements. So are networks above MOST_PARAMETERS, and optimizers
that the command line lacks. The context is excluded, as in the published peaks.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import torch
from bench_xmem import OUTCOME, Row, group_of, summary, write
from torch import nn
from xmem_jobs import LANGUAGE, MOST_TOKENS, SIDE, VISION, network

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))
from export_pytorch import export

CARD, VISIBLE = "rtx3060", 12037 / 12288  # the context is subtracted again; part of the memory that programs see
OPTIMIZERS = {"SGD": "sgd", "Adam": "adam", "AdamW": "adamw"}
KNOWN = {  # networks that the command line builds by name
    "openai-community/gpt2": ("gpt2",),
    "distilbert/distilgpt2": ("gpt2", "--dim", "layers=6"),
    "cerebras/Cerebras-GPT-111M": ("gpt2", "--dim", "layers=10"),
    "T5-small": ("t5-small",),
    "t5-base": ("t5-base",),
}
MOST_PARAMETERS = 500_000_000


class Logits(nn.Module):
    """A language model that returns its logits. Encoder-decoders read the labels, too."""

    def __init__(self, model: nn.Module, reads_labels: bool) -> None:
        super().__init__()
        self.model, self.reads_labels = model, reads_labels

    def forward(self, *tokens: torch.Tensor) -> torch.Tensor:
        labels = {"labels": tokens[1]} if self.reads_labels else {}
        return self.model(input_ids=tokens[0], use_cache=False, **labels).logits


def exported(name: str, folder: Path) -> Path | None:
    """Return the file of a network; None if the network is too large or the exporter refuses it."""
    path = folder / f"{name.replace('/', '_')}.onnx"
    if path.exists():
        return path
    model = network(name)
    if name.startswith("VGG") or sum(p.numel() for p in model.parameters()) > MOST_PARAMETERS:
        return None
    model = model.to_empty(device="cpu")
    if name in VISION:
        export(model, (torch.zeros(2, 3, SIDE, SIDE),), path)
    else:
        reads_labels = LANGUAGE[name][0] == "T5"
        tokens = torch.zeros(2, MOST_TOKENS, dtype=torch.long)
        export(Logits(model, reads_labels), (tokens, tokens)[: 1 + reads_labels], path)
    return path


def estimated(command: str, model: list[str], row: dict[str, str]) -> dict[str, int]:
    """Return the needs that `memplan estimate` states."""
    device = f"{CARD},memory={round(int(row['gpu_bytes']) / VISIBLE)}B"
    options = ["--batch", row["batch"], "--optimizer", OPTIMIZERS[row["optimizer"]], "--device", device, "--json"]
    answer = subprocess.run([command, "estimate", *model, *options], capture_output=True, text=True, check=False)
    if answer.returncode > 1:
        raise RuntimeError(answer.stderr)
    return json.loads(answer.stdout)["needs"]


def row_of(row: dict[str, str], needs: dict[str, int], group: str) -> Row:
    outside = needs["process_bytes"] - needs["reserved_bytes"]
    caps = [(float(cap), how == "ok") for cap, how in OUTCOME.findall(row["note"])]
    sizes = (int(row["gpu_bytes"]), needs["tensors_bytes"], needs["reserved_bytes"], needs["likely_bytes"] - outside)
    return Row(row["id"], row["model"], int(row["truth_peak_bytes"]), float(row["xmem_bytes"] or "nan"), *sizes, caps, group)


def main() -> None:
    command, table, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    files: dict[str, Path | None] = {}
    found = []
    with open(table, encoding="utf-8", newline="") as file:
        given = [r for r in csv.DictReader(file) if r["oom"] == "no" and r["optimizer"] in OPTIMIZERS]
    for row in given:
        name, group = row["model"], group_of(row)
        if group.startswith("unknown"):
            continue
        if name not in files:
            files[name] = exported(name, folder)
        path = files[name]
        if path is not None:
            found.append(row_of(row, estimated(command, [str(path)], row), f"{group}, file"))
        if name in KNOWN:
            model = [*KNOWN[name], "--dim", f"sequence={MOST_TOKENS}"]
            found.append(row_of(row, estimated(command, model, row), f"{group}, by name"))
    write(
        f"{r.id} {r.model:28} measured {r.truth_bytes / 2**20:6.0f} MiB, tensors {r.tensors_bytes / 2**20:6.0f}, reserved"
        f" {r.reserved_bytes / 2**20:6.0f} ({r.error:+.1%}), {r.group}{', unseen' if r.is_unseen else ''}"
        f"{', short' if r.truth_bytes > r.likely_bytes else ''}"
        for r in found
    )
    write(["", "| jobs | n | median error | bias | xMem's median error | above the 19-of-20 figure | fail with it |"])
    write(["|---|---:|---:|---:|---:|---:|---:|"])
    for group in sorted({r.group for r in found}):
        for part, unseen in (("fitted", False), ("unseen", True)):
            write([summary(f"{group}, {part}", [r for r in found if r.group == group and r.is_unseen == unseen])])


if __name__ == "__main__":
    main()
