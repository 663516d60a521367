"""Loops that belong to a framework: what is counted, what is said, saved and gone on with. Bits: habits/frameworks.py."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from against_eager import peak_of_call
from habits import frameworks
from habits.trial import Net, pair

import memplan
from memplan.compiled_modules import place_of
from memplan.frameworks.loop_memory import LOG, Counted
from memplan.memory.optimizer_state import optimizer_bytes

LOGGED_BYTES = 64  # of the numbers that Lightning keeps of a step: losses, and what is logged


def optimizer_state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """All tensors that are there after a step, counters included."""
    values = [v for state in optimizer.state.values() for v in state.values() if isinstance(v, torch.Tensor)]
    return sum(v.numel() * v.element_size() for v in values)


def gradient_bytes(model: torch.nn.Module) -> int:
    return sum(p.numel() * p.element_size() for p in model.parameters())


def same_state(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    return all(torch.equal(v, b.state_dict()[name]) for name, v in a.state_dict().items())


def peaks_of_steps(trainer: Any) -> list[int]:
    """The peaks of a Trainer's steps, one after the other as it makes them."""
    peaks: list[int] = []
    step = trainer.training_step

    def measured(*args: Any, **kwargs: Any) -> Any:
        results: list[Any] = []
        peaks.append(peak_of_call(lambda: results.append(step(*args, **kwargs))))
        return results[0]

    trainer.training_step = measured
    return peaks


