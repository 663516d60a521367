"""memplan for PyTorch: training within a budget in bytes.

model = memplan.compile(model, budget="8GiB")
"""

from memplan.api import compile
from memplan.errors import BudgetError, FallbackWarning, LibraryError, MemplanError
from memplan.estimation import estimate
from memplan.explain.failed_allocation_hooks import explain_oom
from memplan.explain.saved import saved
from memplan.largest_batch import fit
from memplan.plan.graph_report import GraphReport
from memplan.report import Report
from memplan.run.in_place import uncompile
from memplan.run.named_backend import register
from memplan.schedules.api import pipeline
from memplan.torch_internals import probe
from memplan.train_step import TrainStep

probe()
register()

__all__ = [
    "BudgetError",
    "FallbackWarning",
    "GraphReport",
    "LibraryError",
    "MemplanError",
    "Report",
    "TrainStep",
    "compile",
    "estimate",
    "explain_oom",
    "fit",
    "pipeline",
    "saved",
    "uncompile",
]
