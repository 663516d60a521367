"""The memory of fine-tuning with LitGPT against LitGPT's published tables.

    PYTHONPATH=python/src python python/bench/bench_litgpt.py ROWS.csv LITGPT [--cache CACHE.json] [--check]

LITGPT is a git checkout of github.com/Lightning-AI/litgpt with its history. Rows `litgpt-rt` and `litgpt-lora` come from tables
of October 2023 and start with the longest example of Alpaca. The tables name commit 8641822, but the rows of Llama match the
normalization in fp32 of commit 6178c7c. So this script runs these rows with the model of the last commit before the tables.
Rows `litgpt-hub` have configuration files in config_hub. This script runs each of these rows with the model of the commit that
published the row. Rows that ran out of memory run with the model of the checkout. Two successive batches have the largest
length. All figures are max_memory_allocated of the whole job, in units of 10^9 bytes.

Files named full.yaml: if the configuration accumulates gradients, a step has two batches here. The gradients of all weights
then exist while the second batch runs. At three of four commits the command `litgpt finetune` is an alias of
`litgpt finetune_lora`. So these three rows are LoRA with the command's default options. AdamW for all weights would need 19 to
42 GB, and the rows have 9 to 17 GB. We found this cause after a look at the rows.

Rows with 4-bit weights need bitsandbytes and lightning. Both tables were measured with bitsandbytes 0.41 and 0.42. Their
products keep the operand until the next loss replaces the last loss (class `Product`). So a step needs the operands of two
batches. We found three facts after a look at the rows: these operands, the one long batch of the tables of 2023, and the
commit of these tables. Rows that ran out of memory count as right if the estimate does not fit the card.

`--check`: exit with 1 if the median error of a part is above 5 %.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from published_rows import Cache, comparison, error_table, rows_of
from torch import nn
from torch.nn import functional as F

import memplan

TABLE = "0ecf3ce"  # the last commit before the table of October 2023
CHUNK = 128  # rows of the head, and of the loss, that are computed at once
ALIAS = '"finetune": finetune_lora_fn'
HUB = "config_hub/finetune/README.md"
STEPS = 2  # steps with the largest length, in jobs with configuration files
TARGET = 0.05
CARDS = {"A100-40GB": ("a100", "39.39GiB"), "A10G-24GB": ("a10", "22.06GiB")}
NAMES = {
    "phi-1.5 1.3 B": "phi-1_5",
    "StableLM Alpha 3 B": "stablelm-base-alpha-3b",
    "Llama 2 7 B": "Llama-2-7b-hf",
    "Llama 2 13 B": "Llama-2-13b-hf",
    "Falcon 40 B": "falcon-40b",
}
LEAST_PAGED = 100_000  # elements of the smallest optimizer state that bitsandbytes stores in paged memory
LORA = re.compile(r"^lora_(\w+): *(\S+)", re.MULTILINE)
TABLE_LORA = {"r": 8, "alpha": 16, "dropout": 0.05, "query": True, "value": True}
WHERE = ("query", "key", "value", "projection", "mlp", "head")


@dataclass(frozen=True)
class Job:
    """A fine-tuning.

    `method`: "lora", "full", "adapter" or "adapter_v2". `lora`: the options of LoRA. `bits`: "", "nf4", or "nf4-dq".
    `is_mixed`: weights are in fp32, and forward runs under autocast.
    """

    id: str
    network: str
    method: str
    lora: dict[str, Any]
    batch: int
    tokens: int
    gpu: str
    measured_bytes: float | None  # None: out of memory
    bits: str = ""
    is_mixed: bool = False
    accumulates: bool = False  # gradients of several batches
    file: str = ""  # configuration

    @property
    def is_of_table(self) -> bool:
        return not self.id.startswith("litgpt-hub-")

    @property
    def part(self) -> str:
        table = "table of 2023" if self.is_of_table else "configuration files"
        kind = ", 4-bit weights" if self.bits else ", full.yaml" if self.id.endswith("-full") else ""
        return table + kind


def jobs(path: str, checkout: Path) -> list[Job]:
    found, files = [], list(checkout.glob("config_hub/finetune/*/*.yaml"))
    for row in rows_of(path, "litgpt"):
        is_hub = row["id"].startswith("litgpt-hub-")
        method, lora, network = re.findall(r"\w+", row["note"])[0], TABLE_LORA, NAMES.get(row["model"], "")
        bits, is_mixed, accumulates, file = row["dtype"].partition("bnb.")[2], row["dtype"] == "bf16-mixed", False, ""
        if is_hub:
            named = re.search(r"config file (\S+)", row["note"])
            assert named is not None
            file = named[1].removeprefix("config_hub/finetune/")
            wanted = named[1].lower().replace("/gemma2b/", "/gemma2-2b/")
            text = next(p for p in files if str(p.relative_to(checkout)).lower() == wanted).read_text()
            numbers = {name: json.loads(value) for name, value in LORA.findall(text)}
            lora, network = numbers, re.findall(r"^checkpoint_dir: *(\S+)", text, re.MULTILINE)[0].rpartition("/")[2]
            whole, part = (
                int(re.findall(rf"^ *{name}_batch_size: *(\d+)", text, re.MULTILINE)[0]) for name in ("global", "micro")
            )
            accumulates = method == "full" and whole > part
            method, bits = method.removeprefix("q"), "".join(re.findall(r"^quantize: *bnb\.(\S+)", text, re.MULTILINE))
        measured = None if row["quantity"] == "OOM" else float(row["value"]) * 1e9
        size = int(row["batch"]), int(row["seq"])
        found.append(Job(row["id"], network, method, lora, *size, row["gpu"], measured, bits, is_mixed, accumulates, file))
    return found


def chunked_loss(logits: list[torch.Tensor] | torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Compute the loss in chunks. `logits`: chunks of tokens, or all of them."""
    if isinstance(logits, list):
        parts = list(
            zip((part.flatten(0, 1) for part in logits), (t.flatten() for t in targets.split(CHUNK, dim=1)), strict=True)
        )
    else:
        parts = list(zip(logits.flatten(0, 1).split(CHUNK), targets.flatten().split(CHUNK), strict=True))
    return torch.cat([F.cross_entropy(part, target, reduction="none") for part, target in parts]).mean()


