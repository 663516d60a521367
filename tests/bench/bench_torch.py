#!/usr/bin/env python3
"""bench_torch.py NET BATCH STEPS WHERE [PRECISION [HOW]] - training steps of PyTorch: prints the median seconds of a step, the peak in
bytes, and PyTorch's version. WHERE is a number of threads of the CPU (the peak is then the RSS), or "cuda" (max_memory_allocated, and
behind the version max_memory_reserved). PRECISION: fp32, tf32, or bf16 (autocast; weights and optimizer in fp32). HOW:
  eager       as it stands, AdamW fused (the default)
  foreach     AdamW over lists of tensors;  forloop: one tensor at a time
  backward    AdamW per parameter as soon as its gradient is there, which is then dropped
  compile     torch.compile
  checkpoint  torch.utils.checkpoint around every block
  budget=X    torch.compile with activation_memory_budget X in [0, 1]
Nets as torchvision's and Hugging Face's of the same names, written out here; images in the layout that is faster for it (channels
last). The first step, on the GPU four more than STEPS, warm up and do not count."""
import inspect
import resource
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Bottleneck(nn.Module):
    def __init__(self, narrow, width, stride):
        super().__init__()
        wide = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(narrow, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide)
        self.relu = nn.ReLU(inplace=True)
        self.down = nn.Sequential(nn.Conv2d(narrow, wide, 1, stride, bias=False), nn.BatchNorm2d(wide)) if stride > 1 or narrow != wide else nn.Identity()

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        return self.relu(self.bn3(self.conv3(y)) + self.down(x))


def resnet50():
    parts, narrow = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)], 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(blocks):
            parts.append(Bottleneck(narrow, width, 1 if k else stride))
            narrow = 4 * width
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(narrow, 1000))


def convolution(narrow, wide, kernel, stride=1, groups=1):
    return [nn.Conv2d(narrow, wide, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(wide)]


class Inverted(nn.Module):
    def __init__(self, narrow, wide, stride, expand):
        super().__init__()
        inner = narrow * expand
        self.body = nn.Sequential(
            *(convolution(narrow, inner, 1) + [nn.ReLU6(inplace=True)] if expand > 1 else []),
            *convolution(inner, inner, 3, stride, inner), nn.ReLU6(inplace=True), *convolution(inner, wide, 1))
        self.skip = stride == 1 and narrow == wide

    def forward(self, x):
        return x + self.body(x) if self.skip else self.body(x)


def mobilenet_v2():
    parts, narrow = convolution(3, 32, 3, 2) + [nn.ReLU6(inplace=True)], 32
    for expand, wide, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for k in range(blocks):
            parts.append(Inverted(narrow, wide, 1 if k else stride, expand))
            narrow = wide
    parts += convolution(320, 1280, 1) + [nn.ReLU6(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 1000)]
    return nn.Sequential(*parts)


class BertLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(768, 768) for _ in range(4))
        self.up, self.down, self.norm1, self.norm2 = nn.Linear(768, 3072), nn.Linear(3072, 768), nn.LayerNorm(768), nn.LayerNorm(768)

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = (f(x).view(n, t, 12, 64).transpose(1, 2) for f in (self.q, self.k, self.v))
        if x.is_cuda:
            a = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1)
        else:
            a = F.dropout((q @ k.transpose(2, 3) / 8).softmax(-1), 0.1) @ v
        x = self.norm1(x + F.dropout(self.out(a.transpose(1, 2).reshape(n, t, 768)), 0.1))
        return self.norm2(x + F.dropout(self.down(F.gelu(self.up(x))), 0.1))


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.kinds, self.positions = nn.Embedding(30522, 768), nn.Embedding(2, 768), nn.Embedding(512, 768)
        self.norm, self.layers = nn.LayerNorm(768), nn.ModuleList([BertLayer() for _ in range(12)])
        self.head, self.head_norm, self.bias = nn.Linear(768, 768), nn.LayerNorm(768), nn.Parameter(torch.zeros(30522))

    def forward(self, ids):
        x = self.tokens(ids) + self.kinds(torch.zeros_like(ids)) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        x = F.dropout(self.norm(x), 0.1)
        for layer in self.layers:
            x = layer(x)
        return (F.linear(self.head_norm(F.gelu(self.head(x))), self.tokens.weight) + self.bias).flatten(0, 1)


class GptLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(768), nn.LayerNorm(768)
        self.qkv, self.out, self.up, self.down = nn.Linear(768, 2304), nn.Linear(768, 768), nn.Linear(768, 3072), nn.Linear(3072, 768)

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = (y.view(n, t, 12, 64).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(768, 2))
        a = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)
        x = x + F.dropout(self.out(a.transpose(1, 2).reshape(n, t, 768)), 0.1)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")), 0.1)


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
        self.layers, self.norm = nn.ModuleList([GptLayer() for _ in range(12)]), nn.LayerNorm(768)

    def forward(self, ids):
        x = F.dropout(self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device)), 0.1)
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.tokens.weight).flatten(0, 1)


class Checkpointed(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        from torch.utils.checkpoint import checkpoint
        return checkpoint(self.block, x, use_reentrant=False)


def with_checkpoints(net):
    for parent in (net, getattr(net, "layers", None)):
        if isinstance(parent, (nn.Sequential, nn.ModuleList)):
            for k, block in enumerate(parent):
                if isinstance(block, (Bottleneck, Inverted, BertLayer, GptLayer)):
                    parent[k] = Checkpointed(block)


def make_net(name, batch, device):
    if name in ("bert_base", "gpt2_small"):
        net, length, vocabulary = (Bert(), 512, 30522) if name == "bert_base" else (Gpt(), 1024, 50257)
        for p in net.parameters():  # as both begin: logits near zero
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        x, y = torch.randint(vocabulary, (batch, length)), torch.randint(vocabulary, (batch * length,))
    else:
        net = {"resnet50": resnet50, "mobilenet_v2": mobilenet_v2}[name]().to(memory_format=torch.channels_last)
        x, y = torch.randn(batch, 3, 224, 224).to(memory_format=torch.channels_last), torch.randint(1000, (batch,))
    return net.to(device), x.to(device), y.to(device)


def make_optimizer(net, how, device):
    if how == "foreach":
        return torch.optim.AdamW(net.parameters(), foreach=True)
    if how == "forloop":
        return torch.optim.AdamW(net.parameters(), foreach=False)
    has_fused = "fused" in inspect.signature(torch.optim.AdamW).parameters and int(torch.__version__.split(".")[0]) > 1
    fused = {"fused": True} if has_fused else {}
    if how != "backward":
        return torch.optim.AdamW(net.parameters(), **fused)
    of = {p: torch.optim.AdamW([p], **fused) for p in net.parameters()}

    def update(p):
        of[p].step()
        p.grad = None

    for p in net.parameters():
        p.register_post_accumulate_grad_hook(update)
    return None


def main(name, batch, steps, where, precision="fp32", how="eager"):
    device = "cuda" if where == "cuda" else "cpu"
    if device == "cpu":
        torch.set_num_threads(int(where))
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True
    net, x, y = make_net(name, batch, device)
    optimizer, run, times = make_optimizer(net, how, device), net, []
    if how == "checkpoint":
        with_checkpoints(net)
    if how.startswith("budget="):
        from torch._functorch import config
        config.activation_memory_budget = float(how[7:])
    if how == "compile" or how.startswith("budget="):
        run = torch.compile(net)
    warm = 4 if device == "cuda" else 1
    for step in range(steps + (warm if device == "cuda" else 0)):
        if step == warm and device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        start = time.time()
        if optimizer:
            optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
            loss = F.cross_entropy(run(x), y)
        loss.backward()
        if optimizer:
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.time() - start)
    times = sorted(times[warm:])
    if device == "cuda":
        print(times[len(times) // 2], torch.cuda.max_memory_allocated(), torch.__version__, torch.cuda.max_memory_reserved())
    else:
        print(times[len(times) // 2], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, torch.__version__)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
