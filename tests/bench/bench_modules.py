#!/usr/bin/env python3
"""bench_modules.py [NET...] - plans by modules, applied in PyTorch on the CPU, beside a checkpoint around every block.

By hand, not in CI: needs torch and onnx. For each network: PyTorch's MemTracker says the peak of a step with AdamW and every block in
torch.utils.checkpoint; `memplan plan --granularity module` gets that peak as its budget; its modules are wrapped, by the lines that `memplan
apply --for pytorch` prints, and MemTracker says the peak again. Work that is done again is counted by PyTorch's FlopCounterMode; seconds are
those of real steps, the median. Gradients of a real step are compared with those of the step without checkpoints, bit by bit."""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch_nets
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode
from torch_step import Network, tracked_peak, write_file

BATCHES = {"resnet50": 8, "bert_base": 1, "gpt2_small": 1, "unet": 1}
BLOCKS = (torch_nets.Bottleneck, torch_nets.BertLayer, torch_nets.GptLayer)


class Twice(nn.Sequential):
    def __init__(self, narrow: int, wide: int) -> None:
        super().__init__(nn.Conv2d(narrow, wide, 3), nn.ReLU(inplace=True), nn.Conv2d(wide, wide, 3), nn.ReLU(inplace=True))


class UNet(nn.Module):
    """As in its paper: no padding, 572 x 572 in, 388 x 388 out, dropout at the bottom."""

    def __init__(self) -> None:
        super().__init__()
        wide = [64, 128, 256, 512, 1024]
        self.down = nn.ModuleList([Twice(a, b) for a, b in zip([1, *wide], wide)])
        self.pool = nn.ModuleList([nn.MaxPool2d(2) for _ in range(4)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(2 * a, a, 2, 2) for a in wide[:4]])
        self.dec = nn.ModuleList([Twice(2 * a, a) for a in wide[:4]])
        self.drop, self.head = nn.Dropout(0.5), nn.Conv2d(64, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for down, pool in zip(self.down, self.pool):
            skips.append(down(x))
            x = pool(skips[-1])
        x = self.drop(self.down[4](x))
        for k, edge in ((3, 4), (2, 16), (1, 40), (0, 88)):
            x = self.dec[k](torch.cat((skips[k][:, :, edge:-edge, edge:-edge], self.up[k](x)), 1))
        y: Tensor = self.head(x)
        return y


def make(name: str) -> Network:
    """The network in training mode, its inputs and labels."""
    torch.manual_seed(0)
    batch = BATCHES[name]
    if name == "unet":
        return UNet().train(), (torch.randn(batch, 1, 572, 572),), torch.randint(2, (batch, 388, 388))
    net = torch_nets.IMAGES[name]() if name in torch_nets.IMAGES else torch_nets.make_net(name)
    inputs, labels = torch_nets.make_inputs(name, batch)
    inputs = tuple(x.contiguous() for x in inputs)
    return net.train(), inputs, labels


def wrap(net: nn.Module, names: list[str]) -> None:
    for name in names:
        module = net.get_submodule(name)
        module.forward = functools.partial(checkpoint, module.forward, use_reentrant=False)


def blocks_of(net: nn.Module) -> list[str]:
    return [name for name, module in net.named_modules() if isinstance(module, (*BLOCKS, Twice))]


def tracked(name: str, names: list[str]) -> int:
    """The peak of a step in which these modules are wrapped."""

    def wrapped() -> Network:
        net, inputs, labels = make(name)
        wrap(net, names)
        return net, inputs, labels

    return tracked_peak(wrapped)


def flops(name: str, names: list[str]) -> int:
    with FakeTensorMode(allow_non_fake_inputs=True), FlopCounterMode(display=False) as counter:
        net, inputs, labels = make(name)
        wrap(net, names)
        F.cross_entropy(net(*inputs), labels).backward()  # type: ignore[no-untyped-call]
    return int(counter.get_total_flops())


def stepped(name: str, names: list[str], steps: int) -> tuple[list[Tensor], float]:
    """The gradients of a real step, and the median seconds."""
    net, inputs, labels = make(name)
    wrap(net, names)
    seconds = []
    for _ in range(steps + 1):
        net.zero_grad()
        torch.manual_seed(1)
        start = time.perf_counter()
        F.cross_entropy(net(*inputs), labels).backward()  # type: ignore[no-untyped-call]
        seconds.append(time.perf_counter() - start)
    return [p.grad for p in net.parameters() if p.grad is not None], statistics.median(seconds[1:] or seconds)


def planned(program: str, name: str, budget: int, folder: Path) -> tuple[dict[str, object], str]:
    """The plan, and the lines that apply it."""
    model, plan = folder / f"{name}.onnx", folder / "plan.json"
    if not model.exists():
        net, inputs, _ = make(name)
        write_file(net, inputs, model)
    answers = []
    for command in (
        ["plan", str(model), "--granularity", "module", "--budget", str(budget), "-o", str(plan), "--json"],
        ["apply", str(model), str(plan), "--for", "pytorch"],
    ):
        done = subprocess.run([program, *command], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{done.stdout}{done.stderr}")
        answers.append(done.stdout)
    return json.loads(answers[0]), answers[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(BATCHES), help=f"of {', '.join(BATCHES)}")
    parser.add_argument("--memplan", default=str(Path(__file__).resolve().parents[2] / "build/memplan"), help="the program")
    parser.add_argument("--steps", type=int, default=0, help="real steps to take the seconds of (0: gradients only)")
    parser.add_argument("--budget", type=float, default=1.001, help="as a share of the peak with every block checkpointed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for name in args.names:
            blocks = blocks_of(make(name)[0])
            whole, block_peak = tracked(name, []), tracked(name, blocks)
            plan, lines = planned(args.memplan, name, int(block_peak * args.budget), Path(scratch))
            names = list(plan["modules"])  # type: ignore[call-overload]
            net = make(name)[0]
            exec(lines, {"model": net})  # runs the printed lines themselves
            wrapped = [n for n, m in net.named_modules() if isinstance(vars(m).get("forward"), functools.partial)]
            assert sorted(wrapped) == sorted(names), (wrapped, names)
            peak, once = tracked(name, names), flops(name, [])
            again = {what: flops(name, which) / once - 1 for what, which in (("blocks", blocks), ("plan", names))}
            plain, seconds = stepped(name, [], args.steps)
            ours, our_seconds = stepped(name, names, args.steps)
            equal = all(torch.equal(a, b) for a, b in zip(plain, ours, strict=True))
            times = ""
            if args.steps:
                block_seconds = stepped(name, blocks, args.steps)[1]
                times = f"extra seconds: blocks {block_seconds / seconds - 1:+.1%}, plan {our_seconds / seconds - 1:+.1%}; "
            print(
                f"{name} batch {BATCHES[name]}: keep all {whole:,}; blocks ({len(blocks)}) {block_peak:,}; plan ({len(names)}) predicted "
                f"{plan['peak_bytes']:,}, tracked {peak:,}, {100 * (int(str(plan['peak_bytes'])) / peak - 1):+.2f} %; extra FLOP: blocks "
                f"{again['blocks']:+.1%}, plan {again['plan']:+.1%}, predicted time {float(str(plan['overhead'])):+.1%}; {times}gradients "
                f"{'equal' if equal else 'NOT equal'}; {', '.join(names)}",
                flush=True,
            )


if __name__ == "__main__":
    sys.exit(main())
