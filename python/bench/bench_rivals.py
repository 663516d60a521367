"""Side by side: eager, checkpoints per block, activation_memory_budget, and memplan at each of their peaks.

make bench-python BENCH=rivals [NETWORKS="NAME..."]
Peak: all that is in memory, by PyTorch's memory events. Time: this thread's processor
time of a step, median over rounds in which all routes take turns.
"""

from __future__ import annotations

import copy
import statistics
import sys
from collections.abc import Callable
from typing import Any

import networks
import rivals
import torch
import zoo
from against_eager import peak_of_step, static_bytes, step_seconds
from torch import nn

import memplan

ROUNDS = 7
OURS = "memplan, "
MIB = 1 << 20
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
NO_DROPOUT_GPT2 = {"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}

Blocks = Callable[[Any], list[nn.Module]]


def residual_blocks(model: Any) -> list[nn.Module]:
    inner = model.inner
    return [b for layer in (inner.layer1, inner.layer2, inner.layer3, inner.layer4) for b in layer]


def unet_blocks(model: Any) -> list[nn.Module]:
    return [*model.down, *model.join]


CASES: dict[str, tuple[Callable[[], zoo.Made], Blocks]] = {
    "resnet50": (lambda: zoo.vision("resnet50", 8, 128), residual_blocks),
    "mobilenet_v2": (lambda: zoo.vision("mobilenet_v2", 16, 128), lambda m: list(m.inner.features)),
    "densenet121": (
        lambda: zoo.vision("densenet121", 8, 96),
        lambda m: [block for name, block in m.inner.features.named_children() if name.startswith("denseblock")],
    ),
    "unet": (lambda: (networks.UNet(32), networks.pictures(4, 128)), unet_blocks),
    "gpt2": (
        lambda: zoo.text("GPT2", "GPT2LMHeadModel", {"n_embd": 256, "n_layer": 6, "n_head": 8, **NO_DROPOUT_GPT2}, 128, 2048),
        lambda m: list(m.inner.transformer.h),
    ),
    "bert": (
        lambda: zoo.text("Bert", "BertForMaskedLM", {**zoo.BERT, **NO_DROPOUT}, 128),
        lambda m: list(m.inner.bert.encoder.layer),
    ),
}


class Route:
    """One way to run a step."""

    def __init__(self, name: str, model: Any, inputs: tuple[Any, ...]) -> None:
        self.name, self.model = name, model
        self.times: list[float] = []
        model(*inputs).backward()
        self.peak = static_bytes(model, inputs) + peak_of_step(model, inputs)

    def seconds(self) -> float:
        return statistics.median(self.times)


def routes_of(name: str) -> list[Route]:
    make, blocks = CASES[name]
    torch.manual_seed(0)
    model, inputs = make()

    def fresh() -> Any:
        return copy.deepcopy(model)

    routes = [Route("eager", fresh(), inputs)]
    routes.append(Route("checkpoint per block", rivals.checkpoint_blocks(fresh(), blocks), inputs))
    for share in (0.8, 0.5, 0.2):
        compiled = torch.compile(fresh(), backend=rivals.min_cut(share), dynamic=False)
        routes.append(Route(f"activation_memory_budget {share}", compiled, inputs))
    budgets: list[tuple[str, Any]] = [("100%", "100%")]
    budgets += [(f"peak of {r.name}", r.peak) for r in routes[1:]]
    budgets.append(("smallest", 1))
    for label, budget in budgets:
        compiled = memplan.compile(fresh(), budget, on_infeasible="smallest")
        routes.append(Route(OURS + label, compiled, inputs))
    for _ in range(ROUNDS):
        for route in routes:
            route.times.append(step_seconds(route.model, inputs))
    return routes


def table_of(name: str, routes: list[Route]) -> str:
    """A row per means of PyTorch, with memplan at the same peak beside it, and memplan's two ends."""
    eager, *others = routes
    theirs = [r for r in others if not r.name.startswith(OURS)]
    ours = {r.name.removeprefix(OURS): r for r in others if r.name.startswith(OURS)}

    def over(route: Route) -> str:
        return f"{route.seconds() / eager.seconds() - 1:+.1%}"

    rows = [f"| {name} | eager | {eager.peak / MIB:.1f} | {eager.seconds() * 1e3:.0f} ms | | |"]
    for rival in theirs:
        plan = ours[f"peak of {rival.name}"]
        planned = f"{plan.model.memplan.overhead:+.1%}"
        rows.append(f"| | {rival.name} | {rival.peak / MIB:.1f} | {over(rival)} | {over(plan)} | {planned} |")
    for end in ("100%", "smallest"):
        plan = ours[end]
        rows.append(f"| | memplan, {end} | {plan.peak / MIB:.1f} | | {over(plan)} | {plan.model.memplan.overhead:+.1%} |")
    return "\n".join(rows) + "\n"


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    torch._dynamo.config.cache_size_limit = 64  # all routes are of one class of model
    write = sys.stdout.write
    write("| network | means | peak MiB | over eager | memplan at this peak | planned |\n|---|---|---:|---:|---:|---:|\n")
    for name in names or list(CASES):
        torch._dynamo.reset()
        write(table_of(name, routes_of(name)))
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
