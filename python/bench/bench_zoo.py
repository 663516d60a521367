"""The table of networks: planned and measured memory, and whether results are bit-identical to eager PyTorch.

make bench-python BENCH=zoo [NETWORKS="NAME..."]
The exit status is 1 if a row is not as promised: measured within 0.5 % of
planned, never over the budget, less with less budget; losses, gradients and buffers after three steps equal to eager's (of
networks.CAPTURED_OTHERWISE: to those of PyTorch's capture).
"""

from __future__ import annotations

import copy
import statistics
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

import networks
import torch
import zoo
from against_eager import assert_like_eager, peak_of_step, static_bytes

import memplan

BUDGETS = ("100%", "floor+60%", "floor+30%", "floor+10%")
MIB = 1 << 20
MOST_ERROR = 0.005
OVER_BYTES = 64 * 1024  # numbers that Python makes during a step: seeds, steps


@dataclass
class Row:
    budget: str
    report: Any
    measured: int
    same_bits: str
    first_seconds: float

    @property
    def error(self) -> float:
        return float(self.measured / self.report.planned_bytes - 1)

    def faults(self, before: Row | None) -> list[str]:
        found = [] if self.same_bits == "yes" else [self.same_bits]
        if abs(self.error) > MOST_ERROR:
            found.append(f"measured {self.error:+.2%} of planned")
        if self.report.planned_bytes > self.report.budget_bytes:
            found.append("smallest plan")
        elif self.measured > self.report.budget_bytes + OVER_BYTES:
            found.append("over the budget")
        if before is not None and self.measured > before.measured + OVER_BYTES:
            found.append("more memory with less budget")
        return found


def run(name: str, budget: str) -> Row:
    model, inputs = zoo.make(name)
    torch._dynamo.reset()
    trained = copy.deepcopy(model)
    compiled = memplan.compile(trained, budget, on_infeasible="smallest")
    start = time.perf_counter()
    compiled(*inputs).backward()
    first = time.perf_counter() - start
    for ours, p in zip(trained.state_dict().values(), model.state_dict().values()):
        ours.copy_(p)  # the first step has moved buffers
    for p in trained.parameters():
        p.grad = None
    measured = static_bytes(trained, inputs) + peak_of_step(compiled, inputs)
    for ours, p in zip(trained.state_dict().values(), model.state_dict().values()):
        ours.copy_(p)
    for p in trained.parameters():
        p.grad = None
    try:
        assert_like_eager(trained, compiled, inputs, eager=networks.reference(name, model))
        same = "yes"
    except AssertionError as error:
        same = str(error).splitlines()[0]
    return Row(budget, compiled.memplan, measured, same, first)


def main(names: list[str]) -> int:
    torch.set_num_threads(1)
    torch._dynamo.config.allow_rnn = True  # for networks.reference; memplan sets it by itself
    warnings.simplefilter("ignore", memplan.FallbackWarning)
    write = sys.stdout.write
    write("| network | budget | keep all MiB | planned MiB | measured MiB | error | extra time | proved | first step s | |\n")
    write("|---|---|---:|---:|---:|---:|---:|---:|---:|---|\n")
    errors, n_faults = [], 0
    for name in names or list(zoo.ZOO):
        before = None
        for budget in BUDGETS:
            try:
                row = run(name, budget)
                report = row.report
                _ = report.planned_bytes
            except Exception as error:
                write(f"| {name} | {budget} | | | | | | | | {type(error).__name__}: {str(error).splitlines()[0][:200]} |\n")
                n_faults += 1
                break
            faults = row.faults(before)
            before = row
            errors.append(abs(row.error))
            n_faults += any(f != "smallest plan" for f in faults)
            write(
                f"| {name} | {budget} | {report.keep_all_bytes / MIB:.2f} | {report.planned_bytes / MIB:.2f} |"
                f" {row.measured / MIB:.2f} | {row.error:+.3%} | {report.overhead:+.1%} | {report.proved_overhead:+.1%} |"
                f" {row.first_seconds:.1f} | {'; '.join(faults)} |\n"
            )
            sys.stdout.flush()
    if errors:
        middle, most = statistics.median(errors), max(errors)
        write(f"\n{len(errors)} rows: error {middle:.3%} in the median, {most:.3%} at most; {n_faults} faults\n")
    return 1 if n_faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
