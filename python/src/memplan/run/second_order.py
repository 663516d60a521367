"""Gradients of gradients (create_graph=True).

A graph compiled by AOTAutograd can be differentiated once. With create_graph=True, memplan runs the graph again eagerly from
its inputs. Backward then returns the eager gradients, which can be differentiated further. The next call runs eagerly from the
start, because a user of second-order gradients needs them in each step. This saves the second run and sums in eager's order.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from memplan.errors import MemplanError
from memplan.graph.capture import tensors_of
from memplan.run.bit_differences import TRANSPOSED
from memplan.run.layouts import transposed
from memplan.torch_internals.autograd import graph_is_kept, is_node_of, uncaptured
from memplan.torch_internals.capture import metadata_now
from memplan.torch_internals.tensors import base_of, tree_iter, versions_of

DEEPEST = 4  # maximum number of views that node_of follows from an output to the node that computed it
# maximum relative difference that memplan accepts between planned and eager gradients
FURTHEST = {torch.float64: 1e-9, torch.float32: 1e-3}
FURTHEST_OF_OTHERS = 0.1
SENTENCE = (
    "memplan: a gradient of a gradient (create_graph=True) needs an eager run of {name}, but {why}; for this loss,"
    " call the original module, without memplan"
)


def ambient() -> list[contextlib.AbstractContextManager[Any]]:
    """Return contexts that restore the present autocast state later."""
    kinds = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    cached = torch.is_autocast_cache_enabled()
    return [torch.autocast(kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind), cached) for kind in kinds]


def generators() -> list[torch.Generator]:
    cuda: Any = torch.cuda
    return [torch.default_generator, *(cuda.default_generators if cuda.is_initialized() else ())]


@contextlib.contextmanager
def drawing_from(states: Sequence[Any]) -> Any:
    """Within the context, random numbers are drawn from these generator states. Afterwards, the present states are restored."""
    now = [(g, g.get_state()) for g in generators()]
    try:
        for generator, state in zip(generators(), states):
            generator.set_state(state.get_state())
        yield
    finally:
        for generator, before in now:
            generator.set_state(before)


def node_of(outputs: Any, metadata: Any) -> Any:
    """Return the autograd node of the compiled graph, or None if no output depends on an input that requires a gradient."""
    level = [t.grad_fn for t in tensors_of(outputs) if t.grad_fn is not None]
    for _ in range(DEEPEST):
        for node in level:
            if is_node_of(node, metadata):
                return node
        level = [before for node in level for before, _ in node.next_functions if before is not None]
    return None


def far_apart(planned: torch.Tensor, eager: torch.Tensor) -> bool:
    distance, size = float((planned - eager).norm()), float(eager.norm())
    return distance > FURTHEST.get(eager.dtype, FURTHEST_OF_OTHERS) * size


class Call:
    """One call of a compiled graph until its backward: inputs, and generator states before the call.

    Parameters and batches are held, as they exist during the whole step anyway. Other inputs are held by weak reference.
    """

    def __init__(self, graph: Differentiable, inputs: Sequence[Any]) -> None:
        self.graph = graph
        kept = [weakref.ref(i) if isinstance(i, torch.Tensor) and i.grad_fn is not None else i for i in inputs]
        self.kept: list[Any] = kept
        self.versions = versions_of(inputs)
        self.drawn_from: list[Any] = []

    def inputs(self) -> list[Any]:
        return [i() if isinstance(i, weakref.ref) else i for i in self.kept]

    def after(self, gradients: tuple[Any, ...], given: tuple[Any, ...]) -> Any:
        """Handle the gradients of the graph. Autograd calls this after the graph's backward, with its outputs and inputs."""
        if torch.is_grad_enabled():
            return self.graph.differentiate(self, gradients, given)
        if not graph_is_kept():
            self.kept = []
        return None


