"""torchtitan's debug Llama in both of its trainers, on one rank and on two, on a CPU: losses as without us, and steps within
their budgets."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

NEEDED = ("torchtitan", "torchdata", "torch_checkpointing", "spmd_types", "tyro", "einops", "tensorboard")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

TESTS = pathlib.Path(__file__).parents[1]
Answer = dict[str, Any]


def python(*arguments: Any) -> subprocess.CompletedProcess[str]:
    """A process of its own: torchtitan sets what is the process's."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (TESTS.parent / "src", TESTS)))}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=1800)


def on_ranks(*asked: dict[str, Any], arguments: tuple[str, ...] = ()) -> tuple[list[list[Answer]], str]:
    """What trainers come to on each rank; and all that is printed."""
    done = python(TESTS / "habits/titan.py", json.dumps(asked), *arguments)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stdout + done.stderr


def ran(*asked: dict[str, Any], arguments: tuple[str, ...] = ()) -> tuple[list[Answer], str]:
    """On the only one."""
    (answers,), printed = on_ranks(*asked, arguments=arguments)
    return answers, printed


@functools.cache
def trained(trainer: str, precision: str) -> dict[str, Answer]:
    """By what is done about memory."""
    theirs = "full" if trainer == "eager" else "default"
    asked = [{"trainer": trainer, "memory": memory} for memory in ("none", theirs)]
    budget = "min+20%" if trainer == "eager" else "min+40%"  # which leaves out much, beside what is there anyway
    asked.append({"trainer": trainer, "memory": "memplan", "budget": budget})
    answers, printed = ran(*asked, arguments=("--precision", precision))
    return {a["memory"] if a["memory"] != theirs else "theirs": a for a in answers} | {"log": {"printed": printed}}


def planned_bytes(printed: str, before: str) -> int:
    """The peak in memplan's line in the log, which is in MiB; those of a training that goes on are the same."""
    line, *_ = [line for line in printed.splitlines() if before in line]
    return round(float(line.partition(before)[2].split()[0]) * 2**20)


@pytest.mark.parametrize(("trainer", "precision"), [("eager", "bfloat16"), ("eager", "float32"), ("graph", "bfloat16")])
def test_losses_are_those_without_us_and_memory_is_less(trainer: str, precision: str) -> None:
    found = trained(trainer, precision)
    assert found["memplan"]["losses"] == found["none"]["losses"] == found["theirs"]["losses"]
    assert len(set(found["none"]["losses"])) == 3
    assert found["memplan"]["peak_bytes"] < 0.9 * found["none"]["peak_bytes"]


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_an_eager_step_takes_what_was_planned(precision: str) -> None:
    (found,) = [a for a in trained("eager", precision).values() if "planned_bytes" in a]
    assert abs(found["planned_bytes"] - found["peak_bytes"]) <= 0.001 * found["planned_bytes"]


@pytest.mark.parametrize("trainer", ["eager", "graph"])
def test_two_ranks_train_save_and_go_on(trainer: str) -> None:
    kept_all = {"trainer": trainer, "memory": "none", "layers": 3}
    planned_for = {"trainer": trainer, "memory": "memplan", "budget": "min+40%", "layers": 3}
    ranks, printed = on_ranks(kept_all, planned_for, arguments=("--ranks", "2", "--steps", "4", "--saved-at", "2"))
    for kept, ours in ranks:
        assert ours["losses"] == kept["losses"] and len(set(kept["losses"])) == 4
        assert ours["resumed"] == kept["losses"][2:]
        planned = ours.get("planned_bytes") or planned_bytes(printed, "again: ")
        assert abs(planned - ours["peak_bytes"]) <= 0.001 * planned
        assert ours["peak_bytes"] < 0.9 * kept["peak_bytes"]
    assert ranks[0][0]["losses"] != ranks[1][0]["losses"]  # of each rank's own rows


def test_the_graph_trainers_step_takes_what_was_planned() -> None:
    found = trained("graph", "bfloat16")
    planned = planned_bytes(found["log"]["printed"], "again: ")
    assert abs(planned - found["memplan"]["peak_bytes"]) <= 0.001 * planned


def test_the_smallest_step_is_no_larger_than_theirs() -> None:
    asked = [{"trainer": "graph", "memory": memory} for memory in ("none", "full")]
    asked.append({"trainer": "graph", "memory": "memplan", "budget": "min"})
    (kept, full, smallest), _ = ran(*asked)
    assert smallest["peak_bytes"] <= full["peak_bytes"] < 0.9 * kept["peak_bytes"]
    assert smallest["losses"] == full["losses"] == kept["losses"]


def test_a_budget_that_no_marks_fit_is_told_of() -> None:
    answers, printed = ran({"trainer": "graph", "memory": "memplan", "budget": "60MiB"}, {"trainer": "graph", "memory": "none"})
    assert "no marks were found with which the step fits 60.00 MiB" in printed
    assert answers[0]["losses"] == answers[1]["losses"]
    assert answers[0]["peak_bytes"] < answers[1]["peak_bytes"]


CHOSEN_BY_NAME = """
from habits import titan
titan.on_cpu()
import memplan.frameworks.torchtitan
from torchtitan.config import ConfigManager
import sys
sys.modules["config"] = type(sys)("config")
sys.modules["config"].debug = lambda: titan.configuration({"trainer": "eager", "memory": "none"}, 2, ".", "bfloat16")
given = ["--module", "config", "--config", "debug", "activation-checkpoint:memplan", "--activation-checkpoint.budget", "3GiB"]
sys.stdout.write(str(ConfigManager().parse_args(given).activation_checkpoint))
"""


def test_the_policy_is_chosen_on_the_command_line() -> None:
    done = python("-c", CHOSEN_BY_NAME)
    assert "MemplanAC.Config(" in done.stdout and "budget='3GiB'" in done.stdout, done.stderr[-2000:]


REFUSED = """
import sys
from types import SimpleNamespace as Made
from habits import titan
titan.on_cpu()
import torch
from memplan.errors import MemplanError
from memplan.frameworks.torchtitan import ChunkedLossWrapper, MemplanAC, refuse

def said(what):
    try:
        what()
    except MemplanError as error:
        sys.stdout.write(f"said: {error}" + chr(10))

def trainer(device="cpu", loss=None):
    return Made(device=torch.device(device), loss_fn=loss, config=Made(training=Made(disable_cuda_graphs=False)))

compiled = torch.nn.Sequential(torch.nn.Linear(2, 2))
compiled[0].compile()
said(lambda: refuse(trainer(), compiled))
plain = torch.nn.Linear(2, 2)
said(lambda: refuse(trainer(loss=object.__new__(ChunkedLossWrapper)), plain))
said(lambda: refuse(trainer("cuda"), plain))
MemplanAC.Config(budget="1GiB").build(dump_folder="").apply(plain)
with torch.no_grad():
    plain(torch.ones(1, 2))
said(lambda: plain(torch.ones(1, 2)))
"""


def test_what_the_eager_policy_does_not_plan_is_said() -> None:
    done = python("-c", REFUSED)
    starts = (
        "the compiler of these blocks",
        "a chunked loss",
        "memplan's plans cannot run in a CUDA graph",
        "memplan plans the step of",
    )
    said = [line.removeprefix("said: ") for line in done.stdout.splitlines() if line.startswith("said: ")]
    assert len(said) == len(starts) and all(map(str.startswith, said, starts)), done.stdout + done.stderr[-2000:]
