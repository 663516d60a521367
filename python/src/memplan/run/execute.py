"""Compilation of a graph to straight-line Python code that drops every value after its last use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch import fx

from memplan.graph.joint import flat_outputs
from memplan.graph.overwriting import INTO_FIRST, in_place_form
from memplan.graph.sizes import has_unknown_sizes
from memplan.memory.liveness import LastUses, Liveness

Run = Callable[[list[Any]], list[Any]]
WRITTEN_OUT = (bool, int, str, type(None))


class Part(NamedTuple):
    """A part of a graph: its last node, and the indices of the graph's results that it returns."""

    last: fx.Node
    results: list[int]


class Writer:
    """Writes the code: one line per node, and named constants for values that are no literals."""

    def __init__(self, module: fx.GraphModule, liveness: LastUses) -> None:
        self.module, self.liveness = module, liveness
        self.names: dict[fx.Node, str] = {n: f"v{i}" for i, n in enumerate(liveness.nodes)}
        self.values: dict[str, Any] = {}
        self.by_identity: dict[int, str] = {}
        self.written: list[fx.Node] = []
        self.functions: list[list[str]] = []
        self.lines: list[str] = []  # code lines of the function that is being written

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
        function: Any = node.target
        if node in self.liveness.in_place:
            if function in INTO_FIRST:
                function, name = INTO_FIRST[function]
                arguments.append(f"{name}={self.expression(node.args[0])}")
            else:
                function = in_place_form(function) or function
        return f"{self.constant(function)}({', '.join(arguments)})"

    def drop(self, nodes: list[fx.Node]) -> None:
        if nodes:
            self.lines.append("del " + ", ".join(self.names[n] for n in nodes))

    def begin(self, arguments: list[fx.Node]) -> None:
        if arguments:
            self.lines.append("".join(self.names[n] + ", " for n in arguments) + "= arguments")
        self.lines.append("arguments.clear()")

    def hand_over(self, made: list[Any], later: list[Any]) -> list[fx.Node]:
        """End a part of the graph, which returns these results. Return the values that later parts need."""
        wanted = {o for o in later if isinstance(o, fx.Node)}
        done = {n for n in self.written if n.op != "output"}
        needed = [n for n in self.written if n in wanted or any(u not in done and u.op != "output" for u in n.users)]
        self.lines.append(f"return {self.expression(made)}, {self.expression(needed)}")
        return needed

    def code(self, parts: Sequence[Part] = ()) -> str:
        """Return the code of one function.

        With `parts`, return the code of one function per part. Each function returns its results and the arguments of the next.
        """
        inputs = [n for n in self.liveness.nodes if n.op == "placeholder"]
        self.begin(inputs)
        self.drop([n for n in inputs if self.liveness.last_use[n] == self.liveness.at[n]])
        results, left = flat_outputs(self.module.graph), list(parts[:-1])
        for node in self.liveness.nodes:
            self.written.append(node)
            if node.op == "output":
                last = [results[k] for k in parts[-1].results] if parts else list(node.args[0])
                self.lines.append(f"return {self.expression(last)}" + (", []" if parts else ""))
                continue
            if node.op == "get_attr":
                self.lines.append(f"{self.names[node]} = {self.constant(getattr(self.module, str(node.target)))}")
            elif node.op != "placeholder":
                self.lines.append(f"{self.names[node]} = {self.call(node)}")
            if node.op != "placeholder":
                self.drop(self.liveness.dying(node))
            while left and left[0].last is node:
                own = left.pop(0).results
                later = [results[r] for part in (*left, parts[-1]) for r in part.results]
                needed = self.hand_over([results[r] for r in own], later)
                self.functions.append(self.lines)
                self.lines = []
                self.begin(needed)
        self.functions.append(self.lines)
        return "".join(
            f"def run{k or ''}(arguments):\n" + "".join(f"    {line}\n" for line in lines)
            for k, lines in enumerate(self.functions)
        )


def compile_graph(module: fx.GraphModule) -> Run:
    """Return a function that runs the graph on a list of arguments. The function empties the list."""
    (run,) = compiled(module, ())
    return run


def compile_parts(module: fx.GraphModule, parts: Sequence[Part]) -> list[Run]:
    """Return one function per part of the graph. Each returns its results, and the arguments of the next part's function."""
    return compiled(module, parts)


def compiled(module: fx.GraphModule, parts: Sequence[Part]) -> list[Run]:
    graph = module.graph
    writer = Writer(module, LastUses(graph) if has_unknown_sizes(graph) else Liveness(graph))
    code = writer.code(parts)
    scope = dict(writer.values)
    exec(compile(code, "<memplan>", "exec"), scope)  # exec is safe here: `writer` has generated the code and all of its names
    runs: list[Any] = [scope[f"run{k or ''}"] for k in range(len(writer.functions))]
    runs[0].code = code
    return runs
