"""one_step.py - one step of SGD on an exported file beside PyTorch: the same weights, inputs and targets; the loss and updates.

The targets are drawn by the shape of the output, for the loss that memplan appends to it by default; a tenth of the labels of
cross-entropy do not count. The update over the learning rate is the gradient. PyTorch's is computed in double where the
network can be; its own rounding, float32 beside double, is printed too. Tensors whose gradient is below 1e-5 of the largest
(biases before a normalization) are left out. Files in which batch normalization is folded are of another function: their
losses differ, too.
"""

from __future__ import annotations

import copy
import json
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn
from torch.nn import functional as F

from networks.registry import Network

RATE = 2.0**20  # an exact factor, so large that the rounding of the weights does not show
IGNORED = -100
SMALL = 1e-5
TOLERANCE = 1e-5


Pair = tuple[np.ndarray, np.ndarray]


@dataclass
class Step:
    """The loss of a step, and the gradients by the parameters' names."""

    loss: float
    gradients: dict[str, np.ndarray]


def without_dropout(module: nn.Module) -> nn.Module:
    """A copy that drops nothing: its file and its gradients are the same in every step."""
    still = copy.deepcopy(module)
    for part in still.modules():
        if isinstance(part, (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)):
            part.p = 0.0
        for name, value in list(vars(part).items()):
            if isinstance(value, float) and re.search("drop", name):
                setattr(part, name, 0.0)
    return still


def first_number(answer: object) -> Tensor:
    """The output that is trained: the first one of numbers."""
    if isinstance(answer, Tensor):
        return answer
    if isinstance(answer, dict):
        answer = list(answer.values())
    for part in answer:  # type: ignore[attr-defined]
        if not isinstance(part, Tensor) or part.is_floating_point():
            return first_number(part)
    raise ValueError("no output of numbers")


def target_of(output: Tensor) -> Tensor | None:
    """None: the output is the loss. Labels where there are classes, else numbers."""
    if output.numel() == 1 and output.dim() == 0:
        return None
    axis = 2 if output.dim() == 3 else 1
    if output.dim() < 2 or output.shape[axis] < 2:
        return torch.randn(output.shape)
    shape = [n for d, n in enumerate(output.shape) if d != axis]
    labels = torch.randint(output.shape[axis], shape)
    labels.view(-1)[::10] = IGNORED if labels.numel() > 1 else labels.view(-1)[::10]
    return labels


def loss_of(output: Tensor, target: Tensor | None) -> Tensor:
    if target is None:
        return output
    if target.is_floating_point():
        return F.mse_loss(output, target.to(output.dtype))
    return F.cross_entropy(output.flatten(0, 1), target.flatten()) if output.dim() == 3 else F.cross_entropy(output, target)


def step_of(module: nn.Module, inputs: tuple[Tensor, ...], target: Tensor | None, dtype: torch.dtype) -> Step:
    own = copy.deepcopy(module).to(dtype)
    loss = loss_of(first_number(own(*(t.to(dtype) if t.is_floating_point() else t for t in inputs))), target)
    loss.backward()
    return Step(loss.item(), {n: p.grad.double().numpy() for n, p in own.named_parameters() if p.grad is not None})


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = (8 + length + at for at in entry["data_offsets"])
        tensors[name] = np.frombuffer(data[begin:end], np.float32).reshape(entry["shape"])
    return tensors


def as_in_module(parameter: np.ndarray, stored: np.ndarray, update: np.ndarray) -> np.ndarray | None:
    """The update in the form of PyTorch's parameter, which the file may have turned; None: it is another tensor."""
    if parameter.size != stored.size:
        return None
    if np.array_equal(parameter.ravel(), stored.ravel()):
        return update.reshape(parameter.shape)
    if parameter.ndim == 2 and np.array_equal(parameter.T.ravel(), stored.ravel()):
        return update.reshape(parameter.T.shape).T
    return None


def updates(path: Path, trained: Path, module: nn.Module, truth: Step) -> tuple[dict[str, Pair], list[str]]:
    """Per parameter of PyTorch's that the file has: memplan's gradient, and PyTorch's; and those that the file has more than
    once, whose copies share the gradient."""
    after = read_safetensors(trained)
    before = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer if t.name in after}
    found, copied = {}, []
    for name, parameter in module.named_parameters():
        if name not in truth.gradients:
            continue
        parts = []
        for key, stored in before.items():
            update = (stored.astype(np.float64) - after[key].reshape(stored.shape)) / RATE
            part = as_in_module(parameter.detach().numpy(), stored, update)
            if part is not None:
                parts.append(part)
        if parts:
            found[name] = sum(parts[1:], parts[0]), truth.gradients[name]
        if len(parts) > 1:
            copied.append(name)
    return found, copied


def worst_of(pairs: dict[str, Pair]) -> tuple[float, str]:
    largest = max((np.abs(g).max() for _, g in pairs.values()), default=0.0)
    worst, where = 0.0, "-"
    for name, (ours, theirs) in pairs.items():
        if not theirs.size or np.abs(theirs).max() < SMALL * largest:
            continue
        error = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
        if not error <= worst:
            worst, where = error, name
    return worst, where


def compare(run: Callable[..., str], net: Network, export: Callable[[Network, Path], None], path: Path) -> str:
    """Exports the network without dropout to `path`, trains it for one step (`run` takes words), and says how far it is off."""
    still = without_dropout(net.module)
    export(Network(still, net.inputs), path)
    target = target_of(first_number(copy.deepcopy(still)(*net.inputs)))
    single = step_of(still, net.inputs, target, torch.float32)
    of_pytorch = ""
    try:
        truth = step_of(still, net.inputs, target, torch.float64)
    except (RuntimeError, TypeError):  # a table in it is float32
        truth, of_pytorch = single, "PyTorch in float32 only"
    words = []
    for k, tensor in enumerate(net.inputs):
        np.save(path.with_suffix(f".input{k}.npy"), tensor.numpy())
        words += ["--data", f"input{k}={path.with_suffix(f'.input{k}.npy')}"]
    if target is not None:
        np.save(path.with_suffix(".target.npy"), target.numpy())
        words += ["--data", f"target={path.with_suffix('.target.npy')}"]
    trained = path.with_suffix(".safetensors")
    words += ["--device", "cpu", "--optimizer", "sgd", "--lr", str(RATE), "--steps", "1", "--save", str(trained), "--json"]
    answer = json.loads(run("train", str(path), "--budget", "100%", "--no-before", *words))
    loss = next(part["losses"][0] for part in answer.values() if isinstance(part, dict) and part.get("losses"))
    pairs, copied = updates(path, trained, still, truth)
    own = worst_of({name: (single.gradients[name], truth.gradients[name]) for name in pairs})
    worst, where = worst_of(pairs)
    missing = len(truth.gradients) - len(pairs)
    of_pytorch = of_pytorch or f"PyTorch's rounding {own[0]:.1e}"
    off = "" if worst <= max(TOLERANCE, 2 * own[0]) else "OFF "
    said = f"{off}{worst:.1e} of {len(pairs)} tensors ({where}; {of_pytorch})"
    if missing:
        said += f", {missing} are not in the file"
    if copied:
        said += f", the file has copies of {', '.join(copied)} that are trained apart"
    return said + (f", loss {loss:.6f} and {truth.loss:.6f}" if abs(loss - truth.loss) > 1e-5 * abs(truth.loss) else "")
