"""The options of memplan.compile as one object."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from memplan.budget import Budget, only_bytes, read_link
from memplan.costs.cache import Cache
from memplan.costs.roofline import Device
from memplan.errors import MemplanError
from memplan.graph.named_device import Meant, Region, read_region
from memplan.graph.row_regions import Chunks
from memplan.library.planning import Watcher
from memplan.plan.other_sizes import OtherSizes
from memplan.progress import Line

ON_INFEASIBLE = ("raise", "smallest")
MOST_CHUNKS = 4096  # largest number of chunks of a region


def accepted_by(*places: str, may_differ: bool = False) -> dict[str, Any]:
    """Return the metadata of an option: the places that accept it, and whether ranks may have different values."""
    return {"places": places, "may_differ": may_differ}


@dataclass
class Options:
    """The options of memplan.compile and of options={...}, documented in api.compile."""

    budget: Budget = field(default="auto", metadata=accepted_by("compile", "step", "pipeline"))
    reserve: Budget = field(default=0, metadata=accepted_by("compile", "step", "pipeline", "command", may_differ=True))
    effort: str = field(default="normal", metadata=accepted_by("compile", "step", "pipeline", "command"))
    time_limit: float = field(default=20.0, metadata=accepted_by("compile", "step", "pipeline"))
    on_infeasible: str = field(default="raise", metadata=accepted_by("compile", "step", "pipeline"))
    progress: Watcher | None = field(default=None, metadata=accepted_by("compile", "step", may_differ=True))
    # folder of the cache, or "off"; None: the folder that the environment names
    cache: str | None = field(default=None, metadata=accepted_by("compile", "step", "pipeline", "command", may_differ=True))
    verify: bool = field(default=False, metadata=accepted_by("compile"))
    # the device named by `device=`; None: the tensors' own device
    device: Device | None = field(default=None, metadata=accepted_by("compile", "command"))
    # "achieved" or "peak" rates of the device
    rates: str = field(default="achieved", metadata=accepted_by("compile", "command"))
    # type of the autocast region around the model, with `device` only
    autocast: Region = field(default=None, metadata=accepted_by("compile"))
    # chunks of rows in which the head and its loss, and the MLPs, are computed
    chunks: str | dict[str, int] = field(default="off", metadata=accepted_by("compile", "step"))
    offload: Budget | None = field(default=None, metadata=accepted_by("compile", "step", "command"))
    # link between device and host; None: the usual link of the device
    link: str | float | None = field(default=None, metadata=accepted_by("compile", "step", "command"))
    # seconds that ranks wait for each other, besides the time of a search
    timeout: float = field(default=600.0, metadata=accepted_by("compile", "pipeline", may_differ=True))
    other_sizes: OtherSizes = field(default_factory=OtherSizes)  # plans that may serve further input sizes

    def __post_init__(self) -> None:
        self.line = Line(is_wanted=self.progress is None)
        if self.device is not None and not isinstance(self.device, Device):
            self.device = Device(self.device, self.rates)
        if read_region(self.autocast) is not None and self.device is None:
            raise MemplanError("autocast= needs a named device (device='h100'); without one, use torch.autocast")
        known = self.device
        self.meant = Meant(known.name, known.is_gpu, self.autocast) if known is not None else None
        if self.on_infeasible not in ON_INFEASIBLE:
            raise MemplanError(f"on_infeasible is {self.on_infeasible!r}, but it must be 'raise' or 'smallest'")
        if self.progress is not None and not callable(self.progress):
            raise MemplanError(f"progress must be a function, not {self.progress!r}")
        if not (isinstance(self.timeout, (int, float)) and 0 < self.timeout < math.inf):
            raise MemplanError(f"timeout is {self.timeout!r}, but it must be a number of seconds over 0")
        if self.offload is not None and only_bytes(self.offload) == 0:
            raise MemplanError("offload=0 provides no host memory; omit it")
        if self.link is not None:
            read_link(self.link)
        self.wanted_chunks = read_chunks(self.chunks)  # None: "auto"
        try:
            self.kept = Cache(self.cache)
        except (TypeError, RuntimeError) as error:
            raise MemplanError(f"{self.cache!r} cannot be the cache folder: {error}") from None

    def wait_seconds(self) -> float:
        """Return the seconds that ranks wait for each other during planning."""
        return self.timeout + self.time_limit

    @property
    def target(self) -> tuple[bool, bool]:
        """Whether the named device is a GPU, and whether it has flash attention."""
        return (self.device.is_gpu, self.device.has_flash) if self.device is not None else (False, False)

    def same_everywhere(self) -> dict[str, str]:
        """Return the options that must be equal on all ranks, by their names in messages."""
        names = [f.name for f in fields(self) if not f.metadata.get("may_differ", True)]
        return {f"the option {name}": str(getattr(self, name)) for name in names}


def read_chunks(value: Any) -> Chunks | None:
    """Return the numbers of chunks that the option `chunks` names, or None for "auto". Raises MemplanError."""
    if value == "auto":
        return None
    if value == "off":
        return Chunks()
    if not isinstance(value, dict) or not value:
        raise MemplanError(f"chunks is {value!r}, but it must be \"auto\", \"off\" or {{'head': N, 'mlp': N}}")
    if others := [str(kind) for kind in value if kind not in Chunks._fields]:
        raise MemplanError(
            f"chunks={value!r}: in PyTorch, memplan cuts 'head' and 'mlp', but not {', '.join(map(repr, others))};"
            " for other regions use `memplan plan --row-chunks`"
        )
    return Chunks(**{kind: read_number(value, kind) for kind in value})


def read_number(value: dict[str, Any], kind: str) -> int:
    try:
        n = operator.index(value[kind])
    except TypeError:
        n = 0
    if isinstance(value[kind], bool) or not 1 <= n <= MOST_CHUNKS:
        raise MemplanError(f"chunks={value!r}: the number of chunks must be between 1 and {MOST_CHUNKS}")
    return n


def names_of(place: str) -> list[str]:
    """Return the options that a place accepts: "compile", "step" (TrainStep), "pipeline", or "command"."""
    return [f.name for f in fields(Options) if place in f.metadata.get("places", ())]


def given_to(place: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options among the arguments of a public function."""
    return {name: arguments[name] for name in names_of(place)}
