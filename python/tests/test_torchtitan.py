"""torchtitan's debug Llama in both of its trainers, on a CPU: losses as without us, and steps within their budgets."""

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

HERE = pathlib.Path(__file__).parent
Answer = dict[str, Any]


def python(*arguments: Any) -> subprocess.CompletedProcess[str]:
    """A process of its own: torchtitan sets what is the process's."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (HERE.parent / "src", HERE)))}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=600)


def ran(*asked: dict[str, str], arguments: tuple[str, ...] = ()) -> tuple[list[Answer], str]:
    """What trainers come to; and all that is printed."""
    done = python(HERE / "habits/titan.py", json.dumps(asked), *arguments)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stdout + done.stderr


@functools.cache
def trained(trainer: str, precision: str) -> dict[str, Answer]:
    """By what is done about memory."""
    theirs = "full" if trainer == "eager" else "default"
    asked = [{"trainer": trainer, "memory": memory} for memory in ("none", theirs)]
    asked.append({"trainer": trainer, "memory": "memplan", "budget": "min+40%"})
    answers, printed = ran(*asked, arguments=("--precision", precision))
    return {a["memory"] if a["memory"] != theirs else "theirs": a for a in answers} | {"log": {"printed": printed}}


def planned_bytes(printed: str, before: str) -> int:
    """The peak in memplan's line in the log, which is in MiB."""
    (line,) = [line for line in printed.splitlines() if "planned" in line]
    return round(float(line.partition(before)[2].split()[0]) * 2**20)


@pytest.mark.parametrize(("trainer", "precision"), [("eager", "bfloat16"), ("eager", "float32"), ("graph", "bfloat16")])
def test_losses_are_those_without_us_and_memory_is_less(trainer: str, precision: str) -> None:
    found = trained(trainer, precision)
    assert found["memplan"]["losses"] == found["none"]["losses"] == found["theirs"]["losses"]
    assert len(set(found["none"]["losses"])) == 3
    assert found["memplan"]["peak_bytes"] < 0.9 * found["none"]["peak_bytes"]


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_an_eager_step_stays_within_what_was_planned(precision: str) -> None:
    found = trained("eager", precision)
    planned = planned_bytes(found["log"]["printed"], "; ")
    assert 0.8 * planned <= found["memplan"]["peak_bytes"] <= planned


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
sys.modules["config"].debug = lambda: titan.configuration("eager", "none", "", 2, ".", "bfloat16")
given = ["--module", "config", "--config", "debug", "activation-checkpoint:memplan", "--activation-checkpoint.budget", "3GiB"]
sys.stdout.write(str(ConfigManager().parse_args(given).activation_checkpoint))
"""


def test_the_policy_is_chosen_on_the_command_line() -> None:
    done = python("-c", CHOSEN_BY_NAME)
    assert "MemplanAC.Config(" in done.stdout and "budget='3GiB'" in done.stdout, done.stderr[-2000:]
