"""One plan for all ranks.

Each rank measures operator costs, and searches may end at different times. But ranks that gather in different orders would
wait for each other forever. All ranks therefore use the costs and plans of the first rank. If the graph of a rank differs, all
ranks raise an error that names the rank.

Ranks exchange messages at fixed stages of planning: each rank sends one message to the first rank, which answers all. No rank
waits forever for a rank that has failed, has ended, or is late. The other ranks receive its number and raise an error.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from itertools import zip_longest
from typing import Any, TypeVar

import torch
from torch import fx

from memplan.costs.measure import Cost, describe
from memplan.errors import MemplanError, RankError
from memplan.graph.capture import Capture, tensors_of
from memplan.graph.collectives import is_functional
from memplan.graph.distributed import plainly
from memplan.graph.shards import is_ours
from memplan.torch_internals.collectives import outwards
from memplan.torch_internals.sharding import is_real

T = TypeVar("T")
TAG = 20451  # tag of memplan's messages in the process group
ANSWER_SECONDS = 5.0  # seconds that a rank waits for an answer, beyond the time that the first rank waits for messages
BROKEN_OFF_SECONDS = 5.0  # seconds for which Ctrl-C waits for the other ranks
DONE = "the end of planning on all ranks"


@dataclass
class Word:
    """The message of a rank at a stage of planning, or the answer. `trouble`: the failure of the rank, or ""."""

    rank: int
    stage: str
    value: Any = None
    trouble: str = ""


class RankGroup:
    """The ranks that plan together: all ranks of these process groups, innermost group first.

    Without groups, this process alone.
    """

    def __init__(self, groups: Sequence[Any] = ()) -> None:
        self.groups = tuple(groups)
        # for each of the groups: a process group of the same ranks that sends messages from host memory
        self.talking: list[Any] = []
        self.name, self.seconds = "the model", 0.0

    def __bool__(self) -> bool:
        return bool(self.groups)

    def joined(self, groups: Sequence[Any]) -> RankGroup:
        """Return the ranks of this object and of these process groups together."""
        found = outwards([*self.groups, *(g for g in groups if is_real(g))])
        return self if found == list(self.groups) else RankGroup(found)

    def is_first(self) -> bool:
        return all(torch.distributed.get_rank(g) == 0 for g in self.groups)

    @contextlib.contextmanager
    def planning(self, name: str, seconds: float) -> Iterator[None]:
        """Plan a graph within the context. Ranks wait for each other up to `seconds`. If one rank raises an error, all do."""
        self.name, self.seconds = name, seconds
        try:
            yield
        except RankError:
            raise
        except BaseException as error:
            self.tell(error, name, seconds)
            raise
        self.of_first(None, DONE)

    def tell(self, error: BaseException, name: str, seconds: float) -> None:
        """Report this rank's exception to the ranks that plan together.

        Raises RankError if another rank has failed as well. After Ctrl-C it raises nothing.
        """
        if not self.groups:
            return
        is_broken_off = not isinstance(error, Exception)
        self.name, self.seconds = name, min(seconds, BROKEN_OFF_SECONDS) if is_broken_off else seconds
        reason = (str(error).strip() or "without a message").splitlines()[0]
        own = Word(torch.distributed.get_rank(), "", trouble=f"has raised {type(error).__name__}: {reason}")
        with contextlib.suppress(RankError) if is_broken_off else contextlib.nullcontext():
            self._answer_to(own, lambda _: None)

    def of_first(self, value: T, stage: str = "the first rank's values") -> T:
        """Return on all ranks the value that the first rank has passed."""
        first: T = self._decided(stage, value, lambda values: values[0])
        return first

    def of_all(self, value: T, stage: str = "the values of all ranks") -> list[T]:
        """Return the values of all ranks in their order."""
        values: list[T] = self._decided(stage, value, list)
        return values

    def same(self, values: dict[str, list[str]]) -> None:
        """Raise RankError on all ranks if a rank's lists differ from those of the first rank."""
        if self.groups:
            self._decided("the comparison of graphs", (torch.distributed.get_rank(), values), self._compare)

    def _compare(self, all_values: Sequence[tuple[int, dict[str, list[str]]]]) -> None:
        (first, known), *others = all_values
        for rank, other in others:
            for what, here in known.items():
                for a, b in zip_longest(here, other[what], fillvalue="nothing"):
                    if a != b:
                        raise MemplanError(
                            f"{self.name} differs between rank {rank} and rank {first}, so the ranks would wait for"
                            f" each other: {what} on rank {rank}: {b}, and on rank {first}: {a}"
                        )

    def searched(
        self, known: Sequence[str], search: Callable[[], bool], save: Callable[[str], None], take: Callable[[str], bool]
    ) -> bool:
        """Let the first rank search a plan, and distribute the plan through files in memory.

        Args:
            known: a description of the search; it has to be equal on all ranks.
            search: searches a plan on the first rank. Returns whether it found one.
            save: writes the plan to a file.
            take: reads the plan from a file.

        Returns:
            Whether a plan was found.
        """
        if not self.groups:
            return search()
        found, plan = False, b""
        if self.is_first() and (found := search()):
            plan = saved(save)
        asked = torch.distributed.get_rank(), {"its graph and its search": list(known)}

        def decide(values: Sequence[Any]) -> Any:
            self._compare([what for what, _ in values])
            return values[0][1]

        found, plan = self._decided("the plan", (asked, (found, plan)), decide)
        if found and not self.is_first():
            with in_memory(plan) as path:
                take(path)
        return bool(found)

    # ---- messages

    def _decided(self, stage: str, value: Any, decide: Callable[[Sequence[Any]], Any]) -> Any:
        """Apply `decide` to the values of all ranks on the first rank, and return its result. Raises RankError."""
        if not self.groups:
            return decide([value])
        return self._answer_to(Word(torch.distributed.get_rank(), stage, value), decide).value

    def _answer_to(self, own: Word, decide: Callable[[Sequence[Any]], Any]) -> Word:
        # runs in another thread, because PyTorch's compilation modes would apply to the messages' tensors in this thread
        answer = in_daemon(lambda: self._talk(own, decide))
        if answer.trouble:
            raise RankError(answer.trouble)
        return answer

    def _talk(self, own: Word, decide: Callable[[Sequence[Any]], Any]) -> Word:
        """Send messages to the first rank, group by group. The answer of the first rank returns through the same groups."""
        words, heard, answer = [own], [], None
        if not self.talking:
            self.talking = [on_host(group, self.seconds) for group in self.groups]
        for group in self.talking:
            first, *others = torch.distributed.get_process_group_ranks(group)
            if torch.distributed.get_rank() != first:
                answer = self._ask(first, group, words)
                break
            deadline = time.monotonic() + self.seconds
            for rank in others:
                try:
                    words += receive(rank, group, max(1.0, deadline - time.monotonic()))
                    heard.append((rank, group))
                except RankError as error:
                    words.append(Word(rank, own.stage, trouble=str(error)))
        answer = answer or self._answer(words, decide)
        for rank, group in reversed(heard):
            with contextlib.suppress(RankError):
                send([answer], rank, group, ANSWER_SECONDS)
        return answer

    def _ask(self, first: int, group: Any, words: list[Word]) -> Word:
        try:
            send(words, first, group, self.seconds)
            (answer,) = receive(first, group, self.seconds + ANSWER_SECONDS)
        except RankError as error:
            return Word(first, "", trouble=self._sentence(f"rank {first} {error}"))
        return answer

    def _answer(self, words: list[Word], decide: Callable[[Sequence[Any]], Any]) -> Word:
        words = sorted(words, key=lambda w: w.rank)
        first = words[0]
        troubles = [f"rank {w.rank} {w.trouble}" for w in words if w.trouble]
        if len(troubles) == len(words):  # if every rank has failed, each rank raises its own exception
            return Word(first.rank, "")
        if not troubles:
            troubles = [
                f"rank {w.rank} waits for {w.stage}, and rank {first.rank} for {first.stage}"
                for w in words
                if w.stage != first.stage
            ]
        if troubles:
            return Word(first.rank, "", trouble=self._sentence("; ".join(troubles)))
        try:
            return Word(first.rank, "", decide([w.value for w in words]))
        except MemplanError as error:
            return Word(first.rank, "", trouble=str(error))

    def _sentence(self, trouble: str) -> str:
        return f"{self.name} cannot be planned for all ranks: {trouble}"


