"""The backend of torch.compile: AOTAutograd with memplan's partition of the joint graph and memplan's executor."""

from __future__ import annotations

import functools
import time
import warnings
import weakref
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

import torch
from torch import fx

from memplan.budget import gradient_bytes, model_bytes, only_bytes
from memplan.costs.measure import Cost, Costs, is_away, not_measured
from memplan.errors import BudgetError, FallbackWarning, MemplanError, NotPlannable
from memplan.graph.capture import Capture, tensors_of
from memplan.graph.casts import backward_outside, cached_casts, cast_inside, inside_sentence, noticing, regions
from memplan.graph.collectives import groups_in, need_to_plan, put_waits_at_once, take_waits_out
from memplan.graph.distributed import bucket_caps, refuse_cut
from memplan.graph.earlier_gradients import hold_earlier
from memplan.graph.joint import halves, order_formulas
from memplan.graph.named_device import NO_REGION, has_region, put_away
from memplan.graph.native import keep_for_backward, native_kernels, of_the_capture, sorts
from memplan.graph.operators import drop_unread_arguments
from memplan.graph.overwriting import write_straight
from memplan.graph.row_chunks import in_chunks
from memplan.graph.row_regions import Chunks
from memplan.graph.shards import put_in_place, shards_in
from memplan.memory.host import pool_for
from memplan.plan.chunk_choice import Choice, again_with
from memplan.plan.options import Options
from memplan.plan.planner import GraphPlanner
from memplan.ranks.rank_group import ALONE, RankGroup, agreed, agreed_again
from memplan.report import Fallback, Report
from memplan.run.blocks import compiled_by_blocks
from memplan.run.budget_feedback import BudgetFeedback
from memplan.run.call_guard import heard
from memplan.run.captured_graph import NO_FURTHER, Captured, cut_of, forward_run, frame_of_graph, graph_name, hold, of_model
from memplan.run.compiled_callables import NAME, raising, weakly
from memplan.run.execute import compile_graph
from memplan.run.ledger import MeasuredCall
from memplan.run.output_use import Returned
from memplan.run.overlap import as_at_first, writes_into_inputs
from memplan.run.saved_tensors import Backward, names_of
from memplan.run.second_order import Differentiable
from memplan.run.verify import Verified
from memplan.torch_internals.capture import boxed, default_partition, metadata_now, need_to_cut
from memplan.torch_internals.modules import active_replica
from memplan.torch_internals.sharding import here

COSTS = Costs()
WRITTEN_ONCE = (
    "buffers that change under torch.utils.checkpoint (running statistics) are written once per step. Eager PyTorch"
    " writes them again when it recomputes, so its buffers differ"
)
NOTHING_RUNS = (
    "nothing runs on the meta device, and no device is named (device='h100'). memplan chooses recomputations by the bytes that"
    " operators move, and predicts no seconds. Workspaces are not in the plan (count them with reserve=)"
)


class Estimated(Exception):
    """Raised to end a compilation whose only purpose is a report."""


