"""Memory of a framework's training loop besides the model (optimizer state, earlier gradients), and log entries about plans."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from torch import nn
from torch.optim import Optimizer

from memplan.api import backend_for
from memplan.budget import Budget
from memplan.errors import MemplanError
from memplan.report import Report
from memplan.run.backend import Backend

LOG = logging.getLogger("memplan")
COUNTED_HERE = ("optimizer", "accumulate")  # options of memplan.compile that the callback sets itself, from the training loop


class Counted:
    """The budget and options of a callback, and the resulting report."""

    def __init__(self, budget: Budget, options: dict[str, Any]) -> None:
        if given := [name for name in COUNTED_HERE if name in options]:
            raise MemplanError(f"the callback counts {given[0]}= itself, because it knows the training loop; omit this option")
        self.budget, self.options = budget, options
        self.report = Report()
        self.n_said = 0  # number of plans that the log already contains

    def backend(self, model: nn.Module, optimizers: Iterable[Optimizer], keeps_gradients: bool) -> tuple[Backend, bool]:
        """Return the backend for a model in this training loop, and whether graph breaks are refused.

        `keeps_gradients`: whether gradients of earlier batches exist during forward.
        """
        backend = backend_for(Backend, model, optimizers, keeps_gradients, budget=self.budget, **self.options)
        self.report, self.n_said = backend.report, 0
        return backend, self.options.get("fullgraph", True)

    def say_planned(self) -> None:
        """Log new plans at level INFO of the logger "memplan"."""
        graphs = self.report.graphs
        if len(graphs) < self.n_said:  # fewer graphs than logged plans: all graphs were planned again
            self.n_said = 0
        for graph in graphs[self.n_said :]:
            LOG.info("planned %s", graph)
        self.n_said = len(graphs)