ALONE = RankGroup()


def in_daemon(call: Callable[[], T]) -> T:
    """Run a call in another thread and return its result. Ctrl-C does not wait for this thread."""
    made: Future[T] = Future()

    def run() -> None:
        try:
            made.set_result(call())
        except BaseException as error:
            made.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return made.result()


def on_host(group: Any, seconds: float) -> Any:
    """Return a group of the same ranks with messages in host memory and this timeout."""
    distributed = torch.distributed
    if distributed.get_backend(group) == "gloo":
        return group
    ranks = distributed.get_process_group_ranks(group)
    return distributed.new_group(ranks, timedelta(seconds=seconds), "gloo", use_local_synchronization=True)


def send(words: list[Word], rank: int, group: Any, seconds: float) -> None:
    message = torch.frombuffer(bytearray(pickle.dumps(words)), dtype=torch.uint8)
    for part in (torch.tensor([message.numel()]), message):
        wait(lambda part=part: torch.distributed.isend(part, rank, group, TAG), seconds)  # type: ignore[misc]


def receive(rank: int, group: Any, seconds: float) -> list[Word]:
    size = torch.zeros(1, dtype=torch.long)
    wait(lambda: torch.distributed.irecv(size, rank, group, TAG), seconds)
    message = torch.empty(int(size), dtype=torch.uint8)
    wait(lambda: torch.distributed.irecv(message, rank, group, TAG), seconds)
    found: list[Word] = pickle.loads(message.numpy().tobytes())
    return found


