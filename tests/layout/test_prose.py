"""test_prose.py - the guard of texts sees each symptom, in each kind of file, and lets clear text pass."""

from __future__ import annotations

import sys

import prose

LONG = " ".join(["word"] * 31) + "."
WHAT = "It does what it says. " * 3
CLEAR = "The buffer is freed after its last read."
FILES = {
    "a.md": f"# what\n\n```\nwhat\n```\n| what |\n\n{{}} `what`\n",
    "a.c": 'int what = 1; /* {} */\nconst char *s = "what";\n',
    "a.h": "/* {}\n *\n *     int what = 1;\n */\n",
    "a.py": '"""{}"""\nwhat = 1\n',
}


def main() -> int:
    bad = []
    for path, text in FILES.items():
        for words, kind in ((WHAT, "whats"), (LONG, "long"), (CLEAR, "")):
            found = prose.count(prose.prose(path, text.format(words)))
            worse = list(prose.faults({path: found}, {}))
            if bool(worse) != bool(kind) or (kind and getattr(found, kind) == 0):
                bad.append(f"{path} with {words[:20]!r}: {found}, {worse}")
            if list(prose.faults({path: found}, {path: (found.whats, found.long)})):
                bad.append(f"{path}: the recorded state is refused")
    for fault in bad:
        print(f"test_prose: {fault}")
    if not bad:
        print(f"test_prose: {3 * len(FILES)} texts judged")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
