"""All uses of private PyTorch functions. No other file of the package uses a private name of PyTorch.

A later PyTorch version may remove any of these names. Each name therefore states its use and the consequence of its absence.

    absent_device  captures for a device that is absent
    autograd       nodes of the autograd graph, the tensors they save, the engine, events of the profiler
    autocast_on_meta  autocast of a GPU for tensors on the meta device
    batch_norm     shapes of batch normalization for fake tensors
    capture        captures of dynamo and their properties
    collectives    collectives in captured graphs, and their process groups
    devices        callbacks for failed allocations
    dispatch       operators, their kernels, and modes that observe them
    engine         backward without PyTorch's engine
    fake           values of captured operators, and the names of graph nodes
    leaves         tensors that begin to require a gradient during a capture
    modules        modules, optimizers and replicas
    sharding       the state of a model under fully_shard
    tensors        version counters, hooks, tensors within other values
    without_gpu    eager steps on the meta device that stands for a GPU
    texts          stack traces and logged graphs of a capture
"""

from __future__ import annotations

import warnings

from memplan.errors import FallbackWarning
from memplan.torch_internals import (
    absent_device,
    autograd,
    capture,
    devices,
    dispatch,
    engine,
    leaves,
    modules,
    sharding,
    tensors,
    without_gpu,
)
from memplan.torch_internals.names import missing

__all__ = [
    "absent_device",
    "autograd",
    "capture",
    "devices",
    "dispatch",
    "engine",
    "leaves",
    "modules",
    "probe",
    "sharding",
    "tensors",
    "without_gpu",
]


def probe() -> None:
    """Warn once at import if this PyTorch version lacks private functions that memplan uses."""
    import torch

    if lost := [str(name) for name in missing() if name.lost]:
        sentence = f"memplan does not fully support PyTorch {torch.__version__}, which lacks " + "; it lacks ".join(lost)
        warnings.warn(sentence, FallbackWarning, stacklevel=3)
