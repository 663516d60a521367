"""Copies to host memory in the graphs of a plan: copyable tensors, and the operators of their copies.

A copy is an operator, and so is its wait. The wait holds the copy's source, so that the graph keeps the source in memory as
long as the plan does. A tensor in host memory is a separate value, also between forward and backward. The library assigns the
offsets in host memory.

    slab = lease_slab(...)            once per call
    h = copy_out(slab, x, offset)     where the plan copies x out
    h = wait(h, x)                    where the plan waits; frees x unless another node reads it
    x = copy_back(h, device)          new memory on the device
    x = wait(x, h)                    from here on x is valid, and its host memory is free
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from memplan.graph.capture import Capture, allocated, storage_bytes, storage_key
from memplan.graph.layouts import is_dense
from memplan.library.planning import Copy, Step
from memplan.memory.host import Pool, copy_back, copy_out, lease_slab, pays, wait
from memplan.memory.liveness import WORKSPACE

if TYPE_CHECKING:
    from memplan.plan.emit import Emission


class Host:
    """The host memory of a graph's copies, and the copyable tensors.

    A tensor is copyable if forward produces it, it fills its storage, and it is no output for the caller.
    """

    def __init__(self, capture: Capture, device: torch.device, pool: Pool) -> None:
        self.device, self.pool, self.moved = device, pool, capture.moved
        returned = set(capture.storages_of(capture.forward_outputs))
        made = {s for o in capture.operations[: capture.boundary] for s in o.writes}
        kinds = ("activation", "saved")
        wanted = {s for s in made - returned if capture.storages[s].kind in kinds and pays(capture.storages[s].n_bytes)}
        self.makers: dict[int, fx.Node] = {}
        for node in capture.makers(wanted):
            value: Any = node.meta.get("val")
            (s,) = capture.storages_of([node])
            if is_dense(value) and value.device == device and fills(value, capture.storages[s].n_bytes):
                self.makers[s] = node
        self.values = {s: there(node.meta["val"]) for s, node in self.makers.items()}
        self.slab = next((v.new_empty((1,), dtype=torch.uint8) for v in self.values.values()), None)

    def keys(self) -> set[int]:
        """Return the keys of storages that are in host memory."""
        known = [*self.values.values(), *([] if self.slab is None else [self.slab])]
        return {storage_key(v) for v in known}


def fills(value: torch.Tensor, n_bytes: int) -> bool:
    own = value.numel() * value.element_size()
    starts = bool(value.storage_offset() == 0)
    return starts and own == storage_bytes(value) and allocated(own, value.device) == n_bytes


def there(value: torch.Tensor) -> Any:
    """Return a fake tensor in host memory with the layout of the given tensor."""
    device = torch.device("cpu") if value.device.type == "cuda" else value.device
    return value.new_empty_strided(value.shape, value.stride(), device=device)


class Copies:
    """The copies in the graphs that one Emission writes."""

    def __init__(self, emission: Emission, steps: list[Step], host: Host) -> None:
        self.emission, self.host = emission, host
        self.now: dict[int, fx.Node] = {}  # for each storage: the node whose value is the copy in host memory
        self.out: dict[int, fx.Node] = {}  # for each storage: the node that copies it to host memory
        self.waits: dict[int, list[Copy]] = {}  # for each step: the copies that the step waits for
        self.state: dict[int, fx.Node] = {}  # for each storage of moved optimizer state: the node of the state on the device
        self.state_of = {moved.update: s for s, moved in host.moved.items()}
        ends = [c.offset + storage_bytes(host.values[c.storage]) for c in steps if isinstance(c, Copy) and c.offset is not None]
        self.n_bytes = max(ends, default=0)  # size of the slab
        self.slab: fx.Node | None = None
        if self.n_bytes:
            self.slab = self._call(lease_slab, (host.pool.number, self.n_bytes, host.device.type), host.slab)

    def _call(self, function: Any, arguments: tuple[Any, ...], value: Any) -> fx.Node:
        made = self.emission.add(self.emission.graph.call_function(function, arguments))
        made.meta = {"val": value}
        return made

    def run(self, copy: Copy) -> None:
        if copy.storage in self.host.moved:
            self._run_state(copy)
            return
        if copy.offset is None:  # no step copies this storage back
            return
        maker = self.host.makers[copy.storage]
        if copy.is_back:
            self.emission.forget(maker)
            back = self._call(copy_back, (self.now[copy.storage], self.host.device), maker.meta["val"])
            back.meta = {**{k: v for k, v in maker.meta.items() if k != WORKSPACE}, **back.meta}
            self.emission.now[maker] = back
        else:
            value = self.host.values[copy.storage]
            source = self.emission.current(maker)
            self.out[copy.storage] = self._call(copy_out, (self.slab, source, copy.offset), value)
            self.now[copy.storage] = self.out[copy.storage]
        self.waits.setdefault(copy.until, []).append(copy)

    def _run_state(self, copy: Copy) -> None:
        moved = self.host.moved[copy.storage]
        if copy.is_back:
            self.state[copy.storage] = self._call(moved.calls.bring, (), moved.values)
        else:
            self._call(moved.calls.send, (self.state[copy.storage],), None)
        self.waits.setdefault(copy.until, []).append(copy)

    def give_state(self, update: fx.Node, made: fx.Node) -> None:
        """Pass the state on the device to its update. The result of the update is the state that is copied back to the host."""
        if (s := self.state_of.get(update)) is not None:
            made.args = (*made.args, self.state[s])
            made.meta["val"] = self.host.moved[s].values
            self.state[s] = made

    def wait(self, step: int) -> None:
        """Insert the waits for copies that must end before this step."""
        for copy in self.waits.pop(step, []):
            self._wait(copy)

    def wait_before_backward(self) -> None:
        """Insert waits at the end of forward. The call may end here, and no copy may still write into device memory."""
        for copies in self.waits.values():
            for copy in [c for c in copies if c.is_back]:
                copies.remove(copy)
                self._wait(copy)

    def _wait(self, copy: Copy) -> None:
        s = copy.storage
        if (moved := self.host.moved.get(s)) is not None:
            if copy.is_back:
                self.state[s] = self._call(moved.calls.arrive, (self.state[s],), moved.values)
            else:
                self._call(moved.calls.leave, (self.state[s],), None)
            return
        maker = self.host.makers[s]
        if copy.is_back:
            back = self.emission.now[maker]
            self.emission.now[maker] = self._call(wait, (back, self.now[s]), back.meta["val"])
        else:
            source = self.out[s].args[1]
            self.now[s] = self._call(wait, (self.now[s], source), self.host.values[s])
