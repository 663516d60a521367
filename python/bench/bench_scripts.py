"""Training scripts of others with one line changed: losses and peaks with it and without.

python bench/bench_scripts.py timm train.py            # of huggingface/pytorch-image-models
python bench/bench_scripts.py diffusers train_unconditional.py  # of huggingface/diffusers, examples/

A script is run as it is and with the line, on pictures that are made up, for a few steps. The peak is that of a later step,
updates included, by PyTorch's memory events; the time is the processor's, of the steps after it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pathlib
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import torch
from PIL import Image
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler import ProfilerActivity, profile

BUDGETS = ("min+50%", "min+20%")
LINE = 'import memplan; memplan.compile(model, "{budget}", optimizer=optimizer)'
MEASURED = 3  # the step whose memory is
SIZE = 64  # of pictures

# What stands behind the line, the arguments, and how many pictures there are.
SCRIPTS: dict[str, tuple[str, str, int]] = {
    "timm": (
        "    # setup exponential moving average of model weights",
        "--data-dir {pictures} --output {results} --model resnet26 --num-classes 2 --input-size 3 64 64 -b 16 --epochs 1 "
        "--device cpu -j 0 --no-prefetcher --log-interval 1 --train-split . --val-split . --opt adamw --seed 1",
        128,
    ),
    "diffusers": (
        "    if args.use_ema:\n        ema_model.to(accelerator.device)",
        "--train_data_dir {pictures} --output_dir {results} --resolution 64 --train_batch_size 4 --num_epochs 1 "
        "--dataloader_num_workers 0 --ddpm_num_inference_steps 2 --lr_warmup_steps 2 "
        "--model_config_name_or_path {config}",
        32,
    ),
}
UNET: dict[str, Any] = {
    "_class_name": "UNet2DModel",
    "sample_size": 64,
    "block_out_channels": [32, 64, 64],
    "down_block_types": ["DownBlock2D", "DownBlock2D", "AttnDownBlock2D"],
    "up_block_types": ["AttnUpBlock2D", "UpBlock2D", "UpBlock2D"],
    "layers_per_block": 2,
}


def kept_bytes(optimizer: torch.optim.Optimizer) -> int:
    """What is there when an optimizer has stepped: parameters, gradients, state."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state = [v for s in optimizer.state.values() for v in s.values() if isinstance(v, torch.Tensor)]
    tensors = [*parameters, *(p.grad for p in parameters if p.grad is not None), *state]
    return sum({s.data_ptr(): s.nbytes() for s in (t.untyped_storage() for t in tensors)}.values())


class Steps:
    """Sees every loss that is backwarded, and one step's memory."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.times: list[float] = []
        self.base = self.peak = 0
        self.profiled: Any = None

    def stepped(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if sum(len(group["params"]) for group in optimizer.param_groups) == 1:  # on which memplan has seen what it keeps
            return
        self.times.append(time.process_time())
        if len(self.times) == MEASURED - 1:
            gc.collect()
            self.base = kept_bytes(optimizer)
            self.profiled = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
            self.profiled.__enter__()
        elif len(self.times) == MEASURED:
            self.profiled.__exit__(None, None, None)
            events = [e for e in self.profiled.profiler.kineto_results.events() if e.name() == "[memory]"]
            now = 0
            for event in sorted(events, key=lambda e: e.start_ns()):
                now += event.nbytes()
                self.peak = max(self.peak, now)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        backward = torch.Tensor.backward

        def noted(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> None:
            self.losses.append(tensor.item())
            backward(tensor, *args, **kwargs)

        torch.Tensor.backward = noted  # type: ignore[method-assign]
        hook = register_optimizer_step_post_hook(self.stepped)
        try:
            yield
        finally:
            hook.remove()
            torch.Tensor.backward = backward  # type: ignore[method-assign]

    def answer(self) -> dict[str, Any]:
        seconds = [b - a for a, b in zip(self.times[MEASURED:], self.times[MEASURED + 1 :])]
        return {"losses": self.losses, "peak_bytes": self.base + self.peak, "seconds": statistics.median(seconds)}


def make_pictures(folder: pathlib.Path, n_pictures: int) -> None:
    generator = torch.Generator().manual_seed(0)
    for k in range(n_pictures):
        kind = folder / f"kind{k % 2}"
        kind.mkdir(parents=True, exist_ok=True)
        values = torch.randint(256, (SIZE, SIZE, 3), generator=generator, dtype=torch.uint8)
        Image.fromarray(values.numpy()).save(kind / f"{k}.png")


def run(name: str, path: str, budget: str) -> None:
    """One run of a script, in this process: prints its answer last."""
    anchor, arguments, n_pictures = SCRIPTS[name]
    text = pathlib.Path(path).read_text(encoding="utf-8")
    assert text.count(anchor) == 1, f"{path} is not the script that this was written for"
    if budget:
        text = text.replace(anchor, f"    {LINE.format(budget=budget)}\n{anchor}")
    steps = Steps()
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        make_pictures(here / "pictures", n_pictures)
        (here / "config.json").write_text(json.dumps(UNET), encoding="utf-8")
        (here / "script.py").write_text(text, encoding="utf-8")
        places = {"pictures": here / "pictures", "results": here / "results", "config": here / "config.json"}
        sys.argv = ["script.py", *(a.format(**places) for a in arguments.split())]
        torch.manual_seed(0)
        with steps.watched():
            runpy.run_path(str(here / "script.py"), run_name="__main__")
    sys.stdout.write("\n" + json.dumps(steps.answer()))


def main() -> None:
    name, path = sys.argv[1:3]
    if len(sys.argv) > 3:
        run(name, path, sys.argv[3])
        return
    eager: dict[str, Any] = {}
    write = sys.stdout.write
    write("| script | line | same losses | peak MiB | a step |\n|---|---|---|---:|---:|\n")
    for budget in ("", *BUDGETS):
        command = [sys.executable, __file__, name, path, budget]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"HF_HUB_OFFLINE": "1"})
        if done.returncode:
            raise SystemExit(done.stderr[-4000:])
        answer = json.loads(done.stdout.splitlines()[-1])
        eager = eager or answer
        same = "yes" if answer["losses"] == eager["losses"] else "no"
        line = f"`{LINE.partition('; ')[2].format(budget=budget)}`" if budget else "as it is"
        share = answer["seconds"] / eager["seconds"] - 1
        write(f"| {name} | {line} | {same} | {answer['peak_bytes'] / 2**20:.2f} | {share:+.1%} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
