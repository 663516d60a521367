#!/usr/bin/env python3
"""Small networks with PyTorch's gradients: NAME.onnx (weights inside) and NAME.safetensors (inputs, loss, gradients).

Run as  python3 tests/gradients/make_gradients.py  (Debian: python3-torch, python3-onnx; `control` needs PyTorch 2); the files in tests/gradients/ are its output and are
compared with by tests/executor/test_gradients.c. The loss is part of each network, dropout is off, and normalization takes the batch's
statistics, but for `fixed`.
"""
import json
import math
import os
import struct

import onnx
import torch
from torch import nn
from torch.nn import functional as F


class MLP(nn.Module):
    """Four layers, as mlp4."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in ((12, 24), (24, 16), (16, 8), (8, 5))])

    def forward(self, input, target):
        x = input
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return F.cross_entropy(self.layers[-1](x), target)


class Block(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b)
        self.conv2, self.bn2 = nn.Conv2d(b, b, 3, 1, 1, groups=2, bias=False), nn.BatchNorm2d(b)
        self.down = nn.Conv2d(a, b, 1, stride) if a != b else nn.Identity()

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.down(x))


class CNN(nn.Module):
    """Residual blocks with batch normalization, strides, groups and a pool."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 6, 5, 2, 2), nn.BatchNorm2d(6)
        self.blocks = nn.Sequential(Block(6, 6, 1), Block(6, 10, 2))
        self.head = nn.Linear(10, 4)

    def forward(self, input, target):
        x = F.max_pool2d(torch.relu(self.norm(self.stem(input))), 3, 2, 1)
        x = F.adaptive_avg_pool2d(self.blocks(x), 1).flatten(1)
        return F.cross_entropy(self.head(x), target)


class Fixed(CNN):
    """The same with batch normalization in inference mode: its statistics stay as they are, scale and bias learn."""

    def __init__(self):
        super().__init__()
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.uniform_(module.running_mean, -1, 1)
                nn.init.uniform_(module.running_var, 0.5, 2)
                nn.init.uniform_(module.weight, 0.5, 1.5)

    def train(self, mode=True):
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()


class UNet(nn.Module):
    """Down, up by a transposed convolution and by interpolation, joined by concatenation."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(2, 4, 3, 1, 1), nn.Conv2d(4, 8, 3, 1, 1), nn.Conv2d(8, 8, 3, 1, 1)
        self.up = nn.ConvTranspose2d(8, 8, 2, 2)
        self.d, self.e, self.out = nn.Conv2d(16, 4, 3, 1, 1), nn.Conv2d(8, 4, 3, 1, 1), nn.Conv2d(4, 3, 1)

    def forward(self, input, target):
        a = torch.relu(self.a(input))
        b = F.gelu(self.b(F.max_pool2d(a, 2)))
        c = torch.sigmoid(self.c(F.avg_pool2d(b, 2))) * 2
        d = torch.tanh(self.d(torch.cat([self.up(c), b], 1)))
        e = F.leaky_relu(self.e(torch.cat([F.interpolate(d, scale_factor=2.0, mode="nearest"), a], 1)), 0.1)
        return F.cross_entropy(self.out(e), target)


class Layer(nn.Module):
    def __init__(self, width, heads, before):
        super().__init__()
        self.heads, self.before = heads, before
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def attend(self, x, mask):
        n, t, w = x.shape
        q, k, v = self.qkv(x).split(w, 2)
        q, k, v = (y.view(n, t, self.heads, w // self.heads).transpose(1, 2) for y in (q, k, v))
        s = q @ k.transpose(2, 3) / math.sqrt(w // self.heads)
        if mask is not None:
            s = s + mask
        return self.proj((torch.softmax(s, 3) @ v).transpose(1, 2).reshape(n, t, w))

    def forward(self, x, mask):
        if self.before:
            x = x + self.attend(self.norm1(x), mask)
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
        x = self.norm1(x + self.attend(x, mask))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class BERT(nn.Module):
    """Two layers with the norm behind, a table of tokens and one of positions."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions, self.norm = nn.Embedding(20, 16), nn.Parameter(torch.randn(1, 6, 16) / 4), nn.LayerNorm(16)
        self.layers = nn.ModuleList([Layer(16, 2, False) for _ in range(2)])
        self.head = nn.Linear(16, 20)

    def forward(self, input, target):
        x = self.norm(self.tokens(input) + self.positions)
        for layer in self.layers:
            x = layer(x, None)
        return F.cross_entropy(self.head(x).flatten(0, 1), target.flatten())


