#!/usr/bin/env python3
"""bench_search.py MEMPLAN DATA [TABLE ...] - the plans of `auto` and their gap to the bound. Tables in
Markdown: kept (Kusumoto's graphs in their given order), limits (the same under time limits), free (in any order), dags (graphs
without a backward phase), effort (real networks with the default effort), models (the same, every searcher), large (ten
thousand forward nodes and more), unmarked (graphs whose phases are not marked, of 10,000 to 250,000 nodes). Every plan is
judged by DATA/tools/check_plan.py too, if it is there. Overheads and bounds are in % of a step; seconds are of the processor, of both cores.

Best known: the cheapest plans that long runs of several prototypes have found. They took the best of four depth-first orders
of each of Kusumoto's graphs and its reverse for backward, and so does `kept`: the graphs are written anew in that order."""
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from depth_first import write_depth_first
from measured import Bench, data_folder, is_there

KUSUMOTO = {  # percent of keep-all: best known in a fixed and in any order, bounds for the fixed and for any order
    "vgg19": {80: (1.92, 1.92, 1.92, None), 70: (3.69, 3.69, 3.69, None), 60: (5.45, 5.45, 5.45, None)},
    "unet": {80: (1.44, 1.44, 1.44, None), 70: (3.66, 3.66, 3.66, None), 60: (6.81, 6.81, 6.81, None),
             50: (12.96, 12.96, 11.78, None), 40: (24.74, 24.74, 23.56, 20.29)},
    "resnet50": {80: (0.54, 0.54, 0.54, None), 70: (0.91, 0.91, 0.91, None), 60: (1.56, 1.56, 1.56, None),
                 50: (2.90, 2.90, 2.79, None), 40: (4.77, 4.67, 4.67, 4.56), 30: (8.05, 7.89, 7.35, 7.14),
                 25: (11.80, 11.70, 9.50, 9.50), 20: (17.54, 16.85, 13.47, 13.47), 15: (35.62, 34.66, 25.38, 24.73)},
    # its backward nodes have one order only
    "densenet": {80: (0.35, 0.35, 0.35, 0.35), 70: (0.69, 0.69, 0.67, 0.67), 60: (1.05, 1.05, 1.03, 1.03),
                 50: (1.56, 1.56, 1.51, 1.51), 40: (2.21, 2.21, 2.14, 2.14), 30: (3.22, 3.22, 3.10, 3.10),
                 25: (4.04, 4.04, 3.79, 3.79), 20: (4.93, 4.93, 4.66, 4.66), 15: (6.38, 6.38, 5.69, 5.69),
                 10: (9.94, 9.94, 8.13, 8.13)},
}
DAGS = {  # best known, in any order
    "RL_n100": {90: 0, 80: 0, 70: 2.144, 60: 16.72},
    "RL_n500": {90: 0, 80: 0.651, 70: 4.199, 60: 17.74},
    "checkmate_fcn_8_vgg_train_b32": {90: 0.0294, 80: 0.1361, 70: 0.8915},
    "checkmate_resnet50_train_b256": {90: 0.1085, 80: 0.2786, 70: 0.567, 60: 0.97, 50: 1.509, 40: 2.294, 30: 3.778, 20: 6.445},
    "checkmate_mobilenet_train_b512": {90: 0.1635, 80: 0.3702, 70: 0.6262, 60: 1.067, 50: 1.638, 40: 2.462, 30: 3.979, 20: 8.48},
    "checkmate_vgg_unet_train_b32": {90: 1.129, 80: 1.984, 70: 2.967, 60: 4.451, 50: 6.967, 40: 13.11},
}
MODELS = ("resnet50", "resnet152", "densenet121", "mobilenet_v2", "vgg19", "unet", "inception_v3", "bert_base", "bert_large",
          "gpt2_small", "vit_b_16", "resmlp1000")
memplan = sys.argv[1]
data = data_folder(sys.argv[2] if len(sys.argv) > 2 else "")
tables = sys.argv[3:] or ["kept", "limits", "free", "dags", "effort", "models", "large", "unmarked"]
bench = Bench(memplan, os.path.join(data, "tools/check_plan.py"))


def both(graph, budget, *options):
    """The plans of normal and thorough effort."""
    return tuple(bench.plan(graph, budget, "--effort", effort, *options) for effort in ("normal", "thorough"))


def text(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}"


