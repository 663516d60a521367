"""A callback for Lightning's Trainer:

from memplan.frameworks.lightning import MemplanCallback
trainer = Trainer(..., callbacks=[MemplanCallback("8GiB")])
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from memplan.api import captured
from memplan.budget import Budget
from memplan.errors import MemplanError
from memplan.frameworks.loop_memory import Counted
from memplan.graph.distributed import refuse_sharded
from memplan.report import Report

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError:  # the package name of older versions of Lightning
    from pytorch_lightning import Callback, LightningModule, Trainer

STEP = "training_step"


class PlannedStep:
    """A module's training_step, captured as a whole with its loss.

    The capture records values to log, and they are logged afterwards. The object is stored in the module's `__dict__` during a
    fit. Copies of the module have the original training_step.
    """

    def __init__(self, module: LightningModule, captured_step: Any) -> None:
        self.module, self.captured_step = module, captured_step
        self.notes: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        functools.update_wrapper(self, getattr(module, STEP))

        def note(name: str, value: Any, *args: Any, **kwargs: Any) -> None:
            kept = value.detach().clone() if isinstance(value, torch.Tensor) else value
            self.notes.append(((name, kept, *args), kwargs))

        self.note = note

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        entries = vars(self.module)
        before = {name: entries[name] for name in ("log",) if name in entries}
        self.notes.clear()
        entries["log"] = self.note
        try:
            result = self.captured_step(self.module, *args, **kwargs)
        finally:
            del entries["log"]
            entries.update(before)
        for noted, options in self.notes:
            self.module.log(*noted, **options)
        self.notes.clear()
        return result

    def __reduce__(self) -> Any:
        return getattr, (self.module, STEP)


class MemplanCallback(Callback):
    """Plan the module's training_step with its loss during a fit.

    The budget includes the optimizers' state. It also includes gradients of the previous step, because Lightning frees them
    only between forward and backward. After the fit, the module is restored and `report` remains.

    Args:
        budget: as in memplan.compile.
        **options: as in memplan.compile, without `optimizer` and `accumulate`, which the callback sets.
    """

    def __init__(self, budget: Budget = "auto", **options: Any) -> None:
        self.counted = Counted(budget, options)
        self.before: dict[str, Any] = {}

    @property
    def report(self) -> Report:
        return self.counted.report

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        refuse(trainer, pl_module)
        backend, fullgraph = self.counted.backend(pl_module, trainer.optimizers, keeps_gradients=True)
        entries = vars(pl_module)
        self.before = {STEP: entries[STEP]} if STEP in entries else {}
        own = self.before.get(STEP)

        def run(self: LightningModule, *args: Any, **kwargs: Any) -> Any:
            return type(self).training_step(self, *args, **kwargs) if own is None else own(*args, **kwargs)

        run.__name__ = f"{type(pl_module).__name__}.{STEP}"
        # PyTorch stores captures by code object, so each planned module needs a code object of its own
        run.__code__ = run.__code__.replace(co_name=STEP)
        entries[STEP] = PlannedStep(pl_module, captured(run, backend, fullgraph))

    def on_train_batch_end(self, *_: Any, **__: Any) -> None:
        self.counted.say_planned()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        entries = vars(pl_module)
        if isinstance(entries.get(STEP), PlannedStep):
            del entries[STEP]
            entries.update(self.before)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.on_train_end(trainer, pl_module)


def refuse(trainer: Trainer, module: LightningModule) -> None:
    """Raise MemplanError for features that memplan cannot plan within a whole step."""
    if not module.automatic_optimization:
        raise MemplanError(
            "memplan cannot plan a training_step that runs backward itself (automatic_optimization=False); omit the"
            " callback, and call memplan.compile on each network of the module"
        )
    if getattr(module, "_compiler_ctx", None) is not None:
        raise MemplanError(
            "torch.compile has compiled this module for another backend; pass the original module to the Trainer"
        )
    if "DeepSpeed" in type(trainer.strategy).__name__:
        raise MemplanError("memplan does not plan models sharded by DeepSpeed; omit the callback or DeepSpeed")
    refuse_sharded(trainer.strategy.model, whole_steps=True)