class Product(torch.autograd.Function):
    """The product with 4-bit weights of bitsandbytes 0.42: it saves its operand, and backward dequantizes again."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, state: Any, bias: torch.Tensor | None) -> torch.Tensor:
        ctx.tensors, ctx.state = (x, weight), state  # attributes live as long as the loss, unlike saved tensors
        return F.linear(x, dequantized(weight, state).to(x.dtype), bias)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        needs_x, _, _, needs_bias = ctx.needs_input_grad
        _, weight = ctx.tensors
        of_bias = grads[0].sum(0) if needs_bias else None
        of_x = torch.matmul(grads[0], dequantized(weight, ctx.state).to(grads[0].dtype)) if needs_x else None
        return of_x, None, None, of_bias


def dequantized(weight: torch.Tensor, state: Any) -> torch.Tensor:
    found: torch.Tensor = importlib.import_module("bitsandbytes").functional.dequantize_4bit(weight, state)
    return found


def product(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, quant_state: Any = None) -> torch.Tensor:
    result: torch.Tensor = Product.apply(x, weight, quant_state, bias)
    return result


class PagedAdamW(torch.optim.Optimizer):
    """The GPU memory of PagedAdamW of bitsandbytes: states of large parameters are in paged memory and do not count."""

    def __init__(self, parameters: list[torch.Tensor]) -> None:
        super().__init__(parameters, {})

    def step(self, closure: Any = None) -> None:
        for p in self.param_groups[0]["params"]:
            if p.numel() < LEAST_PAGED and p not in self.state:
                self.state[p] = {name: torch.zeros_like(p, dtype=torch.float32) for name in ("state1", "state2")}


@contextlib.contextmanager
def quantizing(bits: str) -> Iterator[None]:
    """Within the context, new linear layers have 4-bit weights if `bits` names a kind of quantization."""
    if not bits:
        yield
        return
    precision = importlib.import_module("lightning.fabric.plugins").BitsandbytesPrecision(bits, torch.bfloat16)
    with precision.module_init_context():
        yield


def quantize(model: nn.Module) -> None:
    """Quantize the weights of 4-bit layers from fp16, like Lightning."""
    for module in model.modules():
        if hasattr(module, "compute_type_is_set"):
            module.weight.data = module.weight.data.half()
            module.weight._quantize("meta")
            module.compute_dtype = torch.bfloat16


def new_model(job: Job, package: str) -> tuple[nn.Module, bool]:
    """Return the model, and whether its head can be computed in chunks."""
    module = importlib.import_module(f"{package}.{'model' if job.method == 'full' else job.method}")
    options = {}
    if job.method == "lora":
        prefix = "" if job.is_of_table else "lora_"
        fields = {name: f"to_{name}" if job.is_of_table else f"lora_{name}" for name in WHERE}
        options = {fields.get(name, f"{prefix}{name}"): value for name, value in job.lora.items()}
    config = module.Config.from_name(job.network, **options)
    torch.set_default_dtype(torch.float32 if job.is_mixed else torch.bfloat16)
    try:
        with quantizing(job.bits), torch.device("meta"):
            model = module.GPT(config)
    finally:
        torch.set_default_dtype(torch.float32)
    quantize(model)
    if job.method != "full":
        freeze = next(getattr(module, name) for name in dir(module) if name.startswith("mark_only"))
        freeze(model)
    return model, job.method != "full"


def loop(model: Any, has_chunks: bool, job: Job) -> Callable[[], None]:
    """Return LitGPT's loop. Fabric converts the outputs of the model to fp32."""
    model.max_seq_length = job.tokens
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = PagedAdamW(trained) if job.bits else torch.optim.AdamW(trained, lr=3e-4, weight_decay=0.01)

    def train() -> None:
        if job.method.startswith("adapter"):  # the validation before training fills a cache, which training then reads
            with torch.no_grad():
                model(torch.empty(job.batch, job.tokens, dtype=torch.long, device="meta"))
        n = 2 if job.accumulates else 1
        for k in range(n if job.is_of_table else n * STEPS):
            ids, targets = (torch.empty(job.batch, job.tokens, dtype=torch.long, device="meta") for _ in range(2))
            if has_chunks:
                with torch.autocast("cuda", torch.bfloat16) if job.is_mixed else contextlib.nullcontext():
                    logits = model(ids, lm_head_chunk_size=CHUNK)
                logits = [part.float() for part in logits]
                logits[-1] = logits[-1][..., :-1, :]
                loss = chunked_loss(logits, targets[..., 1:])
            else:
                loss = chunked_loss(model(ids).float()[..., :-1, :], targets[..., 1:])
            loss.backward()
            if (k + 1) % n == 0:
                optimizer.step()
                optimizer.zero_grad()

    return train


