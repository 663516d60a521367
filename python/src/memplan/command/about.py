"""Lines that the command line adds to a report: numbers of the model, and ways to reduce its memory."""

from __future__ import annotations

from typing import Any

import torch

from memplan.budget import gradient_bytes, in_units, total_bytes
from memplan.memory.optimizer_state import optimizer_bytes
from memplan.plan.advice import what_would_help
from memplan.report import Report


def numbers(model: torch.nn.Module, optimizer: Any) -> dict[str, int]:
    """Return the model's parameter counts, and the bytes of its parameters, gradients and optimizer state, over all ranks."""
    parameters = list(model.parameters())
    found = {
        "n_parameters": sum(p.numel() for p in parameters),
        "n_trained_parameters": sum(p.numel() for p in parameters if p.requires_grad),
        "parameter_bytes": total_bytes(parameters),
        "gradient_bytes": gradient_bytes(model),
    }
    return found | ({"optimizer_bytes": optimizer_bytes(optimizer)} if optimizer is not None else {})


def sentences(model: torch.nn.Module, optimizer: Any) -> list[str]:
    known = numbers(model, optimizer)
    n, trained = known["n_parameters"], known["n_trained_parameters"]
    of = "" if trained == n else f" of the {trained:,} that are trained"
    found = [f"{n:,} parameters take {in_units(known['parameter_bytes'])}, gradients{of} {in_units(known['gradient_bytes'])}"]
    if optimizer is not None:
        found.append(f"{type(optimizer).__name__} keeps {in_units(known['optimizer_bytes'])} between steps")
    return found


def remedies(report: Report) -> list[str]:
    """Return lines that name ways to reduce memory, under a heading. Return no lines if no way is known."""
    found = [f"  {sentence}" for sentence in what_would_help(report.graph)] if report.graphs else []
    return ["what would help", *found] if found else []
