#!/usr/bin/env python3
"""bench_calculon.py MEMPLAN CALCULON FOLDER - meshes that `memplan parallel` does not set aside, beside those of an exhaustive search.

CALCULON is a checkout of github.com/calculon-ai/calculon (Isaev et al., SC 2023), whose figures judge both: its networks, its A100
without a second memory, its formulas. Its own search tries every mesh with every switch. Ours takes the meshes and micro-batches that
memplan has not refuted by their memory, judges each with the usual switches and the least recomputation that fits, and the best
three with all switches. The answers of Calculon's search, which take minutes to hours, stay in FOLDER. Where it would take too
long, both are held to the same: each network by the least level that holds its group, tensor parallelism as reduce-scatter and
all-gather, optimizer state shared out, gradients summed beside backward. It needs numpy, pandas and psutil."""

from __future__ import annotations

import itertools
import json
import logging
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CASES = (("megatron-126M", 4, 16), ("megatron-5B", 4, 4), ("gpt3-13B", 4, 8))
LIMITED = (("megatron-22B", 8, 64), ("gpt3-175B", 64, 64), ("gpt3-175B", 512, 512))
RECOMPUTED = ("none", "attn_only", "full")
OVERLAPS = ("none", "ring", "pipe")
BEST, NODE = 3, 8
Judge = Any  # of Calculon: its class Llm, a network and a system


def a100(calculon: Path, folder: Path) -> Path:
    system = json.loads((calculon / "systems/a100_80g.json").read_text())
    system["mem2"]["GiB"] = 0
    path = folder / "a100.json"
    path.write_text(json.dumps(system))
    return path


