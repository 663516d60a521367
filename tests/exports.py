#!/usr/bin/env python3
"""exports.py [-h] [PATTERN...] - exports networks with both exporters of PyTorch and reports memplan's result for each file.

By hand, not in CI: needs torch, onnx and onnxscript; transformers and torchvision for the networks hf/* and tv/*. A line per file:

  parameters  EXTRA: tensors that memplan trains and PyTorch does not; MISSING: the other way round. Initializers are matched by
              their values, in any order of the dimensions, since exporters rename and transpose them. Differences that the file
              explains are counted apart: `computed` from parameters, as the exporter has noted; `frozen in PyTorch`, which no
              file says; `folded`: changed by the exporter (batch normalization in a convolution); `gone`: parameters that were
              folded or computed away; `unused`: those that the output does not depend on.
  plan        at floor + 50 %, or at the smallest budget that the answer names
  check       the verdict of an outside checker (--checker; without it, memplan check)
  train       two steps with everything kept and with the plan: the same bits or not
  saved       bytes for backward, as memplan counts them by PyTorch's rules, beside those that autograd holds
  gradients   only with --only: the largest error of any gradient after one step on .npy files (networks/one_step.py)

With --matrix: ten networks (or the patterns) in ten operator sets, by both exporters with three options each, and a table of
parameter counts beside PyTorch's (networks/matrix.py). The status is 1 if a count is wrong without a warning.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FILES = HERE / "networks/files"
sys.path.insert(0, str(HERE))

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import torch  # noqa: E402
from onnx import numpy_helper  # noqa: E402

from networks import matrix, one_step  # noqa: E402
from networks.registry import Network, networks  # noqa: E402

EXPORTERS = ("torchscript", "dynamo")


@dataclass
class Truth:
    """PyTorch's figures of a network."""

    trained: dict[str, np.ndarray]  # parameters that the output depends on
    unused: list[str]  # parameters that it does not
    frozen: dict[str, np.ndarray]  # parameters that PyTorch is told not to train
    saved_bytes: int  # unique storages that autograd holds after forward, parameters and buffers aside


def key(values: np.ndarray) -> bytes:
    """The same for a tensor and its transposes."""
    return np.sort(values, axis=None).astype(np.float32).tobytes()


def disturb(module: torch.nn.Module) -> None:
    """No two parameters are equal, since exporters merge those that are."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(torch.randn_like(p) * 0.02 * max(float(p.abs().mean()), 0.1))


def tensors_of(answer: object) -> list[torch.Tensor]:
    if isinstance(answer, torch.Tensor):
        return [answer]
    return [t for part in answer for t in tensors_of(part)]


def truth_of(net: Network) -> Truth:
    held: dict[int, int] = {}
    own = {t.untyped_storage().data_ptr() for t in (*net.module.parameters(), *net.module.buffers())}

    def hold(t: torch.Tensor) -> torch.Tensor:
        storage = t.untyped_storage()
        if storage.data_ptr() not in own:
            held[storage.data_ptr()] = storage.nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(hold, lambda t: t):
        outputs = [t for t in tensors_of(net.module(*net.inputs)) if t.is_floating_point()]
        saved_bytes = sum(held.values())
    sum(t.sum() for t in outputs).backward()
    named = list(net.module.named_parameters())
    trained = {name: p.detach().numpy().copy() for name, p in named if p.requires_grad and p.grad is not None}
    unused = [name for name, p in named if p.requires_grad and p.grad is None]
    return Truth(trained, unused, {name: p.detach().numpy() for name, p in named if not p.requires_grad}, saved_bytes)


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Hides the long messages of exporters, from C++ too."""
    kept = os.dup(1), os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1), os.dup2(nowhere.fileno(), 2)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            for fd, back in zip((1, 2), kept):
                os.dup2(back, fd)
                os.close(back)


def export(net: Network, exporter: str, path: Path) -> None:
    """Raises the exporter's exception."""
    names = [f"input{k}" for k in range(len(net.inputs))]
    with silence():
        if exporter == "dynamo":
            torch.onnx.export(net.module, net.inputs, str(path), input_names=names, dynamo=True, external_data=False, verbose=False)
        else:
            torch.onnx.export(
                net.module, net.inputs, str(path), input_names=names, dynamo=False, opset_version=18,
                training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
            )  # fmt: skip


KEPT_METADATA = (
    "pkg.torch.onnx.name_scopes",
    "pkg.torch.onnx.class_hierarchy",
    "pkg.torch.onnx.fx_node",
    "pkg.torch.export.ExportedProgram.graph_signature",
    "pkg.torch.export.graph_signature.InputSpec.kind",
    "pkg.onnxscript.optimizer.folded_from",
    "pkg.onnxscript.rewriter.rule_name",
)


def drop_metadata(message: Any) -> None:
    kept = [entry for entry in message.metadata_props if entry.key in KEPT_METADATA]
    del message.metadata_props[:]
    message.metadata_props.extend(kept)


