"""Optimizer state in host memory. A plan copies the state to the device for each update.

Between steps, large state tensors are CPU tensors in memory of memplan (`home`). `optimizer.state` and `state_dict` return
them, and `load_state_dict` writes into them without using the device. Small tensors, such as step counters, do not move. In a
step, a plan calls for each parameter:

    state = bring()             start copies to the device
    state = arrive(state)       wait for them; from here on the state may be read
    state = update(..., state)  the optimizer's own step; returns the state left on the device
    send(state)                 start copies to the host
    leave(state)                wait for them; from here on the state may be freed

On a GPU the copies run like those of activations (memory/host.py). A step ends when all state is in host memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from memplan.budget import in_units
from memplan.errors import MemplanError
from memplan.graph.capture import allocated
from memplan.graph.layouts import is_dense
from memplan.memory.host import Pool, copy_back, finish, issue, pays, wait

EXCHANGED = "a parameter was replaced by another tensor; create a new TrainStep"
Tensors = dict[str, torch.Tensor]  # the tensors of a parameter's state, by their names in the state


class Layout(NamedTuple):
    """The layout of a tensor of optimizer state: sizes, strides and type."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    @property
    def n_bytes(self) -> int:
        return int(torch.Size(self.shape).numel()) * self.dtype.itemsize


def layout_of(tensor: torch.Tensor) -> Layout:
    return Layout(tuple(tensor.shape), tensor.stride(), tensor.dtype)


def large(state: Any) -> Tensors:
    """Return the tensors of a parameter's state that are stored in host memory."""
    return {
        name: value
        for name, value in (state.items() if isinstance(state, dict) else ())
        if type(value) is torch.Tensor
        and value.layout is torch.strided
        and pays(value.numel() * value.element_size())
        and is_dense(value)
    }


def layouts_of(state: Any) -> tuple[Layout, ...]:
    return tuple(layout_of(t) for t in large(state).values())


def home_bytes(state: Any) -> int:
    """Return the bytes of a parameter's state in host memory."""
    return sum(layout.n_bytes for layout in layouts_of(state))


def device_bytes(layouts: tuple[Layout, ...], device: torch.device) -> int:
    """Return the bytes that the copies of a parameter's state occupy on the device."""
    return sum(allocated(layout.n_bytes, device) for layout in layouts)


def require_room(n_bytes: int, pool: Pool, taken_bytes: int = 0) -> None:
    """Raise MemplanError if the host memory has no room for n_bytes of optimizer state."""
    if n_bytes > pool.most_bytes - taken_bytes:
        raise MemplanError(
            f"the optimizer's state needs {in_units(n_bytes)} of host memory, but offload= is {in_units(pool.most_bytes)}"
        )


