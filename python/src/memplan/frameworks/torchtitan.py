"""torchtitan's eager trainer within a budget: a policy of its activation checkpointing.

from memplan.frameworks.torchtitan import MemplanAC
config.activation_checkpoint = MemplanAC.Config(budget="70GiB")

torchtitan's command line accepts it as well: `activation-checkpoint:memplan --activation-checkpoint.budget 70GiB`.

memplan plans the trainer's step like a fully_shard model in memplan.compile. The plan includes the loss: the model receives the
labels and further arguments of the loss. The rest of the trainer is unchanged.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Annotated, Any, cast

import spmd_types
import torch
import tyro
from torch import nn
from torchtitan.components.loss import ChunkedLossWrapper
from torchtitan.distributed.activation_checkpoint import ActivationCheckpointing, ActivationCheckpointingConfig
from torchtitan.trainer import Trainer

from memplan.api import compiled_with
from memplan.errors import MemplanError
from memplan.frameworks.loop_memory import Counted
from memplan.torch_internals.modules import COMPILED

POLICY = "memplan_policy"  # key in the model's `__dict__`: memplan's policy of this model


class MemplanAC(ActivationCheckpointing):
    """Activation checkpointing by a plan of the whole step within the budget.

    All ranks make the plan in the trainer's first step. Later steps use the same plan.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(ActivationCheckpointing.Config):
        budget: str = "auto"
        """Bytes of one device that a step may use: "70GiB", "60%" (of keeping everything), "min+20%" or "auto"."""

        reserve: str = "0"
        """Bytes of the budget for memory outside of the trainer's step."""

    def apply(self, model: nn.Module) -> None:
        """Let the trainer's step call the model together with the loss."""
        config = cast("MemplanAC.Config", self.config)
        self.counted = Counted(config.budget, {"reserve": config.reserve})
        self.loss: Any = None
        own = model.forward

        def forward(*args: Any, labels: Any = None, n_words: Any = None, **kwargs: Any) -> Any:
            if labels is None and torch.is_grad_enabled():
                raise MemplanError(
                    "memplan plans the step of torchtitan's own trainer, but this trainer calls the model in"
                    " another way, such as a pipeline; omit memplan's policy"
                )
            made = own(*args, **kwargs)
            positions = {name: kwargs[name] for name in ("positions",) if name in kwargs}
            return made if labels is None else self.loss(made, labels, n_words, **positions)[0]

        model.forward = forward
        vars(model)[POLICY] = self

    def begin(self, trainer: Trainer, model: nn.Module) -> None:
        """Compile the model before the first step. Raises MemplanError."""
        refuse(trainer, model)
        self.loss = trainer.loss_fn
        backend, fullgraph = self.counted.backend(model, trainer.optimizers, trainer.gradient_accumulation_steps > 1)
        compiled_with(model, backend, fullgraph)


def refuse(trainer: Trainer, model: nn.Module) -> None:
    """Raise MemplanError for features of the trainer that memplan cannot plan."""
    if any(vars(m).get(COMPILED) is not None for m in model.modules()):
        raise MemplanError(
            "the compiler of these blocks chooses the recomputed tensors itself; omit --compile.enable, or use the"
            " graph trainer with the memory policy `memplan`"
        )
    if isinstance(trainer.loss_fn, ChunkedLossWrapper):
        raise MemplanError("a chunked loss runs backward itself, chunk by chunk, outside of any plan; use a plain loss")
    if trainer.device.type != "cpu" and not trainer.config.training.disable_cuda_graphs:
        raise MemplanError("memplan's plans cannot run in a CUDA graph; set --training.disable-cuda-graphs")


STEP = Trainer.forward_backward_step


def planned_step(self: Trainer, **given: Any) -> torch.Tensor:
    """Run a step of torchtitan's trainer; this function replaces the trainer's own.

    With memplan's policy, forward, loss and backward run as planned from the first step on.
    """
    policy: MemplanAC | None = vars(self.model_parts[0]).get(POLICY)
    if policy is not None and policy.loss is None and not self.parallel_dims.pp_enabled:
        policy.begin(self, self.model_parts[0])
        self.fwd_bwd_fn = functools.partial(forward_and_backward, self, policy)
    made: torch.Tensor = STEP(self, **given)
    return made


def forward_and_backward(
    trainer: Trainer, policy: MemplanAC, inputs: Any, labels: Any, global_valid_tokens: Any, extra_kwargs: dict[str, Any]
) -> torch.Tensor:
    """Run forward, loss and backward of the trainer's step, with the loss within the model's call."""
    with trainer.train_context():
        loss: torch.Tensor = trainer.model_parts[0](inputs, labels=labels, n_words=global_valid_tokens, **extra_kwargs)
        with spmd_types.no_typecheck():
            loss.backward()  # type: ignore[no-untyped-call]
    policy.counted.say_planned()
    return loss


def add_to_torchtitan() -> None:
    """Register memplan in torchtitan: the policy as a subcommand of the configuration, and the planned step."""
    ours = Annotated[MemplanAC.Config, tyro.conf.subcommand("memplan")]
    Trainer.Config.__annotations__["activation_checkpoint"] = ActivationCheckpointingConfig | ours
    Trainer.forward_backward_step = planned_step


add_to_torchtitan()
