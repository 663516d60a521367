"""A captured graph during its lifetime in PyTorch. memplan may plan it again for another budget without a new capture.

AOTAutograd receives two runners and embeds its result in the user's code. Another plan of the same joint graph saves different
tensors. The runners then execute the graphs of the new plan. memplan updates PyTorch's metadata of the graph, which each call
reads: which saved tensors are inputs, and how many saved values are numbers. A call that awaits its backward keeps the old
plan.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx, nn

from memplan.errors import FallbackWarning
from memplan.graph.distributed import NO_OVERLAP
from memplan.graph.joint import flat_outputs, index_of_input
from memplan.graph.sizes import deciding_symbols, hold_sizes, is_last_size, is_number
from memplan.graph.some_outputs import for_some_outputs
from memplan.plan.graph_report import GraphReport
from memplan.plan.holders import line_of, module_of
from memplan.plan.planner import GraphPlanner
from memplan.run.ddp_buckets import DdpBuckets, buckets_of
from memplan.run.execute import compile_graph
from memplan.run.saved_tensors import Backward, SavedTensors
from memplan.torch_internals.capture import compile_id

if TYPE_CHECKING:
    from memplan.run.backend import Backend

Run = Callable[[list[Any]], Any]
NO_FURTHER = (
    "PyTorch captures this code for no further sizes (torch._dynamo.config.recompile_limit, cache_size_limit in old versions)"
)
# key in the meta of tensors that an autograd.Function saves without a version check
UNCHECKED = "saved_tensor_with_no_vc_check"


class Runner:
    """A function that AOTAutograd calls for forward or backward. `run` can be replaced by the function of another plan."""

    def __init__(self) -> None:
        self.run: Run | None = None

    def __call__(self, arguments: list[Any]) -> Any:
        assert self.run is not None
        return self.run(arguments)


class Captured:
    """One graph. `run` is the compiled function with memplan's wrappers.

    PyTorch keeps this object alive. The backend owns plans and reports, so that PyTorch does not keep them alive.
    """

    def __init__(self, backend: Backend, module: fx.GraphModule, name: str, frame: Any) -> None:
        self.backend = weakref.ref(backend)
        self.module, self.name, self.frame = module, name, frame
        self.generation = backend.generation  # number of the options (backend.generation) for which the graph is planned
        self.refusal = ""  # the reason why the graph cannot be planned; "": it can
        self.n_forward_outputs = 0
        self.inputs: list[bool] = []  # for each input of the graph: whether it is a parameter or a buffer of the model
        self.graph: weakref.ref[GraphReport] | None = None  # the report of the graph's plan
        self.error: Exception | None = None  # an error that each call raises, because no plan could be made
        self.saved_tensors: SavedTensors | None = None
        self.ddp_buckets: DdpBuckets | None = None
        self.cast_inside: list[str] = []  # backward operators that autocast affects in eager PyTorch
        self.others: list[str] = []  # operations that captures compute with other rounding than eager
        self.cut_at = ""  # position of the graph break after this graph
        self.forward, self.backward = Runner(), Runner()
        self.compiled: Callable[..., Any] | None = None  # the callable that AOTAutograd has compiled
        self.metadata: Any = None
        self.run: Callable[..., Any] | None = None

    @property
    def planner(self) -> GraphPlanner | None:
        """The planner, or None if the graph cannot be planned or needs no plan."""
        backend = self.backend()
        return backend.planners.get(self) if backend is not None else None

    def watch_saved(self, forward: fx.Graph, backward: fx.Graph, n_forward_outputs: int) -> None:
        """Set `saved_tensors` to observe the tensors that these graphs save."""
        self.saved_tensors = SavedTensors(forward, backward, n_forward_outputs, self.not_saved())

    def not_saved(self) -> list[fx.Node]:
        """Return the inputs that eager PyTorch would not save, as far as known."""
        return self.planner.capture.not_saved_by_eager() if self.planner is not None else []

    def static_indices(
        self, joint: fx.Graph, static_lifetime_input_indices: Sequence[int] | None = None, **_: Any
    ) -> Sequence[int]:
        """Return the indices of the joint graph's inputs that are parameters and buffers of the model.

        PyTorch reports these indices. PyTorch 2.4 does not report them and may insert parameters first.
        """
        primals = [n for n in joint.nodes if n.op == "placeholder" and "tangents" not in n.name]
        n_primals = len(primals)
        if static_lifetime_input_indices:
            given = [index_of_input(n) for n in primals]
            is_known = None not in given
            return [k for k, i in enumerate(given) if (i if is_known else k) in static_lifetime_input_indices]
        n_before = max(0, n_primals - len(self.inputs))
        lasts = [True] * n_before + self.inputs
        return [k for k, is_lasting in enumerate(lasts[:n_primals]) if is_lasting]

    def hand_over(self, backward: fx.Graph, caps: Sequence[int]) -> str:
        """Arrange that DDP receives gradients during backward, if possible. Return a note for the report, or ""."""
        self.ddp_buckets = buckets_of(backward, len(self.inputs), caps)
        return NO_OVERLAP if self.ddp_buckets is None else self.ddp_buckets.note()

    def run_of_backward(self, run_of: Callable[[fx.GraphModule], Run]) -> Callable[[fx.GraphModule], Run]:
        """Return the function that runs a backward graph, whole or in parts."""
        return run_of if self.ddp_buckets is None else self.ddp_buckets.run_of

    def unused_gradients(self) -> tuple[int, ...]:
        """Return the indices of the arguments that were absent in this thread's last backward."""
        run = self.backward.run
        return getattr(run.last, "unused", ()) if isinstance(run, Backward) else ()

    def maker_of(self, k: int) -> str:
        """Return the module and the line of user code that computed an output, such as "layers.2 (model.py:10)"."""
        outputs = self.planner.capture.forward_outputs if self.planner is not None else []
        node = outputs[k] if k < len(outputs) and isinstance(outputs[k], fx.Node) else None
        module, line = module_of(node), line_of(node)
        named = f"module {module}" if module else self.name
        return f"{named} ({line})" if line is not None else named

    def count_again(self, unused: tuple[int, ...], gone: tuple[int, ...]) -> None:
        """Count the peak of a step without absent gradients and without outputs released before backward."""
        run, planner, graph = self.backward.run, self.planner, self.graph() if self.graph is not None else None
        if isinstance(run, Backward) and planner is not None and graph is not None:
            backward = for_some_outputs(run.graph, unused) if unused else run.graph
            first = int(self.metadata.num_mutated_inp_runtime_indices)
            graph.take_seen(planner.seen_bytes(graph, backward.graph, unused, [first + k for k in gone]))

    def __call__(self, *inputs: Any) -> Any:
        backend = self.backend()
        if backend is not None and backend.generation != self.generation:
            backend.plan_again(self)
        assert self.run is not None
        return self.run(*inputs)

    def tell_saved(self, forward: fx.Graph) -> None:
        """Update PyTorch's metadata for a new plan, whose forward saves other tensors than the forward at compilation."""
        saved = [o for o in flat_outputs(forward)[self.n_forward_outputs :] if isinstance(o, fx.Node)]
        tensors = [o for o in saved if isinstance(o.meta.get("val"), torch.Tensor)]
        self.metadata.num_symints_saved_for_bw = sum(is_number(o.meta.get("val")) for o in saved)
        known = vars(self.metadata)
        if "saved_tensor_is_graph_input" in known:
            self.metadata.saved_tensor_is_graph_input = [o.op == "placeholder" for o in tensors]
        if known.get("num_tensors_saved_with_no_vc_check"):
            self.metadata.num_tensors_saved_with_no_vc_check = sum(bool(o.meta.get(UNCHECKED)) for o in tensors)
        if known.get("dynamic_saved_tensors_idxs"):
            # the indices are valid only for saved tensors of a capture with symbolic sizes
            self.metadata.dynamic_saved_tensors_idxs = {}


