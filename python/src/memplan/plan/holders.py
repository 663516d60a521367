"""Where the memory at the peak comes from: the node that made each tensor, its module, and the line of user code."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import fx

from memplan.budget import in_units
from memplan.graph.capture import Capture
from memplan.graph.regions import module_name
from memplan.library.planning import Planning

LINE = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
OURS = str(Path(__file__).parents[1]) + os.sep
MOST_NAMED = 3
RETURNED = " returned"  # suffix of names of storages held by the caller
WORDS = {
    "activation": "activation",
    "saved": "saved for backward",
    "activation_gradient": "gradient of an activation",
    "gradient": "gradient of a parameter",
}


@dataclass(frozen=True)
class Line:
    """A line of user code: file, line number, and the function that contains it."""

    file: str
    number: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


@dataclass(frozen=True)
class Holder:
    """A tensor in memory at the peak of a plan."""

    name: str
    kind: str
    n_bytes: int
    module: str  # innermost module whose call created the tensor; "": unknown
    line: Line | None  # line of user code that created the tensor; for backward nodes, the line of the forward operator


def module_of(node: fx.Node | None) -> str:
    """Return the innermost module whose forward (or its backward) contains a node."""
    meta = node.meta if node is not None else {}
    stack: Mapping[Any, tuple[str, Any]] = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack") or {}
    return module_name(str(next(reversed(list(stack.values())), ("", None))[0]))


def lines_of(node: fx.Node | None) -> list[Line]:
    """Return the calls that created a node, outermost first.

    For a backward node, the calls are those of its forward operator.
    """
    found = LINE.findall((node.meta.get("stack_trace") or "") if node is not None else "")
    return [Line(file, int(number), function) for file, number, function in found if not file.startswith(OURS)]


def line_of(node: fx.Node | None) -> Line | None:
    return next(reversed(lines_of(node)), None)


def makers(capture: Capture) -> dict[str, fx.Node]:
    """Return the nodes of the joint graph by name."""
    return {node.name: node for node in capture.joint.graph.nodes}


def maker_of(name: str, known: Mapping[str, fx.Node]) -> fx.Node | None:
    """Return the node of a storage by name. Storages of nodes with several results have a numeric suffix."""
    plain = name.removesuffix(RETURNED)
    return known.get(plain) or known.get(plain.rpartition(".")[0])


def holders_at_peak(planning: Planning, capture: Capture) -> tuple[str, list[Holder]]:
    """Return the operator at the plan's peak ("" for the end) and the dynamic tensors in memory there, largest first."""
    node, storages = planning.holders(len(capture.storages))
    known = makers(capture)
    found = []
    for storage in (capture.storages[s] for s in storages if s < len(capture.storages)):
        maker = maker_of(storage.name, known)
        if storage.n_bytes:
            found.append(Holder(storage.name, storage.kind, storage.n_bytes, module_of(maker), line_of(maker)))
    if node >= len(capture.operations):
        return "a copy", found
    return (capture.operations[node].name if node >= 0 else ""), found


def who_holds(peak_at: str, holders: Sequence[Holder], static_bytes: int) -> str:
    named = [f"{h.name} {in_units(h.n_bytes)}" + (f" ({h.module})" if h.module else "") for h in holders[:MOST_NAMED]]
    rest = f" and {len(holders) - MOST_NAMED} more" if len(holders) > MOST_NAMED else ""
    listed = ", ".join(named) or "nothing else"
    return f"at {peak_at or 'its end'}, with {listed}{rest} beside {in_units(static_bytes)} of static memory"
