"""Detection of user code that asks whether it is compiled (torch.compiler.is_compiling).

During a capture the answer is yes, so the code may take another path than in eager PyTorch. For example, it may omit a mask
that masks nothing. The plan then has the bits of the captured path. memplan runs the forward of such a module once eagerly. All
tensors that eager returns or would save must occur in the captured graph as well. Otherwise memplan warns.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx, nn

from memplan import compiled_modules
from memplan.graph.capture import tensors_of
from memplan.report import Report
from memplan.run.second_order import drawing_from, generators
from memplan.run.verify import apart_from
from memplan.torch_internals.capture import answers_told
from memplan.torch_internals.tensors import tree_iter, versions_of

# folders of code that asks whether it is compiled, but computes equal results for both answers
NOT_ASKED = tuple(os.path.dirname(f) + os.sep for f in (torch.__file__, compiled_modules.__file__))
MOST_NAMED = 3
CHECKPOINT_CALL = "activation_checkpoint"  # part of the name of captured calls of torch.utils.checkpoint
NOTHING = torch.empty(0)
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
Run = Callable[..., Any]
Print = tuple[torch.dtype, int, int]  # fingerprint of a tensor: type, number of elements, sum of its bits as integers


class Listeners(threading.local):
    """The active listeners of a thread. The last one receives the events."""

    def __init__(self) -> None:
        self.here: list[Asked] = []


LISTENERS = Listeners()


def place_of(translator: Any) -> str:
    """Return the position of the asking code as `file:line`, or "" for PyTorch and memplan.

    Helpers named `is_...` are skipped.
    """
    name = str(translator.f_code.co_filename)
    if name.startswith(NOT_ASKED):
        return ""
    while translator.f_code.co_name.startswith("is_") and getattr(translator, "parent", None) is not None:
        translator = translator.parent
    return f"{translator.f_code.co_filename}:{translator.lineno}"


class Asked:
    """The places in user code that asked during one call, and the state before the captured graph ran."""

    def __init__(self, function: Run, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.places: dict[str, None] = {}
        self.copy: nn.Module | None = None
        self.captured: Counter[Print] = Counter()
        self.has_checkpoints = False  # whether user code contains checkpoints, which hide the tensors that eager saves

    def hear(self, translator: Any) -> None:
        place = place_of(translator)
        if not place:
            return
        if not self.places:
            self._note_state()
        self.places[place] = None

    def _note_state(self) -> None:
        """Record random states, a copy of the module, and the versions of the inputs."""
        self.states = [g.clone_state() for g in generators()]
        self.others = other_states()
        self.versions = self._versions()
        module = self.args[0] if self.args else None
        place = compiled_modules.place_of(module) if isinstance(module, nn.Module) else None
        if isinstance(module, nn.Module) and place is not None and place.run is self.function and place.fullgraph:
            with contextlib.suppress(Exception):  # if the module cannot be copied, the results are not compared
                self.copy = compiled_modules.eager_copy(module, {id(p): p for p in module.parameters()})

    def _versions(self) -> list[int]:
        return versions_of(list(tree_iter((self.args[1:], self.kwargs))))

    def take(self, module: fx.GraphModule, inputs: Sequence[Any]) -> None:
        """Before the first run of the captured graph, compute the fingerprints of its tensors."""
        self.has_checkpoints |= any(CHECKPOINT_CALL in str(n.target) for n in module.graph.nodes)
        if self.copy is not None:
            with drawing_from([g.clone_state() for g in generators()]):
                self.captured = prints(lambda: module(*apart_from(inputs)))

    def compare(self, say: Callable[[str], None], report: Report) -> None:
        """Warn if the captured graph and eager compute different tensors. If eager cannot be run for the comparison, add a note
        to the report.
        """
        places = list(self.places)
        named = ", ".join(places[:MOST_NAMED]) + (f" and {len(places) - MOST_NAMED} more" if places[MOST_NAMED:] else "")
        eager = self._eager()
        if eager is not None and eager <= self.captured and not self.has_checkpoints:
            return
        if self.has_checkpoints:
            say(
                f"{named} tests whether it is compiled, so the plan's bits may differ from eager's."
                " torch.utils.checkpoint hides the tensors that eager saves; compare the bits with verify=True"
            )
        if eager is not None and eager <= self.captured:
            return
        if eager is None:
            note = f"where capture and eager differ, the plan has the capture's bits: {named} tests whether it is compiled"
        else:
            note = (
                f"the plan has the capture's bits, not eager's: {named} tests whether it is compiled, and runs other code then"
            )
            n = (eager - self.captured).total()
            say(f"{note}; {n} of {eager.total()} tensors that eager returns or saves for backward differ")
        for graph in report.graphs[-1:]:
            graph.notes.append(note)

    def _eager(self) -> Counter[Print] | None:
        """Return the fingerprints of an eager run, or None if the call cannot be repeated."""
        model = self.copy
        if model is None or self.versions != self._versions():
            return None
        try:
            with drawing_from(self.states), others_as(self.others):
                return prints(lambda: model.forward(*self.args[1:], **self.kwargs))
        except Exception:  # any exception: a copy of the module may be incomplete and fail to run
            return None


@contextlib.contextmanager
def asking(function: Run, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[Asked]:
    """Record within the context whether user code asks if it is being compiled."""
    asked = Asked(function, args, kwargs)
    LISTENERS.here.append(asked)
    try:
        with answers_told(hear):
            yield asked
    finally:
        LISTENERS.here.pop()


def hear(translator: Any) -> None:
    if LISTENERS.here:
        LISTENERS.here[-1].hear(translator)


def other_states() -> tuple[Any, Any]:
    """Return the states of the generators of Python and, if imported, of NumPy."""
    numpy: Any = sys.modules.get("numpy")
    return random.getstate(), numpy.random.get_state() if numpy is not None else None


@contextlib.contextmanager
def others_as(states: tuple[Any, Any]) -> Iterator[None]:
    """Within the context, the generators of Python and NumPy have these states. Afterwards, the present states are restored."""
    now = other_states()
    try:
        put_others(states)
        yield
    finally:
        put_others(now)


def put_others(states: tuple[Any, Any]) -> None:
    random.setstate(states[0])
    if states[1] is not None:
        sys.modules["numpy"].random.set_state(states[1])


def print_of(tensor: torch.Tensor) -> Print:
    """Return the fingerprint of a tensor. It does not depend on the tensor's layout."""
    parts = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return tensor.dtype, tensor.numel(), int(parts.detach().view(BITS[parts.element_size()]).sum(dtype=torch.int64))


