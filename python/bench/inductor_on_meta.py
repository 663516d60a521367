"""Run code that Inductor generates for a GPU on the meta device, without a GPU.

`Compiled` compiles a function like torch.compile. AOTAutograd splits forward and backward. Inductor fuses and orders kernels.
Inductor's code for the host allocates, reuses and frees buffers. This code then runs on the meta device, and kernels do
nothing. So `memplan.estimate` counts exactly the buffers of compiled code. Without this module, memplan counts compiled code
as if it ran eagerly.

The partitioner works on the meta device, where autograd needs no GPU driver. Inductor then receives graphs for an A100. Two
passes of Inductor that need measurements on a GPU are off: padding of matrix products, and patterns that replace attention.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
import torch._functorch.config as functorch_config
from torch import fx, nn
from torch._dynamo.device_interface import CudaInterface
from torch._inductor import compile_fx, config, graph
from torch._inductor.fx_passes import joint_graph
from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils import _pytree as pytree

from memplan.graph.attention import attention_on

GPU = torch.device("cuda", 0)
A100 = types.SimpleNamespace(
    name="NVIDIA A100-SXM4-80GB",
    major=8,
    minor=0,
    total_memory=80 << 30,
    multi_processor_count=108,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    regs_per_multiprocessor=65536,
    warp_size=32,
    L2_cache_size=40 << 20,
    shared_memory_per_block_optin=166912,
)
CONSTANTS: dict[str, Any] = {  # answers of a machine with an A100
    "torch.cuda.is_available": True,
    "torch.cuda.device_count": 1,
    "torch.cuda.current_device": 0,
    "torch.cuda._exchange_device": 0,
    "torch.cuda._maybe_exchange_device": 0,
    "torch.cuda._lazy_init": None,
    "torch.cuda.set_device": None,
    "torch.cuda.synchronize": None,
    "torch.cuda.set_rng_state": None,
    "torch.cuda.get_rng_state": torch.zeros(16, dtype=torch.uint8),
    "torch.cuda.get_device_properties": A100,
    "torch.cuda.get_device_capability": (8, 0),
    "torch._C._cuda_getDevice": 0,
    "torch._inductor.scheduler.has_triton": True,
    "torch.utils._triton.triton_hash_with_backend": "",
    "torch._inductor.fx_passes.fuse_attention._sfdp_init": None,
    "torch._inductor.fx_passes.pad_mm._pad_mm_init": None,
    "torch._inductor.fx_passes.misc_patterns._misc_patterns_init": None,
}
INTERFACE: dict[str, Any] = {
    "get_device_properties": A100,
    "get_compute_capability": 80,
    "is_available": True,
    "is_bf16_supported": True,
    "is_triton_capable": True,
    "raise_if_triton_unavailable": None,
    "current_device": 0,
    "device_count": 1,
    "exchange_device": 0,
    "maybe_exchange_device": 0,
    "set_device": None,
    "synchronize": None,
}
CONFIG: dict[str, Any] = {"fx_graph_cache": False, "compile_threads": 1}


class Folder(UniformValueConstantFolder):
    """Folds constants of a graph for a GPU on the CPU."""

    def _deduce_value(self, node: fx.Node) -> Any:
        given = node.kwargs
        node.kwargs = {name: torch.device("cpu") if value == GPU else value for name, value in given.items()}
        try:
            return super()._deduce_value(node)
        finally:
            node.kwargs = given


def constant(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


class Nothing:
    """A kernel, a launcher or a context that does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __call__(self, *_: Any, **__: Any) -> Nothing:
        return self

    def __getattr__(self, _: str) -> Nothing:
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        pass


