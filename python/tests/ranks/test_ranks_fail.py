"""Ranks of a sharded model of which one is killed, raises, computes something else, or cannot write: those that are left end
with a sentence that names it, none waits for ever, and nothing stays behind."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from sharded_models import numbers, pytestmark, sharded  # noqa: F401
from torch import nn

import memplan
from memplan.plan import planner
from memplan.ranks.rank_group import RankGroup
from memplan.run import backend

HARD_LIMIT = 400.0  # seconds of a case, on a machine with other work
TIMEOUT = 4.0
KILLED = -int(signal.SIGKILL)
SUMS_OR_GATHERS = "(sum gradients of layers.0|gather the parameters of layers.1)"  # as planned


class Layers(nn.Module):
    """What one rank may do otherwise than the other."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(127, 127) for _ in range(2))
        self.raises = self.asks = self.is_other = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.raises:
            raise ValueError("this rank does not want to")
        if self.asks and x.sum().item() > 1e9:
            return x
        for layer in self.layers:
            x = layer(x.float())
            x = torch.tanh(x) if self.is_other else torch.relu(x)
        return nn.functional.dropout(x, 0.1, self.training).square().mean()


def compiled(budget: str = "min+50%", timeout: float = 60.0, **options: Any) -> Any:
    return memplan.compile(sharded(Layers), budget, timeout=timeout, **options)


def step(model: Any, rank: int, rows: int = 256) -> None:
    model(numbers(0, rank)[0][:rows]).backward()


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


# ---- one rank is killed


def first_killed_while_measuring(rank: int, patch: pytest.MonkeyPatch) -> None:
    if rank == 0:
        patch.setattr(backend.COSTS, "measure", die)
    step(compiled(), rank)


def last_killed_while_measuring(rank: int, patch: pytest.MonkeyPatch) -> None:
    if rank == 1:
        patch.setattr(backend.COSTS, "measure", die)
    step(compiled(), rank)


def killed_with_a_plan(rank: int, patch: pytest.MonkeyPatch) -> None:
    """Behind all that ranks tell each other of it."""
    if rank == 1:
        patch.setattr(planner.GraphPlanner, "report", die)
    step(compiled(), rank)


def killed_in(rank: int, patch: pytest.MonkeyPatch, collective: str) -> None:
    model = compiled()
    step(model, rank)
    if rank == 1:
        patch.setattr(torch.distributed, collective, die)
    step(model, rank)


def killed_in_forward(rank: int, patch: pytest.MonkeyPatch) -> None:
    killed_in(rank, patch, "all_gather_into_tensor")


def killed_in_backward(rank: int, patch: pytest.MonkeyPatch) -> None:
    killed_in(rank, patch, "all_reduce")


# ---- one rank is another


def raises_while_it_is_captured(rank: int, _: Any) -> None:
    model = compiled()
    model.raises = rank == 1
    step(model, rank)


def asks_for_a_number(rank: int, _: Any) -> None:
    model = compiled()
    model.asks = rank == 0
    step(model, rank)


