"""Threads, forked and spawned processes, workers that load data, and two starts that fill one cache."""

from __future__ import annotations

import multiprocessing
import os
import resource
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from networks import layered
from torch.utils.data import DataLoader, Dataset

import memplan
from memplan.costs.measure import Costs
from memplan.library.planning import Planning
from memplan.run import backend

FORKED = "Unable to handle autograd's threading"  # what PyTorch says of backward in a child, whoever compiled
SECONDS = 300  # of a child on a busy machine


def compiled_of(model: Any, cache: str | None = None) -> Any:
    return memplan.compile(model, "floor+0%", time_limit=0, on_infeasible="smallest", cache=cache)


def step(call: Callable[..., Any], model: torch.nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    loss = call(x).pow(2).sum()
    return [loss.detach(), *torch.autograd.grad(loss, list(model.parameters()))]


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) > 0 and all(map(torch.equal, a, b))


def in_child(work: Callable[[], Any]) -> str:
    """What the work returns or raises in a forked process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = str(work())
        except BaseException as error:
            said = str(error)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        text = told.read()
    assert os.waitpid(child, 0)[1] == 0
    return text


@pytest.mark.filterwarnings("ignore:This process")  # newer Pythons warn of forks beside threads
@pytest.mark.parametrize("first", ["parent", "child"])
def test_a_forked_child_computes_the_same_or_is_told_why_not(first: str) -> None:
    model, x = layered()
    expected = step(model, model, x)
    compiled = compiled_of(model)
    if first == "parent":
        assert same(step(compiled, model, x), expected)
    for work in (
        lambda: torch.equal(compiled(x).pow(2).sum(), expected[0]),
        lambda: same(step(compiled, model, x), expected),
    ):
        said = in_child(work)
        assert said == "True" or FORKED in said
    assert same(step(compiled, model, x), expected)


class Rows(Dataset):  # type: ignore[type-arg]
    """Of which each was once through the model, if there is one."""

    def __init__(self, through: Any = None) -> None:
        self.through = through

    def __len__(self) -> int:
        return 8

    def __getitem__(self, k: int) -> torch.Tensor:
        row = torch.randn(8, generator=torch.Generator().manual_seed(k))
        if self.through is not None:
            with torch.no_grad():
                self.through(row[None])
        return row


@pytest.mark.filterwarnings("ignore:This process")
def test_workers_that_load_data_run_beside_a_compiled_model_and_may_call_it() -> None:
    model, _ = layered()
    compiled = compiled_of(model)
    expected = [step(model, model, x) for x in DataLoader(Rows(), batch_size=4)]
    for rows in (Rows(), Rows(compiled)):
        loader = DataLoader(rows, batch_size=4, num_workers=2, multiprocessing_context="fork")
        got = [step(compiled, model, x) for x in loader]
        assert len(got) == 2 and all(map(same, got, expected))


def in_threads(n: int, work: Callable[[int], None]) -> None:
    """Runs it so often at once; what any raises is raised here."""
    raised: list[BaseException] = []

    def one(k: int) -> None:
        try:
            work(k)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=one, args=(k,)) for k in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if raised:
        raise raised[0]


@pytest.mark.filterwarnings("ignore::memplan.FallbackWarning")
@pytest.mark.skipif(
    "2.6" <= torch.__version__ < "2.11", reason="PyTorch's counters end threads that compile at once, whatever the backend"
)
@pytest.mark.parametrize("shared", [True, False])
def test_threads_compile_and_run_at_once(shared: bool) -> None:
    made = [layered() for _ in range(1 if shared else 3)]
    calls = [compiled_of(m) for m, _ in made]
    eager, _ = layered()
    inputs = [torch.randn(rows, 8, generator=torch.Generator().manual_seed(rows)) for rows in (1, 2, 3)]
    expected = [step(eager, eager, x) for x in inputs]
    right = []

    def work(k: int) -> None:
        for j in range(6):
            at, which = (k + j) % 3, 0 if shared else k
            right.append(same(step(calls[which], made[which][0], inputs[at]), expected[at]))

    in_threads(3, work)
    assert right == [True] * 18


def start(folder: str, told: Any) -> None:
    """What a spawned process does."""
    torch.set_num_threads(1)
    model, x = layered()
    told.put(same(step(compiled_of(model, folder), model, x), step(model, model, x)))


def test_two_starts_at_once_fill_one_cache_that_a_third_one_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    starts = [context.Process(target=start, args=(str(tmp_path), told)) for _ in range(2)]
    for process in starts:
        process.start()
    assert [told.get(timeout=SECONDS) for _ in starts] == [True, True]
    for process in starts:
        process.join()
    assert {p.name.partition("-")[0] for p in tmp_path.iterdir()} == {"costs", "plan"}
    monkeypatch.setattr(backend, "COSTS", Costs())
    monkeypatch.setattr(Costs, "_measure_new", lambda *_: pytest.fail("what is known was measured"))
    model, x = layered()
    assert same(step(compiled_of(model, str(tmp_path)), model, x), step(model, model, x))


def test_a_disk_that_is_full_keeps_nothing_and_harms_nothing(tmp_path: Path) -> None:
    model, x = layered()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        got = step(compiled_of(model, str(tmp_path)), model, x)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert same(got, step(model, model, x)) and list(tmp_path.iterdir()) == []


def test_files_of_the_cache_that_are_cut_anywhere_are_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = layered()
    expected = step(model, model, x)
    assert same(step(compiled_of(model, str(tmp_path)), model, x), expected)
    whole = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert whole
    for share in (0, 0.3, 0.99):
        for path, text in whole.items():
            path.write_bytes(text[: int(share * len(text))])
        torch._dynamo.reset()
        monkeypatch.setattr(backend, "COSTS", Costs())
        assert same(step(compiled_of(model, str(tmp_path)), model, x), expected)


def test_a_plan_of_another_version_is_not_taken(tmp_path: Path) -> None:
    planning = Planning("one")
    planning.connect(planning.add_node("f", "op", "forward", 1e-6, 0), "writes", [planning.add_storage("a", "activation", 8)])
    planning.finish()
    assert planning.solve(8)
    path = tmp_path / "plan.json"
    planning.save_plan(path)
    text = path.read_text()
    for wrong in ("{}", "[]", "\0", text.replace('"version":1,', '"version":99,'), text.replace("steps", "stops"), text * 2):
        assert wrong != text
        path.write_text(wrong)
        with pytest.raises(memplan.MemplanError):
            planning.take(8, path)
        assert planning.steps() == [0]
