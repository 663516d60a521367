"""Who holds memory: a tensor's maker, its module and its line in the user's code."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import fx

from memplan.budget import in_units
from memplan.checkpoints.regions import module_name
from memplan.graph.capture import Capture
from memplan.library.planning import Planning

LINE = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
OURS = str(Path(__file__).parents[1]) + os.sep
MOST_NAMED = 3
RETURNED = " returned"  # behind the name of what the caller has
WORDS = {
    "activation": "activation",
    "saved": "saved for backward",
    "activation_gradient": "gradient of an activation",
    "gradient": "gradient of a parameter",
}


@dataclass(frozen=True)
class Line:
    """Of the user's code."""

    file: str
    number: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


@dataclass(frozen=True)
class Holder:
    """A tensor that is in memory at the peak."""

    name: str
    kind: str
    n_bytes: int
    module: str  # the innermost module whose call made it, "" if not known
    line: Line | None  # on which it was made, or that of forward for what backward makes


def module_of(node: fx.Node | None) -> str:
    """The innermost module in whose forward, or in the backward of which, a node is."""
    meta = node.meta if node is not None else {}
    stack: Mapping[Any, tuple[str, Any]] = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack") or {}
    return module_name(str(next(reversed(list(stack.values())), ("", None))[0]))


def lines_of(node: fx.Node | None) -> list[Line]:
    """The calls in which a node was made, outermost first; for what backward makes, those of forward."""
    found = LINE.findall((node.meta.get("stack_trace") or "") if node is not None else "")
    return [Line(file, int(number), function) for file, number, function in found if not file.startswith(OURS)]


def line_of(node: fx.Node | None) -> Line | None:
    return next(reversed(lines_of(node)), None)


def makers(capture: Capture) -> dict[str, fx.Node]:
    """Nodes of the joint graph by their name."""
    return {node.name: node for node in capture.joint.graph.nodes}


def maker_of(name: str, known: Mapping[str, fx.Node]) -> fx.Node | None:
    """Of a storage: it is called as its node, with a number where that has several results."""
    plain = name.removesuffix(RETURNED)
    return known.get(plain) or known.get(plain.rpartition(".")[0])


def holders_at_peak(planning: Planning, capture: Capture) -> tuple[str, list[Holder]]:
    """The operator that runs at the peak of the plan ("": its end), and what comes and goes and is there, largest
    first."""
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
