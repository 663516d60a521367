"""The state of FSDP2 (`fully_shard`): groups of parameters gathered together, their layouts, and hooks.

All of it except the class is private to PyTorch, which has no public interface for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from memplan.errors import MemplanError
from memplan.torch_internals.collectives import GatherOnHost, SumOnHost, gloo_has_means
from memplan.torch_internals.names import Private

STATE = Private(
    "torch.distributed.fsdp.FSDPModule._get_fsdp_state",
    use="reads the state of models sharded by fully_shard",
    lost="memplan refuses models sharded by fully_shard",
    since="2.6",
)
NO_META = Private(
    "torch.distributed.fsdp._fully_shard._fsdp_param_group.FSDPParamGroup._validate_no_meta_params",
    use="reads sharded models on the meta device",
    lost="memplan refuses models sharded by fully_shard on the meta device",
    since="2.6",
)
KEPT = Private(
    "torch.distributed.fsdp._fully_shard._fsdp_param_group.FSDPParamGroup._take_unsharded_grads_to_reduce",
    use="reads unsharded gradients of FSDP2, which are not reduced yet",
    lost="steps of sharded models that accumulate unreduced gradients run without a plan",
    since="2.15",
)
FINALIZE = Private(
    "torch.distributed.fsdp.FSDPModule.finalize_backward",
    use="delays the reduction of a sharded stage's gradients until the schedule asks for it",
    lost="memplan refuses pipeline stages sharded by fully_shard",
    since="2.15",
)
FAKE = "fake"  # the fake backend: one process for any group size; PyTorch registers the backend when FakeStore is imported
FAKE_STORE = Private(
    "torch.testing._internal.distributed.fake_pg.FakeStore",
    use="creates a process group of absent ranks",
    lost="memplan refuses mesh=",
    on_demand=True,
)
# private classes of FSDP2, and memplan's replacements
DEFAULT = ("DefaultAllGather", "DefaultReduceScatter", GatherOnHost.__name__, SumOnHost.__name__)


def kind() -> type[Any] | tuple[()]:
    """Return FSDP2's class of sharded modules, or () if this PyTorch version has none."""
    if not torch.distributed.is_available():
        return ()
    from torch.distributed import fsdp

    found: type[Any] | tuple[()] = getattr(fsdp, "FSDPModule", ())
    return found


def here(tensor: torch.Tensor) -> torch.Tensor:
    """Return the local part of a tensor on this rank."""
    local: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return local


def is_real(group: Any) -> bool:
    """Whether a process group has other processes. A fake group has none, whatever its size."""
    return torch.distributed.get_world_size(group) > 1 and torch.distributed.get_backend(group) != FAKE


def is_split(model: torch.nn.Module) -> bool:
    """Whether ranks split operators of the model (tensor parallelism), in addition to sharding by FSDP2."""
    n_sharded = 1 if kind() and isinstance(model, kind()) else 0
    placed = [getattr(p, "placements", ()) for p in model.parameters()]
    return any(sum(not way.is_replicate() for way in ways) > n_sharded for ways in placed)


class Cut(NamedTuple):
    """The layout of a parameter under tensor parallelism. FSDP2 shards the local part of this rank."""

    mesh: Any
    placements: Any
    shape: torch.Size
    strides: tuple[int, ...]

    @classmethod
    def of(cls, parameter: Any) -> Cut:
        known = getattr(parameter, "_unsharded_dtensor_spec", None) or parameter._tp_spec
        return cls(known.mesh, known.placements, known.tensor_meta.shape, known.tensor_meta.stride)

    def whole(self, part: torch.Tensor) -> torch.Tensor:
        """Return the DTensor with this local part. Its gradient has the same layout."""
        from torch.distributed.tensor import DTensor

        made: torch.Tensor = DTensor.from_local(
            part, self.mesh, self.placements, run_check=False, shape=self.shape, stride=self.strides
        )
        return made


