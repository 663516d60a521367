"""Measured operator costs: each distinct call runs alone, on artificial values of the same layout.

Operators that do not belong to PyTorch are not run, because they may have state or reject such values. Their cost is the time
to move their bytes. Times are processor time of this thread (GPU: the GPU's clock), so other programs do not disturb them. The
workspace is the memory allocated during a call besides its results. The measurement needs none of the network's tensors.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import math
import operator
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import fx
from torch.profiler import record_function

from memplan.costs.artificial_arguments import depends_on_values, fill_arguments, made_up
from memplan.costs.cache import Cache
from memplan.costs.interpolation import Points
from memplan.graph.capture import device_of_first, storage_bytes, tensors_of
from memplan.graph.collectives import is_collective, sent_bytes
from memplan.graph.collectives import workspace_bytes as collective_workspace
from memplan.graph.operators import has_own_generator, is_foreign
from memplan.graph.sizes import is_number
from memplan.torch_internals.autograd import is_allocation, memory_events, profiled
from memplan.torch_internals.dispatch import in_thread

T = TypeVar("T")
REPEATS = 3
LEAST_SECONDS = 1e-7
MOST_SECONDS, MOST_KEPT_BYTES = 1e6, 1 << 50  # a cached cost beyond these limits is treated as invalid
BYTES_PER_SECOND = 1e10  # assumed memory bandwidth for the cost of operators that cannot be measured alone
LATENCY = 20e-6  # assumed latency of a collective in seconds
# Operators that read memory which only another operator can fill. With other contents they crash the process.
OPAQUE = {"aten._cudnn_rnn", "aten._cudnn_rnn_backward", "aten.miopen_rnn_backward"}
MARK = "memplan call"
os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # without this variable, the profiler logs messages about itself


@dataclass(frozen=True)
class Cost:
    """The cost of a call.

    `result_bytes`: sizes of the storages of the results, in their order; empty if unknown. A storage may be larger than its
    result. For example, a scalar loss may occupy memory of the size of its argument.
    `is_between`: the seconds are interpolated between two other sizes.
    """

    seconds: float
    workspace_bytes: int
    result_bytes: tuple[int, ...] = ()
    is_between: bool = False


def is_whole(tensor: torch.Tensor) -> bool:
    """Whether the tensor contains all elements of its storage."""
    return storage_bytes(tensor) == tensor.numel() * tensor.element_size()


def describe(node: fx.Node) -> str:
    """Return a text that identifies an operator's cost: its operator, tensor layouts and scalars.

    Equal texts mean equal cost.
    """

    def one(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            layout = tuple(value.shape), tuple(value.stride()), str(value.dtype), str(value.device)
            return layout if is_whole(value) else (*layout, storage_bytes(value))
        return type(value).__name__ if is_number(value) else value

    def argument(a: Any) -> Any:
        return fx.node.map_aggregate(a.meta.get("val"), one) if isinstance(a, fx.Node) else a

    return f"{node.target} {fx.node.map_aggregate((node.args, node.kwargs), argument)}"


def behind_forward(*args: Any) -> tuple[Any, ...]:
    """Run an LSTM's forward and return arguments for its backward, because backward rejects artificial saved tensors."""
    inputs, gradients = args[:7], args[10:13]
    reverse, mode, hidden_size, num_layers, has_biases, train, bidirectional, batch_sizes, batch_first = args[13:22]
    options = (reverse, batch_sizes, mode, hidden_size, num_layers, has_biases, bidirectional, batch_first, train)
    output, hy, cy, workspace = torch.ops.memplan.rnn_layer.default(*inputs, *options)
    return (*inputs, output, hy, cy, *gradients, *args[13:22], workspace)


def call_of(node: fx.Node, runs_makers: bool = False, is_timed: bool = True) -> Callable[[], Any]:
    """Return the node's call on artificial arguments.

    `runs_makers`: run operators with several results, and use the layouts that they return. Under autocast, a batch
    normalization returns its statistics in fp32, but the capture records bf16.
    """

    def argument(a: Any) -> Any:
        if not isinstance(a, fx.Node):
            return a
        if runs_makers and a.target is operator.getitem and isinstance(a.args[0], fx.Node):
            return fx.node.map_aggregate(call_of(a.args[0])()[a.args[1]], made_up)
        return fx.node.map_aggregate(a.meta.get("val"), functools.partial(made_up, is_timed=is_timed))

    function: Any = node.target
    args, kwargs = fx.node.map_aggregate((node.args, node.kwargs), argument)
    fill_arguments(node, args)
    if function is torch.ops.aten.mkldnn_rnn_layer_backward.default:
        args = behind_forward(*args)
    return functools.partial(function, *args, **kwargs)


def fastest_seconds(call: Callable[[], Any], device: torch.device) -> float:
    best = math.inf
    for _ in range(REPEATS):
        if device.type == "cuda":
            timed: Any = torch.cuda.Event
            begin, end = timed(enable_timing=True), timed(enable_timing=True)
            begin.record()
            call()
            end.record()
            end.synchronize()
            seconds = begin.elapsed_time(end) / 1e3
        else:
            start = time.thread_time()
            call()
            seconds = time.thread_time() - start
        best = min(best, seconds)
    return max(best, LEAST_SECONDS)


