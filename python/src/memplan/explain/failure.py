"""A failed allocation: requested bytes, place, and part of the step."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import torch
from torch import nn

from memplan import errors
from memplan.budget import read_bytes
from memplan.explain.calls import CALL
from memplan.torch_internals.autograd import next_number

NOT_THE_USERS = tuple(os.path.dirname(f) + os.sep for f in (torch.__file__, errors.__file__))
BACKWARD = {torch.autograd.backward.__code__, torch.autograd.grad.__code__}
# arguments of torch.autograd.backward and torch.autograd.grad that contain the tensors at which backward starts
ROOTS = ("tensors", "outputs")
TRIED = re.compile(r"[Tt]ried to allocate ([\d.]+) ?(?:bytes|([KMGT]i?B))")
OF_ADDRESSES = re.compile(r"(VmPeak|VmSize):\s+(\d+) kB")
OUT_OF_MEMORY: type[BaseException] = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
SAYS_SO = ("can't allocate memory", "not enough memory", "std::bad_alloc")


def is_out_of_memory(error: BaseException) -> bool:
    by_type = isinstance(error, (OUT_OF_MEMORY, MemoryError))
    return by_type or (isinstance(error, RuntimeError) and any(s in str(error) for s in SAYS_SO))


def tried_bytes(error: BaseException) -> int | None:
    """Return the requested bytes, or None if the error does not state them."""
    found = TRIED.search(str(error))
    return read_bytes(found[1] + (found[2] or "")) if found else None


def first_of(error: BaseException | None) -> BaseException | None:
    """Return the earliest failed allocation among an error and its causes, or None."""
    found = None
    while error is not None:
        found = error if is_out_of_memory(error) else found
        error = error.__cause__ or error.__context__
    return found


def addresses_are_limited() -> bool:
    """Whether address space is limited (`ulimit -v`)."""
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def released_bytes() -> int:
    """Return the bytes of address space that the process has released since its peak; 0 if unknown."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as status:
        found = {m[1]: int(m[2]) << 10 for line in status if (m := OF_ADDRESSES.match(line))}
    return found.get("VmPeak", 0) - found.get("VmSize", 0)


class At(NamedTuple):
    """One frame of a call stack, with its current line and instruction."""

    frame: FrameType
    line: int
    instruction: int

    @property
    def is_users(self) -> bool:
        name = self.frame.f_code.co_filename
        return not name.startswith((*NOT_THE_USERS, "<frozen"))

    @property
    def place(self) -> str:
        return f"{shown(self.frame.f_code.co_filename)}:{self.line}"


def shown(path: str) -> str:
    """Return a path relative to the working directory, or file name and folder for paths outside of it."""
    near = os.path.relpath(path) if os.path.isabs(path) else path
    return near if not near.startswith("..") else os.path.join(*path.split(os.sep)[-2:])


def of_traceback(traceback: TracebackType | None) -> list[At]:
    """Return the frames of a traceback, outermost first, including the callers of the catching function."""
    inside = []
    while traceback is not None:
        inside.append(At(traceback.tb_frame, traceback.tb_lineno, traceback.tb_lasti))
        traceback = traceback.tb_next
    outside = of_frame(inside[0].frame.f_back) if inside else []
    return outside + inside


def of_frame(frame: FrameType | None) -> list[At]:
    found = []
    while frame is not None:
        found.append(At(frame, frame.f_lineno, frame.f_lasti))
        frame = frame.f_back
    return found[::-1]


def of_threads() -> list[At]:
    """Return the frames of all threads, those of the calling thread last.

    A GPU's backward runs in a thread without Python frames.
    """
    here = of_frame(sys._getframe(1))
    codes = {a.frame for a in here}
    return [a for f in sys._current_frames().values() if f not in codes for a in of_frame(f)] + here


class Where(NamedTuple):
    """A place in the user's model: the name of a module, and a line of code."""

    module: str = ""
    place: str = ""
    instruction: int = -1  # index of the instruction within the line; -1: unknown

    def __str__(self) -> str:
        return f"{self.module} ({self.place})" if self.module and self.place else self.module or self.place


def path_of(stack: Sequence[At], names: dict[int, str]) -> list[Where]:
    """Return the lines of user code in the stack, from the model's call inwards, each with its module."""
    found: list[Where] = []
    module = ""
    for at in stack:
        if at.frame.f_code is CALL and id(at.frame.f_locals.get("self")) in names:
            module = names[id(at.frame.f_locals["self"])]
            found[-1:] = [Where(module, w.place, w.instruction) for w in found[-1:]]
        elif module and at.is_users:
            found.append(Where(module, at.place, at.instruction))
    return found


def module_names(model: nn.Module) -> dict[int, str]:
    """Return the names of the model's modules by id. The model itself has the name of its class."""
    return {id(m): name or type(m).__name__ for name, m in model.named_modules()}


@dataclass
class Failure:
    """A failed allocation. `tried_bytes`: None if unknown. `stack`: outermost frame first."""

    tried_bytes: int | None
    device: torch.device
    stack: list[At]

    def __post_init__(self) -> None:
        self.released_bytes = released_bytes()
        self.next_number = next_number()  # number that the next autograd node would have received at the failure
        self.phase = self._phase()
        # the line of user code at which the allocation failed
        self.place = next((at.place for at in reversed(self.stack) if at.is_users), "")

    def forget(self) -> None:
        """Release the recorded frames, whose variables keep the step's tensors alive."""
        self.stack = []

    def _phase(self) -> str:
        """Return the part of the step: "backward", "update", "forward", or "" if unknown."""
        for at in self.stack:
            if at.frame.f_code in BACKWARD:
                return "backward"
            if at.frame.f_code.co_name == "step" and isinstance(self_of(at), torch.optim.Optimizer):
                return "update"
        return "forward" if any(at.frame.f_code is CALL for at in self.stack) else ""

    @property
    def roots(self) -> list[torch.Tensor]:
        """The tensors from which backward started."""
        for at in self.stack:
            if at.frame.f_code in BACKWARD:
                found = [at.frame.f_locals.get(name) for name in ROOTS]
                return [t for f in found for t in (f if isinstance(f, (tuple, list)) else [f]) if isinstance(t, torch.Tensor)]
        return []

    @property
    def frames(self) -> list[FrameType]:
        return [at.frame for at in self.stack]


def self_of(at: At) -> Any:
    return at.frame.f_locals.get("self")


def of_error(error: BaseException) -> Failure:
    tried = tried_bytes(error)
    is_cuda = isinstance(error, OUT_OF_MEMORY) or "CUDA out of memory" in str(error)
    device = torch.device("cuda", torch.cuda.current_device()) if is_cuda and torch.cuda.is_available() else torch.device("cpu")
    return Failure(tried, device, of_traceback(error.__traceback__))
