"""measured.py - runs one search as a whole command, and returns extra time, bound, seconds and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

NO_DATA = """bench: {} is no folder of published graphs and models: tests/bench/convert_graphs.py makes the graphs from
github.com/pfnet-research/recompute and github.com/haoming-codes/moccasin, tests/bench/export_models.py the models (docs/internals/data.md)"""
NO_PLAN = (1, 3)  # exit statuses: none exists, and none was found
SHAPING = ("--batch", "--optimizer", "--dtype", "--device")  # options that say which graph it is


@dataclass(frozen=True)
class Measured:
    """Extra time and bound in % of a step, None: no plan; seconds of the clock and of the processor; MiB; by how many percent the
    arena exceeds the live bytes of the peak (0 without an arena); and the budget in bytes."""

    overhead: float | None
    bound: float | None
    seconds: float
    processor: float
    mebibytes: int
    waste: float
    budget: int | None = None


def data_folder(argument: str) -> Path:
    """The folder DATA, where graphs and models lie; else one sentence and exit status 2."""
    folder = Path(argument).resolve()
    if argument and (folder / "bench/graphs").is_dir() and (folder / "models").is_dir():
        return folder
    print(NO_DATA.format(argument or "''").replace("\n", " "), file=sys.stderr)
    sys.exit(2)


def is_there(path: str | Path) -> bool:
    """Whether DATA has the file of a row, which is left out else."""
    if not Path(path).exists():
        print(f"bench: left out: {path} is not there", file=sys.stderr)
    return Path(path).exists()


def run(command: list[str], silent: bool = True) -> tuple[int, float, float, int, str]:
    """Exit status, seconds of the clock and of the processor, MiB, and the text on standard error."""
    with tempfile.TemporaryFile("w+") as complaints:
        start = time.monotonic()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL if silent else None, stderr=complaints)
        _, status, usage = os.wait4(child.pid, 0)
        took = time.monotonic() - start
        complaints.seek(0)
        text = complaints.read()
    return os.waitstatus_to_exitcode(status), took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024, text


class Bench:
    """Plans of one program, each judged by the verifier of others as well, if it is there."""

    def __init__(self, memplan: str, verifier: str | None) -> None:
        self.memplan = memplan
        self.verifier = verifier if verifier and Path(verifier).exists() else None
        self.judged = 0
        self.refused = 0

    def verify(self, graph: str, plan: str) -> None:
        if not self.verifier:
            return
        self.judged += 1
        check = subprocess.run([sys.executable, self.verifier, graph, plan], capture_output=True, check=False)
        if check.returncode:
            self.refused += 1
            print("refused:", graph, check.stdout.decode()[-300:], check.stderr.decode()[-300:], file=sys.stderr)

    def plan(self, graph: str, budget: str, *options: str, judges: bool = True) -> Measured:
        with tempfile.TemporaryDirectory() as folder:
            path, judged = str(Path(folder, "plan.json")), graph
            status, seconds, processor, mebibytes, complaints = run(
                [self.memplan, "plan", graph, "--budget", budget, *options, "-o", path])
            if status in NO_PLAN:
                return Measured(None, None, seconds, processor, mebibytes, 0)
            if status:
                sys.exit(complaints)
            with open(path) as file:
                found = json.load(file)
            if judges and not graph.endswith(".json"):
                judged = str(Path(folder, "graph.json"))
                shape = [o for k, o in enumerate(options) if o in SHAPING or (k and options[k - 1] in SHAPING)]
                subprocess.run([self.memplan, "graph", graph, *shape, "-o", judged], check=True)
            if judges:
                self.verify(judged, path)
        base, bound = found["baseline_seconds"], found.get("lower_bound_seconds")
        arena = found.get("arena_bytes")
        live = found["peak_bytes"] - found["static_bytes"]
        return Measured(100 * (found["seconds"] / base - 1), None if bound is None else 100 * (bound / base - 1), seconds, processor,
                        mebibytes, 100 * (arena / live - 1) if arena and live else 0, found.get("budget_bytes"))

    def verdict(self) -> int:
        print(f"{self.judged} plans were judged by another program too; {self.refused} refused.")
        return int(self.refused > 0)
