#!/usr/bin/env python3
"""bench_torch.py NET BATCH [OPTION...] - training steps of PyTorch, answered in JSON: the median seconds of a step, the peak in bytes (on a
GPU max_memory_allocated, on the CPU the RSS), the reserved bytes (max_memory_reserved), PyTorch's version. The first step, on a GPU four,
warm up and do not count. --largest BYTES looks for the largest batch first whose steps fit, beginning with BATCH, and measures that."""

from __future__ import annotations

import argparse
import gc
import inspect
import json
import os
import resource
import time
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_nets import NAMES, make_inputs, make_net, put_checkpoints

HOW = """eager (the default): as it stands, AdamW fused; foreach: AdamW over lists of tensors; forloop: one tensor at a time;
backward: AdamW per parameter as soon as its gradient is there, which is then dropped; compile: torch.compile; graphs: the
same with captured graphs (reduce-overhead); checkpoint: torch.utils.checkpoint around every block; budget=X: torch.compile
with activation_memory_budget X in [0, 1]"""


def fused_adamw(parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    """In one kernel, where this PyTorch has that."""
    if "fused" in inspect.signature(torch.optim.AdamW).parameters and int(torch.__version__.split(".")[0]) > 1:
        return torch.optim.AdamW(parameters, fused=True)
    return torch.optim.AdamW(parameters)


def make_optimizer(net: nn.Module, how: str) -> torch.optim.Optimizer | None:
    """AdamW; None where gradients are used up within backward."""
    if how in ("foreach", "forloop"):
        return torch.optim.AdamW(net.parameters(), foreach=how == "foreach")
    if how != "backward":
        return fused_adamw(net.parameters())
    of: dict[Tensor, torch.optim.Optimizer] = {p: fused_adamw([p]) for p in net.parameters()}

    def update(p: Tensor) -> None:
        of[p].step()
        p.grad = None

    for p in net.parameters():
        p.register_post_accumulate_grad_hook(update)  # type: ignore[no-untyped-call]
    return None


def make_run(net: nn.Module, how: str) -> Callable[..., Tensor]:
    """The net as it is called."""
    if how == "checkpoint":
        put_checkpoints(net)
    if how.startswith("budget="):
        from torch._functorch import config

        config.activation_memory_budget = float(how.removeprefix("budget="))
    if how == "graphs":
        compiled: Callable[..., Tensor] = torch.compile(net, mode="reduce-overhead")
        return compiled
    if how == "compile" or how.startswith("budget="):
        compiled = torch.compile(net)
        return compiled
    return net


def train(a: argparse.Namespace, batch: int, steps: int) -> dict[str, float | int]:
    """Seconds and bytes of a step at this batch."""
    net = make_net(a.net, not a.no_mask).to(a.device)
    inputs, labels = make_inputs(a.net, batch)
    inputs, labels = tuple(x.to(a.device) for x in inputs), labels.to(a.device)
    optimizer, run, times = make_optimizer(net, a.how), make_run(net, a.how), []
    warm = 4 if a.device == "cuda" else 1
    for step in range(steps + warm):
        if step == warm and a.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        if optimizer:
            optimizer.zero_grad()
        with torch.autocast(a.device, torch.bfloat16, enabled=a.precision == "bf16"):
            loss = F.cross_entropy(run(*inputs), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        if optimizer:
            optimizer.step()
        if a.device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    times = sorted(times[warm:])
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    on_gpu = a.device == "cuda"
    return {
        "step_seconds": times[len(times) // 2],
        "bytes": torch.cuda.max_memory_allocated() if on_gpu else rss,
        "held_bytes": torch.cuda.max_memory_reserved() if on_gpu else rss,
    }


def fits(a: argparse.Namespace, batch: int) -> bool:
    """Whether a step at this batch stays within the bytes; on the CPU by the peak of the process, which only grows."""
    try:
        held = train(a, batch, 1)["held_bytes"]
    except torch.OutOfMemoryError:
        held = a.largest + 1
    gc.collect()
    if a.device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    return bool(held <= a.largest)


def largest_batch(a: argparse.Namespace) -> int:
    """By doubling and bisection from the given batch, to within 2 %; 0 if not even one sample fits."""
    if a.device == "cuda":
        torch.cuda.set_per_process_memory_fraction(min(1.0, a.largest / torch.cuda.get_device_properties(0).total_memory))
    low, high = 0, a.batch
    while fits(a, high):
        low, high = high, 2 * high
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(a, middle) else (low, middle)
    return low


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, epilog=HOW, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("net", choices=NAMES)
    p.add_argument("batch", type=int)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--threads", type=int, default=0, help="of the CPU")
    p.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32", help="bf16: autocast; weights and optimizer in fp32")
    p.add_argument("--how", default="eager", help="see below")
    p.add_argument("--no-mask", action="store_true", help="bert_base without its padding mask")
    p.add_argument("--deterministic", action="store_true", help="the same bits from run to run, no trying of algorithms")
    p.add_argument("--export", metavar="FILE", help="write the net as an ONNX file with an open batch, and measure nothing")
    p.add_argument("--largest", type=float, default=0, metavar="BYTES", help="the largest batch within these")
    return p.parse_args()


def main() -> None:
    a = arguments()
    if a.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is first used
        torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = not a.deterministic
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = a.precision == "tf32"
    if a.threads:
        torch.set_num_threads(a.threads)
    if a.export:
        from torch_step import write_file  # imports PyTorch's tracker, which not every version has

        net, (inputs, _) = make_net(a.net, not a.no_mask).train(), make_inputs(a.net, a.batch)
        write_file(net, inputs, a.export, with_values=True, open_batch=True)
        return
    batch = largest_batch(a) if a.largest else a.batch
    if batch == 0:
        raise SystemExit(f"not even one sample fits into {a.largest:.0f} bytes")
    answer: dict[str, object] = {"net": a.net, "batch": batch, "how": a.how, "precision": a.precision, "torch": torch.__version__}
    if a.largest:
        answer["largest_batch"] = batch
    answer.update(train(a, batch, a.steps))
    print(json.dumps(answer, indent=1))


if __name__ == "__main__":
    main()
