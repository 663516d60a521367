"""Replay of a pipeline schedule: the tensors in memory besides each call of a rank's stages.

A micro-batch in flight keeps three kinds of tensors on a stage: tensors saved by the plan, the received activation, and
tensors to send. The plan of one call does not contain them, and their number depends on the schedule alone. The replay
therefore executes the schedule's list of actions with names instead of bytes. Plans supply the bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

# ---- kinds of tensors that a stage holds per micro-batch, or for all micro-batches (GRADIENTS and the kinds of FSDP2)
SAVED = "saved"  # tensors that the plan saves from forward to backward
INPUT = "input"  # activation received from the previous stage
OUTPUT = "output"  # outputs of forward that the plan does not save
OUTPUT_GRADIENT = "output gradient"  # gradient received from the next stage
INPUT_GRADIENT = "input gradient"
KEPT = "kept"  # tensors kept from the input gradients to the weight gradients, if these are computed separately
GRADIENTS = "gradients"  # gradients of the stage's parameters, once some exist
SENT = "sent"  # FSDP2's buffer for all ranks' shards while the parameters of a stage are gathered
WHOLE = "whole"  # gathered parameters of a stage under FSDP2
SUMMED = "summed"  # the rank's shards of the parameters' gradients

# kinds of calls of a stage; MERGE: the step joins the outputs of the last stage
FORWARD, BACKWARD, MERGE = "forward", "backward", "merge"
GATHER, SUM = "gather", "sum"  # actions of FSDP2 in a schedule's list
# the two parts of BACKWARD under a zero-bubble schedule: input gradients and weight gradients
INPUTS, WEIGHTS = "inputs", "weights"
OF_ALL = -1  # used instead of a micro-batch's number: the tensor belongs to all micro-batches

Part = tuple[int, str]  # a kind of tensor of one stage: the index of the stage, and the kind
Action = tuple[int, str, int]  # an action of a schedule: stage, name in torch.distributed.pipelining, micro-batch


class Moment(NamedTuple):
    """A call of a stage, with the number of tensors of each kind in memory besides the call.

    `has_output`: whether the call's output is still held.
    """

    stage: int
    phase: str
    beside: Counter[Part]
    has_output: bool = False


class Replay:
    """The replay of one rank.

    Args:
        stages: the rank's stages, out of `n_stages`. The loss counts as the stage after the last one.
        n_stages: the number of stages of all ranks.
        keeps_outputs: whether the step returns the outputs of the last stage, merged into one.
        accumulates: whether gradients exist from the start.
        sharded: the stages under FSDP2.
    """

    def __init__(
        self, stages: Iterable[int], n_stages: int, keeps_outputs: bool, accumulates: bool, sharded: Iterable[int] = ()
    ) -> None:
        self.stages, self.last, self.loss = set(stages), n_stages - 1, n_stages
        self.keeps_outputs, self.sharded = keeps_outputs, set(sharded)
        self.alive: Counter[tuple[int, str, int]] = Counter()  # by stage, kind of tensor and micro-batch: number of references
        self.moments: list[Moment] = []
        if accumulates:
            self.alive.update((s, SUMMED if s in self.sharded else GRADIENTS, OF_ALL) for s in self.stages)

    def run(self, actions: Iterable[Action]) -> list[Moment]:
        does: dict[str, Callable[[int, int], None]] = {
            "F": self._forward,
            "B": self._backward,
            "I": self._backward_of_inputs,
            "W": self._backward_of_weights,
            "RECV_F": lambda s, m: self._take(s, INPUT, m),
            "RECV_B": lambda s, m: self._take(s, OUTPUT_GRADIENT, m),
            "WAIT_SEND_F": lambda s, m: self._drop(s, OUTPUT, m),
            "WAIT_SEND_B": lambda s, m: self._drop(s, INPUT_GRADIENT, m),
            "UNSHARD": lambda s, _: self._begin_gather(s),
            "RESHARD": lambda s, _: self._drop(s, WHOLE, OF_ALL),
            "REDUCE_GRAD": lambda s, _: self._sum(s),
        }
        for stage, what, part in actions:
            at_end = (what == "RECV_F" and stage == 0) or (what in ("RECV_B", "WAIT_SEND_F") and stage == self.last)
            if what in does and not at_end:
                does[what](stage, part)
        if self.last in self.stages and self.keeps_outputs:
            self._note(self.last, MERGE)
        return self.moments

    def in_flight(self, stage: int) -> int:
        """Return the largest number of micro-batches in flight on a stage, including the running one."""
        beside = [m.beside[stage, SAVED] for m in self.moments if m.stage == stage and m.phase != WEIGHTS]
        return 1 + max(beside, default=0)

    def _take(self, stage: int, what: str, part: int) -> None:
        self.alive[stage, what, part] += 1

    def _drop(self, stage: int, what: str, part: int) -> None:
        if self.alive[stage, what, part] > 0:
            self.alive[stage, what, part] -= 1

    def _note(self, stage: int, phase: str, own: Iterable[tuple[int, str, int]] = (), has_output: bool = False) -> None:
        without = set(own)
        alive = [key for key, n in self.alive.items() if n > 0 and key not in without and not self._is_of_stage_before(*key)]
        self.moments.append(Moment(stage, phase, Counter((s, what) for s, what, _ in alive), has_output))

    def _is_of_stage_before(self, stage: int, what: str, part: int) -> bool:
        """Whether the tensor is also a tensor of the previous stage on this rank, so that it counts once."""
        same = {INPUT: OUTPUT, INPUT_GRADIENT: OUTPUT_GRADIENT}.get(what)
        return same is not None and self.alive[stage - 1, same, part] > 0 and self._hands_on(stage - 1)

    def _hands_on(self, stage: int) -> bool:
        """Whether the next stage is on this rank, so that it receives the output without a message."""
        return stage in self.stages and stage + 1 in self.stages

    def _begin_gather(self, stage: int) -> None:
        """Begin to gather all groups at once, as the schedule does."""
        if stage in self.sharded and self.alive[stage, WHOLE, OF_ALL] == 0:
            self._take(stage, SENT, OF_ALL)

    def _need_whole(self, stage: int) -> None:
        """Replay the gather of a stage's parameters before a call, if they are not gathered."""
        if stage in self.sharded and self.alive[stage, WHOLE, OF_ALL] == 0:
            self._note(stage, GATHER)
            self._drop(stage, SENT, OF_ALL)
            self._take(stage, WHOLE, OF_ALL)

    def _sum(self, stage: int) -> None:
        if stage in self.sharded:
            self._note(stage, SUM, [(stage, WHOLE, OF_ALL), (stage, GRADIENTS, OF_ALL)])
            self._drop(stage, WHOLE, OF_ALL)
            self._drop(stage, GRADIENTS, OF_ALL)
            self.alive[stage, SUMMED, OF_ALL] = 1

    def _forward(self, stage: int, part: int) -> None:
        self._need_whole(stage)
        self._note(stage, FORWARD)
        self._take(stage, SAVED, part)
        self._take(stage, OUTPUT, part)
        if self._hands_on(stage):
            self._take(stage + 1, INPUT, part)
        if stage == self.last:
            self._note(self.loss, FORWARD, [(stage, OUTPUT, part)])
            self._take(self.loss, SAVED, part)
            self._take(self.loss, OUTPUT, part)  # a loss stays alive until the end of the step

    def _begin_backward(self, stage: int, part: int, phase: str) -> None:
        self._need_whole(stage)
        if stage == self.last:
            own = [(self.loss, SAVED, part), (self.loss, OUTPUT, part), (stage, OUTPUT, part)]
            self._note(self.loss, BACKWARD, own, has_output=True)
            self._take(stage, OUTPUT_GRADIENT, part)  # the loss computes the gradient of the last stage's output
            self._take(self.loss, OUTPUT_GRADIENT, part)
            if phase == BACKWARD:
                self._drop(self.loss, SAVED, part)
        own = [(stage, what, part) for what in (SAVED, OUTPUT, OUTPUT_GRADIENT)]
        self._note(stage, phase, own, self.alive[stage, OUTPUT, part] > 0)
        if stage == self.last and not self.keeps_outputs:
            self.alive[stage, OUTPUT, part] = 0
        if self._hands_on(stage - 1):
            self._take(stage - 1, OUTPUT_GRADIENT, part)
        elif stage > 0:
            self._take(stage, INPUT_GRADIENT, part)

    def _end_backward(self, stage: int, part: int) -> None:
        if stage == self.last:
            self._drop(self.loss, OUTPUT_GRADIENT, part)
        for what in (SAVED, INPUT, OUTPUT_GRADIENT, KEPT, *([OUTPUT] if self._hands_on(stage) else [])):
            self.alive[stage, what, part] = 0
        self.alive[stage, GRADIENTS, OF_ALL] = 1

    def _backward(self, stage: int, part: int) -> None:
        self._begin_backward(stage, part, BACKWARD)
        self._end_backward(stage, part)
        if stage == self.last > 0:
            # a loss stays alive until the end of the step, and its autograd graph refers to the input of the last stage
            self._take(stage, INPUT, part)

    def _backward_of_inputs(self, stage: int, part: int) -> None:
        if stage < self.last and self.alive[stage, OUTPUT, part] > 0:
            self._take(stage, OUTPUT, part)  # during the weight gradients, a send that has not finished still holds the output
        if stage > 0:  # inputs of stage 0 have no gradient, so its weight pass computes the whole backward
            self._begin_backward(stage, part, INPUTS)
            if stage == self.last:
                self._drop(self.loss, SAVED, part)
            self._take(stage, KEPT, part)
            # the input tensor holds its gradient until the weight gradients are computed
            self._take(stage, INPUT_GRADIENT, part)

    def _backward_of_weights(self, stage: int, part: int) -> None:
        if stage == 0:
            self._backward(stage, part)
            self._drop(stage, OUTPUT, part)
        else:
            self._need_whole(stage)
            own = [(stage, what, part) for what in (SAVED, OUTPUT, OUTPUT_GRADIENT, KEPT)]
            self._note(stage, WEIGHTS, own, self.alive[stage, OUTPUT, part] > 0)
            self._drop(stage, INPUT_GRADIENT, part)
            self._end_backward(stage, part)
            if stage < self.last:
                self._drop(stage, OUTPUT, part)


