"""A compiler for torch.compile: AOTAutograd with our cut of the joint graph and our executor."""

from __future__ import annotations

import dataclasses
import functools
import time
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.utils import make_boxed_func

from memplan.budget import only_bytes
from memplan.costs.measure import Costs
from memplan.errors import FallbackWarning, MemplanError, NotPlannable
from memplan.graph.capture import DYNAMIC, Capture
from memplan.graph.casts import backward_outside, cached_casts, cast_inside, noticing, regions
from memplan.graph.distributed import bucket_bytes, refuse_cut
from memplan.graph.joint import halves
from memplan.graph.native import keep_for_backward, native_kernels, of_the_capture
from memplan.graph.operators import drop_unread_arguments, is_foreign
from memplan.graph.sizes import deciding_symbols, has_unknown_sizes, hold_sizes, is_last_size
from memplan.plan.emit import default_partition
from memplan.plan.planner import GraphPlanner, Options
from memplan.report import Fallback, GraphReport, Report
from memplan.run.between import Backward, Between, names_of
from memplan.run.execute import compile_graph
from memplan.run.ledger import Beside, Booked, Ledger, Owner
from memplan.run.overlap import as_at_first, writes_into_inputs
from memplan.run.second_order import Differentiable
from memplan.run.verify import Verified

COSTS = Costs()
MOST_LEARNED = 4  # times that steps are planned again for what was beside them
NO_FURTHER = (
    "PyTorch captures this code for no further sizes and numbers (torch._dynamo.config.recompile_limit, cache_size_limit in"
    " old versions)"
)


class Estimated(Exception):
    """Ends a compilation of which only the report is wanted."""