def kusumoto(kept):
    print("| graph | budget | chen | lower-set | normal | seconds | thorough | seconds | best known | bound | bound known |\n"
          f"|{'-|' * 11}")
    order = ["--keep-order"] if kept else []
    gaps = [0.0, 0.0]
    folder = tempfile.TemporaryDirectory()
    for name, rows in KUSUMOTO.items():
        graph = os.path.join(data, f"bench/graphs/kusumoto_{name}.json")
        if kept:
            write_depth_first(graph, os.path.join(folder.name, f"{name}.json"))
            graph = os.path.join(folder.name, f"{name}.json")
        for budget, (fixed, free, known_fixed, known_free) in rows.items():
            options = ["--no-offsets", *order]
            others = [bench.plan(graph, f"{budget}%", "--solver", solver, "--no-offsets").overhead for solver in ("chen", "lower-set")]
            normal, thorough = both(graph, f"{budget}%", *options)
            ours, bound = thorough.overhead, thorough.bound
            best, known = (fixed, known_fixed) if kept else (free, known_free)
            if budget <= 40 and ours is not None:
                gaps[0] += best - known
                gaps[1] += min(best, ours) - max(bound, known)
            print(f"| {name} | {budget} % | {text(others[0])} | {text(others[1])} | {text(normal.overhead)} | {normal.processor:.1f} | "
                  f"**{text(ours)}** | {thorough.processor:.1f} | {best:.2f} | {text(bound)} | {text(known)} |", flush=True)
    print(f"\nAt 40 % and below the gaps between best known plan and bound sum up to {gaps[0]:.2f}; with these {gaps[1]:.2f}.\n")


def limits():
    seconds = (1, 3, 20)
    print(f"| graph | budget | best known | {' | '.join(f'{limit} s' for limit in seconds)} |\n|{'-|' * (len(seconds) + 3)}")
    folder = tempfile.TemporaryDirectory()
    for name, rows in KUSUMOTO.items():
        graph = os.path.join(folder.name, f"{name}.json")
        write_depth_first(os.path.join(data, f"bench/graphs/kusumoto_{name}.json"), graph)
        for budget, (best, *_) in rows.items():
            found = [bench.plan(graph, f"{budget}%", "--keep-order", "--no-offsets", "--effort", "thorough", "--time-limit",
                                str(limit)).overhead for limit in seconds]
            print(f"| {name} | {budget} % | {best:.2f} | {' | '.join(text(overhead) for overhead in found)} |", flush=True)
    print()


def dags():
    print(f"| graph | budget | normal | seconds | thorough | seconds | best known | bound |\n|{'-|' * 8}")
    for name, rows in DAGS.items():
        graph = os.path.join(data, f"bench/graphs/{name}.json")
        for budget, best in rows.items():
            normal, thorough = both(graph, f"{budget}%", "--no-offsets")
            print(f"| {name} | {budget} % | {text(normal.overhead, 3)} | {normal.processor:.1f} | **{text(thorough.overhead, 3)}** | "
                  f"{thorough.processor:.1f} | {best:.3f} | {text(thorough.bound, 3)} |", flush=True)
    print()


def batches():
    """The largest batch of each model in the table of true sizes."""
    found = {}
    with open(os.path.join(data, "truth/truth.csv")) as file:
        for row in csv.reader(file):
            if len(row) > 1 and row[1].isdigit():
                found[row[0]] = max(int(row[1]), found.get(row[0], 0))
    return found


def has_model(name):
    return is_there(os.path.join(data, f"models/{name}.onnx"))


def effort():
    shares, seconds = (70, 50, 30, 15), []
    print(f"| model | batch | {' | '.join(f'floor + {share} %' for share in shares)} |\n|{'-|' * (2 + len(shares))}")
    for name in filter(has_model, MODELS):
        cells, batch = [], str(batches().get(name, 2))
        for share in shares:
            found = bench.plan(os.path.join(data, f"models/{name}.onnx"), f"floor+{share}%", "--batch", batch, "--optimizer", "adamw",
                               "--no-offsets")
            seconds.append(found.processor)
            cells.append(f"{text(found.overhead)} ({text(found.bound)}), {found.processor:.1f} s")
        print(f"| {name} | {batch} | {' | '.join(cells)} |", flush=True)
    print(f"\nThe median is {statistics.median(seconds):.1f} seconds of the processor, the most {max(seconds):.1f}.\n")


def models():
    solvers = ("chen", "segments", "lower-set", "chain", "lagrange")
    print(f"| model | batch | budget | {' | '.join(solvers)} | normal | s | thorough | s | bound |\n|{'-|' * (len(solvers) + 8)}")
    for name in filter(has_model, MODELS):
        graph, batch = os.path.join(data, f"models/{name}.onnx"), str(batches().get(name, 2))
        for share in (70, 50, 30, 15):
            options = ["--batch", batch, "--optimizer", "adamw", "--no-offsets"]
            others = [bench.plan(graph, f"floor+{share}%", "--solver", solver, *options).overhead for solver in solvers]
            normal, thorough = both(graph, f"floor+{share}%", *options)
            print(f"| {name} | {batch} | floor + {share} % | {' | '.join(text(o) for o in others)} | {text(normal.overhead)} | "
                  f"{normal.processor:.1f} | **{text(thorough.overhead)}** | {thorough.processor:.1f} | {text(thorough.bound)} |", flush=True)
    print()


