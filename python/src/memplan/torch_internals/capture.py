"""Captures: settings of dynamo, PyTorch's information on the current graph, and compilation of graphs."""

from __future__ import annotations

import contextlib
import gc
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import functorch.compile
import torch
from torch import fx

from memplan.errors import NotPlannable
from memplan.torch_internals.dispatch import schema_of
from memplan.torch_internals.names import Private
from memplan.torch_internals.texts import only_read_texts

CONFIG = Private(
    "torch._dynamo.config",
    use="sets which code is captured, and for how many input sizes",
    lost="recurrent layers run without a plan, and only a few input sizes have a plan",
)
LIMIT = Private(
    "torch._dynamo.exc.FailOnRecompileLimitHit",
    "torch._dynamo.exc.FailOnCacheLimitHit",
    use="recognizes that PyTorch captures no further input sizes",
    lost="calls with further input sizes end in PyTorch's error instead of running eagerly",
    since="2.7",
)
ANSWER = Private(
    "torch._dynamo.symbolic_convert.InstructionTranslatorBase.mark_inconsistent_side_effects",
    use="finds code that tests whether it is compiled",
    lost="memplan does not warn about code that behaves differently when it is compiled",
)
COUNT = Private(
    "torch._C._dynamo.eval_frame.set_fullgraph_compiled_frame_count",
    use="tells whether PyTorch has skipped code silently",
    lost="such code runs eagerly without a warning",
    since="2.15",
)
CONVERT = Private(
    "torch._dynamo.convert_frame.ConvertFrameAssert.__call__",
    use="recognizes code that PyTorch cannot capture",
    lost="code that PyTorch cannot capture ends in its error, or runs eagerly without a warning (fullgraph=False)",
)
CUTS = Private(
    "torch._dynamo.utils.graph_break_reasons",
    use="reads the lines of graph breaks (fullgraph=False)",
    lost="warnings do not name the lines of graph breaks",
)
SYMBOLIC = Private(
    "torch.fx._symbolic_trace.is_fx_symbolic_tracing",
    "torch.fx._symbolic_trace.is_fx_tracing",
    use="tells whether torch.fx traces a call",
    lost="torch.fx.symbolic_trace of a compiled model ends in an error of PyTorch",
)
REGISTER = Private(
    "torch._dynamo.backends.registry.register_backend",
    use='backend="memplan" where the package is not installed',
    lost='torch.compile knows backend="memplan" only if the package is installed',
)
AOT = Private(
    "torch._dynamo.backends.common.aot_autograd",
    use="computes the forward and backward graphs of a capture",
    instead="memplan uses functorch.compile.aot_module_simplified",
)
TRACING = Private(
    "torch._guards.TracingContext.try_get",
    use="reads PyTorch's metadata of a graph",
    lost="memplan does not check several calls, writes or second-order gradients between forward and backward",
)
COMPILING = Private(
    "torch._guards.CompileContext.current_compile_id",
    use="identifies the user code of a graph",
    lost="the plan of a graph omits the tensors that other graphs of the step save",
)
EXTRACT = Private(
    "torch._functorch.partitioners._extract_fwd_bwd_modules",
    use="splits a planned graph into forward and backward",
    lost="memplan plans nothing, and all code runs eagerly",
)
LAZY_MODULE = Private(
    "torch.fx._lazy_graph_module._LazyGraphModule",
    use="holds graphs that PyTorch need not compile to code",
    instead="memplan uses torch.fx.GraphModule",
)
USE_LAZY = Private(
    "torch.fx._lazy_graph_module._use_lazy_graph_module",
    use="holds graphs that PyTorch need not compile to code",
    instead="memplan uses torch.fx.GraphModule",
)
BOXED = Private(
    "_boxed_call",
    use="releases arguments of a graph while the graph runs",
    instead="arguments exist until the graph returns",
    of=lambda: functorch.compile.make_boxed_func(print),
)


# ---- settings and errors


def setting(name: str, otherwise: Any) -> Any:
    """Return the value of a setting of dynamo; `otherwise` if this PyTorch version lacks the setting."""
    return getattr(CONFIG.get(), name, otherwise)


