"""The memory that the plan of one pipeline stage needs, per kind of tensor in the replay of a schedule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import fx

from memplan.budget import model_bytes
from memplan.graph.capture import DYNAMIC, Capture, allocated, storage_bytes, storage_key, tensors_of
from memplan.memory.liveness import WORKSPACE, Liveness, keys_of
from memplan.plan.emit import last
from memplan.plan.emitted import Emitted
from memplan.plan.planner import GraphPlanner
from memplan.run.split_backward import split
from memplan.schedules import schedule_events as events
from memplan.schedules.fsdp_groups import Whole


class Inputs(NamedTuple):
    """The inputs of a stage for one micro-batch: received from the previous stage, or given by the caller."""

    received: list[fx.Node]
    given: list[fx.Node]

    @classmethod
    def of(cls, capture: Capture) -> Inputs:
        """Separate the inputs. Received inputs have a gradient, which the stage sends back."""
        own = set(capture.static_nodes)
        gradients = dict(zip(capture.primals, capture.backward_outputs))
        inputs = [n for n in capture.primals if n not in own]
        received = [n for n in inputs if isinstance(gradients.get(n), fx.Node)]
        return cls(received, [n for n in inputs if n not in received])


def bytes_of(capture: Capture, nodes: Iterable[Any]) -> int:
    return sum(capture.storages[s].n_bytes for s in capture.storages_of(nodes))


def own_bytes(nodes: Iterable[fx.Node]) -> int:
    """Return the bytes of the values' elements. The values may be slices of a batch, so their storages may be larger."""
    return sum(allocated(t.numel() * t.element_size(), t.device) for n in nodes for t in tensors_of(n.meta.get("val")))


class Needs:
    """The memory needs of a plan.

    `sizes` has bytes per kind of tensor. `call_bytes` has the peak of a call besides static memory. Its key is the phase and
    whether the output of forward is still held; for backward also whether gradients already exist.

    Args:
        planner: the planner of the stage's graph.
        emitted: the graphs of the plan.
        is_split: whether weight gradients may run after input gradients in a separate call.
        is_last: whether the step holds the stage's output.
        whole: the gathered parameters of the stage under FSDP2.
    """

    def __init__(self, planner: GraphPlanner, emitted: Emitted, is_split: bool, is_last: bool, whole: Whole) -> None:
        capture = planner.capture
        inputs = Inputs.of(capture)
        sent = [g for n, g in zip(capture.primals, capture.backward_outputs) if n in inputs.received]
        gradients = sum(s.n_bytes for s in capture.storages if s.kind == "gradient")
        output = bytes_of(capture, capture.user_outputs) if is_last else emitted.held_bytes
        self.call_bytes: dict[tuple[Any, ...], int] = {}
        self.sizes = {
            events.SAVED: emitted.saved_bytes,
            events.INPUT: own_bytes(inputs.received),
            events.OUTPUT: output,
            events.OUTPUT_GRADIENT: bytes_of(capture, capture.tangents),
            events.INPUT_GRADIENT: own_bytes(n for n in sent if isinstance(n, fx.Node)),
            events.GRADIENTS: gradients - own_bytes(n for n in sent if isinstance(n, fx.Node)),
        }
        self.sizes[events.KEPT] = 0
        self.sizes |= {
            events.WHOLE: whole.whole_bytes,
            events.SENT: whole.sent_bytes,
            events.SUMMED: whole.summed_bytes,
        }
        self.sizes[events.GRADIENTS] += whole.widened_bytes
        self.call_bytes[events.GATHER, False] = whole.gather_bytes()
        self.call_bytes[events.SUM, False] = whole.sum_bytes(self.sizes[events.GRADIENTS])
        self.call_bytes[events.FORWARD, False] = emitted.above.peak_bytes()
        graph, static = emitted.backward.graph, planner.static_keys
        for has_output in (False, True):
            held = keys_of(planner.held) if has_output else set()
            below, held_bytes = planner.below(graph, held, set())
            end = last(emitted.backward)
            workspace = end.meta[WORKSPACE]
            for is_added in (False, True):
                end.meta[WORKSPACE] = workspace - is_added * whole.widened_bytes
                self.call_bytes[events.BACKWARD, has_output, is_added] = below.peak_bytes(held_bytes)
            end.meta[WORKSPACE] = workspace
            if is_split:
                halves = split(emitted.backward, [k for k, n in enumerate(capture.primals) if n in inputs.received])
                given = keys_of(n for n in graph.nodes if n.op == "placeholder")
                # autograd keeps all inputs of the call until the weight gradients are computed
                first = Liveness(halves.first.graph, capture.sizes, static, given | held)
                second = Liveness(halves.second.graph, capture.sizes, static, keys_of(capture.tangents) | held)
                self.call_bytes[events.INPUTS, has_output] = first.peak_bytes(held_bytes)
                self.call_bytes[events.WEIGHTS, has_output] = second.peak_bytes(held_bytes)
                known = given | static | keys_of(halves.sent)
                kept = {storage_key(t): storage_bytes(t) for n in halves.kept for t in tensors_of(n.meta.get("val"))}
                self.sizes[events.KEPT] = sum(capture.sizes.get(key, size) for key, size in kept.items() if key not in known)

    def bytes_of(self, moment: events.Moment) -> int:
        """Return the bytes that the call itself needs at this moment, besides the tensors of other calls."""
        known: tuple[Any, ...] = moment.phase, moment.has_output
        if moment.phase == events.BACKWARD:
            known += (moment.beside[moment.stage, events.GRADIENTS] > 0,)
        return self.call_bytes[known]


def static_bytes(capture: Capture, model: Any, n_parts: int, whole: Whole) -> int:
    """Return the static memory of a stage.

    It contains parameters (or shards), buffers, constants, and the caller's inputs for all micro-batches.
    """
    here = sum(s.n_bytes for s in capture.storages if s.kind not in DYNAMIC and s.kind not in ("parameter", "input"))
    parameters = sum(s.n_bytes for s in capture.storages if s.kind == "parameter")
    instead = whole.shard_bytes - whole.whole_bytes
    return here + max(parameters, model_bytes(model)) + instead + n_parts * own_bytes(Inputs.of(capture).given)
