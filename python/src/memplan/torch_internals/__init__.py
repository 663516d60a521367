"""All that memplan uses of PyTorch's insides. What stands here may be gone in the next version: each name says what it is for,
and what is so without it. No other file of the package has a private name of PyTorch.

    autograd   nodes of the graph of autograd, what they save, the engine, the profiler's events
    capture    what PyTorch captures, knows of it, and makes of it
    devices    who is told when memory runs out
    elsewhere  captures for a device that need not be here
    engine     backward without PyTorch's engine
    dispatch   operators, their kernels, and what watches them
    leaves     tensors that begin to require a gradient while they are captured
    modules    modules, optimizers and replicas
    sharding   what fully_shard has made of a model
    tensors    counters of writes, hooks, values in values
"""

from __future__ import annotations

import warnings

from memplan.errors import FallbackWarning
from memplan.torch_internals import autograd, capture, devices, dispatch, elsewhere, engine, leaves, modules, sharding, tensors
from memplan.torch_internals.names import missing

__all__ = [
    "autograd",
    "capture",
    "devices",
    "dispatch",
    "elsewhere",
    "engine",
    "leaves",
    "modules",
    "probe",
    "sharding",
    "tensors",
]


def probe() -> None:
    """Says once, as the package is imported, what is lost with a PyTorch that has changed."""
    import torch

    if lost := [str(name) for name in missing() if name.lost]:
        sentence = f"memplan does not know PyTorch {torch.__version__} well enough, which has no " + "; no ".join(lost)
        warnings.warn(sentence, FallbackWarning, stacklevel=3)
