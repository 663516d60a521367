#!/usr/bin/env python3
"""allocations.py MEMPLAN MODULE POINTS [NAME...] - commands whose memory runs out, in libraries too, at POINTS places of each (0: at every one).

Once per place a single allocation fails, and once all from there on, but for Fontconfig's (FAIL_NOT= for those, too). Right is: exit status 1 or 2 and a sentence, or 0 and the output of the good run. Runs in
the folder of the command line's tests, where the models are; says how many runs there were and which were wrong.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile

COMMANDS = {
    "graph": "graph mlp.onnx --batch 64 -o OUT.json",
    "estimate": "estimate mlp.onnx --batch 64 --json",
    "plan": "plan mlp.onnx --batch 64 --budget floor+50% --effort quick -o OUT.json",
    "plan_json": "plan chain.json --budget 100% --json",
    "check": "check mlp.onnx memory.json --json",
    "pack": "pack buffers.csv --minimize --json",
    "draw": "draw mlp.onnx --batch 64 -o OUT.svg",
    "timeline": "timeline mlp.onnx --plan memory.json -o OUT.svg",
    "train": "train mlp.onnx --batch 4 --budget 100% --steps 2 --no-before --save OUT.safetensors",
    "attention": "train bert.onnx --budget 100% --steps 1 --no-before --save OUT.safetensors",
    "convolutions": "train fashion_cnn.onnx --batch 2 --budget 100% --steps 1 --no-before --save OUT.safetensors",
    "apply": "apply mlp.onnx memory.json --for pytorch --json",
    "sweep": "sweep chain.json --moves 20 -o OUT.svg",
    "fit": "fit mlp.onnx --memory 7MiB --effort quick --json",
    "share": "share chain.json chain.json --memory 1KiB --moves 20 --json",
    "profile": "profile mlp.onnx --batch 4 --device cpu --steps 1 -o OUT.json",
    "report": "report mlp.onnx --plan memory.json -o OUT.html",
    "trace": "timeline mlp.onnx --plan memory.json -o OUT.json",
    "ilp": "plan chain.json --solver ilp --budget 400 -o OUT.json",
    "exact": "plan chain.json --solver exact --budget 400 -o OUT.json",
    "dot": "estimate branch.dot --json",
    "png": "draw chain.json -o OUT.png",
    "pdf": "draw chain.json -o OUT.pdf",
    "boxes": "draw mlp.onnx --batch 64 -o OUT.dot",
    "loops": "estimate gcn.dynamo.onnx --json",
    "ops": "ops",
    "devices": "devices --json",
    "models": "models --json",
    "model": "model mixtral-8x7b --dim layers=1 --dim sequence=64 -o OUT.onnx",
    "named": "estimate mixtral-8x7b --dim layers=1 --dim sequence=64 --json",
    "solvers": "solvers --json",
    "help": "help plan",
}
# Times with the blanks before them, which fill a column; process memory, which is unknown if the query itself fails.
MEASURED = re.compile(
    rb'"planning_seconds": ?[0-9.e-]+|in [0-9.]+ [mu]?s\b| *[0-9.]+ [mun]?s\b|(process, at its peak|libraries, model) +([0-9.]+ [KMG]iB|unknown)'
)


def run(memplan: str, words: str, folder: str, **fails: str) -> tuple[int, bytes, str]:
    """The exit status, the output without times and process memory, and the text on standard error."""
    out = words.replace("OUT", f"{folder}/out").split()
    env = {**os.environ, "OMP_NUM_THREADS": "1", **fails}
    for name in os.listdir(folder):
        if name.startswith("out."):
            os.unlink(f"{folder}/{name}")
    try:
        done = subprocess.run([memplan, *out], env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    except subprocess.TimeoutExpired:
        return -1, b"", "does not end"
    data = done.stdout
    for name in sorted(os.listdir(folder)):
        if name.startswith("out."):
            with open(f"{folder}/{name}", "rb") as file:
                data += file.read()
    return done.returncode, MEASURED.sub(b"", data), done.stderr.decode(errors="replace")


def main() -> int:
    memplan, module, points = sys.argv[1], os.path.abspath(sys.argv[2]), int(sys.argv[3])
    subprocess.run([memplan, *"plan mlp.onnx --batch 64 --budget floor+50% --effort quick -o memory.json".split()], check=True, capture_output=True)
    n_runs, wrong = 0, []
    os.environ.setdefault("FAIL_NOT", "fontconfig")  # without its configuration it looks for one forever
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[4:] or COMMANDS:
            counted = {"LD_PRELOAD": module, "FAIL_COUNT": f"{folder}/count"}
            status, good, said = run(memplan, COMMANDS[name], folder, **counted)
            assert status == 0, f"{name}: exit status {status}: {said}"
            is_same = run(memplan, COMMANDS[name], folder)[1] == good  # not where times are measured
            with open(f"{folder}/count") as file:
                most = int(file.read())
            step = max(1, most // points) if points else 1
            for at in range(1, most + 1, step):
                for how in ("FAIL_AT", "FAIL_FROM"):
                    status, data, said = run(memplan, COMMANDS[name], folder, LD_PRELOAD=module, **{how: str(at)})
                    n_runs += 1
                    if status == 0 and is_same and data != good:
                        wrong.append(f"{name} {how}={at}: exit status 0 with another output")
                    elif status not in (0, 1, 2) or (status and not said.strip()):
                        wrong.append(f"{name} {how}={at}: exit status {status}: {said.strip()[-200:]}")
            print(f"{name}: {most} allocations, {n_runs} runs so far, {len(wrong)} wrong", flush=True)
    print("\n".join(wrong))
    print(f"{n_runs} runs, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
