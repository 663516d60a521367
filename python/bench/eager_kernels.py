"""The kernels of forward and backward that PyTorch runs eagerly on the meta device, as memplan describes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from memplan.costs.kernels import Kernel, kernels_of
from memplan.costs.roofline import flops_of
from memplan.graph.attention import attention_on
from memplan.step.eager_step import zero
from memplan.torch_internals.dispatch import schema_of, watching
from memplan.torch_internals.without_gpu import meta_as_gpu

# beginnings of the names of operators that run no kernel
NO_KERNEL = ("profiler.", "aten.empty.", "aten.new_empty", "aten._unsafe_view.", "aten._reshape_alias.")
OF_GRADIENT = "aten.new_empty_strided."  # the engine copies the first gradient of a parameter into such a tensor


def is_view(operator: Any) -> bool:
    return any(r.alias_info is not None and not r.alias_info.is_write for r in schema_of(operator).returns)


def node_of(operator: Any, args: Any, kwargs: Any, result: Any) -> fx.Node:
    """Return a graph node of an eager call."""
    graph = fx.Graph()

    def given(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        made = graph.placeholder("given")
        made.meta["val"] = value
        return made

    node = graph.call_function(operator, *fx.node.map_aggregate((args, kwargs), given))
    node.meta["val"] = result
    return node


def eager_kernels(step: Callable[[], Any]) -> Counter[Kernel]:
    """Run forward and backward on the meta device as on a GPU with unfused attention. Return the number of each kernel."""
    found: Counter[Kernel] = Counter()
    before = ""

    def run(operator: Any, args: Any, kwargs: Any) -> Any:
        nonlocal before
        name, last = str(operator), before
        before = name
        if name.startswith("aten._local_scalar_dense"):
            return zero(args[0].dtype)
        result = operator(*args, **kwargs)
        is_copy = name.startswith("aten.copy_") and last.startswith(OF_GRADIENT)
        if not (is_view(operator) or is_copy or name.startswith(NO_KERNEL)):
            node = node_of(operator, args, kwargs, result)
            found.update(kernels_of(node, flops_of))
            for other in node.graph.nodes:
                other.meta.clear()  # nodes refer to each other, and would keep the tensors
        return result

    with meta_as_gpu(attention_on(True, True)), watching(run):
        step()
    return found
