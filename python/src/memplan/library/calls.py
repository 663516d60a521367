"""Loading libmemplan.so, and the types of the functions in memplan/planning.h."""

from __future__ import annotations

import ctypes
import functools
import os
import struct
from collections.abc import Iterator
from ctypes import CFUNCTYPE, POINTER, c_bool, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path

from memplan.errors import LibraryError

INTERFACE = 1
STATUS_OK, STATUS_INFEASIBLE = 0, 5
LOADED = 1  # PT_LOAD: the type of a file segment that the loader maps into memory
ProgressCall = CFUNCTYPE(c_bool, c_double, c_int64, c_int64, c_int64, c_void_p)
TrialCall = CFUNCTYPE(c_int, c_void_p, c_int64, POINTER(c_int64), POINTER(c_bool), c_void_p)
Ints = POINTER(c_int)

# for each function of planning.h: the type of its result, then the types of its arguments
CALLS: dict[str, tuple[object, ...]] = {
    "mp_planning_interface": (c_int,),
    "mp_planning_new": (c_void_p, c_char_p, c_double),
    "mp_planning_free": (None, c_void_p),
    "mp_planning_message": (c_char_p, c_void_p),
    "mp_planning_error": (c_void_p, c_void_p),
    "mp_planning_graph": (c_void_p, c_void_p),
    "mp_planning_plan": (c_void_p, c_void_p),
    "mp_planning_add_storage": (c_int, c_void_p, c_char_p, c_char_p, c_int64),
    "mp_planning_add_node": (c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_int64, c_int64),
    "mp_planning_connect": (c_int, c_void_p, c_int, c_char_p, Ints, c_size_t),
    "mp_planning_flag": (c_int, c_void_p, c_int, c_char_p),
    "mp_planning_finish": (c_int, c_void_p),
    "mp_planning_offload": (c_int, c_void_p, Ints, c_size_t, c_char_p, c_double),
    "mp_planning_set": (c_int, c_void_p, c_char_p, c_char_p),
    "mp_planning_on_progress": (None, c_void_p, ProgressCall, c_void_p),
    "mp_planning_solve": (c_int, c_void_p, c_int64),
    "mp_planning_solve_smallest": (c_int, c_void_p),
    "mp_planning_take": (c_int, c_void_p, c_int64, c_void_p),
    "mp_planning_replay": (c_int, c_void_p, c_int64, c_void_p),
    "mp_planning_hash": (c_char_p, c_void_p),
    "mp_planning_number": (c_int64, c_void_p, c_char_p),
    "mp_planning_steps": (c_size_t, c_void_p, Ints, c_size_t),
    "mp_planning_copies": (c_size_t, c_void_p, Ints, Ints, c_size_t),
    "mp_planning_offsets": (c_size_t, c_void_p, POINTER(c_int64), c_size_t),
    "mp_planning_holders": (c_size_t, c_void_p, Ints, Ints, c_size_t),
    "mp_planning_device": (c_char_p, c_size_t),
    "mp_planning_roofline": (c_double, c_char_p, c_char_p, c_double, c_int64),
    "mp_planning_achieved": (
        c_double,
        c_char_p,
        c_char_p,
        c_char_p,
        POINTER(c_double),
        c_size_t,
        c_int64,
        POINTER(c_double),
        POINTER(c_char_p),
    ),
    "mp_planning_accuracy": (c_bool, POINTER(c_char_p), POINTER(c_double), c_size_t, c_char_p),
    "mp_planning_capacity": (c_int64, c_char_p),
    "mp_planning_reserve": (c_int64, c_char_p),
    "mp_planning_budget": (c_char_p, c_char_p, c_int64, c_int64, POINTER(c_int64)),
    "mp_planning_link_rate": (c_double, c_char_p),
    "mp_planning_network": (c_char_p, c_char_p),
    "mp_planning_collective": (c_double, c_char_p, c_char_p, c_int64, c_int64, c_int64),
    "mp_process_memory_of": (c_bool, c_char_p, c_char_p, c_int64, c_void_p),
    "mp_allocator_replay": (c_int, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p),
    "mp_card_budget": (c_int, c_int64, c_bool, TrialCall, c_void_p, c_void_p),
    "mp_process_room": (c_int64, c_char_p, c_char_p, c_int64, c_int64),
    "mp_graph_write": (c_int, c_void_p, c_char_p, c_void_p),
    "mp_plan_read": (c_int, c_char_p, c_void_p, POINTER(c_void_p), c_void_p),
    "mp_plan_free": (None, c_void_p),
    "mp_plan_write": (c_int, c_void_p, c_void_p, c_char_p, c_void_p),
    "mp_trace_write": (c_int, c_void_p, c_void_p, c_char_p, c_char_p, c_void_p),
    "mp_timeline_picture": (c_int, c_void_p, c_void_p, c_char_p, c_int, c_char_p, c_void_p),
}


def candidates() -> Iterator[str]:
    """Yield possible paths of libmemplan.so, best first: the environment variable, the wheel, the linker's search path."""
    if named := os.environ.get("MEMPLAN_LIBRARY"):
        yield named
        return
    own = Path(__file__).parents[1] / "libmemplan.so"
    if own.exists():
        yield str(own)
    yield "libmemplan.so"


def refuse_broken(path: str) -> None:
    """Raise LibraryError for files with which the linker would hang or crash: pipes, and truncated libraries."""
    if os.sep not in path or not os.path.exists(path):
        return  # for a name without a folder, the linker searches the library and reports an error
    if not os.path.isfile(path):
        raise LibraryError(f"{path} is not a file")
    with open(path, "rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:6] != b"\x7fELF\2\1":
            return  # files that are no ELF libraries of this machine are left to the linker, which reports the error
        start, size, n = *struct.unpack_from("<Q", head, 32), *struct.unpack_from("<HH", head, 54)
        file.seek(min(start, 1 << 62))
        table = file.read(size * n)
    for at in range(0, len(table) - 39, max(size, 40)):
        kind, _, offset, _, _, n_bytes = struct.unpack_from("<IIQQQQ", table, at)
        if kind == LOADED and offset + n_bytes > os.path.getsize(path):
            raise LibraryError(f"{path} is truncated: it has {os.path.getsize(path)} bytes instead of {offset + n_bytes}")


@functools.cache
def library() -> ctypes.CDLL:
    """Return the C library, which is loaded once. Its functions run without the GIL. Raises LibraryError."""
    failures = []
    for path in candidates():
        try:
            refuse_broken(path)
            found = ctypes.CDLL(path)
        except OSError as error:
            failures.append(str(error))
            continue
        try:
            for name, (result, *arguments) in CALLS.items():
                call = getattr(found, name)
                call.restype, call.argtypes = result, arguments
            interface = found.mp_planning_interface()
        except AttributeError as error:
            raise LibraryError(f"{path} is too old for this package: {error}") from None
        if interface != INTERFACE:
            raise LibraryError(f"{path} has interface {interface}; this package needs {INTERFACE}")
        return found
    if os.environ.get("MEMPLAN_LIBRARY"):
        raise LibraryError(f"the library in MEMPLAN_LIBRARY cannot be loaded: {failures[0]}")
    raise LibraryError(
        "libmemplan.so is not found; install the package with pip, or name the library in MEMPLAN_LIBRARY: "
        + "; ".join(failures)
    )
