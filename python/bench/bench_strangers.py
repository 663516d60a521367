"""Forty networks to which nothing was tuned, three budgets, fp32 and bf16 autocast: bits, measured = planned, nothing silent.

make bench-python BENCH=strangers [NETWORKS="timm/resnet18 ..."]
Every network runs in a process of its own. A row is `kept` (eager's bits, measured within 0.5 % of planned and within the
budget), `told` (one of our sentences came first, and where the bits or the peak are others it is of these), or `SILENT`, for
which the exit status is 1.
"""

from __future__ import annotations

import contextlib
import copy
import json
import subprocess
import sys
import warnings
from typing import Any

import strangers
import torch
from against_eager import assert_like_eager, peak_of_call, static_bytes

import memplan

BUDGETS = ("100%", "floor+50%", "floor+20%")
PRECISIONS = ("fp32", "bf16")
BITS, MEMORY = "bits", "memory"  # of what a sentence is, by a word in it
VERDICTS = ("kept", "told", "SILENT")
MOST_ERROR = 0.005
OVER_BYTES = 64 * 1024  # numbers that Python makes during a step: seeds, steps
SEARCH_SECONDS = 5.0  # bits and peaks are those of any plan: the best one is not needed
MOST_SECONDS = 900  # of a network with all its rows
Rows = list[dict[str, Any]]
REDRAWN = 3  # exit status of a process whose network is to be drawn again


def write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def context_of(precision: str) -> contextlib.AbstractContextManager[Any]:
    return torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()


def same_bits(model: Any, compiled: Any, inputs: Any, precision: str) -> str:
    """ "" if three steps have eager's bits, else what differs first."""
    try:
        assert_like_eager(compiled, compiled, inputs, lambda: context_of(precision), eager=copy.deepcopy(model))
    except AssertionError as error:
        return str(error).splitlines()[0]
    return ""