def raises_while_it_is_planned(rank: int, patch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError("no space left on device")

    if rank == 1:
        patch.setattr(memplan.library.planning.Planning, "take", full)
    step(compiled(), rank)


def has_another_size_later(rank: int, _: Any) -> None:
    model = compiled(timeout=TIMEOUT, time_limit=0.0)
    step(model, rank)
    step(model, rank, rows=256 - 64 * rank)


def does_not_come(rank: int, _: Any) -> None:
    model = compiled(timeout=TIMEOUT, time_limit=0.0)
    if rank == 0:
        step(model, rank)
    time.sleep(3 * TIMEOUT)


def has_another_type(rank: int, _: Any) -> None:
    model = compiled()
    model(numbers(0, rank)[0].to((torch.float32, torch.bfloat16)[rank])).backward()


def has_another_graph(rank: int, _: Any) -> None:
    model = compiled()
    model.is_other = rank == 1
    step(model, rank)


def has_another_budget(rank: int, _: Any) -> None:
    step(compiled(("min+50%", "min+40%")[rank]), rank)


def has_another_effort(rank: int, _: Any) -> None:
    step(compiled(effort=("quick", "normal")[rank]), rank)


# ---- nothing is wrong


def trained(model: Any, rank: int) -> list[torch.Tensor]:
    torch.manual_seed(5 + rank)  # another seed on each rank
    step(model, rank)
    return [p.grad.to_local() for p in model.parameters()]


def works(rank: int, budget: str = "min+50%", **options: Any) -> None:
    eager = trained(sharded(Layers), rank)
    with warnings.catch_warnings():
        warnings.simplefilter("error", memplan.FallbackWarning)
        ours = trained(compiled(budget, **options), rank)
    assert all(torch.equal(a, b) for a, b in zip(eager, ours))


def has_another_seed_and_cache(rank: int, patch: pytest.MonkeyPatch) -> None:
    folder = os.environ["TMPDIR"] + "/../kept"
    works(rank, cache=(folder, "off")[rank])
    torch._dynamo.reset()
    works(rank, cache=("off", folder)[rank])


def cannot_write(rank: int, _: Any) -> None:
    works(rank, cache="/proc/memplan")


def has_a_full_disk(rank: int, _: Any) -> None:
    works(rank, cache=os.environ["TMPDIR"])


def speaks_through_a_group_of_its_own(rank: int, patch: pytest.MonkeyPatch) -> None:
    """As where ranks have another backend than gloo."""
    asked, patched = torch.distributed.get_backend, []

    def another(group: Any = None) -> str:
        patched.append(group)
        return "nccl" if len(patched) == 1 else asked(group)

    groups = RankGroup([torch.distributed.group.WORLD])
    with patch.context() as only:
        only.setattr(torch.distributed, "get_backend", another)
        with groups.planning("this", 30.0):
            assert groups.of_all(rank) == [0, 1] and groups.of_first(rank) == 0
    assert groups.talking[0] is not groups.groups[0]
    with pytest.raises(memplan.errors.RankError, match="rank 1 has raised KeyError: 'x'"), groups.planning("this", 30.0):
        if rank == 1:
            raise KeyError("x")


# ---- running them


def process(rank: int, folder: str, what: Callable[[int, pytest.MonkeyPatch], None]) -> None:
    faulthandler.dump_traceback_later(HARD_LIMIT * 0.9)
    torch.set_num_threads(1)
    os.environ.update(MEMPLAN_CACHE="off", TMPDIR=f"{folder}/tmp")
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    said = ""
    try:
        with pytest.MonkeyPatch.context() as patch:
            what(rank, patch)
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
        traceback.print_exc()
    Path(folder, f"rank{rank}.txt").write_text(said)
    torch.distributed.destroy_process_group()


def ended(what: Callable[[int, pytest.MonkeyPatch], None], folder: Path) -> tuple[list[int | None], list[str]]:
    """Exit codes and sentences of two ranks; a rank that does not end is killed, and its code is None."""
    (folder / "tmp").mkdir(exist_ok=True)
    ranks = [torch.multiprocessing.get_context("spawn").Process(target=process, args=(r, str(folder), what)) for r in (0, 1)]
    for rank in ranks:
        rank.start()
    deadline = time.monotonic() + HARD_LIMIT
    for rank in ranks:
        rank.join(max(0.1, deadline - time.monotonic()))
    codes = [rank.exitcode for rank in ranks]
    for rank in ranks:
        rank.kill()
        rank.join()
    paths = [folder / f"rank{r}.txt" for r in (0, 1)]
    return codes, [path.read_text() if path.exists() else "" for path in paths]


PLANNED = "cannot be planned for all ranks: "
OTHER = r"graph 0/0 differs between rank 1 and rank 0, .*"


@pytest.mark.parametrize(
    ("what", "killed", "sentence"),
    [
        (first_killed_while_measuring, 0, PLANNED + "rank 0 has ended: "),
        (last_killed_while_measuring, 1, PLANNED + "rank 1 has ended: "),
        (killed_with_a_plan, 1, PLANNED + "rank 1 has ended: "),
        (killed_in_forward, 1, "rank 0 failed while it waited for the other ranks to gather the parameters of layers.1: "),
        (killed_in_backward, 1, f"rank 0 failed while it waited for the other ranks to {SUMS_OR_GATHERS}: "),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_who_is_left_says_who_is_gone(what: Any, killed: int, sentence: str, tmp_path: Path) -> None:
    codes, said = ended(what, tmp_path)
    assert codes == [KILLED, 0][:: 1 - 2 * killed], (codes, said)
    assert re.search("RankError: .*" + sentence, said[1 - killed]), said
    assert not [path for path in (tmp_path / "tmp").iterdir() if "memplan" in path.name]


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (raises_while_it_is_captured, PLANNED + r"rank 1 has raised \w+: "),
        (asks_for_a_number, PLANNED + r"rank 0 has raised \w+: "),
        (raises_while_it_is_planned, PLANNED + "rank 1 has raised OSError: no space left on device"),
        (has_another_type, OTHER + "their types on rank 1: torch.bfloat16, and on rank 0: torch.float32"),
        (has_another_graph, OTHER + "its operators on rank 1: aten.tanh"),
        (has_another_budget, OTHER + r"the option budget on rank 1: min\+40%, and on rank 0: min\+50%"),
        (has_another_effort, OTHER + "the option effort on rank 1: normal, and on rank 0: quick"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_all_ranks_say_which_is_another(what: Any, sentence: str, tmp_path: Path) -> None:
    codes, said = ended(what, tmp_path)
    assert codes == [0, 0] and all(re.search("RankError: .*" + sentence, s) for s in said), (codes, said)


@pytest.mark.parametrize("what", [has_another_size_later, does_not_come], ids=lambda what: what.__name__)
def test_no_rank_waits_longer_than_it_was_told(what: Any, tmp_path: Path) -> None:
    codes, said = ended(what, tmp_path)
    assert codes == [0, 0], (codes, said)
    assert re.search(PLANNED + "rank . has not answered within 4 seconds", " ".join(said)), said
    assert what is does_not_come or all("RankError" in s for s in said), said


@pytest.mark.parametrize(
    "what",
    [has_another_seed_and_cache, cannot_write, has_a_full_disk, speaks_through_a_group_of_its_own],
    ids=lambda w: w.__name__,
)
def test_what_may_differ_does(what: Any, tmp_path: Path) -> None:
    is_mounted = False
    if what is has_a_full_disk:
        (tmp_path / "tmp").mkdir()
        is_mounted = os.system(f"mount -t tmpfs -o size=4k none {tmp_path}/tmp 2>/dev/null") == 0
        if not is_mounted:
            pytest.skip("no disk can be mounted here")
        (tmp_path / "tmp" / "left over").write_bytes(bytes(4096))
    try:
        codes, said = ended(what, tmp_path)
    finally:
        if is_mounted:
            os.system(f"umount {tmp_path}/tmp")
    assert codes == [0, 0] and said == ["", ""], (codes, said)
