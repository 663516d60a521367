"""torchtitan's eager trainer within a budget: a policy of its activation checkpointing.

from memplan.frameworks.torchtitan import MemplanAC
config.activation_checkpoint = MemplanAC.Config(budget="70GiB")

It is a subcommand of torchtitan's, too: `activation-checkpoint:memplan --activation-checkpoint.budget 70GiB`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, cast

import torch
import tyro
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.nn import functional as F
from torchtitan.distributed.activation_checkpoint import ActivationCheckpointing, ActivationCheckpointingConfig
from torchtitan.trainer import Trainer

from memplan.api import estimate
from memplan.budget import only_bytes
from memplan.checkpoints.export import Exporter
from memplan.checkpoints.modules import Checkpoints
from memplan.errors import MemplanError
from memplan.frameworks.counted import LOG
from memplan.torch_internals.modules import COMPILED

INNER, BLOCKS = "model", "layers"  # what Trained calls the model, and torchtitan's models their blocks
STANDARD_DEVIATION = 0.02  # of weights that are made up: steps of them stay finite


class Trained(nn.Module):
    """A model under a cross entropy over what it returns, as torchtitan trains it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        scores = self.model(*args, **kwargs).flatten(0, -2).float()
        return F.cross_entropy(scores, scores.new_zeros(len(scores), dtype=torch.long), reduction="sum")


class MemplanAC(ActivationCheckpointing):
    """Checkpoints around the modules of the blocks, and what is kept of them, as a plan within a budget says. The plan is made
    when the model is first called with gradients, on a copy without sharding, whose steps are run and measured."""

    @dataclass(kw_only=True, slots=True)
    class Config(ActivationCheckpointing.Config):
        budget: str = "auto"
        """What a step may take of one device, all in all: "70GiB", "60%" of keeping everything, "min+20%", "auto"."""

        reserve: str = "0"
        """Of the budget, for what the model's own step does not show: gradients of earlier micro-batches, buffers of
        communication."""

        state_per_parameter: int = 2
        """Values that the optimizer keeps for a trained parameter: Adam's two moments."""

    def apply(self, model: nn.Module) -> None:
        own = copy.deepcopy(model)  # before FSDP has its hands on it; on the meta device it takes nothing
        forward = model.forward

        def run(*args: Any, **kwargs: Any) -> Any:
            if torch.is_grad_enabled():
                model.forward = forward
                self.put_into(model, own, args, kwargs)
            return forward(*args, **kwargs)

        model.forward = run

    def put_into(self, model: nn.Module, own: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        refuse(model)
        dtype, device = parameters_in_forward(model)
        config = cast("MemplanAC.Config", self.config)
        reserve = only_bytes(config.reserve) + self.beside(model, dtype)
        found = chosen(ready(own, model, dtype, device), args, kwargs, config.budget, reserve)
        found.apply(Trained(model))
        LOG.info("planned %s", found)

    def beside(self, model: nn.Module, dtype: torch.dtype) -> int:
        """Bytes that a step of a copy in the precision of forward does not have: the optimizer's state, and under FSDP what the
        copy's parameters are gathered from and its gradients become."""
        state = cast("MemplanAC.Config", self.config).state_per_parameter
        n_bytes = 0
        for p in model.parameters():
            mine = local(p)
            n_bytes += state * mine.nbytes * p.requires_grad
            if isinstance(p, DTensor):
                n_bytes += mine.nbytes + max(0, mine.nbytes - mine.numel() * dtype.itemsize) * p.requires_grad
        return n_bytes


def local(parameter: torch.Tensor) -> torch.Tensor:
    """What this device has of it."""
    return parameter.to_local() if isinstance(parameter, DTensor) else parameter


def refuse(model: nn.Module) -> None:
    """What a plan for one device, and for eager PyTorch, does not hold for. MemplanError."""
    if any(isinstance(p, DTensor) and p.device_mesh.size() > 1 for p in model.parameters()):
        raise MemplanError("memplan plans torchtitan's models on one device, and this one is cut over several")
    if any(vars(m).get(COMPILED) is not None for m in model.modules()):
        raise MemplanError(
            "these blocks are compiled, and their compiler chooses what is computed again: leave --compile.enable out, or"
            " take the graph trainer with the memory policy `memplan`"
        )


def blocks(model: nn.Module) -> Iterator[nn.Module]:
    return model.get_submodule(BLOCKS).children()


def parameters_in_forward(model: nn.Module) -> tuple[torch.dtype, torch.device]:
    """The precision and the device that blocks compute with."""
    block = next(blocks(model))
    if isinstance(block, FSDPModule):
        block.unshard()
    found = next(p for p in block.parameters() if p.is_floating_point())
    dtype, device = found.dtype, found.device
    if isinstance(block, FSDPModule):
        block.reshard()
    return dtype, device


def ready(own: nn.Module, model: nn.Module, dtype: torch.dtype, device: torch.device) -> nn.Module:
    """A copy of the model to be trained for a step: with weights that are made up, and the model's buffers."""
    for module in own.modules():
        vars(module).pop("forward", None)  # what shards calls the model's own
    own.to_empty(device=device)
    with torch.no_grad(), torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        for p in own.parameters():
            p.data = nn.init.normal_(p.data, std=STANDARD_DEVIATION).to(dtype)
        for buffer, theirs in zip(own.buffers(), model.buffers()):
            buffer.copy_(local(theirs))
    return Trained(own)


def chosen(trained: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], budget: str, reserve: int) -> Checkpoints:
    """Checkpoints in the blocks: FSDP's hooks are around these, and what runs again has its parameters there."""
    report = estimate(trained, args, kwargs=kwargs, budget=budget, reserve=reserve)
    exporter = Exporter(report.graph, trained, args, kwargs, below=f"{INNER}.{BLOCKS}")
    return exporter.choose(exporter.keepable())


def add_to_command_line() -> None:
    """`activation-checkpoint:memplan` beside torchtitan's own. What a trainer may be given stands in its configuration."""
    ours = Annotated[MemplanAC.Config, tyro.conf.subcommand("memplan")]
    Trainer.Config.__annotations__["activation_checkpoint"] = ActivationCheckpointingConfig | ours


add_to_command_line()
