#!/usr/bin/env python3
"""Writes fashion_cnn.onnx: a small residual network for 28 x 28 images of ten classes, without weights (Debian: python3-torch, python3-onnx)."""
import os

import torch
from torch import nn

here = os.path.dirname(os.path.abspath(__file__))


def convolution(narrow, wide):
    return nn.Sequential(nn.Conv2d(narrow, wide, 3, padding=1, bias=False), nn.BatchNorm2d(wide))


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second, self.active = convolution(width, width), convolution(width, width), nn.ReLU()

    def forward(self, x):
        return self.active(x + self.second(self.active(self.first(x))))


net = nn.Sequential(
    convolution(1, 32), nn.ReLU(), nn.MaxPool2d(2), convolution(32, 64), nn.ReLU(), nn.MaxPool2d(2), Residual(64),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(64, 10))
more = {"dynamo": False} if int(torch.__version__.split(".")[0]) > 1 else {}
torch.onnx.export(net, torch.zeros(2, 1, 28, 28), os.path.join(here, "fashion_cnn.onnx"), input_names=["image"], output_names=["scores"],
                  dynamic_axes={"image": {0: "N"}, "scores": {0: "N"}}, export_params=False, training=torch.onnx.TrainingMode.TRAINING,
                  do_constant_folding=False, opset_version=15, **more)
