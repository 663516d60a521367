#!/usr/bin/env python3
"""Writes the six networks of Checkmate's largest-batch experiment (Jain et al. 2020), as that experiment builds them.

The files have no weights and a dynamic batch size. VGG19, ResNet-50 and MobileNet v1 are for images of 224 x 224 and 1000 classes.
FCN8, SegNet and U-Net use the convolutions of VGG16, for images of 416 x 608 and 19 classes. Requires Debian's python3-torch and
python3-onnx."""
import os

import torch
from torch import nn

here = os.path.dirname(os.path.abspath(__file__))
CLASSES, PIXEL_CLASSES = 1000, 19


def convolution(narrow, wide, size=3, stride=1, padding=None, groups=1, norm=False, active=True, bias=None):
    padding = size // 2 if padding is None else padding
    bias = not norm if bias is None else bias
    layers = [nn.Conv2d(narrow, wide, size, stride, padding, groups=groups, bias=bias)]
    layers += [nn.BatchNorm2d(wide)] if norm else []
    return nn.Sequential(*layers, *([nn.ReLU()] if active else []))


def vgg_block(narrow, wide, n):
    layers = [convolution(narrow if k == 0 else wide, wide) for k in range(n)]
    return nn.Sequential(*layers, nn.MaxPool2d(2))


class Vgg(nn.Module):
    """Runs the five convolution blocks of VGG; returns the output of each block."""

    def __init__(self, depths):
        super().__init__()
        widths = [3, 64, 128, 256, 512, 512]
        self.blocks = nn.ModuleList(vgg_block(widths[k], widths[k + 1], n) for k, n in enumerate(depths))

    def forward(self, x):
        results = []
        for block in self.blocks:
            x = block(x)
            results.append(x)
        return results


def vgg19():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = Vgg([2, 2, 4, 4, 4])
            self.head = nn.Sequential(
                nn.Flatten(), nn.Linear(25088, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, CLASSES))

        def forward(self, x):
            return self.head(self.features(x)[-1])
    return Net()


class Bottleneck(nn.Module):
    def __init__(self, wide, narrow, stride, projects):
        super().__init__()
        self.body = nn.Sequential(
            convolution(wide, narrow, 1, stride, norm=True, bias=True), convolution(narrow, narrow, 3, norm=True, bias=True),
            convolution(narrow, 4 * narrow, 1, norm=True, active=False, bias=True))
        self.shortcut = convolution(wide, 4 * narrow, 1, stride, norm=True, active=False, bias=True) if projects else nn.Identity()

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet50():
    layers = [convolution(3, 64, 7, 2, norm=True, bias=True), nn.MaxPool2d(3, 2, 1)]
    wide = 64
    for narrow, n, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(n):
            layers.append(Bottleneck(wide, narrow, stride if k == 0 else 1, k == 0))
            wide = 4 * narrow
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(wide, CLASSES))


def mobilenet():
    layers, wide = [convolution(3, 32, 3, 2, norm=True)], 32
    for width, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)) + ((512, 1),) * 5 + ((1024, 2), (1024, 1)):
        layers += [convolution(wide, wide, 3, stride, groups=wide, norm=True), convolution(wide, width, 1, norm=True)]
        wide = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Dropout(0.001), nn.Conv2d(wide, CLASSES, 1), nn.Flatten())


def by_pixel(x):
    """Flattens the spatial dimensions and moves the classes to the end."""
    return x.flatten(2).transpose(1, 2)


class Fcn8(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = Vgg([2, 2, 3, 3, 3])
        self.head = nn.Sequential(
            convolution(512, 4096, 7), nn.Dropout(0.5), convolution(4096, 4096, 1), nn.Dropout(0.5), nn.Conv2d(4096, PIXEL_CLASSES, 1))
        self.twice, self.again = (nn.ConvTranspose2d(PIXEL_CLASSES, PIXEL_CLASSES, 4, 2, bias=False) for _ in range(2))
        self.score4, self.score3 = nn.Conv2d(512, PIXEL_CLASSES, 1), nn.Conv2d(256, PIXEL_CLASSES, 1)
        self.eightfold = nn.ConvTranspose2d(PIXEL_CLASSES, PIXEL_CLASSES, 16, 8, bias=False)

    def forward(self, x):
        _, _, third, fourth, fifth = self.features(x)
        x = self.twice(self.head(fifth))[:, :, 1:-1, 1:-1] + self.score4(fourth)
        x = self.again(x)[:, :, 1:-1, 1:-1] + self.score3(third)
        return by_pixel(self.eightfold(x))


class SegNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = Vgg([2, 2, 3, 3])
        widths = [512, 512, 256, 128, 64]
        self.decoder = nn.ModuleList(convolution(widths[k], widths[k + 1], norm=True, active=False, bias=True) for k in range(4))
        self.last = nn.Conv2d(64, PIXEL_CLASSES, 3, padding=1)

    def forward(self, x):
        x = self.decoder[0](self.features(x)[-1])
        for layer in self.decoder[1:]:
            x = layer(nn.functional.interpolate(x, scale_factor=2))
        return by_pixel(self.last(x))


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = Vgg([2, 2, 3, 3])
        self.decoder = nn.ModuleList(
            convolution(narrow, wide, norm=True, active=False, bias=True)
            for narrow, wide in ((512, 512), (512 + 256, 256), (256 + 128, 128), (128 + 64, 64)))
        self.last = nn.Conv2d(64, PIXEL_CLASSES, 3, padding=1)

    def forward(self, x):
        first, second, third, fourth = self.features(x)
        x = self.decoder[0](fourth)
        for layer, skipped in zip(self.decoder[1:], (third, second, first)):
            x = layer(torch.cat([nn.functional.interpolate(x, scale_factor=2), skipped], 1))
        return by_pixel(self.last(x))


more = {"dynamo": False} if int(torch.__version__.split(".")[0]) > 1 else {}
small, large = (224, 224), (416, 608)
for name, net, size in (("vgg19", vgg19(), small), ("resnet50", resnet50(), small), ("mobilenet", mobilenet(), small),
                        ("fcn8", Fcn8(), large), ("segnet", SegNet(), large), ("unet", Unet(), large)):
    torch.onnx.export(
        net, torch.zeros(1, 3, *size), os.path.join(here, name + ".onnx"), input_names=["image"], output_names=["scores"],
        dynamic_axes={"image": {0: "N"}, "scores": {0: "N"}}, export_params=False, training=torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=False, opset_version=15, **more)
