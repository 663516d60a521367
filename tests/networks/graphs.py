"""graphs.py - small networks that gather, scatter and choose: graphs, mixtures of experts, losses over pairs."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from networks.registry import Network, ids, network, numbers

NODES, EDGES = 50, 200


class Convolution(nn.Module):
    """Messages along the edges, summed where they arrive, over the number of those that do."""

    def __init__(self, adds: str) -> None:
        super().__init__()
        self.l, self.adds = nn.ModuleList([nn.Linear(16, 32), nn.Linear(32, 7)]), adds

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges[0], edges[1]
        for k, layer in enumerate(self.l):
            h = layer(x)
            sums, ones = torch.zeros(h.shape), torch.ones(target.shape[0])
            if self.adds == "index_add":
                sums = sums.index_add(0, target, h[source])
            else:
                sums = sums.scatter_add(0, target[:, None].expand(-1, h.shape[1]), h[source])
            count = torch.zeros(h.shape[0]).scatter_add(0, target, ones)
            x = (sums + h) / (count + 1)[:, None]
            if k == 0:
                x = F.relu(x)
        return x


network("own/gcn")(lambda: Network(Convolution("scatter_add"), (numbers(NODES, 16), ids(NODES, 2, EDGES))))
network("own/gcn_index_add")(lambda: Network(Convolution("index_add"), (numbers(NODES, 16), ids(NODES, 2, EDGES))))


class Attention(nn.Module):
    """Softmax over the neighbours of each node: a largest score, a sum of exponentials, a weighted sum."""

    def __init__(self) -> None:
        super().__init__()
        self.l, self.a, self.o = nn.Linear(16, 24), nn.Linear(24, 1), nn.Linear(24, 7)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges[0], edges[1]
        h = self.l(x)
        score = F.leaky_relu(self.a(h[source] + h[target]).squeeze(1), 0.2)
        largest = torch.full((NODES,), -1e9).scatter_reduce(0, target, score, "amax")
        weight = torch.exp(score - largest[target])
        total = torch.zeros(NODES).scatter_add(0, target, weight)
        weight = weight / (total[target] + 1e-9)
        sums = torch.zeros(h.shape).scatter_add(0, target[:, None].expand(-1, 24), weight[:, None] * h[source])
        return self.o(F.elu(sums))


network("own/gat")(lambda: Network(Attention(), (numbers(NODES, 16), ids(NODES, 2, EDGES))))


class Reduced(nn.Module):
    """Largest, smallest and product over neighbours, each combined with the node's own value."""

    def __init__(self) -> None:
        super().__init__()
        self.l, self.o = nn.Linear(16, 8), nn.Linear(24, 7)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges[0][:, None].expand(-1, 8), edges[1][:, None].expand(-1, 8)
        h = self.l(x)
        sent = h.gather(0, source)
        return self.o(torch.cat([h.scatter_reduce(0, target, torch.tanh(sent), how) for how in ("amax", "amin", "prod")], 1))


network("own/reductions")(lambda: Network(Reduced(), (numbers(NODES, 16), ids(NODES, 2, EDGES))))


class Experts(nn.Module):
    """Two experts of four for each token, by a gate whose other scores are zero."""

    def __init__(self) -> None:
        super().__init__()
        self.g, self.e, self.o = nn.Linear(16, 4), nn.ModuleList([nn.Linear(16, 16) for _ in range(4)]), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        score, chosen = self.g(x).topk(2, -1)
        gate = torch.zeros(x.shape[0], 4).scatter(1, chosen, torch.softmax(score, -1))
        return self.o(sum(gate[:, k : k + 1] * F.relu(e(x)) for k, e in enumerate(self.e)))


network("own/moe_topk")(lambda: Network(Experts(), (numbers(16, 16),)))


class Contrastive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16))

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        z = F.normalize(torch.cat([self.f(a), self.f(b)]), dim=1)
        n = a.shape[0]
        scores = z @ z.t() / 0.5 + torch.eye(2 * n) * -1e9
        return F.cross_entropy(scores, torch.cat([torch.arange(n) + n, torch.arange(n)]))


network("own/simclr_loss")(lambda: Network(Contrastive(), (numbers(8, 32), numbers(8, 32))))


class Recommender(nn.Module):
    """Bags of ids, features that are numbers, and the products of all pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.e, self.d = nn.ModuleList([nn.EmbeddingBag(50, 8, mode="sum") for _ in range(2)]), nn.Linear(6, 8)
        self.o = nn.Linear(8 + 3, 1)

    def forward(self, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        d = F.relu(self.d(x))
        z = torch.stack([d, self.e[0](a), self.e[1](b)], 1)
        pairs = (z @ z.transpose(1, 2)).flatten(1)[:, [1, 2, 5]]
        return self.o(torch.cat([d, pairs], 1))


network("own/dlrm")(lambda: Network(Recommender(), (numbers(8, 6), ids(50, 8, 3), ids(50, 8, 3))))


class Points(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Sequential(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 64, 1), nn.BatchNorm1d(64))
        self.o = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.o(F.relu(self.a(x)).amax(2))


network("own/pointnet")(lambda: Network(Points(), (numbers(4, 3, 64),)))
