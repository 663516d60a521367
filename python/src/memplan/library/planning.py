"""Python interface to memplan/planning.h: a graph, a search and its result."""

from __future__ import annotations

import itertools
import math
import operator
import os
import signal
import threading
from collections.abc import Callable, Sequence
from ctypes import byref, c_int, c_int64, c_void_p
from dataclasses import dataclass
from typing import Any, NoReturn

from memplan.errors import BudgetError, MemplanError
from memplan.library.calls import STATUS_INFEASIBLE, STATUS_OK, ProgressCall, library

TICK_SECONDS = 1e-9
NO_BUDGET = 2**63 - 1
VIEW_MEMORY = 1  # value of MP_VIEW_MEMORY, an mp_timeline_view of the C library


@dataclass(frozen=True)
class Progress:
    """The progress of a search. Unknown values are None."""

    elapsed_seconds: float
    best_seconds: float | None
    bound_seconds: float | None
    smallest_bytes: int | None


Watcher = Callable[[Progress], Any]


@dataclass(frozen=True)
class Copy:
    """A step that copies a storage to host memory or back. `until`: the index of the step that waits for the copy."""

    storage: int
    is_back: bool
    until: int
    offset: int | None = None  # place in the slab; None: optimizer state, or a storage that no step copies back


Step = int | Copy  # a step of a plan; an int is the index of the node that the step computes


class Interrupts:
    """A context that defers signals. `deliver`, or the end of the context, calls their handlers.

    An exception raised within a callback from C, such as Ctrl-C, would be lost. In threads that receive no signals, this
    context does nothing.
    """

    def __init__(self) -> None:
        self.seen: list[tuple[int, Any]] = []
        self.before: dict[int, Any] = {}

    def _note(self, number: int, frame: Any) -> None:
        self.seen.append((number, frame))

    def deliver(self) -> None:
        while self.seen:
            number, frame = self.seen.pop(0)
            self.before[number](number, frame)

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        try:
            for number in signal.valid_signals():
                if callable(handler := signal.getsignal(number)):
                    self.before[number] = handler
                    signal.signal(number, self._note)
        except BaseException:
            self._restore()
            raise

    def _restore(self) -> None:
        raised: BaseException | None = None
        for number, handler in self.before.items():
            while signal.getsignal(number) == self._note:
                try:
                    signal.signal(number, handler)
                except BaseException as error:  # a signal handler that has already been restored may raise an exception here
                    raised = error
        if raised is not None:
            raise raised

    def __exit__(self, *_: object) -> None:
        self._restore()
        self.deliver()


def known(n: int, scale: float) -> float | None:
    return n * scale if n >= 0 else None


def within(value: Any, bits: int, what: str) -> int:
    """Return the value as an int that fits a C integer of this width, because ctypes would truncate it. Raises MemplanError."""
    try:
        number = operator.index(value)
    except TypeError:
        raise MemplanError(f"{what} must be a whole number, not {value!r}") from None
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise MemplanError(f"{what} is {number}, which does not fit into {bits} bits")
    return number


def text(value: str) -> bytes:
    """Encode a text for C. Raises MemplanError if the text contains a null character."""
    if "\0" in value:
        raise MemplanError(f"{value!r} contains a null character")
    return value.encode(errors="backslashreplace")


def file_name(path: str | os.PathLike[str]) -> bytes:
    """Encode a path for C. Raises MemplanError."""
    try:
        name = os.fsencode(path)
    except TypeError:
        raise MemplanError(f"{path!r} is not the path of a file") from None
    if b"\0" in name:
        raise MemplanError(f"{path!r} contains a null character")
    return name


def device_names() -> list[str]:
    """Return the device names of the library's table."""
    call = library().mp_planning_device
    return [name.decode() for name in iter(map(call, itertools.count()).__next__, None)]


def roofline_seconds(device: str, dtype: str, flops: float, moved_bytes: int) -> float:
    """Return the seconds of an operator on a device of the table."""
    return float(library().mp_planning_roofline(text(device), text(dtype), flops, moved_bytes))


def network_of(device: str) -> str:
    """Return the usual network of a device of the table, such as "nvlink4+ib400"."""
    return str(library().mp_planning_network(text(device)).decode())


def collective_seconds(device: str, collective: str, n_ranks: int, stride: int, whole_bytes: int) -> float:
    """Return the seconds of a collective on the device's usual network. Neighbouring ranks are `stride` apart."""
    return float(library().mp_planning_collective(text(device), text(collective), n_ranks, stride, whole_bytes))


def room_bytes(device: str) -> int:
    """Return the bytes of a device's memory that a step may use; -1 for an unknown device."""
    return int(library().mp_planning_capacity(text(device)))


class Plan:
    """A plan in the library's memory. This object owns the plan."""

    def __init__(self, handle: c_void_p) -> None:
        self.library, self.handle = library(), handle

    def __del__(self) -> None:
        self.library.mp_plan_free(self.handle)


