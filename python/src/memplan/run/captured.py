"""A graph that PyTorch captured, for as long as it keeps it: planned for one budget, and for another without a capture.

AOTAutograd gets two runners and puts what it makes of them into the user's code. Another plan of the same joint graph saves
other tensors between forward and backward: the runners then run its graphs, and PyTorch's record of the graph, which it reads
in each call, says which of them are inputs and how many are numbers. A call that waits for its backward needs the old ones.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx, nn

from memplan.graph.distributed import NO_OVERLAP
from memplan.graph.joint import flat_outputs, index_of_input
from memplan.graph.sizes import is_number
from memplan.graph.some_outputs import for_some_outputs
from memplan.plan.graph_report import GraphReport
from memplan.plan.planner import GraphPlanner
from memplan.run.between import Backward, Between
from memplan.run.handing import Handing, handing
from memplan.torch_internals.capture import compile_id

if TYPE_CHECKING:
    from memplan.run.backend import Backend

Run = Callable[[list[Any]], Any]
UNCHECKED = "saved_tensor_with_no_vc_check"  # in the meta of what an autograd.Function keeps by itself


class Runner:
    """What AOTAutograd calls for one half of the graph."""

    def __init__(self) -> None:
        self.run: Run | None = None

    def __call__(self, arguments: list[Any]) -> Any:
        assert self.run is not None
        return self.run(arguments)


class Captured:
    """One graph. `run`: what calls go through, within what AOTAutograd has made. PyTorch keeps this, and with it neither plans
    nor reports, which are the backend's."""

    def __init__(self, backend: Backend, module: fx.GraphModule, name: str, frame: Any) -> None:
        self.backend = weakref.ref(backend)
        self.module, self.name, self.frame = module, name, frame
        self.generation = backend.generation  # of the backend's options, for which it is planned
        self.refusal = ""  # why it cannot
        self.n_forward_outputs = 0
        self.inputs: list[bool] = []  # per input whether it is a parameter or buffer of the model
        self.graph: weakref.ref[GraphReport] | None = None  # of its plan
        self.error: Exception | None = None  # instead of a plan
        self.between: Between | None = None
        self.handing: Handing | None = None
        self.cast_inside: list[str] = []  # operators of its backward that autocast reaches in eager
        self.others: list[str] = []  # what the capture computes otherwise than eager
        self.cut_at = ""  # where PyTorch has cut the code behind it
        self.forward, self.backward = Runner(), Runner()
        self.compiled: Callable[..., Any] | None = None  # by AOTAutograd
        self.metadata: Any = None
        self.run: Callable[..., Any] | None = None

    @property
    def planner(self) -> GraphPlanner | None:
        """None: there is nothing to plan, or it cannot be planned."""
        backend = self.backend()
        return backend.planners.get(self) if backend is not None else None

    def not_saved(self) -> list[fx.Node]:
        """Inputs that eager PyTorch would not save, as far as that is known."""
        return self.planner.capture.not_saved_by_eager() if self.planner is not None else []

    def static_indices(
        self, joint: fx.Graph, static_lifetime_input_indices: Sequence[int] | None = None, **_: Any
    ) -> Sequence[int]:
        """Which inputs of the joint graph are the model's parameters and buffers. PyTorch says it, but Inductor says none, and
        2.4 nothing, which may put parameters before all inputs that it was given."""
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
        """Gradients of this backward, while it goes on, where that can be. Returns what a report says of it."""
        self.handing = handing(backward, len(self.inputs), caps)
        return NO_OVERLAP if self.handing is None else self.handing.note()

    def run_of_backward(self, run_of: Callable[[fx.GraphModule], Run]) -> Callable[[fx.GraphModule], Run]:
        """What makes a backward graph run: this, or the first of its parts."""
        return run_of if self.handing is None else self.handing.run_of

    def unused_gradients(self) -> tuple[int, ...]:
        """Which of the arguments of the backward that has just run in this thread were not there."""
        run = self.backward.run
        return getattr(run.last, "unused", ()) if isinstance(run, Backward) else ()

    def count_again(self, unused: tuple[int, ...], gone: tuple[int, ...]) -> None:
        """Counts a step without the gradients that were not there, and without the outputs that were let go before backward."""
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
        """Has PyTorch know what this forward, which is not the one that it was given, saves."""
        saved = [o for o in flat_outputs(forward)[self.n_forward_outputs :] if isinstance(o, fx.Node)]
        tensors = [o for o in saved if isinstance(o.meta.get("val"), torch.Tensor)]
        self.metadata.num_symints_saved_for_bw = sum(is_number(o.meta.get("val")) for o in saved)
        known = vars(self.metadata)
        if "saved_tensor_is_graph_input" in known:
            self.metadata.saved_tensor_is_graph_input = [o.op == "placeholder" for o in tensors]
        if known.get("num_tensors_saved_with_no_vc_check"):
            self.metadata.num_tensors_saved_with_no_vc_check = sum(bool(o.meta.get(UNCHECKED)) for o in tensors)
        if known.get("dynamic_saved_tensors_idxs"):  # for captures of what is saved, at other sizes
            self.metadata.dynamic_saved_tensors_idxs = {}


def of_model(inputs: Sequence[Any], model: Any) -> list[bool]:
    """Per input whether it is a parameter, or one of the model's buffers."""
    known = {id(t) for t in model.buffers()} if isinstance(model, nn.Module) else set()
    return [isinstance(i, nn.Parameter) or id(i) in known for i in inputs]


def frame_of_graph() -> Any:
    """The same for all graphs of one piece of the user's code, at whatever sizes."""
    return getattr(compile_id(), "frame_id", None)


def cut_of(module: fx.GraphModule) -> str:
    """Where PyTorch has cut the user's code behind this graph, "" where it has not."""
    reason = getattr(module, "compile_subgraph_reason", None)
    stack = getattr(reason, "user_stack", None) if getattr(reason, "graph_break", False) else None
    return f"{stack[-1].filename}:{stack[-1].lineno}" if stack else ""


def graph_name() -> str:
    current = compile_id()
    return f"graph {current}" if current is not None else "graph"
