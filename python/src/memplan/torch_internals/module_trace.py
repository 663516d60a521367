"""Traces of modules by Dynamo, and their images for other modules of a list (see memplan.torch_internals.equal_modules)."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch import fx

from memplan.torch_internals.fake import is_plain_fake
from memplan.torch_internals.names import Private
from memplan.torch_internals.tensors import tree_iter, version_of

SLOWER, SINCE = "PyTorch traces all equal modules", "2.15"
CHECKS = Private(
    "torch._dynamo.guards.GUARD_VALUE_DISPATCH", use="evaluates the guards of an equal module", instead=SLOWER, since=SINCE
)
BUILD = Private(
    "torch._dynamo.variables.builder.VariableBuilder", use="makes the inputs of an equal module", instead=SLOWER, since=SINCE
)
RESULT = Private(
    "torch._dynamo.variables.builder.wrap_fx_proxy", use="makes the results of an equal module", instead=SLOWER, since=SINCE
)
SOURCE = Private("torch._guards.ChainedSource", use="finds the sources of an equal module", instead=SLOWER, since=SINCE)

TENSOR, DUPLICATE = "TENSOR_MATCH", "DUPLICATE_INPUT"  # guards that PyTorch makes together with an input
UNREAD = "lazy"
STACK, FUNCTIONS = "nn_module_stack", "source_fn_stack"
ENTRY = re.compile(r"\._(?:modules|parameters|buffers)\[(['\"])([^'\"\]]+)\1\]")
NUMBER = re.compile(r"_\d+$")

Variable = Any  # torch._dynamo.variables.base.VariableTracker
Args: TypeAlias = Sequence[Any]
Kwargs: TypeAlias = dict[str, Any]
Translator = Any  # torch._dynamo.symbolic_convert.InstructionTranslatorBase
Source = Any  # torch._guards.Source


class Different(Exception):
    """Raised if a module differs from the template, or if memplan does not know."""


def require(holds: Any) -> None:
    if not holds:
        raise Different


@contextlib.contextmanager
def knowing() -> Iterator[None]:
    """Raise Different instead of other exceptions: Dynamo has another form than memplan knows."""
    try:
        yield
    except Exception as error:
        raise Different from error


def layouts(value: Any) -> Any:
    """Return the properties of a value of the graph that a trace may read. Raises Different for values of other kinds."""
    values = list(tree_iter(value))
    require(all(is_plain_fake(v) or isinstance(v, (int, float, bool, type(None), torch.SymInt)) for v in values))
    return [
        (tuple(v.shape), v.stride(), v.storage_offset(), v.dtype, v.device, v.requires_grad, v.is_leaf, version_of(v))
        if isinstance(v, torch.Tensor)
        else (type(v), v)
        for v in values
    ]


def is_tensor(variable: Variable) -> bool:
    return type(variable).__name__ == "TensorVariable"


def tensors_of(result: Variable) -> list[Variable]:
    """Return the tensors of a result, which is a tensor or a tuple of tensors. Raises Different."""
    require(is_tensor(result) or type(result).__name__ == "TupleVariable")
    found = [result] if is_tensor(result) else list(result.items)
    require(all(is_tensor(r) for r in found))
    return found


def leaves(variable: Variable, *, is_read: bool) -> Iterator[tuple[Any, Any]]:
    """Yield the leaves of an argument as pairs: a key that must be equal, and the node of a tensor. Raises Different.

    `is_read`: variables that Dynamo has not read yet are read.
    """
    if type(variable).__name__.startswith("Lazy"):
        if not variable.is_realized() and not is_read:
            yield (UNREAD, variable.source), None
            return
        variable = variable.realize()
    kind = type(variable).__name__
    if is_tensor(variable):
        node = variable.as_proxy().node
        yield (kind, str(variable.class_type), layouts(node.meta["example_value"])), node
    elif kind == "ConstantVariable":
        yield (kind, type(variable.value), variable.value), None
    elif kind == "TupleVariable":
        yield (kind, len(variable.items)), None
        for item in variable.items:
            yield from leaves(item, is_read=is_read)
    elif kind == "SymNodeVariable":
        yield (kind, variable.as_proxy().node), None
    else:
        require(variable.source is not None)
        yield (kind, variable.source), None


def leaves_of(args: Args, kwargs: Kwargs, *, is_read: bool) -> list[tuple[Any, Any]]:
    names = [((tuple(kwargs), len(args)), None)]
    return names + [leaf for a in (*args, *kwargs.values()) for leaf in leaves(a, is_read=is_read)]


def state_of(translator: Translator) -> Any:
    """Return PyTorch's and Dynamo's state besides the graph, which a trace must leave as it was."""
    output = translator.output
    side = output.side_effects
    devices = ("cpu", "cuda")
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_cache_enabled(),
        [(torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in devices],
        torch.get_default_dtype(),
        str(torch.fx.traceback.current_meta.get("custom")),
        [str(entry) for entry in translator.nn_module_stack.items()],
        len(translator.symbolic_torch_function_state.mode_stack),
        (len(side.mutated_sources), len(side.tensor_hooks), len(side.save_for_backward), side.ca_final_callbacks_var),
        (len(output.random_calls), len(output.nn_modules)),
    )


def is_untouched(translator: Translator) -> bool:
    """Whether the capture so far has no effects besides its nodes."""
    side = translator.output.side_effects
    return not (side.mutated_sources or side.tensor_hooks or side.save_for_backward or translator.output.random_calls)


def is_source(value: Any) -> bool:
    return hasattr(value, "guard_source")


def is_below(source: Source, root: Source) -> bool:
    while source != root:
        if not isinstance(source, SOURCE.get()):
            return False
        source = source.base
    return True


def path_of(source: Source) -> str:
    """Return the name of a module in PyTorch's stacks of modules, such as L['self'].layers.3."""
    return str(ENTRY.sub(r".\2", source.name))