class Differentiable:
    """A compiled graph whose gradients can be differentiated. `module` is the captured graph."""

    def __init__(self, module: fx.GraphModule, compiled: Callable[..., Any], name: str, say: Callable[[str], None]) -> None:
        self.module, self.compiled, self.name, self.say = module, compiled, name, say
        self.metadata: Any = metadata_now()
        if self.metadata is not None and hasattr(self.metadata, "bw_donated_idxs"):
            # PyTorch frees saved tensors listed here during backward, but a later step may retain its graph
            self.metadata.bw_donated_idxs = []
        self.ambient = ambient()
        self.is_expected = False  # whether the gradient of the previous call was differentiated, so that this call runs eagerly

    def __call__(self, *inputs: Any) -> Any:
        if not torch.is_grad_enabled():
            return self.compiled(*inputs)
        if self.is_expected:
            return self.run_eagerly(inputs)
        call = Call(self, inputs)
        call.drawn_from = [g.clone_state() for g in generators()]
        outputs = self.compiled(*inputs)
        if (node := node_of(outputs, self.metadata)) is not None:
            node.register_hook(uncaptured(call.after))
            self.watch_layouts(node, outputs)
        return outputs

    def watch_layouts(self, node: Any, outputs: Any) -> None:
        """Warn if a gradient has another layout than its output, and the bits may depend on that."""
        strides = {t.output_nr: t.stride() for t in tensors_of(outputs) if t.grad_fn is node and t.dim() > 1}
        made_by = self.module.graph.output_node().args[0]
        by = {}
        if isinstance(made_by, (tuple, list)) and isinstance(outputs, (tuple, list)) and len(made_by) == len(outputs):
            pairs = zip(outputs, made_by, strict=True)
            by = {t.output_nr: n for t, n in pairs if isinstance(t, torch.Tensor) and t.grad_fn is node}

        def look(gradients: Any) -> None:
            if any(transposed(gradients[k], s, by.get(k)) for k, s in strides.items() if k < len(gradients)):
                self.say(TRANSPOSED)

        if strides:
            node.register_prehook(uncaptured(look))

    def run_eagerly(self, inputs: Sequence[Any]) -> Any:
        self.is_expected = False
        outputs = self.module(*inputs)

        def notice(_: torch.Tensor) -> None:
            self.is_expected = self.is_expected or torch.is_grad_enabled()

        outcome: Any
        for outcome in tensors_of(outputs):
            if outcome.requires_grad:
                outcome.register_hook(uncaptured(notice))
        return outputs

    def refuse(self, why: str) -> None:
        raise MemplanError(SENTENCE.format(name=self.name, why=why))

    def differentiate(self, call: Call, gradients: tuple[Any, ...], given: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradients of this call as eager computes them, for further differentiation.

        Raises MemplanError on failure.
        """
        self.say(
            f"a gradient of a gradient (create_graph=True) runs {self.name} eagerly. This step runs it in addition, which"
            " adds gradients in another order. Later steps run it eagerly from the start. Eager runs keep all"
            " activations, so they may exceed the budget"
        )
        self.is_expected = True
        inputs = call.inputs()
        if any(i is None and isinstance(k, weakref.ref) for i, k in zip(inputs, call.kept)):
            self.refuse("an input was deleted (keep a reference to it until then)")
        written = [k for k, info in enumerate(self.metadata.input_info) if info.mutates_data]
        if any(isinstance(inputs[k], torch.Tensor) and inputs[k].requires_grad for k in written):
            self.refuse("it writes into an input that requires a gradient")
        now = versions_of(inputs)
        if any(a != b for k, (a, b) in enumerate(zip(call.versions, now)) if k not in written):
            self.refuse("one of its inputs or parameters has been modified since")
        again = [i.clone() if k in written else i for k, i in enumerate(inputs)]
        with contextlib.ExitStack() as stack:
            for context in [*self.ambient, drawing_from(call.drawn_from), torch.enable_grad()]:
                stack.enter_context(context)
            outputs = self.module(*again)
        tensors = [i for i in inputs if isinstance(i, torch.Tensor)]
        if len(tensors) != len(gradients):
            self.refuse("it receives the same input twice")
        wanted = [t for t in tensors if t.requires_grad]
        pairs = [(o, g) for o, g in zip(self.returned(outputs), given) if g is not None and o is not None and o.requires_grad]
        found = torch.autograd.grad([o for o, _ in pairs], wanted, [g for _, g in pairs], create_graph=True, allow_unused=True)
        by_input = {id(t): g for t, g in zip(wanted, found)}
        eager = [by_input.get(id(t)) for t in tensors]
        if any(g is not None and e is not None and far_apart(g.detach(), e.detach()) for g, e in zip(gradients, eager)):
            self.refuse("a second run computes other numbers, because it reads values that have changed since")
        return tuple(eager)

    def returned(self, outputs: Any) -> list[Any]:
        """Return the eager counterparts of the compiled graph's outputs: updated inputs, outputs, and bases of output views."""
        flat = list(tree_iter(outputs))
        bases: dict[int, Any] = {}
        for output, info in zip(flat, self.metadata.output_info):
            if "intermediate" in str(info.output_type) and info.base_idx is not None:
                bases.setdefault(info.base_idx, output if (base := base_of(output)) is None else base)
        behind = [bases.get(k) for k in range(self.metadata.num_intermediate_bases)]
        return [*[None] * self.metadata.num_mutated_inp_runtime_indices, *flat, *behind]
