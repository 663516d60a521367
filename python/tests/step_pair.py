"""A model trained by eager PyTorch and by a planned step, to compare losses, states and memory."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import networks
import torch
from against_eager import peak_of_call
from torch import nn

import memplan

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "AdamW, fused": lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1),
}
OTHERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "Adam": lambda p: torch.optim.Adam(p, lr=1e-2, amsgrad=True, weight_decay=0.1, foreach=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=1e-3, momentum=0.5, centered=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, initial_accumulator_value=0.1),
    "Adadelta": torch.optim.Adadelta,
    "Adamax": torch.optim.Adamax,
    "NAdam": torch.optim.NAdam,
    "RAdam": torch.optim.RAdam,
    "ASGD": torch.optim.ASGD,
    "Rprop": torch.optim.Rprop,
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, nesterov=True, momentum=0.9, maximize=True),
}


class Pair:
    """A model with its optimizer in eager PyTorch, and a copy of both in a planned step."""

    def __init__(self, model: nn.Module, make_optimizer: Callable[[Any], torch.optim.Optimizer], **options: Any) -> None:
        self.eager, self.model = options.pop("eager", None) or copy.deepcopy(model), model
        self.loss = options.pop("loss", None)
        self.theirs, self.ours = (make_optimizer(m.parameters()) for m in (self.eager, model))
        self.step = memplan.TrainStep(model, self.loss, self.ours, **{"effort": "quick", **options})

    def eager_step(self, *inputs: Any) -> torch.Tensor:
        self.theirs.zero_grad()
        loss = self.eager(*inputs) if self.loss is None else self.loss(self.eager(*inputs[:-1]), inputs[-1])
        loss.backward()
        self.theirs.step()
        return loss.detach()

    def check(self, *inputs: Any, steps: int = 1) -> None:
        """Check that losses, random state, parameters, buffers and optimizer state are bit-identical to eager PyTorch."""
        for k in range(steps):
            torch.manual_seed(k)
            expected = self.eager_step(*inputs), torch.rand(1)
            torch.manual_seed(k)
            got = self.step(*inputs), torch.rand(1)
            assert torch.equal(got[0], expected[0]) and torch.equal(got[1], expected[1]), f"step {k}"
            assert not got[0].requires_grad
        for (name, p), theirs in zip(self.model.named_parameters(), self.eager.parameters()):
            assert torch.equal(p, theirs), name
            assert p.grad is None
        for (name, b), theirs in zip(self.model.named_buffers(), self.eager.buffers()):
            assert torch.equal(b, theirs), name
        ours, theirs_state = self.ours.state_dict()["state"], self.theirs.state_dict()["state"]
        assert ours.keys() == theirs_state.keys()
        for k, state in theirs_state.items():
            for name, value in state.items():
                mine = ours[k][name]
                assert torch.equal(mine, value) if isinstance(value, torch.Tensor) else mine == value, name

    def homes(self) -> list[torch.Tensor]:
        """Return the tensors of the optimizer state that are in memplan's host memory."""
        known, states = [v for s in self.ours.state.values() for v in s.values()], self.step.updates.states
        return [v for v in known if isinstance(v, torch.Tensor) and states is not None and states.pool.has(v)]

    def static_bytes(self, *inputs: Any) -> int:
        homes = {id(t) for t in self.homes()}
        state = [v for s in self.ours.state.values() for v in s.values() if isinstance(v, torch.Tensor) and id(v) not in homes]
        tensors = [*self.model.parameters(), *self.model.buffers(), *inputs, *state]
        return sum({t.data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())

    def measured(self, *inputs: Any) -> int:
        """Return the peak of a step in bytes, including static memory."""
        return self.static_bytes(*inputs) + peak_of_call(lambda: self.step(*inputs))

    def eager_measured(self, *inputs: Any) -> int:
        self.theirs.zero_grad()
        return self.static_bytes(*inputs) + peak_of_call(lambda: self.eager_step(*inputs))


def transformer(layers: int = 1, width: int = 32) -> nn.Module:
    torch.manual_seed(0)
    return networks.Transformer(0.1, width, layers, 50)


def perceptron() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 4))


def points(batch: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(batch, 16), torch.randn(batch, 4)