class Backend:
    """The backend of torch.compile. `is_cut`: graph breaks are permitted; each part then counts the gradients of all parts."""

    can_replan = True  # whether a captured graph can be planned again without a new capture
    plans_collectives = True

    def __init__(self, options: Options, report: Report | None = None, is_cut: bool = False, only_report: bool = False) -> None:
        self.options = options
        self.report = report if report is not None else Report()
        self.is_cut, self.only_report = is_cut, only_report
        self.model: Callable[[], torch.nn.Module | None] = lambda: None
        # number of the current options; graphs planned for earlier options are planned again at their next call
        self.generation = 0
        # for each frame of user code: the bytes that its last graph saves for backward, and those in host memory
        self.saved: dict[Any, tuple[int, int]] = {}
        self.pool = pool_for(options.offload)
        self.said: set[str] = set()
        self.current: Captured | None = None  # the graph that is being compiled; None: no compilation
        self.repeats: Any = None  # repeated blocks of the model that the capture omits
        self.estimated: GraphPlanner | None = None  # the planner of a compilation for a report only
        self.is_fallback_graph = False  # whether the current graph serves all further input sizes
        self.regions: dict[str, torch.dtype] = {}  # types of the autocast regions around the model's call, by kind of device
        self.accumulated_bytes = 0  # bytes of gradients of earlier batches, which the options request to count
        self.beside_bytes = 0  # observed bytes of memory besides a call that the options do not name
        self.feedback = BudgetFeedback()  # observations of the memory besides the calls; for a pipeline, the object is a Stage
        self.rank_group: RankGroup = ALONE  # the ranks that plan together
        self.planners: weakref.WeakKeyDictionary[Captured, GraphPlanner] = weakref.WeakKeyDictionary()
        self.__name__ = NAME

    def fresh(self) -> Backend:
        """Return a backend with the same options and no plans, for a copy of the model."""
        made = type(self)(self.options, None, self.is_cut, self.only_report)
        made.accumulated_bytes = self.accumulated_bytes
        return made

    def serve(self, model: torch.nn.Module) -> None:
        """Store a weak reference to the compiled model. Plans count all its parameters, whether or not a graph reads them."""
        self.model = weakref.ref(model)

    def take_options(self, other: Backend) -> None:
        """Adopt the options of a new backend that has captured nothing.

        Captured graphs are planned again at their next call.
        """
        self.options, self.report = other.options, other.report
        self.is_cut = other.is_cut
        self.accumulated_bytes = other.accumulated_bytes
        other.feedback.results = self.feedback.results
        self.said, self.feedback = set(), other.feedback
        self.saved.clear()
        self.pool = pool_for(self.options.offload)
        self.generation += 1

    def __call__(self, module: fx.GraphModule, inputs: list[Any], **_: Any) -> Callable[..., Any]:
        self.options.line.say(f"capturing {graph_name()}")
        captured = self.begin(module, inputs)
        # captures of DTensors cannot be planned again, because PyTorch has recorded the sizes of their saved tensors
        self.can_replan &= all(i is here(i) for i in inputs)
        # PyTorch keeps the compilers defined below, so they refer to this backend weakly
        forward, backward, current = captured.forward, captured.backward, weakref.ref(captured)

        def forward_compiler(graph: fx.GraphModule, _: Any) -> Any:
            forward.run = forward_run(current(), graph)
            return boxed(forward)

        def backward_compiler(graph: fx.GraphModule, _: Any) -> Any:
            if backward.run is None:
                # without this check, PyTorch could compile backward at its first call and replace a newer plan
                backward.run = Backward(graph, compile_graph if (c := current()) is None else c.run_of_backward(compile_graph))
            return boxed(backward)

        compilers: dict[str, Any] = {"fw_compiler": forward_compiler, "bw_compiler": backward_compiler}
        compilers |= {
            "inference_compiler": lambda graph, _: boxed(compile_graph(graph)),
            "partition_fn": weakly(self.partition),
        }
        self.regions = regions()
        self.is_fallback_graph = torch.is_grad_enabled() and hold(module, inputs)
        try:
            self.tell_of_device(module.graph, inputs)
            refuse_cut()
            with native_kernels(*self.options.target), cached_casts(), backward_outside():
                captured.compiled = compiled_by_blocks(captured, inputs, compilers)
        except MemplanError as error:
            return raising(error)
        finally:
            self.current = None
            if self.options.meant is not None:
                self.options.meant.is_captured = False  # the code after a graph break is captured separately
            self.options.line.end()
        captured.metadata = metadata_now()
        captured.run = self.around(captured)
        called: Callable[..., Any] = captured
        if torch.is_grad_enabled():
            called = Differentiable(module, heard(module, captured), captured.name, weakly(self.say))
        return as_at_first(called) if writes_into_inputs() else called

    def begin(self, module: fx.GraphModule, inputs: Sequence[Any]) -> Captured:
        """Start the compilation of a captured graph, and return the object that keeps its state."""
        self.current = Captured(self, module, graph_name(), frame_of_graph())
        self.current.inputs = of_model(inputs, self.model())
        self.current.others, self.current.cut_at = of_the_capture(module.graph), cut_of(module)
        return self.current

    def around(self, captured: Captured) -> Callable[..., Any]:
        """Wrap the compiled graph in the functions that its present plan requires, and return the result."""
        if captured.error is not None:
            return raising(captured.error)
        assert captured.compiled is not None
        compiled, graph = captured.compiled, captured.graph() if captured.graph is not None else None
        if captured.ddp_buckets is not None:
            compiled = captured.ddp_buckets.around(compiled, captured.metadata)
        if self.options.verify and graph is not None:
            compiled = Verified(captured.module, compiled, graph)
        if captured.cast_inside:
            compiled = noticing(compiled, functools.partial(weakly(self.say), inside_sentence(captured.cast_inside)))
        if captured.saved_tensors is not None:
            compiled = captured.saved_tensors.around(compiled, names_of(captured.module), captured.metadata)
        if graph is not None:
            known = self.accumulated_bytes, self.feedback, bool(self.rank_group), captured.metadata
            compiled = MeasuredCall(compiled, graph, *known, Returned(captured, graph.most_bytes))
        return compiled

    def plan_again(self, captured: Captured) -> None:
        """Plan a captured graph with the present options. Raises BudgetError, here and at later calls."""
        captured.generation, captured.error = self.generation, None
        if captured.refusal:
            self.fall_back(captured)
        if captured.planner is None:
            return
        start = time.perf_counter()
        with torch.no_grad(), self.rank_group.planning(captured.name, self.options.wait_seconds()):
            again = functools.partial(self.planner_again, captured.frame)
            self.planners[captured] = again_with(captured.planner, self.options.wanted_chunks, again)
            forward, backward = self.graphs_of_plan(captured, start)
            captured.watch_saved(forward.graph, backward.graph, captured.n_forward_outputs)
            captured.tell_saved(forward.graph)
        captured.forward.run = forward_run(captured, forward)
        captured.backward.run = Backward(backward, captured.run_of_backward(compile_graph))
        captured.run = self.around(captured)
        if captured.error is not None:
            raise captured.error

    def say(self, sentence: str) -> None:
        """Warn the user with this sentence. A sentence is given once per backend."""
        if sentence not in self.said:
            self.said.add(sentence)
            warnings.warn(f"memplan: {sentence}", FallbackWarning, stacklevel=4)

    def captures_again(self) -> bool:
        """Begin new plans if the observed memory besides the model's calls has changed.

        Return whether a new capture is needed.
        """
        options = self.feedback.changed(self.options, self.report, bool(self.rank_group))
        if options is not None:
            self.options = options
            self.count(0)
        return options is not None and not self.can_replan

    def count(self, n_bytes: int) -> None:
        """Add n_bytes to the memory that plans count besides the calls.

        Existing graphs are planned again at their next call.
        """
        self.beside_bytes += n_bytes
        self.report.graphs.clear()
        self.saved.clear()
        self.generation += 1

    def partition(
        self, joint: fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, **known: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Partition the joint graph as planned. If it cannot be planned, warn and partition it as PyTorch does."""
        if self.options.meant is not None:
            put_away(joint.graph, self.options.meant)
        for change in (drop_unread_arguments, write_straight, order_formulas, keep_for_backward, put_in_place, take_waits_out):
            change(joint.graph)
        joint.recompile()
        captured = self.current
        assert captured is not None
        if self.regions:
            tangents = [n for n in joint.graph.nodes if n.op == "placeholder" and "tangents" in n.name]
            captured.cast_inside = cast_inside(halves(joint.graph, tangents)[1], self.regions)
        try:
            need_to_plan(joint.graph, self.plans_collectives)
            self.rank_group = self.rank_group.joined(groups_in(joint.graph))
            with self.rank_group.planning(captured.name, self.options.wait_seconds()):
                need_to_cut()
                if self.is_fallback_graph:
                    raise NotPlannable(f"it serves all sizes without a plan, because {NO_FURTHER}")
                static = captured.static_indices(joint.graph, **known)
                if self.repeats is not None:
                    static = self.repeats.unroll(joint, num_fwd_outputs, static)
                graphs = self.plan(joint, captured.name, num_fwd_outputs, static)
        except NotPlannable as reason:
            captured.refusal = str(reason)
            self.fall_back(captured)
            put_waits_at_once(joint.graph)
            graphs = default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **known)
        forward, backward = (g.graph for g in graphs)
        captured.watch_saved(forward, backward, num_fwd_outputs)
        return graphs

    def fall_back(self, captured: Captured) -> None:
        self.report.fallbacks.append(Fallback(captured.name, captured.refusal))
        warnings.warn(f"memplan does not plan {captured.name}: {captured.refusal}", FallbackWarning, stacklevel=3)

    def plan(
        self, joint: fx.GraphModule, name: str, n_forward_outputs: int, static_indices: Iterable[int]
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        start = time.perf_counter()
        captured = self.current
        assert captured is not None
        captured.n_forward_outputs = n_forward_outputs
        known = name, captured.frame, n_forward_outputs, list(static_indices)
        build = functools.partial(weakly(self.planner_with), joint, *known)
        choice = Choice(self.options.wanted_chunks, build, "auto" if self.is_cut else "off")
        self.planners[captured] = choice.first()
        for sentence in (*not_measured(joint.graph.nodes), *COSTS.not_run(joint.graph.nodes), *sorts(captured.module.graph)):
            self.say(sentence)
        if captured.planner is not None and captured.planner.capture.writes_under_checkpoint:
            self.say(WRITTEN_ONCE)
        if self.options.device is None and is_away(joint.graph.nodes):
            if has_region(captured.module.graph):
                raise MemplanError(NO_REGION)
            self.say(NOTHING_RUNS)
        return self.graphs_of_plan(captured, start)

    def tell_of_device(self, graph: fx.Graph, inputs: Iterable[Any]) -> None:
        """Warn about autocast regions without effect on the named device. Raises MemplanError for inputs on a real device."""
        meant = self.options.meant
        if meant is None:
            return
        if not any(t.device.type == "meta" for t in map(here, tensors_of(list(inputs)))):
            raise MemplanError(
                f"device={meant.name!r} needs a model on the meta device; for a model on a real device, memplan measures"
                " the operators"
            )
        for sentence in meant.notes(graph):
            self.say(sentence)

    def graphs_of_plan(self, captured: Captured, start: float) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Return forward and backward graphs of a plan within the budget, and report the plan.

        Without such a plan, return the smallest plan's graphs. These run only after a new plan for another budget.
        """
        planner = captured.planner
        assert planner is not None
        captured.graph = captured.ddp_buckets = None
        try:
            planner, emitted, budget = self.feedback.plan(planner, self.options)
        except BudgetError as error:
            if self.only_report or not self.can_replan:
                raise
            captured.error = error
            smallest = planner.smallest(self.options)
            return smallest.forward, smallest.backward
        self.planners[captured] = planner
        graph = planner.report(emitted, budget, time.perf_counter() - start, self.options)
        captured.graph = weakref.ref(graph)
        self.saved[captured.frame] = emitted.saved_bytes, emitted.host_bytes
        self.report.graphs.append(graph)
        graph.frame, graph.cut_at = captured.frame, captured.cut_at
        graph.others_bytes, graph.gradients_elsewhere_bytes = self.others_bytes, self.gradients_elsewhere_bytes
        self.feedback.report_alone(graph, planner.capture)
        if (replica := active_replica()) is not None:
            graph.notes.append(captured.hand_over(emitted.backward.graph, bucket_caps(replica) if self.can_replan else []))
        if captured.others and self.options.meant is None:
            graph.notes.append(f"the plan has the capture's bits, not eager's: {', '.join(captured.others)}")
        if self.only_report:
            self.estimated = planner
            raise Estimated
        return emitted.forward, emitted.backward

    def planner_with(
        self, joint: fx.GraphModule, name: str, frame: Any, n_forward_outputs: int, static_indices: list[int], chunks: Chunks
    ) -> GraphPlanner:
        """Return the planner of a joint graph whose regions are computed in chunks. Raises Refused."""
        joint = in_chunks(joint, chunks, bool(self.rank_group))
        return self.with_host(self.planner_for(joint, name, frame, n_forward_outputs, static_indices), frame)

    def planner_again(self, frame: Any, planner: GraphPlanner) -> GraphPlanner:
        """Return a planner of the same graph for the present options."""
        capture = planner.capture
        hold_earlier(capture)
        outside = self.outside_bytes(capture, frame)
        self.feedback.leave_room(capture, frame, self.options.budget, outside)
        outside = agreed_again(self.rank_group, capture, self.options.same_everywhere(), outside)
        return self.with_host(planner.again(outside), frame)

    def with_host(self, planner: GraphPlanner, frame: Any) -> GraphPlanner:
        """Permit copies to the host memory that other graphs do not use. Cut no graphs for a report without communication."""
        graph = planner.capture.joint.graph
        planner.has_graphs = not self.only_report or bool(groups_in(graph) or shards_in(graph) or active_replica())
        if self.pool is not None:
            planner.offload(self.pool, sum(n for of, (_, n) in self.saved.items() if of != frame), self.options)
        return planner

    def planner_for(
        self, joint: fx.GraphModule, name: str, frame: Any, n_forward_outputs: int, static_indices: Iterable[int]
    ) -> GraphPlanner:
        capture = Capture(joint, n_forward_outputs, sorted({*static_indices, *shards_in(joint.graph)}))
        hold_earlier(capture)
        outside = self.outside_bytes(capture, frame)
        self.feedback.leave_room(capture, frame, self.options.budget, outside)
        costs, outside = agreed(self.rank_group, capture, self.options.same_everywhere(), self.costs_of(capture), outside)
        return GraphPlanner(capture, costs, outside, name, self.rank_group)

    def costs_of(self, capture: Capture, beside: Container[fx.Node] = ()) -> dict[fx.Node, Cost]:
        """Return the measured costs of all operators of a capture, except the nodes in `beside`."""
        sources = [o.source for o in capture.operations if o.source is not None and o.source not in beside]
        device = self.options.device
        if device is None or not is_away(sources):
            return COSTS.measure(sources, self.options.kept, self.options.line.measured)
        return {node: device.cost(node) for node in sources}

    def outside_bytes(self, capture: Capture, frame: Any) -> int:
        """Return the bytes besides this graph: reserve, unread parameters and buffers, memory of the model's other graphs."""
        known = only_bytes(self.options.reserve) + self.beside_bytes - sum(capture.earlier.values())
        here = {k: sum(s.n_bytes for s in capture.storages if s.kind == k) for k in ("parameter", "gradient")}
        before = sum(n for of, (n, _) in self.saved.items() if of != frame)
        self.others_bytes = before + self.feedback.n_bytes
        model = self.model()
        gradients = gradient_bytes(model) if self.is_cut else 0
        self.gradients_elsewhere_bytes = max(0, gradients - here["gradient"])
        parameters = max(0, model_bytes(model) - here["parameter"])
        buckets = gradient_bytes(active_replica())  # DDP's buckets: copies of all gradients for communication
        return known + self.others_bytes + self.gradients_elsewhere_bytes + parameters + buckets
