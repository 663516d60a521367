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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import fx
from torch.profiler import record_function

from memplan.costs.cache import Cache
from memplan.costs.made_up import depends_on_values, fill_arguments, made_up
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
RNN_BATCH = -2  # index of the batch dimension in an LSTM layer's tensors
RNN_WITH_BATCH = (0, 5, 6)  # indices of an LSTM layer's arguments that have a batch dimension: input, hidden state, cell state
# FEW: reduced batch sizes for bytes_of_more, in order of preference; PART: twice such a size is at most 1/PART of the batch
FEW, PART = (8, 4, 2), 4
MARK = "memplan call"
os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # without this variable, the profiler logs messages about itself


@dataclass(frozen=True)
class Cost:
    """The cost of a call.

    `result_bytes`: sizes of the storages of the results, in their order; empty if unknown. A storage may be larger than its
    result. For example, a scalar loss may occupy memory of the size of its argument.
    """

    seconds: float
    workspace_bytes: int
    result_bytes: tuple[int, ...] = ()


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


def call_of(node: fx.Node, runs_makers: bool = False) -> Callable[[], Any]:
    """Return the node's call on artificial arguments.

    `runs_makers`: run operators with several results, and use the layouts that they return. Under autocast, a batch
    normalization returns its statistics in fp32, but the capture records bf16.
    """

    def argument(a: Any) -> Any:
        if not isinstance(a, fx.Node):
            return a
        if runs_makers and a.target is operator.getitem and isinstance(a.args[0], fx.Node):
            return fx.node.map_aggregate(call_of(a.args[0])()[a.args[1]], made_up)
        return fx.node.map_aggregate(a.meta.get("val"), made_up)

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


def bytes_of_rnn(values: Sequence[Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes of an LSTM layer's results, and of all its memory requests."""
    return bytes_of_more(torch.ops.memplan.rnn_layer.default, values, RNN_BATCH, RNN_WITH_BATCH)


def bytes_of_more(
    operator: Any, values: Sequence[Any], dim: int, with_batch: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the bytes of an operator's results and of its memory requests (negative: freed), for large arguments.

    Both kinds of sizes are known only after a run. They grow linearly with the batch, apart from rounding to pages. The
    arguments may be too large for the memory. The operator therefore runs with two smaller batches, and the sizes are
    extrapolated.

    Args:
        operator: the operator.
        values: arguments with the full batch.
        dim: the batch dimension of these arguments.
        with_batch: indices of the arguments that have a batch dimension.
    """

    def zeros(k: int, n: int) -> torch.Tensor:
        shape = list(values[k].shape)
        if k in with_batch:
            shape[dim] = n
        made = torch.zeros(shape, dtype=values[k].dtype, device=values[k].device)
        is_last = len(shape) == 4 and values[k].is_contiguous(memory_format=torch.channels_last)
        return made.contiguous(memory_format=torch.channels_last) if is_last else made

    def run(n: int) -> tuple[list[int], list[int]]:
        arguments = [zeros(k, n) if isinstance(v, torch.Tensor) else v for k, v in enumerate(values)]
        with memory_events() as events:
            made = operator(*arguments)
        asked = [e.cpu_memory_usage() for e in events if e.kind() == "memory_alloc"]
        return [storage_bytes(t) for t in tensors_of(made)], asked

    batch = int(values[0].shape[dim])
    for few in FEW:
        if few > FEW[-1] and 2 * few * PART > batch:
            continue
        try:
            a, b = apart(lambda n=few: (run(n), run(2 * n)))  # type: ignore[misc]
            break
        except RuntimeError:  # the memory does not suffice for this reduced batch, so the next smaller one is tried
            if few == FEW[-1]:
                raise

    def grown(of_few: Sequence[int], of_more: Sequence[int]) -> tuple[int, ...]:
        return tuple(math.ceil(x + (y - x) / few * (batch - few)) for x, y in zip(of_few, of_more))

    return grown(a[0], b[0]), grown(a[1], b[1]) if len(a[1]) == len(b[1]) else ()


def device_of(node: fx.Node) -> torch.device:
    return device_of_first(node.meta.get("val"))


class Costs:
    """The costs of calls, for all graphs of a process."""

    def __init__(self) -> None:
        self.known: dict[str, Cost] = {}
        self.failed: set[str] = set()

    def measure(
        self, nodes: Iterable[fx.Node], cache: Cache, told: Callable[[int, int], None] = lambda n, of: None
    ) -> dict[fx.Node, Cost]:
        """Measure the operators of these nodes. `told` receives the number of measured calls and the total number."""
        keys = {node: describe(node) for node in nodes}
        self.known.update({key: unmeasured(node) for node, key in keys.items() if is_unmeasured(node)})
        if any(key not in self.known for key in keys.values()):
            self._read(cache)
        new = {key: node for node, key in reversed(keys.items()) if key not in self.known}
        if new:
            apart(lambda: self._measure_new(dict(reversed(new.items())), told))
            cache.keep_costs({key: dataclasses.astuple(self.known[key]) for key in new if key not in self.failed})
        return {node: self.known[key] for node, key in keys.items()}

    def _read(self, cache: Cache) -> None:
        for key, kept in cache.read_costs().items():
            with contextlib.suppress(TypeError, ValueError, OverflowError):
                seconds, workspace_bytes, result_bytes = kept
                cost = Cost(float(seconds), int(workspace_bytes), tuple(map(int, result_bytes)))
                if is_possible(cost):
                    self.known.setdefault(key, cost)

    def _measure_new(self, new: dict[str, fx.Node], told: Callable[[int, int], None]) -> None:
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

        on_host = [key for key in seconds if device_of(new[key]).type != "cuda"]
        workspaces = dict(zip(on_host, host_workspaces(map(call, on_host)))) if on_host else {}
        for key in seconds:
            if key not in workspaces:
                workspaces[key] = cuda_workspace(call(key), device_of(new[key]))
            self.known[key] = Cost(seconds[key][0], workspaces[key], seconds[key][1])

    def not_run(self, nodes: Iterable[fx.Node]) -> list[str]:
        """Return a sentence for the user for each operator that failed on artificial arguments."""
        failed = [node for node in nodes if node.op == "call_function" and describe(node) in self.failed] if self.failed else []
        return [
            f"{name} cannot be run alone: its seconds are of the bytes that it moves, and memory that it takes beside its"
            " results is not in the plan (reserve= counts it)"
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
        f"{name} is not PyTorch's: it runs once, as eager runs it, unless it is tagged as pure (torch.Tag.pointwise"
        " or torch.Tag.core), and memory that it takes beside its results is not in the plan (reserve= counts it)"
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
