"""Optimizer updates of single parameters: costs and execution.

The update of a parameter calls `step` of the user's optimizer class for this parameter alone, with the state and groups of the
user's optimizer. Schedulers, `state_dict` and `load_state_dict` work unchanged.
"""

from __future__ import annotations

import contextlib
import copy
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from memplan.costs.artificial_arguments import made_up
from memplan.costs.measure import apart, cuda_workspace, fastest_seconds, host_workspaces
from memplan.errors import MemplanError
from memplan.graph.capture import allocated, storage_bytes, storage_key, tensors_of
from memplan.graph.layouts import obeys
from memplan.memory.states import EXCHANGED, Layout, States, Tensors, home_bytes, large, layouts_of
from memplan.torch_internals.modules import has_step_hooks
from memplan.torch_internals.tensors import has_gradient_hooks

NOT_ALONE = {
    "LBFGS": "it needs the loss at several points in one step",
    "SparseAdam": "it accepts sparse gradients only",
}


@dataclass(frozen=True)
class UpdateCost:
    seconds: float
    workspace_bytes: int
    state_bytes: int  # bytes of the parameter's state on the device
    missing_bytes: int  # part of state_bytes that the first step allocates
    moved: tuple[Layout, ...]  # layouts of the state tensors that are stored in host memory


def bytes_of(state: Any) -> int:
    """Return the bytes of a parameter's state. Each storage counts once."""
    tensors = {storage_key(t): t for t in tensors_of(state)}
    return sum(allocated(storage_bytes(t), t.device) for t in tensors.values())


def alone(optimizer: torch.optim.Optimizer) -> Any:
    """Return an optimizer of the same class and options without parameters. A scheduler's wrapper of `step` is not copied."""
    single = object.__new__(type(optimizer))
    single.__dict__.update({name: value for name, value in vars(optimizer).items() if name != "step"})
    single.param_groups, single.state = [], defaultdict(dict)
    return single


