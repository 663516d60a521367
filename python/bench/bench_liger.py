"""The peaks of single modules and losses against Liger's published benchmark, in bytes.

    PYTHONPATH=python/src python python/bench/bench_liger.py ROWS.csv LIGER [--check]

LIGER is a git checkout of github.com/linkedin/Liger-Kernel with its history, and needs Triton and the version of transformers
that its scripts import. Each row runs the script of the commit that published it, on the meta device; launches of Triton
kernels do nothing there. `--check`: exit with 1 if a row differs by 512 bytes or more and has no reason in REASONS.
"""

from __future__ import annotations

import csv
import importlib.metadata
import io
import json
import runpy
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from memplan.graph.attention import attention_on
from memplan.library.quantities import process_memory
from memplan.memory.allocator import CachingAllocator, Settings
from memplan.step.eager_step import Requests
from memplan.torch_internals.dispatch import watching
from memplan.torch_internals.without_gpu import meta_as_gpu

MIB, GRAIN = 1 << 20, 512
DATA = "benchmark/data/all_benchmark_data.csv"
CARDS = {"A100": "a100", "H100": "h100", "B200": "b200", "RTX 4090": "rtx4090", "RTX 3090": "rtx3090"}
FLOAT32 = 2.0**-23
ITERATIONS = 3
REASONS: dict[str, str] = {}


@dataclass(frozen=True)
class Row:
    """A published peak. `key`: kernel, provider, mode, name and value of the swept size, and MiB. `sizes`: JSON."""

    id: str
    key: tuple[str, ...]
    gpu: str
    script: str
    sizes: str = "{}"

    @property
    def measured_mib(self) -> float:
        return float(self.key[-1])

    @property
    def card(self) -> str:
        return next(name for part, name in CARDS.items() if part in self.gpu)


def one_form(text: str) -> str:
    """Return a JSON object in one form, so that two texts compare."""
    return json.dumps(json.loads(text or "{}"), sort_keys=True)


def rows_of(path: str) -> list[Row]:
    found = []
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if not row["id"].startswith("liger-"):
                continue
            script = row["note"].partition("; script ")[2]
            name, _, value = row["seq"].partition("=")
            if not value:
                name, _, value = row["batch"].partition("=")
            mode = row["quantity"].split(", ")[1].split(" ")[0]
            provider = row["framework"].split("provider ")[1]
            key = (row["model"].removeprefix("module "), provider, mode, name, value)
            found.append(Row(row["id"], (*key, row["value"]), row["gpu"], script))
    return found


def commits_of(rows: list[Row], checkout: str) -> dict[str, list[Row]]:
    """Return the rows by the first commit that contains them."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", checkout, *words], capture_output=True, text=True, check=True).stdout

    wanted = defaultdict(list)
    for row in rows:
        wanted[row.key].append(row)
    found: dict[str, list[Row]] = defaultdict(list)
    for commit in git("log", "--reverse", "--format=%H", "--", DATA).split():
        for line in csv.DictReader(io.StringIO(git("show", f"{commit}:{DATA}"))):
            if line["metric_name"] != "memory":
                continue
            columns = ("kernel_name", "kernel_provider", "kernel_operation_mode", "x_name", "x_value")
            key = (*(line[c] for c in columns), line["y_value_50"])
            for row in [row for row in wanted[key] if row.gpu in line["gpu_name"]]:
                wanted[key].remove(row)
                found[commit].append(replace(row, sizes=one_form(line["extra_benchmark_config_str"])))
    found[""] = [row for rest in wanted.values() for row in rest]
    return found


class Marked(Requests):
    """Requests with the numbers of events at which the script resets the peak."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: list[int] = []

    def mark(self) -> None:
        self.settle()
        self.marks.append(len(self.events))

    def last_peak(self, workspace_bytes: int, is_part: bool) -> int:
        """Return the largest number of allocated bytes after the last mark but one, and before the last mark.

        `is_part`: the script runs forward or backward alone.
        """
        first, last = self.marks[-2:]
        allocator, held = CachingAllocator(Settings()), {}
        for _ in range(2 - len(self.products_in) if is_part and self.products_in else 0):  # forward and backward ran before
            allocator.allocate(workspace_bytes)
        for k, (number, n_bytes) in enumerate(self.events[:last]):
            if k == first:
                allocator.peak_allocated_bytes = allocator.allocated_bytes
            if number == 0 or n_bytes:
                held[number] = allocator.allocate(n_bytes or workspace_bytes)
            else:
                allocator.free(held.pop(number))
        return allocator.peak_allocated_bytes


