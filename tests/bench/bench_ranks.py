#!/usr/bin/env python3
"""bench_ranks.py MEMPLAN MODELS - a step of two ranks on this machine, one thread each, beside PyTorch's DistributedDataParallel over gloo.

The same networks (torchvision's, of which MODELS has the exported files), batch, optimizer (AdamW) and loss; batches are random and stay where they are. Ways take
turns. Seconds are the median of the slower rank's steps, over all rounds; memory is the process's peak beyond its memory before it made the network. Needs a Python
with torch and torchvision.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MODELS = (("resnet18", 4), ("mobilenet_v2", 4), ("efficientnet_b0", 4))
ROUNDS, STEPS = 3, 6
# Before other programs on the machine, if that is allowed.
FIRST = ["sh", "-c", 'echo -20 > /proc/self/autogroup; exec nice -n -20 "$@"', "sh"] if os.geteuid() == 0 else []


def resident(peak: bool) -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * int(status.split("VmHWM:" if peak else "VmRSS:")[1].split()[0])


def replica(model: str, batch: int, rank: int, meeting: str) -> None:
    """One of two processes of DDP; prints its seconds a step and its bytes."""
    import torch
    import torchvision

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    images, classes = torch.randn(batch, 3, 224, 224), torch.randint(0, 1000, (batch,))
    torch.nn.functional.conv2d(images, torch.randn(4, 3, 3, 3))  # loads libraries
    before = resident(peak=False)
    torch.manual_seed(0)
    network = torch.nn.parallel.DistributedDataParallel(getattr(torchvision.models, model)())
    optimizer = torch.optim.AdamW(network.parameters())
    seconds = []
    for _ in range(STEPS):
        start = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(images), classes).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": statistics.median(seconds[1:]), "bytes": resident(peak=True) - before}))
    torch.distributed.destroy_process_group()


def ddp(model: str, batch: int) -> tuple[float, int]:
    with tempfile.TemporaryDirectory() as folder:
        words = [*FIRST, sys.executable, __file__, "replica", model, str(batch)]
        ranks = [subprocess.Popen([*words, str(k), f"{folder}/meeting"], env=environment(), stdout=subprocess.PIPE, text=True) for k in range(2)]
        answers = [json.loads(rank.communicate(timeout=600)[0].splitlines()[-1]) for rank in ranks]
    return max(a["seconds"] for a in answers), max(a["bytes"] for a in answers)


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def run(*words: str) -> str:
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: status {done.returncode}\n{done.stderr}")
    return done.stdout


def ours(memplan: str, file: str, plan: str) -> tuple[float, int]:
    start = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2", *FIRST]
    answer: dict[str, Any] = json.loads(run(*start, memplan, "train", file, "--plan", plan, "--steps", str(STEPS), "--no-before", "--json"))
    peak = max(of["after"]["process_bytes"] for of in answer["ranks"]["each"])
    return max(of["step_seconds"] for of in answer["ranks"]["each"]), peak - answer["after"]["idle_process_bytes"]


def bench(memplan: str, folder: Path, model: str, batch: int) -> None:
    file = str(folder / f"{model}.onnx")
    with tempfile.TemporaryDirectory() as work:
        run(*FIRST, memplan, "profile", file, "--batch", str(batch), "--device", "cpu", "--steps", "3", "-o", f"{work}/costs.json")
        shape = [file, "--batch", str(batch), "--device", "cpu", "--costs", f"{work}/costs.json", "--mesh", "dp=2", "--bucket", "4MiB", "--time-limit", "5"]
        for budget in ("100%", "60%"):
            run(memplan, "plan", *shape, "--budget", budget, "-o", f"{work}/{budget}.json")
        rows: dict[str, list[tuple[float, int]]] = {"DDP, gloo": [], "memplan, 100%": [], "memplan, 60%": []}
        for _ in range(ROUNDS):
            rows["DDP, gloo"].append(ddp(model, batch))
            for budget in ("100%", "60%"):
                rows[f"memplan, {budget}"].append(ours(memplan, file, f"{work}/{budget}.json"))
    for way, measured in rows.items():
        seconds, peak = (statistics.median(m[k] for m in measured) for k in (0, 1))
        print(f"{model:16} {batch:5} {way:16} {seconds:9.3f} s {peak / 2**20:9.0f} MiB", flush=True)


def main() -> None:
    if sys.argv[1] == "replica":
        replica(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
        return
    print(f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores")
    for model, batch in MODELS:
        bench(os.path.abspath(sys.argv[1]), Path(sys.argv[2]).resolve(), model, batch)


main()