def prints(call: Callable[[], Any]) -> Counter[Print]:
    """Return the fingerprints of all tensors that a forward returns or would save. The forward saves nothing."""
    found: Counter[Print] = Counter()

    def take(tensor: torch.Tensor) -> torch.Tensor:
        if (tensor.is_floating_point() or tensor.is_complex()) and tensor.layout is torch.strided:
            found[print_of(tensor)] += 1
        return NOTHING

    cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        with torch.autograd.graph.saved_tensors_hooks(take, lambda kept: kept):
            for output in tensors_of(call()):
                take(output)
    finally:
        torch.set_autocast_cache_enabled(cached)
    return found


class Heard:
    """A compiled graph. Before its first run, `asked` records its fingerprints."""

    def __init__(self, asked: Asked, module: fx.GraphModule, compiled: Run) -> None:
        self.asked: tuple[Asked, fx.GraphModule] | None = (asked, module)
        self.compiled = compiled

    def __call__(self, *inputs: Any) -> Any:
        if self.asked is not None:
            (asked, module), self.asked = self.asked, None
            asked.take(module, inputs)
        return self.compiled(*inputs)


def heard(module: fx.GraphModule, compiled: Run) -> Run:
    """Wrap a compiled graph if user code asked, during its capture, whether it is compiled."""
    asked = LISTENERS.here[-1] if LISTENERS.here else None
    return Heard(asked, module, compiled) if asked is not None and asked.places else compiled
