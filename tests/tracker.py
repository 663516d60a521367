#!/usr/bin/env python3
"""tracker.py [-h] [NAME...] - the peak of a training step as `memplan estimate --rules pytorch` has it, beside PyTorch's own tracker.

By hand, not in CI: needs torch and onnx; torchvision for the networks that are not in tests/bench/torch_nets.py. PyTorch's MemTracker runs
two steps with AdamW (fused: without temporaries) on tensors without memory, so that networks of any size take seconds; the second step counts. The same module is
exported without its parameters (TorchScript, training mode) and estimated at the same batch. Dropout is off with --no-dropout, since with it
PyTorch runs its attention operator by operator.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "bench"))

import torch_nets
from torch_step import Network, tracked_peak, write_file

BATCHES = {
    "gpt2_small": 2, "llama": 2, "bert_base": 2, "vit_b_16": 8,
    "resnet50": 8, "mobilenet_v2": 8, "vgg16": 8, "densenet121": 8, "mobilenet_v3_large": 8,
}  # fmt: skip


def make(name: str, dropout: bool) -> Network:
    """The network in training mode, its inputs and labels."""
    batch = BATCHES[name]
    if name in torch_nets.NAMES and name not in torch_nets.IMAGES:
        net, (inputs, labels) = torch_nets.make_net(name), torch_nets.make_inputs(name, batch)
    else:
        import torchvision

        net = getattr(torchvision.models, name)()
        inputs, labels = (torch.randn(batch, 3, 224, 224),), torch.randint(1000, (batch,))
    if not dropout:
        for part in net.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.0
    return net.train(), inputs, labels


def estimated(program: str, name: str, dropout: bool, folder: Path) -> int:
    path = folder / f"{name}.onnx"
    net, inputs, _ = make(name, dropout)
    write_file(net, inputs, path)
    done = subprocess.run([program, "estimate", str(path), "--rules", "pytorch", "--json"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    return int(json.loads(done.stdout)["peak_bytes"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(BATCHES), help=f"of {', '.join(BATCHES)}")
    parser.add_argument("--memplan", default=str(HERE.parent / "build/memplan"), help="the program")
    parser.add_argument("--no-dropout", action="store_true", help="modules that drop drop nothing")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for name in args.names:
            truth, ours = tracked_peak(functools.partial(make, name, not args.no_dropout)), estimated(args.memplan, name, not args.no_dropout, Path(scratch))
            print(f"{name:14} batch {BATCHES[name]:2}  PyTorch {truth:14,}  memplan {ours:14,}  {100 * (ours / truth - 1):+.2f} %", flush=True)


if __name__ == "__main__":
    main()