NOT_RUN = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)


def seconds_of(call: Callable[[], Any], device: torch.device) -> tuple[float, tuple[int, ...]]:
    """Return the minimum time of several runs, and the sizes of the results' storages."""
    result_bytes = tuple(storage_bytes(t) for t in tensors_of(call()))
    return fastest_seconds(call, device), result_bytes


def cuda_workspace(call: Callable[[], Any], device: torch.device) -> int:
    torch.cuda.reset_peak_memory_stats(device)
    before = int(torch.cuda.memory_allocated(device))
    result = call()
    after = max(before, int(torch.cuda.memory_allocated(device)))
    del result
    peak = int(torch.cuda.max_memory_allocated(device))
    return max(0, peak - after)


def host_workspaces(calls: Iterable[Callable[[], Any]]) -> list[int]:
    """Return the workspace of each call in bytes: its peak of allocated memory minus the memory that remains at its end.

    PyTorch's memory events come from a profiler of a separate thread. torch.profiler exists once per process, and the training
    program may be using it.
    """

    def run() -> list[Any]:
        with memory_events() as events, torch.no_grad():
            for call in calls:
                with record_function(MARK):
                    result = call()
                del result, call
        return events

    found: list[int] = []
    depth = now = top = 0  # depth: nesting depth within a call; now: allocated bytes; top: their maximum
    for event in in_thread(run):
        kind = event.kind()
        if kind == "push" and (depth or event.name() == MARK):
            depth += 1
        elif kind == "memory_alloc" and depth:
            now += event.cpu_memory_usage()
            top = max(top, now)
        elif kind == "pop" and depth:
            depth -= 1
            if depth == 0:
                found.append(max(0, top - max(0, now)))
                now = top = 0
    return found


def workspaces_of(call: Callable[[str], Callable[[], Any]], nodes: Mapping[str, fx.Node]) -> dict[str, int]:
    """Return the workspaces of these nodes' calls in bytes. `call`: returns the function that runs the call of a key."""
    on_host = [key for key, node in nodes.items() if device_of(node).type != "cuda"]
    found = dict(zip(on_host, host_workspaces(map(call, on_host)))) if on_host else {}
    return found | {key: cuda_workspace(call(key), device_of(node)) for key, node in nodes.items() if key not in found}


def apart(call: Callable[[], T]) -> T:
    """Run a call during a compilation, with real tensors, without gradients or autocast. The random state is restored."""
    cuda: Any = torch.cuda
    # the caller's current GPU, which is restored; -1: CUDA is not in use
    device = cuda.current_device() if cuda.is_initialized() else -1

    def run() -> T:
        with cuda.device(device), torch.no_grad():
            return call()

    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        return in_thread(run)


def device_of(node: fx.Node) -> torch.device:
    return device_of_first(node.meta.get("val"))


