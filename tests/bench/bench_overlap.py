#!/usr/bin/env python3
"""bench_overlap.py MEMPLAN MODELS [RATE] - as root: a step of two ranks with the sums of its gradients beside backward, and after it, on a slow network.

Two network namespaces are joined by a pair of virtual devices that let RATE (tc's tbf; default 400mbit) through each way. In there the network is measured
(`profile network`), and for each model the seconds of its operators; with both a plan is made with small buckets, which are on their way while backward runs, and
one with a single bucket, which is complete only at its end. Both are run in turns. A row has measured and predicted seconds of both, medians of all rounds.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MEMPLAN = os.path.abspath(sys.argv[1])
FOLDER, RATE = Path(sys.argv[2]).resolve(), sys.argv[3] if len(sys.argv) > 3 else "400mbit"
MODELS = (("resnet18", 4), ("mobilenet_v2", 4), ("efficientnet_b0", 4))
WAYS = (("beside backward", "2MiB"), ("after backward", "1GiB"))
ROUNDS, STEPS = 3, 4
# Open MPI's TCP sends one way at a time over a single connection.
MPIRUN = "mpirun --allow-run-as-root --bind-to none --mca btl tcp,self --mca btl_tcp_links 2 --mca btl_tcp_if_include veth0 --mca oob_tcp_if_include veth0"
# Before other programs on the machine, if that is allowed.
FIRST = ["sh", "-c", 'echo -20 > /proc/self/autogroup 2> /dev/null; exec nice -n -20 "$@"', "sh"]
AGENT = """#!/bin/sh
# mpirun calls it in place of ssh: HOST COMMAND, in the other namespace and under another name
while case $1 in -*) true ;; *) false ;; esac; do shift; done
shift
exec ip netns exec {there} unshare -u sh -c 'hostname there; exec sh -c "$*"' sh "$@"
"""


class Hosts:
    """Two namespaces, and how to run something on both."""

    def __init__(self, folder: str) -> None:
        self.names = [f"memplan-{os.getpid()}-{k}" for k in "ab"]
        self.agent = f"{folder}/agent"
        with open(self.agent, "w", encoding="utf-8") as f:
            f.write(AGENT.format(there=self.names[1]))
        os.chmod(self.agent, 0o755)

    def __enter__(self) -> Hosts:
        here, there = self.names
        run("ip", "netns", "add", here)
        run("ip", "netns", "add", there)
        run("ip", "-n", here, "link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", there)
        for k, name in enumerate(self.names):
            run("ip", "-n", name, "addr", "add", f"10.99.0.{k + 1}/24", "dev", "veth0")
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "link", "set", "veth0", "up")
            run("tc", "-n", name, "qdisc", "add", "dev", "veth0", "root", "tbf", "rate", RATE, "burst", "5kb", "latency", "50ms")
        return self

    def __exit__(self, *failure: object) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)

    def ranks(self, *words: str) -> str:
        start = f"hostname here; exec {MPIRUN} --mca plm_rsh_agent {self.agent} --host 10.99.0.1:1,10.99.0.2:1 -x OMP_NUM_THREADS=1 -n 2 \"$@\""
        return run("ip", "netns", "exec", self.names[0], "unshare", "-u", "sh", "-c", start, "sh", *FIRST, MEMPLAN, *words)


def run(*words: str) -> str:
    done = subprocess.run(words, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: status {done.returncode}\n{done.stderr}")
    return done.stdout


def network_of(hosts: Hosts, file: str) -> str:
    """Measures the network, and takes the seconds of the largest all-reduce for its level: buckets are as large, and a line through all sizes follows the small
    ones, which cost latency."""
    hosts.ranks("profile", "network", "-o", file)
    with open(file, encoding="utf-8") as f:
        network = json.load(f)
    largest = max((c for c in network["collectives"] if c["collective"] == "all-reduce"), key=lambda c: c["bytes"])
    line = network["levels"][0]["bytes_per_second"]
    network["levels"][0].update(bytes_per_second=largest["bytes"] / largest["seconds"], latency_seconds=0)
    with open(file, "w", encoding="utf-8") as f:
        json.dump(network, f)
    return f"{largest['bytes'] >> 20} MiB summed in {largest['seconds']:.3f} s: {largest['bytes'] / largest['seconds'] / 1e6:.1f} MB/s (the line: {line / 1e6:.1f})"


def bench(hosts: Hosts, folder: str, model: str, batch: int) -> None:
    file, costs, network = str(FOLDER / f"{model}.onnx"), f"{folder}/{model}.costs.json", f"{folder}/network.json"
    run(*FIRST, MEMPLAN, "profile", file, "--batch", str(batch), "--device", "cpu", "--steps", "3", "-o", costs)
    plans: dict[str, Any] = {}
    for way, bucket in WAYS:
        plan = f"{folder}/{model}.{bucket}.json"
        words = [file, "--batch", str(batch), "--device", "cpu", "--costs", costs, "--mesh", "dp=2", "--network", network, "--bucket", bucket]
        plans[way] = json.loads(run(MEMPLAN, "plan", *words, "--budget", "100%", "--time-limit", "3", "-o", plan, "--json"))
        plans[way]["file"] = plan
    measured: dict[str, list[dict[str, Any]]] = {way: [] for way, _ in WAYS}
    for _ in range(ROUNDS):
        for way, _ in WAYS:
            measured[way].append(json.loads(hosts.ranks("train", file, "--plan", plans[way]["file"], "--steps", str(STEPS), "--no-before", "--json")))
    seconds = {way: statistics.median(max(of["step_seconds"] for of in answer["ranks"]["each"]) for answer in measured[way]) for way, _ in WAYS}
    for way, _ in WAYS:
        hidden = statistics.median(of["hidden"] for answer in measured[way] for of in answer["ranks"]["each"])
        planned = plans[way]["seconds"]
        print(
            f"{model:16} {batch:5} {way:16} {plans[way]['ranks']['collectives']:7} {planned:9.3f} s {seconds[way]:9.3f} s "
            f"{100 * (seconds[way] / planned - 1):+7.0f} % {100 * hidden:6.0f} %",
            flush=True,
        )
    (beside, _), (after, _) = WAYS
    print(f"{'':16} {'':5} saved by being beside it: planned {1 - plans[beside]['seconds'] / plans[after]['seconds']:.0%}, measured {1 - seconds[beside] / seconds[after]:.0%}")


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # namespaces go in any case
    with tempfile.TemporaryDirectory() as folder, Hosts(folder) as hosts:
        print(network_of(hosts, f"{folder}/network.json"))
        print(f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores, {RATE} each way")
        print(f"{'model':16} {'batch':>5} {'sums':16} {'buckets':>7} {'planned':>11} {'measured':>11} {'':>9} {'hidden':>8}")
        for model, batch in MODELS:
            bench(hosts, folder, model, batch)


main()