def of_model(inputs: Sequence[Any], model: Any) -> list[bool]:
    """Return for each input whether it is a parameter or a buffer of the model."""
    known = {id(t) for t in model.buffers()} if isinstance(model, nn.Module) else set()
    return [isinstance(i, nn.Parameter) or id(i) in known for i in inputs]


def frame_of_graph() -> Any:
    """Return an identifier that is equal for all graphs of one piece of user code, at any sizes."""
    return getattr(compile_id(), "frame_id", None)


def cut_of(module: fx.GraphModule) -> str:
    """Return the position of the graph break after this graph, or ""."""
    reason = getattr(module, "compile_subgraph_reason", None)
    stack = getattr(reason, "user_stack", None) if getattr(reason, "graph_break", False) else None
    return f"{stack[-1].filename}:{stack[-1].lineno}" if stack else ""


def graph_name() -> str:
    current = compile_id()
    return f"graph {current}" if current is not None else "graph"


def hold(module: fx.GraphModule, inputs: list[Any]) -> bool:
    """Fix the input sizes while PyTorch captures more sizes. Return whether the graph serves all further sizes."""
    if not is_last_size():
        hold_sizes(module, inputs)
        return False
    if deciding_symbols(module):
        return True
    sentence = (
        f"memplan plans {graph_name()}, and {NO_FURTHER}: further sizes run without a plan. If the code is"
        " compiled by name with fullgraph=True, PyTorch raises FailOnRecompileLimitHit; memplan.compile"
        " runs it eagerly instead"
    )
    warnings.warn(sentence, FallbackWarning, stacklevel=3)
    return False


def forward_run(captured: Captured | None, graph: fx.GraphModule) -> Run:
    run = compile_graph(graph)
    return captured.saved_tensors.forward(run) if captured is not None and captured.saved_tensors is not None else run
