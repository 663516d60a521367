"""Operators: their schemas, the kernels that captures use, and modes that observe operators."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar, cast
from unittest import mock

import torch
from torch.fx.experimental import proxy_tensor
from torch.fx.operator_schemas import get_signature_for_torch_op

from memplan.torch_internals.names import Private

T = TypeVar("T")
OPERATOR: type[Any] = type(torch.ops.aten.add.Tensor)
AUTOCAST_BEGINS = "_enter_autocast"  # name of the call in a captured graph at which an autocast region begins
NOT_EAGERS = "captures use other kernels than eager, so bits, random draws and memory may differ"

SCHEMA = Private(
    "torch.ops.aten.add.Tensor._schema",
    use="reads the arguments of operators, and which of them an operator overwrites",
    instead="memplan uses torch.fx.operator_schemas",
)
KEY = Private("torch._C.DispatchKey", use="names the kernels of operators", lost=NOT_EAGERS)
KERNELS = Private("torch.ops.aten.add.Tensor.py_kernels", use="finds kernels that only captures use", lost=NOT_EAGERS)
KNOWN_KERNELS = Private(
    "torch.ops.aten.add.Tensor._dispatch_cache",
    use="makes PyTorch look up kernels again",
    instead="memplan registers a kernel and removes it again",
)
RUN_KERNEL = Private(
    "torch.ops.aten.add.Tensor._op_dk",
    use="runs PyTorch's kernel although memplan's kernel is registered",
    instead="memplan removes its kernel during the call",
)
ALL_OPERATORS = Private("torch._C._dispatch_get_all_op_names", use="lists the operators with such kernels", lost=NOT_EAGERS)
DECOMPOSITIONS = Private("torch._decomp.decompositions", use="lists the operators with such kernels", lost=NOT_EAGERS)
WATCHING = Private(
    "torch.utils._python_dispatch.TorchDispatchMode",
    use="observes the operators that eager runs",
    lost="memplan refuses report.policy",
)
FAKE = Private(
    "torch._subclasses.FakeTensorMode",
    use="repeats a call on tensors without memory",
    lost="explain_oom and saved name the modules of the nearest parameters, but no lines of code",
)
MODE = Private(
    "torch.utils._python_dispatch._get_current_dispatch_mode",
    use="tells whether a mode observes operators",
    lost="the mode does not see the operators of a compiled model",
)
FUNC_LEVEL = Private(
    "torch._C._functorch.peek_interpreter_stack",
    use="tells whether a call runs inside torch.func",
    lost="a compiled model may end in an error of PyTorch in such a call",
)
FORWARD_LEVEL = Private(
    "torch.autograd.forward_ad._current_level",
    use="tells whether a call runs inside forward-mode differentiation",
    lost="a compiled model may end in an error of PyTorch in such a call",
)
CAST_TWICE = "under autocast, captures cast a parameter at each use, and add its gradients in fp32"
REGION = Private(
    "torch.amp.autocast_mode._UnmanagedAutocast", use="finds autocast regions in a graph", lost=CAST_TWICE, since="2.12"
)
CAST = Private("torch.ops.aten._to_copy.default", use="finds the casts of autocast in a capture", lost=CAST_TWICE)
CAST_CACHE = Private("torch.fx.experimental.proxy_tensor.disable_autocast_cache", use="reads autocast's cache", lost=CAST_TWICE)
BATCH_NORM = Private(
    "torch.ops.aten._native_batch_norm_legit_functional.default",
    use="finds batch normalization in a capture",
    lost="plans do not recompute batch normalization",
)
BATCH_NORM_AGAIN = Private(
    "torch.ops.aten._native_batch_norm_legit.no_stats",
    use="recomputes batch normalization without a change of its statistics",
    lost="plans do not recompute batch normalization",
)
ON_META = "captures of attention on the meta device contain the matrix of scores, which real devices do not store"
FLASH = Private(
    "torch.ops.aten._scaled_dot_product_flash_attention.default", use="finds attention kernels of GPUs", lost=ON_META
)
EFFICIENT = Private(
    "torch.ops.aten._scaled_dot_product_efficient_attention.default",
    use="finds memory-efficient attention kernels of GPUs",
    lost=ON_META,
)
HOST_FLASH = Private(
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default", use="finds attention kernels of CPUs", lost=ON_META
)
WRITTEN_OUT = Private(
    "torch.ops.aten._scaled_dot_product_attention_math.default", use="finds attention as a composed operator", lost=ON_META
)


def schema_of(operator: Any) -> Any:
    """Return the schema of an operator: its arguments and which of them it writes.

    Return None for values that are no operator.
    """
    if not isinstance(operator, OPERATOR):
        return None
    if SCHEMA:
        return operator._schema
    _, schemas = get_signature_for_torch_op(operator, return_schemas=True)
    return schemas[0] if schemas else None


# ---- kernels by names of dispatch keys


def key_of(name: str) -> Any:
    return getattr(KEY.get(), name)


def has_kernel(operator: Any, names: Iterable[str]) -> bool:
    return bool(KEY) and any(operator.has_kernel_for_dispatch_key(key_of(name)) for name in names)


def with_python_kernels(names: Iterable[str]) -> list[Any]:
    """Return PyTorch's operators with separate implementations for captures."""
    found: list[Any] = []
    if not (KEY and KERNELS and ALL_OPERATORS and DECOMPOSITIONS):
        return found
    importlib.import_module("torch._decomp")  # this import registers separate implementations for captures
    keys = [key_of(name) for name in names]
    for name in sorted(ALL_OPERATORS()):
        packet, _, overload = name.removeprefix("aten::").partition(".")
        if name.startswith("aten::") and hasattr(torch.ops.aten, packet):
            operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
            if any(key in operator.py_kernels for key in keys):
                found.append(operator)
    return found


