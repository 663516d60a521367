"""The public function explain_oom: hooks that report a failed allocation.

Without a failure, the cost is one hook at the first call of a model per step. A GPU's allocator reports every failure. On
other devices, memplan explains the exception that propagates.
"""

from __future__ import annotations

import contextlib
import gc
import mmap
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

import torch

from memplan.explain.calls import Call, Calls
from memplan.explain.explanation import Explanation, explain
from memplan.explain.failure import Failure, addresses_are_limited, first_of, is_out_of_memory, of_error, of_threads
from memplan.explain.reserved import Reserved
from memplan.torch_internals.devices import on_out_of_memory

ROOM_BYTES = 256 << 20  # bytes of address space kept for the explanation, if the system limits address space (ulimit -v)
EXPLAINED = "memplan_explained"  # attribute of an exception that memplan has explained, so that it is explained once


class Watching:
    """The result of explain_oom.

    As a context manager, it stops at the end of the block, and also explains an error that leaves the block. `last` is the last
    explanation; its rows are in `last.account.pieces`.
    """

    def __init__(self) -> None:
        self.last: Explanation | None = None
        self.calls: Calls | None = None
        self.is_explaining = False
        self.is_observing = False
        self.apart: ThreadPoolExecutor | None = None
        self.room: mmap.mmap | None = None  # reserved address space, which is released so that the explanation has room
        self.n_asked = 0  # number of explain_oom calls that are still in effect: calls minus ended blocks

    def install(self) -> Watching:
        self.n_asked += 1
        if self.calls is not None:
            return self
        self.calls = Calls(self._observe_device)
        if addresses_are_limited():
            self.room = mmap.mmap(-1, ROOM_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.excepthook, self.threads_hook = sys.excepthook, threading.excepthook
        sys.excepthook, threading.excepthook = self._uncaught, self._uncaught_in_thread
        return self

    def _observe_device(self) -> None:
        """Observe CUDA only after the script has initialized it. Processes forked earlier can then still use CUDA."""
        cuda: Any = torch.cuda
        if not self.is_observing and cuda.is_initialized():
            self.is_observing = on_out_of_memory(self._observe)

    def remove(self) -> None:
        """Undo one call of explain_oom. When all calls are undone, the hooks and observers are removed."""
        self.n_asked -= 1
        if self.calls is None or self.n_asked > 0:
            return
        self.calls.remove()
        self.calls = None
        self._make_room()
        if sys.excepthook == self._uncaught:
            sys.excepthook = self.excepthook
        if threading.excepthook == self._uncaught_in_thread:
            threading.excepthook = self.threads_hook

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._passes(error)
        self.remove()

    def _uncaught(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        self.excepthook(kind, error, traceback)
        self._passes(error)

    def _uncaught_in_thread(self, args: Any) -> None:
        self.threads_hook(args)
        self._passes(args.exc_value)

    def _passes(self, error: BaseException | None) -> None:
        found = first_of(error)
        if found is not None and not hasattr(found, EXPLAINED):
            with contextlib.suppress(AttributeError):
                setattr(found, EXPLAINED, True)
            failure = of_error(found)
            if failure.device.type == "cpu":
                self._explain(failure, None)
            elif not self.is_observing:
                self._explain(failure, Reserved.now(failure.device.index, torch.cuda.mem_get_info(failure.device)[0]))

    def _observe(self, device: int, tried_bytes: int, _: int, free_bytes: int) -> None:
        """Explain a failed allocation of a GPU. The CUDA allocator calls this function."""
        if self.calls is None or self.is_explaining:
            return
        failure = Failure(tried_bytes, torch.device("cuda", device), of_threads())
        self._explain_apart(failure, Reserved.now(device, free_bytes))

    def _make_room(self) -> None:
        if self.room is not None:
            self.room.close()
            self.room = None

    def _explain_apart(self, failure: Failure, reserved: Reserved | None) -> None:
        """Explain in another thread, because autograd is off within an operator.

        The thread remains, because PyTorch before 2.11 leaks data of a thread that had fake tensors.
        """
        if self.apart is None:
            self.apart = ThreadPoolExecutor(1, "memplan")
        self.apart.submit(self._explain, failure, reserved).result()

    def _explain(self, failure: Failure, reserved: Reserved | None) -> None:
        """Print an explanation. Never raises, because the script's own error is propagating."""
        assert self.calls is not None
        self.is_explaining = True
        self._make_room()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.last = explained(failure, self.calls.last, reserved)
            sys.stderr.write(f"{self.last}\n")
        except Exception as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            place = f" at {failure.place}" if failure.place else ""
            also = "memory also ran out while memplan explained it" if is_out_of_memory(error) else reason
            sys.stderr.write(f"memplan: out of memory{place}, without an explanation: {also}\n")
        finally:
            # the garbage collector frees the replayed call, its capture and its exceptions, which refer to the user's
            # propagating exception
            gc.collect()
            self.is_explaining = False


def explained(failure: Failure, last: Call | None, reserved: Reserved | None) -> Explanation:
    """Explain a failure. If this needs too much memory, explain it without lines and a plan, and do not repeat the call."""
    try:
        return explain(failure, last, reserved)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
    gc.collect()
    found = explain(failure, None, reserved)
    found.notes = [
        ("memory also ran out during memplan's search for lines and a plan, so the modules are those of the nearest parameters")
    ]
    return found


WATCHING = Watching()


def explain_oom() -> Watching:
    """Explain every failed allocation on stderr. This works in any script and needs no plan.

    The explanation lists the live memory by kind, module and line, the allocation that failed, and a line of code that would
    have avoided the failure.
    """
    return WATCHING.install()
