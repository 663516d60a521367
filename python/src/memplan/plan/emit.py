"""Write a plan as graphs: nodes in the plan's order, recomputed nodes as copies, split into forward and backward."""

from __future__ import annotations

import functools
import operator
import os
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from memplan.costs.measure import Cost
from memplan.graph.capture import Capture, device_of_first, storage_bytes
from memplan.graph.layouts import is_dense
from memplan.graph.operators import is_random, only_first_makes, second_form
from memplan.graph.shards import shards_in
from memplan.graph.sizes import is_number
from memplan.library.planning import Step
from memplan.memory.liveness import EARLIER, SECONDS, WORKSPACE
from memplan.plan.copies import Copies, Host
from memplan.torch_internals.capture import cut
from memplan.torch_internals.tensors import fake_mode_of

RANDOM_STATE = torch.get_rng_state()  # a generator state as an example; only its size and type are used
SMALL_BYTES = 1 << 16  # small parameters and inputs up to this size are copied, so that the caller may overwrite them
DRAWING = threading.RLock()  # all threads share the generator, so a thread reads the state and draws under this lock
os.register_at_fork(before=DRAWING.acquire, after_in_parent=DRAWING.release, after_in_child=DRAWING.release)


def state_of(device: torch.device) -> tuple[Callable[[], torch.Tensor], Callable[[torch.Tensor], None]]:
    """Return functions that get and set the state of a device's generator."""
    if device.type != "cuda":
        return torch.get_rng_state, torch.set_rng_state
    cuda = torch.cuda
    return functools.partial(cuda.get_rng_state, device), functools.partial(cuda.set_rng_state, device=device)


def draw(function: Any, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, Any]:
    """Run a random operator. Return the generator state before the draw, and the result."""
    get, _ = state_of(device_of_first(args))
    with DRAWING:
        return get(), function(*args, **kwargs)


def draw_again(state: torch.Tensor, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Repeat a draw from a recorded generator state, and restore the generator's present state afterwards."""
    get, put = state_of(device_of_first(args))
    with DRAWING:
        now = get()
        try:
            put(state)
            return function(*args, **kwargs)
        finally:
            put(now)


class Emission:
    """Writes the steps of a plan in order. `now` maps a value to its current instance: the node of its latest run."""

    def __init__(
        self,
        capture: Capture,
        steps: list[Step],
        costs: dict[fx.Node, Cost],
        state_like: Any,
        copies_inputs: bool = False,
        host: Host | None = None,
    ) -> None:
        self.capture, self.costs, self.state_like, self.copies_inputs = capture, costs, state_like, copies_inputs
        self.runs = Counter(step for step in steps if isinstance(step, int))
        self.done: Counter[int] = Counter()
        self.states: dict[int, fx.Node] = {}
        self.graph = fx.Graph()
        self.now: dict[fx.Node, fx.Node] = {}
        self.forward: set[fx.Node] = set()
        self.in_forward = True
        # for each source node: the views and the selected results that have been created from it
        self.made_from: dict[fx.Node, list[fx.Node]] = {}
        self.copies: dict[fx.Node, None] = {}  # copies of tensors that the caller may overwrite, and views of these copies
        for node in capture.joint.graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                self.now[node] = self.add(self.graph.node_copy(node, lambda n: n))
            elif node in capture.views or node.target is operator.getitem:
                for a in node.all_input_nodes:
                    self.made_from.setdefault(a, []).append(node)
        self.on_host = Copies(self, steps, host) if host is not None else None
        self._write(steps)
        self.host_bytes = self.on_host.n_bytes if self.on_host is not None else 0

    def _write(self, steps: list[Step]) -> None:
        for t, step in enumerate(steps):
            if self.on_host is not None:
                self.on_host.wait(t)
            if isinstance(step, int):
                self._take(step)
            else:
                assert self.on_host is not None
                self.on_host.run(step)
        if self.on_host is not None:
            self.on_host.wait(len(steps))
        self._end()

    def _take(self, step: int) -> None:
        if step == self.capture.boundary:
            self.forward_outputs = [self._output(o) for o in self.capture.forward_outputs]
            self._cross()
        elif self.capture.operations[step].source is not None:
            self._run(step)

    def _end(self) -> None:
        self.backward_outputs = [self._output(o) for o in self.capture.backward_outputs]
        for copy in reversed(self.copies):
            if not copy.users and copy not in self.backward_outputs:
                self.graph.erase_node(copy)
                self.forward.discard(copy)

    def add(self, node: fx.Node) -> fx.Node:
        if self.in_forward:
            self.forward.add(node)
        return node

    def _output(self, value: Any) -> Any:
        return self.current(value) if isinstance(value, fx.Node) else value

    def current(self, node: fx.Node) -> fx.Node:
        """Return the current instance of a value. Views are created on demand."""
        todo = [node]
        while todo:
            made = todo[-1]
            missing = [a for a in made.all_input_nodes if a not in self.now] if made not in self.now else []
            if missing:
                todo.append(missing[0])
                continue
            todo.pop()
            if made not in self.now:
                self.now[made] = self.add(self.graph.node_copy(made, lambda n: self.now[n]))
                if any(a in self.copies for a in self.now[made].all_input_nodes):
                    lie_in_copy(self.now[made])
                    self.copies[self.now[made]] = None
        return self.now[node]

    def forget(self, node: fx.Node) -> None:
        todo = [node]
        while todo:
            taken = self.made_from.get(todo.pop(), [])
            todo += taken
            for view in taken:
                self.now.pop(view, None)

    def _cross(self) -> None:
        """Begin backward.

        Views of saved tensors are created anew. Tensors that the caller may overwrite are copied for backward.
        """
        for view in self.capture.views:
            self.now.pop(view, None)
        for node in copied(self.capture, self.copies_inputs):
            if node in self.now:
                self.now[node] = self.add(copy_of(self.graph, self.now[node]))
                self.copies[self.now[node]] = None
        if self.on_host is not None:
            self.on_host.wait_before_backward()
        self.in_forward = False

    def _run(self, step: int) -> None:
        node = self.capture.operations[step].source
        assert node is not None
        for a in node.all_input_nodes:
            self.current(a)
        items = self.capture.items.get(node, [])
        first = self.done[step] == 0
        kept = {} if first else {i: self.now[i] for i in items if only_first_makes(node, i)}
        self.forget(node)
        self.done[step] += 1
        if is_random(node) and self.runs[step] > 1:
            copy = self._draw(step, node, first)
        else:
            copy = self.add(self.graph.node_copy(node, lambda n: self.now[n]))
            if not first:
                function, arguments = second_form(node)
                copy.target, copy.args = function, fx.node.map_arg(arguments, lambda n: self.now[n])
        workspace = self.costs[node].workspace_bytes
        if copy.target is draw_again:
            # a repeated draw stores the generator's present state while it runs; the workspace includes these bytes
            workspace += storage_bytes(self.state_like)
        known = {WORKSPACE: workspace, SECONDS: self.costs[node].seconds, "memplan_run": self.done[step]}
        copy.meta = {**copy.meta, **known}
        if node in self.capture.earlier:
            copy.meta[EARLIER] = [self.capture.earlier[node]]
        self.now[node] = copy
        self.now.update(kept)
        for item in [i for i in items if i not in kept]:
            self.now[item] = self.add(self.graph.node_copy(item, lambda n: self.now[n]))

    def _draw(self, step: int, node: fx.Node, first: bool) -> fx.Node:
        function: Any = node.target
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: self.now[n])
        if not first:
            again = self.add(self.graph.call_function(draw_again, (self.states[step], function, *args), kwargs))
            again.meta = dict(node.meta)
            return again
        both = self.add(self.graph.call_function(draw, (function, *args), kwargs))
        both.meta = {**node.meta, "val": (self.state_like, node.meta["val"])}
        items = [self.add(self.graph.call_function(operator.getitem, (both, k))) for k in (0, 1)]
        items[0].meta = {"val": self.state_like}
        items[1].meta = dict(node.meta)
        self.states[step] = items[0]
        return items[1]

    def crossing(self) -> list[fx.Node]:
        """Return the forward values that backward reads, in the order of the graph."""
        tangents = {self.now[t] for t in self.capture.tangents}
        used = {a for n in self.graph.nodes if n not in self.forward for a in n.all_input_nodes}
        used |= {o for o in self.backward_outputs if isinstance(o, fx.Node)}
        crosses = used & self.forward - tangents
        return [n for n in self.graph.nodes if n in crosses and n.op != "get_attr"]


