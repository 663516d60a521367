"""memplan for PyTorch: training within a budget in bytes.

model = memplan.compile(model, budget="8GiB")
"""

from memplan.api import compile
from memplan.errors import BudgetError, FallbackWarning, LibraryError, MemplanError
from memplan.estimation import estimate
from memplan.explain.saved import saved
from memplan.explain.watching import explain_oom
from memplan.largest import fit
from memplan.plan.graph_report import GraphReport
from memplan.report import Report
from memplan.run.by_name import register
from memplan.run.in_place import uncompile
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
