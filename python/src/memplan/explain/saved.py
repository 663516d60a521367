"""The public function `saved`: the tensors that autograd has saved for a pending backward."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from memplan.budget import in_units
from memplan.explain.account import LEAF, Objects, names_of, nearest_modules, parameters_of
from memplan.explain.calls import Call
from memplan.explain.failed_call import Replay, starts
from memplan.explain.failure import NOT_THE_USERS, Where, shown
from memplan.explain.tables import table, together
from memplan.graph.capture import allocated, storage_bytes, storage_key, tensors_of
from memplan.run.outside_tensors import reachable
from memplan.torch_internals.autograd import everything_saved_by, number_of

FORWARD = "traceback_"  # the key under which PyTorch stores the traceback of forward in anomaly mode
LINE = re.compile(r'File "(.+?)", line (\d+)')
PLANNED = "a plan of memplan"


class Row(NamedTuple):
    """One storage that autograd has saved, with the first operator that saved it."""

    n_bytes: int
    shape: tuple[int, ...]
    dtype: torch.dtype | None
    operator: str
    module: str
    place: str


@dataclass
class Saved:
    """The saved storages, for example `print(memplan.saved(loss))`."""

    rows: list[Row]

    @property
    def n_bytes(self) -> int:
        return sum(r.n_bytes for r in self.rows)

    def by(self, name: str) -> dict[str, int]:
        """Return bytes grouped by a column of the rows, such as "module", in descending order."""
        found: dict[str, int] = {}
        for row in self.rows:
            found[getattr(row, name)] = found.get(getattr(row, name), 0) + row.n_bytes
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def __str__(self) -> str:
        lines = [f"{in_units(self.n_bytes)} are saved for backward, in {len(self.rows)} pieces"]
        lines += table("by module", together(self.by("module")), self.n_bytes, "no module")
        lines += table("by operator", self.by("operator").items(), self.n_bytes)
        if any(r.place for r in self.rows):
            lines += table("by line", self.by("place").items(), self.n_bytes, "no line is known")
        return "\n".join(lines)

    __repr__ = __str__


def line_of(node: Any) -> str:
    """Return the line of user code that created the autograd node, or "" outside of anomaly mode."""
    for text in reversed(node.metadata.get(FORWARD, ())):
        found = LINE.search(text)
        if found and not found[1].startswith(NOT_THE_USERS):
            return f"{shown(found[1])}:{found[2]}"
    return ""


def saved(loss: Any, model: nn.Module | None = None, inputs: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Saved:
    """List the tensors that autograd has saved for the backward of a loss, without parameters and buffers.

    Each storage counts once. By default the module of a row is the module of the nearest parameter. Rows have exact modules
    and lines if you pass the call (model, inputs, kwargs). memplan then repeats the call on fake tensors without memory. Rows
    also have lines if the forward ran under torch.autograd.detect_anomaly.

    Args:
        loss: a tensor, or a structure of tensors.
        model: the model that computed the loss.
        inputs: the inputs of that call.
        kwargs: the keyword arguments of that call.
    """
    roots = [t.grad_fn for t in tensors_of(loss) if t.grad_fn is not None]
    numbers = {n: number_of(n) for n in reachable(roots, set()) if LEAF not in n.name()}
    nodes = sorted(numbers, key=lambda n: numbers[n])
    objects = Objects(torch.device("cpu"))
    names = names_of(model, objects.modules)
    owners = {id(p): name for p, name in parameters_of(objects.modules, names)}
    nearest = nearest_modules(nodes, owners)
    where = {node: Where(nearest[node], line_of(node)) for node in nodes}
    if model is not None:
        replay = Replay.of(Call.of(model, tuple(inputs), kwargs or {}))
        where |= replay.of_calls(starts({n: node.name() for node, n in numbers.items()}, replay.nodes), numbers)
    return Saved(rows_of(nodes, where, static_keys(objects.modules)))


def static_keys(modules: Iterable[nn.Module]) -> set[int]:
    tensors = [t for m in modules for t in (*m.parameters(recurse=False), *m.buffers(recurse=False))]
    return {storage_key(t) for t in tensors if t.layout is torch.strided}


def rows_of(nodes: Iterable[Any], where: dict[Any, Where], known: set[int]) -> list[Row]:
    rows = []
    alive = []  # keeps the tensors alive, because the address of a freed tensor could be reused as a key
    for node in nodes:
        if (call := getattr(node, "memplan_call", None)) is not None:
            rows.append(Row(max(0, call.n_bytes), (), None, PLANNED, where[node].module, where[node].place))
            continue
        for tensor in everything_saved_by(node):
            if tensor.layout is torch.strided and storage_key(tensor) not in known:
                known.add(storage_key(tensor))
                alive.append(tensor)
                n_bytes = allocated(storage_bytes(tensor), tensor.device)
                operator, at = node.name().removesuffix("Backward0"), where[node]
                rows.append(Row(n_bytes, tuple(tensor.shape), tensor.dtype, operator, at.module, at.place))
    return sorted(rows, key=lambda row: -row.n_bytes)
