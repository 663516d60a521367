"""Models by name: package.module:build, where build is a function or class that returns the model, or the model itself."""

from __future__ import annotations

import difflib
import importlib
import os
import traceback
from collections.abc import Sequence
from typing import Any

import torch

from memplan.command import UsageError
from memplan.errors import MemplanError

NOT_THE_USERS = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(__file__), "<")


def imported(name: str) -> Any:
    """Import a module by name.

    Raises:
        UsageError: the module does not exist.
        MemplanError: the module fails. The message gives the line.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise UsageError(f"there is no module {error.name!r} in this folder or among the installed packages") from None
        raise MemplanError(f"{name} cannot be imported: {told(error)}") from None
    except Exception as error:
        raise MemplanError(f"{name} cannot be imported: {told(error)}") from None


def told(error: BaseException) -> str:
    """Describe an exception in one line. The line includes the position of the user's code that raised the exception."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(NOT_THE_USERS)]
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}{where}" if first else f"{type(error).__name__}{where}"


def build(name: str, device: torch.device | None) -> torch.nn.Module:
    """Build the model, on this device if one is given. Raises UsageError and MemplanError."""
    of, _, what = name.partition(":")
    if not of or not what:
        raise UsageError(f"{name!r} does not name a model; use package.module:build, such as torchvision.models:resnet50")
    found: Any = imported(of)
    for part in what.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, dir(found), 1)
            raise UsageError(f"{of} has no {what!r}" + (f"; it has {near[0]!r}" if near else ""))
        found = getattr(found, part)
    if not isinstance(found, torch.nn.Module):
        if not callable(found):
            raise UsageError(
                f"{name} has the type {type(found).__name__}, but it must be a model or a function that builds one"
            )
        try:
            with device or torch.device("cpu"):
                found = found()
        except Exception as error:
            raise MemplanError(f"{what}() fails: {told(error)}") from None
    if not isinstance(found, torch.nn.Module):
        raise UsageError(f"{what}() returns a {type(found).__name__}, but it must return a torch.nn.Module")
    return found.to(device) if device is not None else found


def place_of(model: torch.nn.Module) -> torch.device:
    """Return the device of the model's first parameter."""
    return next((p.device for p in model.parameters()), torch.device("cpu"))


def refusal(model: torch.nn.Module, args: Sequence[Any], kwargs: dict[str, Any]) -> str | None:
    """Return eager PyTorch's error for a call with these inputs on the meta device, or None if the call succeeds."""

    def away(value: Any) -> Any:
        return value.to("meta") if isinstance(value, torch.Tensor) else value

    state = {name: torch.empty_like(t, device="meta") for name, t in [*model.named_parameters(), *model.named_buffers()]}
    named = {name: away(value) for name, value in kwargs.items()}
    try:
        torch.func.functional_call(model, state, tuple(map(away, args)), named)
    except Exception as error:
        return told(error)
    return None
