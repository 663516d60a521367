"""Habits of those whose training loop is a framework's. The frameworks are imported where they are used: who lacks one has the
rows of the others."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from habits.trial import BUDGET, REFUSED, WARNS, WIDTH, Net, Scores, Trial, habit, pair

FRAMEWORKS = "frameworks"
ASKS = "tests whether it is compiled"
HUGGING_FACE, LIGHTNING = ("transformers.trainer", "accelerate"), ("lightning.pytorch",)
WORDS = 61


class Rows(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Texts of one length, or of several."""

    def __init__(self, n_rows: int, lengths: tuple[int, ...] = (12,)) -> None:
        generator = torch.Generator().manual_seed(n_rows)
        self.rows = [torch.randint(3, WORDS, (lengths[k % len(lengths)],), generator=generator) for k in range(n_rows)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, k: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[k]}


def padded(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    ids = [row["input_ids"] for row in rows]

    def pad(tensors: list[torch.Tensor], value: int) -> torch.Tensor:
        return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=value)

    return {"input_ids": pad(ids, 0), "attention_mask": pad([torch.ones_like(i) for i in ids], 0), "labels": pad(ids, -100)}


def small_gpt2() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=WORDS, n_positions=32, n_embd=WIDTH, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2)
    return GPT2LMHeadModel(config)


def trainer(model: nn.Module, folder: str, callbacks: list[Any], rows: Any = None, **arguments: Any) -> Any:
    """Hugging Face's, of texts whose last batch is smaller."""
    from transformers import Trainer, TrainingArguments
    from transformers.trainer_callback import PrinterCallback

    standard: dict[str, Any] = {"per_device_train_batch_size": 4, "num_train_epochs": 1, "learning_rate": 0.01, "seed": 3}
    standard |= {"use_cpu": True, "report_to": [], "disable_tqdm": True, "logging_steps": 1, "save_strategy": "no"}
    made = Trainer(
        model=model,
        args=TrainingArguments(output_dir=folder, **(standard | arguments)),
        train_dataset=rows if rows is not None else Rows(14),
        eval_dataset=Rows(6),
        data_collator=padded,
        callbacks=callbacks,
    )
    made.remove_callback(PrinterCallback)
    return made


def callback(budget: Any = BUDGET, **options: Any) -> Any:
    from memplan.frameworks.hugging_face import MemplanCallback

    return MemplanCallback(budget, **options)


