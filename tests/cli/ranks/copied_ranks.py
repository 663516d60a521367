#!/usr/bin/env python3
"""copied_ranks.py MEMPLAN some|all [TABLE] - trainings on the meshes of the rank tests, without and with copies to the host's memory or to a folder.

A run is a mesh, options, a kind of copies and a number of passes. It counts as ok if all of these hold:

- It has the losses and parameters of the same mesh that keeps everything, bit for bit.
- It sends the planned bytes to other ranks and copies the planned bytes between tiers.
- It uses no more memory than planned.

Otherwise a run must be refused with exit status 2 and one sentence. `some` is for the test suite. `all` takes an hour with a build with sanitizers, reports invalid
accesses as failures and writes a row for each run into the Markdown file TABLE.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from many_ranks import ENVIRONMENT, MEMPLAN, MPIRUN, WHAT, is_sent_as_planned, path

HERE = pathlib.Path(__file__).parent
# Activations and optimizer state of a rank have 1 MiB and more, the least that is copied.
WORDS = "gpt2 --dim layers=2 --dim width=128 --dim heads=4 --dim feed-forward=512 --dim vocabulary=4096 --dim sequence=64 --random-weights --bucket 1MiB".split()
EXPERTS = [
    *"mixtral-8x7b --dim layers=1 --dim width=64 --dim heads=4 --dim key-value-heads=2 --dim feed-forward=128 --dim vocabulary=512 --dim sequence=16".split(),
    "--random-weights",
]
PICTURES = [str(HERE.parents[2] / "examples" / "fashion_cnn.onnx"), "--loss", "cross-entropy", "--bucket", "16KiB"]
COPIES = {
    "none": ["--budget", "100%"],
    "host": ["--budget", "92%", "--offload", "host", "--solver", "copy-only"],
    "host and state": ["--budget", "80%", "--offload", "host", "--offload-state"],
    "folder": ["--budget", "92%", "--offload", "FOLDER", "--solver", "copy-only"],
    "folder and state": ["--budget", "80%", "--offload", "FOLDER", "--offload-state"],
}
SANITIZER = re.compile(r"ERROR: \w+Sanitizer.*|runtime error:.*|memplan: invariant.*")
REFUSED = re.compile(r"can be planned but not trained yet|does not apply to a pipeline")
CRASH = re.compile(r"exited on signal.*|Segmentation fault.*|Signal: .*")


@dataclasses.dataclass(frozen=True)
class Case:
    mesh: str
    copies: str = "none"
    passes: int = 1
    options: tuple[str, ...] = ()
    network: tuple[str, ...] = tuple(WORDS)


@dataclasses.dataclass
class Result:
    outcome: str
    said: str = ""
    answer: dict = dataclasses.field(default_factory=dict)
    seconds: float = 0


def sizes(mesh: str) -> dict[str, int]:
    return {name: int(number) for name, number in (part.split("=") for part in mesh.split(","))}


def size_of(mesh: str) -> int:
    n = 1
    for name, number in sizes(mesh).items():
        n *= number if name in ("dp", "shard", "tp", "pp") else 1
    return n


def meshes() -> list[str]:
    """Every mesh of at most four ranks in a text of these tests, and every stage of sharding with other dimensions."""
    texts = "".join(file.read_text() for file in HERE.glob("*.py"))
    found = set(re.findall(r'"((?:dp|shard|tp|pp)=\d[a-z0-9=,]*)"', texts))
    for zero, beside in itertools.product((1, 2, 3), ("", ",tp=2", ",pp=2")):
        found |= {f"shard=2,zero={zero}{beside}", f"dp=2,shard=2,zero={zero}", f"shard=3,zero={zero}", f"shard=4,zero={zero}"}
    return sorted(mesh for mesh in found if 1 < size_of(mesh) <= 4 and "ep" not in sizes(mesh))


def words(case: Case, folder: str) -> list[str]:
    of = sizes(case.mesh)
    is_pipeline = of.get("pp", 1) > 1
    samples = (64 if case.network == tuple(PICTURES) else 8) * of.get("tp", 1) * (2 if is_pipeline else 1)
    passes = ["--micro-batches" if is_pipeline and "--accumulate" not in case.options else "--accumulate", str(case.passes)]
    return [
        *[*MPIRUN, "-n", str(size_of(case.mesh)), MEMPLAN, "train", *case.network, "--batch", str(samples), "--mesh", case.mesh, "--steps", "2"],
        *[*(passes if case.passes > 1 else []), *(w for w in case.options if w != "--accumulate")],
        *["--effort", "quick", "--no-before", "--json", *(folder if w == "FOLDER" else w for w in COPIES[case.copies])],
    ]


def line_of(case: Case) -> str:
    return " ".join(words(case, "copies")[len(MPIRUN) + 2 :])


def train(case: Case) -> Result:
    with tempfile.TemporaryDirectory(dir=".") as folder:
        start = time.monotonic()
        done = subprocess.run(words(case, folder), env=ENVIRONMENT, capture_output=True, text=True, timeout=600)
    took = time.monotonic() - start
    for outcome, pattern in (("sanitizer report", SANITIZER), ("crash", CRASH)):
        if found := pattern.search(done.stderr):
            return Result(outcome, found[0], seconds=took)
    if done.returncode == 0:
        return Result("ok", answer=json.loads(done.stdout), seconds=took)
    sentences = re.findall(r"^memplan: (?!progress)(.*)", done.stderr, re.MULTILINE)
    is_refused = done.returncode == 2 and len(sentences) == 1 and REFUSED.search(sentences[0])
    outcome = "refused" if is_refused else "failed"
    return Result(outcome, " | ".join(sentences) or done.stderr[-300:], seconds=took)


def faults_of(answer: dict, moves_state: bool) -> list[str]:
    """Return a sentence for each difference from the plan."""
    faults = []
    try:
        is_sent_as_planned(answer)
    except AssertionError as failure:
        faults.append(f"sent bytes: {failure}")
    for rank in answer["ranks"]["each"]:
        of = rank["after"]
        if not 0 < of["measured_peak_bytes"] <= of["planned_peak_bytes"]:
            faults.append(f"memory of rank {rank['rank']}")
    copies = answer.get("offload")
    if copies:
        of, own = answer["ranks"]["each"][0]["after"], answer["after"]
        if of["planned_peak_bytes"] != own["static_bytes"] + own["arena_bytes"] or of["measured_peak_bytes"] != own["static_bytes"] + own["measured_arena_bytes"]:
            faults.append("two quantities in the columns of memory")
        if (copies["bytes_out"], copies["bytes_in"]) != (copies["planned_bytes_out"], copies["planned_bytes_in"]):
            faults.append(f"copied bytes: {copies}")
        if moves_state and not copies["bytes_out"]:
            faults.append("no state is copied")
    return faults


class Runs:
    def __init__(self) -> None:
        self.plain: dict[Case, Result] = {}
        self.rows: list[tuple[Case, Result]] = []
        self.failures = 0

    def add(self, case: Case, expected: str = "ok") -> None:
        """Run a case, and the same mesh without copies unless that was run before."""
        try:
            result = self.judged(case, expected)
        except subprocess.TimeoutExpired:
            result = Result("failed", "does not end")
        self.rows.append((case, result))
        if result.outcome != expected:
            self.failures += 1
            print(f"FAILED: {result.outcome}: {line_of(case)}: {result.said}", flush=True)

    def judged(self, case: Case, expected: str) -> Result:
        bare = dataclasses.replace(case, copies="none")
        result = train(case)
        if result.outcome != "ok" or expected != "ok":
            return result
        result.said = "; ".join(faults_of(result.answer, "state" in case.copies))
        if result.said:
            result.outcome = "not as planned"
        if case == bare:
            self.plain[case] = result
        elif bare not in self.plain:
            self.plain[bare] = train(bare)
        mine, others = (of.answer.get("after", {}) for of in (result, self.plain[bare]))
        if any(mine[key] != others.get(key) for key in ("losses", "weights_hash")) and "fast" not in case.options:
            result.outcome, result.said = "different losses", f"{mine['losses']}, {others.get('losses')} without copies"
        return result

    def write(self, file: str) -> None:
        with open(file, "w", encoding="utf-8") as table:
            print("| mesh | network and options | copies | passes | result | MiB copied | s | message |\n|---|---|---|---|---|---|---|---|", file=table)
            for case, result in self.rows:
                copied = result.answer.get("offload", {}).get("bytes_out", 0) / 2**20
                row = [case.mesh, " ".join((pathlib.Path(case.network[0]).stem, *case.options)), case.copies, str(case.passes), result.outcome]
                print("| " + " | ".join([*row, f"{copied:.1f}", f"{result.seconds:.1f}", result.said.replace("|", "/")]) + " |", file=table)

    def summary(self) -> int:
        counts = collections.Counter(result.outcome for _, result in self.rows)
        print(f"{len(self.rows)} runs on {len({case.mesh for case, _ in self.rows})} meshes: " + ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())))
        return self.failures > 0


def some(runs: Runs) -> None:
    for case in (Case("dp=2", "host and state"), Case("shard=2,zero=2", "host and state", 3), Case("shard=2", "host"), Case("tp=2", "host and state")):
        runs.add(case)
    for copies in ("host", "host and state"):
        runs.add(Case("pp=2", copies, 4), "refused")
    runs.add(Case("dp=2,ep=2", network=tuple(EXPERTS)), "refused")


def everything(runs: Runs) -> None:
    for mesh in meshes():
        is_pipeline = "pp" in sizes(mesh)
        for copies, passes in itertools.product(("none", "host", "host and state"), (2, 4) if is_pipeline else (1, 2)):
            runs.add(Case(mesh, copies, passes), "refused" if is_pipeline and copies != "none" else "ok")
    with_options(runs)
    refusals(runs)


def with_options(runs: Runs) -> None:
    for mesh, copies in itertools.product(("dp=2", "dp=4", "shard=2,zero=2", "shard=2", "dp=2,shard=2", "tp=2", "shard=2,tp=2"), ("folder", "folder and state")):
        runs.add(Case(mesh, copies, 2))
    updates = [("--clip-norm", "0.1"), ("--fuse", "backward", "--optimizer", "momentum"), ("--dtype", "bf16"), ("--lora", "8:*"), ("--freeze", "*weight")]
    for options, mesh in itertools.product(updates, ("dp=2", "shard=2,zero=1", "shard=2,zero=2", "shard=2", "tp=2")):
        runs.add(Case(mesh, "host and state", 2, options))
    for options, mesh in ((("--reduce", "fast"), "dp=2"), (("--reduce", "fast"), "shard=2")):
        runs.add(Case(mesh, "host and state", 2, options))
    for mesh, copies in itertools.product(("dp=2", "shard=2,zero=2", "shard=2", "tp=2,data=1"), ("host", "folder")):
        runs.add(Case(mesh, copies, 2, ("--sync-batchnorm",), tuple(PICTURES)))


def refusals(runs: Runs) -> None:
    runs.add(Case("shard=2,pp=2", "none", 4, ("--pipeline-schedule", "gpipe")))
    for schedule, mesh, copies in itertools.product(("gpipe", "interleaved", "zb-h1"), ("pp=2", "shard=2,pp=2"), ("none", "host", "folder and state")):
        if (schedule, copies) != ("gpipe", "none"):
            runs.add(Case(mesh, copies, 4, ("--pipeline-schedule", schedule)), "refused")
    for mesh, copies in itertools.product(("dp=2,ep=2", "shard=2,ep=2"), ("none", "host and state")):
        runs.add(Case(mesh, copies, 1, (), tuple(EXPERTS)), "refused")
    for copies in ("none", "host and state"):
        runs.add(Case("pp=2", copies, 2, ("--accumulate",)), "refused")


def main() -> int:
    runs = Runs()
    {"some": some, "all": everything}[WHAT](runs)
    if len(sys.argv) > 3:
        runs.write(sys.argv[3])
    return runs.summary()


if __name__ == "__main__":
    sys.exit(main())
