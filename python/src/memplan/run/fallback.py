"""Eager fallbacks and their warnings: calls that must not be captured, and code that PyTorch cannot capture or recapture."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from typing import Any

import torch

import memplan.errors
from memplan.errors import FallbackWarning
from memplan.report import Fallback, Report
from memplan.torch_internals.capture import is_jit_traced, is_limit, is_symbolically_traced
from memplan.torch_internals.dispatch import is_forward_mode, mode_now, transform_now
from memplan.torch_internals.modules import has_hooks_on_all

TORCH, OURS = os.path.dirname(torch.__file__), os.path.dirname(memplan.errors.__file__)
LINE = re.compile(r'File "([^"]+)", line (\d+)')
SKIPPED = "PyTorch has captured nothing of it (torch.compiler.disable, or code that PyTorch skips)"

REMEDIES = {  # a remedy for each word that may occur in PyTorch's error message
    "requires_grad": "call requires_grad_() before the model is called; if forward calls it on a tensor x, return or store"
    " x.detach() instead",
}


def beyond_capture() -> str | None:
    """Return the reason why the present call must not be captured, or None."""
    if transform := transform_now():
        return f"it is called inside torch.func.{transform}, which no captured graph supports; call the original module there"
    if is_forward_mode():
        return (
            "it is called inside forward-mode differentiation, which no captured graph supports; call the original module there"
        )
    if mode := mode_now():
        return f"it is called inside a mode ({mode}) that observes operators, which a captured graph would hide"
    if is_jit_traced() or torch.compiler.is_dynamo_compiling() or is_symbolically_traced():
        return "it is called while another tool traces it"
    if has_hooks_on_all():
        return (
            "there is a hook on all modules (torch.nn.modules.module.register_module_...), which a captured graph does not call"
        )
    return None


def line_of(error: BaseException) -> str:
    """Return the line of user code at which a capture failed as `file:line`, or ""."""
    seen: set[int] = set()
    inner: BaseException | None = error
    found: list[tuple[str, Any]] = []
    while inner is not None and id(inner) not in seen and not found:
        seen.add(id(inner))
        found = [(f.filename, f.lineno) for f in getattr(inner, "real_stack", None) or ()]
        inner = inner.__cause__ or inner.__context__
    if not found:
        _, from_user, text = str(error).partition("from user code:")
        found = LINE.findall(text) if from_user else []
    return place_among(found)


def place_among(stack: Sequence[tuple[str, Any]]) -> str:
    """Return the innermost user line of a stack, or PyTorch's innermost line if there is none."""
    users = [place for place in stack if not place[0].startswith((TORCH, OURS))]
    return "{}:{}".format(*(users or stack)[-1]) if stack else ""


CANNOT_CAPTURE = "PyTorch cannot capture"


def reason_of(error: BaseException) -> str:
    """Return a sentence for the user on a failed capture."""
    if is_limit(error):
        return (
            "PyTorch captures this code for no further sizes; the captured sizes are still planned"
            " (torch._dynamo.config.recompile_limit and accumulated_recompile_limit, cache_size_limit in old"
            " versions)"
        )
    where = line_of(error)
    inner = getattr(error, "inner_exception", None) or error
    first = str(inner).strip().partition("\n")[0]
    remedy = next((f"; {remedy}" for word, remedy in REMEDIES.items() if word in first), "")
    return f"{CANNOT_CAPTURE} {where or 'it'} ({first or type(inner).__name__}){remedy}"


class EagerFallback:
    """The fallbacks of one compiled model: warnings given, and the retry schedule of failed captures."""

    def __init__(self, report: Report, name: str) -> None:
        self.report, self.name = report, name
        self.said: set[str] = set()
        self.failed: set[str] = set()  # reasons of failed captures, which may succeed later
        self.n_since = 0  # number of calls since a capture failed; 0: none has failed

    def say(self, reason: str, pages: str = "", how: str = "runs {} eagerly, without a plan", part: str = "") -> None:
        """Warn once per reason.

        `pages`: PyTorch's text, printed below; `part`: text before the model's name, such as "a part of ".
        """
        if all(f.reason != reason for f in self.report.fallbacks):
            # the report does not contain this reason, or does not contain it any more
            self.report.fallbacks.append(Fallback(f"{part}{self.name}", reason))
        if reason in self.said:
            return
        self.said.add(reason)
        below = f"\n\nPyTorch says:\n{pages}" if pages else ""
        warnings.warn(f"memplan {how.format(part + self.name)}: {reason}{below}", FallbackWarning, stacklevel=4)

    def say_of_parts(self, reason: str) -> None:
        """Warn that a part of the model runs eagerly, or the whole model if nothing is planned.

        An empty `reason` means no part.
        """
        if reason:
            self.say(reason, part="a part of " if self.report.graphs else "")

    def may_capture(self) -> bool:
        """Whether this call may use a capture.

        After a failed capture, the first, second, fourth, eighth, ... call tries to capture again, because the hook or branch
        that prevented the capture may be gone."""
        if (reason := beyond_capture()) is not None:
            self.say(reason)
            return False
        self.n_since += self.n_since > 0
        return self.n_since & (self.n_since - 1) == 0

    def is_captured(self) -> None:
        """Withdraw the sentence on a failed capture from the report, because the present call is planned."""
        if self.n_since and self.report.graphs:
            self.report.fallbacks[:] = [f for f in self.report.fallbacks if f.reason not in self.failed]
            sentence = (
                f"memplan plans {self.name} from this call on; PyTorch could not capture earlier calls, which ran eagerly"
            )
            if sentence not in self.said:
                self.said.add(sentence)
                warnings.warn(sentence, FallbackWarning, stacklevel=4)
        self.n_since = 0

    def take(self, error: Exception) -> None:
        """Warn about a failed capture. The call then runs eagerly."""
        if not is_limit(error):
            # an error about the limit of captures is permanent: existing captures still run, so it does not count as failed
            self.n_since = max(1, self.n_since)
            self.failed.add(reason_of(error))
        self.say(reason_of(error), str(error))