class Division(NamedTuple):
    """FSDP2's division of a reduced gradient: two divisors and two reductions.

    The divisors apply before and after the sum. The reductions are those over the shard ranks and over the replicas.
    """

    before: float
    after: float
    operation: Any
    of_replicas: Any


class ParameterGroup:
    """Parameters that FSDP2 gathers together.

    Attributes:
        names: the names of each parameter in the model.
        shapes: the shape of each parameter.
        padded: the shape of each shard, with padding.
        dims: the sharded dimension.
        among: the ranks with shards.
        replicas: further ranks over which gradients are reduced, or None.
        cuts: the layout under tensor parallelism, or None.
    """

    def __init__(self, known: Any, names: dict[int, str]) -> None:
        self.known = known
        parameters, mesh = known.fsdp_params, known.mesh_info
        owners = [p._module_info for p in parameters]
        self.names = [
            [names[id(m)] + n for m, n in ((o.module, o.param_name), *zip(o.shared_modules, o.shared_param_names))]
            for o in owners
        ]
        self.shapes = [p._orig_size for p in parameters]
        self.padded = [p.padded_sharded_param_size for p in parameters]
        self.dims = [p.fsdp_placement.dim for p in parameters]
        self.cuts = [Cut.of(p) if p.is_dtensor and not of_types(p) else None for p in parameters]
        self.n_ranks, self.among = mesh.shard_mesh_size, mesh.shard_process_group
        self.replicas = getattr(mesh, "replicate_process_group", None)
        self.given_type: torch.dtype = parameters[0].orig_dtype  # type of the shards and of the shards' gradients
        self.compute_types = [p.param_dtype or p.orig_dtype for p in parameters]
        # whether FSDP2 frees the gathered parameters after forward
        self.reshards = getattr(known, "post_forward_mesh_info", None) is not None
        self.divide_factor: float | None = getattr(known, "gradient_divide_factor", None)
        self.only_sums = bool(getattr(known, "force_sum_reduction_for_comms", False))
        self.keeps = False  # whether some steps keep unsharded gradients

    def parameters(self) -> list[Any]:
        return [p.sharded_param for p in self.known.fsdp_params]

    def module(self) -> str:
        """Return the innermost module that contains all parameters, for messages."""
        parts = [names[0].split(".")[:-1] for names in self.names]
        common = [part for part, *others in zip(*parts) if all(o == part for o in others)]
        return ".".join(common) or "the model"

    def gathering(self) -> str:
        """Return the words in messages for waiting in a gather. The method `summing` returns the words for a reduction."""
        return f"to gather the parameters of {self.module()}"

    def summing(self) -> str:
        return f"to sum gradients of {self.module()}"

    def summed_type(self, gradients: Sequence[torch.Tensor]) -> torch.dtype:
        """Return the type of the reduction. Without a policy, newer versions use the parameter's type."""
        first = self.known.fsdp_params[0]
        return first.reduce_dtype or getattr(first, "unsharded_grad_dtype", None) or gradients[0].dtype

    def division(self, kind: torch.dtype) -> Division:
        """Return FSDP2's division for this type.

        In types that may overflow, a part of the divisor is applied before the sum.
        """
        sums, factor = torch.distributed.ReduceOp, self.divide_factor
        n = self.n_ranks * (torch.distributed.get_world_size(self.replicas) if self.replicas is not None else 1)
        overflows = kind not in (torch.float32, torch.bfloat16)
        if not overflows and not self.only_sums:
            mean = sums.AVG if n > 1 and factor != 1 else sums.SUM
            return Division(1, 1, mean, mean if factor is None else sums.SUM)
        before, whole = 1, factor or n
        while overflows and whole % before == 0 and whole / before > before:
            before *= 2
        return Division(before, whole / before, sums.SUM, sums.SUM)

    def sums(self) -> bool | None:
        """Whether this step reduces gradients, also those kept in earlier steps, over the ranks (False: it keeps them).

        None: the step reduces over a part of the ranks only, or this PyTorch version stores unsharded gradients in an unknown
            way.
        """
        known = self.known
        if (
            bool(known.reduce_grads) != bool(known.all_reduce_grads)
            or getattr(known, "_partial_reduce_output", None) is not None
        ):
            return None
        can_keep = bool(KEPT) and not any(self.cuts)
        return bool(known.reduce_grads) if can_keep or (known.reduce_grads and not self.has_kept()) else None

    # ---- unsharded gradients, stored in FSDP2's own place

    def begin_to_keep(self) -> int:
        """Permit unsharded gradients from now on, and return their bytes.

        FSDP2 creates the unsharded parameters when it gathers.
        """
        self.keeps = True
        if not all(hasattr(p, "_unsharded_param") for p in self.known.fsdp_params):
            self.known.unshard()
            self.known.wait_for_unshard()
            self.known.reshard()
        return sum(map(self.kept_bytes, range(len(self.known.fsdp_params))))

    def kept_bytes(self, k: int) -> int:
        """Return the bytes of a parameter's unsharded gradient."""
        whole = self.known.fsdp_params[k]._unsharded_param
        return int(whole.numel() * self.kept_type(whole).itemsize) if whole.requires_grad else 0

    def kept_type(self, like: torch.Tensor) -> torch.dtype:
        first = self.known.fsdp_params[0]
        return getattr(first, "unsharded_grad_dtype", None) or like.dtype

    def has_kept(self) -> bool:
        return any(map(has_gradient, self.known.fsdp_params))

    def keep(self, k: int, gradient: torch.Tensor) -> None:
        """Add a gradient to the unsharded gradients of earlier steps."""
        whole = self.known.fsdp_params[k]._unsharded_param
        if whole.grad is None:
            kind = self.kept_type(gradient)
            if whole.dtype != kind:
                whole.grad_dtype = kind
            whole.grad = gradient.to(kind, copy=True)
        else:
            whole.grad.add_(gradient)

    def with_kept(self, k: int, gradient: torch.Tensor) -> torch.Tensor:
        """Return the sum of a gradient and the unsharded gradients of earlier steps, which are then dropped."""
        whole = getattr(self.known.fsdp_params[k], "_unsharded_param", None)
        if whole is None or whole.grad is None:
            return gradient
        kept: torch.Tensor = whole.grad
        whole.grad = None
        return kept.add_(gradient)

    def need_all_kept(self, which: Sequence[int]) -> None:
        """Raise MemplanError if a kept gradient is not among the gradients that this step reduces."""
        for k, parameter in enumerate(self.known.fsdp_params):
            if k not in which and has_gradient(parameter):
                raise MemplanError(
                    f"the gradient of {self.names[k][0]} that earlier steps accumulated would not be summed, because"
                    " the summing step computes no gradient for it; train this model without memplan"
                )

    def give_back(self) -> None:
        """Free the gathered parameters that an evaluation has left in memory."""
        if self.known.is_unsharded:
            self.known.reshard()

    # ---- parameters that FSDP2 itself gathers for several calls

    def give_memory_back(self) -> None:
        """Free the buffer of a finished gather. With gloo, use memplan's classes for gathers and reductions."""
        known = self.known
        if isinstance(known._all_gather_comm, GatherOnHost):
            known._all_gather_comm.give_back()
        elif self.n_ranks > 1 and torch.distributed.get_backend(self.among) == "gloo":
            known._all_gather_comm = GatherOnHost()
            if gloo_has_means():
                known._reduce_scatter_comm = SumOnHost()

    def will_sum(self) -> None:
        """Make FSDP2 reduce the gradients of unsharded parameters at the end of the step, as it does after its own backward."""
        self.known._post_backward_pending = True

    def refusal(self) -> str:
        """Return the unsupported features of this group as text, or ""."""
        known, factor = self.known, self.divide_factor
        mesh_is_for_more = bool(getattr(known.mesh_info, "is_spmd_mesh", False))
        typed = [p for p in known.fsdp_params if of_types(p)]
        comms = [type(getattr(known, name, None)).__name__ for name in ("_all_gather_comm", "_reduce_scatter_comm")]
        types = set(self.compute_types), {p.orig_dtype for p in known.fsdp_params}
        divides = factor not in (None, 1)
        reasons = {
            "CPUOffloadPolicy, whose shards are in host memory, which no plan counts": (
                known.device.type != "cpu" and any(p.offload_to_cpu for p in known.fsdp_params)
            ),
            "a mesh with dimensions for other purposes (dp_mesh_dims)": (
                mesh_is_for_more and len(typed) < len(known.fsdp_params)
            ),
            "gradients that are also summed over other dimensions of its mesh (spmd_types)": (
                any(p.may_reduce_grad_outside_dp for p in typed)
            ),
            "parameters of several types in one group": max(map(len, types)) > 1,
            "custom collectives or hooks": (
                known._all_reduce_hook is not None or any(c not in (*DEFAULT, "NoneType") for c in comms)
            ),
            "another divisor of sums (set_gradient_divide_factor)": (
                divides and (self.n_ranks == 1 or not (self.only_sums or factor == self.n_ranks))
            ),
        }
        return next((why for why, holds in reasons.items() if holds), "")


