#!/usr/bin/env python3
"""one_time.py MEMPLAN - a mesh has one time: asked for alone, among all meshes, and with its stages in estimate."""

from __future__ import annotations

import json
import subprocess
import sys

MEMPLAN = sys.argv[1]
NETWORKS = (["gpt2-small"], ["gpt2", "--dim", "layers=6"], ["bert-large", "--dim", "layers=6", "--dtype", "bf16"])
H100 = ["--device", "h100", "--dtype", "bf16"]
# the memory of a device, and the meshes that are judged with it
JUDGED = (
    (["gpt2-small"], "40GiB", (["dp=8"], ["shard=8,zero=2"], ["shard=4,dp=2"], ["pp=8"], ["pp=4,dp=2", "gpipe"], ["tp=4,shard=2"])),
    (["gpt2", "--dim", "layers=6"], "1200MiB", (["pp=4,dp=2"], ["pp=4,dp=2", "zb-h1"], ["pp=2,shard=4", "interleaved"])),
    (["bert-large", "--dim", "layers=6", *H100], "40GiB", (["shard=8,zero=1"], ["tp=2,pp=2,dp=2"], ["shard=2,pp=4", "interleaved"])),
    (["t5-large", "--dim", "layers=4", *H100], "40GiB", (["dp=8"], ["pp=2,shard=4,zero=3"], ["pp=4,dp=2", "gpipe"])),
    (["gpt3-13b", "--dim", "layers=8", *H100], "20GiB", (["shard=4,pp=2,zero=3", "interleaved"], ["shard=8,zero=3"], ["shard=4,pp=2,zero=2"])),
)
SIZES = ("dp", "shard", "tp", "pp", "ep")


def ask(command: str, *words: str) -> dict:
    return json.loads(subprocess.run([MEMPLAN, command, *words, "--json"], capture_output=True, text=True).stdout)


def title(mesh: dict) -> str:
    return ",".join([f"{d}={mesh[d]}" for d in SIZES] + ([f"zero={mesh['zero']}"] if mesh["zero"] else []) + (["data=1"] if mesh["data"] else []))


def alone_and_among_all() -> None:
    """The fastest choice of each mesh of which one was simulated has the block model's seconds that the mesh has alone."""
    for network, memory in ((["gpt2-small"], "4GiB"), (["gpt2-small"], "1500MiB"), (["bert-large", "--dim", "layers=4"], "2500MiB")):
        words = [*network, "--devices", "8", "--global-batch", "64", "--memory", memory]
        found = ask("parallel", *words)
        fastest: dict[str, float] = {}
        for choice in found["best"] + found["set_aside"]:
            if choice["model_seconds"] is not None:
                name = title(choice["mesh"])
                fastest[name] = min(choice["model_seconds"], fastest.get(name, choice["model_seconds"]))
        assert len(fastest) > 4, (network, memory, fastest)
        for name, seconds in fastest.items():
            alone = ask("parallel", *words, "--mesh", name)
            of_mesh = [c["model_seconds"] for c in alone["best"] + alone["set_aside"] if c["model_seconds"] is not None and title(c["mesh"]) == name]
            assert min(of_mesh) == seconds, (network, memory, name, seconds, of_mesh)


def as_estimated() -> None:
    """Stages begin at the same blocks, and a step takes as long, within one part in a thousand."""
    for network in NETWORKS:
        for pipeline in (["1f1b"], ["gpipe"], ["interleaved", "--chunks", "2"], ["interleaved", "--chunks", "3"]):
            words = [*network, "--mesh", "pp=4", "--pipeline-schedule", *pipeline]
            best = ask("parallel", *words, "--devices", "4", "--global-batch", "16", "--micro-batch-size", "1")["best"][0]
            ranks = ask("estimate", *words, "--batch", "16", "--micro-batches", "16")
            begins = [stage["first_block"] for chunk in zip(*(rank["stages"] for rank in ranks["ranks"])) for stage in chunk]
            assert begins == [stage["first_block"] for stage in best["stages"]], (words, begins, best["stages"])
            assert ranks["seconds"] == best["seconds"], (words, ranks["seconds"], best["seconds"])
            assert abs(best["model_seconds"] / best["seconds"] - 1) < 1e-3, (words, best["model_seconds"], best["seconds"])


def begins_of(best: dict) -> str:
    return ",".join(str(stage["first_block"]) for stage in best["stages"])


def sent_by_first(exact: dict, of_mesh: list[str]) -> int:
    """Bytes that rank 0 sends in a step."""
    return (exact if isinstance(exact["ranks"], dict) else ask("estimate", *of_mesh, "--rank", "0"))["ranks"]["sent_bytes"]


def as_judged() -> None:
    """Each best mesh in which no rank recomputes has exactly the seconds and the peak of estimate."""
    judged: dict[str, int] = {"keep-all": 0, "blocks": 0}
    meshes_seen = set()
    for network, memory, meshes in JUDGED:
        for mesh, *schedule in meshes:
            words = [*network, *(["--pipeline-schedule", *schedule] if schedule else [])]
            found = ask("parallel", *words, "--devices", "8", "--global-batch", "64", "--memory", memory, "--mesh", mesh)
            for best in found["best"]:
                n, sizes = best["micro_batches"], title(best["mesh"])
                of_mesh = [*network, "--mesh", sizes]
                if best["mesh"]["pp"] > 1:
                    of_mesh += ["--batch", str(n * best["micro_batch"]), "--micro-batches", str(n), "--stages", begins_of(best)]
                    of_mesh += ["--pipeline-schedule", best["schedule"], *(["--chunks", str(best["chunks"])] if best["chunks"] > 1 else [])]
                else:
                    of_mesh += ["--batch", str(best["micro_batch"]), "--accumulate", str(n)]
                judged[best["judge"]] += 1
                exact = ask("estimate", *of_mesh)
                if best["judge"] == "blocks":
                    assert exact["peak_bytes"] > found["memory_bytes"], (of_mesh, exact["peak_bytes"], best)
                    continue
                meshes_seen.add((network[0], sizes, best["schedule"]))
                seconds = (exact if best["mesh"]["pp"] > 1 else exact["ranks"])["seconds"]
                assert sum(s["sent_bytes"] for s in best["stages"][:: best["mesh"]["pp"]]) == sent_by_first(exact, of_mesh), (of_mesh, best)
                assert (seconds, exact["peak_bytes"]) == (best["seconds"], best["peak_bytes"]), (of_mesh, seconds, exact["peak_bytes"], best)
    assert len(meshes_seen) >= 12 and judged["blocks"] >= 2, (judged, len(meshes_seen))


alone_and_among_all()
as_estimated()
as_judged()
