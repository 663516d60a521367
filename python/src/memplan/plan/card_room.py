"""The memory of a named card in which 19 of 20 jobs run, and the bytes by which a step exceeds it."""

from __future__ import annotations

from memplan.costs.roofline import Device
from memplan.graph.attention import HALVES
from memplan.graph.capture import Capture, tensors_of
from memplan.library.quantities import process_room
from memplan.memory.allocator import NotSimulated, OutOfMemory, Settings
from memplan.memory.process import family_of
from memplan.memory.trace import Trace


def room_on(capture: Capture, card: Device) -> int:
    """Return the bytes that the allocator may reserve on a named card; -1: the card has no row in memplan's table."""
    nodes = [o.source for o in capture.operations if o.source is not None]
    halves = any(t.dtype in HALVES for n in nodes for t in tensors_of([n.meta.get("val")]))
    return process_room(card.name, family_of((str(n.target) for n in nodes), halves))


def excess_of(trace: Trace, room: int) -> int:
    """Return by how many bytes the allocator's reserve exceeds the room; 0: the allocator serves the step in the room."""
    try:
        settings = Settings.from_environment()
        trace.reserved_bytes(settings, room)
    except OutOfMemory:
        return max(1, trace.reserved_bytes(settings) - room)
    except NotSimulated:
        return 0
    return 0
