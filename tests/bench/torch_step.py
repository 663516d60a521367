"""torch_step.py - a network as PyTorch trains it: the peak of a step by its own tracker, and the file of the training graph."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.nn import functional as F
from torch.utils.hooks import RemovableHandle


@contextmanager
def hooks_for_what_is_trained() -> Iterator[None]:
    """The tracker puts hooks on every parameter's gradient; frozen ones have none, and would refuse them."""
    with ExitStack() as stack:
        for name in ("register_hook", "register_post_accumulate_grad_hook"):
            put = getattr(Tensor, name)

            def if_trained(t: Tensor, hook: Callable[..., None], put: Callable[..., RemovableHandle] = put) -> RemovableHandle:
                return put(t, hook) if t.requires_grad else RemovableHandle(OrderedDict())

            stack.enter_context(mock.patch.object(Tensor, name, if_trained))
        yield


Network = tuple[nn.Module, tuple[Tensor, ...], Tensor]  # in training mode, its inputs and labels


Backward = Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]  # computes the gradients of a network, given inputs and labels


def whole_backward(net: nn.Module, inputs: tuple[Tensor, ...], labels: Tensor) -> None:
    F.cross_entropy(net(*inputs), labels).backward()  # type: ignore[no-untyped-call]


def chunked_backward(name: str, n: int) -> Backward:
    """Compute the logits, their loss and backward in n chunks of rows. The parameter `name` is the head's weight. The rows' gradient is
    allocated once; each chunk adds to the weight's gradient in place. Libraries that call backward once per chunk have this order."""

    def backward(net: nn.Module, inputs: tuple[Tensor, ...], labels: Tensor) -> None:
        weight, linear, rows = net.get_parameter(name), F.linear, []

        def without_head(x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
            if w is weight:
                rows.append(x)
            return x if w is weight else linear(x, w, bias)

        with mock.patch.object(F, "linear", without_head):
            net(*inputs)
        flat = rows.pop().flatten(0, 1)
        gradient = torch.empty_like(flat)
        for x, y, part in zip(flat.detach().chunk(n), labels.chunk(n), gradient.chunk(n)):
            leaf = x.detach().requires_grad_()
            (F.cross_entropy(linear(leaf, weight), y, reduction="sum") / labels.numel()).backward()  # type: ignore[no-untyped-call]
            part.copy_(leaf.grad)  # type: ignore[arg-type]
            del leaf
        flat.backward(gradient)  # type: ignore[no-untyped-call]

    return backward


def tracked_peak(make: Callable[[], Network], backward: Backward = whole_backward) -> int:
    """The most bytes of tensors that PyTorch holds at once in the second step with AdamW (fused: without temporaries), by MemTracker;
    tensors have no memory, so that networks of any size take seconds."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        net, inputs, labels = make()
        optimizer = torch.optim.AdamW(net.parameters(), fused=True)
        tracker = MemTracker()
        tracker.track_external(net, optimizer, *inputs, labels)
        with tracker, hooks_for_what_is_trained():
            for _ in range(2):
                tracker.reset_mod_stats()
                optimizer.zero_grad()
                backward(net, inputs, labels)
                optimizer.step()
        peak = tracker.get_tracker_snapshot("peak")
    return int(next(iter(peak.values()))["Total"])


def write_file(net: nn.Module, inputs: tuple[Tensor, ...], path: Path, with_values: bool = False, open_batch: bool = False) -> None:
    """The training graph as an ONNX file, with or without the values of parameters."""
    names = [f"input{k}" for k in range(len(inputs))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net, inputs, str(path), input_names=names, output_names=["logits"], export_params=with_values,
            dynamic_axes={name: {0: "batch"} for name in names} if open_batch else None, do_constant_folding=False,
            opset_version=17, dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
        )  # fmt: skip
