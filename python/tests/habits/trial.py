"""A habit: something that people do with a model, run once in eager PyTorch and once with memplan.

What it keeps has to have eager's bits, its last step's peak has to be the planned one, and what is said is in the table of
docs/reference/habits.md, which is made from these habits.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import memplan

BUDGET = "floor+50%"
ENDS = {"time_limit": 600}  # of searches: what is found of one that a busy machine cuts short is another plan
WIDTH, ROWS = 32, 128
MOST_ERROR = 0.005  # of the measured peak, beside the planned one
GROUPS = ("the loop", "losses and gradients", "the model", "calls", "precision", "frameworks")  # of the table, in order
WORKS, WARNS, REFUSED = "works", "works, with a warning", "refused"


@dataclass
class Trial:
    """One side of a habit: eager, or ours."""

    ours: bool
    kept: list[tuple[str, torch.Tensor | None]] = field(default_factory=list)
    peaks: list[tuple[int, int]] = field(default_factory=list)  # planned, measured

    def compile(self, model: Any, budget: Any = BUDGET, **options: Any) -> Any:
        return memplan.compile(model, budget, **ENDS | options) if self.ours else model

    def keep(self, what: str, *values: Any) -> None:
        """Results that are compared, None too."""
        for value in values:
            self.kept.append((what, value.detach().clone() if isinstance(value, torch.Tensor) else value))

    def keep_state(self, *models: nn.Module) -> None:
        for model in models:
            for name, p in model.named_parameters():
                self.keep(name, p)
                self.keep(f"gradient of {name}", p.grad)
            for name, b in model.named_buffers():
                self.keep(name, b)
        self.keep("next random number", torch.rand(1))

    def measure(self, model: Any, step: Callable[[], Any]) -> None:
        """A step's peak beside the plan's; on eager's side the step alone."""
        for p in model.parameters() if isinstance(model, nn.Module) else ():
            p.grad = None
        if self.ours and model.memplan.graphs:
            self.peaks.append((model.memplan.planned_bytes, model.memplan.measure(step)))
        else:
            step()


@dataclass(frozen=True)
class Habit:
    group: str
    what: str  # as the table says it
    outcome: str
    sentence: str  # of the warning or error; "" where it works
    run: Callable[[Trial], None]
    needs: tuple[str, ...] = ()  # packages


HABITS: list[Habit] = []


def habit(
    group: str, what: str, outcome: str = WORKS, sentence: str = "", needs: tuple[str, ...] = ()
) -> Callable[[Callable[[Trial], None]], Any]:
    def noted(run: Callable[[Trial], None]) -> Callable[[Trial], None]:
        assert (outcome == WORKS) == (sentence == ""), what
        HABITS.append(Habit(group, what, outcome, sentence, run, needs))
        return run

    return noted


def one_side(h: Habit, ours: bool) -> tuple[Trial, list[str]]:
    """The trial, and what of ours was said in it."""
    trial = Trial(ours)
    torch._dynamo.reset()
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        h.run(trial)
    return trial, [str(w.message) for w in caught if isinstance(w.message, memplan.FallbackWarning)]


def faults(h: Habit) -> list[str]:
    """What is not as the table says; empty if all is."""
    expected, _ = one_side(h, ours=False)
    try:
        got, said = one_side(h, ours=True)
    except memplan.MemplanError as error:
        return [] if h.outcome == REFUSED and h.sentence in str(error) else [f"refused: {error}"]
    found = [f"{a[0]} is not eager's" for a, b in zip(expected.kept, got.kept) if not equal(a[1], b[1])]
    if h.outcome == REFUSED or len(expected.kept) != len(got.kept) or not got.kept:
        found.append(f"was not refused, or kept {len(got.kept)} of {len(expected.kept)} results")
    if h.outcome == WORKS and said:
        found += [f"said: {s}" for s in said]
    if h.outcome == WARNS and not any(h.sentence in s for s in said):
        found.append(f"did not say {h.sentence!r} but {said}")
    if h.outcome == WORKS:
        found += [f"measured {m} bytes, planned {p}" for p, m in got.peaks if abs(m / p - 1) > MOST_ERROR]
    return found


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
    return type(a) is type(b) and bool(a == b)


def table(habits: Iterable[Habit]) -> str:
    """The lists as docs/reference/habits.md has them: one per group."""
    lines: list[str] = []
    group = ""
    for h in sorted(habits, key=lambda h: GROUPS.index(h.group)):
        if h.group != group:
            lines += [""] * bool(lines) + [f"## {h.group[0].upper()}{h.group[1:]}", ""]
            group = h.group
        lines.append(f"* {h.what}: {h.outcome}" + (f', "{h.sentence}"' if h.sentence else ""))
    return "\n".join(lines) + "\n"


class Net(nn.Module):
    """A residual network with dropout and normalization; the loss is inside."""

    def __init__(self, dropout: float = 0.1, layers: int = 4) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH), nn.Dropout(dropout)
            )
            for _ in range(layers)
        )
        self.head = nn.Linear(WIDTH, WIDTH)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(self.features(x), y)


class Scores(Net):
    """The same without a loss."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return self.features(x)


class CutBlock(nn.Module):
    """A residual block with a graph break."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.Tanh(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.layers(x)
        torch._dynamo.graph_break()
        return x + h


def pair(seed: int = 1, rows: int = ROWS) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, WIDTH, generator=generator), torch.randn(rows, WIDTH, generator=generator)


def train(t: Trial, model: Any, steps: int = 2, context: Any = contextlib.nullcontext, **options: Any) -> Any:
    """Some steps of AdamW, what is left of them, and a step whose peak is measured."""
    compiled = t.compile(model, **options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for k in range(steps):
        optimizer.zero_grad()
        with context():
            loss = compiled(*pair(k))
        loss.backward()
        optimizer.step()
        t.keep("loss", loss)
    t.keep_state(model)
    inputs = pair()

    def step() -> None:
        with context():
            loss = compiled(*inputs)
        loss.backward()

    t.measure(compiled, step)
    return compiled


def twin(model: nn.Module) -> nn.Module:
    return copy.deepcopy(model)