def note_parameters(truth: Truth, out: Path, in_file: set[bytes]) -> None:
    """A line of the table beside the stored files: how many tensors PyTorch trains, and of how many elements. None where the
    exporter has joined some of them (both biases of an LSTM), which the file then has as one."""
    folder = FILES if FILES in out.resolve().parents else out.resolve().parent
    table, name = folder / "parameters.txt", str(out.resolve().relative_to(folder))
    lines = table.read_text().splitlines() if table.exists() else []
    lines = [line for line in lines if line.split()[0] != name]
    if all(key(v) in in_file for v in truth.trained.values()):
        lines.append(f"{name} {len(truth.trained)} {sum(v.size for v in truth.trained.values())}")
    table.write_text("\n".join(sorted(lines)) + "\n")


def store(path: Path, truth: Truth, out: Path) -> None:
    """The file as test data: without the values of parameters, and without folder names of this machine."""
    model = onnx.load(path)
    note_parameters(truth, out, {key(numpy_helper.to_array(tensor)) for tensor in model.graph.initializer})
    parameters = {key(v) for v in truth.trained.values()}
    for tensor in model.graph.initializer:
        computed = "weight" in tensor.name or "bias" in tensor.name
        if tensor.data_type == onnx.TensorProto.FLOAT and (computed or key(numpy_helper.to_array(tensor)) in parameters):
            tensor.ClearField("raw_data")
            tensor.ClearField("float_data")
    for message in (model, model.graph, *model.graph.node, *model.graph.initializer, *model.graph.value_info):
        drop_metadata(message)
    for message in (model.graph, *model.graph.node):
        message.ClearField("doc_string")
    onnx.save(model, out)


class Refused(Exception):
    """memplan's text on standard error."""


class Memplan:
    def __init__(self, program: str, checker: str | None) -> None:
        self.program, self.checker = program, checker

    def run(self, *words: str) -> str:
        done = subprocess.run([self.program, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}").splitlines()
            raise Refused(said[-1])
        return done.stdout

    def estimate(self, path: Path, *words: str) -> dict:
        return json.loads(self.run("estimate", str(path), "--json", *words))

    def plan(self, path: Path) -> tuple[Path, str]:
        """The plan's file, and whether it is at floor + 50 % or at the smallest budget."""
        out = path.with_suffix(".plan.json")
        words = ["plan", str(path), "--device", "cpu", "--effort", "quick", "--time-limit", "10", "-o", str(out)]
        try:
            self.run(*words, "--budget", "floor+50%")
            return out, "floor+50%"
        except Refused:
            done = subprocess.run([self.program, *words, "--budget", "floor+50%"], capture_output=True, text=True, check=False)
            smallest = re.search(r"--budget (\d+)", done.stdout + done.stderr)
            if not smallest:
                raise
            self.run(*words, "--budget", smallest[1])
            return out, "smallest"

    def check(self, path: Path, plan: Path) -> str:
        if not self.checker:
            return self.run("check", str(path), str(plan)) and "holds"
        graph = path.with_suffix(".graph.json")
        self.run("graph", str(path), "--device", "cpu", "-o", str(graph))
        done = subprocess.run([sys.executable, self.checker, str(graph), str(plan)], capture_output=True, text=True, check=False)
        return "WRONG" if done.returncode else "holds"

    def train(self, path: Path, plan: Path) -> str:
        answer = json.loads(self.run("train", str(path), "--device", "cpu", "--steps", "2", "--plan", str(plan), "--json"))
        return "identical" if answer["identical"] else "DIFFERS"


def compare_parameters(path: Path, inputs: list[dict], truth: Truth) -> str:
    """memplan's parameters against PyTorch's, by value."""
    stored = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer if t.data_type == onnx.TensorProto.FLOAT}
    wanted = {key(v): name for name, v in truth.trained.items()}
    there = {key(v) for v in stored.values()}
    trained = {t["name"] for t in inputs if t["role"] == "parameter"}
    extra = [name for name in sorted(trained) if name not in stored or key(stored[name]) not in wanted]
    noted = {t["name"] for t in inputs if t["reason"].startswith("computed from parameters")}
    frozen = {key(v) for v in truth.frozen.values()}
    kinds = {
        "computed": [name for name in extra if name in noted],
        "frozen in PyTorch": [name for name in extra if name in stored and key(stored[name]) in frozen],
        "folded": [name for name in extra if name in truth.trained or name.removesuffix("_bias") in truth.trained],
    }
    extra = [name for name in extra if not any(name in names for names in kinds.values())]
    found = {key(stored[name]) for name in trained if name in stored}
    missing = [name for k, name in wanted.items() if k in there and k not in found]
    kinds["gone"] = [name for k, name in wanted.items() if k not in there]
    kinds["unused"] = truth.unused
    words = "equal" if not (extra or missing) else ""
    words += f" EXTRA {len(extra)}: {', '.join(extra[:9])}" if extra else ""
    words += f" MISSING {len(missing)}: {', '.join(missing[:9])}" if missing else ""
    words += "".join(f" ({kind} {len(names)}: {', '.join(names[:2])})" for kind, names in kinds.items() if names)
    return words.strip()


