"""Checks between forward and backward, when the caller may overwrite tensors of backward or use only some outputs.

The plan copies tensors that it may read again (plan/emit.py). For other tensors, memplan compares PyTorch's version counters
before backward; all views of a tensor share one counter. If only some outputs are used, backward runs only the nodes that their
gradients require. Other gradients are absent.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from memplan.errors import OverwrittenError
from memplan.graph.joint import flat_outputs, index_of_input
from memplan.graph.regions import module_name
from memplan.graph.some_outputs import for_some_outputs
from memplan.memory.liveness import keys_of
from memplan.run.second_order import node_of
from memplan.run.split_backward import NOW, Halves
from memplan.torch_internals.autograd import graph_is_kept, leave_out_unused, uncaptured
from memplan.torch_internals.modules import PARTS
from memplan.torch_internals.tensors import version_of

Run = Callable[[list[Any]], Any]


class Read(NamedTuple):
    """A tensor that backward reads, with its version at the end of forward."""

    tensor: torch.Tensor
    version: int
    name: str
    refusal: str


REFUSED_BY_EAGER = "eager PyTorch refuses this too; write into a clone"
COMPUTED_AGAIN = "the plan recomputes from it a tensor that eager PyTorch saves; write after backward, or raise the budget"


class SavedTensors:
    """The checks for one graph. `not_saved`: forward inputs that eager PyTorch does not save."""

    def __init__(self, forward: fx.Graph, backward: fx.Graph, n_forward_outputs: int, not_saved: Iterable[fx.Node]) -> None:
        inputs = [n for n in forward.nodes if n.op == "placeholder"]
        given = [n for n in backward.nodes if n.op == "placeholder" and "tangents" not in n.name]
        again = {n.name for n in given} & {n.name for n in not_saved}
        known = [index_of_input(n) for n in inputs]
        self.inputs = [(k, k if i is None else i) for k, (n, i) in enumerate(zip(inputs, known)) if n.name in again]
        read = keys_of(given) - keys_of(inputs)
        self.n_inputs = len(inputs) if None in known else 0
        self.outputs = [bool(keys_of([o]) & read) for o in flat_outputs(forward)[:n_forward_outputs]]
        self.names: Sequence[str] = ()  # names of the graph's inputs
        self.seen = threading.local()

    def forward(self, run: Run) -> Run:
        """Wrap forward so that it records the versions of inputs that backward reads."""
        if not self.inputs:
            return run

        def call(arguments: list[Any]) -> Any:
            self.seen.inputs = [Read(t := arguments[k], version_of(t), self.names[n], COMPUTED_AGAIN) for k, n in self.inputs]
            return run(arguments)

        return call

    def around(self, compiled: Callable[..., Any], names: Sequence[str], metadata: Any) -> Callable[..., Any]:
        """Wrap the compiled graph so that each call registers its checks.

        `names`: of the inputs; `metadata`: PyTorch's record.
        """
        # PyTorch 2.4 may leave parameters in the graph, and AOTAutograd inserts them before the inputs
        self.names = [*["a parameter"] * (self.n_inputs - len(names)), *names]
        if metadata is None:
            return compiled
        first = int(metadata.num_mutated_inp_runtime_indices)  # index of the first graph output that the caller receives
        read = [k for k, is_read in enumerate(self.outputs[first : first + metadata.num_outputs]) if is_read]

        def call(*inputs: Any) -> Any:
            self.seen.inputs = []
            outputs = compiled(*inputs)
            if (node := node_of(outputs, metadata)) is not None:
                leave_out_unused(node, metadata)
                reads = [*self.seen.inputs, *(read_output(outputs, k) for k in read)]
                if reads:
                    node.register_prehook(uncaptured(checking(reads)))
            self.seen.inputs = []
            return outputs

        return call


def read_output(outputs: Sequence[Any], k: int) -> Read:
    # a detached tensor, because the output itself keeps the autograd graph alive, and the graph keeps this object alive
    alias = outputs[k].detach()
    return Read(alias, version_of(alias), f"output {k}", REFUSED_BY_EAGER)


def checking(reads: list[Read]) -> Callable[[Any], None]:
    """Return a hook that runs before backward.

    The hook runs once unless the graph is retained, and must not keep memory alive.
    """

    def check(_: Any) -> None:
        for tensor, version, name, refusal in reads:
            if version_of(tensor) != version:
                raise OverwrittenError(
                    f"{name} has been modified by an inplace operation since forward, but backward reads it: {refusal}"
                )
        if not graph_is_kept():
            reads.clear()

    return check


def names_of(module: fx.GraphModule) -> list[str]:
    """Return the user's names of the inputs of a captured graph."""
    given = [n for n in module.graph.nodes if n.op == "placeholder"]
    sources: list[Any] = [getattr(n.meta.get("grapharg"), "source", None) for n in given]
    names = [name() if callable(name := getattr(s, "name", None)) else name for s in sources]  # a method in 2.4
    return [readable(name) if isinstance(name, str) else n.name for n, name in zip(given, names)]


def readable(source: str) -> str:
    """Shorten L['self']._modules['0']._parameters['bias'] to 0.bias, and L['x'] to x."""
    if local := re.fullmatch(r"L\['(\w+)'\]", source):
        return local[1]
    if given := re.fullmatch(r"L\['args'\]\[(\d+)\]", source):
        # for a module compiled in place, captures name a positional argument L['args'][i]
        return f"input {given[1]}"
    for part in PARTS:
        source = source.replace(part, "")
    return module_name(source).replace("..", ".")


class Backward:
    """Runs a backward graph. For each set of used outputs, it runs a graph with the required nodes only."""

    def __init__(self, graph: fx.GraphModule, compile: Callable[[fx.GraphModule], Run]) -> None:
        self.graph, self.compile = graph, compile
        given = [n for n in graph.graph.nodes if n.op == "placeholder"]
        self.tangents = [k for k, n in enumerate(given) if "tangents" in n.name]
        self.runs: dict[tuple[int, ...], Run] = {(): compile(graph)}
        self.last = threading.local()
        self.halves: dict[tuple[int, ...], Halves] = {}

    def __call__(self, arguments: list[Any]) -> Any:
        unused = self.last.unused = tuple(k for k in self.tangents if arguments[k] is None)
        if NOW.call is not None:
            if unused not in self.halves:
                graph = for_some_outputs(self.graph, unused) if unused else self.graph
                self.halves[unused] = Halves(graph, self.compile)
            if (gradients := self.halves[unused].run(arguments)) is not None:
                return gradients
        if unused not in self.runs:
            self.runs[unused] = self.compile(for_some_outputs(self.graph, unused))
        return self.runs[unused](arguments)