def large():
    """At 40 %, in any order. `memplan check` counts the memory of each plan, and the verifier too up to 40,000 nodes."""
    print("| graph | nodes | forward | 1 s | 3 s | 5 s | auto | bound | seconds | MiB |\n|-|-|-|-|-|-|-|-|-|-|")
    maker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "make_large.py")
    with tempfile.TemporaryDirectory() as folder:
        one, graph, path = (os.path.join(folder, name) for name in ("one.json", "graph.json", "plan.json"))
        subprocess.run([memplan, "graph", os.path.join(data, "models/resnet152.onnx"), "--batch", "64", "--loss", "none", "-o", one],
                       check=True)
        for name, call in {"transformer, 690 layers": ["transformer", "690"], "resnet152 x 20": ["copies", "20", one],
                           "transformer, 2,300 layers": ["transformer", "2300"]}.items():
            with open(graph, "w") as file:
                subprocess.run([sys.executable, maker, *call], stdout=file, check=True)
            with open(graph) as file:
                phases = [node["phase"] for node in json.load(file)["nodes"]]
            found = []
            for limit in (["--time-limit", "1"], ["--time-limit", "3"], ["--time-limit", "5"], []):
                start = time.monotonic()
                child = subprocess.Popen([memplan, "plan", graph, "--budget", "40%", "--no-offsets", *limit, "-o", path],
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                status, usage = os.wait4(child.pid, 0)[1:]
                took = time.monotonic() - start
                if status:
                    sys.exit(f"bench: {name} {limit}: status {status}")
                subprocess.run([memplan, "check", graph, path], stdout=subprocess.DEVNULL, check=True)
                with open(path) as file:
                    plan = json.load(file)
                found.append(100 * (plan["seconds"] / plan["baseline_seconds"] - 1))
            bound = 100 * (plan["lower_bound_seconds"] / plan["baseline_seconds"] - 1)
            if len(phases) <= 40000:
                bench.verify(graph, path)
            print(f"| {name} | {len(phases)} | {phases.count('forward')} | {' | '.join(text(x) for x in found[:3])} | **{text(found[3])}** | "
                  f"{text(bound)} | {took:.1f} | {usage.ru_maxrss // 1024} |", flush=True)
    print()


def unmarked():
    """Extra time of each network's plans without marks, beside the same with marks, and random layered graphs; the verifier
    judges those of up to 20,000 nodes, `memplan check` all."""
    print(f"| graph | nodes | 90 % | 70 % | 50 % | seconds | MiB |\n|{'-|' * 7}")
    maker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "make_large.py")
    with tempfile.TemporaryDirectory() as folder:
        one, whole, graph = (os.path.join(folder, name) for name in ("one.json", "whole.json", "graph.json"))

        def make(path, *call):
            with open(path, "w") as file:
                subprocess.run([sys.executable, maker, *call], stdout=file, check=True)

        subprocess.run([memplan, "graph", os.path.join(data, "models/resnet152.onnx"), "--batch", "64", "--loss", "none", "-o", one],
                       check=True)
        for name, call, forms in (
                ("transformer, 263 layers", ["transformer", "263"], ["marked", "erased"]),
                ("resnet152 x 8", ["copies", "8", one], ["marked", "erased"]),
                ("transformer, 1,737 layers", ["transformer", "1737"], ["erased"]), ("resnet152 x 54", ["copies", "54", one], ["erased"]),
                ("transformer, 6,579 layers", ["transformer", "6579"], ["erased"]), ("resnet152 x 206", ["copies", "206", one], ["erased"]),
                *(("layered", ["layered", str(nodes), "1", "64"], [None]) for nodes in (10000, 66000, 250000))):
            make(whole, *call)
            for form in forms:
                if form:
                    make(graph, form, whole)
                path = graph if form else whole
                # not in this process: a child's peak memory is at least its parent's memory when it begins
                counted = subprocess.run(f"grep -o '\"phase\"' {path} | wc -l", shell=True, capture_output=True, check=True)
                nodes = int(counted.stdout)
                found = [bench.plan(path, f"{budget}%", "--no-offsets", judges=nodes <= 20000) for budget in (90, 70, 50)]
                cells = " | ".join("-" if f.overhead is None else f"{f.overhead:.3f} / {f.bound:.3f}" for f in found)
                print(f"| {name}{', ' + form if form else ''} | {nodes:,} | {cells} | {', '.join(f'{f.seconds:.1f}' for f in found)} | "
                      f"{max(f.mebibytes for f in found)} |", flush=True)
    print()


for table in tables:
    {"kept": lambda: kusumoto(True), "limits": limits, "free": lambda: kusumoto(False), "dags": dags, "effort": effort, "models": models, "large": large,
     "unmarked": unmarked}[table]()
sys.exit(bench.verdict())