def judge(memplan: Memplan, path: Path, truth: Truth, steps: set[str]) -> list[tuple[str, str]]:
    """The results, stage by stage, up to the first failure."""
    found = []
    stage = "load"
    try:
        estimate = memplan.estimate(path)
        found.append(("parameters", compare_parameters(path, estimate["inputs"], truth)))
        stage = "saved"
        if stage in steps:
            saved = memplan.estimate(path, "--device", "cpu", "--rules", "pytorch", "--loss", "none")["saved_activation_bytes"]
            share = f" ({100 * (saved / truth.saved_bytes - 1):+.2f} %)" if truth.saved_bytes else ""
            found.append((stage, f"{saved} of {truth.saved_bytes}{share}"))
        stage = "plan"
        if stage in steps:
            plan, where = memplan.plan(path)
            found.append((stage, where))
            stage = "check"
            found.append((stage, memplan.check(path, plan)))
            stage = "train"
            if stage in steps:
                found.append((stage, memplan.train(path, plan)))
    except Refused as refusal:
        found.append((stage, f"REFUSED: {str(refusal).replace(str(path.parent) + '/', '')}"))
    return found


def compare_gradients(memplan: Memplan, net: Network, exporter: str, path: Path) -> str:
    try:
        return one_step.compare(memplan.run, net, lambda still, to: export(still, exporter, to), path)
    except Refused as refusal:
        return f"REFUSED: {str(refusal).replace(str(path.parent) + '/', '')}"
    except Exception as why:  # noqa: BLE001 - exporters and networks raise what they like
        return f"cannot be compared: {first_line(why)}"


def first_line(why: BaseException) -> str:
    """The original exception: the newer exporter wraps it into steps."""
    while why.__cause__ is not None:
        why = why.__cause__
    return (str(why).strip().splitlines() or [type(why).__name__])[0][:160]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", default=["*"], help="networks, such as own/* (default: all)")
    parser.add_argument("--memplan", default=str(HERE.parent / "build/memplan"), help="the program")
    parser.add_argument("--checker", help="a program that takes a graph and a plan (default: memplan check)")
    parser.add_argument("--exporter", choices=EXPORTERS, action="append", help="only this one; may be repeated")
    parser.add_argument("--only", help="stages, such as parameters,gradients (default: parameters,saved,plan,train)")
    parser.add_argument("--keep", type=Path, help="leave the files here, and take those that are there")
    parser.add_argument("--store", type=Path, help="write the files here without weights, as test data (tests/networks/files)")
    parser.add_argument("--matrix", action="store_true", help="count parameters over operator sets and export options")
    parser.add_argument("--list", action="store_true", help="name the networks")
    args = parser.parse_args()
    for package in ("own", "graphs", "hugging_face", "pictures"):
        try:
            __import__(f"networks.{package}")
        except ImportError as missing:
            print(f"networks/{package}.py is left out: {missing}", file=sys.stderr)
    chosen = [name for name in networks if any(fnmatch.fnmatch(name, p) for p in args.patterns)]
    if args.list:
        print("\n".join(chosen))
        return 0
    if args.matrix:
        with tempfile.TemporaryDirectory() as scratch:
            names = matrix.NETWORKS if args.patterns == ["*"] else tuple(chosen)
            return int(matrix.table(args.memplan, args.keep or Path(scratch), silence, names) > 0)
    steps = set((args.only or "parameters,saved,plan,train").split(","))
    memplan = Memplan(args.memplan, args.checker)
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name in chosen:
            torch.manual_seed(0)
            try:
                net = networks[name]()
                net.module.train()
                disturb(net.module)
                truth = truth_of(net)
            except Exception as why:  # noqa: BLE001 - versions of packages differ
                print(f"{name}: cannot be made: {first_line(why)}", flush=True)
                continue
            for exporter in args.exporter or EXPORTERS:
                path = folder / f"{name.replace('/', '_')}.{exporter}.onnx"
                try:
                    if not path.exists():
                        export(net, exporter, path)
                except Exception as why:  # noqa: BLE001 - exporters raise what they like
                    print(f"{name} {exporter}: exporter fails: {first_line(why)}", flush=True)
                    continue
                if args.store:
                    store(path, truth, args.store / path.name)
                parts = judge(memplan, path, truth, steps)
                if "gradients" in steps:
                    parts.append(("gradients", compare_gradients(memplan, net, exporter, path.with_suffix(".step.onnx"))))
                print(f"{name} {exporter}: " + "; ".join(f"{stage} {what}" for stage, what in parts), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
