"""The kernels of an ATen operator: families and sizes from which the library computes seconds at achieved rates.

The families are rows of the library's table estimator/training/rates.def.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from ctypes import byref, c_char_p, c_double, create_string_buffer
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from memplan.costs.measure import moved_bytes
from memplan.errors import MemplanError
from memplan.graph.capture import tensors_of
from memplan.library.calls import library
from memplan.library.planning import text

# families of operators that only move bytes, by their names in ATen; all other operators are pointwise
FAMILIES = {
    "cast": "to_copy",
    "copy": "clone constant_pad_nd contiguous",
    "part or join": "cat stack slice_backward select_backward roll index gather embedding im2col col2im repeat select_scatter"
    " slice_scatter as_strided_scatter flip unfold_backward diagonal_backward tril triu",
    "scatter": "index_put scatter embedding_dense_backward scatter_add index_add nll_loss_forward nll_loss_backward topk sort",
    "reduction": "sum mean var var_mean amax amin max argmax norm linalg_vector_norm std cumsum",
    "batch normalization": "_native_batch_norm_legit_functional _native_batch_norm_legit native_batch_norm cudnn_batch_norm"
    " native_batch_norm_backward cudnn_batch_norm_backward native_group_norm native_group_norm_backward"
    " _batch_norm_with_update _batch_norm_with_update_functional batch_norm_backward",
    "layer normalization": "native_layer_norm native_layer_norm_backward _fused_rms_norm _fused_rms_norm_backward",
    "softmax": "_softmax _log_softmax _softmax_backward_data _log_softmax_backward_data",
    "pooling": "max_pool2d_with_indices avg_pool2d _adaptive_avg_pool2d upsample_nearest2d upsample_bilinear2d"
    " upsample_bicubic2d max_pool2d_with_indices_backward avg_pool2d_backward _adaptive_avg_pool2d_backward"
    " upsample_nearest2d_backward upsample_bilinear2d_backward upsample_bicubic2d_backward",
}
FAMILY = {name: family for family, names in FAMILIES.items() for name in names.split()}
TWO_WAYS = {"batch normalization", "layer normalization", "softmax", "pooling"}  # families with rows for forward and backward
BY_LAYOUT = {"batch normalization", "pooling"}  # families with rows for NCHW and NHWC
TEXT_BYTES = 256  # bytes that mp_planning_accuracy writes at most
PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}  # index of the left operand among the arguments


@dataclass(frozen=True)
class Kernel:
    """A kernel as mp_planning_achieved describes it."""

    name: str
    dtype: str
    moved_bytes: int
    sizes: tuple[float, ...] = ()


def achieved_seconds(device: str, kernel: Kernel, dtype: str) -> tuple[float, str]:
    """Return the seconds of a kernel whose products have this type, and its family.

    Raises MemplanError for a device without achieved rates.
    """
    sizes, family = (c_double * len(kernel.sizes))(*kernel.sizes), c_char_p()
    call = library().mp_planning_achieved
    seconds = call(text(device), text(dtype), text(kernel.name), sizes, len(sizes), kernel.moved_bytes, None, byref(family))
    if seconds < 0:
        raise MemplanError(f"{device} has no achieved rates of {kernel.name}; use rates='peak'")
    return float(seconds), (family.value or b"").decode()


def accuracy(spent: Mapping[str, float]) -> str:
    """Return a sentence about the accuracy of a step's seconds, given its seconds per family."""
    told = create_string_buffer(TEXT_BYTES)
    names = (c_char_p * len(spent))(*map(text, spent))
    library().mp_planning_accuracy(names, (c_double * len(spent))(*spent.values()), len(spent), told)
    return told.value.decode()


def dtype_of(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def n_bytes(*tensors: torch.Tensor) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def is_channels_last(tensor: torch.Tensor) -> bool:
    return tensor.dim() >= 4 and tensor.stride(1) == 1


def name_of(node: fx.Node) -> str:
    """Return the name of the operator without its namespace and overload."""
    return str(getattr(node.target, "overloadpacket", node.target)).rpartition(".")[2]


def kernels_of(node: fx.Node, flops: Callable[[fx.Node], float]) -> list[Kernel]:
    """Return the kernels of a call. `flops` returns PyTorch's number of floating-point operations of a node."""
    name = name_of(node)
    args: Any = fx.node.map_aggregate(node.args, lambda a: a.meta.get("val") if isinstance(a, fx.Node) else a)
    if name == "convolution":
        return of_convolution(args, node.meta["val"])
    if name == "convolution_backward":
        return of_convolution_backward(args)
    if name in PRODUCTS:
        left, right = args[PRODUCTS[name]], args[PRODUCTS[name] + 1]
        batch = left.shape[0] if left.dim() == 3 else 1
        sizes = (batch, left.shape[-2], right.shape[-1], left.shape[-1])
        return [Kernel("product", dtype_of(left), moved_bytes(node), sizes)]
    first = next(iter(tensors_of([a.meta.get("val") for a in (*node.all_input_nodes, node)])), None)
    dtype = dtype_of(first) if first is not None else "float32"
    if found := flops(node):
        family = "batched product"
        if "attention" in name:
            family = "fused attention, backward" if name.endswith("backward") else "fused attention, forward"
        return [Kernel(family, dtype, moved_bytes(node), (found,))]
    return [Kernel(family_of(name, node), dtype, moved_bytes(node))]


def family_of(name: str, node: fx.Node) -> str:
    family = FAMILY.get(name) or FAMILY.get(name.removeprefix("_"), "pointwise")
    if family in BY_LAYOUT and any(is_channels_last(t) for t in tensors_of([a.meta.get("val") for a in node.all_input_nodes])):
        family += ", channels last"
    if family.split(",")[0] in TWO_WAYS:
        family += ", backward" if "backward" in name else ", forward"
    return family


def sizes_of(x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor, is_transposed: bool, groups: int) -> tuple[float, ...]:
    """Return the sizes of a convolution as mp_planning_achieved expects them."""
    into, out = (y, x) if is_transposed else (x, y)
    places = [t.shape[0] * math.prod(t.shape[2:]) for t in (into, out)]
    channels = [t.shape[1] / groups for t in (into, out)]
    return (groups, *channels, math.prod(weight.shape[2:]), *places, float(is_channels_last(x)))


def of_convolution(args: Sequence[Any], y: torch.Tensor) -> list[Kernel]:
    x, weight, bias, is_transposed, groups = *args[:3], args[6], args[8]
    sizes = sizes_of(x, weight, y, is_transposed, groups)
    part = "convolution data" if is_transposed else "convolution forward"
    found = [Kernel(part, dtype_of(x), n_bytes(x, weight, y), sizes)]
    return found if bias is None else [*found, Kernel("pointwise", dtype_of(x), 2 * n_bytes(y))]


def of_convolution_backward(args: Sequence[Any]) -> list[Kernel]:
    dy, x, weight, is_transposed, groups, wanted = *args[:3], args[7], args[9], args[10]
    sizes, dtype, moved = sizes_of(x, weight, dy, is_transposed, groups), dtype_of(x), n_bytes(x, weight, dy)
    found = []
    if wanted[0]:
        found.append(Kernel("convolution forward" if is_transposed else "convolution data", dtype, moved, sizes))
    if wanted[1]:
        found.append(Kernel("convolution weight", dtype, moved, sizes))
    if wanted[2]:
        found.append(Kernel("reduction", dtype, n_bytes(dy)))
    return found
