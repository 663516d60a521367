"""Models on a mesh of absent ranks. This process is rank 0 of PyTorch's fake process group, which sends no data.

The model is sharded like under FSDP2, with one group per block.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from memplan.budget import total_bytes
from memplan.compiled_modules import eager_copy
from memplan.errors import MemplanError
from memplan.mesh.equal_blocks import Repeats, shortened
from memplan.torch_internals import sharding
from memplan.torch_internals.sharding import here

REPLICAS, SHARDS, PARTS = "dp", "shard", "tp"
Blocks = type[nn.Module] | Sequence[type[nn.Module]] | None
Split = Mapping[str, Any] | Callable[[nn.Module, Any], Any] | None


@dataclass(frozen=True)
class Mesh:
    """The number of ranks: replicas * shards * parts.

    Replicas sum their gradients. A replica has `shards` members, and each member stores a shard of parameters, gradients and
    state. A member is a group of `parts` neighbouring ranks, which split the operators between them.
    """

    replicas: int = 1
    shards: int = 1
    parts: int = 1

    @classmethod
    def read(cls, given: Any) -> Mesh:
        """Read a mesh such as {"dp": 2, "shard": 8}. Raises MemplanError."""
        if not isinstance(given, Mapping) or not given:
            raise MemplanError(f'a mesh must be written like {{"dp": 2, "shard": 8}}, not {given!r}')
        for name, size in given.items():
            if name not in (REPLICAS, SHARDS, PARTS):
                raise MemplanError(
                    f'a mesh has no dimension {name!r}; use "{REPLICAS}" for replicas, "{SHARDS}" for ranks that'
                    f' shard parameters and "{PARTS}" for ranks that split operators'
                )
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise MemplanError(f'"{name}" is a number of ranks from 1, not {size!r}')
        return cls(given.get(REPLICAS, 1), given.get(SHARDS, 1), given.get(PARTS, 1))

    @property
    def n_ranks(self) -> int:
        return self.replicas * self.shards * self.parts

    @property
    def sizes(self) -> dict[str, int]:
        """The dimensions with more than one rank, outermost first."""
        every = {REPLICAS: self.replicas, SHARDS: self.shards, PARTS: self.parts}
        return {name: n for name, n in every.items() if n > 1}

    def twice(self) -> Mesh:
        """Return a mesh with twice as many ranks: twice the shards if the model is sharded, else twice the replicas."""
        wider = {"shards": 2 * self.shards} if self.shards > 1 else {"replicas": 2 * self.replicas}
        return replace(self, **wider)

    def __str__(self) -> str:
        return ", ".join(f"{name} {n}" for name, n in self.sizes.items()) or "one rank"


@contextlib.contextmanager
def fake_ranks(n: int) -> Iterator[None]:
    """Make this process rank 0 of n ranks within the context. Raises MemplanError if another process group exists."""
    distributed = torch.distributed
    if not distributed.is_available():
        raise MemplanError("this PyTorch was built without torch.distributed, so mesh= is unavailable; install another build")
    if distributed.is_initialized():
        if distributed.get_backend() != sharding.FAKE or distributed.get_world_size() != n:
            raise MemplanError(
                f"this process already has a process group of {distributed.get_world_size()} ranks"
                f" ({distributed.get_backend()}); estimate a mesh of {n} ranks in a process without one"
            )
        yield
        return
    sharding.FAKE_STORE.need()
    distributed.init_process_group(sharding.FAKE, store=sharding.FAKE_STORE(), rank=0, world_size=n)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def blocks_of(model: nn.Module, kinds: Blocks = None) -> list[nn.Module]:
    """Return the modules that FSDP2 gathers one at a time. Raises MemplanError.

    Blocks are the modules of the given classes, by default the items of the outermost ModuleLists and Sequentials, as in
    torchtitan and accelerate. Modules without parameters are omitted.
    """
    if kinds is not None:
        wanted = tuple([kinds] if isinstance(kinds, type) else kinds)
        found = [m for m in model.modules() if isinstance(m, wanted) and m is not model]
        if not found:
            names = ", ".join(kind.__name__ for kind in wanted)
            raise MemplanError(f"this {type(model).__name__} has no module of class {names}")
        return found
    found = []
    todo = [model]
    while todo:
        module = todo.pop(0)
        for child in module.children():
            if isinstance(child, (nn.ModuleList, nn.Sequential)):
                found += [item for item in child if any(True for _ in item.parameters())]
            else:
                todo.append(child)
    return found


@dataclass
class Placed:
    """A model as placed on a rank. `own`: maps ids of the original parameters to the placed ones.

    A placed block may stand for several blocks.
    """

    model: nn.Module
    own: dict[int, Any] = field(default_factory=dict)
    n_blocks: int = 0
    has_buckets: bool = False  # DDP keeps a second copy of all gradients in communication buckets
    repeats: Repeats | None = None

    def parameter_bytes(self) -> int:
        of_others = Counter(id(p) for p in self.own.values())
        return total_bytes(self.model.parameters()) + sum(
            (of_others[id(p)] - 1) * total_bytes([p]) for p in self.model.parameters() if of_others[id(p)] > 1
        )

    def gradient_bytes(self) -> int:
        own = self.own.values() if self.own else self.model.parameters()
        return sum(here(p).numel() * p.element_size() for p in own if p.requires_grad)


def placed(model: Any, mesh: Mesh, tp_plan: Split, blocks: Blocks, options: Mapping[str, Any], is_short: bool) -> Placed:
    """Place a copy of the model on the mesh. Raises MemplanError. `is_short`: omit blocks that are equal to others."""
    if not isinstance(model, nn.Module):
        raise MemplanError(f"only a module can be estimated on a mesh, not a {type(model).__name__}")
    if any(isinstance(m, sharding.kind()) for m in model.modules()):
        raise MemplanError("this model is already sharded on a mesh of its own; omit mesh=")
    made = eager_copy(model)
    names = {id(p): name for name, p in model.named_parameters()}
    found, left_out = Placed(made), shortened(made) if is_short else None
    if left_out is not None:
        found.repeats = left_out[0]
        names = {key: left_out[1].get(name, name) for key, name in names.items()}
    ranks = ranks_of(mesh)
    if mesh.parts > 1:
        split(made, ranks, tp_plan)
    if mesh.shards > 1:
        found.n_blocks = shard(made, ranks, blocks, options) + (found.repeats.n if found.repeats is not None else 0)
    found.has_buckets = mesh.replicas > 1 and mesh.shards == 1
    now = dict(made.named_parameters())
    found.own = {key: now[name] for key, name in names.items()}
    return found


def ranks_of(mesh: Mesh) -> Any:
    """Return PyTorch's device mesh."""
    from torch.distributed.device_mesh import init_device_mesh

    sizes = mesh.sizes or {SHARDS: 1}
    return init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))


