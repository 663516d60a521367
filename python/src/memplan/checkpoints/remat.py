"""Activation checkpoints by torch_remat, if installed: recomputed modules, which contain saved modules (regions).

With torch.utils.checkpoint, a policy keeps the results of single operators. torch_remat keeps whole regions: all tensors that
the region's backward reads, and the region's result if a recomputed operator reads the result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from memplan.checkpoints.coarse import Kept
from memplan.checkpoints.export import Exporter, operators, saved_by
from memplan.checkpoints.modules import Checkpoints, Written
from memplan.errors import MemplanError

States = tuple[torch.Tensor, list[torch.Tensor]]


def package() -> Any:
    """Import torch_remat. Raises MemplanError if it is missing."""
    try:
        import torch_remat
    except ImportError as error:
        raise MemplanError(
            f"torch_remat cannot be imported: {error} (pip install torch_remat; it needs PyTorch 2.10 or newer)"
        ) from None
    return torch_remat


class RandomState:
    """A hook that makes torch_remat's recomputation repeat the random draws of forward.

    After backward, the generators have the states that they had before backward.
    """

    def __init__(self, devices: list[torch.device]) -> None:
        self.devices = devices

    def snapshot(self) -> States:
        return torch.get_rng_state(), [torch.cuda.get_rng_state(d) for d in self.devices]

    def restore(self, states: States) -> None:
        torch.set_rng_state(states[0])
        for device, state in zip(self.devices, states[1]):
            torch.cuda.set_rng_state(state, device)


def checkpointed(module: nn.Module, name: str) -> Callable[..., Any]:
    """Return the module's forward, which torch_remat recomputes if gradients are enabled. Buffers are updated once."""
    remat, forward = package(), module.forward

    @functools.wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        written = Written(module)
        random = RandomState(sorted({p.device for p in module.parameters() if p.device.type == "cuda"}, key=str))

        def body(*args: Any, **kwargs: Any) -> Any:
            with written.again() if remat.is_recomputing() else written.first():
                return forward(*args, **kwargs)

        return remat.checkpoint(region_name=name, recompute_state_hooks=(random,))(body)(*args, **kwargs)

    run.is_checkpoint = True  # type: ignore[attr-defined]
    return run


def saved(module: nn.Module, name: str) -> Callable[..., Any]:
    """Return the forward of a module that a checkpoint contains but does not recompute."""
    remat, forward = package(), module.forward
    region = remat.region(forward, name, recompute=False)

    @functools.wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        result = region(*args, **kwargs)
        remat.recompute_needs_tensor(*(t for t in (result if isinstance(result, (tuple, list)) else [result]) if t is not None))
        return result

    return run


@dataclass
class RematCheckpoints(Checkpoints):
    """Checkpoints by torch_remat. `regions`: for each checkpointed module, its submodules that are not recomputed."""

    regions: dict[str, list[str]] = field(default_factory=dict)

    def put(self, model: nn.Module, name: str) -> list[nn.Module]:
        inside = [(model.get_submodule(n), n) for n in self.regions.get(name, ())]
        for module, region in inside:
            module.forward = saved(module, region)
        whole = model.get_submodule(name)
        whole.forward = checkpointed(whole, name)
        return [*(module for module, _ in inside), whole]

    def __str__(self) -> str:
        n_regions = sum(map(len, self.regions.values()))
        return f"by torch_remat, {n_regions} regions saved: {super().__str__()}"


class RematExporter(Exporter):
    def keepable(self) -> Kept:
        """Return the operators whose results regions can keep.

        They belong to innermost modules whose results the plan saves in every call of the module.
        """
        found = saved_by(self.graph.capture, self.graph.planning.steps())
        leaves = {n for n in self.modules if not any(other.startswith(n + ".") for other in self.modules)}
        kept = [n for n in leaves if all(call.operators[-1] in found for call in self.modules[n].calls)]
        return frozenset(k for n in kept for k in operators(self.modules[n]))

    def made(self, kept: dict[str, Kept], **known: Any) -> Checkpoints:
        regions = {name: self._regions(name, which) for name, which in kept.items()}
        return RematCheckpoints(**known, regions={name: inside for name, inside in regions.items() if inside})

    def _regions(self, name: str, kept: Kept) -> list[str]:
        """Return the names of submodules that torch_remat shall save.

        A region name denotes one run of a submodule. So each of these submodules runs once per call of the checkpointed module.
        """
        n_calls = len(self.modules[name].calls)
        inside = {n: r for n, r in self.modules.items() if n.startswith(name + ".") and len(r.calls) == n_calls}
        return [n for n, r in inside.items() if operators(r) <= kept]
