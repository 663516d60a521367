#!/usr/bin/env python3
"""Writes bert.onnx: BERT-base over 128 tokens with a classifier for two classes, as used to fine-tune on pairs of sentences.

The file has no weights. Requires Debian's python3-torch and python3-onnx."""
import math
import os

import torch
from torch import nn

T, WIDTH, HEADS, INNER, LAYERS, TOKENS, CLASSES, DROP = 128, 768, 12, 3072, 12, 30522, 2, 0.1


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down, self.norm1, self.norm2 = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.gelu, self.drop = nn.GELU(), nn.Dropout(DROP)

    def heads(self, x):
        return x.view(-1, T, HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, x, bias):
        q, k, v = self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x))
        weights = self.drop((q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS) + bias).softmax(-1))
        x = self.norm1(x + self.drop(self.out((weights @ v).transpose(1, 2).reshape(-1, T, WIDTH))))
        return self.norm2(x + self.drop(self.down(self.gelu(self.up(x)))))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.kinds, self.positions = nn.Embedding(TOKENS, WIDTH), nn.Embedding(2, WIDTH), nn.Parameter(torch.zeros(1, T, WIDTH))
        self.norm, self.drop, self.layers = nn.LayerNorm(WIDTH), nn.Dropout(DROP), nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.pooler, self.classes = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, ids, kinds, mask):
        x = self.drop(self.norm(self.tokens(ids) + self.kinds(kinds) + self.positions))
        bias = (1.0 - mask.view(-1, 1, 1, T).float()) * -10000.0
        for layer in self.layers:
            x = layer(x, bias)
        return self.classes(self.drop(torch.tanh(self.pooler(x[:, 0]))))


ids = torch.zeros(2, T, dtype=torch.long)
names = ["ids", "kinds", "mask"]
more = {"dynamo": False} if int(torch.__version__.split(".")[0]) > 1 else {}
torch.onnx.export(Classifier(), (ids, ids, ids), os.path.join(os.path.dirname(os.path.abspath(__file__)), "bert.onnx"), input_names=names,
                  output_names=["scores"], dynamic_axes={name: {0: "N"} for name in names + ["scores"]}, export_params=False,
                  training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, opset_version=15, **more)
