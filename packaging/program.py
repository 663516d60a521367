#!/usr/bin/env python3
"""program.py - the command `memplan` of an installed wheel: the program in the package's folder, in this process's place.
The package is found and not loaded, as that would take PyTorch's time."""

import os
import sys
from importlib.util import find_spec

package = find_spec("memplan")
folders = list(package.submodule_search_locations or []) if package is not None else []
programs = [program for folder in folders if os.access(program := os.path.join(folder, "bin", "memplan"), os.X_OK)]
if not programs:
    sys.exit("memplan: the package of this Python has no program in it: install the wheel")
os.execv(programs[0], [programs[0], *sys.argv[1:]])
