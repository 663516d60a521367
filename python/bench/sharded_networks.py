"""Six kinds of networks that `fully_shard` shards block by block, small and larger; what their steps within a budget come to on
a rank, beside FSDP2 alone."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import networks
import torch
import torch.nn.functional as F
from against_eager import peak_of_call
from torch import nn

import memplan

STEPS = 5
BUDGETS = "100%", "min+60%", "min+20%"
Made = tuple[nn.Module, Iterable[nn.Module], Callable[[], tuple[Any, ...]]]  # a network, its blocks, and what makes its inputs


class Wrapped(nn.Module):
    """Somebody else's network with a loss. `scores`: of what it returns."""

    def __init__(self, inner: nn.Module, scores: Callable[[Any], torch.Tensor] = lambda out: out) -> None:
        super().__init__()
        self.inner, self.scores = inner, scores

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.scores(self.inner(x)).flatten(0, -2), y.flatten())


class Experts(nn.Module):
    """Each takes the tokens that suit it most, twice as many as there are for each."""

    def __init__(self, width: int, n: int) -> None:
        super().__init__()
        self.norm, self.choice = nn.LayerNorm(width), nn.Linear(width, n, bias=False)
        self.up, self.down = (
            nn.Parameter(torch.randn(n, *shape) / width) for shape in ((width, 4 * width), (4 * width, width))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.norm(x).flatten(0, 1)
        weights, which = self.choice(tokens).softmax(1).topk(2 * tokens.shape[0] // self.choice.out_features, 0)
        weights, which = weights.t().unsqueeze(2), which.t()
        made = torch.bmm(F.gelu(torch.bmm(tokens[which], self.up)), self.down) * weights
        return x + torch.zeros_like(tokens).index_add(0, which.flatten(), made.flatten(0, 1)).view_as(x)


class MixtureOfExperts(networks.Transformer):
    def __init__(self, width: int, layers: int, n: int) -> None:
        super().__init__(0.0, width, layers)
        self.layers = nn.ModuleList(nn.Sequential(networks.Layer(width, 0.0), Experts(width, n)) for _ in range(layers))


def words(batch: int, length: int, n: int = 50) -> Callable[[], tuple[torch.Tensor, ...]]:
    return lambda: tuple(torch.randint(n, (2, batch, length)))


def gpt(k: int, dropout: float = 0.1) -> Made:
    model = networks.Transformer(dropout, 32 * k, 2 * k)
    return model, model.layers, words(8, 32)


def llama(k: int) -> Made:
    model = networks.Llama(2 * k, 32 * k, 4, 2, 96 * k, 50, 32)
    return model, model.layers, words(8, 32)


def bert(k: int, dropout: float = 0.1) -> Made:
    library = importlib.import_module("transformers")
    config = library.BertConfig(
        vocab_size=50, hidden_size=32 * k, num_hidden_layers=2 * k, num_attention_heads=4, intermediate_size=128 * k,
        max_position_embeddings=32, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
    )  # fmt: skip
    model = library.BertForMaskedLM(config)
    return Wrapped(model, lambda out: out.logits), model.bert.encoder.layer, words(8, 32)


def vision_transformer(k: int, dropout: float = 0.1) -> Made:
    models = importlib.import_module("torchvision.models")
    model = models.VisionTransformer(32, 8 // k, 2 * k, 4, 32 * k, 128 * k, dropout=dropout, num_classes=10)
    return Wrapped(model), model.encoder.layers, lambda: networks.images(8, 32)


def resnet(k: int) -> Made:
    models = importlib.import_module("torchvision.models")
    model = models.ResNet(models.resnet.BasicBlock, [k, k, k, k], num_classes=10, width_per_group=64)
    blocks = [b for layer in (model.layer1, model.layer2, model.layer3, model.layer4) for b in layer]
    return Wrapped(model), blocks, lambda: networks.images(4 * k, 32 * k)


def experts(k: int) -> Made:
    model = MixtureOfExperts(32 * k, 2 * k, 4)
    return model, model.layers, words(8, 32)


NETWORKS: dict[str, Callable[[int], Made]] = {
    "gpt": gpt,
    "llama": llama,
    "bert": bert,
    "vision transformer": vision_transformer,
    "resnet": resnet,
    "mixture of experts": experts,
}


def sharded(made: Made) -> Any:
    from torch.distributed.fsdp import fully_shard

    model, blocks, _ = made
    for block in blocks:
        fully_shard(block)
    return fully_shard(model)


# ---- steps


class Row(NamedTuple):
    """`differs`: what has not FSDP2's bits."""

    budget: str
    budget_bytes: int
    planned_bytes: int
    measured_bytes: int
    of_fsdp_bytes: int
    differs: list[str]

    def troubles(self) -> list[str]:
        """What is not as it should be."""
        found = [f"{self.differs} differ"] if self.differs else []
        if not self.measured_bytes <= self.planned_bytes <= self.budget_bytes:
            found.append("over")
        if self.planned_bytes - self.measured_bytes > 0.01 * self.measured_bytes:
            found.append("not as planned")
        return [f"{self.budget}: {self}: {trouble}" for trouble in found]


def here(tensor: Any) -> torch.Tensor:
    local: torch.Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return local


def trained(model: Any, inputs: Callable[[], Any], rank: int) -> dict[str, torch.Tensor]:
    """All that is there after some steps of AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    found: dict[str, torch.Tensor] = {}
    for step in range(STEPS):
        optimizer.zero_grad()
        torch.manual_seed(10 * step + rank)
        loss = model(*inputs())
        loss.backward()
        optimizer.step()
        found[f"loss {step}"] = loss.detach()
    found |= {name: here(p.detach()).clone() for name, p in model.named_parameters()}
    found |= {f"gradient of {name}": here(p.grad).clone() for name, p in model.named_parameters() if p.grad is not None}
    return found | {name: b.clone() for name, b in model.named_buffers()}


def peak(model: Any, inputs: tuple[Any, ...]) -> int:
    """Of the rank in a step, with what is there before."""
    for p in model.parameters():
        p.grad = None
    torch.distributed.barrier()
    static = sum(here(t).untyped_storage().nbytes() for t in (*model.parameters(), *model.buffers()))
    storages = {i.untyped_storage().data_ptr(): i.untyped_storage().nbytes() for i in inputs}
    return static + sum(storages.values()) + peak_of_call(lambda: model(*inputs).backward())


def rows(name: str, k: int, rank: int, budgets: Iterable[str] = BUDGETS, effort: str = "quick") -> list[Row]:
    """Of one network, which is `k` times as wide and deep as the smallest."""

    def made() -> Made:
        torch.manual_seed(0)
        return NETWORKS[name](k)

    eager, ours, inputs = sharded(made()), sharded(made()), made()[2]
    state = copy.deepcopy(ours.state_dict())
    expected = trained(eager, inputs, rank)
    of_fsdp = peak(eager, inputs())
    found = []
    for budget in budgets:
        ours.load_state_dict(state)
        memplan.compile(ours, budget, effort=effort)
        got, report = trained(ours, inputs, rank), ours.memplan
        differs = [f"planned: {f.reason}" for f in report.fallbacks]
        differs += [n for n in expected.keys() | got.keys() if n not in got or not torch.equal(expected[n], got[n])]
        planned = max((g.planned_bytes for g in report.graphs), default=0)
        found.append(Row(budget, report.budget_bytes, planned, peak(ours, inputs()), of_fsdp, differs))
    return found
