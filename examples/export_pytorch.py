#!/usr/bin/env python3
"""How a network gets out of PyTorch so that memplan sees what training it takes. Copy export() into a program of yours.

    python3 examples/export_pytorch.py [FILE.onnx]     writes a small network, FILE is net.onnx without a name
    memplan estimate net.onnx --batch 64

Any PyTorch from 1.11 on, with the package onnx; no weights are written.
"""
import inspect
import sys

import torch
from torch import nn


def export(model, inputs, path):
    """Writes the training graph of `model` for `inputs`, a tuple of tensors whose first dimensions are the batch."""
    names = [f"input{k}" for k in range(len(inputs))]
    older = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    torch.onnx.export(
        model.train(), inputs, path, input_names=names,
        dynamic_axes={name: {0: "batch"} for name in names},  # memplan --batch N says how large it is
        export_params=False,                                  # the network, not its weights
        training=torch.onnx.TrainingMode.TRAINING,            # batch normalization and dropout as training has them
        do_constant_folding=False,                            # nothing is merged that training needs apart
        **older)                                              # the newer exporter folds batch normalizations away


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
                                      nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU())
        self.classifier = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(64, 10))

    def forward(self, image):
        return self.classifier(self.features(image))


if __name__ == "__main__":
    export(Network(), (torch.zeros(2, 3, 32, 32),), sys.argv[1] if len(sys.argv) > 1 else "net.onnx")
