"""Write the table of networks on a GPU, at sizes that people train.

A row compares bits with eager PyTorch, planned bytes with the bytes that the allocator gave out and reserved and with NVML's,
and gives the time of a step. Each network runs in a process of its own, with an equal share of the time, and rows are written
as they are measured. The exit status is 1 if a row is not as promised.

make bench-python BENCH=gpu [NETWORKS="NAME..."]. With --device cpu the networks are small: this rehearses the script.
"""

from __future__ import annotations

import argparse
import copy
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from torch import nn

import memplan

# options of each plan, the most informative first
PLANS: dict[str, dict[str, Any]] = {
    "floor+50%": {"budget": "floor+50%"},
    "copies": {"budget": "floor+30%", "offload": "32GiB"},
    "100%": {"budget": "100%"},
    "floor+15%": {"budget": "floor+15%"},
}
# the most informative first
NETWORKS = ["gpt2", "resnet50_bf16", "bert", "llama", "resnet50", "vit_b_16", "convnext_tiny", "gpt2_fp32"]
PRELOADED = ["torch", "torchvision.models", "transformers", "memplan"]
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
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.half):
            scores = self.inner(x)
            scores = getattr(scores, "logits", scores)
            return nn.functional.cross_entropy(scores.flatten(0, -2).float(), y.flatten())


def pictures(make: Callable[[], nn.Module], batch: int, half: bool, is_small: bool) -> Made:
    shape = (2, 3, 32, 32) if is_small else (batch, 3, 224, 224)
    return Labelled(make(), half), (torch.randn(shape), torch.randint(1000, shape[:1]))


def words(model: nn.Module, batch: int, length: int, n_words: int, half: bool) -> Made:
    tokens = torch.randint(n_words, (batch, length))
    return Labelled(model, half), (tokens, tokens.roll(-1, 1))


