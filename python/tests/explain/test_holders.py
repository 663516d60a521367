"""The variable that holds a graph or a result: in attributes, dictionaries, lists, closures and modules."""

from __future__ import annotations

import functools
import sys
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import nn

from memplan.explain import failed_allocation_hooks
from memplan.explain.account import OTHER, SAVED, Account, Objects, Piece, fill_others
from memplan.explain.calls import Call
from memplan.explain.earlier_graphs import held_by
from memplan.explain.explanation import at_of, filled_by_others
from memplan.explain.failure import Failure, Where, of_frame
from memplan.explain.suggestion import Room, Step, suggest

WIDTH = 8
OF_THE_MODULE: list[Any] = []
HERE = "explain/test_holders.py"


@dataclass
class Meter:
    values: list[Any] = field(default_factory=list)
    total: Any = 0.0


class Slotted:
    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept: Any = []


class Trainer:
    def __init__(self) -> None:
        self.history: list[Any] = []
        self.meter, self.slotted = Meter(), Slotted()
        self.logs: dict[str, list[Any]] = defaultdict(list)
        self.best: dict[int, Any] = {}
        self.last: deque[Any] = deque(maxlen=3)
        self.note = closure()

    def add(self, loss: Any) -> None:
        self.meter.total = self.meter.total + loss


def closure() -> Callable[[Any], None]:
    seen: list[Any] = []

    def note(loss: Any) -> None:
        seen.append(loss)

    return note


LEAKS: dict[str, tuple[Callable[[Trainer, Any, int], Any], str]] = {
    "an attribute": (lambda t, loss, k: t.add(loss), "`trainer.meter.total`"),
    "a list": (lambda t, loss, k: t.history.append(loss), "`trainer.history`, a list of 3"),
    "a list of an attribute": (lambda t, loss, k: t.meter.values.append(loss), "`trainer.meter.values`, a list of 3"),
    "lists in a dictionary": (
        lambda t, loss, k: t.logs["train/loss"].append(loss),
        '`trainer.logs["train/loss"]`, a list of 3',
    ),
    "a dictionary": (lambda t, loss, k: t.best.update({k: loss}), "`trainer.best`, a dict of 3"),
    "rows": (lambda t, loss, k: t.history.append({"loss": loss, "step": k}), "`trainer.history`, a list of 3"),
    "a deque": (lambda t, loss, k: t.last.append(loss), "`trainer.last`, a deque of 3"),
    "a slot": (lambda t, loss, k: t.slotted.kept.append(loss), "`trainer.slotted.kept`, a list of 3"),
    "a closure": (lambda t, loss, k: t.note(loss), "`seen` in the closure of `trainer.note`, a list of 3"),
    "a module": (lambda t, loss, k: OF_THE_MODULE.append(loss), "`OF_THE_MODULE`, a list of 3"),
}


def holders_now() -> list[str]:
    """Of all graphs with a tanh, for the caller's frames."""
    objects = Objects(torch.device("cpu"))
    nodes = {n for n in objects.nodes() if n.name() == "TanhBackward0"}
    return held_by(objects, nodes, of_frame(sys._getframe(1)))


@pytest.mark.parametrize("name", LEAKS)
def test_the_holder_of_earlier_graphs_is_named_and_the_last_loss_is_not(name: str) -> None:
    keep, words = LEAKS[name]
    OF_THE_MODULE.clear()
    layer, trainer = nn.Linear(WIDTH, WIDTH), Trainer()
    for k in range(3):
        loss = layer(torch.ones(4, WIDTH)).tanh().sum()
        keep(trainer, loss, k)
    found = holders_now()
    assert found[0].startswith(f"{words} (") and found[0].endswith(f"{HERE})")
    assert not any(f.startswith("`loss`") for f in found)
    OF_THE_MODULE.clear()


def account_of(results: list[torch.Tensor], saved_bytes: int) -> Account:
    account = Account(torch.device("cpu"))
    objects = Objects(account.device)
    objects.tensors = [t for t in objects.tensors if any(t is r for r in results)]
    fill_others(account, objects, of_frame(sys._getframe(1)))
    account.pieces[-1] = Piece(saved_bytes, SAVED)
    return account


def test_results_that_fill_the_memory_are_named_in_place_of_a_plan() -> None:
    predictions = [torch.zeros(1000) for _ in range(5)]
    found = filled_by_others(account_of(predictions, 1000))
    assert found is not None and not found.line
    assert "`predictions`, a list of 5 holds 19.5" in found.sentence and "no plan of a step changes" in found.sentence
    assert filled_by_others(account_of(predictions, 10**6)) is None, "a plan of the step changes more"
    assert account_of(predictions, 0).total(OTHER) == 20_000


def step_of(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> Step:
    call = Call.of(model, (torch.ones(4, WIDTH),), {})
    return Step(call, model, optimizer, ("model", "optimizer"), torch.device("cpu"), is_loss=False)


def test_where_static_memory_alone_is_too_large_no_smaller_batch_is_suggested() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, 1000), nn.Linear(1000, WIDTH))
    adam = torch.optim.AdamW(model.parameters(), foreach=False)
    n_bytes = sum(p.numel() * 4 for p in model.parameters())
    step = step_of(model, adam)
    assert step.static_bytes() == 4 * n_bytes + 4 * len(adam.param_groups[0]["params"])
    static = suggest(step, Room(3 * n_bytes, 0, 3 * n_bytes)).sentence
    assert "no plan and no batch fits" in static and "gradients and the optimizer's state alone need" in static
    assert "smaller batch" not in static and "LoRA" in static
    beside = suggest(step, Room(5 * n_bytes, 2 * n_bytes, 5 * n_bytes)).sentence
    assert "of others" in beside and "no batch fits" in beside


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (Where("layer", "train.py:3"), "of layer, train.py:3"),
        (Where("layer", ""), "of layer"),
        (Where("", "train.py:3"), "at train.py:3"),
        (Where("", ""), ""),
    ],
)
def test_a_place_that_is_not_known_is_left_out(where: Where, words: str) -> None:
    assert at_of(where) == words


def test_an_explanation_that_runs_out_of_memory_is_made_without_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def explain(failure: Failure, last: Any, reserved: Any) -> Any:
        asked.append(last)
        if last is not None:
            raise MemoryError
        return failed_allocation_hooks.explain.__wrapped__(failure, last, reserved)  # type: ignore[attr-defined]

    functools.update_wrapper(explain, failed_allocation_hooks.explain)
    monkeypatch.setattr(failed_allocation_hooks, "explain", explain)
    failure = Failure(4096, torch.device("cpu"), of_frame(sys._getframe()))
    model = nn.Linear(WIDTH, WIDTH)
    found = failed_allocation_hooks.explained(failure, Call.of(model, (), {}), None)
    assert asked[1] is None and "memory also ran out" in str(found)


def test_an_explanation_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def explain(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(failed_allocation_hooks, "explain", explain)
    with failed_allocation_hooks.Watching() as watched:
        watched.install()
        watched._passes(MemoryError("not enough memory"))
        watched.remove()
    said = capsys.readouterr().err
    assert "without an explanation: memory also ran out while memplan explained it" in said and "MemoryError:" not in said
