"""The operators of each module call in a captured graph, which torch.utils.checkpoint would repeat."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import fx, nn

from memplan.graph.capture import Capture
from memplan.graph.operators import read_again

# Buffers of batch normalization: in training mode, the module updates them but does not read them.
NORMALIZATIONS = (
    *(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm),
    *(nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d),
)


@dataclass(frozen=True)
class Call:
    """One call of a module: the indices of its forward operators in the capture, in order of execution."""

    module: str
    operators: tuple[int, ...]


@dataclass
class Region:
    """A module of the captured model, with all of its calls in a step."""

    module: str
    calls: list[Call] = field(default_factory=list)


def module_name(captured: str) -> str:
    """Return a module's name in the model, such as "blocks.0".

    Captures write it as "L['self'].blocks.0", or in older versions as "getattr(L['self'].blocks, '0')".
    """
    name = captured
    while m := re.search(r"getattr\(((?:[^()]|\([^()]*\))*), '(\w+)'\)", name):
        name = f"{name[: m.start()]}{m[1]}.{m[2]}{name[m.end() :]}"
    name = re.sub(r"^L\['\w+'\]", "", name)
    # captures spell a name with `getattr` if a module defines __getattr__, as in PEFT
    name = re.sub(r"\.?__dict__\['_modules'\]", "", name)
    name = re.sub(r"_modules\['(\w+)'\]", r"\1", name)
    name = re.sub(r"\['?(\w+)'?\]", r".\1", name)
    return name.strip(".")


def stack_of(node: fx.Node | None) -> Mapping[Any, tuple[str, Any]]:
    """Return the module calls that created a node, outermost first: key of the call, then name and class of the module."""
    return (node.meta.get("nn_module_stack") or {}) if node is not None else {}


def reads_what_is_written(capture: Capture, node: fx.Node) -> bool:
    """Whether the operator reads a buffer that forward overwrites, so that recomputation would read another value.

    Counters of batch normalizations do not affect results.
    """
    innermost = next(reversed(list(stack_of(node).values())), ("", None))[1]
    if isinstance(innermost, type) and issubclass(innermost, NORMALIZATIONS):
        return False
    return any(a in capture.mutated for a in read_again(node))


def regions(capture: Capture) -> dict[str, Region]:
    """Return the modules, by name, that torch.utils.checkpoint can recompute as a whole."""
    runs: dict[tuple[str, Any], list[int]] = {}
    refused: set[str] = set()
    for index, operation in enumerate(capture.operations[: capture.boundary]):
        if operation.source is None:
            continue
        for key, (captured, _) in stack_of(operation.source).items():
            name = module_name(captured)
            runs.setdefault((name, key), []).append(index)
            if reads_what_is_written(capture, operation.source):
                refused.add(name)
    found: dict[str, Region] = {}
    for (name, _), operators in runs.items():
        if name and name not in refused:
            found.setdefault(name, Region(name)).calls.append(Call(name, tuple(operators)))
    return found


def forward_of_backward(capture: Capture) -> dict[int, int]:
    """Return for each backward operator the forward operator of its gradient.

    The match uses autograd's sequence numbers. Operators without a number have the number of the preceding node.
    """
    by_number: dict[Any, int] = {}
    for index, operation in enumerate(capture.operations[: capture.boundary]):
        if operation.source is not None:
            by_number.setdefault(operation.source.meta.get("seq_nr"), index)
    backward = range(capture.boundary + 1, capture.end)
    numbers = {index: getattr(capture.operations[index].source, "meta", {}).get("seq_nr") for index in backward}
    return {index: by_number[n] for index, n in numbers.items() if n is not None and n in by_number}
