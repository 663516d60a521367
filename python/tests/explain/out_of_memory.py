"""A training that runs out of memory at a known place: CASE LIMIT [LINE]. LINE is what was suggested, and is run instead.
Prints what was explained, beside what PyTorch's profiler had counted when the allocation failed, as JSON."""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

import memplan

STEPS = 4
WIDE, NARROW = 512, 128


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.up(self.norm(x))  # up
        return x + self.down(F.gelu(h))  # down


class Network(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.blocks, self.head = nn.ModuleList(Block(width) for _ in range(6)), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x) if y is None else F.cross_entropy(self.head(x), y)


class Sequence(nn.Module):
    """What its layers keep is known when they have run."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(width, width, 2, batch_first=True), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = self.lstm(x.view(-1, 32, x.shape[1]))[0]  # lstm
        return F.cross_entropy(self.head(torch.cat([h, h.exp()], 2)[..., : h.shape[2]]).flatten(0, 1), y)  # head


class Attention(nn.Module):
    """Attention with dropout is operators that hold what each other made, and nothing in Python does."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.parts, self.head = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(4)), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            q, k, v = part(x).view(16, 128, 3, 4, -1).permute(2, 0, 3, 1, 4)
            h = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1)  # attention
            x = x + h.transpose(1, 2).reshape(x.shape)
        return F.cross_entropy(self.head(x), y)


class Pictures(nn.Module):
    """A convolution has its arguments in another order for itself."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.parts, self.head = nn.ModuleList(nn.Conv2d(32, 32, 3, padding=1) for _ in range(8)), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = x.view(32, 32, 16, 16)
        for part in self.parts:
            h = torch.relu(part(h))
        return F.cross_entropy(self.head(h.view(x.shape)), y)


KINDS: dict[str, type[nn.Module]] = {"lstm": Sequence, "attention": Attention, "convolution": Pictures}


class Training:
    def __init__(self, case: str, line: str) -> None:
        torch.manual_seed(0)
        width, n = (WIDE, 32) if case == "update" else (NARROW, 2048)
        self.case, self.kept = case, []
        self.network = KINDS.get(case, Network)(width)
        self.optimizer = torch.optim.AdamW(self.network.parameters())
        self.x, self.y = torch.randn(n, width), torch.randint(10, (n,))
        self.step = self.plain
        if line:
            known = {"memplan": memplan, "network": self.network, "optimizer": self.optimizer}
            exec(line, known)
            self.step = (lambda: known["step"](self.x, self.y)) if "step" in known else self.plain

    def plain(self) -> None:
        is_outside = self.case == "outside"
        loss = F.cross_entropy(self.network(self.x), self.y) if is_outside else self.network(self.x, self.y)
        loss.backward()
        self.optimizer.step()  # update
        self.optimizer.zero_grad()

    def run(self) -> None:
        network, optimizer, losses = self.network, self.optimizer, self.kept  # what the script calls them
        mean = torch.zeros(())
        for _ in range(STEPS):
            if self.case == "list":
                losses.append(network(self.x, self.y))
            elif self.case == "mended list":
                losses.append(network(self.x, self.y).detach())
            elif self.case == "sum":
                mean = mean + network(self.x, self.y)
            elif self.case == "mended sum":
                with torch.no_grad():
                    mean = mean + network(self.x, self.y)
            else:
                self.step()
        del optimizer


def until_failure(training: Callable[[], None]) -> tuple[Any, int]:
    """What is explained, and what PyTorch had counted."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        try:
            with memplan.explain_oom() as watching:
                training()
        except RuntimeError:
            pass
    tracked = 0
    for event in sorted(profiled.profiler.kineto_results.events(), key=lambda e: e.start_ns()):  # type: ignore[union-attr]
        if event.name() == "[OutOfMemory]":
            return watching.last, tracked
        tracked += event.nbytes() if event.name() == "[memory]" else 0
    return None, tracked


def main(case: str, limit: str, line: str = "") -> None:
    torch.set_num_threads(1)
    process: Any = ctypes.CDLL(None)
    process.limit_live.restype = ctypes.c_long
    process.limit_set.argtypes = [ctypes.c_long]
    process.limit_set(process.limit_live() + int(limit))
    if line or case.startswith("mended"):
        Training(case, line).run()
        sys.stdout.write("fits\n")
        return
    explained, tracked = until_failure(lambda: Training(case, line).run())
    account, failure = explained.account, explained.failure
    with torch.device("meta"):
        alike = KINDS.get(case, Network)(WIDE if case == "update" else NARROW)
    found = {
        "tracked": tracked,
        "total": account.total(),
        "inside": explained.inside[1],
        "inside_is": explained.inside_is,
        "tried": failure.tried_bytes,
        "phase": failure.phase,
        "module": explained.where.module,
        "place": explained.where.place,
        "kinds": account.by(lambda p: p.kind),
        "parameters": sum(p.numel() * p.element_size() for p in alike.parameters()),
        "line": explained.suggestion.line if explained.suggestion is not None else "",
        "n_earlier": explained.earlier.n_calls if explained.earlier is not None else 0,
        "earlier": explained.earlier.n_bytes if explained.earlier is not None else 0,
        "holders": explained.earlier.holders if explained.earlier is not None else [],
    }
    sys.stdout.write(f"{json.dumps(found)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
