"""Runs a situation with a plan and in eager PyTorch, and says which of three things a user sees.

"works": a plan ran, its results are eager's bits, and the measured peak is within the budget.
"warned": a warning or an error of memplan came before a difference or a step without a plan.
"silent": neither of them, which is a fault.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from against_eager import eager_copy

import memplan
from threads.situations import Situation

BUDGET = "min+50%"
STEPS = 3


def run(model: Any, situation: Situation) -> list[torch.Tensor]:
    """Losses of some steps of SGD, then gradients, parameters and buffers."""
    results = []
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01, momentum=0.9)
    for k in range(STEPS):
        torch.manual_seed(k)
        optimizer.zero_grad()
        results += [t.detach().clone() for t in situation.step(model, *(situation.data() if situation.data else ()))]
        results.append(torch.rand(1))
        results += [p.grad.clone() for p in model.parameters() if p.grad is not None]
        optimizer.step()
    return results + [t.detach().clone() for t in (*model.parameters(), *model.buffers())]


def over_budget(model: Any, situation: Situation) -> str:
    """The measured peak of a step beside the budget, if it is above."""
    if situation.data is None:
        return ""
    report, data = model.memplan, situation.data()
    model.zero_grad()
    got, budget = report.measure(lambda: situation.step(model, *data)), report.budget_bytes
    return f"peak {got:,} over the budget of {budget:,} bytes" if budget and got > budget * 1.001 else ""


def verdict(situation: Situation) -> tuple[str, str]:
    """Returns: "works", "warned" or "silent", and the reason."""
    torch._dynamo.reset()
    torch.manual_seed(1)
    model = situation.build()
    eager = eager_copy(model)
    expected = run(eager, situation)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        memplan.compile(model, BUDGET)
        try:
            got = run(model, situation)
        except memplan.MemplanError as error:
            return "warned", f"error: {error}"
        said = [str(w.message) for w in caught if "memplan" in str(w.message)]
        same = len(got) == len(expected) and all(torch.equal(a, b) for a, b in zip(got, expected))
        planned = bool(model.memplan.graphs)
        faults = [] if same else ["other bits than eager"]
        faults += [] if planned else ["no plan"]
        if planned and same:
            faults += [fault] if (fault := over_budget(model, situation)) else []
        said = [str(w.message) for w in caught if "memplan" in str(w.message)]
    if not faults:
        return "works", f"also said: {said[0]}" if said else ""
    return ("warned", said[0]) if said else ("silent", "; ".join(faults))
