"""Eager's kernels in a capture.

For some operators, PyTorch has two implementations. Eager runs a kernel, but captures use a Python implementation with other
rounding, random draws and memory. This module makes captures use eager's kernels.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from memplan.graph.attention import attention_on, knows_attention
from memplan.torch_internals.autograd import memory_events, profiler_is_on
from memplan.torch_internals.dispatch import AUTOCAST_BEGINS, has_kernel, kernels, run_kernel, schema_of, with_python_kernels

SORTING = ("quantile", "nanquantile")
QUANTILES = (
    "quantile and nanquantile sort their input in a captured graph, but eager selects single values. A plan that keeps"
    " everything therefore needs up to 3 times the input's bytes more than eager"
)
WRITTEN_OUT = ("Autograd", "CompositeImplicitAutograd")
RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
FUSED_DROPOUT = ("cuda", "xpu")  # eager runs dropout as a single operator on these devices
# operators whose Python form stays in captures: eager's form depends on tensor contents, and the Python form calls the same
# kernels
STAY = (
    "aten::cudnn_batch_norm",
    "aten::empty.out",
    "aten::miopen_batch_norm",
    "aten::native_batch_norm",
    "aten::one_hot",
    "aten::tensor_split.tensor_indices_or_sections",
    "aten::to_dense",
)


@functools.cache
def overloads() -> tuple[Any, ...]:
    """Return the operators with a Python implementation for captures."""
    return tuple(operator for operator in with_python_kernels(WRITTEN_OUT) if operator.name() not in STAY)


def bernoulli(like: torch.Tensor, p: float) -> torch.Tensor:
    """Return a mask that is True with probability p, drawn in memory order like eager's.

    PyTorch's own operator for captures draws in another order if the tensor is not contiguous.
    """
    return torch.empty_like(like, dtype=torch.bool).bernoulli_(p)


LIBRARY: Any = torch.library.Library("memplan", "FRAGMENT")  # type: ignore[no-untyped-call]
LIBRARY.define("bernoulli(Tensor like, float p) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
LIBRARY.impl("bernoulli", bernoulli, "CompositeExplicitAutograd")
LIBRARY.impl("bernoulli", lambda like, p: torch.empty_like(like, dtype=torch.bool), "Meta")


def rnn_layer(*args: Any) -> tuple[torch.Tensor, ...]:
    """Run an LSTM layer as eager does with gradients enabled.

    An LSTM layer computes the tensors for backward only if gradients are enabled.
    """
    with torch.enable_grad():
        made: tuple[torch.Tensor, ...] = RNN_LAYER(*(a.detach() if isinstance(a, torch.Tensor) else a for a in args))
        return made


def rnn_layer_gradients(*args: Any) -> tuple[torch.Tensor, ...]:
    """Return the results of an LSTM layer's backward on the meta device.

    All results are fp32 for any input; PyTorch knows this from 2.15 on. Each bias has its own gradient tensor. PyTorch assumes
    a shared one.
    """
    return tuple(torch.empty_like(t, dtype=torch.float32) for t in run_kernel(RNN_LAYER_BACKWARD, "Meta", *args))


RNN_LAYER = torch.ops.aten.mkldnn_rnn_layer.default
RNN_LAYER_BACKWARD = torch.ops.aten.mkldnn_rnn_layer_backward.default
LIBRARY.define("rnn_layer" + str(schema_of(RNN_LAYER)).partition("mkldnn_rnn_layer")[2])
LIBRARY.impl("rnn_layer", rnn_layer, "CompositeExplicitAutograd")
LIBRARY.impl("rnn_layer", RNN_LAYER, "Meta")


def keep_for_backward(graph: fx.Graph) -> None:
    """Make LSTM layers compute the tensors for backward, although gradients are disabled while a captured graph runs."""
    for node in graph.nodes:
        if node.target is RNN_LAYER:
            node.target = torch.ops.memplan.rnn_layer.default


def is_cudnn_normalization(node: fx.Node) -> bool:
    value = node.meta.get("example_value")
    is_on_gpu = isinstance(value, torch.Tensor) and value.device.type == "cuda" and torch.backends.cudnn.enabled
    return is_on_gpu and getattr(node.target, "__name__", "") == "batch_norm"


def of_the_capture(graph: fx.Graph) -> list[str]:
    """Return the names of operations that the capture computes with other operators or layouts than eager.

    Results may differ in rounding. The operations are:

    - gates, which eager writes into a part of a tensor
    - products within an operator that autocast affects in eager only
    - batch normalization on a GPU, for which eager uses cuDNN and captures use PyTorch's own kernel
    """
    names = {getattr(n.target, "__name__", "") for n in graph.nodes}
    has_regions = torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda") or AUTOCAST_BEGINS in names
    found = names & ({"gru", "gru_cell", "bilinear"} if has_regions else {"gru", "gru_cell"})
    return sorted(found | {"batch_norm"} if any(map(is_cudnn_normalization, graph.nodes)) else found)


@functools.cache
def selects_quantiles() -> bool:
    """Whether eager computes quantiles on the CPU without a sort. The test runs in a thread without the modes of a capture."""
    found: list[Any] = []

    def run() -> None:
        with memory_events() as events:
            torch.ones(4, 4).quantile(0.5, 0)
        found.extend(events)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return bool(found) and all(event.name() != "aten::sort" for event in found)


def sorts(graph: fx.Graph) -> list[str]:
    """Return a sentence for the user if a captured graph on the CPU sorts for quantiles, although eager selects values."""
    found = [n for n in graph.nodes if (n.target if n.op == "call_method" else getattr(n.target, "__name__", "")) in SORTING]
    is_on_cpu = any(v.device.type == "cpu" for n in found if isinstance(v := n.meta.get("example_value"), torch.Tensor))
    return [QUANTILES] if is_on_cpu and not profiler_is_on() and selects_quantiles() else []


def noise(x: torch.Tensor, p: float) -> torch.Tensor:
    """Return dropout's factor in the tensor's type, as eager rounds it.

    The plan may save the one-byte mask instead of the factor.
    """
    kept = torch.ops.memplan.bernoulli.default(x.detach(), 1 - p)
    made: torch.Tensor = torch.ops.aten.div.Scalar(kept.to(x.dtype), 1 - p)
    return made


def dropout(x: torch.Tensor, p: float, train: bool, meant: str = "") -> torch.Tensor:
    if not train or p == 0 or x.numel() == 0:
        return x
    if (meant or x.device.type) in FUSED_DROPOUT and p < 1:
        fused: torch.Tensor = torch.ops.aten.native_dropout.default(x, p, train)[0]
        return fused
    return x * (torch.zeros((), dtype=x.dtype, device=x.device) if p == 1 else noise(x, p))


def dropout_in_place(x: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    if not train or p == 0 or x.numel() == 0:
        return x
    return x.mul_(torch.zeros((), dtype=x.dtype, device=x.device) if p == 1 else noise(x, p))


def bernoulli_in_place(x: torch.Tensor, p: float = 0.5, *, generator: Any = None) -> torch.Tensor:
    if generator is not None:
        raise RuntimeError("an operator with its own random generator cannot be captured")
    return x.copy_(torch.ops.memplan.bernoulli.default(x.detach(), p))


OURS: dict[Any, dict[str, Any]] = {
    torch.ops.aten.dropout.default: dict.fromkeys(WRITTEN_OUT, dropout),
    torch.ops.aten.dropout_.default: dict.fromkeys(WRITTEN_OUT, dropout_in_place),
    torch.ops.aten.bernoulli_.float: {"AutogradCPU": bernoulli_in_place},
    RNN_LAYER_BACKWARD: {"Meta": rnn_layer_gradients},
}


@functools.cache
def made_of_others() -> dict[Any, dict[str, Any]]:
    """Return operators that eager composes of other operators, with their replacements on the meta device.

    Examples are a loss over classes and a standard deviation. On the meta device, captures would use a kernel without
    gradients. The replacement composes the operator as eager does.
    """
    found = {}
    for operator in with_python_kernels(("Meta",)):
        with kernels(operator, {}, without=WRITTEN_OUT):
            if has_kernel(operator, WRITTEN_OUT[1:]) and not has_kernel(operator, WRITTEN_OUT[:1]):
                found[operator] = {"AutogradMeta": functools.partial(run_kernel, operator, WRITTEN_OUT[1])}
    return found


def on_meta() -> dict[Any, dict[str, Any]]:
    """Return the replacements for tensors on the meta device that stand for a CPU."""
    attention = {"AutogradMeta": attention_on(False)} if knows_attention() else {}
    return made_of_others() | {torch.ops.aten.scaled_dot_product_attention.default: attention}


def without_cudnn(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a recurrent layer with PyTorch's own kernels, because cuDNN's cannot be captured without a GPU."""
    with torch.backends.cudnn.flags(enabled=False):
        return run_kernel(operator, WRITTEN_OUT[1], *args, **kwargs)


