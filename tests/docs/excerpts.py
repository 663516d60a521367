#!/usr/bin/env python3
"""excerpts.py - code in documents is the code: a block that follows the line `<!-- from PATH -->` stands word for word in PATH."""

from __future__ import annotations

import pathlib
import re
import sys

BLOCK = re.compile(r"<!-- from (\S+) -->\n+```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def main() -> int:
    bad = n = 0
    for document in sorted(pathlib.Path("docs").rglob("*.md")):
        for path, text in BLOCK.findall(document.read_text()):
            n += 1
            if text not in pathlib.Path(path).read_text():
                bad += 1
                print(f"excerpts: {document}: a block is not in {path} as it stands there")
    if not bad:
        print(f"excerpts: {n} in order")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
