"""matrix.py - networks x operator sets x exporters x export options: does memplan count the parameters that PyTorch has?

Networks are as they are before training, since exporters merge tensors of equal values. Each file is one of:

  equal     the number of elements is PyTorch's
  warned    it is another, and a warning is about parameters
  refused   memplan does not read the file, and says why
  SILENT    it is another, and no warning is about parameters
  no file   the exporter fails
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from networks.registry import Called, Network, networks

NETWORKS = (
    "own/two_linears", "own/dropout_cnn", "own/unet", "own/lstm_lm", "own/encoder", "own/group_norms", "own/odd_norms",
    "hf/gpt2", "hf/vit", "tv/resnet18",
)  # fmt: skip
OPSETS = range(14, 24)
ANSWERS = ("equal", "warned", "refused", "SILENT", "no file")
ABOUT_PARAMETERS = re.compile(r"warning: .*(parameter|computed by the exporter|folded|read as weights|constants? of)")


@dataclass
class Option:
    name: str
    exporter: str
    trains: bool  # the module is in training mode
    words: Callable[[Network], dict[str, Any]]  # further arguments of torch.onnx.export


def open_axes(net: Network) -> dict[str, dict[int, str]]:
    return {f"input{k}": {0: "batch"} for k in range(len(net.inputs))}


def open_shapes(net: Network) -> tuple[Any, ...]:
    shapes = tuple({0: "batch"} for _ in net.inputs)
    return (shapes,) if isinstance(net.module, Called) else shapes  # a signature of *inputs has one argument


OPTIONS = (
    Option("default", "torchscript", False, lambda _: {}),
    Option(
        "no folding, initializers as inputs", "torchscript", False,
        lambda _: {"do_constant_folding": False, "keep_initializers_as_inputs": True},
    ),
    Option(
        "training, open batch", "torchscript", True,
        lambda net: {"training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False, "dynamic_axes": open_axes(net)},
    ),
    Option("default", "dynamo", False, lambda _: {"external_data": False}),
    Option(
        "no optimization, initializers as inputs", "dynamo", False,
        lambda _: {"external_data": False, "optimize": False, "keep_initializers_as_inputs": True},
    ),
    Option("training, open batch, external", "dynamo", True, lambda net: {"dynamic_shapes": open_shapes(net)}),
)  # fmt: skip


def export(net: Network, option: Option, opset: int, path: Path) -> None:
    """Raises the exporter's exception."""
    net.module.train(option.trains)
    names = [f"input{k}" for k in range(len(net.inputs))]
    words: dict[str, Any] = {"input_names": names, "opset_version": opset, "dynamo": option.exporter == "dynamo"}
    if option.exporter == "dynamo":
        words["verbose"] = False
    torch.onnx.export(net.module, net.inputs, str(path), **words, **option.words(net))


def ask(program: str, path: Path, wanted: int) -> tuple[str, str]:
    """The answer, and its explanation."""
    # The batch is given where the file leaves it open.
    for batch in ([], ["--batch", "2"]):
        done = subprocess.run([program, "estimate", str(path), "--json", *batch], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            break
    said = done.stderr.replace(str(path.parent) + "/", "").strip()
    if done.returncode:
        return "refused", said.splitlines()[-1] if said else f"status {done.returncode}"
    found = json.loads(done.stdout)["n_parameters"]
    if found == wanted:
        return "equal", ""
    warning = ABOUT_PARAMETERS.search(said)
    return ("warned" if warning else "SILENT"), f"{found} of {wanted}" + (f"; {warning[0][:160]}" if warning else "")


def first_line(why: BaseException) -> str:
    """The first cause: the newer exporter wraps it into steps."""
    while why.__cause__ is not None:
        why = why.__cause__
    return (str(why).strip().splitlines() or [type(why).__name__])[0][:120]


def make(name: str, option: Option, opset: int, path: Path, silence: Callable[[], Any]) -> None:
    """Exports the network, unless the file is there. Next to a file that the exporter refuses, its reason is kept."""
    failed = path.with_suffix(".failed")
    if path.exists() or failed.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    try:
        with silence():
            export(networks[name](), option, opset, path)
    except Exception as why:  # noqa: BLE001 - exporters raise what they like
        path.unlink(missing_ok=True)
        failed.write_text(first_line(why))


def answers(
    program: str, folder: Path, chosen: tuple[str, ...], silence: Callable[[], Any]
) -> Iterator[tuple[str, Option, int, str, str]]:
    for name in chosen:
        wanted = sum(p.numel() for p in networks[name]().module.parameters())
        for option in OPTIONS:
            for opset in OPSETS:
                words = re.sub("[^a-z]+", "-", option.name)
                path = folder / f"{name.replace('/', '_')}.{option.exporter}.{words}" / f"{opset}.onnx"
                make(name, option, opset, path, silence)
                if path.exists():
                    yield name, option, opset, *ask(program, path, wanted)
                else:
                    yield name, option, opset, "no file", path.with_suffix(".failed").read_text()


def table(program: str, folder: Path, silence: Callable[[], Any], chosen: tuple[str, ...]) -> int:
    """Prints a line for each file that is not equal, then a table for each option. Returns the number of silent files."""
    by_option: dict[tuple[str, str], Counter[str]] = {}
    for name, option, opset, answer, why in answers(program, folder, chosen, silence):
        by_option.setdefault((option.exporter, option.name), Counter())[answer] += 1
        if answer != "equal":
            print(f"{name}, {option.exporter} ({option.name}), operator set {opset}: {answer}: {why}", flush=True)
    print(f"{'exporter and options':45}" + "".join(f"{a:>9}" for a in ANSWERS))
    total: Counter[str] = Counter()
    for (exporter, words), counts in by_option.items():
        print(f"{exporter + ': ' + words:45}" + "".join(f"{counts[a]:9}" for a in ANSWERS))
        total += counts
    print(f"{'all':45}" + "".join(f"{total[a]:9}" for a in ANSWERS))
    return total["SILENT"]
