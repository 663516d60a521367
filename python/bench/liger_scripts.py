"""Runs a script of Liger's benchmark on the meta device, and states the peak of each of its rows in bytes.

    python/bench/liger_scripts.py TREE SCRIPT < rows.json

The rows of a script ran in one process, after its other runs. So the caching allocator had cached large blocks, and both
threads of PyTorch had their workspaces of cuBLAS. For this reason the largest sizes of all modes and providers run first.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import json
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from memplan.graph.attention import attention_on
from memplan.library.quantities import process_memory
from memplan.memory.allocator import CachingAllocator, Settings
from memplan.step.eager_step import Requests
from memplan.step.stated_card import Card, answering, stated_card
from memplan.torch_internals.dispatch import watching
from memplan.torch_internals.without_gpu import meta_as_gpu

ITERATIONS = 3
COMPILED = "compile"  # part of the names of providers that use torch.compile


class Process(Requests):
    """Requests of all runs of a process, with the numbers of events at which the script resets the peak."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: list[int] = []

    def mark(self) -> None:
        self.settle()
        self.marks.append(len(self.events))

    def run(self, operator: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator. A mask selects half of the rows, as random masks do on average."""
        if str(operator) == "aten.index.Tensor" and any(t is not None and t.dtype == torch.bool for t in args[1]):
            halves = [t if t is None or t.dtype != torch.bool else t.new_empty(len(t) // 2, dtype=torch.long) for t in args[1]]
            args = (args[0], halves)
        return super().run(operator, args, kwargs)

    def peaks(self, windows: list[tuple[int, int]], workspace_bytes: int) -> list[int]:
        """Return the largest number of allocated bytes within each window of events. Windows are in order."""
        allocator, held, found = CachingAllocator(Settings()), {}, []
        ends = {end: begin for begin, end in windows}
        begins = set(ends.values())
        for k, (number, n_bytes) in enumerate([*self.events, (-1, 0)]):
            if k in ends:
                found.append(allocator.peak_allocated_bytes)
            if k in begins:
                allocator.peak_allocated_bytes = allocator.allocated_bytes
            if number == 0 or n_bytes:
                held[number] = allocator.allocate(n_bytes or workspace_bytes)
            elif number > 0:
                allocator.free(held.pop(number))
        return found


@contextlib.contextmanager
def there(card: Card) -> Iterator[None]:
    """Within the context, a GPU seems to exist. Scripts choose their device and their sizes by it."""
    with (
        answering(card),
        mock.patch.object(torch.cuda, "is_available", lambda: True),
        mock.patch.object(torch.cuda, "device_count", lambda: 1),
    ):
        yield


def value_of(value: Any) -> Any:
    """Return a setting of a row: types are published as their names."""
    is_name = isinstance(value, str) and value.startswith("torch.")
    return getattr(torch, value.removeprefix("torch.")) if is_name else value


class Script:
    """A script whose calls of `run_benchmarks` are collected instead of executed."""

    def __init__(self, tree: str, script: str, card: Card) -> None:
        self.card, self.process = card, Process()
        self.calls: list[tuple[Callable[[Any], Any], dict[str, Any]]] = []
        known = importlib.metadata.version
        importlib.metadata.version = lambda name: known(name) if name != "liger-kernel" else "0"
        sys.path[:0] = [str(Path(tree, Path(script).parent)), str(Path(tree, "src")), tree]
        with there(card):
            import triton.runtime  # type: ignore[import-not-found]  # noqa: F401
            import utils  # type: ignore[import-not-found]

            with contextlib.suppress(ImportError):
                import benchmark_model_configs  # type: ignore[import-not-found]

                benchmark_model_configs.estimate_kernel_peak_memory = lambda **_: 1 << 30  # sizes are those of the rows
            utils._test_memory, utils.run_benchmarks = self.measured, self.collected
            self.given = utils.SingleBenchmarkRunInput
            sys.argv = [script]
            with torch.device("meta"), meta_as_gpu(attention_on(True, True)), watching(self.process.run):
                runpy.run_path(str(Path(tree, script)), run_name="__main__")

    def collected(self, bench_test_fn: Callable[[Any], Any], **options: Any) -> None:
        if options["metric_name"] == "memory":
            self.calls.append((bench_test_fn, options))

    def measured(self, call: Callable[[], Any], *_: Any, **__: Any) -> list[float]:
        self.process.mark()
        for _k in range(ITERATIONS):
            call()
            self.process.mark()
        return [0.0, 0.0, 0.0]

    def run(self, call: Callable[[Any], Any], x: float, provider: str, mode: str, config: Any) -> None:
        given = self.given(x=x, kernel_provider=provider, kernel_operation_mode=mode, extra_benchmark_config=config)
        try:
            with torch.device("meta"), meta_as_gpu(attention_on(True, True)), there(self.card), watching(self.process.run):
                call(given)
        finally:
            gc.collect()

    def warm_up(self) -> None:
        for call, options in self.calls:
            for config in options["extra_benchmark_configs"] or [{}]:
                for mode in options["kernel_operation_modes"]:
                    for provider in options["kernel_providers"]:
                        if COMPILED not in provider:
                            with contextlib.suppress(Exception):
                                self.run(call, max(options["x_values"]), provider, mode, config)

    def window(self, row: dict[str, Any]) -> tuple[int, int]:
        """Run a row. Return the first event of its last iteration, and the first one after it."""
        of_kernel = [(o["x_name"] == row["x_name"], c) for c, o in self.calls if o["kernel_name"] == row["kernel"]]
        call = max(of_kernel, key=lambda found: found[0])[1]
        config = {name: value_of(value) for name, value in json.loads(row["sizes"]).items()}
        x = float(row["x"])
        self.run(call, int(x) if x.is_integer() else x, row["provider"], row["mode"], config)
        first, last = self.process.marks[-2:]
        return first, last


def peaks(tree: str, path: str, rows: list[dict[str, Any]]) -> list[int | str]:
    """Run a script of a checkout for some rows. Return the peak of each row in bytes, or the reason why there is none."""
    torch.equal = lambda *_: True  # scripts compare a loss's gradient with 1
    assign = torch.Tensor.__setitem__  # the loops over the elements of a mask would take minutes
    torch.Tensor.__setitem__ = lambda t, k, v: None if v is True else assign(t, k, v)  # type: ignore[method-assign]
    card, memory = stated_card(rows[0]["card"]), process_memory(rows[0]["card"], "other", 0)
    assert card is not None and memory is not None
    script = Script(tree, path, card)
    script.warm_up()
    results: list[int | str] = [""] * len(rows)
    windows = {}
    for k, row in enumerate(rows):
        try:
            windows[k] = script.window(row)
        except Exception as error:
            results[k] = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:100]}"
    script.process.end()
    for k, peak in zip(windows, script.process.peaks(list(windows.values()), memory.workspace_bytes), strict=True):
        results[k] = peak
    return results


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(peaks(sys.argv[1], sys.argv[2], json.loads(sys.stdin.read()))))