def base_of(name: str) -> str:
    return NUMBER.sub("", name)


@dataclasses.dataclass
class Trace:
    """The trace of one call. `begin`: the last node before it."""

    variable: Variable
    translator: Translator  # keeps the identifiers of the instruction alive
    leaves: list[tuple[Any, Any]]
    nodes: list[fx.Node]
    names: list[str]  # the nodes' names at the end of the call, without numbers
    result: Variable
    are_named: list[bool]  # for each tensor of the result: whether it has the name of a variable of the module
    calls: dict[str, int]  # for each module called within: the number of calls
    is_template: bool = False

    @property
    def source(self) -> Source:
        return self.variable.source

    @functools.cached_property
    def guards(self) -> list[Any]:
        return [g for g in self.translator.output.guards if is_below(g.originating_source, self.source)]

    @functools.cached_property
    def values(self) -> Values:
        return Values(self.translator)

    @property
    def results(self) -> list[Variable]:
        return tensors_of(self.result)

    def check(self) -> None:
        """Raise Different if the trace contains something that cannot be copied."""
        inside = set(self.nodes)
        require(all(r.as_proxy().node in inside for r in self.results))
        for node in self.nodes:
            require(node.op in ("call_function", "call_method") and "unbacked_bindings" not in node.meta)
            read = [node, *node.all_input_nodes]
            values = [v for n in read for v in tree_iter(n.meta.get("example_value"))]
            require(all(version_of(v) == 0 for v in values))  # a tensor that is written into
            layouts(node.meta.get("example_value"))

    def is_equal(self, trace: Trace) -> bool:
        """Whether another trace is an image of this one."""
        with contextlib.suppress(Different), knowing():
            image = Image(self, trace.variable, self.translator, trace.leaves)
            image.check_guards()
            image.make_inputs()
            image.compare(trace)
            return True
        return False


class Values:
    """The values of sources."""

    def __init__(self, translator: Translator) -> None:
        root = translator.output.root_tx
        self.scope = {"G": root.f_globals, "L": root.f_locals}
        self.cache: dict[Source, Any] = {}

    def __getitem__(self, source: Source) -> Any:
        return source.get_value(self.scope, {}, self.cache)


