"""What a framework's loop keeps beside the model, for the budget: the state of its optimizers, and gradients of earlier
batches. And what was planned, in the log."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from torch import nn
from torch.optim import Optimizer

from memplan.api import backend_for, backend_kind
from memplan.budget import Budget
from memplan.errors import MemplanError
from memplan.report import Report
from memplan.run.backend import Backend

LOG = logging.getLogger("memplan")
COUNTED_HERE = ("optimizer", "accumulate")  # which a loop knows better than the user


class Counted:
    """A budget and memplan.compile's options, as the user gave them to a callback, and what has come of them."""

    def __init__(self, budget: Budget, options: dict[str, Any]) -> None:
        if given := [name for name in COUNTED_HERE if name in options]:
            raise MemplanError(f"{given[0]}= is counted by the callback itself, which knows the loop: leave it out")
        self.budget, self.options = budget, options
        self.report = Report()
        self.n_said = 0  # graphs that are in the log

    def backend(self, model: nn.Module, optimizers: Iterable[Optimizer], keeps_gradients: bool) -> tuple[Backend, bool]:
        """What compiles this model in this loop, and whether the graph has to be whole. `keeps_gradients`: there are
        gradients of earlier batches in forward."""
        options = dict(self.options)
        kind = backend_kind(options.pop("inductor", False))
        backend = backend_for(kind, model, self.budget, optimizers, keeps_gradients, **options)
        self.report, self.n_said = backend.report, 0
        return backend, options.get("fullgraph", True)

    def say_planned(self) -> None:
        """Graphs that were planned since, at level INFO of the logger "memplan"."""
        graphs = self.report.graphs
        if len(graphs) < self.n_said:  # all were planned anew
            self.n_said = 0
        for graph in graphs[self.n_said :]:
            LOG.info("planned %s", graph)
        self.n_said = len(graphs)