def row(made: Any, budget: str, precision: str) -> dict[str, Any]:
    model, inputs = made
    torch._dynamo.reset()
    trained = copy.deepcopy(model)
    compiled = memplan.compile(trained, budget, time_limit=SEARCH_SECONDS)

    def step() -> None:
        for p in trained.parameters():
            p.grad = None
        with context_of(precision):
            loss = compiled(*inputs)
        loss.backward()

    def put_back() -> None:
        with torch.no_grad():
            for ours, theirs in zip([*trained.parameters(), *trained.buffers()], [*model.parameters(), *model.buffers()]):
                ours.copy_(theirs)
        for p in trained.parameters():
            p.grad = None

    found: dict[str, Any] = {"budget": budget, "precision": precision}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            step()
        except memplan.MemplanError as error:
            return {**found, "verdict": "told", "why": str(error).splitlines()[0]}
        except Exception as error:
            return {**found, "verdict": "SILENT", "why": f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"}
        put_back()
        measured = static_bytes(trained, inputs) + peak_of_call(step)
        put_back()
        differs = same_bits(model, compiled, inputs, precision)
    told = [str(w.message) for w in caught if isinstance(w.message, memplan.FallbackWarning)]
    told += [note for g in compiled.memplan.graphs for note in g.notes if "bits" in note]
    faults = {BITS: differs} if differs else {}
    if compiled.memplan.graphs:
        report = compiled.memplan
        error = measured / report.planned_bytes - 1
        found |= {"planned": report.planned_bytes, "measured": measured, "error": error, "overhead": report.overhead}
        if abs(error) > MOST_ERROR:
            faults[MEMORY] = f"measured {error:+.2%} of planned"
        if measured > report.budget_bytes + OVER_BYTES:
            faults[MEMORY] = f"{measured - report.budget_bytes} bytes over the budget"
    elif not told:
        faults[""] = "nothing is planned"
    return {**found, "verdict": verdict(faults, told), "why": "; ".join([*faults.values(), *told[:1]])[:400]}


def verdict(faults: dict[str, str], told: list[str]) -> str:
    """A fault is told where a sentence is of that matter."""
    if any(not any(word in sentence for sentence in told) for word in faults):
        return "SILENT"
    return "told" if told else "kept"


def run_here(library: str, name: str) -> int:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    made = strangers.make(library, name)
    if made is None:
        return REDRAWN
    for precision in PRECISIONS:
        for budget in BUDGETS:
            write(json.dumps(row(made, budget, precision)))
    return 0


def rows_of(library: str, name: str) -> tuple[int, Rows]:
    """What a process of its own finds: its exit status and rows."""
    command = [sys.executable, "-B", __file__, "--here", library, name]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
        status, text = ran.returncode, ran.stdout
        why = f"the process ended with {status}: {(ran.stderr.strip().splitlines() or [''])[-1][:160]}"
    except subprocess.TimeoutExpired as error:
        status, text, why = 1, (error.stdout or b"").decode(), f"more than {MOST_SECONDS} s"
    rows = [json.loads(line) for line in text.splitlines() if line.startswith('{"budget"')]
    if status not in (0, REDRAWN):
        rows.append({"budget": "", "precision": "", "verdict": "SILENT", "why": why})
    return status, rows


def write_rows(name: str, rows: Rows) -> None:
    for r in rows:
        figures = " | | | "
        if "planned" in r:
            figures = f"{r['planned'] / 2**20:.2f} | {r['measured'] / 2**20:.2f} | {r['error']:+.3%} | {r['overhead']:+.1%}"
        write(f"| {name} | {r['precision']} | {r['budget']} | {figures} | {r['verdict']} | {r['why']} |")


def write_summary(found: dict[str, Rows]) -> None:
    """Per library and precision: how many rows have which verdict, and the worst error; and what was said."""
    write("\n| | numbers | networks | rows | kept | told | SILENT | worst error |")
    write("|---|---|---:|---:|---:|---:|---:|---:|")
    for library in strangers.N_OF:
        for precision in PRECISIONS:
            of_library = {name: rows for name, rows in found.items() if name.startswith(f"{library}/")}
            rows = [r for rows in of_library.values() for r in rows if r["precision"] == precision]
            if rows:
                counts = " | ".join(str(sum(r["verdict"] == v for r in rows)) for v in VERDICTS)
                worst = max((abs(r["error"]) for r in rows if "error" in r), default=0.0)
                write(f"| {library} | {precision} | {len(of_library)} | {len(rows)} | {counts} | {worst:.4%} |")
    said = {(name, r["precision"], r["why"]): None for name, rows in found.items() for r in rows if r["verdict"] != "kept"}
    for name, precision, why in said:
        write(f"\n{name}, {precision}: {why}")


def main(wanted: list[str]) -> int:
    write("| network | numbers | budget | planned MiB | measured MiB | error | planned extra time | | |")
    write("|---|---|---|---:|---:|---:|---:|---|---|")
    found: dict[str, Rows] = {}
    taken: dict[str, int] = dict.fromkeys(strangers.N_OF, 0)
    for library, name in (tuple(w.split("/", 1)) for w in wanted) if wanted else strangers.drawn():
        if not wanted and taken[library] == strangers.N_OF[library]:
            continue
        status, rows = rows_of(library, name)
        if status == REDRAWN:
            continue
        taken[library] += 1
        found[f"{library}/{name}"] = rows
        write_rows(f"{library}/{name}", rows)
    write_summary(found)
    verdicts = [r["verdict"] for rows in found.values() for r in rows]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in VERDICTS)
    write(f"\n{len(found)} networks, {len(verdicts)} rows: {counts}")
    return 1 if "SILENT" in verdicts else 0


if __name__ == "__main__":
    sys.exit(run_here(*sys.argv[2:]) if sys.argv[1:2] == ["--here"] else main(sys.argv[1:]))