def forget(operator: Any) -> None:
    """Reset PyTorch's cache of kernels for an operator."""
    if KNOWN_KERNELS:
        operator._dispatch_cache.clear()
        return
    unused = key_of("AutogradXLA")
    operator.py_kernels.pop(unused, None)
    operator.py_impl(unused)(operator)
    del operator.py_kernels[unused]


@contextlib.contextmanager
def kernels(operator: Any, ours: dict[str, Callable[..., Any]], without: Iterable[str] = ()) -> Iterator[None]:
    """Within the context, captures use these kernels of an operator. `without`: keys of kernels to hide."""
    if not (KEY and KERNELS):
        yield
        return
    try:
        with mock.patch.dict(operator.py_kernels):
            for name in without:
                operator.py_kernels.pop(key_of(name), None)
            operator.py_kernels.update({key_of(name): kernel for name, kernel in ours.items()})
            forget(operator)
            yield
    finally:
        forget(operator)


def run_kernel(operator: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """Run PyTorch's own kernel of an operator whose kernel memplan has replaced."""
    if RUN_KERNEL:
        return operator._op_dk(key_of(name), *args, **kwargs)
    ours = [key.name for key in operator.py_kernels]
    with kernels(operator, {}, without=ours):
        return operator(*args, **kwargs)


def in_thread(call: Callable[[], T]) -> T:
    """Run a call in another thread without the caller's profiler, modes, capture and autocast. Return its result."""
    with ThreadPoolExecutor(1) as other:
        return other.submit(call).result()


def without_cast_cache_off() -> contextlib.AbstractContextManager[Any]:
    """Within the context, autocast's cache of casts stays enabled during captures."""
    if not CAST_CACHE:
        return contextlib.nullcontext()
    return mock.patch.object(proxy_tensor, "disable_autocast_cache", contextlib.nullcontext)


# ---- observation of operators

CALLERS = ("torch._compile", "torch._dynamo.eval_frame", __name__)  # modules whose frames call an observer of operators


def watching(run: Callable[[Any, Any, Any], Any]) -> contextlib.AbstractContextManager[Any]:
    """Within the context, pass each operator with its arguments to `run`. Raises MemplanError.

    In inference mode PyTorch passes composite operators, such as `linear` and `item`, as a whole. `run` receives their parts.
    """
    WATCHING.need()

    class Operators(WATCHING.get()):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if torch.is_inference_mode_enabled():
                with self:
                    result = func.decompose(*args, **(kwargs or {}))
                if result is not NotImplemented:
                    return result
            return run(func, args, kwargs or {})

    return cast(contextlib.AbstractContextManager[Any], Operators())


def watched(call: Callable[[], Any]) -> list[Any]:
    """Return the operators that a call runs."""
    seen: list[Any] = []

    def run(operator: Any, args: Any, kwargs: Any) -> Any:
        seen.append(operator)
        return operator(*args, **kwargs)

    with watching(run):
        call()
    return seen


def forget_arguments(traceback: TracebackType | None) -> None:
    """Clear the stack frames through which PyTorch calls dispatch modes (observers).

    These frames hold the operators' arguments. They do not exist without an observer.
    """
    while traceback is not None:
        if traceback.tb_frame.f_globals.get("__name__") in CALLERS:
            traceback.tb_frame.clear()
        traceback = traceback.tb_next


def without_memory() -> contextlib.AbstractContextManager[Any]:
    """Create tensors without memory (fake tensors) within the context. Raises MemplanError."""
    return cast(contextlib.AbstractContextManager[Any], FAKE(allow_non_fake_inputs=True))


def mode_now() -> str:
    """Return the name of the active mode that observes operators, or ""."""
    mode = MODE() if MODE else None
    return type(mode).__name__ if mode is not None else ""


def transform_now() -> str:
    """Return the name of the active torch.func transform, or ""."""
    level = FUNC_LEVEL() if FUNC_LEVEL else None
    return str(level.key()).rpartition(".")[2].lower() if level is not None else ""


def is_forward_mode() -> bool:
    return int(FORWARD_LEVEL.get(-1)) >= 0