def trained(t: Trial, model: nn.Module, callbacks: list[Any], **arguments: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        made = trainer(model, folder, callbacks, **arguments)
        made.train()
        t.keep("loss in evaluation", made.evaluate()["eval_loss"])
    for entry in made.state.log_history:
        t.keep("log", *(entry[k] for k in ("loss", "grad_norm") if k in entry))
    t.keep_state(model)
    return made


@habit(FRAMEWORKS, "Hugging Face's `Trainer` with our callback: clipping, evaluation, a smaller last batch", needs=HUGGING_FACE)
def of_hugging_face(t: Trial) -> None:
    trained(t, small_gpt2(), [callback()] if t.ours else [], eval_strategy="steps", eval_steps=2)


@habit(FRAMEWORKS, "`Trainer` with our callback: bf16, gradients of several batches", needs=HUGGING_FACE)
def of_hugging_face_in_bf16(t: Trial) -> None:
    trained(t, small_gpt2(), [callback()] if t.ours else [], bf16=True, gradient_accumulation_steps=2)


@habit(FRAMEWORKS, "`Trainer` with our callback: texts of several lengths, padded", needs=HUGGING_FACE)
def of_several_lengths(t: Trial) -> None:
    trained(t, small_gpt2(), [callback("4MiB")] if t.ours else [], rows=Rows(12, (5, 7, 9, 11, 6)))


@habit(FRAMEWORKS, "`Trainer` of a model that was compiled before", needs=HUGGING_FACE)
def compiled_before(t: Trial) -> None:
    trained(t, t.compile(small_gpt2()), [])


def adapted(model: Any) -> Any:
    """With `peft`'s LoRA."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=4, lora_dropout=0.1, target_modules=["c_attn"], fan_in_fan_out=True)
    return get_peft_model(model, config)


@habit(FRAMEWORKS, "`Trainer` of a model with `peft`'s LoRA", needs=(*HUGGING_FACE, "peft"))
def with_adapters(t: Trial) -> None:
    trained(t, adapted(small_gpt2()), [callback()] if t.ours else [])


@habit(FRAMEWORKS, "`Trainer` with `gradient_checkpointing=True` and LoRA", WARNS, ASKS, needs=(*HUGGING_FACE, "peft"))
def with_adapters_and_checkpoints(t: Trial) -> None:
    trained(t, adapted(small_gpt2()), [callback()] if t.ours else [], gradient_checkpointing=True)


def texts() -> Any:
    return padded([Rows(4)[k] for k in range(4)])


def stepped(t: Trial, model: Any) -> None:
    """Two steps of LoRA, and one that is measured."""
    model.train()
    t.compile(model)
    for _ in range(2):
        model.zero_grad()
        loss = model(**texts()).loss
        loss.backward()
        t.keep("loss", loss)
    del loss
    t.keep_state(model)
    inputs = texts()

    def step() -> None:
        model(**inputs).loss.backward()

    t.measure(model, step)


@habit(FRAMEWORKS, "LoRA with `enable_input_require_grads`", needs=(*HUGGING_FACE, "peft"))
def with_inputs_that_require(t: Trial) -> None:
    model = small_gpt2()
    model.enable_input_require_grads()
    stepped(t, adapted(model))


@habit(FRAMEWORKS, "`prepare_model_for_kbit_training`, then LoRA", WARNS, ASKS, needs=(*HUGGING_FACE, "peft"))
def prepared_for_few_bits(t: Trial) -> None:
    from peft import prepare_model_for_kbit_training

    model = small_gpt2()
    model.is_loaded_in_8bit = True  # as a quantized model says
    stepped(t, adapted(prepare_model_for_kbit_training(model)))


@habit(FRAMEWORKS, "`Trainer` that smooths labels", WARNS, "smooths labels outside of the model", needs=HUGGING_FACE)
def smoothed(t: Trial) -> None:
    trained(t, small_gpt2(), [callback()] if t.ours else [], label_smoothing_factor=0.1)


@habit(
    FRAMEWORKS,
    "`torch_compile=True` beside our callback",
    REFUSED,
    "compile the model for another backend",
    needs=HUGGING_FACE,
)
def compiled_by_others(t: Trial) -> None:
    if t.ours:
        trained(t, small_gpt2(), [callback()], torch_compile=True, torch_compile_backend="eager")


@habit(FRAMEWORKS, "`accelerate`: `prepare`, `accumulate`, clipping, the prepared optimizer counted", needs=("accelerate",))
def accelerated(t: Trial) -> None:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(True)  # which is of the process
    accelerator = Accelerator(cpu=True, mixed_precision="bf16", gradient_accumulation_steps=2)
    plain = Net()
    model, optimizer = accelerator.prepare(plain, torch.optim.AdamW(plain.parameters(), lr=0.01))
    t.compile(model, optimizer=optimizer, accumulate=True)
    for k in range(4):
        with accelerator.accumulate(model):
            loss = model(*pair(k))
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                t.keep("norm", accelerator.clip_grad_norm_(model.parameters(), 0.1))
            optimizer.step()
            optimizer.zero_grad()
            t.keep("loss", loss)
    t.keep_state(accelerator.unwrap_model(model))


def lightning_module(metric: Any = None) -> Any:
    """A module that logs in its steps."""
    from lightning.pytorch import LightningModule

    class Logging(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.metric = Scores(layers=2), metric
            self.logged: list[dict[str, Any]] = []

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            x, y = batch
            scores = self.net(x)
            loss = F.mse_loss(scores, y)
            self.log("loss", loss, prog_bar=True)
            self.log_dict({"size": scores.abs().mean(), "one": 1.0})
            if self.metric is not None:
                self.metric(loss)
                self.log("metric", self.metric, on_step=True, on_epoch=False)
            return loss

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.log("validation", F.mse_loss(self.net(batch[0]), batch[1]))

        def on_train_batch_end(self, *_: Any) -> None:
            self.logged.append(dict(self.trainer.callback_metrics))

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=0.01)

    return Logging()


def batches(n_rows: int) -> Any:
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*pair(n_rows, n_rows)), batch_size=64)


def lightning_trainer(folder: str, callbacks: list[Any], **arguments: Any) -> Any:
    from lightning.pytorch import Trainer

    standard: dict[str, Any] = {"max_epochs": 2, "accelerator": "cpu", "logger": False, "log_every_n_steps": 1}
    standard |= {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    return Trainer(default_root_dir=folder, callbacks=callbacks, **(standard | arguments))


def lightning_callback(budget: Any = BUDGET, **options: Any) -> Any:
    from memplan.frameworks.lightning import MemplanCallback

    return MemplanCallback(budget, **options)


def fitted(t: Trial, module: Any, options: dict[str, Any] | None = None, **arguments: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        callbacks = [lightning_callback(**(options or {}))] if t.ours else []
        lightning_trainer(folder, callbacks, **arguments).fit(module, batches(152), batches(70))
    for logged in module.logged:
        for name, value in logged.items():
            t.keep(name, value)
    t.keep_state(module)


@habit(FRAMEWORKS, "Lightning's `Trainer` with our callback: `self.log`, validation, a smaller last batch", needs=LIGHTNING)
def of_lightning(t: Trial) -> None:
    fitted(t, lightning_module())


@habit(FRAMEWORKS, "Lightning with our callback: bf16, gradients of several batches, clipping", needs=LIGHTNING)
def of_lightning_in_bf16(t: Trial) -> None:
    fitted(t, lightning_module(), precision="bf16-mixed", accumulate_grad_batches=2, gradient_clip_val=0.1)


@habit(FRAMEWORKS, "Lightning, a metric of `torchmetrics` called in the step", WARNS, "PyTorch cannot capture", needs=LIGHTNING)
def metric_inside(t: Trial) -> None:
    from torchmetrics import MeanMetric

    fitted(t, lightning_module(MeanMetric()))


@habit(FRAMEWORKS, "Lightning, a metric of `torchmetrics`, `fullgraph=False`", needs=LIGHTNING)
def metric_between_graphs(t: Trial) -> None:
    from torchmetrics import MeanMetric

    fitted(t, lightning_module(MeanMetric()), {"fullgraph": False})


@habit(FRAMEWORKS, "Lightning, `automatic_optimization=False`", REFUSED, "memplan.compile on each network", needs=LIGHTNING)
def manual(t: Trial) -> None:
    module = lightning_module()
    module.automatic_optimization = False
    if t.ours:
        fitted(t, module)
