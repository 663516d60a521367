"""The public functions compile and estimate."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from memplan.budget import Budget, gradient_bytes, only_bytes
from memplan.compiled_modules import as_before, inner, place_of
from memplan.errors import MemplanError, RankError
from memplan.graph.distributed import refuse_sharded
from memplan.graph.named_device import Region
from memplan.library.planning import Watcher
from memplan.memory.optimizer_state import optimizer_bytes
from memplan.plan.options import Options, given_to
from memplan.report import Report
from memplan.run.backend import Backend, Estimated
from memplan.run.bit_differences import Surroundings
from memplan.run.call_guard import asking
from memplan.run.compiled_callables import NAME, Handed
from memplan.run.eager_parts import Parts
from memplan.run.fallback import SKIPPED, EagerFallback, reason_of
from memplan.run.in_place import InPlace, uncompile
from memplan.run.output_use import LEAST_SHARE
from memplan.run.results import beside_hooks, noting_results
from memplan.torch_internals.batch_norm import batch_norm_rules
from memplan.torch_internals.capture import (
    backend_now,
    counting,
    dynamo_settings,
    is_jit_traced,
    is_limit,
    known,
    limit,
    limit_name,
    setting,
)
from memplan.torch_internals.equal_modules import copying_equal_modules
from memplan.torch_internals.leaves import capturing_leaves

MOST_SIZES = 256  # the largest number of input sizes that have a plan at the same time
LOG_METHODS = ("debug", "info", "info_once", "warning", "warning_once", "warn", "error", "exception", "critical", "log")


def backend_for(
    kind: type[Backend],
    model: Any,
    optimizers: Iterable[torch.optim.Optimizer | None],
    accumulate: bool,
    *,
    reserve: Budget = 0,
    fullgraph: bool = True,
    only_report: bool = False,
    **options: Any,
) -> Backend:
    """Build a backend from compile's options. The budget includes reserve, optimizer state and accumulated gradients."""
    accumulated = gradient_bytes(model) if accumulate else 0
    counted = only_bytes(reserve) + sum(optimizer_bytes(o) for o in optimizers if o is not None) + accumulated
    backend = kind(Options(reserve=counted, **options), is_cut=not fullgraph, only_report=only_report)
    backend.accumulated_bytes = accumulated
    return backend


def our_error(error: BaseException) -> BaseException | None:
    """Return the exception of memplan, or of Ctrl-C, that PyTorch has wrapped into an exception of its own."""
    seen = set()
    inner: BaseException | None = error
    while inner is not None and id(inner) not in seen:
        seen.add(id(inner))
        if isinstance(inner, (MemplanError, Estimated, KeyboardInterrupt)):
            return inner
        inner = getattr(inner, "inner_exception", None) or inner.__cause__ or inner.__context__
    return None


def capturing(only_these_sizes: bool) -> contextlib.AbstractContextManager[Any]:
    """Return a context with the settings of dynamo that memplan requires.

    Dynamo captures recurrent layers, omits logging calls, does not break graphs at DDP's buckets, and captures up to
    MOST_SIZES sizes separately. An integer attribute of a module is a variable, so that a counter causes no new capture. A
    parameter that several modules share is one graph input. Each call checks for new hooks and for changes of requires_grad.
    """
    most = max(MOST_SIZES, limit())
    settings: dict[str, Any] = {"allow_rnn": True, "optimize_ddp": False, limit_name(): most}
    if only_these_sizes:  # without dynamic shapes, ranks that have seen different sizes still capture equal graphs
        settings["automatic_dynamic_shapes"] = False
    settings |= {"allow_unspec_int_on_nn_module": True, "skip_nnmodule_hook_guards": False}
    settings["skip_tensor_guards_with_matching_dict_tags"] = False
    if torch.__version__ < "2.5":
        settings["inline_inbuilt_nn_modules"] = True
    # dynamo would otherwise draw the program's NumPy random numbers from PyTorch's generator
    settings["use_numpy_random_stream"] = True
    methods = {getattr(logging.Logger, name) for name in LOG_METHODS if hasattr(logging.Logger, name)}
    logging_functions = known("ignore_logging_functions", "ignore_logger_methods")
    settings[logging_functions] = setting(logging_functions, set()) | methods
    return dynamo_settings(**settings)


def meaning(backend: Backend, function: Callable[..., Any]) -> contextlib.AbstractContextManager[Any]:
    """Return a context that captures a model on the meta device as if its tensors were on the device named by `device=`."""
    meant = backend.options.meant
    return meant.capturing(backend.model() or function) if meant is not None else contextlib.nullcontext()


