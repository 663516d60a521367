"""The table of networks on a GPU, at sizes that people train: bits against eager PyTorch's, bytes planned against bytes that
its allocator gave out and took from the device, and a step's time.

make bench-python BENCH=gpu [NETWORKS="NAME..."]; each network in a process of its own. The exit status is 1 if a row is not
as promised.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from torch import nn

import memplan

BUDGETS = ("100%", "floor+50%", "floor+15%")
MOST_ERROR = 0.005
GIB = float(1 << 30)
Inputs = tuple[torch.Tensor, ...]
Made = tuple[nn.Module, Inputs]


class Labelled(nn.Module):
    """A network with its loss, in bf16 under autocast if asked."""

    def __init__(self, inner: nn.Module, half: bool) -> None:
        super().__init__()
        self.inner, self.half = inner, half

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16, enabled=self.half):
            scores = self.inner(x)
            scores = getattr(scores, "logits", scores)
            return nn.functional.cross_entropy(scores.flatten(0, -2).float(), y.flatten())


def pictures(make: Callable[[], nn.Module], batch: int, half: bool) -> Made:
    return Labelled(make(), half), (torch.randn(batch, 3, 224, 224), torch.randint(1000, (batch,)))


def words(model: nn.Module, batch: int, length: int, n_words: int, half: bool) -> Made:
    tokens = torch.randint(n_words, (batch, length))
    return Labelled(model, half), (tokens, tokens.roll(-1, 1))


def networks() -> dict[str, Callable[[], Made]]:
    """Constructors of the trained models, by name."""
    import torchvision.models as vision
    import transformers

    gpt2 = transformers.GPT2Config(use_cache=False)
    bert = transformers.BertConfig()
    llama = transformers.LlamaConfig(
        hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16, use_cache=False
    )
    return {
        "resnet50": lambda: pictures(vision.resnet50, 64, half=False),
        "resnet50_bf16": lambda: pictures(vision.resnet50, 64, half=True),
        "vit_b_16": lambda: pictures(vision.vit_b_16, 32, half=True),
        "convnext_tiny": lambda: pictures(vision.convnext_tiny, 32, half=False),
        "gpt2": lambda: words(transformers.GPT2LMHeadModel(gpt2), 4, 1024, gpt2.vocab_size, half=True),
        "gpt2_fp32": lambda: words(transformers.GPT2LMHeadModel(gpt2), 2, 512, gpt2.vocab_size, half=False),
        "bert": lambda: words(transformers.BertForMaskedLM(bert), 16, 512, bert.vocab_size, half=True),
        "llama": lambda: words(transformers.LlamaForCausalLM(llama), 4, 1024, llama.vocab_size, half=True),
    }


def train(model: Any, inputs: Inputs, n_steps: int = 3) -> list[torch.Tensor]:
    """Losses, gradients, parameters and buffers of some steps, on the host."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for step in range(n_steps):
        torch.manual_seed(step)
        loss = model(*inputs)
        loss.backward()
        losses.append(loss.detach().cpu())
        if step + 1 < n_steps:
            optimizer.step()
            optimizer.zero_grad()
    kept = [p.grad for p in model.parameters() if p.grad is not None]
    return [*losses, *(t.detach().cpu() for t in [*kept, *model.parameters(), *model.buffers()])]


def a_step(model: Any, inputs: Inputs) -> None:
    for p in model.parameters():
        p.grad = None
    model(*inputs).backward()


def step_peak(model: Any, inputs: Inputs) -> tuple[int, int]:
    """What the allocator had given out, and taken from the device, at most during a step, with all that was there before."""
    for p in model.parameters():
        p.grad = None
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    a_step(model, inputs)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()


def step_seconds(model: Any, inputs: Inputs, n: int = 7) -> float:
    times = []
    for _ in range(n):
        torch.cuda.synchronize()
        start = time.perf_counter()
        a_step(model, inputs)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return sorted(times)[n // 2]


def row_of(name: str, budget: str, model: Any, inputs: Inputs, expected: list[torch.Tensor]) -> dict[str, Any]:
    torch._dynamo.reset()
    trained = copy.deepcopy(model).cuda()
    row: dict[str, Any] = {"net": name, "budget": budget}
    start = time.perf_counter()
    memplan.compile(trained, budget, on_infeasible="smallest")
    got = train(trained, inputs)
    row["first_seconds"] = time.perf_counter() - start
    report = trained.memplan
    row |= {"planned": report.planned_bytes, "keep_all": report.keep_all_bytes, "overhead": report.overhead}
    row["differ"] = sum(not torch.equal(a, b) for a, b in zip(expected, got)) + abs(len(expected) - len(got))
    row["measured"], row["reserved"] = step_peak(trained, inputs)
    row["planned_reserved"] = report.reserved_bytes
    row["seconds"] = step_seconds(trained, inputs)
    return row


def rows_of(name: str) -> Iterator[dict[str, Any]]:
    """Eager PyTorch's row, and one for each budget."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.enable_cudnn_sdp(False)  # attention that gives the same bits twice: flash, or in fp32 written out
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.manual_seed(0)
    model, inputs = networks()[name]()
    inputs = tuple(t.cuda() for t in inputs)
    eager = copy.deepcopy(model).cuda()
    expected = train(eager, inputs)
    again = train(copy.deepcopy(model).cuda(), inputs)
    a_step(eager, inputs)
    peak, reserved = step_peak(eager, inputs)
    row: dict[str, Any] = {"net": name, "budget": "eager", "measured": peak, "reserved": reserved}
    row["seconds"] = step_seconds(eager, inputs)
    row["differ"] = sum(not torch.equal(a, b) for a, b in zip(expected, again))
    yield row
    del eager, again
    for budget in BUDGETS:
        try:
            yield row_of(name, budget, model, inputs, expected)
        except Exception as error:
            yield {"net": name, "budget": budget, "error": f"{type(error).__name__}: {error}"[:600]}


def is_as_promised(row: dict[str, Any]) -> bool:
    is_eager = "planned" not in row and "error" not in row
    good = "error" not in row and not row["differ"]
    return is_eager or (good and abs(row["measured"] / row["planned"] - 1) <= MOST_ERROR)


def text_of(row: dict[str, Any]) -> str:
    head = f"{row['net']:14s} {row['budget']:10s}"
    if "error" in row:
        return f"{head} {row['error']}"
    bits = "same bits" if not row["differ"] else f"{row['differ']} differ"
    said = f"{head} {bits:12s} {row['measured'] / GIB:8.3f} GiB measured"
    if "planned" in row:
        said += f" ({row['measured'] / row['planned'] - 1:+.3%} of planned)"
    said += f", {row['reserved'] / GIB:7.3f} reserved"
    if row.get("planned_reserved"):
        said += f" ({row['reserved'] / row['planned_reserved'] - 1:+.2%})"
    said += f", {1000 * row['seconds']:8.2f} ms"
    if "overhead" in row:
        said += f", planned overhead {row['overhead']:+.1%}, {row['first_seconds']:.1f} s to start"
    return said


def main(names: list[str]) -> int:
    if not torch.cuda.is_available():
        sys.stderr.write("bench_gpu: no GPU\n")
        return 77
    if len(names) == 1:
        good = True
        for row in rows_of(names[0]):
            sys.stdout.write(text_of(row) + "\n")
            sys.stdout.flush()
            good &= is_as_promised(row)
        return 0 if good else 1
    return max(subprocess.run([sys.executable, __file__, name], check=False).returncode for name in names or networks())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
