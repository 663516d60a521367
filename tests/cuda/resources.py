"""resources.py BUILD [--table] - ptxas's report on the GPU's kernels: fails if an attention, elementwise, normalization or reduction
kernel has a stack frame or spills registers on compute capability 9.0, because its arrays are then in memory. Reports for
other architectures are listed and not judged.

The rule for .cu files keeps ptxas's words beside each object (BUILD/executor/operators/FOLDER/FILE.cu.ptxas). --table prints a line
for each kernel instead: registers, stack frame, bytes spilled and shared, architecture, file, name.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

FOLDERS = (
    "attention", "elementwise", "randoms", "updates", "products", "normalizations", "batch_normalization", "losses", "reductions",
)
JUDGED = "sm_90"

# Exempt kernels: file, a part of their name, the reason.
PERMITTED = (
    ("attention/attention_operands_cuda", "mask_of", "the rank of a mask is known at run time, so its indices are an array"),
    ("elementwise/elementwise_cuda", "floats_placed", "sin, cos and tan of large numbers keep the digits of 2/pi in an array"),
    ("randoms/randoms_cuda", "mp_random_source_item", "normal numbers take a cosine: likewise"),
    ("randoms/randoms_cuda", "mp_source_item", "windows do, too"),
    ("losses/losses_cuda", "entropy_gradient_lines", "registers are kept while a class weight of a rare type is read by a call"),
    ("losses/losses_cuda", "weight_total", "likewise"),
    ("normalizations/normalize_cuda", "forward_rowsIL8mp_dtype16ELb0", "at 32 registers a thread ptxas keeps four of a row's outside its loops"),
)

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
PROPERTIES = re.compile(r"Function properties for (\w+)")
MEMORY = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


class Kernel(NamedTuple):
    """One kernel of one file for one architecture."""

    registers: int
    stack: int
    spilled: int
    shared: int
    architecture: str
    file: str
    name: str


def kernels_of(path: Path, file: str) -> list[Kernel]:
    """ptxas's report of one file. ValueError: its format is unknown."""
    found: list[Kernel] = []
    name = architecture = ""
    memory: dict[str, tuple[int, int]] = {}
    of = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if m := ENTRY.search(line):
            name, architecture = m.groups()
        elif m := PROPERTIES.search(line):
            of = m[1]
        elif m := MEMORY.search(line):
            memory[of] = int(m[1]), int(m[2]) + int(m[3])
        elif (m := REGISTERS.search(line)) and name:
            if name not in memory:
                raise ValueError(f"{path}: ptxas does not say what {name} keeps in memory")
            stack, spilled = memory.pop(name)
            shared = SHARED.search(line)
            found.append(Kernel(int(m[1]), stack, spilled, int(shared[1]) if shared else 0, architecture, file, name))
            name = ""
    if len(found) != len(ENTRY.findall(path.read_text(encoding="utf-8"))):
        raise ValueError(f"{path}: not every kernel has its registers and stack frame")
    return found


def readable(names: list[str]) -> list[str]:
    """The names as C++ writes them, without their common parts."""
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return [re.sub(r"\(anonymous namespace\)::|\(mp_dtype\)|^void |\(.*\)$", "", line) for line in text.splitlines()]


def is_permitted(k: Kernel) -> bool:
    """Whether this kernel may use memory of its own."""
    if k.file.split("/")[0] not in FOLDERS:
        return True
    return any(k.file == file and part in k.name for file, part, _ in PERMITTED)


def main(build: Path, table: bool) -> int:
    top = build / "executor/operators"
    kernels = [
        k for path in sorted(top.rglob("*.cu.ptxas")) for k in kernels_of(path, str(path.relative_to(top))[: -len(".cu.ptxas")])
    ]
    if not kernels:
        print(f"{build}: no kernels of the GPU are built here")
        return 1
    if table:
        print("registers  stack  spilled  shared  for     file: kernel")
        for k, name in zip(kernels, readable([k.name for k in kernels])):
            print(f"{k.registers:9}  {k.stack:5}  {k.spilled:7}  {k.shared:6}  {k.architecture:6}  {k.file}: {name}")
        return 0
    judged = [k for k in kernels if k.architecture == JUDGED]
    bad = [k for k in judged if (k.stack or k.spilled) and not is_permitted(k)]
    for k, name in zip(bad, readable([k.name for k in bad])):
        print(f"executor/operators/{k.file}.cu: {name} for {k.architecture}: {k.stack} bytes of stack frame, {k.spilled} spilled")
    for file, part, _ in PERMITTED if judged else ():
        if not any(k.file == file and part in k.name and (k.stack or k.spilled) for k in judged):
            print(f"tests/cuda/resources.py: {part} of {file} keeps to the rule by now: take it off the list")
            bad.append(judged[0])
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), "--table" in sys.argv[2:]))
