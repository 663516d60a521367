"""Equal modules of a list: Dynamo traces two of them, and memplan copies the second trace for each further module.

A network of 24 equal blocks calls each block at the same instruction. Dynamo traces the first two calls. If the second trace
is the first one with other sources (layers.1.weight instead of layers.0.weight), the second is the template. For each further
block, memplan does three things:

- It evaluates the template's guards on that block, and gives the block the same guards.
- It makes an input of the graph for each tensor of the block.
- It copies the nodes.

The graph and the guards are then those of a full trace. A block is traced in full in three cases: a guard
differs (a flag, a dropout rate, a hook, a type, a shape), its arguments differ, or the template has other effects than nodes.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch

from memplan.torch_internals.module_trace import (
    BUILD,
    CHECKS,
    RESULT,
    SINCE,
    SLOWER,
    SOURCE,
    Args,
    Different,
    Image,
    Kwargs,
    Trace,
    Translator,
    Variable,
    base_of,
    is_below,
    is_untouched,
    knowing,
    leaves_of,
    path_of,
    require,
    state_of,
    tensors_of,
)
from memplan.torch_internals.names import Private

MODULE = "torch._dynamo.variables.nn_module.UnspecializedNNModuleVariable"
CALL = Private(f"{MODULE}.call_function", use="copies the trace of an equal module", instead=SLOWER, since=SINCE)
PYTORCHS: Any = CALL.get()

LEAST = 6  # minimum number of modules of one class in a list
MOST_KINDS = 4  # maximum number of different traces that are kept for one list


class Active(threading.local):
    """The equal modules of the captures in progress in this thread, the innermost last."""

    def __init__(self) -> None:
        self.modules: list[EqualModules] = []


ACTIVE = Active()


@contextlib.contextmanager
def copying_equal_modules(model: torch.nn.Module | None) -> Iterator[None]:
    """Within the context, captures in this thread trace two of many equal modules of the model."""
    if model is None or not all((CALL, CHECKS, BUILD, RESULT, SOURCE)):
        yield
        return
    ACTIVE.modules.append(EqualModules(model))
    try:
        with CALL.standing_for(call_function):
            yield
    finally:
        ACTIVE.modules.pop()


def call_function(variable: Variable, translator: Translator, args: Args, kwargs: Kwargs) -> Variable:
    """Replace Dynamo's call of a module."""
    if ACTIVE.modules and ACTIVE.modules[-1].may_copy(variable, translator):
        return ACTIVE.modules[-1].call(variable, translator, args, kwargs)
    return PYTORCHS(variable, translator, args, kwargs)


class EqualModules:
    """The modules of a model that may be equal, and their traces."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.traces: dict[Any, list[Trace]] = {}  # by instruction and class
        self.n_copied = 0

    @functools.cached_property
    def candidates(self) -> set[int]:
        found = set[int]()
        for module in self.model.modules():
            children = list(module.children())
            many = {kind for kind, n in Counter(map(type, children)).items() if n >= LEAST}
            found.update(id(child) for child in children if type(child) in many and any(child.children()))
        return found

    def may_copy(self, variable: Variable, translator: Translator) -> bool:
        is_root = translator.output.current_tracer is translator.output.root_tracer
        is_plain = variable.source is not None and type(variable).__name__ == MODULE.rpartition(".")[2]
        return is_root and is_plain and id(variable.value) in self.candidates

    def call(self, variable: Variable, translator: Translator, args: Args, kwargs: Kwargs) -> Variable:
        place = id(translator), id(translator.current_instruction), type(variable.value)
        traces = self.traces.setdefault(place, [])
        for template in (t for t in traces if t.is_template):
            with contextlib.suppress(Different):
                result = copied(template, variable, translator, args, kwargs)
                self.n_copied += 1
                return result
        if len(traces) == MOST_KINDS:
            return PYTORCHS(variable, translator, args, kwargs)
        state, calls, nodes = state_of(translator), dict(translator.num_calls), translator.output.graph.nodes
        last = next(iter(reversed(nodes)), None)
        result = PYTORCHS(variable, translator, args, kwargs)
        with contextlib.suppress(Different), knowing():
            require(state == state_of(translator) and is_untouched(translator))
            made = list(itertools.takewhile(lambda n: n is not last and n.op != "placeholder", reversed(nodes)))[::-1]
            grown = {path: n for path, n in translator.num_calls.items() if n != calls.get(path, 0)}
            path = path_of(variable.source)
            require(all(p not in calls and (p == path or p.startswith(f"{path}.")) for p in grown))
            given = leaves_of(args, kwargs, is_read=False)
            names, are_named = [base_of(n.name) for n in made], [r._is_name_set for r in tensors_of(result)]
            trace = Trace(variable, translator, given, made, names, result, are_named, grown)
            trace.check()
            before = next((t for t in traces if not t.is_template and t.is_equal(trace)), None)
            trace.is_template = before is not None
            self.traces[place] = [*(t for t in traces if t is not before), trace]
        return result


def copied(template: Trace, variable: Variable, translator: Translator, args: Args, kwargs: Kwargs) -> Variable:
    """Copy the trace of an equal module, and return the result of the call. Raises Different."""
    with knowing():
        require(is_untouched(translator) and not any(n._erased for n in template.nodes))
        image = Image(template, variable, translator, leaves_of(args, kwargs, is_read=True))
        require(not any(image.path(path) in translator.num_calls for path in template.calls))
        guards = image.check_guards()
        image.make_inputs()
        for guard in guards:
            translator.output.guards.add(guard, collect_debug_stack=False)
        ordered = translator.output.guard_on_key_order
        ordered.update([image.source(s) for s in ordered if is_below(s, template.source)])
    return image.copy()