# ---- schedules that PyTorch implements as code instead of a list of actions


def gpipe(stage: int, n_parts: int) -> list[Action]:
    parts = range(n_parts)
    forward = [(stage, what, m) for m in parts for what in ("RECV_F", "F", "SEND_F")]
    backward = [(stage, what, m) for m in parts for what in ("RECV_B", "B", "SEND_B")]
    sent = [(stage, "WAIT_SEND_F", m) for m in parts]
    return [*forward, *sent, *backward, *((stage, "WAIT_SEND_B", m) for m in parts), (stage, "REDUCE_GRAD", OF_ALL)]


def one_forward_one_backward(stage: int, n_stages: int, n_parts: int) -> list[Action]:
    """Return the actions of 1F1B.

    A send is awaited after the next call in the same direction. If a call in the other direction follows, the send is awaited
    before it.
    """
    actions: list[Action] = []
    n_warm = min(n_parts, n_stages - stage)
    n_forward = n_backward = 0
    while n_backward < n_parts:
        if n_forward < n_parts and n_forward - n_backward < n_warm:
            actions += [(stage, "RECV_F", n_forward), (stage, "F", n_forward)]
            actions += [(stage, "WAIT_SEND_F", n_forward - 1)] if n_forward > 0 else []
            n_forward += 1
        else:
            actions += [(stage, "WAIT_SEND_F", n_forward - 1), (stage, "RECV_B", n_backward), (stage, "B", n_backward)]
            actions += [(stage, "WAIT_SEND_B", n_backward - 1)] if n_backward > 0 else []
            n_backward += 1
    return [*actions, (stage, "REDUCE_GRAD", OF_ALL)]


def listed(actions: Iterable[Any]) -> list[Action]:
    """Return the actions of a schedule that PyTorch states as a list. An overlapped pair of actions becomes two actions."""
    found: list[Action] = []
    for action in actions:
        if action is not None and action.sub_actions:
            found += listed(action.sub_actions)
        elif action is not None:
            part = OF_ALL if action.microbatch_index is None else action.microbatch_index
            found.append((action.stage_index, action.computation_type.value, part))
    return found