@contextlib.contextmanager
def told(backend: Backend, name: str) -> Iterator[None]:
    """Show a progress line on the terminal during the first call within the context."""
    line = backend.options.line
    if backend.report.is_empty():
        line.say(f"capturing {name}")
    try:
        yield
    finally:
        line.end()


def captured(function: Callable[..., Any], backend: Backend, fullgraph: bool) -> Callable[..., Any]:
    """Compile the function with memplan's settings. The result keeps a reference to the backend.

    If PyTorch cannot capture a call, the call runs eagerly and memplan warns. Exceptions of memplan pass unchanged.
    Calls without gradients run eagerly. Within another capture, the function becomes part of that capture.
    """
    call = torch.compile(function, backend=Handed(backend), fullgraph=fullgraph)
    eagerly = EagerFallback(backend.report, name_of(function))
    surroundings = Surroundings(backend.say, lambda: backend.feedback.ledger.n_calls)

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def tell_of_others() -> None:
        """Warn that another compiler captures the user's function.

        PyTorch calls this function during that capture.
        """
        if not torch.compiler.is_exporting() and (by := backend_now()) not in ("", NAME):
            reason = (
                f'another torch.compile (backend="{by}") captures the calling code; compile the calling code with'
                " memplan instead"
            )
            eagerly.say(reason, how="does not plan {}")

    def evaluated(result: Any) -> Any:
        if not is_jit_traced() and not torch.compiler.is_compiling():
            least = max((g.most_bytes for g in backend.report.graphs), default=0) // LEAST_SHARE
            backend.feedback.results.note_evaluation(result, least, f"{eagerly.name} without gradients")
        return result

    def called(*args: Any, **kwargs: Any) -> Any:
        nonlocal call, eagerly
        if eagerly.report is not backend.report:
            # a changed report means that the user has compiled the model again with other options
            eagerly = EagerFallback(backend.report, name_of(function))
        raised: BaseException | None = None
        if not torch.is_grad_enabled() or is_jit_traced():
            return evaluated(function(*args, **kwargs))
        if torch.compiler.is_compiling():
            tell_of_others()
            return function(*args, **kwargs)
        if eagerly.may_capture():
            if backend.captures_again():
                call = torch.compile(function, backend=Handed(backend), fullgraph=fullgraph)
            parts = Parts()
            surroundings.look(backend.model())
            try:
                with (
                    parts.watched(),
                    told(backend, eagerly.name),
                    meaning(backend, function),
                    capturing(bool(backend.rank_group)),
                    capturing_leaves(),
                    batch_norm_rules(),
                    copying_equal_modules(backend.model()),
                    counting(fullgraph) as is_skipped,
                    asking(function, args, kwargs) as asked,
                    noting_results() as returned,
                ):
                    result = call(*args, **kwargs)
                    returned.take(result)
                    backend.feedback.has_called(backend.report, returned, result)
                    if is_skipped():
                        eagerly.say(SKIPPED)
                if not fullgraph:
                    eagerly.say_of_parts(parts.reason((args, kwargs), result))
                if asked.places:
                    asked.compare(backend.say, backend.report)
                eagerly.is_captured()
                return result
            except Exception as error:
                raised = our_error(error)
                if raised is None and not is_limit(error) and not parts.have_given_up(error):
                    raise
                if raised is None:
                    raised = not_captured(error, backend, eagerly, fullgraph)
        if raised is not None:
            raise raised.with_traceback(None) from None
        return function(*args, **kwargs)

    @functools.wraps(function)
    def beside(*args: Any, **kwargs: Any) -> Any:
        with beside_hooks():
            return called(*args, **kwargs)

    beside.memplan_backend = backend  # type: ignore[attr-defined]
    return beside


def not_captured(error: Exception, backend: Backend, eagerly: EagerFallback, fullgraph: bool) -> BaseException | None:
    """Return the exception to raise if PyTorch cannot capture a call, or None to run eagerly. In that case memplan warns."""
    if backend.only_report or not fullgraph:  # earlier parts have run
        return MemplanError(f"{reason_of(error)}\n\nPyTorch says:\n{error}")
    try:
        backend.rank_group.tell(error, eagerly.name, backend.options.wait_seconds())
    except RankError as heard:  # other ranks have captured the graph, so this rank raises an error
        return heard
    eagerly.take(error)
    return None


def name_of(call: Any) -> str:
    """Return the name to show to the user: the class of a module, the name of a function."""
    owner = getattr(call, "__self__", call)
    return type(owner).__name__ if isinstance(owner, torch.nn.Module) else getattr(call, "__name__", "the model")