def refuse(optimizer: Any) -> None:
    """Raise MemplanError for optimizers whose step is not a sequence of independent updates."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise MemplanError(f"optimizer must be a torch.optim.Optimizer, not a {type(optimizer).__name__}")
    for base in type(optimizer).__mro__:
        if base.__name__ in NOT_ALONE:
            raise MemplanError(
                f"{base.__name__} cannot update one parameter at a time: {NOT_ALONE[base.__name__]}; use memplan.compile"
            )
    if optimizer.defaults.get("differentiable"):
        raise MemplanError("a planned step cannot run an optimizer with differentiable=True; use memplan.compile")


class Updates:
    """The updates of all parameters of an optimizer. State may be stored in host memory.

    `ran`: whether an update has run since it was last set to False.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        refuse(optimizer)
        self.optimizer = optimizer
        self.states: States | None = None
        self.single = alone(optimizer)
        self.known: dict[str, UpdateCost] = {}
        self.ran = False

    @property
    def name(self) -> str:
        return type(self.optimizer).__name__

    def parameters(self) -> list[tuple[int, torch.Tensor]]:
        """Return the trainable parameters with the numbers of their groups."""
        groups = enumerate(self.optimizer.param_groups)
        return [(k, p) for k, group in groups for p in group["params"] if p.requires_grad]

    def check(self) -> None:
        """Raise MemplanError if hooks or existing gradients require all gradients at one time."""
        if has_step_hooks(self.optimizer):
            raise MemplanError(
                "hooks of the optimizer's step cannot run in a planned step, because its gradients"
                " never exist all at once; use memplan.compile"
            )
        for _, parameter in self.parameters():
            if parameter.grad is not None:
                raise MemplanError(
                    "a parameter already has a gradient, but a planned step computes its own; call zero_grad() before the step"
                )
            if has_gradient_hooks(parameter):
                raise MemplanError("hooks on a parameter's gradient cannot run in a planned step; use memplan.compile")

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Run a training step within the context. Before and after the step, large optimizer state is in host memory."""
        self.ran = False
        if self.states is None:
            yield
            return
        self.states.take_in()
        try:
            yield
        finally:
            self.states.end()

    def cost(self, k_group: int, parameter: torch.Tensor) -> UpdateCost:
        """Measure an update on artificial values, once per layout and options."""
        options = {name: value for name, value in self.optimizer.param_groups[k_group].items() if name != "params"}
        layout = (tuple(parameter.shape), parameter.stride(), parameter.dtype, parameter.device)
        key = f"{layout} {options}"
        state = self.optimizer.state.get(parameter)
        if key not in self.known:
            self.known[key] = apart(lambda: self._measure(options, parameter.detach(), state))
        if not state:
            return self.known[key]
        stays, moved = self._parts(state)
        return replace(self.known[key], state_bytes=stays, missing_bytes=0, moved=moved)

    def _parts(self, state: Any) -> tuple[int, tuple[Layout, ...]]:
        """Return the bytes of a parameter's state on the device, and the layouts of its tensors in host memory."""
        if self.states is None:
            return bytes_of(state), ()
        moved = large(state)
        return bytes_of({name: v for name, v in state.items() if name not in moved}), layouts_of(state)

    def _measure(self, options: dict[str, Any], like: torch.Tensor, state: Any) -> UpdateCost:
        dummy = torch.nn.Parameter(made_up(like))
        dummy.grad = made_up(like)
        single = alone(self.optimizer)
        if state:  # if the optimizer already has state for the parameter, the measured optimizer gets a copy of this state
            single.state[dummy] = {**copy.deepcopy(state), **{k: t.to(like.device, copy=True) for k, t in large(state).items()}}
        group = {**copy.deepcopy(options), "params": [dummy]}
        single.param_groups = [group]
        before = repr({**group, "params": None})
        if like.device.type == "cuda":
            workspaces = [cuda_workspace(single.step, like.device) for _ in range(2)]
        else:
            # the optimizer is called twice, because the first call creates the state
            workspaces = host_workspaces([single.step, single.step])
        if repr({**group, "params": None}) != before:
            raise MemplanError(
                f"{self.name} counts steps in its groups, so it cannot update one parameter at a time; use memplan.compile"
            )
        seconds = fastest_seconds(single.step, like.device)
        stays, moved = self._parts(single.state[dummy])
        return UpdateCost(seconds, max(workspaces), stays, stays, moved)

    def state_beside(self, parameters: Iterable[torch.Tensor]) -> tuple[int, int]:
        """Return the bytes of optimizer state of all parameters outside of the given list: on the device, and on the host."""
        those = {id(p) for p in parameters}
        others = [state for p, state in self.optimizer.state.items() if id(p) not in those]
        on_host = sum(map(home_bytes, others)) if self.states is not None else 0
        return sum(self._parts(state)[0] for state in others), on_host

    def update_of(self, k_group: int, parameter: torch.Tensor) -> Callable[..., Tensors]:
        """Return the function that a graph calls to update a parameter.

        Its arguments are the parameter, the gradient, and the state copied from the host. It returns the state left on the
        device.
        """

        # a weak reference, because PyTorch's records of a step would otherwise keep the optimizer and this object alive
        whose, of = weakref.ref(self), weakref.ref(parameter)

        def update(given: torch.Tensor, gradient: torch.Tensor, brought: Tensors | None = None) -> Tensors:
            updates, own = whose(), of()
            if updates is None or own is None or given.data_ptr() != own.data_ptr():
                raise MemplanError(EXCHANGED)
            if not obeys(gradient, own):
                gradient = torch.empty_like(own).copy_(gradient)
            own.grad = gradient
            try:
                return updates.run(k_group, own, brought)
            finally:
                own.grad = None

        return update

    def run(self, k_group: int, parameter: torch.Tensor, brought: Tensors | None) -> Tensors:
        """Run the optimizer's step for one parameter with a gradient. Return the state that remains on the device."""
        self.single.param_groups = [{**self.optimizer.param_groups[k_group], "params": [parameter]}]
        self.single.state = self.optimizer.state
        left: Tensors = {}
        if brought is None or self.states is None:
            self.single.step()
        else:
            left = self.states.update(parameter, brought, self.single.step)
        self.ran = True
        return left

    def run_all(self) -> None:
        """Run the optimizer's step on all gradients, then delete the gradients."""
        if self.states is None:
            self.optimizer.step()
        else:
            for k_group, parameter in self.parameters():
                if parameter.grad is not None:
                    state = self.states.arrive(parameter, self.states.bring(parameter))
                    left = self.run(k_group, parameter, state)
                    self.states.send(parameter, left)
                    self.states.leave(parameter, left)
        self.optimizer.zero_grad(set_to_none=True)
