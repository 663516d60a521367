"""A callback for Hugging Face's Trainer:

from memplan.frameworks.hugging_face import MemplanCallback
trainer = Trainer(model=model, args=args, ..., callbacks=[MemplanCallback("8GiB")])
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import Optimizer
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from memplan.api import compiled_with
from memplan.budget import Budget
from memplan.compiled_modules import place_of
from memplan.errors import FallbackWarning, MemplanError
from memplan.frameworks.loop_memory import Counted
from memplan.report import Report
from memplan.run.in_place import uncompile

Buckets = int | Sequence[int]
NO_LABEL = -100  # label that all losses of transformers ignore


class MemplanCallback(TrainerCallback):
    """Compile the Trainer's model in place during training.

    The budget includes the optimizer's state. With gradient accumulation, it also includes gradients of earlier batches. After
    the training, the model is restored and `report` remains.

    Args:
        budget: as in memplan.compile.
        buckets: lengths to which texts are padded, or a number whose multiples are the lengths. Each length has one plan.
        **options: as in memplan.compile, without `optimizer` and `accumulate`, which the callback sets.
    """

    def __init__(self, budget: Budget = "auto", *, buckets: Buckets = 1, **options: Any) -> None:
        self.counted, self.buckets = Counted(budget, options), buckets

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
        train_dataloader: Any,
        **_: Any,
    ) -> None:
        refuse(args)
        if args.label_smoothing_factor:
            warnings.warn(
                "memplan: the Trainer smooths labels outside of the model, so no plan contains the memory of that"
                " loss; count it with reserve=",
                FallbackWarning,
                stacklevel=2,
            )
        if self.buckets != 1:
            # `base_dataloader`: the data loader with the collator, which accelerate has wrapped
            loader = getattr(train_dataloader, "base_dataloader", train_dataloader)
            loader.collate_fn = Padded(loader.collate_fn, self.buckets, model)
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


class Padded:
    """A data collator that pads texts on the right to the next bucket, with masked padding.

    A text longer than all buckets is not padded and has a plan of its own.
    """

    def __init__(self, collate: Callable[[Any], Any], buckets: Buckets, model: nn.Module) -> None:
        self.collate: Callable[[Any], Any] = collate.collate if isinstance(collate, Padded) else collate
        self.buckets = buckets
        word = getattr(getattr(model, "config", None), "pad_token_id", None)
        self.values = {"labels": NO_LABEL, "input_ids": word if isinstance(word, int) and word >= 0 else 0}

    def length(self, now: int) -> int:
        if isinstance(self.buckets, int):
            return -(-now // self.buckets) * self.buckets
        return min((b for b in self.buckets if b >= now), default=now)

    def __call__(self, rows: Any) -> Any:
        batch = self.collate(rows)
        if "input_ids" not in batch or "attention_mask" not in batch:
            raise MemplanError("buckets= needs batches of input_ids and attention_mask; without a mask the model reads padding")
        now = batch["input_ids"].shape[1]
        more = self.length(now) - now
        for name, value in batch.items():
            if isinstance(value, torch.Tensor) and value.dim() > 1 and value.shape[1] == now and more:
                batch[name] = F.pad(value, (0,) * (2 * value.dim() - 3) + (more,), value=self.values.get(name, 0))
        return batch


def refuse(args: TrainingArguments) -> None:
    """Raise MemplanError if another compiler or DeepSpeed handles the model."""
    if args.torch_compile:
        raise MemplanError(
            "torch_compile, torch_compile_backend and torch_compile_mode compile the model for another backend, so"
            " memplan cannot plan it; omit these options"
        )
    if args.deepspeed:
        raise MemplanError("memplan does not plan models sharded by DeepSpeed; omit the callback or DeepSpeed")
