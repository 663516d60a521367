"""Forward and backward of an emitted plan as lists of lines, to count the plan's memory before PyTorch cuts its graphs.

A search may need several rounds, and only the last plan runs. The lines are the nodes that `torch_internals.capture.cut` keeps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from torch import fx

from memplan.memory.liveness import EARLIER, WORKSPACE, Line
from memplan.plan.emit import Emission, cut_of
from memplan.plan.emitted import Emitted
from memplan.plan.overlapped_collectives import Time
from memplan.torch_internals.capture import is_meant


def drafted(emission: Emission, count: Callable[..., Emitted], has_graphs: bool) -> Emitted:
    """Return the draft of an emission, with the memory that `count` computes.

    If `has_graphs` is true, PyTorch cuts the joint graph in two when the plan is finished. A report needs no graphs.
    """
    saved, host_bytes = emission.crossing(), emission.host_bytes
    made = count(*halves_of(emission, saved), host_bytes, Time())
    if has_graphs:
        made.finish = functools.cache(lambda: count(*cut_of(emission, saved), host_bytes, Time()))
    return made


class Half:
    """The lines of forward or backward. Has the attributes of an fx.GraphModule that the count of memory reads."""

    def __init__(self) -> None:
        self.nodes: list[Line] = []
        self.line_of: dict[fx.Node, Line] = {}

    @property
    def graph(self) -> Half:
        return self

    def give(self, nodes: Iterable[fx.Node]) -> None:
        for node in nodes:
            self._add(node, Line(node.name, "placeholder", node.name, (), [], node.meta))

    def run(self, nodes: Iterable[fx.Node]) -> None:
        for node in nodes:
            args = tuple(self.line_of[a] if isinstance(a, fx.Node) else a for a in node.args)
            self._add(node, Line(node.name, node.op, node.target, args, self._lines(node.all_input_nodes), node.meta))

    def end(self, outputs: Iterable[Any], meta: dict[str, Any]) -> None:
        lines = self._lines(dict.fromkeys(o for o in outputs if isinstance(o, fx.Node)))
        self.nodes.append(Line("output", "output", "output", (), lines, meta))

    def _add(self, node: fx.Node, line: Line) -> None:
        self.nodes.append(line)
        self.line_of[node] = line

    def _lines(self, nodes: Iterable[fx.Node]) -> list[Line]:
        return [self.line_of[n] for n in nodes]


def needed_for(
    outputs: Iterable[Any], nodes: list[fx.Node], stays: Callable[[fx.Node], bool] = lambda node: False
) -> set[fx.Node]:
    """Return the outputs and the nodes that these depend on. `nodes` of one half are followed; others are its inputs."""
    needed = {o for o in outputs if isinstance(o, fx.Node)}
    for node in reversed(nodes):
        if node in needed or stays(node):
            needed.update((node, *node.all_input_nodes))
    return needed


def halves_of(emission: Emission, saved: list[fx.Node]) -> tuple[Half, Half]:
    """Return forward and backward of a plan. `saved`: the values that forward keeps for backward."""
    capture = emission.capture
    tangents = [emission.now[t] for t in capture.tangents]
    body = [n for n in emission.graph.nodes if n.op not in ("placeholder", "output")]
    first, then = [n for n in body if n in emission.forward], [n for n in body if n not in emission.forward]
    read = needed_for(emission.backward_outputs, then)
    saved = [n for n in saved if n in read]
    kept = needed_for([*emission.forward_outputs, *saved], first, lambda n: n.op == "call_function" and is_meant(n))

    forward, backward = Half(), Half()
    forward.give(n for n in emission.graph.nodes if n.op == "placeholder" and n not in tangents)
    forward.run(n for n in first if n in kept)
    backward.give([*saved, *tangents])
    backward.run(n for n in body if n in read and (n not in emission.forward or n.op == "get_attr"))
    backward.end(emission.backward_outputs, {WORKSPACE: capture.operations[capture.end].workspace_bytes})
    forward.end([*emission.forward_outputs, *saved], {EARLIER: [b for n in backward.nodes for b in n.meta.get(EARLIER, ())]})
    return forward, backward