def split(model: nn.Module, ranks: Any, tp_plan: Split) -> None:
    """Split the model's operators by parallelize_module or by the user's function. Raises MemplanError."""
    if tp_plan is None:
        raise MemplanError(
            f'"{PARTS}" splits operators and needs tp_plan=: the names of modules with their styles as for'
            " parallelize_module, or a function of the model and the mesh"
        )
    from torch.distributed.tensor.parallel import parallelize_module

    try:
        if callable(tp_plan):
            tp_plan(model, ranks[PARTS])
        else:
            parallelize_module(model, ranks[PARTS], dict(tp_plan))
    except (ValueError, TypeError, RuntimeError, NotImplementedError, AttributeError) as error:
        raise MemplanError(f"tp_plan= cannot split this model: {error}") from None
    if not any(hasattr(p, "placements") for p in model.parameters()):
        raise MemplanError(
            f'this {type(model).__name__} is on a mesh with "{PARTS}", but tp_plan= splits none of its parameters'
        )


def shard(model: nn.Module, ranks: Any, blocks: Blocks, options: Mapping[str, Any]) -> int:
    """Apply fully_shard to each block and to the rest of the model. Return the number of blocks. Raises MemplanError."""
    if not sharding.kind():
        raise MemplanError(f"PyTorch {torch.__version__} has no public fully_shard")
    from torch.distributed.fsdp import fully_shard

    of_data = ranks[tuple(name for name in ranks.mesh_dim_names if name != PARTS)]
    each = blocks_of(model, blocks)
    try:
        for module in (*each, model):
            fully_shard(module, mesh=of_data, **options)
    except (ValueError, TypeError, RuntimeError, NotImplementedError) as error:
        raise MemplanError(f"fully_shard does not accept this model: {error}") from None
    return len(each)