def copied(capture: Capture, with_inputs: bool) -> list[fx.Node]:
    """Return the producers of memory that the caller may overwrite before backward without an error in eager PyTorch.

    Eager has not saved this memory. It consists of outputs and of small parameters, buffers and inputs. Shards are excluded:
    FSDP2 gathers their current values again, and their sizes differ between ranks.
    """
    shards = {capture.primals[k] for k in shards_in(capture.joint.graph)}
    given = capture.storages_of(capture.not_saved_by_eager()) if capture.returns_apart and with_inputs else []
    small = {s for s in given if capture.storages[s].n_bytes <= SMALL_BYTES}
    nodes = capture.makers({*capture.handed, *small})
    return [n for n in nodes if n not in capture.mutated and n not in shards and is_dense(n.meta.get("val"))]


def copy_of(graph: fx.Graph, node: fx.Node) -> fx.Node:
    made = graph.call_function(torch.ops.aten.clone.default, (node,))
    made.meta = {k: v for k, v in node.meta.items() if k != WORKSPACE}
    made.meta["val"] = node.meta["val"].clone()
    return made


def lie_in_copy(view: fx.Node) -> None:
    """Compute a view's fake value again from its argument, a copy, so that the view shares the storage of the copy."""
    target: Any = view.target
    arguments = fx.node.map_arg((view.args, view.kwargs), lambda n: n.meta["val"])
    view.meta["val"] = target(*arguments[0], **arguments[1])


def cut_of(emission: Emission, saved: list[fx.Node]) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Return forward and backward graphs of an emission. `saved`: the values that forward keeps for backward."""
    capture = emission.capture
    output = emission.graph.output(tuple(emission.forward_outputs + emission.backward_outputs))
    output.meta = dict(next(iter(reversed(capture.joint.graph.nodes))).meta)
    numbers = [n for n in saved if is_number(n.meta.get("val"))]
    tensors = [n for n in saved if n not in numbers]
    static = [emission.now[n] for n in capture.static_nodes]
    forward, backward = cut(emission.graph, capture.joint, tensors, numbers, capture.n_forward_outputs, static)
    last(backward).meta[WORKSPACE] = capture.operations[capture.end].workspace_bytes
    last(forward).meta[EARLIER] = [size for n in backward.graph.nodes for size in n.meta.get(EARLIER, ())]
    return forward, backward


def last(module: fx.GraphModule) -> fx.Node:
    """Return the output node of a graph."""
    found: fx.Node = next(iter(reversed(module.graph.nodes)))
    return found


def fake_state(capture: Capture) -> Any:
    """Return a fake generator state, or None if no operator is random."""
    if not capture.n_random:
        return None
    mode = fake_mode_of([n.meta.get("val") for n in capture.primals])
    return mode.from_tensor(RANDOM_STATE) if mode is not None else RANDOM_STATE
