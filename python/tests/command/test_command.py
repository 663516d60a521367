"""python -m memplan: a model by its name, texts of inputs, and error messages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import networks
import pytest
import torch

import memplan
from memplan.__main__ import main
from memplan.command import UsageError
from memplan.command.inputs import make_inputs, read_inputs

CPU = torch.device("cpu")
BUILDS = """
import torch

def tied():
    import networks
    torch.manual_seed(0)
    return networks.Tied()

def fails():
    raise ValueError("no weights here")

def normed():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))

class ByName(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.layer = torch.nn.Embedding(11, 8), torch.nn.Linear(8, 8)

    def forward(self, *, ids, mask):
        return (self.layer(self.table(ids)) * mask.unsqueeze(-1)).square().mean()

number = 3
"""


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "builds.py").write_text(BUILDS)
    (tmp_path / "broken.py").write_text("import torch\nimport nothing_of_this_name\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in ("builds", "broken"):
        sys.modules.pop(name, None)


def test_inputs_as_people_write_them() -> None:
    (image, ids), named = make_inputs(read_inputs("(8, 3,N,4), (N,) <7; mask=(2,N) bool, x = () bfloat16"), CPU, 5)
    assert image.shape == (8, 3, 5, 4) and image.dtype == torch.float32
    assert ids.shape == (5,) and ids.dtype == torch.int64 and int(ids.min()) >= 0 and int(ids.max()) < 7
    assert named["mask"].dtype == torch.bool and named["mask"].shape == (2, 5)
    assert named["x"].shape == () and named["x"].dtype == torch.bfloat16
    drawn = make_inputs(read_inputs("(10000) int32 <3"), CPU, None)[0][0]
    assert drawn.dtype == torch.int32 and drawn.unique().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "'nothing' is not an input"),
        ("8,3", "'8,3' is not an input: inputs are written like"),
        ("(8,3), 4", "'4' is not an input"),
        ("(8,-3)", r"'-3' in \(8,-3\) is not a size"),
        ("(8) float33", "'float33' is not a PyTorch type"),
        ("(8) float32 <4", "<4 applies to whole numbers only, not to float32"),
        ("(8) <0", "<0 leaves no whole number"),
        ("a=(8), (8)", r"\(8\) is positional, but it follows the named input a="),
    ],
)
def test_inputs_that_cannot_be_read(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        read_inputs(text)


def test_an_estimate_is_the_functions(builds: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = ",".join(map(str, networks.vectors(6)[0].shape))
    assert main(["estimate", "builds:tied", "--inputs", f"({shape}), ({shape})", "--json", "--optimizer", "AdamW"]) == 0
    told = json.loads(capsys.readouterr().out)
    torch.manual_seed(0)
    model = networks.Tied()
    report = memplan.estimate(model, networks.vectors(6), optimizer=torch.optim.AdamW(model.parameters()))
    known = report.scalars()
    for name in ("planned_bytes", "keep_all_bytes", "floor_bytes", "static_bytes", "saved_bytes", "n_operators"):
        assert told[name] == known[name]


def test_parameters_gradients_state_and_remedies(builds: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sums by hand: a table of 11 rows of 8, a matrix of 8 by 8 and 8 numbers beside it."""
    asked = ["estimate", "builds:ByName", "--inputs", "ids=(32,64) <11, mask=(32,64)", "--optimizer", "AdamW"]
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    n = 11 * 8 + 8 * 8 + 8
    assert told["n_parameters"] == told["n_trained_parameters"] == n
    assert told["parameter_bytes"] == told["gradient_bytes"] == 4 * n
    assert told["optimizer_bytes"] == 2 * 4 * n + 3 * 4
    assert main(asked) == 0
    text = capsys.readouterr().out
    assert f"{n} parameters take 640 B, gradients 640 B\nAdamW keeps 1.26 KiB between steps\nwhat would help\n" in text
    assert "  less memory: this plan takes " in text


def test_a_batch_begins_where_it_can_be_trained(builds: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["fit", "builds:normed", "--inputs", "(N,4)", "--budget", "20KiB", "--device", "a100"]
    assert main(asked) == 2
    assert "start with a larger N by --least" in capsys.readouterr().err
    assert main([*asked, "--least", "2", "--step", "3"]) == 0
    n = int(capsys.readouterr().out.split()[2])
    assert n > 2 and n % 3 == 2
    assert main([*asked, "--least", "0"]) == 1
    assert "least=0 is not a batch" in capsys.readouterr().err


def test_a_plan_and_its_files(builds: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", "builds:ByName", "--inputs", "ids=(N,64) <11, mask=(N,64)", "--batch", "32", "--budget", "min+20%"]
    assert main([*asked, "--graph", "graph.json", "--save", "plan.json", "--timeline", "t.svg"]) == 0
    assert "its peak is at" in capsys.readouterr().out
    assert json.loads(Path("plan.json").read_text())["graph"]["hash"] == json.loads(Path("graph.json").read_text())["hash"]
    assert "<svg" in Path("t.svg").read_text()


def test_the_largest_batch_is_fits(builds: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["fit", "builds:ByName", "--inputs", "ids=(N,64) <11, mask=(N,64)", "--budget", "200KiB", "--overhead", "9"]
    assert main(asked) == 0
    line = capsys.readouterr().out.partition("\n")[0]
    n = int(line.split()[2])
    assert n > 1 and line == f"N = {n} is the largest that fits 200KiB at 900% more time"
    shapes = "ids=({n},64) <11, mask=({n},64)"
    assert main(["plan", "builds:ByName", "--inputs", shapes.format(n=n), "--budget", "200KiB"]) == 0
    assert main(["plan", "builds:ByName", "--inputs", shapes.format(n=n + 1), "--budget", "200KiB"]) == 1
    assert "cannot be met" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "status", "sentence"),
    [
        ("nosuch.module:build --inputs (2)", 2, "there is no module 'nosuch' in this folder"),
        ("builds.deeper:build --inputs (2)", 2, "there is no module 'builds.deeper'"),
        ("builds --inputs (2)", 2, "'builds' does not name a model; use package.module:build"),
        ("builds:tide --inputs (2)", 2, "builds has no 'tide'; it has 'tied'"),
        ("builds:number --inputs (2)", 2, "builds:number has the type int, but it must be"),
        (
            "builds:torch.zeros.__class__.__name__.upper --inputs (2)",
            2,
            "() returns a str, but it must return a torch.nn.Module",
        ),
        ("builds:fails --inputs (2)", 1, "fails() fails: ValueError: no weights here"),
        (
            "broken:build --inputs (2)",
            1,
            "broken cannot be imported: ModuleNotFoundError: No module named 'nothing_of_this_name'",
        ),
        ("builds:ByName --inputs (2,3)", 2, "the model does not accept these inputs: TypeError: "),
        ("builds:tied --inputs (2,3),(2,3)", 2, "the model does not accept these inputs: RuntimeError: "),
        ("builds:tied --inputs (N,3)", 2, "an input has N in its shape"),
        ("builds:tied --inputs (2,3) --optimizer AdamX", 2, "torch.optim has no optimizer 'AdamX'"),
        ("builds:tied --inputs (32,64),(32,64) --device h1000", 1, "'h1000' is an unknown device"),
        ("builds:tied --inputs (32,64),(32,64) --budget lots", 1, "'lots' is not a budget"),
    ],
)
def test_one_sentence_and_a_status(
    builds: Path, capsys: pytest.CaptureFixture[str], asked: str, status: int, sentence: str
) -> None:
    assert main(["estimate", *asked.split()]) == status
    told = capsys.readouterr()
    assert told.out == "" and told.err.startswith("memplan: ") and sentence in told.err
    assert told.err.count("\n") == 1


def test_in_a_process_of_its_own(builds: Path) -> None:
    tests = os.path.dirname(networks.__file__)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([os.path.join(tests, "..", "src"), tests])}
    asked = [sys.executable, "-m", "memplan", "estimate", "builds:tied", "--inputs", "(6,3)", "--device", "h100"]
    done = subprocess.run(asked, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2 and done.stdout == "" and "does not accept these inputs" in done.stderr
