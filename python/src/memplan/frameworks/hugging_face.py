"""Hugging Face's Trainer within a budget:

from memplan.frameworks.hugging_face import MemplanCallback
trainer = Trainer(model=model, args=args, ..., callbacks=[MemplanCallback("8GiB")])
"""

from __future__ import annotations

import warnings
from typing import Any

from torch import nn
from torch.optim import Optimizer
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from memplan.api import compiled_with
from memplan.budget import Budget
from memplan.errors import FallbackWarning, MemplanError
from memplan.frameworks.counted import Counted
from memplan.in_place import place_of, uncompile
from memplan.report import Report


class MemplanCallback(TrainerCallback):
    """Compiles the Trainer's model in place while it trains, with the optimizer's state counted, and gradients of earlier
    batches where there is gradient accumulation. Afterwards the model is what it was; `report` stays.

    budget, options: as memplan.compile's; `optimizer` and `accumulate` are the callback's.
    """

    def __init__(self, budget: Budget = "auto", **options: Any) -> None:
        self.counted = Counted(budget, options)

    @property
    def report(self) -> Report:
        return self.counted.report

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        *,
        model: nn.Module,
        optimizer: Optimizer,
        **_: Any,
    ) -> None:
        refuse(args)
        if args.label_smoothing_factor:
            warnings.warn(
                "memplan: the Trainer smooths labels outside of the model, and what that loss takes is in no plan: reserve="
                " counts it",
                FallbackWarning,
                stacklevel=2,
            )
        backend, fullgraph = self.counted.backend(model, [optimizer], args.gradient_accumulation_steps > 1)
        compiled_with(model, backend, fullgraph)

    def on_substep_end(self, *_: Any, **__: Any) -> None:
        self.counted.say_planned()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.counted.say_planned()

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, *, model: nn.Module, **_: Any
    ) -> None:
        if place_of(model) is not None:
            uncompile(model)


def refuse(args: TrainingArguments) -> None:
    """What somebody else compiles or cuts. MemplanError."""
    if args.torch_compile:
        raise MemplanError(
            "torch_compile, torch_compile_backend and torch_compile_mode have the model compiled for another backend, and"
            " memplan would plan nothing: leave them out"
        )
    if args.deepspeed:
        raise MemplanError("memplan does not plan what DeepSpeed shards: leave the callback or DeepSpeed out")