def peaks(tree: str, script: str, rows: list[dict[str, Any]]) -> list[int | str]:
    """Run a script of a checkout for some rows. Return the peak of each row in bytes, or the reason why there is none."""
    folder = str(Path(tree, Path(script).parent))
    known = importlib.metadata.version
    sys.path[:0] = [folder, str(Path(tree, "src")), tree]
    importlib.metadata.version = lambda name: known(name) if name != "liger-kernel" else "0"
    with mock.patch.object(torch.cuda, "is_available", lambda: True):
        import utils  # type: ignore[import-not-found]
        from triton.runtime import jit
    torch.equal = lambda *_: True  # scripts compare a loss's gradient with 1
    assign = torch.Tensor.__setitem__  # the loops over the elements of a mask would take minutes
    torch.Tensor.__setitem__ = lambda t, k, v: None if v is True else assign(t, k, v)  # type: ignore[method-assign]
    jit.KernelInterface.__getitem__ = lambda self, grid: lambda *args, **kwargs: None  # type: ignore[method-assign]
    requests: Marked
    results: list[int | str] = []

    def measured(call: Any, *_: Any, **__: Any) -> list[float]:
        requests.mark()
        for _k in range(ITERATIONS):
            call()
            requests.mark()
        return [0.0, 0.0, 0.0]

    calls: list[tuple[Any, dict[str, Any]]] = []

    def collected(bench_test_fn: Any, **options: Any) -> None:
        if options["metric_name"] == "memory":
            calls.append((bench_test_fn, options))

    utils._test_memory, utils.run_benchmarks = measured, collected
    sys.argv = [script]
    with mock.patch.object(torch.cuda, "is_available", lambda: True):
        runpy.run_path(str(Path(tree, script)), run_name="__main__")
    for row in rows:
        requests = Marked()
        try:
            call, config = next(
                (call, config)
                for call, options in calls
                if options["kernel_name"] == row["kernel"] and options["x_name"] == row["x_name"]
                for config in options["extra_benchmark_configs"] or [{}]
                if one_form(json.dumps(config, default=str)) == row["sizes"]
            )
            value = float(row["x"])
            given = utils.SingleBenchmarkRunInput(
                x=int(value) if value.is_integer() else value,
                kernel_provider=row["provider"],
                kernel_operation_mode=row["mode"],
                extra_benchmark_config=config,
            )
            with torch.device("meta"), meta_as_gpu(attention_on(True, True)), watching(requests.run):
                call(given)
            requests.end()
            memory = process_memory(row["card"], "other", 0)
            assert memory is not None
            results.append(requests.last_peak(memory.workspace_bytes, row["mode"] != "full"))
        except Exception as error:
            results.append(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:100]}")
    return results


def script_of(row: Row, texts: dict[str, str]) -> str:
    """Return the path of the script that measures a kernel: the named one, or the first one that names the kernel."""
    known = Path(row.script).name
    return (
        f"benchmark/scripts/{known if known in texts else next((s for s, text in texts.items() if row.key[0] in text), known)}"
    )


def estimated(commit: str, rows: list[Row], checkout: str) -> dict[str, int | str]:
    """Run the scripts of a commit in processes of their own."""
    found: dict[str, int | str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for paths in (("benchmark/scripts", "src"), ("test",)):
            archive = subprocess.run(
                ["git", "-C", checkout, "archive", commit, *paths], capture_output=True, check=False
            ).stdout
            subprocess.run(["tar", "-x", "-C", folder], input=archive, check=False)
        Path(folder, "test").mkdir(exist_ok=True)
        Path(folder, "test/__init__.py").touch()  # else Python imports its own package of this name
        texts = {path.name: path.read_text() for path in sorted(Path(folder, "benchmark/scripts").glob("benchmark_*.py"))}
        for script in dict.fromkeys(script_of(row, texts) for row in rows):
            some = [row for row in rows if script_of(row, texts) == script]
            names = ("kernel", "provider", "mode", "x_name", "x")
            given = [{**dict(zip(names, row.key, strict=False)), "card": row.card, "sizes": row.sizes} for row in some]
            run = subprocess.run(
                [sys.executable, __file__, "--script", folder, script],
                check=False,
                input=json.dumps(given),
                capture_output=True,
                text=True,
            )
            last = run.stderr.strip().rpartition("\n")[2]
            results = json.loads(run.stdout.rpartition("\n")[2]) if run.returncode == 0 else [last] * len(some)
            found.update(zip((row.id for row in some), results, strict=True))
    return found


def main() -> int:
    if sys.argv[1] == "--script":
        sys.stdout.write("\n" + json.dumps(peaks(sys.argv[2], sys.argv[3], json.loads(sys.stdin.read()))))
        return 0
    path, checkout = sys.argv[1:3]
    n_exact = n_wrong = n_failed = 0
    for commit, rows in commits_of(rows_of(path), checkout).items():
        found = estimated(commit, rows, checkout) if commit else {row.id: "no commit has this row" for row in rows}
        for row in rows:
            bytes_or_reason = found[row.id]
            if isinstance(bytes_or_reason, str):
                n_failed += 1
                sys.stdout.write(f"{row.id}: {bytes_or_reason}\n")
                continue
            difference = bytes_or_reason - round(row.measured_mib * MIB)
            is_exact = abs(difference) < max(GRAIN, row.measured_mib * MIB * FLOAT32)  # the scripts print float32
            n_exact += is_exact
            n_wrong += not is_exact
            sys.stdout.write(
                f"{row.id}: measured {row.measured_mib:.4f} MiB, estimate {bytes_or_reason / MIB:.4f}"
                f" ({bytes_or_reason / MIB / row.measured_mib - 1:+.2%}, {difference:+} bytes)\n"
            )
        sys.stdout.flush()
    sys.stdout.write(f"{n_exact} exact, {n_wrong} differ, {n_failed} do not run\n")
    return int("--check" in sys.argv and n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
