#!/usr/bin/env python3
"""export_models.py DATA [NAME ...] - the models of the benches, exported from PyTorch and torchvision into DATA/models without
weights, and PyTorch's figures of their forward passes as DATA/truth/truth.csv: parameters, bytes that backward keeps (fp32,
in training, before any loss) and FLOPs, per batch. Needs torch, torchvision and onnx. Rows of other models stay."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch_nets
import torchvision
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent.parent / "examples"))
from export_pytorch import export  # noqa: E402

COLUMNS = ("model", "batch", "input_shape", "params", "param_bytes", "buffers_bytes", "saved_activation_bytes", "saved_storages",
           "fwd_flops")
IMAGES = {  # the side of an image, and the batches
    **dict.fromkeys(("alexnet", "vgg16", "vgg19", "resnet18", "resnet50", "densenet121", "mobilenet_v2", "mobilenet_v3_large",
                     "efficientnet_b0", "squeezenet1_1", "convnext_tiny", "vit_b_16"), (224, (2, 8))),
    "resnet152": (224, (2, 4)), "inception_v3": (299, (2, 8)), "fcn_resnet50": (520, (1, 2)),
}
TEXTS = {"bert_base": (1, 2, 32), "gpt2_small": (1, 8)}
BLOCKS = {"llama_block": (1, 4)}


class First(nn.Module):
    """A model as its first output."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        y = self.model(x)
        return y["out"] if isinstance(y, dict) else y[0] if isinstance(y, tuple) else y


def network(name: str) -> nn.Module:
    if name in TEXTS:
        return torch_nets.make_net(name)
    if name in BLOCKS:
        return torch_nets.LlamaBlock()
    if name == "fcn_resnet50":
        return First(torchvision.models.segmentation.fcn_resnet50(weights=None, weights_backbone=None))
    if name == "inception_v3":
        return First(torchvision.models.inception_v3(weights=None, init_weights=False, aux_logits=False))
    make: Callable[..., nn.Module] = getattr(torchvision.models, name)
    return make(weights=None)


def inputs(name: str, batch: int) -> tuple[Tensor, ...]:
    if name in TEXTS:
        return torch_nets.make_inputs(name, batch)[0]
    if name in BLOCKS:
        return (torch.zeros(batch, 2048, 4096),)
    side = IMAGES[name][0]
    return (torch.zeros(batch, 3, side, side),)


def truth(name: str, net: nn.Module, batch: int) -> list[object]:
    """A row of the table: a forward pass in which every storage that backward keeps is counted once."""
    given = inputs(name, batch)
    own = {t.untyped_storage()._cdata for t in (*net.parameters(), *net.buffers())}
    kept: dict[int, Tensor] = {}  # the tensors themselves, so that no storage's address is used again

    def keep(t: Tensor) -> Tensor:
        if t.dim() and t.untyped_storage()._cdata not in own:
            kept[t.untyped_storage()._cdata] = t
        return t

    with FlopCounterMode(display=False) as flops, torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        answer = net(*given)
    del answer
    parameters, buffers = list(net.parameters()), list(net.buffers())
    return [name, batch, "x".join(map(str, given[0].shape)), sum(p.numel() for p in parameters),
            sum(p.numel() * p.element_size() for p in parameters), sum(b.numel() * b.element_size() for b in buffers),
            sum(t.untyped_storage().nbytes() for t in kept.values()), len(kept), flops.get_total_flops()]


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    folder, names = Path(sys.argv[1]), sys.argv[2:] or [*IMAGES, *TEXTS, *BLOCKS]
    (folder / "models").mkdir(parents=True, exist_ok=True)
    (folder / "truth").mkdir(exist_ok=True)
    table, rows = folder / "truth/truth.csv", []
    if table.exists():
        rows = [row for row in csv.reader(table.open(newline="")) if row[0] not in ("model", *names)]
    for name in names:
        export(network(name), inputs(name, 2), str(folder / f"models/{name}.onnx"))
        with torch.device("meta"):
            net = network(name).train()
            rows += [truth(name, net, batch) for batch in (TEXTS | BLOCKS | {n: of[1] for n, of in IMAGES.items()})[name]]
        print(*rows[-1], flush=True)
    with table.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