class Costs:
    """The costs of calls, for all graphs of a process."""

    def __init__(self) -> None:
        self.known: dict[str, Cost] = {}
        self.failed: set[str] = set()
        # points: measured calls, for interpolation; placed: the keys of calls that `points` already contains
        self.points, self.placed = Points(), set[str]()

    def measure(
        self, nodes: Iterable[fx.Node], cache: Cache, told: Callable[[int, int], None] = lambda n, of: None
    ) -> dict[fx.Node, Cost]:
        """Measure the operators of these nodes. `told` receives the number of measured calls and the total number."""
        keys = {node: describe(node) for node in nodes}
        self.known.update({key: unmeasured(node) for node, key in keys.items() if is_unmeasured(node)})
        if any(key not in self.known for key in keys.values()):
            self._read(cache)
        self._place(keys)
        new = {key: node for node, key in reversed(keys.items()) if key not in self.known}
        if new:
            apart(lambda: self._measure_new(dict(reversed(new.items())), told))
            cache.keep_costs({key: dataclasses.astuple(self.known[key]) for key in new if key not in self.failed})
            self._place(keys)
        return {node: self.known[key] for node, key in keys.items()}

    def _place(self, keys: Mapping[fx.Node, str]) -> None:
        """Enter the measured seconds of these calls into `points`, for interpolation at other sizes."""
        for node, key in keys.items():
            if key in self.known and key not in self.placed:
                self.placed.add(key)
                if not (self.known[key].is_between or key in self.failed or is_unmeasured(node)):
                    self.points.add(node, self.known[key].seconds)

    def _read(self, cache: Cache) -> None:
        for key, kept in cache.read_costs().items():
            with contextlib.suppress(TypeError, ValueError, OverflowError):
                seconds, workspace_bytes, result_bytes, *is_between = kept
                cost = Cost(float(seconds), int(workspace_bytes), tuple(map(int, result_bytes)), is_between == [True])
                if is_possible(cost):
                    self.known.setdefault(key, cost)

    def _interpolate(self, nodes: Mapping[str, fx.Node]) -> None:
        """Find the seconds of calls between two measured sizes. Each of these calls runs once, for its bytes."""
        sizes: dict[str, tuple[int, ...]] = {}

        def call(key: str) -> Callable[[], Any]:
            made: Callable[[], Any] | None = None
            with contextlib.suppress(*NOT_RUN):
                made = call_of(nodes[key], is_timed=False)

            def run() -> Any:
                result = None
                with contextlib.suppress(*NOT_RUN):
                    if made is not None:
                        result = made()
                        sizes[key] = tuple(storage_bytes(t) for t in tensors_of(result))
                return result

            return run

        seconds = {key: s for key, node in nodes.items() if (s := self.points.seconds(node)) is not None}
        workspaces = workspaces_of(call, {key: nodes[key] for key in seconds})
        self.known.update({key: Cost(seconds[key], workspaces[key], sizes[key], True) for key in sizes})

    def _measure_new(self, new: dict[str, fx.Node], told: Callable[[int, int], None]) -> None:
        self._interpolate(new)
        new = {key: node for key, node in new.items() if key not in self.known}
        runs_makers: dict[str, bool] = {}
        seconds: dict[str, tuple[float, tuple[int, ...]]] = {}
        for n, (key, node) in enumerate(new.items()):
            told(n, len(new))
            for way in (False, True):
                with contextlib.suppress(*NOT_RUN):
                    seconds[key], runs_makers[key] = seconds_of(call_of(node, way), device_of(node)), way
                    break
            else:
                self.failed.add(key)
                self.known[key] = unmeasured(node)

        def call(key: str) -> Callable[[], Any]:
            return call_of(new[key], runs_makers[key])

        workspaces = workspaces_of(call, {key: new[key] for key in seconds})
        for key in seconds:
            self.known[key] = Cost(seconds[key][0], workspaces[key], seconds[key][1])

    def not_run(self, nodes: Iterable[fx.Node]) -> list[str]:
        """Return a sentence for the user for each operator that failed on artificial arguments."""
        failed = [node for node in nodes if node.op == "call_function" and describe(node) in self.failed] if self.failed else []
        return [
            f"{name} cannot be measured alone. memplan computes its seconds from the bytes that it moves. The plan"
            " omits its workspace; count it with reserve="
            for name in dict.fromkeys(str(node.target) for node in failed)
        ]


def is_unmeasured(node: fx.Node) -> bool:
    is_opaque = str(node.target).rpartition(".")[0] in OPAQUE
    return is_opaque or is_collective(node) or is_foreign(node) or has_own_generator(node) or device_of(node).type == "meta"


def is_away(nodes: Iterable[fx.Node]) -> bool:
    """Whether the nodes are on the meta device, where no operator can run."""
    return any(device_of(node).type == "meta" for node in nodes if node.op == "call_function")


def not_measured(nodes: Iterable[fx.Node]) -> list[str]:
    """Return a sentence for the user for each operator that memplan does not measure, or whose memory depends on values."""
    calls = [node for node in nodes if node.op == "call_function"]
    return depends_on_values(calls) + [
        f"{name} is a custom operator. It runs once, unless it is tagged as pure (torch.Tag.pointwise or"
        " torch.Tag.core). The plan omits its workspace; count it with reserve="
        for name in dict.fromkeys(str(node.target) for node in calls if is_foreign(node))
    ]


def unmeasured(node: fx.Node) -> Cost:
    if is_collective(node):
        return Cost(LATENCY + (sent_bytes(node) + moved_bytes(node)) / BYTES_PER_SECOND, collective_workspace(node))
    return Cost(moved_bytes(node) / BYTES_PER_SECOND, 0)


def is_possible(cost: Cost) -> bool:
    """Whether a cost is plausible. Cache files may contain anything."""
    return 0 <= cost.seconds <= MOST_SECONDS and all(
        0 <= n <= MOST_KEPT_BYTES for n in (cost.workspace_bytes, *cost.result_bytes)
    )


def moved_bytes(node: fx.Node) -> int:
    values = [a.meta.get("val") for a in node.all_input_nodes] + [node.meta.get("val")]
    return sum(t.numel() * t.element_size() for t in tensors_of(values))


def peak_of(step: Callable[[], Any]) -> int:
    """Return the peak memory of a step in bytes, beyond the memory allocated before.

    On the host it is computed from the profiler's memory events; on a GPU it is the allocator's counter.
    """
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        torch.cuda.synchronize()
        return int(torch.cuda.max_memory_allocated() - before)
    with profiled() as results:
        gc.disable()
        try:
            step()
        finally:
            gc.enable()
    now = top = 0
    for event in sorted(filter(is_allocation, results().events()), key=lambda e: int(e.start_ns())):
        now += event.nbytes()
        top = max(top, now)
    return top


def context_bytes(device: torch.device) -> int | None:
    """Return the GPU memory in use besides PyTorch's allocator: context, libraries, other programs. None on other devices."""
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    return int(total - free - torch.cuda.memory_reserved(device))
