"""Backward in two parts, for pipeline schedules that fill bubbles.

Such a schedule first computes the gradients of a stage's inputs, which another rank awaits. Later it computes the gradients of
the weights from the same autograd graph (`stage_backward_input` and `stage_backward_weight` of torch.distributed.pipelining).
A planned graph is one autograd node and would run completely both times. memplan instead runs only the requested part, and
stores intermediate results for the second part with the call.

Results that depend on saved tensors only are computed in both parts, because the plan has chosen not to keep them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from torch import fx

from memplan.graph.joint import flat_outputs, reaching
from memplan.torch_internals.autograd import graph_is_kept, will_run

GETITEM = "getitem"
Run = Callable[[list[Any]], Any]


class Split(NamedTuple):
    """A backward graph in two parts.

    `first` computes some of the gradients and returns `kept` after them. `second` computes the other gradients; its arguments
    are those of the whole graph, then `kept`. Both have an output for each gradient of the whole, which is None if not
    computed.
    """

    first: fx.GraphModule
    second: fx.GraphModule
    kept: list[fx.Node]
    sent: list[Any]  # nodes of the gradients that `first` computes


class Asked:
    """The requested gradients of one call of a planned graph."""

    def __init__(self) -> None:
        self.had: tuple[int, ...] = ()  # indices of the gradients that the first part has computed; empty: it has not run
        self.kept: list[Any] = []  # tensors that the first part keeps for the second

    def begin(self, node: Any) -> None:
        """Record the requested gradients, directly before autograd runs the call's node in this thread."""
        has_two = graph_is_kept() or self.had
        NOW.call = self if has_two else None
        NOW.of = tuple(to is not None for to, _ in node.next_functions) if has_two else ()
        NOW.wanted = tuple(k for k, (to, _) in enumerate(node.next_functions) if NOW.of[k] and will_run(to)) if has_two else ()


class Now(threading.local):
    """The call whose backward runs in this thread.

    `of`: for each gradient, whether autograd may request it; `wanted`: the indices of the requested gradients.
    """

    def __init__(self) -> None:
        self.call: Asked | None = None
        self.of: tuple[bool, ...] = ()
        self.wanted: tuple[int, ...] = ()


NOW = Now()


class Halves:
    """Runs a backward graph as a whole, or in two parts for the requested gradients."""

    def __init__(self, graph: fx.GraphModule, compile: Callable[[fx.GraphModule], Run]) -> None:
        self.graph, self.compile = graph, compile
        self.gradients = flat_outputs(graph.graph)
        self.n_gradients = len(self.gradients)
        # for each set of gradients that a first part computes (indices): the functions of both parts
        self.runs: dict[tuple[int, ...], tuple[Run, Run]] = {}

    def run(self, arguments: list[Any]) -> Any:
        """Return the requested gradients.

        Return None if the whole backward has to run: all are requested, or the request is unknown.
        """
        call, wanted, of = NOW.call, NOW.wanted, NOW.of
        NOW.call = None
        n_numbers = self.n_gradients - len(of)  # numbers among the inputs precede the tensors and have no autograd node
        if call is None or n_numbers < 0 or any(g is not None for g in self.gradients[:n_numbers]):
            return None
        wanted = tuple(n_numbers + k for k in wanted)
        if not call.had and 0 < len(wanted) < sum(of):
            call.had = wanted
            first, _ = self._halves(wanted)
            results = list(first(arguments))
            call.kept = results[self.n_gradients :]
            return results[: self.n_gradients]
        if call.had and not set(call.had) & set(wanted) and not graph_is_kept():
            _, second = self._halves(call.had)
            arguments += call.kept
            call.had, call.kept = (), []
            return second(arguments)
        return None

    def _halves(self, wanted: tuple[int, ...]) -> tuple[Run, Run]:
        if wanted not in self.runs:
            made = split(self.graph, wanted)
            self.runs[wanted] = self.compile(made.first), self.compile(made.second)
        return self.runs[wanted]


def split(module: fx.GraphModule, wanted: Collection[int]) -> Split:
    """Split a backward graph. The first part computes the gradients with the indices `wanted`."""
    gradients = flat_outputs(module.graph)
    needed = reaching([gradients[k] for k in wanted])
    late = dependent(module.graph)
    later = [g for k, g in enumerate(gradients) if k not in wanted and isinstance(g, fx.Node)]
    kept: dict[fx.Node, None] = {}
    second: set[fx.Node] = set()
    todo = list(later)
    while todo:
        node = todo.pop()
        if node in kept or node in second:
            continue
        source = node.all_input_nodes[0] if node.op == "call_function" and is_item(node) else node
        if node.op != "placeholder" and source in needed and source in late:
            kept[node] = None
        else:
            second.add(node)
            todo += node.all_input_nodes
    given = [n for n in module.graph.nodes if n.op == "placeholder"]
    first_nodes = needed | reaching(kept)
    keeps = [n for n in module.graph.nodes if n in kept]
    first_outputs = [g if k in wanted else None for k, g in enumerate(gradients)]
    second_outputs = [g if k not in wanted else None for k, g in enumerate(gradients)]
    return Split(
        part(module, given, first_nodes, [*first_outputs, *keeps]),
        part(module, [*given, *keeps], second, second_outputs),
        keeps,
        [gradients[k] for k in wanted],
    )


def is_item(node: fx.Node) -> bool:
    return getattr(node.target, "__name__", "") == GETITEM


def dependent(graph: fx.Graph) -> set[fx.Node]:
    """Return the nodes of a backward graph that depend on the gradients of the outputs."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        if (node.op == "placeholder" and "tangents" in node.name) or not found.isdisjoint(node.all_input_nodes):
            found.add(node)
    return found


def part(module: fx.GraphModule, given: Sequence[fx.Node], nodes: set[fx.Node], outputs: Sequence[Any]) -> fx.GraphModule:
    """Return a graph that consists of these nodes, in their original order."""
    graph = fx.Graph()
    now: dict[fx.Node, fx.Node] = {}
    for node in given:
        now[node] = graph.placeholder(node.name)
        now[node].meta = dict(node.meta)
    for node in module.graph.nodes:
        if node in nodes and node not in now:
            now[node] = graph.node_copy(node, now.__getitem__)
        elif node.op == "output":
            made = graph.output([now[o] if isinstance(o, fx.Node) else None for o in outputs])
            made.meta = dict(node.meta)
    graph.lint()
    return fx.GraphModule(module, graph)
