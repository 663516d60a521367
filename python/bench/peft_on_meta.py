"""Methods of peft whose creation or forward reads values of tensors, on the meta device.

Sparse tensors on the meta device have no values. The functions below replace functions of peft, and allocate the tensors that
peft allocates on a GPU.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
import torch.fx.experimental._config

EMPTY = {"dtype": torch.long, "device": "meta"}


class Sparse:
    """A sparse matrix with sorted copies of its indices and values."""

    def __init__(self, indices: torch.Tensor, values: torch.Tensor, size: tuple[int, int]) -> None:
        self.indices, self.values, self.size = indices.clone(), values.clone(), size

    def to_dense(self) -> torch.Tensor:
        dense: torch.Tensor = Scattered.apply(None, self.values, self.indices, self.size)
        return dense


class Scattered(torch.autograd.Function):
    """Add sparse values to a dense matrix, or to new zeros. Backward gathers the gradient of the values."""

    @staticmethod
    def forward(
        ctx: Any, dense: torch.Tensor | None, values: torch.Tensor, indices: torch.Tensor, size: tuple[int, int]
    ) -> torch.Tensor:
        ctx.save_for_backward(values, indices)
        if dense is None:
            return values.new_empty(size)
        ctx.mark_dirty(dense)
        return dense

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        values, _ = ctx.saved_tensors
        return grads[0] if ctx.needs_input_grad[0] else None, torch.empty_like(values), None, None


def without_mask(update: Any) -> Any:
    """Return SHiRA's `update_layer` without its search for the ones of a mask."""

    def update_layer(self: Any, adapter_name: str, mask: Any, r: int, **options: Any) -> None:
        update(self, adapter_name, None, r, **options)
        n = len(self.shira_weight[adapter_name])
        self.shira_indices[adapter_name] = torch.empty(2, n, dtype=torch.int, device="meta")

    return update_layer


def shira_forward(self: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    if self.disable_adapters:
        result: torch.Tensor = self.base_layer(x, *args, **kwargs)
        return result
    weight = self.get_base_weight().clone()
    for name in self.active_adapters:
        values = self.shira_weight[name] * self.scaling[name]
        weight = Scattered.apply(weight, values, self.shira_indices[name].long(), None)
    return torch.nn.functional.linear(x, weight, self.base_layer.bias)


def frod_projections(self: Any, config: Any, adapter: str) -> None:
    """Create FRoD's projections: one square matrix, and the indices of a sparse one, per kind of module."""
    model = importlib.import_module("peft.tuners.frod.model")
    dicts = importlib.import_module("peft.tuners._buffer_dict")
    if not hasattr(self, "frod_V"):
        self.frod_V, self.frod_s_indices, self.frod_s_size = (torch.nn.ModuleDict() for _ in range(3))
    named = self._prepare_adapter_config(config, self.get_model_config(self.model))
    for key, module in self.model.named_modules():
        category = model._category_from_key(key)
        if not self._check_target_module_exists(named, key) or category in self.frod_V:
            continue
        width = module.in_features
        matrix = torch.empty(width, width, dtype=module.weight.dtype, device="meta")
        indices = torch.empty(2, int(width * width * config.sparse_rate), **EMPTY)
        size = torch.empty(2, **EMPTY)
        for owner, value in ((self.frod_V, matrix), (self.frod_s_indices, indices), (self.frod_s_size, size)):
            owner[category] = dicts.BufferDict({}, persistent=config.save_projection)
            owner[category][adapter] = value


def frod_tensors(self: Any, adapter: str, *, device: Any, dtype: torch.dtype) -> tuple[Any, ...]:
    matrix, values = self.frod_V[adapter], self.frod_lambda_s_values[adapter].to(dtype)
    sparse = Sparse(self.frod_s_indices[adapter], values, tuple(matrix.shape))
    return self.frod_U[adapter].to(dtype), matrix.to(dtype), sparse, self.frod_lambda_l[adapter].to(dtype)


def frod_update(self: Any, adapter_name: str, projections: Any, indices: Any, sizes: Any, config: Any) -> None:
    weight = self.get_base_layer().weight
    self.r[adapter_name], self.runtime_offload_base_weight[adapter_name] = self.out_features, False
    self.frod_dropout[adapter_name] = torch.nn.Identity()
    self._set_shared_projection_buffers(projections, indices, sizes)
    n_values = indices[adapter_name].shape[1]
    self.frod_lambda_s_values[adapter_name] = torch.nn.Parameter(torch.zeros(n_values, dtype=weight.dtype, device="meta"))
    self.frod_lambda_l[adapter_name] = torch.nn.Parameter(torch.empty(weight.shape[1], dtype=weight.dtype, device="meta"))
    self.frod_U[adapter_name] = torch.empty_like(weight)
    if config.runtime_offload_base_weight:  # the weight is in the host's memory
        self.get_base_layer().weight = torch.nn.Parameter(weight.new_empty(1).expand(weight.shape), requires_grad=False)
    self.set_adapter(self.active_adapters)


def frod_product(self: Any, z: torch.Tensor, sparse: Sparse) -> torch.Tensor:
    return z @ sparse.to_dense().t()


@contextlib.contextmanager
def without_values() -> Iterator[None]:
    """Within the context, methods of peft that read values use the replacements, and peft does not use torchao."""
    shira, frod = (importlib.import_module(f"peft.tuners.{name}.layer") for name in ("shira", "frod"))
    frod_model = importlib.import_module("peft.tuners.frod.model").FrodModel
    with mock.patch.dict(sys.modules, {"torchao": None}), contextlib.ExitStack() as stack:
        # WaveFT filters out indices that are outside of a matrix. No index is outside, so the filter keeps all indices
        stack.enter_context(mock.patch.object(torch.fx.experimental._config, "meta_nonzero_assume_all_nonzero", True))
        for owner, name, value in (
            (shira.ShiraLayer, "update_layer", without_mask(shira.ShiraLayer.update_layer)),
            (shira.Linear, "forward", shira_forward),
            (frod_model, "_init_frod_projections", frod_projections),
            (frod.FrodLayer, "update_layer", frod_update),
            (frod.Linear, "_get_frod_tensors", frod_tensors),
            (frod.Linear, "_sparse_activation_mm", frod_product),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        yield
