"""Estimates of seconds for graphs on the meta device, where nothing can be measured.

They use PyTorch's FLOP counts, the bytes moved, and the rates of the library's table of devices: peaks of the data sheet, or
rates that training runs reach.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx
from torch.utils.flop_counter import flop_registry

from memplan.costs.kernels import accuracy, achieved_seconds, kernels_of
from memplan.costs.measure import Cost, moved_bytes
from memplan.errors import MemplanError
from memplan.graph.capture import tensors_of
from memplan.graph.collectives import is_collective, sendings, workspace_bytes
from memplan.library.planning import (
    collective_seconds,
    device_names,
    network_of,
    roofline_seconds,
    room_bytes,
)
from memplan.torch_internals.collectives import stride_of

BEFORE_AMPERE = ("v100", "t4")
CONVOLUTIONS = "aten.convolution"
RATES = ("achieved", "peak")


class Device:
    """A row of the table of devices. `rates`: "peak" or "achieved". Raises MemplanError for an unknown name."""

    def __init__(self, name: str, rates: str = "achieved") -> None:
        if rates not in RATES:
            raise MemplanError(f"rates is {rates!r}, but it must be one of {', '.join(RATES)}")
        self.name = name
        self.room_bytes = room_bytes(name) if isinstance(name, str) else -1
        if self.room_bytes < 0:
            raise MemplanError(f"{name!r} is an unknown device; choose one of {', '.join(device_names())}")
        self.is_gpu = name.lower() != "cpu"
        self.rates = rates if self.is_gpu else "peak"
        # whether the device has flash attention and runs attention in bf16
        self.has_flash = self.is_gpu and name.lower() not in BEFORE_AMPERE
        self.network = network_of(name)  # name of the usual network between devices of this type

    def __str__(self) -> str:
        return self.name

    def notes(self, nodes: Iterable[fx.Node]) -> list[str]:
        """Return the source of the seconds of these operators, and the accuracy of achieved rates."""
        source = (
            f"the seconds are computed from {self.rates} rates of {self}; workspaces of operators, attention kernels"
            " excepted, are not in the plan (count them with reserve=)"
        )
        if self.rates == "peak":
            return [source]
        spent: defaultdict[str, float] = defaultdict(float)
        for node in nodes:
            if not is_collective(node):
                for seconds, family in self.achieved(node):
                    spent[family] += seconds
        return [source, accuracy(spent)]

    def cost(self, node: fx.Node) -> Cost:
        """Return the cost of an operator on the device. Workspaces are unknown, except for collectives."""
        if is_collective(node):
            return Cost(self.collective_seconds(node), workspace_bytes(node))
        if self.rates == "achieved":
            return Cost(sum(seconds for seconds, _ in self.achieved(node)), 0)
        first = next(iter(tensors_of([a.meta.get("val") for a in (*node.all_input_nodes, node)])), None)
        dtype = str(first.dtype).removeprefix("torch.") if first is not None else "float32"
        if dtype == "float32" and self.is_gpu and rounds_factors(node):
            dtype = "tfloat32"
        return Cost(roofline_seconds(self.name, dtype, flops_of(node), moved_bytes(node)), 0)

    def achieved(self, node: fx.Node) -> list[tuple[float, str]]:
        """Return the seconds and the family of each kernel of an operator, at achieved rates."""
        kernels = kernels_of(node, flops_of)
        is_tf32 = any(k.dtype == "float32" for k in kernels) and rounds_factors(node)
        return [achieved_seconds(self.name, k, "tfloat32" if is_tf32 else k.dtype) for k in kernels]

    def collective_seconds(self, node: fx.Node) -> float:
        """Return the seconds of a collective: network time, plus copies in device memory before and after the transfer."""
        found = roofline_seconds(self.name, "float32", 0, moved_bytes(node))
        for collective, n_bytes, among in sendings(node):
            found += collective_seconds(self.name, collective, int(among.size()), stride_of(among), n_bytes)
        return found


def flops_of(node: fx.Node) -> int:
    """Return the FLOPs of a node by PyTorch's formulas; 0 for operators without a formula."""
    formula: Any = flop_registry.get(getattr(node.target, "overloadpacket", None))
    if formula is None:
        return 0
    args, kwargs = fx.node.map_aggregate((node.args, node.kwargs), lambda a: a.meta.get("val") if isinstance(a, fx.Node) else a)
    return int(formula(*args, **kwargs, out_val=node.meta.get("val")))


def rounds_factors(node: fx.Node) -> bool:
    """Whether PyTorch permits a GPU to round a product's operands to TF32."""
    if str(node.target).startswith(CONVOLUTIONS):
        return bool(torch.backends.cudnn.allow_tf32)
    return flops_of(node) > 0 and bool(torch.backends.cuda.matmul.allow_tf32)