class Image:
    """A trace with the sources and the arguments of another module of its list. Raises Different."""

    def __init__(self, of: Trace, variable: Variable, translator: Translator, given: list[tuple[Any, Any]]) -> None:
        self.of, self.translator = of, translator
        self.sources: dict[Source, Source] = {of.source: variable.source}
        self.values = Values(translator)
        self.prefixes = path_of(of.source), path_of(variable.source)
        self.modules = of.variable.value, variable.value
        self.nodes: dict[fx.Node, fx.Node] = {}
        require([key for key, _ in of.leaves] == [key for key, _ in given])
        for (_, before), (_, now) in zip(of.leaves, given):
            if before is not None:
                require(self.nodes.setdefault(before, now) is now)

    def source(self, source: Source) -> Source:
        if (found := self.sources.get(source)) is None:
            found = source
            if isinstance(source, SOURCE.get()):
                parts = {f.name: getattr(source, f.name) for f in dataclasses.fields(source)}
                others = {
                    k: image for k, v in parts.items() if hasattr(v, "guard_source") and (image := self.source(v)) is not v
                }
                found = dataclasses.replace(source, **others) if others else source
            self.sources[source] = found
        return found

    def check_guards(self) -> list[Any]:
        """Return the guards for this module, except those that PyTorch makes together with an input."""
        found, tensors = [], dict[int, int]()
        for guard in self.of.guards:
            source = self.source(guard.originating_source)
            kind = guard.create_fn_name()
            before, now = self.of.values[guard.originating_source], self.values[source]
            made = guard.create_fn
            if kind == DUPLICATE:
                require(now is self.values[self.source(made.keywords["source_b"])])
                continue
            check = CHECKS.get()[kind]
            require(check.eval_fn(now, check.get_metadata_fn(guard, before)))
            if kind == TENSOR:
                require(tensors.setdefault(id(before), id(now)) == id(now))
                require(torch._C._dispatch_keys(before) == torch._C._dispatch_keys(now))
                continue
            if isinstance(made, functools.partial):
                require(not made.args and not any(is_source(v) for v in made.keywords.values()))
            if source is not guard.originating_source:
                found.append(dataclasses.replace(guard, originating_source=source, _hash=None))
        require(len(set(tensors.values())) == len(tensors))
        return found

    def make_inputs(self) -> None:
        """Make an input of the graph for each tensor that the template reads, if it is not there."""
        self.inputs = set(self.translator.output.input_source_to_var)
        for guard in self.of.guards:
            if guard.create_fn_name() in (TENSOR, DUPLICATE):
                source = self.source(guard.originating_source)
                BUILD(self.translator, source)(self.values[source])
        inside = set(self.of.nodes)
        for node in self.of.nodes:
            for read in node.all_input_nodes:
                if read not in inside and read not in self.nodes:
                    self.nodes[read] = self._input(read)
        require(len(set(self.nodes.values())) == len(self.nodes))

    def _input(self, node: fx.Node) -> fx.Node:
        if node.op != "placeholder":
            require(not isinstance(node.meta["example_value"], torch.Tensor))  # a size, which all blocks read
            return node
        given = node.meta["grapharg"]
        source = self.source(given.source)
        if source is given.source:
            return node
        require(given.is_tensor and not given.pass_arg_as_tensor)
        is_new = source not in self.inputs
        found: fx.Node = BUILD(self.translator, source)(self.values[source]).as_proxy().node
        require(layouts(found.meta["example_value"]) == layouts(node.meta["example_value"]))
        if is_new:
            found.meta["stack_trace"] = node.meta["stack_trace"]
            self.set_stack(found, node)
        return found

    def path(self, path: str) -> str:
        before, now = self.prefixes
        is_within = path == before or path.startswith(f"{before}.")
        return now + path[len(before) :] if is_within else path

    def stack(self, stack: Any) -> Any:
        """Return the stack of modules of a node."""
        found: dict[str, tuple[str, Any]] = {}
        for key, (path, kind) in (stack or {}).items():
            image = self.path(path)
            number, at, n = str(key).partition("@")
            if image != path:
                before, now = (m.get_submodule(path[len(self.prefixes[0]) + 1 :]) for m in self.modules)
                require(number == str(id(before)))
                number = str(id(now))
            found[number + at + n] = image, kind
        return found

    def set_stack(self, made: fx.Node, of: fx.Node) -> None:
        if STACK in of.meta:
            made.meta[STACK] = self.stack(of.meta[STACK])

    def arguments(self, node: fx.Node) -> Any:
        return fx.node.map_arg((node.args, node.kwargs), lambda a: self.nodes[a])

    def compare(self, trace: Trace) -> None:
        """Raise Different if another trace is not this image."""
        require(len(trace.nodes) == len(self.of.nodes) and type(trace.result) is type(self.of.result))
        require(trace.calls == {self.path(path): n for path, n in self.of.calls.items()})
        for here, there in zip(self.of.nodes, trace.nodes):
            self.nodes[here] = there
            require((here.op, here.target) == (there.op, there.target))
            require(self.arguments(here) == (there.args, there.kwargs))
            require(layouts(here.meta.get("example_value")) == layouts(there.meta.get("example_value")))
            require(set(here.meta) == set(there.meta) and here.stack_trace == there.stack_trace)
            require(self.stack(here.meta.get(STACK)) == (there.meta.get(STACK) or {}))
        results = [self.nodes[r.as_proxy().node] for r in self.of.results]
        require(results == [r.as_proxy().node for r in trace.results])

    def copy(self) -> Variable:
        """Copy the nodes, and return the result of the call."""
        before = set(self.nodes)
        try:
            return self._copied()
        except Exception as error:  # a graph of another form than memplan knows
            for node in reversed([made for of, made in self.nodes.items() if of not in before]):
                self.translator.output.graph.erase_node(node)
            raise Different from error

    def _copied(self) -> Variable:
        tracer = self.translator.output.current_tracer
        results = dict(zip((r.as_proxy().node for r in self.of.results), self.of.are_named))
        variables: dict[fx.Node, Variable] = {}
        for node, name in zip(self.of.nodes, self.of.names):
            args, kwargs = self.arguments(node)
            made = self.nodes[node] = tracer.create_node(node.op, node.target, args, kwargs)
            made.meta.update((k, v) for k, v in node.meta.items() if k != "creation_timestamp")
            if (stack := node.meta.get(FUNCTIONS)) is not None:
                made.meta[FUNCTIONS] = [*stack[:-1], (made.name, *stack[-1][1:])]
            self.set_stack(made, node)
            if node in results:
                del made.meta["example_value"]
                variables[node] = RESULT(tx=self.translator, proxy=tracer.proxy(made))
                require(layouts(made.meta["example_value"]) == layouts(node.meta["example_value"]))
                variables[node]._is_name_set = results[node]
            if name != base_of(made.name):
                made._rename(name)
        self.translator.num_calls.update({self.path(path): n for path, n in self.of.calls.items()})
        found = [variables[r.as_proxy().node] for r in self.of.results]
        return found[0] if is_tensor(self.of.result) else type(self.of.result)(found)
