#!/usr/bin/env python3
"""Exports a network from PyTorch for memplan, with its training behaviour. Copy export() into your own program.

    python3 examples/export_pytorch.py [FILE.onnx]     writes a small network to FILE (default: net.onnx)
    memplan estimate net.onnx --batch 64

Requires PyTorch 1.11 or later and the package onnx. No weights are written.
"""
import inspect
import sys

import torch
from torch import nn


def export(model, inputs, path):
    """Exports `model` in training mode to an ONNX file.

    Args:
        model: the network.
        inputs: a tuple of example tensors. Their first dimension is the batch.
        path: the file to write.
    """
    names = [f"input{k}" for k in range(len(inputs))]
    older = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    torch.onnx.export(
        model.train(), inputs, path, input_names=names,
        dynamic_axes={name: {0: "batch"} for name in names},  # memplan --batch N sets the size
        export_params=False,                                  # the network, not its weights
        training=torch.onnx.TrainingMode.TRAINING,            # batch normalization and dropout in training mode
        do_constant_folding=False,                            # folding would merge operators
        **older)                                              # the newer exporter removes batch normalizations


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
