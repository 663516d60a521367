"""The options of memplan.compile as one object."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from memplan.budget import Budget, only_bytes, read_link
from memplan.costs.cache import Cache
from memplan.costs.roofline import Device
from memplan.errors import MemplanError
from memplan.graph.meant import Meant, Region, read_region
from memplan.library.planning import Watcher
from memplan.plan.other_sizes import OtherSizes
from memplan.progress import Line

ON_INFEASIBLE = ("raise", "smallest")


@dataclass
class Options:
    """The options of memplan.compile and of options={...}, documented in api.compile."""

    budget: Budget = "auto"
    reserve: Budget = 0
    effort: str = "normal"
    time_limit: float = 20.0
    on_infeasible: str = "raise"
    progress: Watcher | None = None
    cache: str | None = None  # folder of the cache, or "off"; None: the folder that the environment names
    verify: bool = False
    device: Device | None = None  # the device named by `device=`; None: the tensors' own device
    autocast: Region = None  # type of the autocast region around the model, with `device` only
    offload: Budget | None = None
    link: str | float | None = None  # link between device and host; None: the usual link of the device
    timeout: float = 600.0  # seconds that ranks wait for each other, besides the time of a search
    other_sizes: OtherSizes = field(default_factory=OtherSizes)  # plans that may serve further input sizes

    def __post_init__(self) -> None:
        self.line = Line(is_wanted=self.progress is None)
        if self.device is not None and not isinstance(self.device, Device):
            self.device = Device(self.device)
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
        try:
            self.kept = Cache(self.cache)
        except (TypeError, RuntimeError) as error:
            raise MemplanError(f"{self.cache!r} cannot be the cache folder: {error}") from None

    def wait_seconds(self) -> float:
        """Return the seconds that ranks wait for each other during planning."""
        return self.timeout + self.time_limit

    def same_everywhere(self) -> dict[str, str]:
        """Return the options that must be equal on all ranks, by their names in messages."""
        names = ("budget", "effort", "time_limit", "on_infeasible", "verify", "offload", "link", "device", "autocast")
        return {f"the option {name}": str(getattr(self, name)) for name in names}
