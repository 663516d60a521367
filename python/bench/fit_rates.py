"""fit_rates.py DATA CACHE [capture SECONDS | fit | write | unseen]: constants of estimator/training/rates.def, fitted on the
training times of timm's networks on an RTX 3090 (DATA/bench/published/timm-train-rtx3090.csv: PyTorch 1.12, automatic mixed
precision, SGD with momentum, NCHW and NHWC).

capture: runs a step of each network on the meta device, and stores its kernels in the folder CACHE. SECONDS limits the
processor time of one network.
fit: fits the constants on two thirds of the networks and prints them. write: also writes them into rates.def.
unseen: prints the errors of rates.def on the other third, by family of networks. Run it after the last change of the model.

Names of networks decide the split by a hash. Prefixes that only name the origin of weights are ignored.
"""

from __future__ import annotations

import csv
import ctypes
import functools
import gc
import hashlib
import importlib
import json
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from eager_kernels import eager_kernels
from torch import nn

from memplan.costs.kernels import Kernel
from memplan.library.calls import library

TABLE = Path(__file__).parents[2] / "estimator/training/rates.def"
DEVICE, LAUNCH = "rtx3090", 5e-6
ORIGINS = ("tf_", "tv_", "ssl_", "swsl_", "ig_", "gluon_", "legacy_")
# SGD with Nesterov momentum as a loop over parameters, with the reset of the gradient and its accumulation: kernels per tensor,
# and numbers of four bytes that they move per element
UPDATE_KERNELS, UPDATE_NUMBERS = 6, 15
RIDGE, HUBER = 0.15, 0.1  # weight of the start values, width of the quadratic part of the loss
# start values with a large weight: products on all devices use these shares, so they must stay below the rates of the hardware
FIRM, FIRM_WEIGHT = {"matrix product": 1.0, "product memory": 0.8}, 3.0
OTHER_SOFTWARE = "tresnet"  # these networks ran with the kernels of inplace_abn, which timm does not use any more
STEP = 1e-3  # difference of a parameter from which slopes are computed
PARTS = ("forward", "input gradient", "weight gradient")
Array = Any


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def rows(data: str) -> list[dict[str, str]]:
    with (Path(data) / "bench/published/timm-train-rtx3090.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def is_fitted(name: str) -> bool:
    for origin in ORIGINS:
        name = name.removeprefix(origin)
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % 3 != 0


def captured(name: str, batch: int, image: int) -> dict[str, Any]:
    """Return the kernels of forward and backward. The attention of PyTorch 1.12 was not fused."""
    timm = importlib.import_module("timm")
    importlib.import_module("timm.layers").set_fused_attn(False)
    with torch.device("meta"):
        model = timm.create_model(name).train()
        x, y = torch.empty(batch, 3, image, image), torch.empty(batch, dtype=torch.int64)

    def step() -> None:
        with torch.autocast("cuda", torch.float16):
            scores = model(x)
            nn.functional.cross_entropy(scores if isinstance(scores, torch.Tensor) else scores[0], y).backward()

    found = eager_kernels(step)
    sizes = [p.numel() for p in model.parameters() if p.requires_grad]
    kernels = [[k.name, k.dtype, k.moved_bytes, k.sizes, n] for k, n in found.items()]
    return {"name": name, "elements": sum(sizes), "tensors": len(sizes), "kernels": kernels}


def stored(cache: Path, row: dict[str, str]) -> Path:
    """Return the file of the kernels of a row. The layouts share it if their batches are equal."""
    return cache / f"{row['model']}-{row['batch']}.json"


def capture(data: str, cache: Path, seconds: int) -> None:
    def late(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGPROF, late)
    for row in sorted(rows(data), key=lambda row: hashlib.sha256(row["model"].encode()).hexdigest()):
        path = stored(cache, row)
        if path.exists():
            continue
        signal.setitimer(signal.ITIMER_PROF, seconds)
        before = time.process_time()
        try:
            found = captured(row["model"], int(row["batch"]), int(row["image"]))
            path.write_text(json.dumps({**found, "seconds": time.process_time() - before}))
        except (Exception, TimeoutError) as error:
            say(f"{row['model']}: {type(error).__name__}: {str(error)[:100]!r}")
        signal.setitimer(signal.ITIMER_PROF, 0)
        gc.collect()


@functools.cache
def at_peak(kernel: Kernel) -> tuple[str, tuple[float, ...]]:
    """Return the family of a kernel, and its seconds of arithmetic, memory and reordering at peak rates."""
    parts, family = (ctypes.c_double * 3)(), ctypes.c_char_p()
    sizes = (ctypes.c_double * len(kernel.sizes))(*kernel.sizes)
    call = library().mp_planning_achieved
    texts = DEVICE.encode(), kernel.dtype.encode(), kernel.name.encode()
    found = call(*texts, sizes, len(sizes), kernel.moved_bytes, parts, family)
    assert found >= 0, kernel
    return (family.value or b"").decode(), tuple(parts)


def with_channels_last(kernel: Kernel) -> Kernel:
    """Return the kernel of a network in NHWC. The networks are recorded in NCHW."""
    if kernel.name.startswith("convolution"):
        return Kernel(kernel.name, kernel.dtype, kernel.moved_bytes, (*kernel.sizes[:6], 1.0))
    name = re.sub(r"^(batch normalization|pooling), (?!channels)", r"\1, channels last, ", kernel.name)
    return Kernel(name, kernel.dtype, kernel.moved_bytes, kernel.sizes)


def ties(family: str) -> tuple[list[str], str]:
    """Return the parameters whose product is the share of products, and the parameter of the share of the bandwidth."""
    head, _, part = family.rpartition(", ")
    if head.startswith("depthwise"):
        return [head if "large" in head else family], head + " memory"
    if "convolution" in head:
        factor = [] if part == PARTS[0] else [("grouped " if "grouped" in head else "") + part]
        return [head, *factor], "convolution memory"
    like = "pointwise" if family == "optimizer step" else "product" if "product" in family else family
    return [family] if "product" in family else [], like + " memory"


def started(parameter: str) -> float:
    """Return the start value of a parameter, towards which the fit is drawn if the rows do not determine it."""
    if parameter in FIRM:
        return FIRM[parameter]
    starts = {"depthwise": 0.2, "unaligned": 0.4, "pointwise memory": 0.85, "cast memory": 0.85, "convolution memory": 0.8,
              "NCHW": 0.8, "grouped convolution, other channels, channels last": 0.1}  # fmt: skip
    for name, value in starts.items():
        if parameter.startswith(name) and ("memory" not in parameter or "memory" in name or name == "NCHW"):
            return value
    if parameter.removeprefix("grouped ") in PARTS:
        return 0.9
    if parameter.endswith("memory"):
        return 0.6 if parameter.startswith(("batch norm", "pooling")) else 0.7
    return 0.8 if "product" in parameter else 0.75


@dataclass
class Step:
    """A published row."""

    name: str
    layout: str
    seconds: float
    batch: int


class Times:
    """The seconds of all rows as a function of the logarithms of the parameters."""

    def __init__(self, data: str, cache: Path) -> None:
        self.steps: list[Step] = []
        self.parameters: dict[str, int] = {}
        self.families: list[str] = []
        self.fixed: list[float] = []  # seconds of launches per row
        columns: dict[str, list[Any]] = {name: [] for name in ("row", "n", "family", "product", "memory", "reordering")}
        known: dict[str, Any] = {}
        for row in rows(data):
            path = stored(cache, row)
            if not path.exists() or row["model"].startswith(OTHER_SOFTWARE):
                continue
            network = known.setdefault(path.name, json.loads(path.read_text()))
            launches = UPDATE_KERNELS * network["tensors"]
            for kernel, n in self._kernels(network, row["layout"]):
                family, parts = at_peak(kernel)
                launches += n
                for name, value in zip(columns, (len(self.steps), n, self._family(family), *parts)):
                    columns[name].append(value)
            self.fixed.append(LAUNCH * launches)
            self.steps.append(Step(row["model"], row["layout"], float(row["step_ms"]) / 1e3, int(row["batch"])))
        self.table = {name: np.array(values) for name, values in columns.items()}
        self.measured = np.array([s.seconds for s in self.steps])
        self.batches = np.array([s.batch for s in self.steps])
        self.is_fitted = np.array([is_fitted(s.name) for s in self.steps])
        self.reordering = self._parameter("NCHW to NHWC")
        tied = [ties(f) for f in self.families]
        self.product = [[self._parameter(p) for p in product] for product, _ in tied]
        self.memory = np.array([self._parameter(memory) for _, memory in tied])
        self.start = np.log([started(p) for p in self.parameters])
        self.weights = np.array([FIRM_WEIGHT if p in FIRM else RIDGE for p in self.parameters])

    def _kernels(self, network: dict[str, Any], layout: str) -> Iterator[tuple[Kernel, int]]:
        for name, dtype, moved, sizes, n in network["kernels"]:
            kernel = Kernel(name, dtype, moved, tuple(sizes))
            yield (with_channels_last(kernel) if layout == "nhwc" else kernel), n
        yield Kernel("optimizer step", "float32", 4 * UPDATE_NUMBERS * network["elements"]), 1

    def _family(self, name: str) -> int:
        if name not in self.families:
            self.families.append(name)
        return self.families.index(name)

    def _parameter(self, name: str) -> int:
        return self.parameters.setdefault(name, len(self.parameters))

    def shares(self, x: Array) -> tuple[Array, Array]:
        """Return the shares of each family: of products, and of the bandwidth."""
        return np.exp([float(sum(x[k] for k in ks)) for ks in self.product]), np.exp(x[self.memory])

    def parts(self, products: Array, memories: Array, reordering: float) -> Array:
        t = self.table
        longer = np.maximum(t["product"] / products[t["family"]], t["memory"] / memories[t["family"]])
        return t["n"] * (longer + t["reordering"] / reordering)

    def seconds(self, x: Array) -> Array:
        parts = self.parts(*self.shares(x), float(np.exp(x[self.reordering])))
        return np.bincount(self.table["row"], parts, len(self.steps)) + self.fixed


def fitted(times: Times) -> Array:
    """Minimize the soft L1 norm of logarithmic errors by Gauss-Newton steps."""

    def errors(x: Array) -> Array:
        return np.log(times.seconds(x) / times.measured)[times.is_fitted]

    def loss(x: Array, r: Array) -> float:
        drawn = np.sum((times.weights * (x - times.start)) ** 2)
        return float(2 * HUBER**2 * np.sum(np.sqrt(1 + (r / HUBER) ** 2) - 1) + drawn)

    x, damping = times.start.copy(), 1e-2
    r = errors(x)
    for _ in range(60):
        slopes = np.stack([(errors(x + STEP * unit) - r) / STEP for unit in np.eye(len(x))], 1)
        weights = 1 / np.sqrt(1 + (r / HUBER) ** 2)
        matrix = slopes.T @ (weights[:, None] * slopes) + np.diag(times.weights**2)
        gradient = slopes.T @ (weights * r) + times.weights**2 * (x - times.start)
        while damping < 1e6:
            ahead = x - np.clip(np.linalg.solve(matrix + damping * np.diag(np.diag(matrix)), gradient), -0.7, 0.7)
            if loss(ahead, errors(ahead)) < loss(x, r):
                break
            damping *= 5
        gain = loss(x, r) - loss(ahead, errors(ahead))
        if gain < 1e-6 * loss(x, r):
            break
        x, damping, r = ahead, damping / 5, errors(ahead)
    return x


def table() -> dict[str, tuple[float, float]]:
    """Return the shares of rates.def."""
    found = re.findall(r'^RATE\(\w+, "(.*)", (\S+), (\S+)\)', TABLE.read_text(), re.M)
    return {name: (float(product), float(memory)) for name, product, memory in found}


def write(times: Times, x: Array) -> None:
    products, memories = times.shares(x)
    new = {f: (products[k], memories[k]) for k, f in enumerate(times.families)}
    new["NCHW to NHWC"] = 1.0, float(np.exp(x[times.reordering]))

    def line(found: re.Match[str]) -> str:
        if found[2] not in new:
            return found[0]
        return 'RATE({}, "{}", {:.3g}, {:.3g})'.format(found[1], found[2], *new[found[2]])

    TABLE.write_text(re.sub(r'^RATE\((\w+), "(.*)", \S+, \S+\)', line, TABLE.read_text(), flags=re.M))


def ranks(values: Array) -> Array:
    return np.argsort(np.argsort(values))


def correlation(measured: Array, found: Array) -> float:
    """Return the rank correlation."""
    return float(np.corrcoef(ranks(measured), ranks(found))[0, 1]) if len(measured) > 2 else float("nan")


def told(name: str, times: Times, seconds: Array, chosen: Array) -> None:
    """Print the errors of the chosen rows, and the rank correlation of steps and of seconds per sample."""
    measured, found, batches = times.measured[chosen], seconds[chosen], times.batches[chosen]
    errors = found / measured - 1
    low, high = np.quantile(errors, [0.025, 0.975])
    say(f"{name}: {len(measured)} rows, median error {100 * np.median(abs(errors)):.1f} %, in the median "
          f"{100 * np.median(errors):+.1f} %, 19 of 20 within {100 * low:+.0f} to {100 * high:+.0f} %, rank correlation "
          f"{correlation(measured, found):.3f}, per sample {correlation(measured / batches, found / batches):.3f}")  # fmt: skip


GROUPS: dict[str, Callable[[str], bool]] = {
    "depthwise": lambda f: f.startswith("depthwise"),
    "convolutions": lambda f: "convolution" in f and not f.startswith("depthwise"),
    "products": lambda f: "product" in f,
}


def groups_of(times: Times, parts: Array) -> list[str]:
    """Return the group of each row: the kind of arithmetic that takes most of its time."""
    t, sums = times.table, {}
    for name, is_member in GROUPS.items():
        member = np.array([is_member(f) for f in times.families])[t["family"]]
        sums[name] = np.bincount(t["row"], parts * member, len(times.steps))
    return [max(sums, key=lambda name: sums[name][k]) for k in range(len(times.steps))]


def unseen(times: Times) -> None:
    known = table()
    shares = np.array([known[f] for f in times.families])
    parts = times.parts(shares[:, 0], shares[:, 1], known["NCHW to NHWC"][1])
    seconds = np.bincount(times.table["row"], parts, len(times.steps)) + times.fixed
    told("fitted", times, seconds, times.is_fitted)
    told("unseen", times, seconds, ~times.is_fitted)
    groups = np.array(groups_of(times, parts))
    for group in GROUPS:
        chosen = ~times.is_fitted & (groups == group)
        if chosen.any():
            told(f"unseen, mostly {group}", times, seconds, chosen)


def main(data: str, cache: str, task: str = "fit", seconds: str = "240") -> None:
    Path(cache).mkdir(parents=True, exist_ok=True)
    if task == "capture":
        capture(data, Path(cache), int(seconds))
        return
    times = Times(data, Path(cache))
    if task == "unseen":
        unseen(times)
        return
    x = fitted(times)
    for name, k in times.parameters.items():
        say(f"{name}: {np.exp(x[k]):.3f} (start {np.exp(times.start[k]):.2f})")
    told("fitted", times, times.seconds(x), times.is_fitted)
    errors = times.seconds(x) / times.measured - 1
    for k in sorted(np.flatnonzero(times.is_fitted), key=lambda k: -abs(np.log1p(errors[k])))[:20]:
        say(f"{times.steps[k].name} {times.steps[k].layout}: {1e3 * times.measured[k]:.0f} ms, {100 * errors[k]:+.0f} %")
    if task == "write":
        write(times, x)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