class Planning:
    """A planning problem in the library: add storages and nodes, finish, then solve and query.

    Failures raise MemplanError with the library's message. The object owns the library's memory. Copies are the same object,
    and pickling raises an error.
    """

    def __init__(self, name: str) -> None:
        self.library = library()
        self.was_ended = False  # whether the caller's progress function has ended the last search
        self.is_finished = False
        self.n_nodes = 0  # number of nodes that the caller has added
        self.moved: set[int] = set()  # storages of optimizer state that is stored in host memory
        self.handle: int | None = self.library.mp_planning_new(text(name), TICK_SECONDS)
        if self.handle is None:
            raise MemoryError("not enough memory for the planner's graph")

    def __del__(self) -> None:
        if getattr(self, "handle", None) is not None:
            self.library.mp_planning_free(self.handle)

    def __copy__(self) -> Planning:
        return self

    def __deepcopy__(self, _: Any) -> Planning:
        return self

    def __reduce__(self) -> NoReturn:
        raise MemplanError("a plan cannot be pickled; save the model's state_dict, and compile the loaded model again")

    def _sentence(self) -> str:
        return str(self.library.mp_planning_message(self.handle).decode(errors="backslashreplace"))

    def _must(self, status: int) -> None:
        if status != STATUS_OK:
            raise MemplanError(self._sentence())

    def add_storage(self, name: str, kind: str, n_bytes: int) -> int:
        size = within(n_bytes, 64, f"the size of {name}")
        index = int(self.library.mp_planning_add_storage(self.handle, text(name), text(kind), size))
        if index < 0:
            raise MemplanError(self._sentence())
        return index

    def add_node(self, name: str, op: str, phase: str, seconds: float, workspace_bytes: int) -> int:
        if not math.isfinite(seconds):
            raise MemplanError(f"the time of {name} is {seconds} seconds, but it must be finite")
        ticks = within(round(seconds / TICK_SECONDS), 64, f"the time of {name}")
        workspace = within(workspace_bytes, 64, f"the workspace of {name}")
        index = int(self.library.mp_planning_add_node(self.handle, text(name), text(op), text(phase), ticks, workspace))
        if index < 0:
            raise MemplanError(self._sentence())
        self.n_nodes = index + 1
        return index

    def connect(self, node: int, how: str, storages: Sequence[int]) -> None:
        if storages:
            array = (c_int * len(storages))(*(within(s, 32, "the number of a storage") for s in storages))
            at = within(node, 32, "the number of a node")
            self._must(self.library.mp_planning_connect(self.handle, at, text(how), array, len(storages)))

    def flag(self, node: int, flag: str) -> None:
        at = within(node, 32, "the number of a node")
        self._must(self.library.mp_planning_flag(self.handle, at, text(flag)))

    def finish(self) -> None:
        self._must(self.library.mp_planning_finish(self.handle))
        self.is_finished = True

    def offload(self, storages: Sequence[int], states: Sequence[int], link: str, bytes_per_second: float) -> None:
        """Permit copies of these storages to host memory, over the named link; a rate other than 0 replaces the link's rate.

        The storages `states`, optimizer state, are stored in host memory.
        """
        numbers = [within(s, 32, "the number of a storage") for s in (*storages, *states)]
        array = (c_int * len(numbers))(*numbers)
        self._must(self.library.mp_planning_offload(self.handle, array, len(numbers), text(link), bytes_per_second))
        self.moved = set(states)

    def set(self, option: str, value: object) -> None:
        self._must(self.library.mp_planning_set(self.handle, text(option), text(str(value))))

    def solve(self, budget_bytes: int | None, watcher: Watcher | None = None) -> bool:
        """Search a plan within the budget (None: the smallest plan, which is deterministic).

        An exception of the watcher or of a signal handler ends the search and is raised here. If the watcher returns False, the
        search ends with the best plan so far.

        Returns:
            Whether a plan was found.
        """
        budget = None if budget_bytes is None else within(budget_bytes, 64, "a budget")
        raised: list[BaseException] = []
        self.was_ended = False
        interrupts = Interrupts()

        def call(elapsed: float, best: int, bound: int, smallest: int, _: object) -> bool:
            try:
                interrupts.deliver()
                if watcher is None:
                    return True
                told = Progress(elapsed, known(best, TICK_SECONDS), known(bound, TICK_SECONDS), known(smallest, 1))  # type: ignore[arg-type]
                self.was_ended = watcher(told) is False
                return not self.was_ended
            except BaseException as error:
                raised.append(error)
                return False

        # Python handles signals only while Python code runs. Without this callback, Ctrl-C would wait for the end of the
        # search.
        progress = ProgressCall(call)
        self.library.mp_planning_on_progress(self.handle, progress, None)
        try:
            with interrupts:
                if budget is None:
                    status = self.library.mp_planning_solve_smallest(self.handle)
                else:
                    status = self.library.mp_planning_solve(self.handle, budget)
        finally:
            self.library.mp_planning_on_progress(self.handle, ProgressCall(), None)
        if raised:
            raise raised[0]
        if status == STATUS_INFEASIBLE:
            return False
        self._must(status)
        return True

    def read(self, path: str | os.PathLike[str]) -> Plan:
        """Return the plan that save_plan has written to a file. Raises MemplanError if it is no plan of this graph."""
        plan, name = c_void_p(), file_name(path)
        error = self.library.mp_planning_error(self.handle)
        self._must(self.library.mp_plan_read(name, self._graph(), byref(plan), error))
        return Plan(plan)

    def take(self, budget_bytes: int, path: str | os.PathLike[str]) -> bool:
        """Use the plan that save_plan has written to a file, in place of a search.

        Raises:
            MemplanError: the file contains no plan for this graph, or an invalid one.
        """
        return self._used(self.library.mp_planning_take, budget_bytes, self.read(path))

    def replay(self, budget_bytes: int, plan: Plan) -> bool:
        """Use the steps of a plan for the same graph at other sizes, in place of a search. Raises MemplanError as `take`.

        Returns: Whether the plan fits the budget at the sizes of this graph.
        """
        return self._used(self.library.mp_planning_replay, budget_bytes, plan)

    def _used(self, call: Callable[..., int], budget_bytes: int, plan: Plan) -> bool:
        status = call(self.handle, within(budget_bytes, 64, "a budget"), plan.handle)
        if status == STATUS_INFEASIBLE:
            return False
        self._must(status)
        return True

    def hash(self) -> str:
        """Return the hash of the finished graph."""
        return str(self.library.mp_planning_hash(self.handle).decode())

    def number(self, name: str) -> int:
        """Return a number by its name in planning.h. Raises MemplanError if it is unknown."""
        value = int(self.library.mp_planning_number(self.handle, text(name)))
        if value < 0:
            raise MemplanError(self._sentence() or f"{name} is unknown")
        return value

    def was_cut_short(self) -> bool:
        """Whether a limit ended the search early. False if another rank has searched for this one."""
        return bool(self.library.mp_planning_number(self.handle, text("stopped")) > 0)

    def share(self, name: str) -> float:
        """Return the library's number `name`, in ticks, as extra time over keep-all: 0.25 is 25 % longer, NaN is unknown."""
        ticks = int(self.library.mp_planning_number(self.handle, text(name)))
        baseline = self.number("keep_all_ticks")
        return ticks / baseline - 1 if ticks >= 0 and baseline else math.nan

    def schedule(self) -> list[Step]:
        """Return the steps of the plan, including copies."""
        most = int(self.library.mp_planning_steps(self.handle, None, 0))
        nodes, storages, until, offsets = (c_int * most)(), (c_int * most)(), (c_int * most)(), (c_int64 * most)()
        self.library.mp_planning_steps(self.handle, nodes, most)
        self.library.mp_planning_copies(self.handle, storages, until, most)
        self.library.mp_planning_offsets(self.handle, offsets, most)
        away = set(self.moved)  # storages of optimizer state whose next copy goes from the host to the device

        def copy(node: int, storage: int, until: int, offset: int) -> Copy:
            is_back = node < self.n_nodes or storage in away
            away.discard(storage)
            return Copy(storage, is_back, until, offset if offset >= 0 else None)

        return [n if s < 0 else copy(n, s, u, o) for n, s, u, o in zip(nodes, storages, until, offsets)]

    def steps(self) -> list[int]:
        """Return the nodes that the plan computes, in order."""
        return [step for step in self.schedule() if isinstance(step, int)]

    def holders(self, most: int = 64) -> tuple[int, list[int]]:
        """Return the node that runs at the peak, and the storages live there, largest first."""
        node, array = c_int(-1), (c_int * most)()
        n = int(self.library.mp_planning_holders(self.handle, node, array, most))
        return node.value, list(array)[: min(n, most)]

    def _graph(self) -> int:
        """Return the library's graph. Raises MemplanError before `finish` has checked the graph."""
        if not self.is_finished:
            raise MemplanError("the graph is not finished")
        return int(self.library.mp_planning_graph(self.handle))

    def save_graph(self, path: str | os.PathLike[str]) -> None:
        name = file_name(path)
        error = self.library.mp_planning_error(self.handle)
        self._must(self.library.mp_graph_write(self._graph(), name, error))

    def save_plan(self, path: str | os.PathLike[str]) -> None:
        name = file_name(path)
        error = self.library.mp_planning_error(self.handle)
        plan = self.library.mp_planning_plan(self.handle)
        if plan is None:
            raise BudgetError("there is no plan to save; call the model first")
        graph = self._graph()
        self._must(self.library.mp_plan_write(plan, graph, name, error))

    def picture(self, path: str | os.PathLike[str], title: str) -> None:
        name = file_name(path)
        error = self.library.mp_planning_error(self.handle)
        graph, plan = self._graph(), self.library.mp_planning_plan(self.handle)
        self._must(self.library.mp_timeline_picture(graph, plan, text(title), VIEW_MEMORY, name, error))

    def trace(self, path: str | os.PathLike[str], title: str) -> None:
        name = file_name(path)
        error = self.library.mp_planning_error(self.handle)
        graph, plan = self._graph(), self.library.mp_planning_plan(self.handle)
        self._must(self.library.mp_trace_write(graph, plan, text(title), name, error))
