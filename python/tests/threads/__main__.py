"""`python -m threads`: a line per situation, and the reason where it does not simply work."""

from __future__ import annotations

import sys

from threads import SITUATIONS
from threads.verdict import verdict

for one in SITUATIONS:
    try:
        kind, why = verdict(one)
    except Exception as error:  # an error of PyTorch's own is a fault, too
        kind, why = "ERROR", f"{type(error).__name__}: {error}".partition("\n")[0]
    sys.stdout.write(f"{kind:7} {one.name:50} {one.thread}" + (f"\n        {why[:200]}" if why else "") + "\n")
