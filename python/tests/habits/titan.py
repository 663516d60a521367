"""torchtitan's two trainers on a CPU: the debug Llama, on rows that are made up. Run as a program, in processes of its own, one
for each rank: it prints what its trainers' steps came to on each of them as JSON.

    python tests/habits/titan.py '[{"trainer": "eager", "memory": "none"}, {"trainer": "eager", "memory": "full"}]' --batch 4
    python tests/habits/titan.py '[{"trainer": "graph", "memory": "memplan", "budget": "80MiB"}]' --ranks 2 --saved-at 2
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from against_eager import peak_of_call

WORDS, LENGTH = 2048, 256
LAYERS = 6  # of the debug Llama
PARALLEL = ("data_parallel_replicate_degree", "tensor_parallel_degree", "spmd_backend", "fsdp_reshard_after_forward")
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

    def __init__(self, make: Any = None) -> None:
        self.make = make

    def build(self, **given: Any) -> Any:
        return self.make(**given)

    def to_dict(self) -> dict[str, Any]:
        return {}


class Rows:
    """Batches without an end, the same each time for the same part of the ranks' data."""

    def __init__(self, batch: int, part: int) -> None:
        self.batch, self.part, self.n_given = batch, part, 0

    def __iter__(self) -> Any:
        generator = torch.Generator().manual_seed(self.part)
        positions = torch.arange(LENGTH).repeat(self.batch, 1)
        for k in itertools.count():
            rows = torch.randint(WORDS, (self.batch, LENGTH + 1), generator=generator)
            if k >= self.n_given:
                self.n_given += 1
                yield {"input": rows[:, :-1], "positions": positions}, rows[:, 1:]

    def state_dict(self) -> dict[str, Any]:
        return {"n_given": self.n_given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.n_given = state["n_given"]


def configuration(asked: dict[str, Any], batch: int, folder: str, precision: str) -> Any:
    from torchtitan.components.checkpointer import CheckpointManager
    from torchtitan.components.loss import CrossEntropyLoss
    from torchtitan.components.optimizer import default_adamw
    from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
    from torchtitan.distributed.activation_checkpoint import FullAC, MemoryBudgetAC, SelectiveAC
    from torchtitan.experiments.graph_trainer.common_utils import build_decoder_config_for_backend
    from torchtitan.experiments.graph_trainer.configs import GraphTrainerCompileConfig, to_graph_trainer_config
    from torchtitan.experiments.graph_trainer.llama3 import model_registry as graph_registry
    from torchtitan.models.llama3 import llama3_configs, model_registry
    from torchtitan.trainer import Trainer

    memory, budget = asked["memory"], asked.get("budget", "")
    spec = model_registry("debugmodel")
    spec.model = build_decoder_config_for_backend(llama3_configs["debugmodel"], "sdpa")
    spec.model.layers = spec.model.layers[: asked.get("layers", LAYERS)]
    training = TrainingConfig(local_batch_size=batch, seq_len=LENGTH, steps=1000, disable_cuda_graphs=True)
    training.mixed_precision_param = precision
    config = Trainer.Config(
        model_spec=spec,
        loss=CrossEntropyLoss.Config(global_vocab_size=WORDS),
        optimizer=default_adamw(lr=8e-4),
        training=training,
        parallelism=ParallelismConfig(**{name: asked[name] for name in PARALLEL if name in asked}),
        checkpoint=CheckpointManager.Config(enable=True, interval=1000, last_save_model_only=False),
        dump_folder=folder,
        tokenizer=Made(lambda **_: None),
        dataloader=Made(lambda **given: Rows(batch, given.get("dp_rank", 0))),
    )
    config.validator.enable = False
    config.debug.seed = 42
    if asked["trainer"] == "eager":
        from memplan.frameworks.torchtitan import MemplanAC

        kinds = {
            "none": None,
            "full": FullAC.Config(),
            "selective": SelectiveAC.Config(),
            "memplan": MemplanAC.Config(budget=budget),
        }
        if memory.startswith("knob "):  # PyTorch's, of what a compiler keeps
            config.activation_checkpoint = MemoryBudgetAC.Config(memory_budget=float(memory.split()[1]))
            config.compile = CompileConfig(enable=True, components=["model"], backend="aot_eager")
        else:
            config.activation_checkpoint = kinds[memory]
        return config
    from memplan.frameworks.torchtitan_graph import MemplanCompile

    config = to_graph_trainer_config(config, graph_registry)
    if memory == "none":
        config.compile = GraphTrainerCompileConfig(enable=True, enable_passes=False)
    else:  # collectives of all policies are waited for alike
        config.compile = MemplanCompile(enable=True, memory_policy=memory, memplan_budget=budget)
    return config


def only_sums(model: torch.nn.Module) -> None:
    """torchtitan has FSDP2 multiply what it sums by a factor, as part of the sum, which is 1 and nothing that gloo can."""
    for module in model.modules():
        if isinstance(module, torch.distributed.fsdp.FSDPModule):
            module.set_force_sum_reduction_for_comms(True)


class Training:
    """A trainer, and what its steps take."""

    def __init__(self, config: Any) -> None:
        self.trainer = config.build()
        only_sums(self.trainer.model_parts[0])
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


def run(
    asked: list[dict[str, Any]], batch: int, steps: int, precision: str, saved_at: int, folder: str
) -> list[dict[str, Any]]:
    """The trainers step in turns, so that what else the machine does is the same to all. `saved_at`: behind this step those
    with our policy are saved, and others go on from there."""
    from torchtitan.trainer import Trainer

    start, known = Trainer.init_distributed, list[Any]()

    def once(trainer: Any) -> Any:
        """The ranks' meshes are those of all trainers."""
        known.extend([] if known else [start(trainer)])
        return known[0]

    def made(k: int) -> Training:
        with mock.patch.object(Trainer, "init_distributed", once):
            return Training(configuration(asked[k], batch, f"{folder}/{k}", precision))

    trainings = [made(k) for k in range(len(asked))]
    for step in range(1, steps + 1):
        for a, training in zip(asked, trainings):
            training.step(is_measured=step == 2)
            if step == saved_at and a["memory"] == "memplan":
                training.trainer.checkpointer.save(step, last_step=True)
    answers = []
    for k, (a, training) in enumerate(zip(asked, trainings)):
        seconds = statistics.median(training.seconds[1:] or training.seconds)
        answer = a | {"losses": training.losses, "peak_bytes": training.peak_bytes, "seconds": seconds}
        if saved_at and a["memory"] == "memplan":
            resumed = made(k)
            assert resumed.trainer.checkpointer.load(step=saved_at)
            for _ in range(saved_at, steps):
                resumed.step()
            answer["resumed"] = resumed.losses
        if a["trainer"] == "eager" and a["memory"] == "memplan":
            answer["planned_bytes"] = training.trainer.model_parts[0].memplan.planned_bytes
        answers.append(answer)
    of_ranks: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(of_ranks, answers)
    torch.distributed.destroy_process_group()
    return of_ranks


def begin_ranks(n: int, folder: str) -> list[Any]:
    """This process is the first rank from now on, and the others are this program again. The first has all answers."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        os.environ.update(WORLD_SIZE=str(n), MASTER_ADDR="localhost", MASTER_PORT=str(free.getsockname()[1]))
    os.environ.update(RANK="0", LOCAL_RANK="0")
    command = [sys.executable, *sys.argv, "--folder", folder]
    places = [os.environ | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(1, n)]
    return [subprocess.Popen(command, env=place, stdout=subprocess.DEVNULL) for place in places]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("asked", type=json.loads)
    options.add_argument("--batch", type=int, default=2)
    options.add_argument("--steps", type=int, default=3)
    options.add_argument("--precision", default="bfloat16")
    options.add_argument("--ranks", type=int, default=1)
    options.add_argument("--saved-at", type=int, default=0)
    options.add_argument("--folder", default="")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as own:
        others = [] if given.folder else begin_ranks(given.ranks, own)
        folder = given.folder or own
        on_cpu()
        from torchtitan.tools.logging import init_logger

        init_logger()
        of_ranks = run(given.asked, given.batch, given.steps, given.precision, given.saved_at, folder)
        status = max((abs(rank.wait()) for rank in others), default=0)
    json.dump(of_ranks, sys.stdout)
    sys.exit(status)


if __name__ == "__main__":
    main()
