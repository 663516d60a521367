"""Tensors that begin to require a gradient during a capture, by `requires_grad_()` in forward or in a forward hook.

PyTorch refuses to capture the following two cases. memplan captures them, with the same gradients as eager.

1. An operator's result begins to require a gradient, and an output depends on the result. Gradients of parameters and inputs
   are unaffected. Only the result's own `.grad` changes, and it is readable only if the result itself is an output.
2. An input of the captured code begins to require a gradient before any operator reads it. memplan lets the input require a
   gradient from the start of the captured graph.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from memplan.torch_internals.names import Private

LOST = "a model that calls requires_grad_() on {} runs eagerly"
RETURNED = Private(
    "torch._dynamo.output_graph.OutputGraph._check_requires_grad_intermediate_outputs",
    use="captures models that call requires_grad_() on the output of a layer",
    lost=LOST.format("the output of a layer"),
    since="2.15",
)
METHOD = Private(
    "torch._dynamo.variables.tensor.TensorVariable.call_method",
    use="captures models that call requires_grad_() on an input",
    lost=LOST.format("an input"),
)
BEGINS = "memplan_begins_to_require_grad"  # key in an input's meta: the input begins to require a gradient during the capture
PYTORCHS_CHECK: Any = RETURNED.get()
PYTORCHS_METHOD: Any = METHOD.get()
Run = Callable[..., Any]
Compile = Callable[[fx.GraphModule, list[Any]], Run]


class Depth(threading.local):
    """The number of memplan's captures in progress in this thread."""

    n = 0


DEPTH = Depth()
COUNT, LOCK = [0], threading.Lock()  # captures in progress in all threads, and the lock for this number


@contextlib.contextmanager
def capturing_leaves() -> Iterator[None]:
    """Within the context, captures of this thread permit tensors that begin to require a gradient."""
    with LOCK:
        COUNT[0] += 1
        RETURNED.put(check_returned)
        METHOD.put(call_method)
    DEPTH.n += 1
    try:
        yield
    finally:
        DEPTH.n -= 1
        with LOCK:
            COUNT[0] -= 1
            if not COUNT[0]:
                RETURNED.put(PYTORCHS_CHECK)
                METHOD.put(PYTORCHS_METHOD)


def check_returned(graph: Any, outputs: Sequence[Any], translator: Any) -> None:
    """Replace PyTorch's check, which rejects every output computed from a tensor that begins to require a gradient."""
    leaves = {v.as_proxy().node for v in graph.leaf_var_creation_order if not v.source} if DEPTH.n else set()
    returned = {v.as_proxy().node for v in outputs if is_tensor(v)}
    if not leaves or leaves & returned or not any(requires_grad(n) for n in graph.graph.nodes if n.op in GIVEN):
        PYTORCHS_CHECK(graph, outputs, translator)


GIVEN = ("placeholder", "get_attr")


def is_tensor(variable: Any) -> bool:
    return hasattr(variable, "as_proxy") and isinstance(getattr(variable, "requires_grad", None), bool)


def requires_grad(node: fx.Node) -> bool:
    value = node.meta.get("example_value")
    return isinstance(value, torch.Tensor) and value.requires_grad


def call_method(variable: Any, translator: Any, name: str, args: Any, kwargs: Any) -> Any:
    if DEPTH.n and name == "requires_grad_" and begins(variable, translator, [*args, *kwargs.values()]):
        return variable
    return PYTORCHS_METHOD(variable, translator, name, args, kwargs)


def begins(variable: Any, translator: Any, wanted: Sequence[Any]) -> bool:
    """Let an input of the graph require a gradient from the start. Return False if this would differ from eager.

    It would differ for a parameter, or if an earlier operator has read the input.
    """
    node, is_wanted = variable.as_proxy().node, all(w.is_python_constant() and w.as_python_constant() is True for w in wanted)
    value, output = node.meta.get("example_value"), translator.output
    # PyTorch must capture the whole call as one graph; a graph that ends earlier might not read the input
    is_whole = output.root_tx.one_graph and output.current_tracer.parent is None
    if not variable.source or not is_wanted or node.op != "placeholder" or not is_whole:
        return False
    if not isinstance(value, torch.Tensor) or isinstance(value, torch.nn.Parameter) or not value.is_floating_point():
        return False
    if value.requires_grad or any(isinstance(u.meta.get("example_value"), torch.Tensor) for u in node.users):
        return False
    value.requires_grad_()
    variable.requires_grad = True
    node.meta[BEGINS] = True
    return True


def compiled_from_beginning(compile: Compile, module: fx.GraphModule, inputs: list[Any]) -> Run:
    """Compile a captured graph whose program calls `requires_grad_()` on some of its inputs.

    These inputs require a gradient during compilation and in each call. After compilation the flag is reset, because PyTorch
    compares the inputs of later calls with the inputs as they were before the first call.
    """
    given = [n for n in module.graph.nodes if n.op == "placeholder"]
    begin = [k for k, node in enumerate(given) if node.meta.get(BEGINS)]
    if not begin:
        return compile(module, inputs)
    now = [inputs[k] for k in begin if not inputs[k].requires_grad]
    try:
        for tensor in now:
            tensor.requires_grad_()
        compiled = compile(module, inputs)
    finally:
        for tensor in now:
            tensor.requires_grad_(False)

    def call(*inputs: Any) -> Any:
        for k in begin:
            inputs[k].requires_grad_()
        return compiled(*inputs)

    return call