def patched(config: Any, settings: dict[str, Any]) -> contextlib.AbstractContextManager[Any]:
    """Change settings within the context, if this PyTorch version has them."""
    known = {name: value for name, value in settings.items() if hasattr(config, name)}
    patch: contextlib.AbstractContextManager[Any] = config.patch(known) if known else contextlib.nullcontext()
    return patch


def dynamo_settings(**settings: Any) -> contextlib.AbstractContextManager[Any]:
    return patched(CONFIG.get(), settings)


def aot_settings(**settings: Any) -> contextlib.AbstractContextManager[Any]:
    return patched(functorch.compile.config, settings)


def all_eager() -> contextlib.AbstractContextManager[Any]:
    """Run compiled functions eagerly within the context."""
    stance: Any = getattr(torch.compiler, "set_stance", None)
    return stance("force_eager") if stance is not None else dynamo_settings(disable=True)


def limit_name() -> str:
    """Return the name of the setting that limits the captures per piece of code."""
    return known("recompile_limit", "cache_size_limit")


def known(name: str, before: str) -> str:
    """Return the name of a setting in this PyTorch version, which may be the older name `before`."""
    return name if hasattr(CONFIG.get(), name) else before


def limit() -> int:
    return int(setting(limit_name(), 8))


def limit_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that PyTorch raises when the number of captures reaches its limit."""
    return (LIMIT.get(),) if LIMIT else ()


def is_limit(error: BaseException) -> bool:
    """Whether an error reports that the limit of captures is reached. PyTorch 2.4 raises an unspecific exception."""
    return isinstance(error, limit_errors()) or str(error).startswith("cache_size_limit reached")


# ---- the current state of PyTorch


def is_jit_traced() -> bool:
    jit: Any = torch.jit
    return bool(jit.is_tracing())


def is_symbolically_traced() -> bool:
    return bool(SYMBOLIC()) if SYMBOLIC else False


def metadata_now() -> Any:
    """Return PyTorch's metadata of the graph just compiled, or None if it has no backward."""
    return getattr(TRACING(), "fw_metadata", None) if TRACING else None


def compile_id() -> Any:
    """Return the identifier of the current capture: the code, and the number of its earlier captures."""
    return COMPILING() if COMPILING else None


def metadata_of_callers() -> Any:
    """Return AOTAutograd's metadata of the graph that is being partitioned.

    PyTorch versions without output descriptions do not pass the metadata. It is found in a local variable of a calling
    function.
    """
    frame = inspect.currentframe()
    while frame is not None:
        found = frame.f_locals.get("inner_meta")
        if hasattr(found, "mutated_inp_runtime_indices"):
            return found
        frame = frame.f_back
    return None


@contextlib.contextmanager
def answers_told(hear: Callable[[Any], None]) -> Iterator[None]:
    """Call `hear` within the context whenever a capture tells code that it is being compiled."""
    pytorchs: Any = ANSWER.original()

    def told(translator: Any) -> None:
        pytorchs(translator)
        hear(translator)

    with ANSWER.standing_for(told):
        yield


@contextlib.contextmanager
def without_cycle_search() -> Iterator[None]:
    """Suspend Python's search for reference cycles.

    The search takes about a tenth of a capture, and frees little: most objects exist until the capture ends.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def frames_told(hear: Callable[[BaseException | None], None]) -> Iterator[None]:
    """Call `hear` within the context for each function that PyTorch converts, with the error if the conversion fails."""
    pytorchs: Any = CONVERT.original()

    def convert(*args: Any, **kwargs: Any) -> Any:
        error: BaseException | None = None
        try:
            with only_read_texts(), without_cycle_search():
                return pytorchs(*args, **kwargs)
        except Exception as raised:
            error = raised
            raise
        finally:
            hear(error)

    with CONVERT.standing_for(convert):
        yield


def backend_now() -> str:
    """Return the name of the backend of the current capture, or ""."""
    frame = inspect.currentframe()
    while frame is not None:
        found = frame.f_locals.get("self")
        if type(found).__name__.startswith("ConvertFrame"):
            backend = getattr(found, "_torchdynamo_orig_backend", None)
            if (name := getattr(backend, "compiler_name", None)) is not None:
                return str(name)
        frame = frame.f_back
    return ""


def n_cuts() -> int:
    """Return the number of graph breaks since the last torch._dynamo.reset."""
    return len(CUTS.get(()))


def cuts_since(n: int) -> list[tuple[list[tuple[str, int]], str]]:
    """Return the graph breaks after the first n. Each has its stack, as (file, line) pairs, and its reason."""
    cuts = list(CUTS.get(()))[n:]
    return [([(f.filename, f.lineno) for f in cut.user_stack or ()], str(cut.reason)) for cut in cuts]


@contextlib.contextmanager
def counting(is_counted: bool) -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether PyTorch has run no captured code, because PyTorch may skip code silently."""
    if not COUNT or not is_counted:
        yield lambda: False
        return
    before = COUNT(0)
    try:
        yield lambda: COUNT(0) == 0
    finally:
        COUNT(before)


