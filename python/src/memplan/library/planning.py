"""A graph, a search and its answer: memplan/planning.h as a Python object."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Sequence
from ctypes import byref, c_int, c_void_p
from dataclasses import dataclass
from typing import Any

from memplan.errors import BudgetError, MemplanError
from memplan.library.calls import STATUS_INFEASIBLE, STATUS_OK, ProgressCall, library

TICK_SECONDS = 1e-9
NO_BUDGET = 2**63 - 1
VIEW_MEMORY = 1  # mp_timeline_view


@dataclass(frozen=True)
class Progress:
    """How far a search is; None where there is nothing yet."""

    elapsed_seconds: float
    best_seconds: float | None
    bound_seconds: float | None
    smallest_bytes: int | None


Watcher = Callable[[Progress], Any]


class Interrupts:
    """While it is entered, Ctrl-C is noted only; it has its effect when it is left. In threads that get no signals it does
    nothing."""

    def __init__(self) -> None:
        self.seen = False
        self.before: Any = None

    def _note(self, *_: object) -> None:
        self.seen = True

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self.before = signal.signal(signal.SIGINT, self._note)

    def __exit__(self, *_: object) -> None:
        if self.before is not None:
            signal.signal(signal.SIGINT, self.before)
        if self.seen:
            self.before(signal.SIGINT, None)


def known(n: int, scale: float) -> float | None:
    return n * scale if n >= 0 else None


class Planning:
    """Built by calls, then finished, then asked. Every failure is an exception with the library's sentence."""

    def __init__(self, name: str) -> None:
        self.library = library()
        self.was_ended = False  # the last search, by its watcher
        self.handle: int | None = self.library.mp_planning_new(name.encode(), TICK_SECONDS)
        if self.handle is None:
            raise MemoryError("no memory for a graph")

    def __del__(self) -> None:
        if getattr(self, "handle", None) is not None:
            self.library.mp_planning_free(self.handle)

    def _sentence(self) -> str:
        return str(self.library.mp_planning_message(self.handle).decode())

    def _must(self, status: int) -> None:
        if status != STATUS_OK:
            raise MemplanError(self._sentence())

    def add_storage(self, name: str, kind: str, n_bytes: int) -> int:
        index = int(self.library.mp_planning_add_storage(self.handle, name.encode(), kind.encode(), n_bytes))
        if index < 0:
            raise MemplanError(self._sentence())
        return index

    def add_node(self, name: str, op: str, phase: str, seconds: float, workspace_bytes: int) -> int:
        ticks = round(seconds / TICK_SECONDS)
        index = int(
            self.library.mp_planning_add_node(self.handle, name.encode(), op.encode(), phase.encode(), ticks, workspace_bytes)
        )
        if index < 0:
            raise MemplanError(self._sentence())
        return index

    def connect(self, node: int, how: str, storages: Sequence[int]) -> None:
        if storages:
            array = (c_int * len(storages))(*storages)
            self._must(self.library.mp_planning_connect(self.handle, node, how.encode(), array, len(storages)))

    def flag(self, node: int, flag: str) -> None:
        self._must(self.library.mp_planning_flag(self.handle, node, flag.encode()))

    def finish(self) -> None:
        self._must(self.library.mp_planning_finish(self.handle))

    def set(self, option: str, value: object) -> None:
        self._must(self.library.mp_planning_set(self.handle, option.encode(), str(value).encode()))

    def solve(self, budget_bytes: int, watcher: Watcher | None = None) -> bool:
        """Whether a plan within the budget was found. What the watcher raises, Ctrl-C included, ends the search and is
        raised here; a watcher that returns False ends it with the best plan so far."""
        raised: list[BaseException] = []
        self.was_ended = False
        interrupts = Interrupts()

        def call(elapsed: float, best: int, bound: int, smallest: int, _: object) -> bool:
            try:
                if watcher is None or interrupts.seen:
                    return not interrupts.seen
                told = Progress(elapsed, known(best, TICK_SECONDS), known(bound, TICK_SECONDS), known(smallest, 1))  # type: ignore[arg-type]
                self.was_ended = watcher(told) is False
                return not self.was_ended
            except BaseException as error:
                raised.append(error)
                return False

        # A signal's handler runs when Python code next does, which is in this call: without it Ctrl-C would wait.
        progress = ProgressCall(call)
        self.library.mp_planning_on_progress(self.handle, progress, None)
        try:
            with interrupts:
                status = self.library.mp_planning_solve(self.handle, budget_bytes)
        finally:
            self.library.mp_planning_on_progress(self.handle, ProgressCall(), None)
        if raised:
            raise raised[0]
        if status == STATUS_INFEASIBLE:
            return False
        self._must(status)
        return True

    def take(self, budget_bytes: int, path: str) -> bool:
        """As solve, with the plan that save_plan has written to a file. MemplanError: there is none for this graph, or it
        does not hold."""
        plan = c_void_p()
        error = self.library.mp_planning_error(self.handle)
        graph = self.library.mp_planning_graph(self.handle)
        self._must(self.library.mp_plan_read(path.encode(), graph, byref(plan), error))
        try:
            status = self.library.mp_planning_take(self.handle, budget_bytes, plan)
        finally:
            self.library.mp_plan_free(plan)
        if status == STATUS_INFEASIBLE:
            return False
        self._must(status)
        return True

    def take_smallest(self) -> None:
        """Makes the plan of the lowest peak that the last search has found the answer."""
        plan = self.library.mp_planning_plan(self.handle)
        self._must(self.library.mp_planning_take(self.handle, self.number("smallest_bytes"), plan))

    def hash(self) -> str:
        """Of the finished graph."""
        return str(self.library.mp_planning_hash(self.handle).decode())

    def number(self, name: str) -> int:
        """A number of planning.h; MemplanError where there is none."""
        value = int(self.library.mp_planning_number(self.handle, name.encode()))
        if value < 0:
            raise MemplanError(self._sentence() or f"{name} is not known")
        return value

    def share(self, name: str) -> float:
        """Ticks of this name over keep-all's, as extra time: 0.25 takes a quarter longer. NaN: not known."""
        ticks = int(self.library.mp_planning_number(self.handle, name.encode()))
        baseline = self.number("keep_all_ticks")
        return ticks / baseline - 1 if ticks >= 0 and baseline else math.nan

    def steps(self) -> list[int]:
        most = int(self.library.mp_planning_steps(self.handle, None, 0))
        array = (c_int * most)()
        self.library.mp_planning_steps(self.handle, array, most)
        return list(array)

    def holders(self, most: int = 64) -> tuple[int, list[int]]:
        """The node at the peak, and what is live there, largest first."""
        node, array = c_int(-1), (c_int * most)()
        n = int(self.library.mp_planning_holders(self.handle, node, array, most))
        return node.value, list(array)[: min(n, most)]

    def save_graph(self, path: str) -> None:
        error = self.library.mp_planning_error(self.handle)
        self._must(self.library.mp_graph_write(self.library.mp_planning_graph(self.handle), path.encode(), error))

    def save_plan(self, path: str) -> None:
        error = self.library.mp_planning_error(self.handle)
        plan = self.library.mp_planning_plan(self.handle)
        if plan is None:
            raise BudgetError("there is no plan to save")
        graph = self.library.mp_planning_graph(self.handle)
        self._must(self.library.mp_plan_write(plan, graph, path.encode(), error))

    def picture(self, path: str, title: str) -> None:
        error = self.library.mp_planning_error(self.handle)
        graph, plan = self.library.mp_planning_graph(self.handle), self.library.mp_planning_plan(self.handle)
        self._must(self.library.mp_timeline_picture(graph, plan, title.encode(), VIEW_MEMORY, path.encode(), error))