def networks(is_small: bool) -> dict[str, Callable[[], Made]]:
    """Return the constructors of the trained models by name."""
    import torchvision.models as vision
    import transformers

    few: dict[str, Any] = {"vocab_size": 500} if is_small else {}
    gpt2 = transformers.GPT2Config(use_cache=False, **(few | {"n_layer": 2, "n_embd": 48} if is_small else {}))
    two = {"num_hidden_layers": 2, "hidden_size": 48, "intermediate_size": 96}
    bert = transformers.BertConfig(**(few | two if is_small else {}))
    wide = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 8, "num_attention_heads": 16}
    llama = transformers.LlamaConfig(use_cache=False, **(few | two | {"num_attention_heads": 4} if is_small else wide))
    resnet = vision.resnet18 if is_small else vision.resnet50
    vit: Any = (lambda: vision.VisionTransformer(32, 8, 2, 4, 48, 96)) if is_small else vision.vit_b_16

    def text(model: nn.Module, config: Any, batch: int, length: int, half: bool) -> Made:
        batch, length = (2, 16) if is_small else (batch, length)
        return words(model, batch, length, config.vocab_size, half)

    return {
        "gpt2": lambda: text(transformers.GPT2LMHeadModel(gpt2), gpt2, 4, 1024, half=True),
        "resnet50_bf16": lambda: pictures(resnet, 64, True, is_small),
        "bert": lambda: text(transformers.BertForMaskedLM(bert), bert, 16, 512, half=True),
        "llama": lambda: text(transformers.LlamaForCausalLM(llama), llama, 4, 1024, half=True),
        "resnet50": lambda: pictures(resnet, 64, False, is_small),
        "vit_b_16": lambda: pictures(vit, 32, True, is_small),
        "convnext_tiny": lambda: pictures(vision.convnext_tiny, 32, False, is_small),
        "gpt2_fp32": lambda: text(transformers.GPT2LMHeadModel(gpt2), gpt2, 2, 512, half=False),
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


def synchronize(inputs: Inputs) -> None:
    if inputs[0].is_cuda:
        torch.cuda.synchronize()


def device_bytes() -> int:
    """Return the used bytes of the device as NVML counts them, or as the driver does if NVML's bindings are missing."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).used)
    except Exception:
        free, total = torch.cuda.mem_get_info()
        return total - free


def step_bytes(model: Any, inputs: Inputs) -> dict[str, int]:
    """Return the peaks of a step: allocated and reserved bytes, and the used bytes of the device. Empty without a GPU."""
    for p in model.parameters():
        p.grad = None
    if not inputs[0].is_cuda:
        a_step(model, inputs)
        return {}
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    a_step(model, inputs)
    torch.cuda.synchronize()
    return {
        "measured": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.max_memory_reserved(),
        "device": device_bytes(),
    }


def step_seconds(model: Any, inputs: Inputs, n: int = 7) -> float:
    times = []
    for _ in range(n):
        synchronize(inputs)
        start = time.perf_counter()
        a_step(model, inputs)
        synchronize(inputs)
        times.append(time.perf_counter() - start)
    return sorted(times)[n // 2]


def plan_row(name: str, plan: str, model: Any, inputs: Inputs, expected: list[torch.Tensor], cache: str) -> dict[str, Any]:
    torch._dynamo.reset()
    trained = copy.deepcopy(model).to(inputs[0].device)
    row: dict[str, Any] = {"net": name, "plan": plan}
    start = time.perf_counter()
    memplan.compile(trained, on_infeasible="smallest", time_limit=3, cache=cache, **PLANS[plan])
    got = train(trained, inputs)
    row["first_seconds"] = time.perf_counter() - start
    report = trained.memplan
    row |= {"planned": report.planned_bytes, "keep_all": report.keep_all_bytes, "overhead": report.overhead}
    row |= {"copied": len(report.copied), "host": report.host_bytes, "recomputed": len(report.recomputed)}
    row["differ"] = sum(not torch.equal(a, b) for a, b in zip(expected, got)) + abs(len(expected) - len(got))
    row |= step_bytes(trained, inputs)
    row["planned_reserved"] = report.reserved_bytes
    if report.reserved_bytes and report.context_bytes:
        row["planned_device"] = report.reserved_bytes + report.context_bytes
    row["seconds"] = step_seconds(trained, inputs)
    return row


def rows_of(name: str, device: str, cache: str) -> Iterator[dict[str, Any]]:
    """Yield eager PyTorch's row, and one for each plan."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.enable_cudnn_sdp(False)  # the remaining attention kernels give the same bits twice
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.manual_seed(0)
    model, inputs = networks(device == "cpu")[name]()
    inputs = tuple(t.to(device) for t in inputs)
    eager = copy.deepcopy(model).to(device)
    expected = train(eager, inputs)
    again = train(copy.deepcopy(model).to(device), inputs)
    a_step(eager, inputs)
    row: dict[str, Any] = {"net": name, "plan": "eager"} | step_bytes(eager, inputs)
    row["seconds"] = step_seconds(eager, inputs)
    row["differ"] = sum(not torch.equal(a, b) for a, b in zip(expected, again))
    yield row
    del eager, again
    for plan in PLANS:
        try:
            yield plan_row(name, plan, model, inputs, expected, cache)
        except Exception as error:
            yield {"net": name, "plan": plan, "error": f"{type(error).__name__}: {error}"[:600]}


def is_as_promised(row: dict[str, Any]) -> bool:
    if "error" in row:
        return False
    is_eager = "planned" not in row
    is_measured = "measured" in row
    return is_eager or (not row["differ"] and (not is_measured or abs(row["measured"] / row["planned"] - 1) <= MOST_ERROR))


def beside(value: float, planned: float | None) -> str:
    return f" ({value / planned - 1:+.2%})" if planned else ""


def text_of(row: dict[str, Any]) -> str:
    head = f"{row['net']:14s} {row['plan']:10s}"
    if reason := row.get("error") or row.get("left_out"):
        return f"{head} {reason}"
    bits = "same bits" if not row["differ"] else f"{row['differ']} differ"
    said = f"{head} {bits:10s}"
    if "measured" in row:
        said += f" {row['measured'] / GIB:7.3f} GiB allocated{beside(row['measured'], row.get('planned'))}"
        said += f", {row['reserved'] / GIB:7.3f} reserved{beside(row['reserved'], row.get('planned_reserved'))}"
        said += f", {row['device'] / GIB:7.3f} of the device{beside(row['device'], row.get('planned_device'))},"
    said += f" {1000 * row['seconds']:8.2f} ms"
    if "overhead" in row:
        said += f", planned {row['planned'] / GIB:.3f} GiB {row['overhead']:+.1%}, {row['first_seconds']:.1f} s to start"
    if row.get("copied"):
        said += f", {row['copied']} copied"
    return said


def write(row: dict[str, Any], path: str | None) -> bool:
    """Write a row as text and as a line of JSON. Return whether the row is as promised."""
    is_good = is_as_promised(row)
    sys.stdout.write(("" if is_good else "FAILED: ") + text_of(row) + "\n")
    sys.stdout.flush()
    if path:
        with open(path, "a") as file:
            verdict = "left out" if "left_out" in row else "ok" if is_good else "FAILED"
            file.write(json.dumps(row | {"who": "memplan.compile", "verdict": verdict}) + "\n")
    return is_good


def run_network(name: str, device: str, cache: str, path: str | None) -> None:
    """Run in a process: its exit status is 1 if a row is not as promised."""
    good = [write(row, path) for row in rows_of(name, device, cache)]
    sys.exit(0 if all(good) else 1)


def main() -> int:
    parser = argparse.ArgumentParser(description="the table of networks on a GPU")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--seconds", type=float, default=3600.0, help="for all networks together")
    parser.add_argument("--rows", help="append rows as JSON to this file")
    a = parser.parse_args()
    if a.device == "cuda" and not torch.cuda.is_available():
        sys.stderr.write("bench_gpu: no GPU\n")
        return 77
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    names = a.names or NETWORKS
    end, is_good = time.monotonic() + a.seconds, True
    first: Any = context.Process(target=os.getpid)  # starts the server, which imports the preloaded modules
    first.start()
    first.join()
    cache = os.environ.get("MEMPLAN_CACHE", "off")
    for k, name in enumerate(names):
        share = (end - time.monotonic()) / (len(names) - k)
        process = context.Process(target=run_network, args=(name, a.device, cache, a.rows))
        process.start()
        process.join(max(share, 1))
        if process.is_alive():
            process.kill()
            process.join()
            write({"net": name, "plan": "", "left_out": f"no time for the remaining plans after {share:.0f} s"}, a.rows)
        else:
            is_good &= process.exitcode == 0
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