def on_gpu(has_flash: bool) -> dict[Any, dict[str, Any]]:
    """Return the replacements of operators for tensors that stand for an absent GPU."""
    places = ("AutogradCUDA", "AutogradMeta")
    found = made_of_others() | {
        torch.ops.aten.dropout.default: {"AutogradMeta": functools.partial(dropout, meant="cuda")},
        torch.ops.aten.scaled_dot_product_attention.default: (
            dict.fromkeys(places, attention_on(True, has_flash)) if knows_attention() else {}
        ),
    }
    for name in RECURRENT:
        packet = getattr(torch.ops.aten, name)
        for operator in (packet.input, packet.data):
            found[operator] = {"AutogradCUDA": functools.partial(without_cudnn, operator)}
    return found


@contextlib.contextmanager
def native_kernels(for_gpu: bool = False, has_flash: bool = False) -> Iterator[None]:
    """Make captures use eager's operators within the context.

    Args:
        for_gpu: whether the capture is for a GPU, which may be absent.
        has_flash: whether this GPU has flash attention.
    """
    meant = on_gpu(has_flash) if for_gpu else on_meta()
    with contextlib.ExitStack() as stack:
        for operator in {*overloads(), *OURS, *meant}:
            stack.enter_context(kernels(operator, OURS.get(operator, {}) | meant.get(operator, {}), without=WRITTEN_OUT))
        yield
