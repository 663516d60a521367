#!/usr/bin/env python3
"""odd_options.py MEMPLAN RUNS [SEED] - commands with options by chance whose values nobody would write.

Right is: exit status 0 to 3; nothing of a sanitizer; and for status 2 one sentence on standard error, without anything that
steers a terminal, and nothing on standard output. Runs in the folder of the command line's tests.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile

STEP = ["--batch", "4"]
COMMANDS = {
    "estimate": ["mlp.onnx", *STEP],
    "plan": ["mlp.onnx", *STEP, "--budget", "floor+50%"],
    "apply": ["mlp.onnx", "odd_plan.json"],
    "fit": ["mlp.onnx", "--memory", "2MiB"],
    "share": ["mlp.onnx", "mlp.onnx", *STEP, "--memory", "8MiB", "--reserve", "1KiB"],
    "report": ["mlp.onnx", *STEP, "-o", "odd.html"],
    "timeline": ["mlp.onnx", *STEP],
    "draw": ["mlp.onnx", *STEP],
    "sweep": ["mlp.onnx", *STEP],
    "check": ["mlp.onnx", "odd_plan.json"],
    "train": ["mlp.onnx", *STEP, "--budget", "floor+50%", "--steps", "2", "--loss", "auto"],
    "profile": ["mlp.onnx", *STEP],
    "graph": ["mlp.onnx", *STEP],
    "pack": ["buffers.csv", "--capacity", "1MiB"],
    "ops": [],
    "solvers": [],
    "devices": [],
    "models": [],
    "model": ["gpt2", "--dim", "layers=1", "-o", "odd.onnx"],
}
NUMBERS = """-1 0 1 0.5 1.5 1e308 -1e308 1e-320 nan inf -inf 0x10 2147483647 2147483648 -2147483649 9223372036854775807
    9223372036854775808 -9223372036854775808 18446744073709551616 % 100% -5% 1e400% nan% 1TiB 9e99GiB floor floor+ floor+1e99% 1,1e308,nan
    N=0 N=-1 N=99999999999999999999 999999999:* 0:* -1:fc* 1:""".split()  # noqa: SIM905
WORDS = ["", "-", "--", ",", ",,,", "1,2,", "a,a,a", "=", "a=", "a=b", "/", ".", "/dev/null", "*", "?", "%s%n"]
WORDS += ["\x1b[31m", "\u202e", "\u00e9", "\udcff", "A" * 5000]  # the fourth is a byte that is no UTF-8
NAMES = ["mlp.onnx", "odd_plan.json", "chain.json", "device", "auto", "none", "all", "2:*"]


def options_of(memplan: str, command: str) -> list[tuple[str, bool]]:
    """The options of a command, and whether they take a value, as its help lists them."""
    text = subprocess.run([memplan, command, "--help", "all"], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^  (-[a-z]|--[a-z0-9-]+)(?: ([A-Z]\S*))?(?:  |$)", text, re.MULTILINE)
    return [(name, bool(value)) for name, value in found if name != "--help"]


def complaint(done: subprocess.CompletedProcess[bytes]) -> str | None:
    said = done.stderr.decode(errors="replace")
    if done.returncode not in (0, 1, 2, 3):
        return f"status {done.returncode}"
    if "Sanitizer" in said or "runtime error" in said:
        return "a sanitizer spoke"
    if done.returncode == 2 and (said.count("\n") != 1 or done.stdout):
        return "not one sentence"
    if re.search(r"[\x00-\x09\x0b-\x1f\x7f]", said):
        return "the message steers a terminal"
    return None


def main() -> int:
    memplan, runs = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    subprocess.run(
        [memplan, "plan", "mlp.onnx", *STEP, "--budget", "floor+50%", "-o", "odd_plan.json"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    options = {command: options_of(memplan, command) for command in COMMANDS}
    statuses = [0, 0, 0]
    faults = 0
    with tempfile.TemporaryDirectory(dir=".") as outputs:
        for _ in range(runs):
            command = draw.choice(list(COMMANDS))
            words = [memplan, command, *COMMANDS[command]]
            for _ in range(draw.choice([1, 1, 1, 2, 3])):
                name, takes_value = draw.choice(options[command])
                words.append(name)
                if name in ("-o", "--save"):
                    words.append(f"{outputs}/odd" + draw.choice(["", ".json", ".svg", ".png", ".pdf", ".dot", ".html", ".csv"]))
                elif takes_value:
                    words.append(draw.choice(draw.choice([NUMBERS, WORDS, NAMES])))
            try:
                done = subprocess.run(words, check=False, capture_output=True, stdin=subprocess.DEVNULL, timeout=300)
            except subprocess.TimeoutExpired:
                wrong: str | None = "no end within 300 s"
            else:
                wrong = complaint(done)
                statuses[done.returncode if done.returncode in (0, 1) else 2] += 1
            if wrong:
                faults += 1
                print(f"{wrong}: {words[1:]!r}")
    print(f"{runs} runs: {statuses[0]} did it, {statuses[1]} could not, {statuses[2]} were refused; {faults} wrong")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
