"""libmemplan.so: where it is, and the types of the calls of memplan/planning.h."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Iterator
from ctypes import CFUNCTYPE, POINTER, c_bool, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path

from memplan.errors import LibraryError

INTERFACE = 1
STATUS_OK, STATUS_INFEASIBLE = 0, 5
ProgressCall = CFUNCTYPE(c_bool, c_double, c_int64, c_int64, c_int64, c_void_p)
Ints = POINTER(c_int)

# name: result, arguments
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
    "mp_planning_set": (c_int, c_void_p, c_char_p, c_char_p),
    "mp_planning_on_progress": (None, c_void_p, ProgressCall, c_void_p),
    "mp_planning_solve": (c_int, c_void_p, c_int64),
    "mp_planning_take": (c_int, c_void_p, c_int64, c_void_p),
    "mp_planning_hash": (c_char_p, c_void_p),
    "mp_planning_number": (c_int64, c_void_p, c_char_p),
    "mp_planning_steps": (c_size_t, c_void_p, Ints, c_size_t),
    "mp_planning_holders": (c_size_t, c_void_p, Ints, Ints, c_size_t),
    "mp_graph_write": (c_int, c_void_p, c_char_p, c_void_p),
    "mp_plan_read": (c_int, c_char_p, c_void_p, POINTER(c_void_p), c_void_p),
    "mp_plan_free": (None, c_void_p),
    "mp_plan_write": (c_int, c_void_p, c_void_p, c_char_p, c_void_p),
    "mp_timeline_picture": (c_int, c_void_p, c_void_p, c_char_p, c_int, c_char_p, c_void_p),
}


def candidates() -> Iterator[str]:
    """Where the library may be, best first: as told, in the wheel, where the linker looks."""
    if named := os.environ.get("MEMPLAN_LIBRARY"):
        yield named
        return
    own = Path(__file__).parents[1] / "libmemplan.so"
    if own.exists():
        yield str(own)
    yield "libmemplan.so"


@functools.cache
def library() -> ctypes.CDLL:
    """The library, loaded once. Calls into it let other threads run. LibraryError."""
    failures = []
    for path in candidates():
        try:
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
    raise LibraryError(
        "libmemplan.so is not found; install the package with pip, or name the library in MEMPLAN_LIBRARY: "
        + "; ".join(failures)
    )
