"""pictures.py - networks of torchvision, on small pictures."""

from __future__ import annotations

import torch
import torchvision
from torch import Tensor, nn
from torchvision.models import detection

from networks.registry import Network, network, numbers


def enter(name: str, batch: int, side: int) -> None:
    network(f"tv/{name}")(lambda: Network(getattr(torchvision.models, name)(weights=None), (numbers(batch, 3, side, side),)))


for _name in ("resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2", "vgg11_bn", "mobilenet_v3_large", "swin_t", "swin_v2_t"):
    enter(_name, 2, 64)
enter("alexnet", 2, 128)
for _name in ("vit_b_16", "maxvit_t", "convnext_tiny"):
    enter(_name, 1, 224)
network("tv/mvit_v1_b")(
    lambda: Network(torchvision.models.video.mvit_v1_b(weights=None), (numbers(1, 3, 16, 224, 224),)),
)


class Raw(nn.Module):
    """A detector without the conversion of scores into boxes: a score for every anchor and class."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = model.backbone, model.head

    def forward(self, x: Tensor) -> Tensor:
        answer = self.head(list(self.backbone(x).values()))
        return torch.cat([answer["cls_logits"], answer["bbox_regression"]], 2)


class Loss(nn.Module):
    """The sum of a detector's losses, for one box in a picture."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.m = model

    def forward(self, x: Tensor, boxes: Tensor, labels: Tensor) -> Tensor:
        return sum(self.m(list(x), [{"boxes": b[None], "labels": c[None]} for b, c in zip(boxes, labels)]).values())


network("det/retinanet_raw")(
    lambda: Network(Raw(detection.retinanet_resnet50_fpn(weights=None, weights_backbone=None, num_classes=5)), (numbers(1, 3, 64, 64),))
)
network("det/fasterrcnn_train_loss")(
    lambda: Network(
        Loss(detection.fasterrcnn_resnet50_fpn(weights=None, weights_backbone=None, num_classes=5, min_size=64, max_size=64)),
        (numbers(1, 3, 64, 64).sigmoid(), torch.tensor([[8.0, 8, 40, 40]]), torch.tensor([2])),
    )
)