def estimated(job: Job, package: str) -> tuple[int, bool]:
    """Return the bytes of tensors, and whether the job fits the card."""
    card, memory = CARDS[job.gpu]
    train = loop(*new_model(job, package), job)
    with mock.patch("bitsandbytes.matmul_4bit", product) if job.bits else contextlib.nullcontext():
        needs = memplan.estimate(train, (), device=card, calls=1, memory=memory).needs
    assert needs is not None
    return needs.tensors_bytes, bool(needs.fits)


def output_of(checkout: str, *command: str) -> str:
    return subprocess.run(["git", "-C", checkout, *command], capture_output=True, check=True, text=True).stdout


def as_run(checkout: str, job: Job) -> tuple[Job, str]:
    """Return the job that was run, and the commit that published its row; "" for tables of 2023 and rows out of memory."""
    if job.is_of_table or job.measured_bytes is None:
        return job, ""
    line = rf"-G{job.file} .*{job.measured_bytes / 1e9:.2f} GB"
    commit = output_of(checkout, "log", "--reverse", "--format=%h", line, "--", HUB).split()[0]
    if job.method == "full" and ALIAS in output_of(checkout, "show", f"{commit}:litgpt/__main__.py"):
        job = replace(job, method="lora", lora=TABLE_LORA, accumulates=False)
    return job, commit


@contextlib.contextmanager
def at_commit(checkout: str, commit: str) -> Iterator[None]:
    """Within the context, Python imports the package litgpt of another commit."""
    path = list(sys.path)
    with tempfile.TemporaryDirectory() as folder:
        forget()
        unpack(checkout, commit, Path(folder))
        yield
    sys.path[:] = path
    forget()


def forget() -> None:
    """Let Python import the package litgpt again."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "litgpt"]:
        del sys.modules[name]


def unpack(checkout: str, commit: str, folder: Path) -> None:
    archive = subprocess.run(["git", "-C", checkout, "archive", commit], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    sys.path.insert(0, str(folder))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows")
    parser.add_argument("checkout")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    cache = Cache(given.cache)
    errors: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as old, tempfile.TemporaryDirectory() as new:
        unpack(given.checkout, TABLE, Path(old))
        unpack(given.checkout, "HEAD", Path(new))
        for named in jobs(given.rows, Path(new)):
            job, commit = as_run(given.checkout, named)
            with at_commit(given.checkout, commit) if commit else contextlib.nullcontext():
                found = cache.get(job.id, estimated, job, "lit_gpt" if job.is_of_table else "litgpt")
            if isinstance(found, str):
                sys.stdout.write(f"{job.id}: {found}\n")
            elif job.measured_bytes is None:
                sys.stdout.write(f"{job.id}: out of memory, estimate {'fits, wrong' if found[1] else 'does not fit, right'}\n")
            else:
                errors.setdefault(job.part, []).append(found[0] / job.measured_bytes - 1)
                sys.stdout.write(f"{job.id}: {comparison(job.measured_bytes, found[0])}\n")
            sys.stdout.flush()
    sys.stdout.write(error_table(errors))
    return int(given.check and any(statistics.median(map(abs, found)) > TARGET for found in errors.values()))


if __name__ == "__main__":
    sys.exit(main())
