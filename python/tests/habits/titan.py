"""torchtitan's two trainers on a CPU: the debug Llama, on rows that are made up. Run as a program, in a process of its own: it
prints what its trainers' steps came to as JSON.

    python tests/habits/titan.py '[{"trainer": "eager", "memory": "full"}, {"trainer": "graph", "memory": "none"}]' --batch 4
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from against_eager import peak_of_call

WORDS, LENGTH = 2048, 256
ENVIRONMENT = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost"}
ON_CPU = {  # what torchtitan asks a device, and torch.cpu does not answer
    "get_device_name": lambda *_: "CPU",
    "get_device_properties": lambda *_: SimpleNamespace(total_memory=1 << 34),
    "reset_peak_memory_stats": lambda *_: None,
    "empty_cache": lambda *_: None,
    "memory_stats": lambda *_: {"num_alloc_retries": 0, "num_ooms": 0},
}


def on_cpu() -> None:
    """torchtitan looks for a device when it is imported, and takes an absent GPU where there is none."""
    with mock.patch("torch._utils._get_available_device_type", lambda: "cpu"):
        import torchtitan.tools.utils  # noqa: F401
    for name, answer in ON_CPU.items():
        if not hasattr(torch.cpu, name):
            setattr(torch.cpu, name, answer)


class Made:
    """In the place of a component's configuration: builds this, whatever it is told."""

    def __init__(self, made: Any = None) -> None:
        self.made = made

    def build(self, **_: Any) -> Any:
        return self.made

    def to_dict(self) -> dict[str, Any]:
        return {}


class Rows:
    """Batches without an end, the same each time."""

    def __init__(self, batch: int) -> None:
        self.batch = batch

    def __iter__(self) -> Any:
        generator = torch.Generator().manual_seed(0)
        positions = torch.arange(LENGTH).repeat(self.batch, 1)
        while True:
            rows = torch.randint(WORDS, (self.batch, LENGTH + 1), generator=generator)
            yield {"input": rows[:, :-1], "positions": positions}, rows[:, 1:]

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, _: dict[str, Any]) -> None:
        pass


def configuration(trainer: str, memory: str, budget: str, batch: int, folder: str, precision: str) -> Any:
    from torchtitan.components.loss import CrossEntropyLoss
    from torchtitan.components.optimizer import default_adamw
    from torchtitan.config import TrainingConfig
    from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
    from torchtitan.experiments.graph_trainer.common_utils import build_decoder_config_for_backend
    from torchtitan.experiments.graph_trainer.configs import GraphTrainerCompileConfig, to_graph_trainer_config
    from torchtitan.experiments.graph_trainer.llama3 import model_registry as graph_registry
    from torchtitan.models.llama3 import llama3_configs, model_registry
    from torchtitan.trainer import Trainer

    spec = model_registry("debugmodel")
    spec.model = build_decoder_config_for_backend(llama3_configs["debugmodel"], "sdpa")
    training = TrainingConfig(local_batch_size=batch, seq_len=LENGTH, steps=1000, disable_cuda_graphs=True)
    training.mixed_precision_param = precision
    config = Trainer.Config(
        model_spec=spec,
        loss=CrossEntropyLoss.Config(global_vocab_size=WORDS),
        optimizer=default_adamw(lr=8e-4),
        training=training,
        dump_folder=folder,
        tokenizer=Made(),
        dataloader=Made(Rows(batch)),
    )
    config.checkpoint.enable = config.validator.enable = False
    config.debug.seed = 42
    if trainer == "eager":
        from memplan.frameworks.torchtitan import MemplanAC

        kinds = {"none": None, "full": FullAC.Config(), "selective": SelectiveAC.Config()}
        config.activation_checkpoint = MemplanAC.Config(budget=budget) if memory == "memplan" else kinds[memory]
        return config
    from memplan.frameworks.torchtitan_graph import MemplanCompile

    config = to_graph_trainer_config(config, graph_registry)
    if memory == "memplan":
        config.compile = MemplanCompile(enable=True, memplan_budget=budget)
    elif memory == "none":
        config.compile = GraphTrainerCompileConfig(enable=True, enable_passes=False)
    else:
        config.compile = GraphTrainerCompileConfig(enable=True, memory_policy=memory)
    return config


class Training:
    """A trainer, and what its steps take."""

    def __init__(self, config: Any) -> None:
        self.trainer = config.build()
        self.batches = self.trainer.batch_generator(self.trainer.dataloader)
        self.losses: list[float] = []
        self.seconds: list[float] = []
        self.peak_bytes = 0

    def step(self, is_measured: bool = False) -> None:
        forward_backward, self.trainer.step = self.trainer.forward_backward_step, self.trainer.step + 1

        def run(**given: Any) -> Any:
            made: list[Any] = []
            if is_measured:
                batch = [*given["input_dict"].values(), given["labels"]]
                self.peak_bytes = self.kept_bytes(batch) + peak_of_call(lambda: made.append(forward_backward(**given)))
            else:
                start = time.process_time()
                made.append(forward_backward(**given))
                self.seconds.append(time.process_time() - start)
            self.losses.append(made[0].item())
            return made[0]

        self.trainer.forward_backward_step = run
        try:
            self.trainer.train_step(self.batches)
        finally:
            del self.trainer.forward_backward_step

    def kept_bytes(self, batch: list[torch.Tensor]) -> int:
        """What is there before forward, each storage once."""
        model = self.trainer.model_parts[0]
        state = [v for o in self.trainer.optimizers for s in o.state.values() for v in s.values() if torch.is_tensor(v)]
        tensors = [*model.parameters(), *model.buffers(), *state, *batch]
        plain = [t.to_local() if hasattr(t, "to_local") else t for t in tensors]
        return sum({s.data_ptr(): s.nbytes() for s in (t.untyped_storage() for t in plain)}.values())


def run(asked: list[dict[str, Any]], batch: int, steps: int, precision: str) -> list[dict[str, Any]]:
    """The trainers step in turns, so that what else the machine does is the same to all."""
    from torchtitan.distributed import utils

    started = utils.init_distributed
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        trainings = []
        for a in asked:
            is_first = not torch.distributed.is_initialized()
            with mock.patch.object(utils, "init_distributed", started if is_first else lambda *_, **__: 1):
                config = configuration(a["trainer"], a["memory"], a.get("budget", ""), batch, folder, precision)
                trainings.append(Training(config))
        for k in range(steps):
            for training in trainings:
                training.step(is_measured=k == 1)
        for a, training in zip(asked, trainings):
            seconds = statistics.median(training.seconds[1:] or training.seconds)
            answers.append(a | {"losses": training.losses, "peak_bytes": training.peak_bytes, "seconds": seconds})
        torch.distributed.destroy_process_group()
    return answers


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("asked", type=json.loads)
    options.add_argument("--batch", type=int, default=2)
    options.add_argument("--steps", type=int, default=3)
    options.add_argument("--precision", default="bfloat16")
    given = options.parse_args()
    with socket.socket() as free:
        free.bind(("localhost", 0))
        os.environ.update(ENVIRONMENT, MASTER_PORT=str(free.getsockname()[1]))
    on_cpu()
    from torchtitan.tools.logging import init_logger

    init_logger()
    json.dump(run(given.asked, given.batch, given.steps, given.precision), sys.stdout)


if __name__ == "__main__":
    main()
