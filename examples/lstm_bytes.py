#!/usr/bin/env python3
"""Writes lstm_bytes.onnx: a two-layer LSTM over ASCII characters, with its loss and without weights (Debian: python3-torch, python3-onnx)."""
import os

import torch
from torch import nn
from torch.nn import functional as F

here = os.path.dirname(os.path.abspath(__file__))

T, WIDTH, HIDDEN, CHARACTERS = 256, 64, 128, 128


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.head = nn.Embedding(CHARACTERS, WIDTH), nn.Linear(HIDDEN, CHARACTERS)
        self.lstm = nn.LSTM(WIDTH, HIDDEN, 2, batch_first=True)

    def forward(self, input, target):
        x = self.tokens(input) * WIDTH  # memplan initializes embeddings for transformers: a fiftieth of PyTorch's values
        return F.cross_entropy(self.head(self.lstm(x)[0]).flatten(0, 1), target.flatten())


ids = torch.zeros(16, T, dtype=torch.long)
more = {"dynamo": False} if int(torch.__version__.split(".")[0]) > 1 else {}
torch.onnx.export(LSTM(), (ids, ids), os.path.join(here, "lstm_bytes.onnx"), input_names=["input", "target"], output_names=["loss"],
                  export_params=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, opset_version=15, **more)
