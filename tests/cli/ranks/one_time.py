#!/usr/bin/env python3
"""one_time.py MEMPLAN - a mesh has one time: asked for alone, among all meshes, and with its stages in estimate."""

from __future__ import annotations

import json
import subprocess
import sys

MEMPLAN = sys.argv[1]
NETWORKS = (["gpt2-small"], ["gpt2", "--dim", "layers=6"], ["bert-large", "--dim", "layers=6", "--dtype", "bf16"])
SIZES = ("dp", "shard", "tp", "pp", "ep")


def ask(command: str, *words: str) -> dict:
    return json.loads(subprocess.run([MEMPLAN, command, *words, "--json"], capture_output=True, text=True).stdout)


def title(mesh: dict) -> str:
    return ",".join([f"{d}={mesh[d]}" for d in SIZES] + ([f"zero={mesh['zero']}"] if mesh["zero"] else []) + (["data=1"] if mesh["data"] else []))


def alone_and_among_all() -> None:
    """The fastest choice of each mesh of which one was played has the seconds that the mesh has alone, whatever the memory."""
    for network, memory in ((["gpt2-small"], "4GiB"), (["gpt2-small"], "1500MiB"), (["bert-large", "--dim", "layers=4"], "2500MiB")):
        words = [*network, "--devices", "8", "--global-batch", "64", "--memory", memory]
        found = ask("parallel", *words)
        fastest: dict[str, float] = {}
        for choice in found["best"] + found["set_aside"]:
            if choice["seconds"] is not None:
                name = title(choice["mesh"])
                fastest[name] = min(choice["seconds"], fastest.get(name, choice["seconds"]))
        assert len(fastest) > 4, (network, memory, fastest)
        for name, seconds in fastest.items():
            alone = ask("parallel", *words, "--mesh", name)
            of_mesh = [c["seconds"] for c in alone["best"] + alone["set_aside"] if c["seconds"] is not None and title(c["mesh"]) == name]
            assert min(of_mesh) == seconds, (network, memory, name, seconds, of_mesh)


def as_estimated() -> None:
    """Stages begin at the same blocks, and a step takes as long, within one part in a thousand."""
    for network in NETWORKS:
        for pipeline in (["1f1b"], ["gpipe"], ["interleaved", "--chunks", "2"], ["interleaved", "--chunks", "3"]):
            words = [*network, "--mesh", "pp=4", "--pipeline", *pipeline]
            best = ask("parallel", *words, "--devices", "4", "--global-batch", "16", "--micro-batch", "1")["best"][0]
            ranks = ask("estimate", *words, "--batch", "16", "--micro-batches", "16")
            begins = [stage["first_block"] for chunk in zip(*(rank["stages"] for rank in ranks["ranks"])) for stage in chunk]
            assert begins == [stage["first_block"] for stage in best["stages"]], (words, begins, best["stages"])
            assert abs(ranks["seconds"] / best["seconds"] - 1) < 1e-3, (words, ranks["seconds"], best["seconds"])


alone_and_among_all()
as_estimated()
