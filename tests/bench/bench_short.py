#!/usr/bin/env python3
"""bench_short.py MEMPLAN DATA [--record] - the tables of BENCHMARKS.md in short: some rows of each with normal effort, beside
those of the last recorded run (tests/bench/recorded.csv, which --record writes). Two minutes on an idle machine.

Extra time and bound are in % of a step and the same on every machine; seconds are of the clock, and their ratio is one of two
machines as well. At the end: how many rows are cheaper and dearer by 0.1 % of a step, and the median ratio of the seconds."""

from __future__ import annotations

import csv
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from depth_first import write_depth_first
from measured import Bench, data_folder, is_there, run

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "recorded.csv"
FIELDS = ("row", "overhead", "bound", "waste", "seconds", "MiB")
MODELS = {"resnet50": 8, "resnet152": 4, "densenet121": 8, "mobilenet_v2": 8, "unet": 2, "inception_v3": 8, "bert_base": 32,
          "bert_large": 32, "gpt2_small": 8, "vit_b_16": 8}
OFFSETS = (("convnext_tiny", 2, 30), ("resnet152", 4, 50), ("inception_v3", 8, 30), ("vit_b_16", 2, 50), ("bert_large", 1, 50),
           ("squeezenet1_1", 2, 50))
KUSUMOTO = {"unet": (60, 40), "resnet50": (50, 30, 15), "densenet": (60, 30, 10)}
DAGS = {"RL_n100": (70, 60), "RL_n500": (70, 60), "checkmate_resnet50_train_b256": (40, 20),
        "checkmate_mobilenet_train_b512": (40, 20), "checkmate_vgg_unet_train_b32": (40,)}
LARGE = ((("transformer", "240"), ("transformer", "690")), (90, 70, 50))
FIT = ("mobilenet", "unet")


@dataclass(frozen=True)
class Row:
    name: str
    graph: str
    budget: str
    options: tuple[str, ...]
    judges: bool = True


def rows(data: Path, folder: Path) -> list[Row]:
    found: list[Row] = []
    for name, batch in MODELS.items():
        for share in (50, 15):
            found.append(Row(f"{name} floor+{share}%", str(data / f"models/{name}.onnx"), f"floor+{share}%",
                             ("--batch", str(batch), "--optimizer", "adamw", "--no-offsets")))
    for name, batch, share in OFFSETS:
        found.append(Row(f"{name} floor+{share}%, offsets", str(data / f"models/{name}.onnx"), f"floor+{share}%",
                         ("--batch", str(batch))))
    for name, budgets in KUSUMOTO.items():
        given, kept = data / f"bench/graphs/kusumoto_{name}.json", folder / f"{name}.json"
        write_depth_first(str(given), str(kept))
        for budget in budgets:
            found.append(Row(f"{name} {budget} %, kept", str(kept), f"{budget}%", ("--keep-order", "--no-offsets")))
            found.append(Row(f"{name} {budget} %", str(given), f"{budget}%", ("--no-offsets",)))
    for name, budgets in DAGS.items():
        found += [Row(f"{name} {budget} %", str(data / f"bench/graphs/{name}.json"), f"{budget}%", ("--no-offsets",))
                  for budget in budgets]
    for call in LARGE[0]:
        graph = folder / f"{'-'.join(call)}.json"
        with open(graph, "w") as file:
            subprocess.run([sys.executable, str(HERE / "make_large.py"), *call], stdout=file, check=True)
        found += [Row(f"{' '.join(call)} {budget} %", str(graph), f"{budget}%", ("--no-offsets",), False) for budget in LARGE[1]]
    return [row for row in found if is_there(row.graph)]


def text(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def recorded() -> dict[str, dict[str, str]]:
    if not RECORDED.exists():
        return {}
    with open(RECORDED, newline="") as file:
        return {row["row"]: row for row in csv.DictReader(file)}


def main() -> int:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    data = data_folder(sys.argv[2] if len(sys.argv) > 2 else "")
    bench = Bench(sys.argv[1], str(data / "tools/check_plan.py"))
    before, now, ratios, cheaper, dearer = recorded(), [], [], 0, 0
    print("| row | overhead | before | bound | arena over live | seconds | ratio | MiB |\n|-|-|-|-|-|-|-|-|")
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(data, Path(folder)):
            found = bench.plan(row.graph, row.budget, *row.options, judges=row.judges)
            old = before.get(row.name, {})
            was = float(old["overhead"]) if old.get("overhead", "-") not in ("-", "") else None
            ratio = found.seconds / float(old["seconds"]) if old else None
            if ratio is not None:
                ratios.append(ratio)
            if was is not None and (found.overhead is None or found.overhead > was + 0.1):
                dearer += 1
            if found.overhead is not None and old and (was is None or found.overhead < was - 0.1):
                cheaper += 1
            now.append((row.name, text(found.overhead, 4), text(found.bound, 4), text(found.waste, 3), text(found.seconds),
                        str(found.mebibytes)))
            print(f"| {row.name} | **{text(found.overhead)}** | {text(was)} | {text(found.bound)} | {text(found.waste)} | "
                  f"{text(found.seconds)} | {text(ratio)} | {found.mebibytes} |", flush=True)
    for name in FIT:
        model = HERE.parents[1] / f"examples/largest_batch/{name}.onnx"
        _, seconds, _, mebibytes, _ = run([bench.memplan, "fit", str(model), "--memory", "16e9", "--rules", "executor", "--optimizer",
                                           "sgd", "--overhead", "34%"])
        old = before.get(f"fit {name}", {})
        ratio = seconds / float(old["seconds"]) if old else None
        now.append((f"fit {name}", "-", "-", "-", text(seconds), str(mebibytes)))
        print(f"| fit {name} | | | | | {text(seconds)} | {text(ratio)} | {mebibytes} |", flush=True)
    if ratios:
        print(f"\nBeside the recorded run: {cheaper} rows cheaper by 0.1 % of a step, {dearer} dearer; seconds {statistics.median(ratios):.2f} "
              "times as many (median).")
    if "--record" in sys.argv:
        with open(RECORDED, "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([FIELDS, *now])
    return bench.verdict()


if __name__ == "__main__":
    sys.exit(main())
