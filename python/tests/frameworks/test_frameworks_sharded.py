"""Frameworks that shard a model by FSDP2, on two processes of one machine: a training, and one that goes on from what was saved
in its midst, have the losses of the same without memplan, in less memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from habits import frameworks
from networks import Transformer
from sharded_models import process

import memplan

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or not hasattr(getattr(torch.distributed, "fsdp", None), "fully_shard"),
    reason="this PyTorch has no public fully_shard",
)
N_STEPS, SAVED_AT = 4, 2


class Texts(frameworks.Rows):
    """The words to come are the labels."""

    def __getitem__(self, k: int) -> dict[str, Any]:
        row = super().__getitem__(k)
        return {**row, "labels": row["input_ids"]}


def as_a_rank(rank: int) -> None:
    """What a launcher would tell."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", NODE_RANK="0", MASTER_ADDR="127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")


def take_cpus_for_devices() -> None:
    """Accelerate shards on devices only; what it does there is PyTorch's own, and runs on CPUs."""
    from accelerate.state import DistributedType, PartialState

    begin = PartialState.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        if self._shared_state.get("distributed_type") == DistributedType.MULTI_CPU:
            self._shared_state["distributed_type"] = DistributedType.MULTI_GPU

    PartialState.__init__ = init


def of_trainer(rank: int) -> None:
    """Hugging Face's Trainer, whose model accelerate shards, and our callback."""
    from transformers import Trainer, TrainingArguments

    as_a_rank(rank)
    os.environ.update(ACCELERATE_USE_FSDP="true", FSDP_VERSION="2")
    take_cpus_for_devices()

    def trained(name: str, callbacks: list[Any], resume: str | None = None) -> tuple[list[Any], Any]:
        torch.manual_seed(0)
        made = Trainer(
            model=frameworks.small_gpt2(),
            args=TrainingArguments(
                output_dir=name,
                use_cpu=True,
                fsdp="full_shard auto_wrap",
                fsdp_config={"fsdp_version": 2, "transformer_layer_cls_to_wrap": ["GPT2Block"]},
                per_device_train_batch_size=4,
                max_steps=N_STEPS,
                save_steps=SAVED_AT,
                logging_steps=1,
                report_to=[],
                disable_tqdm=True,
            ),
            train_dataset=Texts(64),
            callbacks=callbacks,
        )
        made.train(resume_from_checkpoint=resume)
        return [h["loss"] for h in made.state.log_history if "loss" in h], made.model

    folder = os.path.dirname(os.environ["MEMPLAN_CACHE"])
    eager, _ = trained(f"{folder}/eager", [])
    callback = frameworks.callback("min+50%")
    ours, model = trained(f"{folder}/ours", [callback])
    assert len(eager) == N_STEPS and ours == eager, (ours, eager)
    assert isinstance(model, torch.distributed.fsdp.FSDPModule)
    graph = callback.report.graph
    assert graph.collectives.seconds and callback.report.planned_bytes <= callback.report.budget_bytes < graph.keep_all_bytes
    again, _ = trained(f"{folder}/again", [frameworks.callback("min+50%")], f"{folder}/ours/checkpoint-{SAVED_AT}")
    assert again[-SAVED_AT:] == eager[-SAVED_AT:], (again, eager)


def of_lightning(rank: int) -> None:
    """Lightning's ModelParallelStrategy, in whose `configure_model` the model is sharded and compiled."""
    import lightning.pytorch as pl
    from lightning.fabric.plugins.environments import LightningEnvironment
    from lightning.pytorch.callbacks import ModelCheckpoint
    from lightning.pytorch.strategies import ModelParallelStrategy
    from torch.distributed.fsdp import fully_shard

    class Module(pl.LightningModule):
        def __init__(self, budget: str | None) -> None:
            super().__init__()
            self.budget, self.model, self.losses = budget, None, list[float]()

        def configure_model(self) -> None:
            if self.model is not None:
                return
            torch.manual_seed(0)
            self.model = Transformer(0.0, 32, 3)
            for layer in (*self.model.layers, self.model):
                fully_shard(layer, mesh=self.device_mesh["data_parallel"])
            if self.budget is not None:
                memplan.compile(self.model, self.budget)

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            loss = self.model(*batch)
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    as_a_rank(rank)
    words = torch.randint(50, (2, 8 * N_STEPS, 32), generator=torch.Generator().manual_seed(rank))
    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*words), batch_size=8)

    def trained(name: str, budget: str | None, resume: str | None = None) -> Module:
        made = Module(budget)
        saves = ModelCheckpoint(name, filename="{step}", every_n_train_steps=SAVED_AT, save_top_k=-1)
        pl.Trainer(
            accelerator="cpu",
            devices=2,
            strategy=ModelParallelStrategy(data_parallel_size=2, tensor_parallel_size=1),
            max_steps=N_STEPS,
            callbacks=[saves],
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            plugins=[LightningEnvironment()],
        ).fit(made, batches, ckpt_path=resume)
        return made

    folder = os.path.dirname(os.environ["MEMPLAN_CACHE"])
    eager, ours = trained(f"{folder}/eager", None), trained(f"{folder}/ours", "min+40%")
    assert len(eager.losses) == N_STEPS and ours.losses == eager.losses, (ours.losses, eager.losses)
    report = ours.model.memplan
    assert report.graph.collectives.seconds and report.planned_bytes <= report.budget_bytes < report.graph.keep_all_bytes
    again = trained(f"{folder}/again", "min+40%", f"{folder}/ours/step={SAVED_AT}.ckpt")
    assert again.losses == eager.losses[-SAVED_AT:], (again.losses, eager.losses)


@pytest.mark.parametrize(
    ("what", "needs"), [(of_trainer, ("transformers.trainer", "accelerate")), (of_lightning, ("lightning",))]
)
def test_two_ranks(what: Callable[[int], None], needs: tuple[str, ...], tmp_path: Path) -> None:
    for name in needs:
        pytest.importorskip(name, exc_type=ImportError)
    torch.multiprocessing.spawn(process, (str(tmp_path), 2, what), 2)
