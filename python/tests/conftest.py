"""Before each test, reset the state of PyTorch and memplan. `--short` selects the cases that short.txt lists."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from memplan.run.ledger import LEDGER

TESTS = Path(__file__).parent


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MEMPLAN_CACHE", "off")
    torch.set_num_threads(1)
    torch._dynamo.reset()
    if LEDGER.n_calls:  # an earlier test left a graph in a reference cycle
        gc.collect()
    yield
    torch._dynamo.reset()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--short", action="store_true", help="only the cases that tests/short.txt lists")
    parser.addoption("--share", metavar="K/N", default="1/1", help="only every N-th case, beginning with case K")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = short_cases(items) if config.getoption("--short") else list(items)
    first, n = map(int, config.getoption("--share").split("/"))
    chosen = chosen[first - 1 :: n]
    kept = set(map(id, chosen))
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = chosen


def short_cases(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the cases that short.txt lists: all cases of a file, or the first case of a function.

    A line without a case is an error, unless pytest has collected no case of its file.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        file = item.path.relative_to(TESTS).as_posix()
        cases.setdefault(file, []).append(item)
        cases.setdefault(f"{file}::{item.nodeid.partition('::')[2].partition('[')[0]}", []).append(item)
    chosen: list[pytest.Item] = []
    for line in (TESTS / "short.txt").read_text(encoding="utf-8").splitlines():
        file, _, function = line.partition("::")
        if file.startswith("#") or file not in cases:
            continue
        if line not in cases:
            raise pytest.UsageError(f"tests/short.txt: {file} has no {function}")
        chosen += cases[line][:1] if function else cases[line]
    return chosen
