"""A progress line on the terminal during the first step. Nothing is shown if standard error is no terminal."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from typing import Any

from memplan.library.planning import Progress

EVERY_SECONDS = 0.1


def terminal() -> Any:
    """Return standard error if it is a terminal, else None."""
    stream = sys.stderr
    with contextlib.suppress(AttributeError, ValueError):  # `isatty` fails if standard error is missing or closed
        return stream if stream.isatty() else None
    return None


class Line:
    """A line on the terminal. A new sentence replaces the previous one, and `end` clears the line.

    With `is_wanted` False, nothing is shown.
    """

    def __init__(self, is_wanted: bool = True) -> None:
        self.is_wanted, self.is_shown = is_wanted, False
        self.begun = self.written = 0.0

    def say(self, sentence: str, every: float = 0.0) -> None:
        """Show a sentence, unless less than `every` seconds have passed since the last one."""
        now = time.monotonic()
        if not self.is_wanted or now - self.written < every or (stream := terminal()) is None:
            return
        if not self.is_shown:
            self.is_shown, self.begun = True, now
        width = shutil.get_terminal_size().columns - 1
        stream.write(f"\rmemplan: {sentence}, {now - self.begun:.0f} s"[: width + 1] + "\x1b[K")
        stream.flush()
        self.written = now

    def measured(self, n: int, of: int) -> None:
        self.say(f"measuring operators, {n} of {of}", EVERY_SECONDS if n else 0.0)

    def searched(self, told: Progress) -> None:
        if told.best_seconds is None:
            self.say("searching for a plan", EVERY_SECONDS)
        else:
            proved = "" if told.bound_seconds is None else f", no plan takes less than {in_time(told.bound_seconds)}"
            self.say(f"searching, best step so far {in_time(told.best_seconds)}{proved}", EVERY_SECONDS)

    def end(self) -> None:
        if self.is_shown:
            self.is_shown = False
            if (stream := terminal()) is not None:
                stream.write("\r\x1b[K")
                stream.flush()


def in_time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.2f} ms"