# ---- compilation of graphs


def register(backend: Callable[..., Any], name: str) -> None:
    """Register a backend by name for a package that is imported without being installed."""
    if REGISTER and name not in torch.compiler.list_backends():
        REGISTER(backend, name=name)


def with_backward(module: fx.GraphModule, inputs: Any, **compilers: Any) -> Callable[..., Any]:
    """Compile a captured graph with AOTAutograd."""
    if AOT:
        return AOT(**compilers)(module, inputs)  # type: ignore[no-any-return]
    compile_backward, eagerly = compilers["bw_compiler"], cast(Any, torch.compiler.disable)
    compilers["bw_compiler"] = lambda *given: eagerly(compile_backward(*given))
    compiled: Callable[..., Any] = functorch.compile.aot_module_simplified(module, inputs, **compilers)
    return compiled


def boxed(run: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    """Return a function that receives a list of arguments and empties the list.

    AOTAutograd requires this calling convention.
    """
    if not BOXED:
        return lambda *arguments: run(list(arguments))
    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def need_to_cut() -> None:
    """Raise NotPlannable if this PyTorch version has no function to partition a joint graph for given saved tensors."""
    if not EXTRACT:
        raise NotPlannable(f"PyTorch {torch.__version__} has no {EXTRACT}")


def cut(
    joint: fx.Graph, of: fx.GraphModule, saved: list[fx.Node], numbers: list[fx.Node], n_outputs: int, static: Iterable[fx.Node]
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Return forward and backward of a joint graph. `saved`: the tensors to save."""
    module = (LAZY_MODULE.get(fx.GraphModule))(of, joint)
    module.meta = dict(getattr(of, "meta", {}))
    extra: dict[str, Any] = {}
    if "static_lifetime_input_nodes" in inspect.signature(EXTRACT.get()).parameters:
        extra["static_lifetime_input_nodes"] = dict.fromkeys(static)
    with USE_LAZY(True) if USE_LAZY else contextlib.nullcontext():
        forward, backward = EXTRACT(module, saved, saved_sym_nodes=numbers, num_fwd_outputs=n_outputs, **extra)
    drop_unread(forward, is_meant)
    drop_unread(backward)
    return forward, backward


def drop_unread(module: fx.GraphModule, stays: Callable[[fx.Node], bool] = lambda node: False) -> None:
    """Remove operators whose results no node reads and that have no effects.

    PyTorch's partition leaves such operators. Some versions leave forward's random operators in backward, which would draw
    again. All versions keep operators tagged as random, such as attention, in forward even if only backward reads them.
    Nodes for which `stays` returns True remain.
    """
    for node in reversed(module.graph.nodes):
        schema = schema_of(node.target)
        writes_nothing = inspect.isroutine(node.target) if schema is None else not schema.is_mutable
        if node.op == "call_function" and not node.users and writes_nothing and not stays(node):
            module.graph.erase_node(node)
    module.recompile()


def is_meant(node: fx.Node) -> bool:
    """Whether a forward operator without readers must stay in forward, because it has other effects than random draws."""
    return node.is_impure() and torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ())


def default_partition(joint: fx.GraphModule, inputs: Any, **known: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Partition a graph as PyTorch does, without recomputation. This is for graphs that cannot be planned."""
    own = functorch.compile.default_partition
    takes = inspect.signature(own).parameters
    forward, backward = own(joint, inputs, **{k: v for k, v in known.items() if k in takes})
    drop_unread(backward)
    return forward, backward
