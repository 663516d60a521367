"""Texts that PyTorch writes during a capture: stack traces of operators, and graphs for its logs."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any

from memplan.torch_internals.names import Private

CARETS = Private(
    "traceback._extract_caret_anchors_from_line_segment",
    use="finds the part of a source line that a stack trace underlines",
    instead="Python parses the source line of each captured operator again",
    on_demand=True,  # of Python, since 3.11
)
JOINT_TEXT = Private(
    "torch._functorch._aot_autograd.graph_compile._log_joint_graph",
    use="omits the text of the joint graph if no log contains it",
    instead="the first step takes a little longer",
    since="2.15",
)
HALVES_TEXT = Private(
    "torch._functorch._aot_autograd.graph_compile._log_fw_bw_graphs",
    use="omits the texts of the forward and backward graphs if no log contains them",
    instead="the first step takes a little longer",
    since="2.15",
)
TRACE_LOG = "torch.__trace"  # PyTorch's log for TORCH_TRACE; without TORCH_TRACE it loses its handler at the first message


def is_logged(module: Any) -> bool:
    """Whether a log of this module of PyTorch is read."""
    logs = [v for v in vars(module).values() if isinstance(v, logging.Logger)]
    return bool(logging.getLogger(TRACE_LOG).handlers) or any(log.isEnabledFor(logging.INFO) for log in logs)


def if_logged(row: Private, otherwise: Any) -> contextlib.AbstractContextManager[None]:
    """Within the context, a function that logs graphs returns `otherwise` at once if nobody reads the log."""
    if not row:
        return contextlib.nullcontext()
    assert row.place is not None
    module, pytorchs = row.place[0], row.original()

    def log(*args: Any, **kwargs: Any) -> Any:
        return pytorchs(*args, **kwargs) if is_logged(module) else otherwise

    return row.standing_for(log)


def once_per_line() -> contextlib.AbstractContextManager[None]:
    """Within the context, Python parses a source line once for all stack traces. Equal blocks have equal lines."""
    pythons: Callable[[str], Any] | None = CARETS.original()
    return contextlib.nullcontext() if pythons is None else CARETS.standing_for(functools.lru_cache(maxsize=None)(pythons))


@contextlib.contextmanager
def only_read_texts() -> Iterator[None]:
    """Within the context of a capture, PyTorch writes no text twice, and no text that nobody reads."""
    with once_per_line(), if_logged(JOINT_TEXT, None), if_logged(HALVES_TEXT, (None, None)):
        yield