class GPT(nn.Module):
    """Two layers with the norm in front, a causal mask, and the table of tokens as head."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions, self.norm = nn.Embedding(20, 16), nn.Embedding(6, 16), nn.LayerNorm(16)
        self.layers = nn.ModuleList([Layer(16, 2, True) for _ in range(2)])
        self.register_buffer("mask", torch.full((6, 6), -1e9).triu(1))

    def forward(self, input, target):
        x = self.tokens(input) + self.positions.weight
        for layer in self.layers:
            x = layer(x, self.mask)
        logits = self.norm(x) @ self.tokens.weight.t()
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())


class Recurrent(nn.Module):
    """An embedding, two layers of LSTM in both directions, a GRU, and the last state of an RNN."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(20, 6)
        self.lstm = nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True)
        self.gru, self.rnn = nn.GRU(10, 6, batch_first=True), nn.RNN(6, 5, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(5, 4)

    def forward(self, input, target):
        x = self.gru(self.lstm(self.tokens(input))[0])[0]
        return F.cross_entropy(self.head(self.rnn(x)[1][-1]), target)


class Control(nn.Module):
    """Control flow as exporters write it: bags of ids (Loop) as the nodes of a graph, and attention over neighbours (If)."""

    def __init__(self):
        super().__init__()
        self.e = nn.ModuleList([nn.EmbeddingBag(20, 6, mode=mode) for mode in ("sum", "mean")])
        self.l, self.a, self.o = nn.Linear(12, 8), nn.Linear(8, 1), nn.Linear(8, 4)
        self.register_buffer("edges", torch.tensor([[0, 1, 2, 3, 4, 0, 2, 4, 1, 3, 3], [1, 2, 3, 4, 0, 2, 0, 1, 3, 1, 3]]))

    def forward(self, input, target):
        source, goal = self.edges[0], self.edges[1]
        h = self.l(torch.cat([e(input) for e in self.e], 1))
        score = F.leaky_relu(self.a(h[source] + h[goal]).squeeze(1), 0.2)
        largest = torch.full((5,), -1e9).scatter_reduce(0, goal, score, "amax")
        weight = torch.exp(score - largest[goal])
        total = torch.zeros(5).scatter_add(0, goal, weight)
        weight = weight / total[goal]
        sums = torch.zeros(h.shape).scatter_add(0, goal[:, None].expand(-1, 8), weight[:, None] * h[source])
        return F.cross_entropy(self.o(F.elu(sums)), target)


def save(path, tensors):
    names = {torch.float32: "F32", torch.int64: "I64"}
    header, data = {}, b""
    for name, t in tensors.items():
        raw = t.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": names[t.dtype], "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def forget_places(path):
    """Takes out of the file where in which program each node came from."""
    file = onnx.load(path)
    graphs = [file.graph]
    for graph in graphs:
        for node in graph.node:
            del node.metadata_props[:]
            graphs += [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    onnx.save(file, path)


def make(name, model, input, target, version=15, newer=False):
    folder = os.path.dirname(os.path.abspath(__file__))
    model.train()
    more = {"dynamo": newer} if int(torch.__version__.split(".")[0]) > 1 else {}
    if newer:
        more["external_data"] = False
    torch.onnx.export(model, (input, target), os.path.join(folder, name + ".onnx"), input_names=["input", "target"],
                      output_names=["loss"], training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
                      opset_version=version, **more)
    if newer:
        forget_places(os.path.join(folder, name + ".onnx"))
    model.train()
    model.zero_grad()
    loss = model(input, target)
    loss.backward()
    tensors = {"input": input, "target": target, "loss": loss}
    for key, p in model.named_parameters():
        tensors["gradient of " + key] = p.grad
    save(os.path.join(folder, name + ".safetensors"), tensors)


if __name__ == "__main__":
    torch.manual_seed(1)
    make("mlp", MLP(), torch.randn(6, 12), torch.randint(5, (6,)))
    make("cnn", CNN(), torch.randn(4, 3, 17, 15), torch.randint(4, (4,)))
    make("unet", UNet(), torch.randn(2, 2, 8, 12), torch.randint(3, (2, 8, 12)))
    make("bert", BERT(), torch.randint(20, (3, 6)), torch.randint(20, (3, 6)))
    make("gpt", GPT(), torch.randint(20, (3, 6)), torch.randint(20, (3, 6)))
    torch.manual_seed(2)
    make("fixed", Fixed(), torch.randn(4, 3, 17, 15), torch.randint(4, (4,)))
    torch.manual_seed(3)
    make("recurrent", Recurrent(), torch.randint(20, (3, 9)), torch.randint(4, (3,)))
    for name, newer in (("control", False), ("control_newer", True)) if int(torch.__version__.split(".")[0]) > 1 else ():
        torch.manual_seed(4)
        make(name, Control(), torch.randint(20, (5, 3)), torch.randint(4, (5,)), 18, newer)
