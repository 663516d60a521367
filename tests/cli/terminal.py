#!/usr/bin/env python3
"""terminal.py COLUMNS LINES COMMAND... - runs a command on a terminal of its own and reports faults of its screen.

Wrong is: a line that the terminal had to wrap (sentences on standard error aside), progress that left more than one line, and more lines than LINES (0: any number).
The options --stop-at TEXT (Ctrl-C, or --signal NAME, when that is on the screen), --status N (the expected exit status, default 0) and --says TEXT (a text that must have been
on the screen; may be repeated) stand before COLUMNS; --not TEXT must not have been there.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios

CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def run(columns: int, command: list[str], stop_at: str | None, sent: signal.Signals) -> tuple[str, int]:
    """The text that the command writes to a terminal, and its exit status (130 where SIGINT killed it)."""
    size = struct.pack("HHHH", 24, columns, 0, 0)
    pid, fd = pty.fork()
    if not pid:
        fcntl.ioctl(1, termios.TIOCSWINSZ, size)
        os.environ["TERM"] = os.environ.get("TERM_UNDER_TEST", "xterm")
        os.execvp(command[0], command)
    text, stopped = b"", False
    while True:
        ready, _, _ = select.select([fd], [], [], 0.05)
        if ready:
            try:
                piece = os.read(fd, 65536)
            except OSError:
                piece = b""
            if not piece:
                break
            text += piece
        if stop_at is not None and not stopped and stop_at.encode() in text:
            os.kill(pid, sent)
            stopped = True
    _, status = os.waitpid(pid, 0)
    return text.decode(errors="replace"), os.waitstatus_to_exitcode(status)


def screen_lines(text: str) -> list[list[str]]:
    """The lines that end up on the screen, each as the texts that stood in it one after the other."""
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        lines.append([CONTROL.sub("", state) for state in line.split("\r")])
    return lines


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stop-at")
    parser.add_argument("--signal", default="INT")
    parser.add_argument("--status", type=int, default=0)
    parser.add_argument("--says", action="append", default=[])
    parser.add_argument("--not", dest="never", action="append", default=[])
    parser.add_argument("columns", type=int)
    parser.add_argument("lines", type=int)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    text, status = run(asked.columns, asked.command, asked.stop_at, signal.Signals["SIG" + asked.signal])
    lines = screen_lines(text)
    faults = [f"exit status {status}, not {asked.status}"] if status != asked.status else []
    for states in lines:
        faults += [
            f"{len(state)} columns: {state}"
            for state in states
            if len(state) > asked.columns and not state.startswith("memplan: ")
        ]
    shown = len(lines) - (lines[-1] == [""])
    if asked.lines and shown > asked.lines:
        faults.append(f"{shown} lines, where {asked.lines} are allowed")
    plain = " ".join(CONTROL.sub("", text).split())
    faults += [f"it never said: {says}" for says in asked.says if says not in plain and says not in text]
    faults += [f"it said: {never}" for never in asked.never if never in plain or never in text]
    for fault in faults:
        print(f"terminal: {fault}")
    if faults:
        print(text[-4000:])
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
