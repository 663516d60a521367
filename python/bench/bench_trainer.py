"""Hugging Face's Trainer: as it is, with its own gradient checkpointing, and with our callback at the peak of that.

make bench-python BENCH=trainer
GPT-2, and the same with peft's LoRA beside frozen weights. Peak: all that is in memory in a training step, by PyTorch's memory
events. Time: the processor's of a step, median.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from typing import Any

import torch
from against_eager import peak_of_call
from habits import frameworks

from memplan.frameworks.hugging_face import MemplanCallback

MIB = 1 << 20
BATCH, LENGTH, STEPS, MEASURED = 8, 128, 8, 2


def model(adapters: bool) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    made = GPT2LMHeadModel(GPT2Config(vocab_size=frameworks.WORDS, n_positions=LENGTH, n_embd=256, n_layer=6, n_head=8))
    if not adapters:
        return made
    from peft import LoraConfig, get_peft_model

    return get_peft_model(made, LoraConfig(r=8, target_modules=["c_attn"], fan_in_fan_out=True))


def run(adapters: bool, callbacks: list[Any], checkpointing: bool) -> tuple[list[float], int, float]:
    """Losses, the peak of a step, and the median of the others' seconds."""
    with tempfile.TemporaryDirectory() as folder:
        trained = model(adapters)
        given: dict[str, Any] = {"per_device_train_batch_size": BATCH, "gradient_checkpointing": checkpointing}
        given["gradient_checkpointing_kwargs"] = {"use_reentrant": False}
        rows = frameworks.Rows(BATCH * STEPS, (LENGTH,))
        made = frameworks.trainer(trained, folder, callbacks, rows, **given)
        step, seconds, peaks, losses = made.training_step, [], [], []

        def training_step(*args: Any, **kwargs: Any) -> Any:
            results: list[Any] = []
            if len(losses) == MEASURED:
                peaks.append(peak_of_call(lambda: results.append(step(*args, **kwargs))))
            else:
                start = time.process_time()
                results.append(step(*args, **kwargs))
                seconds.append(time.process_time() - start)
            losses.append(results[0].item())
            return results[0]

        made.training_step = training_step
        made.train()
        state = [v for s in made.optimizer.state.values() for v in s.values() if isinstance(v, torch.Tensor) and v.dim()]
        tensors = [*trained.parameters(), *trained.buffers(), *state]
        static = sum({t.data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values()) + 3 * BATCH * LENGTH * 8
        return losses, static + peaks[0], statistics.median(seconds[1:])


def main() -> None:
    write = sys.stdout.write
    write("| model | memory | losses | MiB | a step |\n|---|---|---|---:|---:|\n")
    for adapters in (False, True):
        name = "GPT-2, LoRA" if adapters else "GPT-2, 6 x 256"
        plain = run(adapters, [], False)
        theirs = run(adapters, [], True)
        for what, (losses, peak, seconds) in {
            "nothing": plain,
            "`gradient_checkpointing`": theirs,
            "our callback, at that peak": run(adapters, [MemplanCallback(theirs[1])], False),
        }.items():
            same = "the same" if losses == plain[0] else "others"
            write(f"| {name} | {what} | {same} | {peak / MIB:.2f} | {seconds / plain[2] - 1:+.1%} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
