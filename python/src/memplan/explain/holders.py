"""The variables that hold a tensor, in frames, modules and closures, directly or through containers and attributes."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn

from memplan.explain.failure import NOT_THE_USERS, At, Where, shown
from memplan.torch_internals.modules import OF_A_MODULE

DEEPEST = 6  # maximum number of attributes and containers between a variable and a tensor
MOST_VISITED = 200_000  # maximum number of objects that a search visits
ROWS = (list, tuple, set, frozenset, deque)
# texts that occur in the path of a module only if the module does not belong to the script
INSTALLED = ("site-packages", "dist-packages", sys.base_prefix)


class Holders:
    """A search for the variables that hold tensors.

    If several names lead to an object, the name that is found first is kept. No other name is shorter.
    """

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def within(self, variables: dict[str, Any]) -> Iterator[tuple[torch.Tensor, str]]:
        """Yield the tensors reachable from variables, each with a description of its holder."""
        # the objects to visit: object, name, outermost container, depth of the search
        todo = deque((value, name, "", 0) for name, value in variables.items())
        while todo and len(self.seen) < MOST_VISITED:
            value, name, container, depth = todo.popleft()
            if isinstance(value, torch.Tensor):
                yield value, container or f"`{name}`"
            elif depth < DEEPEST and not is_plain(value) and id(value) not in self.seen:
                self.seen.add(id(value))
                todo.extend((v, n, c, depth + 1) for v, n, c in parts_of(value, name, container))


def is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (int, float, complex, str, bytes, ModuleType))


def parts_of(value: Any, name: str, container: str) -> Iterator[tuple[Any, str, str]]:
    """Yield the attributes and elements of an object.

    `container`: the name of the outermost list; the entries of the list have no names of their own.
    """
    if isinstance(value, ROWS):
        rows = container or f"`{name}`, a {type(value).__name__} of {len(value)}"
        yield from ((v, name, rows) for v in list(value))
    elif isinstance(value, dict):
        rows = container or f"`{name}`, a {type(value).__name__} of {len(value)}"
        for key, v in list(value.items()):
            has_name = isinstance(key, str) and not isinstance(v, torch.Tensor)
            yield v, f'{name}["{key}"]' if has_name else name, container if has_name else rows
    elif isinstance(value, FunctionType):
        closed = zip(value.__code__.co_freevars, value.__closure__ or ())
        yield from ((c, f"{v}` in the closure of `{name}", container) for v, c in closed)
    elif isinstance(value, CellType):
        if value != CellType():
            yield value.cell_contents, name, container
    elif isinstance(value, MethodType):
        yield value.__self__, name, container
    else:
        yield from attributes_of(value, name, container)


def attributes_of(value: Any, name: str, container: str) -> Iterator[tuple[Any, str, str]]:
    """Yield the attributes of an object without calling user code."""
    own = dict(getattr(value, "__dict__", ())) if not isinstance(value, torch.autograd.graph.Node) else {}
    for kind in type(value).__mro__ if not isinstance(value, type) else ():
        slots = vars(kind).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            member = vars(kind).get(slot)
            if member is not None and hasattr(member, "__get__") and kind.__module__ != "builtins":
                own.setdefault(slot, getattr(value, slot, None))
    if isinstance(value, nn.Module):
        own = {k: v for k, v in own.items() if k not in OF_A_MODULE} | dict(value.named_children())
    yield from ((v, f"{name}.{k}", container) for k, v in own.items())


def is_own(module: Any) -> bool:
    """Whether a module belongs to the script and not to an installed package."""
    path = str(getattr(module, "__file__", None) or "")
    return bool(path) and not any(part in path for part in INSTALLED) and not path.startswith(NOT_THE_USERS)


def holders(stack: Sequence[At]) -> Iterator[tuple[torch.Tensor, Where, str, str]]:
    """Yield tensors with the place of the frame, a description of the holder, and the file.

    Variables of frames come first, innermost frame first. Variables of the script's modules follow.
    """
    search = Holders()
    places = [""]
    for at in stack:
        places.append(at.place if at.is_users else places[-1])
    for at, place in zip(reversed(stack), reversed(places)):
        variables = dict(at.frame.f_locals)
        for tensor, words in search.within(variables):
            # a tensor in a variable of this frame was created here; a tensor within a container may be older
            made_here = words.strip("`") in variables
            yield tensor, Where("", place if made_here else ""), words, shown(at.frame.f_code.co_filename)
    for module in [m for m in list(sys.modules.values()) if is_own(m)]:
        for tensor, words in search.within(dict(vars(module))):
            yield tensor, Where("", ""), words, shown(str(module.__file__))
