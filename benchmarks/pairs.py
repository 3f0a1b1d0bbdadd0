"""Paired timing and its table: contenders take turns, so that all meet the same machine."""

from __future__ import annotations

import csv
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

COLUMNS = ("benchmark", "case", "metric", "median", "min", "max", "unit", "pairs")

T = TypeVar("T")
Values = dict[str, list[float]]


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """Seconds that a call takes, and what it returns."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def take_turns(contenders: Mapping[str, Callable[[], object]], pairs: int) -> Values:
    """Seconds of every contender, A B A B ..., after a round that is not timed."""
    for call in contenders.values():
        call()
    seconds: Values = {name: [] for name in contenders}
    for _ in range(pairs):
        for name, call in contenders.items():
            seconds[name].append(timed(call)[0])
    return seconds


def ratios(seconds: Values, pairs: Sequence[tuple[str, str]]) -> Values:
    """Round by round, how many times longer the first of each pair of contenders takes."""
    return {
        f"{slow} / {fast}": [a / b for a, b in zip(seconds[slow], seconds[fast], strict=True)]
        for slow, fast in pairs
    }


class Table:
    """Rows that are printed as they come and written at the end."""

    def __init__(self, benchmark: str) -> None:
        self.benchmark = benchmark
        self.rows: list[tuple[str | int, ...]] = []
        print(f"{'case':32}{'metric':44}{'median':>10}{'min':>10}{'max':>10}")

    def add(self, case: str, measured: Values, unit: str = "s") -> None:
        """One row a metric; a metric with a slash is a ratio, whatever the unit of the others."""
        for metric, values in measured.items():
            figures = [statistics.median(values), min(values), max(values)]
            shown = "".join(f"{value:10.4g}" for value in figures)
            print(f"{case:32}{metric:44}{shown}", flush=True)
            cells = [f"{value:.6g}" for value in figures]
            own_unit = "x" if "/" in metric else unit
            self.rows.append((self.benchmark, case, metric, *cells, own_unit, len(values)))

    def write(self, path: Path | None) -> None:
        """Write a CSV file, if one is asked for."""
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([COLUMNS, *self.rows])
