#!/usr/bin/env python3
"""Writes gpt_bytes.onnx: a three-layer GPT over bytes, with its loss and without weights (Debian: python3-torch, python3-onnx)."""
import os
import sys

import torch
from torch import nn
from torch.nn import functional as F

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "tests"))
from make_gradients import Layer

T, WIDTH, HEADS, LAYERS, BYTES = 64, 96, 4, 3, 256


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(BYTES, WIDTH), nn.Parameter(torch.zeros(1, T, WIDTH))
        self.layers, self.norm = nn.ModuleList([Layer(WIDTH, HEADS, True) for _ in range(LAYERS)]), nn.LayerNorm(WIDTH)

    def forward(self, input, target):
        x = self.tokens(input) + self.positions
        for layer in self.layers:
            x = layer(x, torch.full((T, T), -1e9).triu(1))
        return F.cross_entropy((self.norm(x) @ self.tokens.weight.t()).flatten(0, 1), target.flatten())


ids = torch.zeros(16, T, dtype=torch.long)
more = {"dynamo": False} if int(torch.__version__.split(".")[0]) > 1 else {}
torch.onnx.export(GPT(), (ids, ids), os.path.join(here, "gpt_bytes.onnx"), input_names=["input", "target"], output_names=["loss"],
                  export_params=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, opset_version=15, **more)
