"""Paired timing and its table: contenders take turns, so that all meet the same machine."""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from gcl_hard.files.io import atomic_write

COLUMNS = ("benchmark", "case", "metric", "median", "min", "max", "unit", "pairs")

T = TypeVar("T")
Values = dict[str, list[float]]


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """Seconds of a call, and its result."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def take_turns(contenders: Mapping[str, Callable[[], object]], pairs: int) -> Values:
    """Seconds of every contender, A B A B ..., after an untimed round."""
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
    """Rows that are printed as they come and written at the end.

    Args:
        benchmark: its name.
        options: options of the command, with ``out``. If given, and ``out`` is a path, the rows of
            each part of :meth:`each` are kept beside it in ``OUT.unfinished``, and a later command
            with the same options goes on with the other parts.
    """

    def __init__(self, benchmark: str, options: argparse.Namespace | None = None) -> None:
        self.benchmark = benchmark
        self.rows: list[Sequence[str | int]] = []
        values = vars(options) if options else {}
        self._options = {name: str(value) for name, value in values.items()}
        self._done: list[str] = []
        out: Path | None = values.get("out")
        self._kept = out.with_name(f"{out.name}.unfinished") if out else None
        if self._kept and self._kept.exists():
            kept = json.loads(self._kept.read_text())
            if kept["options"] == self._options:
                self.rows, self._done = kept["rows"], kept["done"]
        print(f"{'case':32} {'metric':44}{'median':>10}{'min':>10}{'max':>10}")

    def each(self, parts: Iterable[T]) -> Iterator[T]:
        """Unfinished parts of the work; a part is done when the next is requested."""
        for part in parts:
            if str(part) in self._done:
                print(f"{part}: done by an earlier command")
                continue
            yield part
            self._done.append(str(part))
            self._keep()

    def add(self, case: str, measured: Values, unit: str = "s") -> None:
        """A row per metric; a metric with a slash is a ratio, whatever the unit of the others."""
        for metric, values in measured.items():
            figures = [statistics.median(values), min(values), max(values)]
            shown = "".join(f"{value:10.4g}" for value in figures)
            print(f"{case:32} {metric:44}{shown}", flush=True)
            cells = [f"{value:.6g}" for value in figures]
            own_unit = "x" if "/" in metric else unit
            self.rows.append((self.benchmark, case, metric, *cells, own_unit, len(values)))

    def write(self, path: Path | None) -> None:
        """Write a CSV file, if a path is given."""
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([COLUMNS, *self.rows])
        if self._kept:
            self._kept.unlink(missing_ok=True)

    def _keep(self) -> None:
        if self._kept:
            progress = {"options": self._options, "done": self._done, "rows": self.rows}
            with atomic_write(self._kept) as file:
                file.write(json.dumps(progress).encode())
