"""Runs a script of Liger's benchmark on the meta device, and states the peak of each of its rows in bytes.

    python/bench/liger_scripts.py TREE SCRIPT < rows.json

The measured process of a row had executed other runs of the script before. So the caching allocator had cached large blocks,
and both threads of PyTorch had allocated their workspaces of cuBLAS. For this reason the largest sizes of all modes and
providers run first.

In some scripts (IN_ORDER) peaks depend on the order of all runs, because the allocator does not split off remainders up to
1 MiB. For these scripts all runs execute in the order of the script, also the runs that measure times.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import itertools
import json
import runpy
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from liger_values import Unknown, Values
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

from memplan.graph.attention import attention_on
from memplan.library.quantities import process_memory
from memplan.memory.allocator import CachingAllocator, Settings
from memplan.step.eager_step import Requests, zero
from memplan.step.stated_card import Card, answering, stated_card
from memplan.torch_internals.dispatch import watching
from memplan.torch_internals.tensors import tree_iter
from memplan.torch_internals.without_gpu import meta_as_gpu

ITERATIONS = 3
CONSTRUCTORS = _device_constructors()
MOST_OPERATORS = 100_000  # operators of a warm-up run; longer runs only repeat the same chunks
IN_ORDER = ("fused_linear_cross_entropy", "fused_neighborhood_attention", "distill_cosine_loss")
CACHE_BYTES = 256 << 20  # bytes that Triton's do_bench overwrites to clear the L2 cache
COMPILED = "compile"  # part of the names of providers that use torch.compile


class TooLong(Exception):
    """A run has more operators than its limit."""


class Process(Requests):
    """Requests of all runs of a process, with the numbers of events at which the script resets the peak."""

    def __init__(self, card: Card) -> None:
        super().__init__(card)
        self.marks: list[int] = []
        self.values = Values(card)
        self.host: weakref.WeakSet[Any] = weakref.WeakSet()  # storages of tensors on the CPU
        self.most_operators = 0  # limit of a run; 0: no limit
        self.place = ""  # "host" or "gpu" while a call creates a tensor there

    def is_on_host(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.device.type == "meta" and value.untyped_storage() in self.host

    def _is_new(self, value: Any) -> bool:
        return super()._is_new(value) and not self.is_on_host(value)

    @contextlib.contextmanager
    def creating(self, place: str) -> Iterator[None]:
        """Within the context, operators create tensors on the CPU ("host") or on the GPU ("gpu")."""
        before, self.place = self.place, place
        try:
            yield
        finally:
            self.place = before

    def mark(self) -> None:
        self.settle()
        self.marks.append(len(self.events))

    def value(self, tensor: Any) -> torch.Tensor | None:
        """Return the value of a tensor, or None if the script's calls do not determine it."""
        try:
            return self.values.of(tensor)
        except Unknown:
            return None

    def run(self, operator: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator. A mask with unknown values selects half of the rows, like an average random mask."""
        name = str(operator)
        if self.most_operators:
            self.most_operators -= 1
            if not self.most_operators:
                raise TooLong
        tensors = [v for v in tree_iter((args, kwargs)) if isinstance(v, torch.Tensor) and v.device.type == "meta"]
        if self.place == "host" or (self.place == "" and tensors and all(map(self.is_on_host, tensors))):
            return self.run_on_host(operator, args, kwargs)
        if name == "aten._local_scalar_dense.default" and (value := self.value(args[0])) is not None:
            return value.item()
        if name == "aten.nonzero.default" and (mask := self.value(args[0])) is not None:
            found = mask.nonzero()
            result = super().run(torch.ops.aten.new_empty.default, (args[0], found.shape), {"dtype": found.dtype})
            self.values.state(result, found)
            return result
        if name == "aten.index.Tensor":
            args = (args[0], [self.indices(t) for t in args[1]])
        result = super().run(operator, args, kwargs)
        self.values.note(operator, args, kwargs, result)
        return result

    def run_on_host(self, operator: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator of the CPU, whose memory does not count."""
        if str(operator) == "aten._local_scalar_dense.default":
            return zero(args[0].dtype)
        result = operator(*args, **kwargs)
        self.host.update(
            t.untyped_storage() for t in tree_iter(result) if isinstance(t, torch.Tensor) and t.device.type == "meta"
        )
        return result

    def indices(self, index: Any) -> Any:
        """Return indices in place of a mask."""
        if index is None or index.dtype != torch.bool:
            return index
        mask = self.value(index)
        return index.new_empty(len(index) // 2 if mask is None else int(mask.sum()), dtype=torch.long)

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


def is_gpu(value: Any) -> bool:
    return isinstance(value, (str, torch.device)) and str(value).partition(":")[0] in ("cuda", "meta")


class HostTensors(TorchFunctionMode):
    """Tensors that a script creates without a device are on the CPU until the script moves them to the GPU."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self.process = process

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in CONSTRUCTORS and kwargs.get("device") is None:
            with self.process.creating("host"):
                return func(*args, **{**kwargs, "device": "meta"})
        if func is torch.Tensor.cuda:
            func, args = torch.Tensor.to, (args[0], "meta")
        if func is torch.Tensor.to and self.process.is_on_host(args[0]) and any(map(is_gpu, [*args[1:], kwargs.get("device")])):
            with self.process.creating("gpu"):
                return func(*args, **{**kwargs, "copy": True})
        return func(*args, **kwargs)


@contextlib.contextmanager
def there(card: Card) -> Iterator[None]:
    """Within the context, a GPU seems to exist. Scripts use its properties to choose their device and their sizes."""
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


def timed(call: Callable[[], Any], grad_to_none: Any = None, **_: Any) -> list[float]:
    """Run a call as often as Triton's do_bench.

    do_bench measures times and allocates a cache. It drops gradients before its last call.
    """
    call()
    _cache = torch.empty(CACHE_BYTES, dtype=torch.int8, device="meta")
    call()
    call()
    for tensor in grad_to_none or ():
        tensor.grad = None
    call()
    return [0.0, 0.0, 0.0]


def is_of(row: dict[str, Any], key: tuple[str, str, str, float], config: dict[str, Any]) -> bool:
    """Whether a row is the result of a run."""
    wanted = {name: value_of(value) for name, value in json.loads(row["sizes"]).items()}
    return key == (row["kernel"], row["provider"], row["mode"], float(row["x"])) and wanted == config


class Script:
    """A script whose calls of `run_benchmarks` are collected instead of executed."""

    def __init__(self, tree: str, script: str, card: Card) -> None:
        self.card, self.process = card, Process(card)
        self.calls: list[tuple[Callable[[Any], Any], dict[str, Any]]] = []  # calls that measure memory
        self.all_calls: list[tuple[Callable[[Any], Any], dict[str, Any]]] = []
        known = importlib.metadata.version
        importlib.metadata.version = lambda name: known(name) if name != "liger-kernel" else "0"
        sys.path[:0] = [str(Path(tree, Path(script).parent)), str(Path(tree, "src")), tree]
        with there(card):
            import triton.runtime  # type: ignore[import-not-found]  # noqa: F401
            import utils  # type: ignore[import-not-found]

            with contextlib.suppress(ImportError):
                import benchmark_model_configs  # type: ignore[import-not-found]

                benchmark_model_configs.estimate_kernel_peak_memory = lambda **_: 1 << 30  # the rows state the sizes
            utils._test_memory, utils.run_benchmarks = self.measured, self.collected
            self.given = utils.SingleBenchmarkRunInput
            sys.argv = [script]
            with (
                torch.device("meta"),
                meta_as_gpu(attention_on(True, True)),
                HostTensors(self.process),
                self.process.values.seeded(),
                watching(self.process.run),
            ):
                runpy.run_path(str(Path(tree, script)), run_name="__main__")

    def collected(self, bench_test_fn: Callable[[Any], Any], **options: Any) -> None:
        self.all_calls.append((bench_test_fn, options))
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
            with (
                torch.device("meta"),
                meta_as_gpu(attention_on(True, True)),
                there(self.card),
                HostTensors(self.process),
                self.process.values.seeded(),
                watching(self.process.run),
            ):
                call(given)
        finally:
            gc.collect()

    def warm_up(self) -> None:
        for call, options in self.calls:
            for config in options["extra_benchmark_configs"] or [{}]:
                for mode in options["kernel_operation_modes"]:
                    for provider in options["kernel_providers"]:
                        if COMPILED not in provider:
                            self.process.most_operators = MOST_OPERATORS
                            with contextlib.suppress(Exception):
                                self.run(call, max(options["x_values"]), provider, mode, config)
        self.process.most_operators = 0

    def in_order(self, rows: list[dict[str, Any]]) -> dict[int, tuple[int, int]]:
        """Execute all runs of the script. Return the window of events of each row, by the row's index."""
        import triton.testing  # type: ignore[import-not-found]

        found: dict[int, tuple[int, int]] = {}
        with mock.patch.object(triton.testing, "do_bench", timed):
            for call, options in self.all_calls:
                for config, mode, provider, x in itertools.product(
                    options["extra_benchmark_configs"] or [{}],
                    options["kernel_operation_modes"],
                    options["kernel_providers"],
                    options["x_values"],
                ):
                    with contextlib.suppress(Exception):
                        self.run(call, x, provider, mode, config)
                        if options["metric_name"] == "memory":
                            key = options["kernel_name"], provider, mode, float(x)
                            first, last = self.process.marks[-2:]
                            found.update({k: (first, last) for k, row in enumerate(rows) if is_of(row, key, config)})
        return found

    def window(self, row: dict[str, Any]) -> tuple[int, int]:
        """Run a row. Return the first event of its last iteration, and the first event after this iteration."""
        of_kernel = [(o["x_name"] == row["x_name"], c) for c, o in self.calls if o["kernel_name"] == row["kernel"]]
        call = max(of_kernel, key=lambda found: found[0])[1]
        config = {name: value_of(value) for name, value in json.loads(row["sizes"]).items()}
        x = float(row["x"])
        self.run(call, int(x) if x.is_integer() else x, row["provider"], row["mode"], config)
        first, last = self.process.marks[-2:]
        return first, last


def peaks(tree: str, path: str, rows: list[dict[str, Any]]) -> list[int | str]:
    """Run a script of a checkout for some rows. Return the peak of each row in bytes, or the reason why a row has no peak."""
    torch.equal = lambda *_: True  # scripts compare a loss's gradient with 1
    assign = torch.Tensor.__setitem__  # loops that set the elements of a mask one by one would take minutes
    torch.Tensor.__setitem__ = lambda t, k, v: None if v is True else assign(t, k, v)  # type: ignore[method-assign]
    card, memory = stated_card(rows[0]["card"]), process_memory(rows[0]["card"], "other", 0)
    assert card is not None and memory is not None
    script = Script(tree, path, card)
    results: list[int | str] = [""] * len(rows)
    windows = {}
    if rows[0]["kernel"] in IN_ORDER:
        windows = script.in_order(rows)
        results = ["the script does not run this row"] * len(rows)
    else:
        script.warm_up()
        for k, row in enumerate(rows):
            try:
                windows[k] = script.window(row)
            except Exception as error:
                results[k] = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:100]}"
    script.process.end()
    in_order = sorted(set(windows.values()))  # rows with the same bytes can share a window
    found = dict(zip(in_order, script.process.peaks(in_order, memory.workspace_bytes), strict=True))
    for k, window in windows.items():
        results[k] = found[window]
    return results


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(peaks(sys.argv[1], sys.argv[2], json.loads(sys.stdin.read()))))
