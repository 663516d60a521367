"""Training scripts of others as they are, with checkpointing of their own, and with one line of ours at the peak of that.

python bench/bench_scripts.py timm-resnet train.py            # of huggingface/pytorch-image-models
python bench/bench_scripts.py timm-vit train.py
python bench/bench_scripts.py diffusers train_unconditional.py  # of huggingface/diffusers, examples/

Pictures are made up; a script runs for a few steps. The peak is that of a later step, updates included, by PyTorch's memory
events; the time is the processor's, of the steps after it.
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
from typing import Any, NamedTuple

import torch
from PIL import Image
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler import ProfilerActivity, profile

LINE = 'import memplan; memplan.compile(model, "{budget}", optimizer=optimizer)'
MEASURED = 3  # the step whose memory is


class Script(NamedTuple):
    anchor: str  # what stands behind the line
    arguments: str
    n_pictures: int
    their_argument: str = ""  # for checkpointing of their own, or
    their_line: str = ""  # where they have no argument for it


TIMM = (
    "--data-dir {pictures} --output {results} --num-classes 2 --epochs 1 --device cpu -j 0 --no-prefetcher --log-interval 1 "
    "--train-split . --val-split . --opt adamw --seed 1 "
)
BEHIND_TIMM = "    # setup exponential moving average of model weights"
SIZE = 128  # of pictures
SCRIPTS = {
    "timm-resnet": Script(
        BEHIND_TIMM, TIMM + f"--model resnet26 --input-size 3 {SIZE} {SIZE} -b 16", 320, "--grad-checkpointing"
    ),
    "timm-vit": Script(
        BEHIND_TIMM,
        TIMM + f"--model vit_tiny_patch16_224 --model-kwargs img_size={SIZE} --input-size 3 {SIZE} {SIZE} -b 16",
        128,
        "--grad-checkpointing",
    ),
    "diffusers": Script(
        "    if args.use_ema:\n        ema_model.to(accelerator.device)",
        "--train_data_dir {pictures} --output_dir {results} --resolution 64 --train_batch_size 4 --num_epochs 1 "
        "--dataloader_num_workers 0 --ddpm_num_inference_steps 2 --lr_warmup_steps 2 "
        "--model_config_name_or_path {config}",
        64,
        their_line="model.enable_gradient_checkpointing()",
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
    """What is there throughout: parameters and state. Gradients of a step are let go of before the next one's forward."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state = [v for s in optimizer.state.values() for v in s.values() if isinstance(v, torch.Tensor)]
    return sum({s.data_ptr(): s.nbytes() for s in (t.untyped_storage() for t in [*parameters, *state])}.values())


class Steps:
    """Sees every loss that is backwarded, and one step's memory."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.times: list[float] = []
        self.base = self.peak = 0
        self.profiled: Any = None
        self.parameters: list[torch.Tensor] = []

    def stepped(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if sum(len(group["params"]) for group in optimizer.param_groups) == 1:  # on which memplan has seen what it keeps
            return
        self.times.append(time.process_time())
        if len(self.times) == MEASURED - 1:
            gc.collect()
            self.base = kept_bytes(optimizer)
            self.parameters = [p for group in optimizer.param_groups for p in group["params"]]
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
            assert all(p.grad is None for p in self.parameters), "gradients of the step before are still there"
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


def run(name: str, path: str, line: str, argument: str) -> None:
    """One run of a script, in this process: prints its answer last."""
    script = SCRIPTS[name]
    text = pathlib.Path(path).read_text(encoding="utf-8")
    assert text.count(script.anchor) == 1, f"{path} is not the script that this was written for"
    text = text.replace(script.anchor, f"    {line}\n{script.anchor}")
    steps = Steps()
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        make_pictures(here / "pictures", script.n_pictures)
        (here / "config.json").write_text(json.dumps(UNET), encoding="utf-8")
        (here / "script.py").write_text(text, encoding="utf-8")
        places = {"pictures": here / "pictures", "results": here / "results", "config": here / "config.json"}
        sys.argv = ["script.py", *(a.format(**places) for a in f"{script.arguments} {argument}".split())]
        torch.manual_seed(0)
        with steps.watched():
            runpy.run_path(str(here / "script.py"), run_name="__main__")
    sys.stdout.write("\n" + json.dumps(steps.answer()))


def answer_of(name: str, path: str, line: str = "", argument: str = "") -> dict[str, Any]:
    command = [sys.executable, __file__, name, path, line, argument]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"HF_HUB_OFFLINE": "1"})
    if done.returncode:
        raise SystemExit(done.stderr[-4000:])
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> None:
    name, path = sys.argv[1:3]
    if len(sys.argv) > 3:
        run(name, path, *sys.argv[3:])
        return
    script = SCRIPTS[name]
    plain = answer_of(name, path)
    theirs = answer_of(name, path, script.their_line, script.their_argument)
    line = LINE.format(budget=f"{theirs['peak_bytes']}B")
    rows = {"as it is": plain, script.their_line or script.their_argument: theirs, line: answer_of(name, path, line)}
    sys.stdout.write("| script | memory | same losses | peak MiB | a step |\n|---|---|---|---:|---:|\n")
    for what, answer in rows.items():
        same = "yes" if answer["losses"] == plain["losses"] else "no"
        share = answer["seconds"] / plain["seconds"] - 1
        sys.stdout.write(f"| {name} | `{what}` | {same} | {answer['peak_bytes'] / 2**20:.2f} | {share:+.1%} |\n")


if __name__ == "__main__":
    main()
