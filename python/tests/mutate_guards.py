"""Switches off each guard of the package in turn and runs the test that must then fail. A tool, run by hand.

A guard warns or refuses before the first wrong step, if a plan cannot have eager PyTorch's bits or the planned peak.

    python3 tests/mutate_guards.py          all, some minutes
    python3 tests/mutate_guards.py ledger   only guards whose file or test contains this word
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

PYTHON = Path(__file__).resolve().parent.parent
RED = 1  # how pytest ends when a test has failed, and nothing else was wrong
NOT_RUN = -1


class Guard(NamedTuple):
    """`text` is once in the file, and is replaced; the test is `file.py` or `file.py -k expression`, without `test_`."""

    file: str
    text: str
    replacement: str
    test: str


def off(file: str, condition: str, test: str) -> Guard:
    """A condition that is never true."""
    return Guard(file, f"if {condition}:", "if False:", test)


GUARDS = [
    # Between forward and backward
    off("run/saved_tensors.py", "version_of(tensor) != version", "between.py -k what_eager_saves_and_refuses"),
    Guard("run/saved_tensors.py", "bool(keys_of([o]) & read)", "False", "between.py -k what_eager_saves_and_refuses"),
    off("run/saved_tensors.py", "not self.inputs", "between.py -k no_room_to_copy")._replace(replacement="if True:"),
    Guard("graph/capture.py", "returns_apart = True", "returns_apart = False", "between.py -k into_outputs_that_eager"),
    Guard("plan/emit.py", "capture.returns_apart and with_inputs", "False", "between.py -k into_inputs_that_eager"),
    # Steps of several calls
    Guard("run/ledger.py", "self.compare(parameters, LEDGER.n_bytes, LEDGER.n_calls)", "pass", "ledger.py -k at_the_call"),
    Guard("run/ledger.py", "node.register_prehook(uncaptured(begins))", "pass", "ledger.py -k beside_a_call_is_said"),
    Guard("run/ledger.py", "gradients = gradient_bytes(parameters)", "gradients = 0", "ledger.py -k beside_a_call_is_said"),
    Guard(
        "run/ledger.py", "self.go_beyond(n_bytes, n_calls, gradients, uncounted)", "pass", "ledger.py -k break_in_a_loop_beyond"
    ),
    Guard("run/ledger.py", "call.measured.feedback.keep_less(", "str(", "ledger.py -k chain"),
    Guard("run/ledger.py", "watch(node, inputs, outputs, lambda", "str(node) and (lambda", "ledger.py -k loss_outside"),
    Guard("run/ledger.py", "and not profiler_is_on()", "", "ledger.py -k no_profiler_watches"),
    off("run/budget_feedback.py", "not causes <= self.causes", "ledger.py -k beside_a_call_is_said"),
    Guard("plan/graph_report.py", "self.planned_bytes if self.is_seen else 0", "0", "returned.py -k most_of_what_was_seen"),
    Guard("run/captured_graph.py", "[first + k for k in gone]", "range(len(planner.held))", "returned.py -k however_it_uses"),
    # What no plan is for
    off("run/fallback.py", "transform := transform_now()", "eagerly.py -k inside_a_transformation"),
    off("run/fallback.py", "is_forward_mode()", "eagerly.py -k inside_a_transformation"),
    off("run/fallback.py", "mode := mode_now()", "eagerly.py -k inside_a_transformation"),
    off("run/fallback.py", "has_hooks_on_all()", "eagerly.py -k hook_on_all_modules"),
    Guard("run/fallback.py", "or is_symbolically_traced()", "", "eagerly.py -k traced"),
    Guard("run/fallback.py", "self.say(reason_of(error), str(error))", "pass", "eagerly.py -k does_not_capture"),
    Guard("run/fallback.py", "where = line_of(error)", 'where = ""', "eagerly.py -k does_not_capture"),
    Guard("run/fallback.py", "if not is_limit(error):", "if True:", "sizes.py -k all_limits"),
    off("run/in_place.py", "is_replica(module)", "in_place.py -k replica"),
    off("graph/joint.py", "is_mutating(node)", "custom_operators.py -k writes_into_its_arguments"),
    off("graph/capture.py", "any(map(is_sparse, tensors_of(value)))", "odd_modules.py -k sparse_gradient"),
    Guard("graph/capture.py", "(is_symbol(value) and not is_number(value)) or ", "False and ", "api.py -k cannot_be_planned"),
    Guard(
        "run/backend.py", 'warnings.warn(f"memplan does not plan', 'str(f"memplan does not plan', "api.py -k cannot_be_planned"
    ),
    off("run/backend.py", "self.is_fallback_graph", "sizes.py -k last_graph"),
    Guard("run/backend.py", "warnings.warn(sentence, FallbackWarning, stacklevel=3)", "pass", "sizes.py -k for_constants"),
    Guard("costs/measure.py", "or is_foreign(node) or has_own", "or has_own", "custom_operators.py -k does_not_run"),
    Guard("costs/measure.py", "calls if is_foreign(node))", "calls if False)", "custom_operators.py -k does_not_run"),
    Guard("run/backend.py", ", *COSTS.not_run(joint.graph.nodes)", ",", "memory.py -k run_alone"),
    Guard("graph/operators.py", "and (not is_foreign(node) or any(", "and (True or any(", "custom_operators.py -k state_moves"),
    # Bits
    Guard(
        "run/backend.py", "as_at_first(called) if writes_into_inputs() else called", "called", "odd_modules.py -k share_memory"
    ),
    off("run/backend.py", "captured.cast_inside", "autocast.py -k backward_inside"),
    Guard("run/verify.py", "warnings.warn(", "str(", "verify.py -k difference_is_told"),
    Guard("run/second_order.py", "        self.say(\n", "        str(\n", "eagerly.py -k differentiated_as_by_eager"),
    off(
        "run/second_order.py",
        "any(i is None and isinstance(k, weakref.ref) for i, k in zip(inputs, call.kept))",
        "eagerly.py -k gone_or_written_over",
    ),
    off(
        "run/second_order.py",
        "any(isinstance(inputs[k], torch.Tensor) and inputs[k].requires_grad for k in written)",
        "eagerly.py -k gone_or_written_over",
    ),
    off(
        "run/second_order.py",
        "any(a != b for k, (a, b) in enumerate(zip(call.versions, now)) if k not in written)",
        "eagerly.py -k cannot_be_differentiated",
    ),
    # Budgets
    Guard("plan/planner.py", "warnings.warn(sentence + ", "str(sentence + ", "api.py -k impossible_budget"),
    Guard(
        "plan/planner.py",
        "raise BudgetError(\n            sentence,",
        "return str(\n            sentence,",
        "api.py -k impossible",
    ),
    Guard("checkpoints/export.py", "warnings.warn(", "str(", "export.py -k what_cannot_is_said"),
    off("torch_internals/autograd.py", "profiler_is_on()", "memory.py -k inside_a_profiler"),
    # Several devices and whole steps
    Guard("run/backend.py", "            refuse_cut()\n", "", "distributed.py -k replicas"),
    Guard("api.py", "    refuse_sharded(model)\n", "", "distributed.py -k sharded"),
    off("step/updates.py", "base.__name__ in NOT_ALONE", "train_step.py -k refusals"),
    off("step/updates.py", 'optimizer.defaults.get("differentiable")', "train_step.py -k refusals"),
    off("step/updates.py", "has_step_hooks(self.optimizer)", "train_step.py -k refusals"),
    Guard(
        "step/updates.py",
        "parameter.grad is not None:\n                raise",
        "False:\n                raise",
        "train_step.py -k refusals",
    ),
    off("step/updates.py", "has_gradient_hooks(parameter)", "train_step.py -k refusals"),
    off("step/updates.py", 'repr({**group, "params": None}) != before', "train_step.py -k refusals"),
    Guard(
        "step/updates.py",
        "if updates is None or own is None or given.data_ptr() != own.data_ptr():",
        "if updates is None or own is None:",
        "train_step.py -k refusals",
    ),
    off(
        "step/step_graph.py",
        'len(self.given_tangents) != 1 or self.given_tangents[0].meta["val"].numel() != 1',
        "train_step.py -k several_elements",
    ),
    off("step/step_graph.py", "len(places) > 1", "train_step.py -k cannot_be_planned"),
    off("step/step_graph.py", "len(self.gradients) < len(self.primals)", "train_step.py -k not_guessed"),
    # Meshes
    off("mesh/ranks.py", "not isinstance(given, Mapping) or not given", "mesh.py -k refused"),
    off("mesh/ranks.py", "name not in (REPLICAS, SHARDS, PARTS)", "mesh.py -k refused"),
    # Gradients that stay whole
    Guard("torch_internals/sharding.py", "return kept.add_(gradient)", "return gradient", "accumulation.py -k who_sums"),
    off("torch_internals/sharding.py", "k not in which and has_gradient(parameter)", "accumulation.py -k not_summed"),
    Guard("graph/shards.py", "ctx.set_materialize_grads(False)", "pass", "accumulation.py -k not_summed"),
]


def how_tests_end(guard: Guard | None, test: str) -> int:
    """pytest's answer over a copy of the package in which this guard is off."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("src", "tests", "bench", "pyproject.toml"):
            source, target = PYTHON / name, Path(folder) / "python" / name
            target.parent.mkdir(exist_ok=True)
            (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
        if guard is not None:
            path = Path(folder) / "python" / "src" / "memplan" / guard.file
            text = path.read_text(encoding="utf-8")
            if text.count(guard.text) != 1:
                say(f"{guard.file} has {guard.text!r} {text.count(guard.text)} times")
                return NOT_RUN
            path.write_text(text.replace(guard.text, guard.replacement), encoding="utf-8")
        file, _, only = test.partition(" -k ")
        (path,) = (Path(folder) / "python" / "tests").rglob(f"test_{file}")
        command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(path)]
        command += ["-k", only] if only else []
        return subprocess.run(command, cwd=Path(folder) / "python", capture_output=True, check=False).returncode


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(wanted: list[str]) -> int:
    chosen = [g for g in GUARDS if not wanted or any(w in g.file or w in g.test for w in wanted)]
    green: dict[str, bool] = {}
    missed = 0
    for guard in chosen:
        if guard.test not in green:
            green[guard.test] = how_tests_end(None, guard.test) == 0
            if not green[guard.test]:
                say(f"does not pass as it is: {guard.test}")
        is_red = green[guard.test] and how_tests_end(guard, guard.test) == RED
        missed += not is_red
        say(f"{'red' if is_red else 'NOT RED':8}{guard.file}: {guard.text.strip().splitlines()[0]}")
    say(f"{len(chosen) - missed} of {len(chosen)} guards turn their test red")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
