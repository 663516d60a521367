"""What runs as eager PyTorch does, and the one sentence that says so: calls that no capture is for, code that PyTorch cannot
capture, and code that it captures no more."""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._dynamo
from torch._dynamo import exc
from torch.autograd import forward_ad
from torch.fx import _symbolic_trace
from torch.utils._python_dispatch import _get_current_dispatch_mode

from memplan.errors import FallbackWarning
from memplan.report import Fallback, Report

TORCH = os.path.dirname(torch.__file__)
LINE = re.compile(r'File "([^"]+)", line (\d+)')
LIMIT_HIT: tuple[type[Exception], ...] = tuple(
    getattr(exc, name) for name in ("FailOnRecompileLimitHit", "FailOnCacheLimitHit") if hasattr(exc, name)
)
set_count: Any = getattr(torch._C._dynamo.eval_frame, "set_fullgraph_compiled_frame_count", None)
is_symbolically_traced: Any = getattr(_symbolic_trace, "is_fx_symbolic_tracing", _symbolic_trace.is_fx_tracing)
SKIPPED = "PyTorch has captured nothing of it (torch.compiler.disable, or what it skips)"
NOT_CAPTURED: tuple[type[Exception], ...] = (exc.TorchDynamoException, *LIMIT_HIT)


def beyond_capture() -> str | None:
    """Why what is called now is not for a capture, None: it is."""
    level = torch._C._functorch.peek_interpreter_stack()
    if level is not None:
        return f"it is called inside torch.func.{str(level.key()).rpartition('.')[2].lower()}, which no captured graph is for"
    if forward_ad._current_level >= 0:
        return "it is called inside forward-mode differentiation, which no captured graph is for"
    if torch._C._len_torch_dispatch_stack() > 0:
        mode = type(_get_current_dispatch_mode()).__name__
        return f"it is called inside a mode ({mode}) that watches operators, which a captured graph would hide from it"
    if torch.jit.is_tracing() or torch.compiler.is_dynamo_compiling() or is_symbolically_traced():
        return "it is called while it is traced"
    if torch.nn.modules.module._has_any_global_hook():
        return "there is a hook on all modules (torch.nn.modules.module.register_module_...), which no captured graph calls"
    return None


@contextlib.contextmanager
def counting(fullgraph: bool) -> Iterator[Callable[[], bool]]:
    """In it, what is yielded says whether PyTorch has run nothing that was captured: it may skip code without a word. With
    graph breaks PyTorch does not count."""
    if set_count is None or not fullgraph:
        yield lambda: False
        return
    before = set_count(0)
    try:
        yield lambda: set_count(0) == 0
    finally:
        set_count(before)


def line_of(error: BaseException) -> str:
    """Where in the user's code a capture has ended: `file:line`, "" if PyTorch does not say."""
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
    users = [place for place in found if not place[0].startswith(TORCH)]
    return "{}:{}".format(*(users or found)[-1]) if found else ""


def reason_of(error: BaseException) -> str:
    """Why PyTorch has not captured, in a sentence of ours."""
    if isinstance(error, LIMIT_HIT):
        return (
            "PyTorch captures this code for no further sizes and numbers; those that it has are still planned"
            " (torch._dynamo.config.recompile_limit and accumulated_recompile_limit, cache_size_limit in old versions)"
        )
    where = line_of(error)
    inner = getattr(error, "inner_exception", None) or error
    first = str(inner).strip().partition("\n")[0]
    return f"PyTorch cannot capture {where or 'it'} ({first or type(inner).__name__})"


class Eagerly:
    """Of one compiled model: what was said, and when a capture that has failed is tried again."""

    def __init__(self, report: Report, name: str) -> None:
        self.report, self.name = report, name
        self.said: set[str] = set()
        self.n_since = 0  # calls since a capture has failed; 0: none has

    def say(self, reason: str, pages: str = "") -> None:
        """Once per reason; `pages`: what PyTorch says of it, below."""
        if reason in self.said:
            return
        self.said.add(reason)
        self.report.fallbacks.append(Fallback(self.name, reason))
        below = f"\n\nPyTorch says:\n{pages}" if pages else ""
        warnings.warn(f"memplan runs {self.name} eagerly, without a plan: {reason}{below}", FallbackWarning, stacklevel=4)

    def may_capture(self) -> bool:
        """Whether a call is for what was or will be captured. What PyTorch could not capture is tried again at the first,
        second, fourth, eighth call since: a hook or a branch may be gone."""
        if (reason := beyond_capture()) is not None:
            self.say(reason)
            return False
        self.n_since += self.n_since > 0
        return self.n_since & (self.n_since - 1) == 0

    def is_captured(self) -> None:
        self.n_since = 0

    def take(self, error: Exception) -> None:
        """Says why PyTorch has not captured; the call is one for eager."""
        if not isinstance(error, LIMIT_HIT):  # behind which what was captured still runs
            self.n_since = max(1, self.n_since)
        self.say(reason_of(error), str(error))
