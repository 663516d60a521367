"""A graph as straight-line Python that drops every value at its last use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx

from memplan.graph.operators import IN_PLACE, INTO_FIRST
from memplan.memory.liveness import Liveness

Run = Callable[[list[Any]], list[Any]]
WRITTEN_OUT = (bool, int, str, type(None))


class Writer:
    """Writes the code: a line per node, names for what is not a literal."""

    def __init__(self, module: fx.GraphModule, liveness: Liveness) -> None:
        self.module, self.liveness = module, liveness
        self.names: dict[fx.Node, str] = {n: f"v{i}" for i, n in enumerate(liveness.nodes)}
        self.values: dict[str, Any] = {}
        self.by_identity: dict[int, str] = {}
        self.lines: list[str] = []

    def constant(self, value: Any) -> str:
        name = self.by_identity.setdefault(id(value), f"c{len(self.values)}")
        self.values[name] = value
        return name

    def expression(self, value: Any) -> str:
        if isinstance(value, fx.Node):
            return self.names[value]
        if type(value) in WRITTEN_OUT:
            return repr(value)
        if isinstance(value, tuple):
            return "(" + "".join(self.expression(v) + ", " for v in value) + ")"
        if isinstance(value, list):
            return "[" + ", ".join(map(self.expression, value)) + "]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{k!r}: {self.expression(v)}" for k, v in value.items()) + "}"
        return self.constant(value)

    def call(self, node: fx.Node) -> str:
        arguments = [self.expression(a) for a in node.args]
        arguments += [f"{k}={self.expression(v)}" for k, v in node.kwargs.items()]
        function = node.target
        if node in self.liveness.in_place:
            if function in IN_PLACE:
                function = IN_PLACE[function]
            else:
                function, name = INTO_FIRST[function]
                arguments.append(f"{name}={self.expression(node.args[0])}")
        return f"{self.constant(function)}({', '.join(arguments)})"

    def drop(self, nodes: list[fx.Node]) -> None:
        if nodes:
            self.lines.append("del " + ", ".join(self.names[n] for n in nodes))

    def code(self) -> str:
        inputs = [n for n in self.liveness.nodes if n.op == "placeholder"]
        if inputs:
            self.lines.append("".join(self.names[n] + ", " for n in inputs) + "= arguments")
        self.lines.append("arguments.clear()")
        self.drop([n for n in inputs if self.liveness.last_use[n] == self.liveness.at[n]])
        for node in self.liveness.nodes:
            if node.op == "output":
                self.lines.append("return " + self.expression(list(node.args[0])))
                continue
            if node.op == "placeholder":
                continue
            if node.op == "get_attr":
                self.lines.append(f"{self.names[node]} = {self.constant(getattr(self.module, str(node.target)))}")
            else:
                self.lines.append(f"{self.names[node]} = {self.call(node)}")
            self.drop(self.liveness.dying(node))
        return "def run(arguments):\n" + "".join(f"    {line}\n" for line in self.lines)


def compile_graph(module: fx.GraphModule) -> Run:
    """The function that runs the graph on a list of arguments, which it empties."""
    writer = Writer(module, Liveness(module.graph))
    code = writer.code()
    scope = dict(writer.values)
    exec(compile(code, "<memplan>", "exec"), scope)  # written above, from names of ours
    run: Any = scope["run"]
    run.code = code
    return run  # type: ignore[no-any-return]