def compile(
    model: Any,
    budget: Budget = "auto",
    *,
    optimizer: torch.optim.Optimizer | None = None,
    accumulate: bool = False,
    reserve: Budget = 0,
    fullgraph: bool = True,
    effort: str = "normal",
    time_limit: float = 20.0,
    timeout: float = 600.0,
    on_infeasible: str = "raise",
    progress: Watcher | None = None,
    cache: str | None = None,
    verify: bool = False,
    device: str | None = None,
    rates: str = "achieved",
    autocast: Region = None,
    chunks: str | dict[str, int] = "off",
    offload: Budget | None = None,
    link: str | float | None = None,
) -> Any:
    """Compile a model so that its training fits a memory budget.

    The budget covers all memory: parameters, gradients, the batch, activations, and the additions named by the options.
    A module is compiled in place and returned. Calls without gradients (torch.no_grad) run as in eager PyTorch.
    Compiling again replaces all options; `uncompile` restores the module.

    Args:
        model: a module or a function.
        budget: bytes, "8GiB", "60%" of the peak without recomputation, "min" or "floor" for the peak of the smallest plan
            found, "min+50%" for half of the way from "min" to the peak without recomputation, or "auto" for 90 % of the free
            device memory. memplan plans at the first call, and again for each new input size.
        optimizer: memplan counts the state of this optimizer.
        accumulate: memplan counts the gradients of earlier batches.
        reserve: additional bytes to count.
        fullgraph: False permits graph breaks. Each part has its own plan, which counts the saved tensors of earlier parts.
        effort: "quick", "normal" or "thorough".
        time_limit: seconds for a search; 0 means no limit.
        timeout: for a sharded model, the seconds that ranks wait for each other during planning, plus `time_limit`.
        on_infeasible: "raise" raises a BudgetError; "smallest" warns and uses the smallest plan found.
        progress: a function that receives a memplan.library.planning.Progress. If it returns False, the search ends with the
            best plan so far. Without it, a line on the terminal shows the progress of the first step.
        cache: a folder that stores operator costs and plans; "off" stores nothing.
        verify: before the first step of each graph, memplan runs the graph on copies, as planned and eagerly. The report gives
            both peaks and says whether all bits are equal. Otherwise it gives the largest difference, and memplan warns.
        device: for models on the meta device: a name of `memplan devices`, whose speed, memory and kernels the plan assumes.
        rates: with `device`, "achieved" for the rates that training runs reach, or "peak" for the data sheet's.
        autocast: with `device`, the type of a torch.autocast region around the model: torch.bfloat16, torch.float16, True
            (PyTorch's default type for the device) or False (none). The default is the region around the call.
        chunks: {"head": 8} computes the logits and their loss in 8 chunks of rows, forward and backward of one chunk together,
            so that the logits are never stored as a whole. {"mlp": 4} computes each MLP in 4 chunks of rows. "auto" compares
            plans of several numbers, powers of two up to 64. "off" keeps all tensors whole. Weight gradients are added in the
            order of the chunks, so some results differ from eager's in rounding. With `verify`, the report names the tensors
            that have eager's bits.
        offload: host memory, such as "32GiB", for activations whose copy is faster than their recomputation.
        link: bandwidth of these copies: a name of `memplan devices`, "24GB/s", or bytes per second. Default: the device's link.

    Returns:
        The compiled model. The first call fills the Report in its attribute `memplan`.
    """
    options = given_to("compile", locals())
    backend = backend_for(Backend, model, [optimizer], accumulate, fullgraph=fullgraph, **options)
    return compiled_with(model, backend, fullgraph)


def compiled_with(model: Any, backend: Backend, fullgraph: bool) -> Any:
    refuse_sharded(model)
    if (module := inner(model)) is not None:
        place = place_of(module)
        if place is not None and place.can_plan_again(module, backend, fullgraph):
            place.plan_again(module, backend)
        else:
            InPlace(backend, fullgraph, captured).install(module)
        vars(model)["memplan"] = backend.report
        return model
    if not callable(model):
        raise MemplanError(f"memplan compiles modules and functions, not a {type(model).__name__}")
    called = captured(model, backend, fullgraph)
    called.memplan = backend.report  # type: ignore[attr-defined]
    return called


def report_of(backend: Backend, model: Any, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Report:
    """Capture and plan the model without running it, and return the report. `backend` ends the compilation after planning."""
    try:
        with as_before(model):
            compiled = compiled_with(model, backend, True)
            try:
                compiled(*inputs, **kwargs)
            finally:
                if isinstance(compiled, torch.nn.Module):
                    uncompile(compiled)
    except Estimated:
        return backend.report
    raise MemplanError("there is nothing to train: no output depends on a parameter that requires a gradient")