class Lines(logging.Handler):
    """What memplan's logger is given."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def log() -> Any:
    handler, level = Lines(), LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    yield handler.lines
    LOG.removeHandler(handler)
    LOG.setLevel(level)


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def test_what_the_callback_counts_is_not_given_twice() -> None:
    for name in ("optimizer", "accumulate"):
        with pytest.raises(memplan.MemplanError, match=f"the callback counts {name}= itself"):
            Counted("1GiB", {name: True})


def test_the_optimizer_within_a_wrapper_is_counted() -> None:
    model = Net()
    plain = torch.optim.AdamW(model.parameters())
    accelerate = pytest.importorskip("accelerate")
    accelerate.state.AcceleratorState._reset_state(True)
    wrapped = accelerate.Accelerator(cpu=True).prepare(plain)
    before = optimizer_bytes(wrapped)
    model(*pair()).backward()
    wrapped.step()
    assert before == optimizer_state_bytes(plain) > 0
    assert optimizer_bytes(wrapped) == optimizer_bytes(plain)


class TestHuggingFace:
    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        pytest.importorskip("transformers.trainer", exc_type=ImportError)
        pytest.importorskip("accelerate")

    @pytest.mark.parametrize("accumulate", [1, 2])
    def test_a_step_takes_what_was_planned_with_the_optimizers_state(self, accumulate: int, tmp_path: Path) -> None:
        class Losses(Net):
            """Nothing but the loss comes out: what else a Trainer is given it lets go of before backward."""

            def forward(self, x: torch.Tensor, labels: torch.Tensor) -> Any:  # type: ignore[override]
                return {"loss": super().forward(x, labels)}

        from transformers import TrainerCallback

        model, ours = Losses(), frameworks.callback()
        rows = [dict(zip(("x", "labels"), (x, y))) for x, y in zip(*pair(1, 512))]
        made = frameworks.trainer(
            model, str(tmp_path), [ours], rows, per_device_train_batch_size=128, gradient_accumulation_steps=accumulate
        )
        made.data_collator = torch.utils.data.default_collate
        peaks = peaks_of_steps(made)

        class Check(TrainerCallback):
            def on_train_end(self, *_: Any, optimizer: Any, **__: Any) -> None:
                kept = optimizer_state_bytes(optimizer.optimizer) + gradient_bytes(model) * (accumulate > 1)
                tensors = [*model.parameters(), *model.buffers(), rows[0]["x"], rows[0]["labels"]]
                once = sum(t.numel() * t.element_size() for t in tensors[:-2])
                batch = sum(t.numel() * t.element_size() for t in tensors[-2:]) * 128
                assert ours.report.graph.static_bytes == kept + once + batch

        made.add_callback(Check())
        made.train()
        report = ours.report
        assert len(report.graphs) == 1
        got = report.static_bytes + max(peaks[1:])
        assert 0.99 * report.planned_bytes <= got <= report.planned_bytes

    def test_logits_that_the_trainer_lets_go_of_are_not_in_what_was_planned(self, tmp_path: Path) -> None:
        torch.manual_seed(0)
        ours, rows = frameworks.callback("70%"), frameworks.Rows(32)
        made = frameworks.trainer(frameworks.small_gpt2(), str(tmp_path), [ours], rows, per_device_train_batch_size=8)
        peaks = peaks_of_steps(made)
        made.train()
        report = ours.report
        got = report.static_bytes + max(peaks[1:])
        assert abs(report.planned_bytes - got) <= 0.005 * got
        assert report.graph.most_bytes - report.planned_bytes >= 8 * 12 * frameworks.WORDS * 4  # the logits

    def test_each_bucket_has_one_plan_whatever_the_lengths(self, tmp_path: Path) -> None:
        lengths = (3, 5, 6, 7, 8, 9, 10, 11, 12, 4)

        def to_eight_or_twelve(rows: Any) -> Any:
            """What a user without us would write."""
            batch = frameworks.padded(rows)
            more = (8 if batch["input_ids"].shape[1] <= 8 else 12) - batch["input_ids"].shape[1]
            values = {"input_ids": 0, "attention_mask": 0, "labels": -100}
            return {name: torch.nn.functional.pad(t, (0, more), value=values[name]) for name, t in batch.items()}

        sides = []
        for buckets in ((8, 12), 4, None):
            torch.manual_seed(0)
            rows = frameworks.Rows(20, lengths)
            ours = frameworks.callback("4MiB", buckets=buckets) if buckets is not None else None
            callbacks = [ours] if ours is not None else []
            arguments = {"per_device_train_batch_size": 1, "per_device_eval_batch_size": 1}
            made = frameworks.trainer(frameworks.small_gpt2(), str(tmp_path), callbacks, rows, **arguments)
            if ours is None:
                made.data_collator = to_eight_or_twelve
            made.train()
            losses = [entry["loss"] for entry in made.state.log_history if "loss" in entry]
            sides.append((made.model, losses))
            if ours is not None:
                assert len(ours.report.graphs) == (2 if buckets == (8, 12) else 3)
        assert same_state(sides[0][0], sides[2][0]) and sides[0][1] == sides[2][1]

    def test_padding_that_would_be_read_is_refused(self, tmp_path: Path) -> None:
        made = frameworks.trainer(frameworks.small_gpt2(), str(tmp_path), [frameworks.callback("4MiB", buckets=8)])
        made.data_collator = lambda rows: {k: v for k, v in frameworks.padded(rows).items() if k != "attention_mask"}
        with pytest.raises(memplan.MemplanError, match="without a mask"):
            made.train()

    def test_adapters_beside_frozen_weights_take_what_was_planned(self, tmp_path: Path) -> None:
        peft = pytest.importorskip("peft")
        config = peft.LoraConfig(r=4, lora_dropout=0.1, target_modules=["c_attn"], fan_in_fan_out=True)
        model, ours = peft.get_peft_model(frameworks.small_gpt2(), config), frameworks.callback("70%")
        assert not all(p.requires_grad for p in model.parameters())
        rows = frameworks.Rows(32)
        made = frameworks.trainer(model, str(tmp_path), [ours], rows, per_device_train_batch_size=8)
        peaks = peaks_of_steps(made)
        made.train()
        report = ours.report
        assert abs(report.planned_bytes - (got := report.static_bytes + max(peaks[1:]))) <= 0.005 * got
        assert report.planned_bytes < report.keep_all_bytes

    def test_saved_gone_on_with_and_loaded(self, tmp_path: Path, log: list[str]) -> None:
        from transformers import AutoModelForCausalLM

        arguments: dict[str, Any] = {"save_strategy": "steps", "save_steps": 2}
        ours = frameworks.callback()
        whole = frameworks.trainer(frameworks.small_gpt2(), str(tmp_path), [ours], **arguments)
        whole.train()
        assert place_of(whole.model) is None and "memplan" not in vars(whole.model)
        assert len(log) == len(ours.report.graphs) == 2 and all("at its peak, within" in line for line in log)
        again = frameworks.trainer(frameworks.small_gpt2(), str(tmp_path), [frameworks.callback()], **arguments)
        again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
        assert same_state(whole.model, again.model)
        eager = frameworks.trainer(frameworks.small_gpt2(), str(tmp_path), [], **arguments)
        eager.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
        assert same_state(eager.model, again.model)
        again.save_model(str(tmp_path / "saved"))
        loaded = AutoModelForCausalLM.from_pretrained(str(tmp_path / "saved"))
        assert type(loaded) is type(again.model) and same_state(again.model, loaded)

    def test_train_is_called_twice(self, tmp_path: Path) -> None:
        sides = []
        for callbacks in ([frameworks.callback()], []):
            torch.manual_seed(0)
            made = frameworks.trainer(frameworks.small_gpt2(), str(tmp_path), callbacks, bf16=True)
            made.train()
            made.train()
            sides.append(made.model)
        assert same_state(*sides)

    def test_the_name_of_a_backend_is_no_way_in(self, tmp_path: Path) -> None:
        """accelerate has a list of its own; what to write instead is in docs/reference/python.md."""
        with pytest.raises(ValueError, match="not a valid DynamoBackend"):
            frameworks.trainer(frameworks.small_gpt2(), str(tmp_path), [], torch_compile_backend="memplan")

    def test_compiled_by_name_in_place(self, tmp_path: Path) -> None:
        sides = []
        for ours in (True, False):
            torch.manual_seed(0)
            model, report = frameworks.small_gpt2(), memplan.Report()
            if ours:
                model.compile(backend="memplan", options={"budget": "4MiB", "report": report})
            frameworks.trainer(model, str(tmp_path), []).train()
            assert bool(report.graphs) == ours
            sides.append(model)
        assert same_state(*sides)

    def test_deepspeed_is_refused(self) -> None:
        from memplan.frameworks.hugging_face import refuse

        with pytest.raises(memplan.MemplanError, match="DeepSpeed"):
            refuse(SimpleNamespace(torch_compile=False, deepspeed="zero3.json"))


class TestLightning:
    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        pytest.importorskip("lightning")

    def test_a_step_stays_within_what_was_planned(self, tmp_path: Path) -> None:
        module, ours = frameworks.lightning_module(), frameworks.lightning_callback()
        peaks: list[int] = []

        def optimizer_step(epoch: int, batch_idx: int, optimizer: Any, optimizer_closure: Any) -> None:
            results: list[Any] = []
            peaks.append(peak_of_call(lambda: results.append(optimizer_closure())))
            optimizer.step(closure=lambda: results[0])

        module.optimizer_step = optimizer_step
        frameworks.lightning_trainer(str(tmp_path), [ours]).fit(module, frameworks.batches(256), frameworks.batches(70))
        report = ours.report
        assert len(report.graphs) == 1 and len(peaks) == 8
        got = report.static_bytes + max(peaks[1:])
        assert report.planned_bytes - gradient_bytes(module) <= got  # some of which has gone by then
        assert got <= report.planned_bytes + LOGGED_BYTES

    def test_a_checkpoint_is_gone_on_with(self, tmp_path: Path, log: list[str]) -> None:
        def fit(callbacks: list[Any], epochs: int, checkpoint: Any = None) -> Any:
            torch.manual_seed(0)
            module = frameworks.lightning_module()
            made = frameworks.lightning_trainer(str(tmp_path), callbacks, max_epochs=epochs)
            made.fit(module, frameworks.batches(152), frameworks.batches(70), ckpt_path=checkpoint)
            return module, made

        ours = frameworks.lightning_callback()
        module, made = fit([ours], 1)
        assert "training_step" not in vars(module) and "log" not in vars(module)
        assert len(log) == len(ours.report.graphs) == 2
        path = str(tmp_path / "saved.ckpt")
        made.save_checkpoint(path)
        sides = [fit([], 2, path)[0], fit([frameworks.lightning_callback()], 2, path)[0]]
        assert same_state(*sides)
        assert sides[0].logged == sides[1].logged
        assert not same_state(module, sides[0])

    def test_a_copy_in_the_midst_of_a_fit_has_the_plain_step(self, tmp_path: Path) -> None:
        from lightning.pytorch import Callback

        copies: list[Any] = []

        class Copying(Callback):
            def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
                assert "training_step" in vars(pl_module)
                copies.append(copy.deepcopy(pl_module))

        module = frameworks.lightning_module()
        made = frameworks.lightning_trainer(str(tmp_path), [frameworks.lightning_callback(), Copying()], max_epochs=1)
        made.fit(module, frameworks.batches(64), frameworks.batches(64))
        assert copies[0].training_step.__self__ is copies[0]

    def test_an_exception_leaves_the_module_as_it_was(self, tmp_path: Path) -> None:
        module = frameworks.lightning_module()

        def backward(*_: Any) -> None:
            raise RuntimeError("the data ran out")

        module.on_after_backward = backward
        made = frameworks.lightning_trainer(str(tmp_path), [frameworks.lightning_callback()])
        with pytest.raises(RuntimeError, match="ran out"):
            made.fit(module, frameworks.batches(64), frameworks.batches(64))
        assert "training_step" not in vars(module)

    def test_what_others_compile_or_shard_is_refused(self) -> None:
        from memplan.frameworks.lightning import refuse

        class DeepSpeedStrategy:
            model = None

        module = frameworks.lightning_module()
        with pytest.raises(memplan.MemplanError, match="DeepSpeed"):
            refuse(SimpleNamespace(strategy=DeepSpeedStrategy()), module)
        sharded = type("FSDPModule", (torch.nn.Linear,), {})(2, 2)
        with pytest.raises(memplan.MemplanError, match="sharded by FSDP"):
            refuse(SimpleNamespace(strategy=SimpleNamespace(model=sharded)), module)
        module._compiler_ctx = {}
        with pytest.raises(memplan.MemplanError, match="pass the original module"):
            refuse(SimpleNamespace(strategy=SimpleNamespace(model=module)), module)