def of_types(parameter: Any) -> bool:
    """Whether a plain parameter has a placement on a mesh of more dimensions than FSDP2's, recorded by spmd_types."""
    return bool(getattr(parameter, "is_spmd_types", False))


def has_gradient(parameter: Any) -> bool:
    """Whether an unsharded parameter has a gradient."""
    whole = getattr(parameter, "_unsharded_param", None)
    older = getattr(parameter, "unsharded_accumulated_grad", None)
    return older is not None or getattr(whole, "grad", None) is not None


class Hook(NamedTuple):
    """A hook of FSDP2 before or after a module's forward. `into`, `out`: the types of its casts (None: no cast)."""

    handle: Any
    is_before: bool
    is_of_whole: bool
    into: torch.dtype | None
    out: torch.dtype | None

    def exchange(self, hook: Any) -> Any:
        """Replace the function of the hook. Return the old function, or None if there is no hook."""
        hooks = self.handle.hooks_dict_ref()
        if hooks is None or self.handle.id not in hooks:
            return None
        was, hooks[self.handle.id] = hooks[self.handle.id], hook
        return was


@contextlib.contextmanager
def of_no_memory(module: nn.Module) -> Iterator[None]:
    """Let FSDP2 accept parameters on the meta device within the context."""
    if not any(p.is_meta for p in module.parameters()):
        yield
        return
    NO_META.need()
    was = NO_META.get()
    NO_META.put(lambda group: None)
    try:
        yield
    finally:
        NO_META.put(was)


