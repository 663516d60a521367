#!/usr/bin/env python3
"""Values and gradients of PyTorch's losses, as rows of C: tests/executor/losses.def, which tests/executor/test_losses.c includes.

Run as  python3 tests/gradients/make_losses.py > tests/executor/losses.def  (figures in the file: PyTorch 2.15). Computed in
double from numbers that are few digits long, so that float32 has them all but exactly. With --saved it prints the bytes that
autograd holds for predictions of (64, 32).
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Options = dict[str, object]
CASES: list[tuple[str, str, Options, Tensor, Tensor, Callable[[Tensor, Tensor], Tensor]]] = []


def some(*shape: int) -> Tensor:
    return (torch.randn(*shape, dtype=torch.float64) * 1.5).mul(1000).round() / 1000


def labels(below: int, *shape: int) -> Tensor:
    return torch.randint(below, shape)


def listed(values: Tensor) -> str:
    return "{" + ", ".join(f"{v:.9g}" for v in values.flatten().tolist()) + "}"


def cross_entropy(
    name: str, shape: tuple[int, ...], sequence: bool = False, ignored: int | None = None, ignores: int = 0, **more: object
) -> None:
    options: Options = {}
    classes = shape[-1] if sequence else shape[1]
    target = labels(classes, *(shape[:-1] if sequence else shape[:1] + shape[2:]))
    if ignores:
        target.view(-1)[:: target.numel() // ignores] = -100 if ignored is None else ignored
    if ignored is not None:
        options["ignore_index"] = f"(const int64_t[]){{{ignored}}}"
        more["ignore_index"] = ignored
    if "label_smoothing" in more:
        options["label_smoothing"] = more["label_smoothing"]
    if "weight" in more:
        weight = more["weight"]
        assert isinstance(weight, Tensor)
        options |= {"class_weights": f"(const double[]){listed(weight)}", "n_class_weights": weight.numel()}

    def call(p: Tensor, t: Tensor) -> Tensor:
        return F.cross_entropy(p.flatten(0, 1), t.flatten(), **more) if sequence else F.cross_entropy(p, t, **more)

    CASES.append((name, "CROSS_ENTROPY", options, some(*shape), target, call))


def cases() -> None:
    weight = torch.tensor([1, 0.25, 3, 0.5], dtype=torch.float64)
    cross_entropy("cross_entropy", (3, 4))
    cross_entropy("cross_entropy_sequence_ignored", (2, 3, 4), sequence=True, ignores=2)
    cross_entropy("cross_entropy_pictures", (2, 3, 2, 2))
    cross_entropy("cross_entropy_ignore_index", (4, 4), ignored=2, ignores=1)
    cross_entropy("cross_entropy_weights", (5, 4), weight=weight)
    cross_entropy("cross_entropy_smoothed", (5, 4), label_smoothing=0.1)
    cross_entropy("cross_entropy_all_smoothed", (3, 4), label_smoothing=1.0)
    cross_entropy("smoothed_weights_ignored", (2, 3, 4), sequence=True, ignores=2, label_smoothing=0.3, weight=weight)
    CASES.append(("mse", "MSE", {}, some(3, 4), some(3, 4), F.mse_loss))
    CASES.append(("l1", "L1", {}, some(3, 4), some(3, 4), F.l1_loss))
    CASES.append(("smooth_l1", "SMOOTH_L1", {}, some(3, 4), some(3, 4), F.smooth_l1_loss))
    half = {"beta": 0.5}
    CASES.append(("smooth_l1_beta", "SMOOTH_L1", half, some(3, 4), some(3, 4), lambda p, t: F.smooth_l1_loss(p, t, **half)))
    CASES.append(("huber", "HUBER", {}, some(3, 4), some(3, 4), F.huber_loss))
    CASES.append(("huber_delta", "HUBER", {"beta": 0.7}, some(12), some(12), lambda p, t: F.huber_loss(p, t, delta=0.7)))
    yes = labels(2, 3, 4).double()
    bce = F.binary_cross_entropy_with_logits
    CASES.append(("bce", "BCE", {}, some(3, 4), yes, bce))
    likely = torch.rand(3, 4).double().mul(100).round() / 100
    CASES.append(("bce_far", "BCE", {}, some(3, 4) * 40, likely, bce))
    one = torch.tensor([2.5], dtype=torch.float64)
    for name, w in (("bce_weight", one), ("bce_weights", weight)):
        options = {"pos_weight": f"(const double[]){listed(w)}", "n_pos_weight": w.numel()}
        CASES.append((name, "BCE", options, some(3, 4), yes, lambda p, t, w=w: bce(p, t, pos_weight=w)))
    share = torch.tensor([[0.5, 0.25, 0.25, 0], [0, 0, 1, 0], [0.125, 0.125, 0.25, 0.5]], dtype=torch.float64)
    logs = torch.log_softmax(some(3, 4), 1).mul(1000).round() / 1000
    CASES.append(("kl_div", "KL_DIV", {}, logs, share, lambda p, t: F.kl_div(p, t, reduction="batchmean")))
    CASES.append(("cosine", "COSINE", {}, some(3, 4), some(3, 4), lambda p, t: F.cosine_embedding_loss(p, t, torch.ones(3))))


def saved(loss: Callable[[Tensor, Tensor], Tensor]) -> int:
    held: dict[int, int] = {}

    def hold(t: Tensor) -> Tensor:
        held[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    prediction = torch.randn(64, 32, requires_grad=True) + 0
    with torch.autograd.graph.saved_tensors_hooks(hold, lambda t: t):
        value = loss(prediction, torch.rand(64, 32))
    total = sum(held.values())
    value.backward()
    return total


def main() -> None:
    torch.manual_seed(0)
    cases()
    if sys.argv[1:] == ["--saved"]:
        for name, loss, options, _, _, call in CASES:
            if loss != "CROSS_ENTROPY" and not options:
                print(name, saved(call if loss != "COSINE" else lambda p, t: F.cosine_embedding_loss(p, t, torch.ones(64))))
        return
    print("/* losses.def - LOSS(name, loss, options, shape of the prediction, prediction, target, value, gradient of the prediction),")
    print(" * written by make_losses.py. */")
    print("/* clang-format off */")
    for name, loss, options, prediction, target, call in CASES:
        p = prediction.clone().requires_grad_()
        value = call(p, target)
        value.backward()
        assert p.grad is not None
        words = ", ".join(f".{key} = {given}" for key, given in options.items())
        row = f'LOSS({name}, {loss}, WITH({words}), "{" ".join(str(n) for n in prediction.shape)}", '
        row += f"WITH({listed(prediction)[1:-1]}), WITH({listed(target)[1:-1]}), {value.item():.9g}, "
        row += f"WITH({listed(p.grad)[1:-1]}))"
        print("\n".join(textwrap.wrap(row, 120, subsequent_indent="     ")))
    print("/* clang-format on */")


if __name__ == "__main__":
    main()