def wait(begin: Callable[[], Any], seconds: float) -> None:
    """Wait for one message of another rank. Raises RankError with the state of that rank."""
    start = time.monotonic()
    try:
        begin().wait(timedelta(seconds=seconds))
    except RuntimeError as error:
        if time.monotonic() - start >= 0.9 * seconds:
            raise RankError(f"has not answered within {seconds:g} seconds (timeout=)") from None
        raise RankError(f"has ended: {plainly(error)}") from None


def saved(save: Callable[[str], None]) -> bytes:
    """Return the bytes that `save` writes to a pipe."""
    end, beginning = os.pipe()
    read: Future[bytes] = Future()

    def collect() -> None:
        with open(end, "rb") as pipe:
            read.set_result(pipe.read())

    threading.Thread(target=collect, daemon=True).start()
    try:
        save(f"/proc/self/fd/{beginning}")
    finally:
        os.close(beginning)
    return read.result()


@contextlib.contextmanager
def in_memory(content: bytes) -> Iterator[str]:
    """Return the name of a file in memory with this content."""
    with open(os.memfd_create("memplan"), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def agreed(
    rank_group: RankGroup, capture: Capture, options: dict[str, str], costs: dict[fx.Node, Cost], outside_bytes: int
) -> tuple[dict[fx.Node, Cost], int]:
    """Return operator costs and bytes besides the graph that are equal on all ranks.

    Times are those of the first rank; bytes are the maximum over all ranks. The capture receives the same sizes.

    Raises:
        RankError: the graph or the options of a rank differ.
    """
    if not rank_group:
        return costs, outside_bytes
    own = set(capture.static_nodes)
    given = [t for n in capture.primals if n not in own and n.users for t in tensors_of(n.meta.get("val"))]
    sources = [o.source for o in capture.operations if o.source is not None]
    # if the graph has functional collectives, layouts are not compared, because operands may differ between ranks
    differ = any(map(is_functional, sources))
    # operators of FSDP2 are compared by name only, because the sizes of shards may differ between ranks
    calls = [str(n.target) if differ or is_ours(n) else describe(n) for n in sources]
    said = {name: [text] for name, text in options.items()}
    said |= {"the sizes of its inputs": [str(list(t.shape)) for t in given], "their types": [str(t.dtype) for t in given]}
    rank_group.same({**said, "its operators": calls})
    costs = dict(zip(costs, rank_group.of_first(list(costs.values()), "seconds")))
    for node, cost in costs.items():
        capture.take_sizes(node, cost.result_bytes)
    # the sizes of parameters are compared as well, because a capture may lack the padding of a rank's shards
    parameters = [s for s in capture.storages if s.kind == "parameter"]
    outside_bytes += sum(s.n_bytes for s in parameters)
    known = [outside_bytes, *(o.workspace_bytes for o in capture.operations), *(s.n_bytes for s in capture.storages)]
    outside_bytes, *most = (max(n_bytes) for n_bytes in zip(*rank_group.of_all(known, "bytes")))
    for what, n_bytes in zip(capture.operations, most):
        what.workspace_bytes = n_bytes
    for storage, n_bytes in zip(capture.storages, most[len(capture.operations) :]):
        storage.n_bytes = n_bytes
    return costs, max(0, outside_bytes - sum(s.n_bytes for s in parameters))


def agreed_again(rank_group: RankGroup, capture: Capture, options: dict[str, str], outside_bytes: int) -> int:
    """Return the bytes besides a graph that is planned again: their maximum over all ranks.

    The bytes that the graph's calls reserve for other calls become the maximum over all ranks as well. Raises RankError if
    options differ.
    """
    if not rank_group:
        return outside_bytes
    rank_group.same({name: [text] for name, text in options.items()})
    boundary = capture.operations[capture.boundary]
    known = rank_group.of_all((outside_bytes, boundary.workspace_bytes), "bytes")
    outside_bytes, boundary.workspace_bytes = map(max, zip(*known))
    return outside_bytes
