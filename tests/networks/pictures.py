"""pictures.py - networks of torchvision, on small pictures."""

from __future__ import annotations

import torchvision

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
