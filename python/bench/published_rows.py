"""Estimates beside published figures: rows of a CSV file, a cache, and the tables of docs/reference/accuracy.md."""

from __future__ import annotations

import csv
import gc
import hashlib
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

UNITS = {"GB": (10**9, 2), "GiB": (1 << 30, 2), "MiB": (1 << 20, 1)}  # bytes, and printed digits after the decimal point


def rows_of(path: str, *sources: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file whose id begins with the name of a source."""
    with open(path, encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["id"].startswith(tuple(f"{source}-" for source in sources))]


def is_fitted(source: str, name: str) -> bool:
    """Return whether the row belongs to the third on which constants may be fitted. A hash of the name decides."""
    return int(hashlib.sha256(f"{source} {name}".encode()).hexdigest(), 16) % 3 == 0


class Cache:
    """Estimates by key. If `path` is not None, this JSON file keeps them between runs."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known: dict[str, Any] = json.loads(path.read_text()) if path is not None and path.exists() else {}

    def get(self, key: str, estimate: Callable[..., Any], *args: Any) -> Any:
        """Return a known estimate, or call `estimate` with `args`. If that call fails, return its error as a text."""
        if key not in self.known:
            try:
                self.known[key] = estimate(*args)
            except Exception as error:
                self.known[key] = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:120]}"
            gc.collect()
            if self.path is not None:
                self.path.write_text(json.dumps(self.known))
        return self.known[key]


def comparison(measured_bytes: float, estimated_bytes: float, unit: str = "GB") -> str:
    n_bytes, digits = UNITS[unit]
    measured, estimate = measured_bytes / n_bytes, estimated_bytes / n_bytes
    return f"measured {measured:.{digits}f} {unit}, estimate {estimate:.{digits}f} ({estimate / measured - 1:+.1%})"


def error_table(errors: Mapping[str, list[float]]) -> str:
    """Return a table with the errors of each part of the rows. Errors are shares: 0.01 is 1 % above the published figure."""
    text = "| rows | n | median error | bias | range |\n|---|---:|---:|---:|---:|\n"
    for part, found in errors.items():
        text += f"| {part} | {len(found)} |"
        if found:
            size, bias = statistics.median(map(abs, found)), statistics.median(found)
            text += f" {size:.1%} | {bias:+.1%} | {min(found):+.1%} to {max(found):+.1%} |\n"
        else:
            text += " | | |\n"
    return text


def margin_of(errors: Sequence[float]) -> float:
    """Return the smallest share by which estimates must grow so that 19 of 20 measurements do not exceed them."""
    shortages = sorted(1 / (1 + error) - 1 for error in errors)
    return max(0.0, shortages[-1 - len(shortages) // 20])


def margin_line(family: str, measured: Sequence[float], others: Sequence[float]) -> str:
    """Return a line with the margin of a family, and the number of other rows that exceed it."""
    margin = margin_of(measured)
    n_above = sum(1 / (1 + error) - 1 > margin for error in others)
    return f"{family}: 19 of 20 rows exceed the estimate by at most {margin:.1%}; {n_above} of {len(others)} others by more\n"