def states(module: nn.Module) -> list[Any]:
    """Return FSDP2's states of a sharded model, beginning with the whole model.

    Like the first call of the model, this initializes the states.
    """
    first = STATE.get()(module)
    with of_no_memory(module):
        first._lazy_init()
    found: list[Any] = first._state_ctx.all_states
    return found


def groups(module: nn.Module) -> list[ParameterGroup]:
    names = {id(m): name + "." if name else "" for name, m in module.named_modules()}
    known = [
        state._fsdp_param_groups if hasattr(state, "_fsdp_param_groups") else [state._fsdp_param_group]
        for state in states(module)
    ]
    return [ParameterGroup(group, names) for of_one in known for group in of_one if group is not None]


def hooks(module: nn.Module) -> list[Hook]:
    found = []
    for k, state in enumerate(states(module)):
        policy = state._mp_policy
        casts = policy.param_dtype if policy.cast_forward_inputs else None, policy.output_dtype
        before, behind = state._pre_forward_hook_handle, state._post_forward_hook_handle
        # `handles` exists if several modules are gathered together: the hooks before forward, then those after it
        several = getattr(before, "handles", None)
        halves = (
            [(before, True), (behind, False)]
            if several is None
            else [(h, i < len(several) // 2) for i, h in enumerate(several)]
        )
        found += [Hook(handle, is_before, k == 0, *casts) for handle, is_before in halves]
    return found