class Products:
    """Matrix products that compiled code calls in cuBLAS. The products write into buffers of the code, and need a workspace."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return getattr(torch, name)  # mm, bmm, addmm, baddbmm


def on_meta(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="meta")


def module_of(lowering: Any) -> Any:
    """Return a module with the generated code, whose allocations are on the meta device and whose kernels do nothing."""
    text = lowering.codegen()[0].value.replace("torch.cuda._DeviceGuard", "nothing").replace("torch.cuda.set_device", "nothing")
    names: dict[str, Any] = {"__file__": "", "__name__": "generated", "nothing": Nothing()}
    with mock.patch("torch._inductor.async_compile.AsyncCompile", Nothing):
        exec(compile(text, "generated", "exec"), names)
    checks = [name for name in names if name.startswith("assert_")]
    same = [name for name in ("copy_if_misaligned",) if name in names]
    names |= dict.fromkeys(checks, constant(None)) | dict.fromkeys(same, lambda x: x)
    names |= {"empty_strided_cuda": on_meta, "extern_kernels": Products(), "get_raw_stream": constant(0)}
    return types.SimpleNamespace(call=names["call"], __file__="generated", __path__="generated", text=text)


def cross_entropy(
    x: torch.Tensor, target: torch.Tensor, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", **_: Any
) -> torch.Tensor:
    """Compute cross entropy without nll_loss_nd. On the meta device, AOTAutograd loses the gradient of that operator."""
    kind = ("none", "mean", "sum").index(reduction)
    return torch.ops.aten.nll_loss_forward(x.log_softmax(1), target, weight, kind, ignore_index)[0]


@contextlib.contextmanager
def functions_of_gpu() -> Iterator[None]:
    attention = mock.patch.object(nn.functional, "scaled_dot_product_attention", attention_on(True, True))
    with attention, mock.patch.object(nn.functional, "cross_entropy", cross_entropy):
        yield


@contextlib.contextmanager
def as_if_on_gpu() -> Iterator[None]:
    """Let Inductor generate code for an A100 on this machine."""
    with contextlib.ExitStack() as stack:
        for name, value in CONSTANTS.items():
            stack.enter_context(mock.patch(name, constant(value)))
        for name, value in INTERFACE.items():
            for owner in (CudaInterface, CudaInterface.Worker):
                if hasattr(owner, name):
                    stack.enter_context(mock.patch.object(owner, name, staticmethod(constant(value))))
        stack.enter_context(mock.patch.object(joint_graph, "UniformValueConstantFolder", Folder))
        stack.enter_context(mock.patch.object(graph.GraphLowering, "_compile_to_module", module_of))
        stack.enter_context(functions_of_gpu())
        stack.enter_context(config.patch(CONFIG))
        stack.enter_context(functorch_config.patch(enable_autograd_cache=False, force_non_lazy_backward_lowering=True))
        yield


def on_gpu(value: Any) -> Any:
    if not isinstance(value, FakeTensor) or value.device.type != "meta":
        return value
    with value.fake_mode:
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=GPU)


def move(gm: fx.GraphModule) -> None:
    """Move a graph from the meta device to the GPU."""
    for module in gm.modules():
        for node in module.graph.nodes if isinstance(module, fx.GraphModule) else ():
            if node.kwargs.get("device") == torch.device("meta"):
                node.kwargs = {**node.kwargs, "device": GPU}
            for key in {"val", "example_value", "eager_input_vals"} & set(node.meta):
                node.meta[key] = pytree.tree_map(on_gpu, node.meta[key])
        if isinstance(module, fx.GraphModule):
            module.recompile()


def generate(gm: fx.GraphModule, inputs: Any, **kwargs: Any) -> Any:
    move(gm)
    return compile_fx.compile_fx_inner(gm, [on_gpu(value) for value in inputs], **kwargs)


class Compiled:
    """A function compiled for each layout of its tensors.

    Args:
        call: a function of positional tensors that returns a tensor or a tuple of tensors.
        options: as of torch.compile.
        partition: called with the joint graph of forward and backward before the split. It can mark operators to recompute.
    """

    def __init__(
        self, call: Callable[..., Any], options: dict[str, Any] | None = None, partition: Callable[[Any], None] | None = None
    ) -> None:
        self.call, self.options, self.partition = call, options or {}, partition
        self.codes: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *tensors: torch.Tensor) -> Any:
        key = tuple((t.size(), t.stride(), t.dtype, t.requires_grad) for t in tensors), torch.is_autocast_enabled("cuda")
        if key not in self.codes:
            self.codes[key] = self.compile(tensors)
        results = self.codes[key](*tensors)
        return results[0] if len(results) == 1 else tuple(results)

    def compile(self, tensors: tuple[torch.Tensor, ...]) -> Callable[..., Any]:
        with FakeTensorMode(allow_non_fake_inputs=True):
            fakes = [torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device="meta") for t in tensors]
        for fake, t in zip(fakes, tensors):
            fake.requires_grad_(t.requires_grad)
        made = fx.Graph()
        given = [made.placeholder(f"given_{k}") for k in range(len(fakes))]
        for node, fake in zip(given, fakes):
            node.meta["val"] = node.meta["example_value"] = fake
        with functions_of_gpu():
            n = len(self.flat(*(torch.empty_like(t, requires_grad=t.requires_grad) for t in tensors)))
        called = made.call_function(self.flat, tuple(given))
        made.output(tuple(made.call_function(operator.getitem, (called, k)) for k in range(n)))
        split = compile_fx.partition_fn

        def partition(joint: Any, *args: Any, **kwargs: Any) -> Any:
            move(joint)
            if self.partition is not None:
                self.partition(joint)
            return split(joint, *args, **kwargs)

        with as_if_on_gpu(), config.patch(self.options), mock.patch.object(compile_fx, "partition_fn", partition):
            return compile_fx.compile_fx(fx.GraphModule({}, made), fakes, inner_compile=generate)

    def flat(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = self.call(*tensors)
        return results if isinstance(results, tuple) else (results,)


class CompiledModule:
    """A function of modules, compiled once for all modules with equal names and layouts of parameters.

    Args:
        call: a function of a module and tensors, such as a part of its forward. It uses all parameters of `part_of(module)`.
    """

    def __init__(
        self, call: Callable[..., Any], part_of: Callable[[nn.Module], dict[str, torch.Tensor]], **options: Any
    ) -> None:
        self.call, self.part_of, self.options = call, part_of, options
        self.made: dict[Any, Compiled] = {}

    def __call__(self, module: nn.Module, *tensors: torch.Tensor) -> Any:
        state = self.part_of(module)
        names = tuple(state)
        if names not in self.made:
            self.made[names] = Compiled(functools.partial(self.run, module, names), **self.options)
        return self.made[names](*state.values(), *tensors)

    def run(self, module: nn.Module, names: tuple[str, ...], *tensors: torch.Tensor) -> Any:
        with swapped(module, dict(zip(names, tensors))):
            return self.call(module, *tensors[len(names) :])


@contextlib.contextmanager
def swapped(module: nn.Module, state: dict[str, torch.Tensor]) -> Iterator[None]:
    """Within the context, the module uses other parameters and buffers."""
    with _reparametrize_module(module, state):
        yield