def search(calculon: Path, folder: Path, system: Path, name: str, devices: int, batch: int) -> tuple[float, float]:
    """Samples a second of the best that Calculon's own search finds, and the processor seconds that it took."""
    answer, spent = folder / f"{name}_{devices}_{batch}.json", folder / f"{name}_{devices}_{batch}.seconds"
    if not spent.exists():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "bin/calculon", "llm-optimal-execution", f"models/{name}.json", str(devices), str(batch), "float16",
                        str(system), str(answer), "-c", "1"], cwd=calculon, env={**os.environ, "PYTHONPATH": "."}, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.write_text(str(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return float(json.loads(answer.read_text())["0"]["stats"]["sample_rate"]), float(spent.read_text())


def rate(judge: Judge, devices: int, batch: int, mesh: tuple[int, ...], switches: dict[str, Any]) -> float:
    """Samples a second of a mesh (tp, pp, dp, micro-batch) by Calculon's figures; 0: it does not fit, or is none of its."""
    llm, app, system = judge
    tensor, pipeline, data, micro_batch = mesh
    execution = {
        "num_procs": devices, "tensor_par": tensor, "pipeline_par": pipeline, "data_par": data, "batch_size": batch,
        "microbatch_size": micro_batch, "datatype": "float16", "fused_activation": True, "attention_type": "multihead",
        "tensor_par_comm_type": "rs_ag", "weight_offload": False, "activations_offload": False, "optimizer_offload": False,
        "training": True, "optimizer_sharding": data > 1, "data_par_overlap": data > 1, **switches}
    try:
        model = llm(app, logging.getLogger("silent"))
        model.compile(system, llm.Execution.from_json(execution))
        model.run(system)
    except (llm.Error, AssertionError):
        return 0.0
    return float(model.get_stats_json(False)["sample_rate"])


def settings(llm: Any, app: Any, mesh: tuple[int, ...], devices_of_a_node: int, everything: bool) -> list[dict[str, Any]]:
    """The switches of Calculon that a mesh does not name: the usual ones, or all."""
    tensor, pipeline, data, _ = mesh
    nets = {"tensor_par_net": int(tensor > devices_of_a_node), "data_par_net": int(tensor * data > devices_of_a_node),
            "pipeline_par_net": int(tensor * data * pipeline > devices_of_a_node)}
    chunks = list(llm.get_valid_pipeline_interleavings(app.num_blocks, pipeline))
    overlaps = OVERLAPS if everything and tensor > 1 else OVERLAPS[:1 + (tensor > 1)][-1:]
    found = []
    for recomputed, overlap, count in itertools.product(RECOMPUTED, overlaps, chunks if everything else chunks[-1:]):
        may_redo = llm.can_redo_ag("rs_ag", recomputed)
        for redo in (True, False) if everything and may_redo else (False,):
            found.append({"activation_recompute": recomputed, "tensor_par_overlap": overlap, "pipeline_interleaving": count,
                          "seq_par_ag_redo": redo, **nets})
    return found


def search_limited(judge: Judge, devices: int, batch: int) -> tuple[float, int]:
    """Samples a second of the best of all meshes and micro-batches with all switches that `settings` has, and how many these are."""
    llm, app, _ = judge
    best, asked = 0.0, 0
    for tensor in llm.get_all_tensor_parallelisms(devices, app.hidden, app.attn_heads):
        for pipeline in llm.get_all_pipeline_parallelisms(devices, tensor, app.num_blocks):
            data = devices // tensor // pipeline
            if batch % data:
                continue
            for micro_batch in llm.get_valid_microbatch_sizes(app.seq_size, tensor, data, batch, pipeline):
                mesh = tensor, pipeline, data, micro_batch
                for switches in settings(llm, app, mesh, NODE, True):
                    asked += 1
                    best = max(best, rate(judge, devices, batch, mesh, switches))
    return best, asked


def shape(app: Any) -> list[str]:
    """The same network for memplan; Calculon's has no table of words."""
    sizes = {"layers": app.num_blocks, "width": app.attn_heads * app.attn_size, "heads": app.attn_heads, "feed-forward": app.feedforward,
             "sequence": app.seq_size, "vocabulary": app.hidden}
    return ["gpt2", *(word for name, size in sizes.items() for word in ("--dim", f"{name}={size}"))]


def ours(memplan: str, judge: Judge, devices: int, batch: int) -> tuple[float, tuple[int, ...], int]:
    """Samples a second of our best mesh by Calculon's figures, the mesh, and how often Calculon was asked."""
    llm, app, _ = judge
    answer = json.loads(subprocess.run(
        [memplan, "parallel", *shape(app), "--device", "a100", "--rules", "executor", "--dtype", "fp16", "--devices", str(devices),
         "--global-batch", str(batch), "--json"], capture_output=True, text=True, check=True).stdout)
    meshes = {(c["mesh"]["tp"], c["mesh"]["pp"], c["mesh"]["dp"] * c["mesh"]["shard"], c["micro_batch"])
              for c in answer["best"] + answer["set_aside"] if c["reason"] not in ("floor", "over-memory") and not c["mesh"]["data"]}
    meshes = {mesh for mesh in meshes if app.num_blocks % mesh[1] == 0}  # Calculon's stages are alike
    asked = 0

    def best_of(mesh: tuple[int, ...], everything: bool) -> float:
        nonlocal asked
        best = 0.0
        for switches in settings(llm, app, mesh, NODE, everything):
            asked += 1
            best = max(best, rate(judge, devices, batch, mesh, switches))
            if best and not everything:  # sorted by recomputation, ascending
                break
        return best

    order = sorted(meshes, key=lambda mesh: -best_of(mesh, False))
    return *max((best_of(mesh, True), mesh) for mesh in order[:BEST]), asked


def main(memplan: str, calculon: str, kept: str) -> int:
    folder, checkout = Path(kept).resolve(), Path(calculon).resolve()
    sys.path.insert(0, str(checkout))
    from calculon.io import read_json_file
    from calculon.llm import Llm
    from calculon.system import System
    system = a100(checkout, folder)
    print(f"{'network':<14} {'devices':>7} {'batch':>6} {'Calculon: 1/s':>13} {'processor s':>11} {'here: 1/s':>10} {'processor s':>11} "
          f"{'asked':>6}  tp, pp, dp, micro-batch")
    for name, devices, batch in (*CASES, *LIMITED):
        judge = (Llm, Llm.Application(read_json_file(str(checkout / f"models/{name}.json"))), System(read_json_file(str(system))))
        begun = time.process_time()
        if (name, devices, batch) in CASES:
            theirs, their_seconds = search(checkout, folder, system, name, devices, batch)
        else:
            theirs, judged = search_limited(judge, devices, batch)
            their_seconds = time.process_time() - begun
            print(f"limited to {judged}:")
        begun, before = time.process_time(), resource.getrusage(resource.RUSAGE_CHILDREN)
        best, mesh, asked = ours(memplan, judge, devices, batch)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = time.process_time() - begun + after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"{name:<14} {devices:>7} {batch:>6} {theirs:>13.4f} {their_seconds:>11.1f} {best:>10.4f} {seconds:>11.2f} {asked:>6}  "
              f"{', '.join(map(str, mesh))}", flush=True)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
