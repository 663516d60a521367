"""Captures for a named device. A model on the meta device is captured as if its tensors were on the device.

Types under autocast, kernels, layouts and branches of user code are those of the device, which may be absent. The resulting
graph is on the meta device again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from memplan.errors import MemplanError
from memplan.graph.capture import tensors_of
from memplan.graph.casts import KEYS, n_regions
from memplan.graph.native import RECURRENT
from memplan.torch_internals.absent_device import AWAY, gpu_is_there, placing_on
from memplan.torch_internals.dispatch import AUTOCAST_BEGINS

# the type of an autocast region; True or False: with or without a region; None: the region around the call
Region = torch.dtype | bool | None
NOT_CUDNN = (
    "{} is estimated with PyTorch's own kernels, because cuDNN's kernels cannot be captured without a GPU; cuDNN"
    " may save more bytes for backward (count them with reserve=)"
)
NOT_SPLIT = "autocast cannot be estimated for a mesh with tp; estimate it with shard or dp, or omit torch.autocast"
LOWER = (torch.float16, torch.bfloat16)
NO_REGION = "the meta device has no autocast; name a device (device='h100'), or omit torch.autocast"


def read_region(given: Region) -> Region:
    """Check the type of an autocast region. Raises MemplanError for other values."""
    if given is None or isinstance(given, bool) or given in LOWER:
        return given
    raise MemplanError(f"autocast={given!r} is not a type of autocast; use torch.bfloat16, torch.float16, True or False")


def kind_of(is_gpu: bool) -> str:
    """Return PyTorch's name of the device type: "cuda" for a GPU, else "cpu"."""
    return "cuda" if is_gpu else "cpu"


class Meant:
    """The device named by `device=`, for which a model on the meta device is captured. `name`: from the library's table."""

    def __init__(self, name: str, is_gpu: bool, region: Region = None) -> None:
        self.name, self.kind, self.region = name, kind_of(is_gpu), region
        self.sentences: list[str] = []  # notes for the user about autocast regions
        self.is_captured = False  # whether the current graph has been captured
        self.is_split = False  # whether ranks split operators: DTensors stay on the meta device, which has no autocast

    @contextlib.contextmanager
    def capturing(self, model: Any) -> Iterator[None]:
        """Within the context, capture tensors of the meta device as if they were on the named device. Raises MemplanError."""
        self.sentences.clear()
        around = self._around()
        if self.is_split:
            if around.get("enabled", bool(around)) or torch.is_autocast_enabled(self.kind):
                raise MemplanError(NOT_SPLIT)
            yield
            return
        with contextlib.ExitStack() as stack:
            if self.kind == "cuda":
                off = stack.enter_context(gpu_is_there(model, self.region is None))
                self.sentences += [self._switched_off("around a forward", region.fast_dtype) for region in off]
            if around:
                stack.enter_context(torch.autocast(self.kind, **around))
            device = torch.device(self.kind, 0) if self.kind == "cuda" else torch.device("cpu")
            self.is_captured = False
            stack.enter_context(placing_on(device, lambda: not self.is_captured))
            yield

    def _around(self) -> dict[str, Any]:
        """Return the arguments of the autocast region to enter around the model's call. {}: the active region remains."""
        if isinstance(self.region, torch.dtype):
            return {"dtype": self.region}
        if self.region is not None:
            return {"enabled": self.region, "dtype": torch.get_autocast_dtype(self.kind)}
        others = [kind for kind in KEYS if kind != self.kind and torch.is_autocast_enabled(kind)]
        self.sentences += map(self._no_effect, others)
        is_off = self.kind == "cuda" and not torch.cuda.is_available() and n_regions() > len(others)
        if not is_off or torch.is_autocast_enabled(self.kind):
            return {}
        dtype = torch.get_autocast_dtype(self.kind)
        self.sentences.append(self._switched_off("around the call", dtype))
        return {"dtype": dtype}

    def _no_effect(self, kind: str) -> str:
        return (
            f"torch.autocast({kind!r}) has no effect on {self.name}; estimate in lower precision with"
            " autocast=torch.bfloat16, or without autocast by autocast=False"
        )

    def _switched_off(self, where: str, dtype: torch.dtype) -> str:
        return (
            f"PyTorch has disabled torch.autocast('cuda') {where}, because this machine has no GPU; memplan"
            f" estimates {str(dtype).removeprefix('torch.')} (autocast=False estimates without autocast)"
        )

    def notes(self, graph: fx.Graph) -> list[str]:
        """Return notes for the user about autocast regions in a captured call."""
        if self.is_split and regions_in(graph):
            raise MemplanError(NOT_SPLIT)
        others = {kind for kind in regions_in(graph) if kind != self.kind}
        inside = [self._no_effect(kind) for kind in sorted(others)] if self.region is None else []
        recurrent = {getattr(n.target, "__name__", "") for n in graph.nodes} & set(RECURRENT) if self.kind == "cuda" else set()
        layers = [NOT_CUDNN.format(", ".join(sorted(recurrent)))] if recurrent else []
        return list(dict.fromkeys([*self.sentences, *inside, *layers]))


def regions_in(graph: fx.Graph) -> list[str]:
    """Return the kinds of devices for which a captured call enables autocast."""
    begins = [n for n in graph.nodes if n.op == "call_function" and getattr(n.target, "__name__", "") == AUTOCAST_BEGINS]
    return [str(n.args[0]) for n in begins if n.args[2]]


def has_region(graph: fx.Graph) -> bool:
    """Whether a captured call is, or may be, in an autocast region of any device."""
    is_around = any(map(torch.is_autocast_enabled, KEYS)) or (n_regions() > 0 and not torch.cuda.is_available())
    return is_around or bool(regions_in(graph))


def put_away(graph: fx.Graph, meant: Meant) -> None:
    """Move the tensors of a graph, which was captured as if on the device of `meant`, back to the meta device."""
    meant.is_captured = True  # the capture has ended: the tensors of the planned graph are on the meta device
    kind = meant.kind
    if meant.is_split:
        return

    def moved(value: Any) -> Any:
        return AWAY if isinstance(value, torch.device) and value.type == kind else value

    for node in graph.nodes:
        for tensor in tensors_of(node.meta.get("val")):
            if tensor.device.type == kind:
                tensor.fake_device = AWAY  # type: ignore[attr-defined]
        node.args, node.kwargs = (fx.node.map_aggregate(a, moved) for a in (node.args, node.kwargs))