class Backend:
    """What one torch.compile calls for every graph it captures. `model_bytes`: of parameters and buffers, all graphs
    together, and `gradient_bytes` of their gradients; both 0 where there is one graph only."""

    compiles_inference = False  # whether calls without gradients are better off

    def __init__(
        self,
        options: Options,
        report: Report | None = None,
        model_bytes: int = 0,
        gradient_bytes: int = 0,
        only_report: bool = False,
    ) -> None:
        self.options = options
        self.report = report if report is not None else Report()
        self.model_bytes, self.gradient_bytes = model_bytes, gradient_bytes
        self.only_report = only_report
        self.saved: dict[Any, int] = {}  # per frame of the user's code: what its last graph keeps for backward
        self.is_for_others = False  # the graph that is compiled now
        self.said: set[str] = set()
        self.regions: dict[str, torch.dtype] = {}  # of autocast, around the graph that is compiled
        self.cast_inside: list[str] = []  # of its backward
        self.others: list[str] = []  # what captures compute otherwise than eager, in the graph that is compiled
        self.between: Between | None = None  # of the graph that is compiled
        self.cut_at = ""  # where PyTorch cuts behind it
        self.accumulated_bytes = 0  # of gradients of earlier batches, which the options count
        self.ledger = Ledger()  # of its own calls
        self.uncounted_bytes = 0  # that steps had beside a call, and no plan has counted yet
        self.learned_bytes = self.n_learned = 0  # that plans count since, and how often they were made again
        self.alone: dict[Any, tuple[int, int]] = {}  # per frame and sizes: what keep-all and the floor are without others
        self.most_kept: dict[Any, int] = {}  # per frame of the user's code: what its graphs may keep for backward
        self.is_beyond = False  # whether that, or what is uncounted, has changed since plans were made
        self.causes: set[tuple[bool, ...]] = set()  # that were said
        self.__name__ = "memplan"

    def fresh(self) -> Backend:
        """For a copy of the model: the same options, and nothing planned yet."""
        made = type(self)(self.options, None, self.model_bytes, self.gradient_bytes, self.only_report)
        made.accumulated_bytes = self.accumulated_bytes
        return made

    def __call__(self, module: fx.GraphModule, inputs: list[Any], **_: Any) -> Callable[..., Any]:
        from torch._dynamo.backends.common import aot_autograd

        def compiler(graph: fx.GraphModule, _: Any) -> Any:
            return make_boxed_func(graph.forward) if has_unknown_sizes(graph.graph) else compile_graph(graph)

        def forward_compiler(graph: fx.GraphModule, inputs: Any) -> Any:
            run = compiler(graph, inputs)
            return self.between.forward(run) if self.between is not None else run

        def backward_compiler(graph: fx.GraphModule, inputs: Any) -> Any:
            return Backward(graph, lambda part: compiler(part, inputs))

        compilers: dict[str, Any] = {"fw_compiler": forward_compiler, "bw_compiler": backward_compiler}
        aot = aot_autograd(**compilers, inference_compiler=compiler, partition_fn=self.partition)
        self.between, self.is_for_others = None, False
        self.regions, self.cast_inside, self.cut_at = regions(), list[str](), cut_of(module)
        n_before, self.others = len(self.report.graphs), of_the_capture(module.graph)
        if torch.is_grad_enabled():
            self.hold(module, inputs)
        try:
            refuse_cut()
            with native_kernels(), cached_casts(), backward_outside():
                compiled: Callable[..., Any] = aot(module, inputs)
        except MemplanError as error:
            return raising(error)
        if self.options.verify and torch.is_grad_enabled() and len(self.report.graphs) > n_before:
            compiled = Verified(module, compiled, self.report.graphs[-1])
        if self.cast_inside:
            compiled = noticing(compiled, functools.partial(weakly(self.say), inside_sentence(self.cast_inside)))
        if self.between is not None:
            compiled = self.between.around(compiled, names_of(module))
        if torch.is_grad_enabled() and len(self.report.graphs) > n_before:
            compiled = Booked(compiled, self.report.graphs[-1], self.accumulated_bytes, self.owner())
        if torch.is_grad_enabled():
            compiled = Differentiable(module, compiled, graph_name(), weakly(self.say))
        return as_at_first(compiled) if writes_into_inputs() else compiled

    def say(self, sentence: str) -> None:
        """Once."""
        if sentence not in self.said:
            self.said.add(sentence)
            warnings.warn(f"memplan: {sentence}", FallbackWarning, stacklevel=4)

    def owner(self) -> Owner:
        return Owner(self.ledger, weakly(self.take_over), weakly(self.keep_less))

    def take_over(self, graph: GraphReport, beside: Beside) -> None:
        """A call goes beyond its budget: that is said once per cause, and the next step is planned for it."""
        is_stuck = graph.waiting_bytes > self.most_kept.get(graph.frame, graph.waiting_bytes)  # not reached
        can_learn = beside.learned_bytes > 0 or (beside.kept_less > 0 and not is_stuck)
        is_last = self.n_learned == MOST_LEARNED or not can_learn
        cause = (*beside.causes(), is_last)
        if cause not in self.causes:
            self.causes.add(cause)
            warnings.warn(f"memplan: {beside.sentence(graph, is_last)}", FallbackWarning, stacklevel=4)
        if beside.learned_bytes > self.uncounted_bytes:
            self.uncounted_bytes, self.is_beyond = beside.learned_bytes, True
        if beside.kept_less:
            self.keep_less(graph, beside.kept_less)

    def keep_less(self, graph: GraphReport, n_bytes: int) -> None:
        """Plans of this graph's frame keep so much less from forward to backward."""
        before = self.most_kept.get(graph.frame, graph.waiting_bytes)
        self.most_kept[graph.frame] = max(0, min(before, graph.waiting_bytes - n_bytes))
        self.is_beyond = self.is_beyond or n_bytes > 0

    def plans_again(self) -> bool:
        """Whether steps are to be planned anew, with what was beside the last ones: when no call of its own waits."""
        if not self.is_beyond or self.ledger.n_calls or self.n_learned == MOST_LEARNED:
            return False
        self.n_learned += 1
        self.learned_bytes += self.uncounted_bytes
        self.uncounted_bytes, self.is_beyond = 0, False
        budget = max(g.budget_bytes for g in self.report.graphs)
        self.options = dataclasses.replace(self.options, budget=budget, on_infeasible="smallest")
        self.report.graphs.clear()
        self.saved.clear()
        return True

    def hold(self, module: fx.GraphModule, inputs: list[Any]) -> None:
        """One graph per size, as long as PyTorch captures: the last graph is for all other sizes, if it can be."""
        if not is_last_size():
            hold_sizes(module, inputs)
        elif deciding_symbols(module):
            self.is_for_others = True
        else:
            sentence = (
                f"memplan plans {graph_name()}, and {NO_FURTHER}: they run without a plan, and where it is compiled by name"
                " with fullgraph=True, PyTorch raises FailOnRecompileLimitHit (memplan.compile goes on eagerly)"
            )
            warnings.warn(sentence, FallbackWarning, stacklevel=3)

    def partition(
        self, joint: fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, **known: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Cuts the joint graph: as planned, or, with a warning, as PyTorch does where it cannot be planned."""
        drop_unread_arguments(joint.graph)
        keep_for_backward(joint.graph)
        joint.recompile()
        if self.regions:
            tangents = [n for n in joint.graph.nodes if n.op == "placeholder" and "tangents" in n.name]
            self.cast_inside = cast_inside(halves(joint.graph, tangents)[1], self.regions)
        name = graph_name()
        self.not_saved: list[fx.Node] = []
        try:
            if self.is_for_others:
                raise NotPlannable(f"it is for all sizes that have no plan, since {NO_FURTHER}")
            graphs = self.plan(joint, name, num_fwd_outputs, known.get("static_lifetime_input_indices") or ())
        except NotPlannable as reason:
            self.report.fallbacks.append(Fallback(name, str(reason)))
            warnings.warn(f"memplan does not plan {name}: {reason}", FallbackWarning, stacklevel=2)
            graphs = default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **known)
        forward, backward = (g.graph for g in graphs)
        self.between = Between(forward, backward, num_fwd_outputs, self.not_saved)
        return graphs

    def plan(
        self, joint: fx.GraphModule, name: str, n_forward_outputs: int, static_indices: Iterable[int]
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        start = time.perf_counter()
        planner = self.planner_for(joint, name, n_forward_outputs, static_indices)
        emitted, budget = planner.solve(self.options, is_first=self.n_learned == 0)
        self.not_saved = planner.capture.not_saved_by_eager()
        for foreign in dict.fromkeys(str(n.target) for n in joint.graph.nodes if is_foreign(n)):
            self.say(
                f"{foreign} is not PyTorch's: it runs once, as eager runs it, unless it is tagged as pure (torch.Tag.pointwise"
                " or torch.Tag.core), and memory that it takes beside its results is not in the plan (reserve= counts it)"
            )
        self.saved[frame_of_graph()] = emitted.saved_bytes
        self.report.graphs.append(planner.report(emitted, budget, time.perf_counter() - start))
        graph = self.report.graphs[-1]
        sizes = tuple(s.n_bytes for s in planner.capture.storages if s.kind == "input")
        first = self.alone.setdefault((frame_of_graph(), sizes), (graph.keep_all_bytes, graph.floor_bytes))
        graph.keep_all_bytes, graph.floor_bytes = first
        graph.frame, graph.cut_at, graph.others_bytes = frame_of_graph(), self.cut_at, self.others_bytes
        graph.gradients_elsewhere_bytes = self.gradients_elsewhere_bytes
        if self.others:
            graph.notes.append(f"bits of the capture, not of eager: {', '.join(self.others)}")
        if self.only_report:
            raise Estimated
        return emitted.forward, emitted.backward

    def planner_for(
        self, joint: fx.GraphModule, name: str, n_forward_outputs: int, static_indices: Iterable[int]
    ) -> GraphPlanner:
        capture = Capture(joint, n_forward_outputs, static_indices)
        sources = [o.source for o in capture.operations if o.source is not None]
        self.leave_room(capture)
        return GraphPlanner(capture, COSTS.measure(sources, self.options.kept), self.outside_bytes(capture), name)

    def leave_room(self, capture: Capture) -> None:
        """For what others take while the graph's calls wait for their backward: then it keeps so much less."""
        most = self.most_kept.get(frame_of_graph())
        if most is not None and isinstance(self.options.budget, int):
            static = sum(s.n_bytes for s in capture.storages if s.kind not in DYNAMIC) + self.outside_bytes(capture)
            capture.operations[capture.boundary].workspace_bytes = max(0, self.options.budget - static - most)

    def outside_bytes(self, capture: Capture) -> int:
        """What is in memory beside this graph: what the caller said; and of other graphs of the model parameters, gradients,
        and what those before it have saved."""
        known = only_bytes(self.options.reserve)
        here = {k: sum(s.n_bytes for s in capture.storages if s.kind == k) for k in ("parameter", "gradient")}
        before = sum(n for frame, n in self.saved.items() if frame != frame_of_graph())
        self.others_bytes = before + self.learned_bytes
        self.gradients_elsewhere_bytes = max(0, self.gradient_bytes - here["gradient"])
        parameters = max(0, self.model_bytes - here["parameter"])
        return known + self.others_bytes + self.gradients_elsewhere_bytes + parameters + bucket_bytes()


class Handed:
    """The backend as torch.compile gets it, which keeps what it gets until torch._dynamo.reset: it does not keep the backend,
    with which plans, graphs and parameters would stay. Who calls what is compiled has to."""

    def __init__(self, backend: Backend) -> None:
        self.backend = weakref.ref(backend)
        self.__name__ = backend.__name__

    def __call__(self, module: fx.GraphModule, inputs: list[Any], **_: Any) -> Callable[..., Any]:
        backend = self.backend()
        return backend(module, inputs) if backend is not None else raising(MemplanError("what was compiled is gone"))


def weakly(method: Callable[..., None]) -> Callable[..., None]:
    """The method, which does not keep its object: for what PyTorch keeps."""
    kept = weakref.WeakMethod(method)

    def call(*told: Any) -> None:
        if (found := kept()) is not None:
            found(*told)

    return call


def raising(error: MemplanError) -> Callable[..., Any]:
    """Instead of a compiled graph: raises when it is called. PyTorch wraps what is raised while it compiles."""

    def call(*_: Any) -> Any:
        raise error.with_traceback(None)

    return call


def frame_of_graph() -> Any:
    """The same for all graphs of one piece of the user's code, at whatever sizes."""
    current = torch._guards.CompileContext.current_compile_id()
    return getattr(current, "frame_id", None)


def cut_of(module: fx.GraphModule) -> str:
    """Where PyTorch has cut the user's code behind this graph, "" where it has not."""
    reason = getattr(module, "compile_subgraph_reason", None)
    stack = getattr(reason, "user_stack", None) if getattr(reason, "graph_break", False) else None
    return f"{stack[-1].filename}:{stack[-1].lineno}" if stack else ""


def graph_name() -> str:
    current = torch._guards.CompileContext.current_compile_id()
    return f"graph {current}" if current is not None else "graph"


def inside_sentence(operators: list[str]) -> str:
    return (
        f"backward() is called inside autocast, where eager computes {', '.join(operators)} in lower precision; the plan's is"
        " eager's outside of autocast: call backward() behind the region, as PyTorch recommends"
    )


BY_OPTIONS: dict[int, tuple[dict[str, Any], Backend]] = {}


def options_from(given: dict[str, Any]) -> Options:
    names = {f.name for f in dataclasses.fields(Options)}
    if wrong := sorted(set(given) - names):
        raise MemplanError(f"there is no option {wrong[0]!r}; there are {', '.join(sorted(names))} and report")
    return Options(**given)


def dynamo_backend(
    module: fx.GraphModule, inputs: list[Any], *, options: dict[str, Any] | None = None, **_: Any
) -> Callable[..., Any]:
    """torch.compile(model, backend="memplan", options={"budget": "8GiB"}). The option `report` takes a memplan.Report, which
    is then filled."""
    given = options if options is not None else {}
    if id(given) not in BY_OPTIONS or BY_OPTIONS[id(given)][0] is not given:
        rest = {k: v for k, v in given.items() if k != "report"}
        try:
            BY_OPTIONS[id(given)] = (given, Backend(options_from(rest), given.get("report")))
        except MemplanError as error:
            return raising(error)
    return BY_OPTIONS[id(given)][1](module, inputs)


def register() -> None:
    """Makes backend="memplan" known where the package is imported and not installed."""
    from torch._dynamo.backends import registry

    if "memplan" not in registry.list_backends():
        registry.register_backend(dynamo_backend, name="memplan")
