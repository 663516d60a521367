"""All tensor memory on a device, by kind, owner and line. Each storage counts once."""

from __future__ import annotations

import contextlib
import gc
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from memplan.explain.failure import At, Where
from memplan.explain.holders import holders
from memplan.graph.capture import allocated, storage_bytes, storage_key, tensors_of
from memplan.run.outside_tensors import reachable
from memplan.torch_internals.autograd import everything_saved_by, number_of

PARAMETERS, GRADIENTS, STATE, BUFFERS = "parameters", "gradients", "optimizer state", "buffers"
INPUTS, SAVED, OTHER = "inputs", "saved for backward", "other"
KINDS = (PARAMETERS, GRADIENTS, STATE, BUFFERS, INPUTS, SAVED, OTHER)
NOWHERE = Where()
LEAF = "AccumulateGrad"


class Piece(NamedTuple):
    """One live storage. `what`: the variable that holds it, or the operator that saved it for backward."""

    n_bytes: int
    kind: str
    where: Where = NOWHERE
    what: str = ""


@dataclass
class Account:
    device: torch.device
    pieces: dict[int, Piece] = field(default_factory=dict)
    # keeps the counted tensors alive, because the address of a freed tensor could be reused as a key
    alive: list[torch.Tensor] = field(default_factory=list)

    def add(self, tensor: Any, kind: str, where: Where = NOWHERE, what: str = "") -> None:
        """Count a tensor, unless its storage is counted already or is on another device."""
        if tensor is None or tensor.device != self.device or tensor.layout is not torch.strided:
            return
        key = storage_key(tensor)
        if key not in self.pieces:
            self.alive.append(tensor)
            self.pieces[key] = Piece(allocated(storage_bytes(tensor), self.device), kind, where, what)

    def total(self, kind: str | None = None) -> int:
        return sum(p.n_bytes for p in self.pieces.values() if kind in (None, p.kind))

    def forget(self) -> None:
        """Drop the references to the counted tensors. The counts remain."""
        self.alive.clear()

    def by(self, of: Callable[[Piece], Any]) -> dict[Any, int]:
        """Return bytes summed by a property of the storages (pieces), in descending order."""
        found: dict[Any, int] = defaultdict(int)
        for piece in self.pieces.values():
            found[of(piece)] += piece.n_bytes
        return dict(sorted(found.items(), key=lambda item: -item[1]))


class Objects:
    """The modules, optimizers and tensors of a device that the garbage collector knows."""

    def __init__(self, device: torch.device) -> None:
        objects = gc.get_objects()
        self.modules = [o for o in objects if issubclass(type(o), nn.Module)]
        self.optimizers = [o for o in objects if issubclass(type(o), torch.optim.Optimizer)]
        tensors = [o for o in objects if issubclass(type(o), torch.Tensor) and type(o) in (torch.Tensor, nn.Parameter)]
        self.tensors = [t for t in tensors if lies_on(t, device)]

    def nodes(self) -> dict[Any, int]:
        """Return all live autograd nodes with their numbers, in order of creation."""
        roots = [t.grad_fn for t in self.tensors if t.grad_fn is not None]
        found = {n: number_of(n) for n in reachable(roots, set()) if LEAF not in n.name()}
        return dict(sorted(found.items(), key=lambda item: item[1]))


def lies_on(tensor: torch.Tensor, device: torch.device) -> bool:
    """Whether the tensor's memory is on the device."""
    with contextlib.suppress(RuntimeError):  # undefined tensors have no device
        return tensor.device == device and tensor.layout is torch.strided
    return False


def names_of(model: nn.Module | None, modules: Sequence[nn.Module]) -> dict[int, str]:
    """Return names of modules for messages: names in this model, or for other modules the class of the outermost module."""
    children = {id(c) for m in modules for c in m.children()}
    names = {id(m): name or type(m).__name__ for name, m in (model.named_modules() if model is not None else ())}
    for root in modules:
        if id(root) not in children:
            for name, module in root.named_modules():
                names.setdefault(id(module), f"{type(root).__name__}{'.' if name else ''}{name}")
    return names


def parameters_of(modules: Sequence[nn.Module], names: dict[int, str]) -> Iterator[tuple[Any, str]]:
    for module in modules:
        yield from ((p, names.get(id(module), "")) for p in module.parameters(recurse=False))


def nearest_modules(nodes: Iterable[Any], owners: dict[int, str]) -> dict[Any, str]:
    """Return a module for each autograd node: the module of its parameters, or else that of its operands."""
    found: dict[Any, str] = {}
    views: dict[Any, str] = {}  # for the autograd node of a view of a parameter: the name of the parameter's module
    for node in nodes:
        before = [n for n, _ in node.next_functions if n is not None]
        own = [owners.get(id(n.variable), "") for n in before if hasattr(n, "variable")]
        own += [views[n] for n in before if n in views]
        if own and len(before) == 1:
            views[node] = own[0]
        found[node] = own[0] if own else next((found[n] for n in before if found.get(n)), "")
    return found


def fill(
    account: Account, objects: Objects, inputs: Iterable[torch.Tensor], names: dict[int, str], where: dict[Any, Where]
) -> None:
    """Add all live memory that is reachable from Python objects. `where`: module and line of autograd nodes, if known."""
    owners = {}
    for parameter, name in parameters_of(objects.modules, names):
        owners[id(parameter)] = name
        account.add(parameter, PARAMETERS, Where(name))
        account.add(parameter.grad, GRADIENTS, Where(name))
    for optimizer in objects.optimizers:
        for parameter, state in optimizer.state.items():
            for tensor in tensors_of(state):
                account.add(tensor, STATE, Where(owners.get(id(parameter), "")))
    for module in objects.modules:
        for buffer in module.buffers(recurse=False):
            account.add(buffer, BUFFERS, Where(names.get(id(module), "")))
    for tensor in inputs:
        account.add(tensor, INPUTS)
    nodes = objects.nodes()
    nearest = nearest_modules(nodes, owners)
    for node in nodes:
        for tensor in everything_saved_by(node):
            account.add(tensor, SAVED, where.get(node) or Where(nearest[node]), node.name())
    for tensor in objects.tensors:
        if tensor.is_leaf and tensor.grad is not None:
            account.add(tensor.grad, GRADIENTS)


def fill_others(account: Account, objects: Objects, stack: Sequence[At]) -> None:
    """Count the tensors that are not counted yet, with the variables that hold them."""
    known = {id(t) for t in objects.tensors}
    for tensor, where, words, _ in holders(stack):
        if id(tensor) in known:
            account.add(tensor, OTHER, where, words)
    for tensor in objects.tensors:
        account.add(tensor, OTHER)