class States:
    """The state of one optimizer, of which large tensors are in host memory."""

    def __init__(self, optimizer: torch.optim.Optimizer, pool: Pool) -> None:
        self.optimizer, self.pool = optimizer, pool
        # state that updates have left on the device and that is not copied back yet
        self.on_device: dict[int, tuple[torch.Tensor, Tensors]] = {}
        # tensors removed by hold_back: the tensor in host memory, its name, the checkpoint's tensor
        self.read: list[tuple[torch.Tensor, str, torch.Tensor]] = []
        before, after = weakref.WeakMethod(self.hold_back), weakref.WeakMethod(self.put_back)
        optimizer.register_load_state_dict_pre_hook(lambda _, given: call(given) if (call := before()) else None)
        optimizer.register_load_state_dict_post_hook(lambda _: call() if (call := after()) else None)

    def hold_back(self, given: dict[str, Any]) -> dict[str, Any]:
        """Remove large tensors from a checkpoint before PyTorch loads it, because PyTorch would copy them to the device."""
        saved = [k for group in given["param_groups"] for k in group["params"]]
        whose = dict(zip(saved, (p for group in self.optimizer.param_groups for p in group["params"])))
        away = {k: found for k, state in given["state"].items() if k in whose and (found := large(state))}
        self.read = [(whose[k], name, t) for k, found in away.items() for name, t in found.items()]
        rest = {k: {**given["state"][k], **dict.fromkeys(found)} for k, found in away.items()}
        return {**given, "state": {**given["state"], **rest}}

    def put_back(self) -> None:
        """Copy the tensors that hold_back has removed into host memory, in the type that PyTorch would use."""
        while self.read:
            p, name, t = self.read.pop()
            like = t.to(p.dtype) if p.is_floating_point() else t
            self.optimizer.state[p][name] = self.home_for(like, p.device).copy_(like)

    def take_in(self) -> None:
        """Move large state to host memory after eager steps or a loaded checkpoint. Raises MemplanError."""
        states = [(p, state) for p, state in self.optimizer.state.items() if isinstance(p, torch.Tensor)]
        known = [(p, name, t) for p, state in states for name, t in large(state).items()]
        strangers = [(p, name, t) for p, name, t in known if not self.pool.has(t)]
        if not strangers:
            return
        require_room(sum(layout_of(t).n_bytes for _, _, t in known), self.pool)
        for p, name, t in strangers:
            if t.device not in (p.device, torch.device("cpu")):
                raise MemplanError(
                    f"{name} of a parameter on {p.device} is on {t.device}, but offload_state=True needs state on"
                    " its parameter's device"
                )
        del known, states
        while strangers:
            p, name, t = strangers.pop()
            self.optimizer.state[p][name] = self.home_for(t, p.device).copy_(t)

    def home_for(self, tensor: torch.Tensor, device: torch.device, before: torch.Tensor | None = None) -> torch.Tensor:
        """Return host memory for a tensor of this layout; the memory of `before` is reused if it fits."""
        layout = layout_of(tensor)
        if before is not None and layout_of(before) == layout:
            return before
        slab = self.pool.lease(layout.n_bytes, device.type == "cuda", is_exact=True)
        home = torch.empty(0, dtype=layout.dtype, device=slab.device)
        return home.set_(slab.untyped_storage(), 0, layout.shape, layout.stride)

    def bring(self, parameter: torch.Tensor) -> Tensors:
        homes = large(self.optimizer.state.get(parameter))
        return {name: copy_back(home, parameter.device) for name, home in homes.items()}

    def arrive(self, parameter: torch.Tensor, brought: Tensors) -> Tensors:
        return {name: wait(t, self.optimizer.state[parameter][name]) for name, t in brought.items()}

    def update(self, parameter: torch.Tensor, brought: Tensors, step: Callable[[], Any]) -> Tensors:
        """Run the optimizer's step of a parameter on copied state.

        Return the state that remains on the device. This state is recorded even if the step fails.
        """
        state = self.optimizer.state[parameter]
        homes = {name: state[name] for name in brought}
        state.update(brought)
        left: Tensors = {}
        try:
            step()
        finally:
            left.update(large(state))
            for name, t in left.items():
                state[name] = self.home_for(t, parameter.device, homes.get(name))
            self.on_device[id(parameter)] = parameter, left
        return left

    def send(self, parameter: torch.Tensor, left: Tensors) -> None:
        for name, t in left.items():
            issue(self.optimizer.state[parameter][name], t, parameter.device, "out")
        self.on_device.pop(id(parameter), None)

    def leave(self, parameter: torch.Tensor, left: Tensors) -> None:
        for name, t in left.items():
            wait(self.optimizer.state[parameter][name], t)

    def end(self) -> None:
        """End a step, also an aborted one: copy all state to host memory and wait."""
        for parameter, left in list(self.on_device.values()):
            self.send(parameter, left)
            self.leave(parameter, left)
        finish("out")


class StateOf:
    """The functions that a graph calls for one parameter's state. The object holds weak references only."""

    def __init__(self, states: States, parameter: torch.Tensor) -> None:
        self.states, self.parameter = weakref.ref(states), weakref.ref(parameter)

    def _both(self) -> tuple[States, torch.Tensor]:
        states, parameter = self.states(), self.parameter()
        if states is None or parameter is None:
            raise MemplanError(EXCHANGED)
        return states, parameter

    def bring(self) -> Tensors:
        states, parameter = self._both()
        return states.bring(parameter)

    def arrive(self, brought: Tensors) -> Tensors:
        states, parameter = self._both()
        return states.arrive(parameter, brought)

    def send(self, left: Tensors) -> None:
        states, parameter = self._both()
        states.send(parameter, left)

    def leave(self, left: Tensors) -> None:
        states, parameter = self._both()
        states.leave(parameter, left)
