"""Write the tables of benchmarks/README.md from benchmarks/results/*.csv.

python benchmarks/tables.py

A table stands between ``<!-- NAME -->`` and ``<!-- /NAME -->``; everything else is left alone.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
Figures = dict[tuple[str, str], dict[str, str]]


def figures(benchmark: str) -> Figures:
    """The rows of CSV files by (case, metric); none if it was not run."""
    rows: Figures = {}
    for path in sorted((HERE / "results").glob(f"{benchmark}.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows |= {(row["case"], row["metric"]): row for row in csv.DictReader(file)}
    return rows


def cases(rows: Figures, metric: str) -> list[str]:
    """Cases that have a metric, in the CSV's order."""
    return [case for case, name in rows if name == metric]


def seconds_as_ms(row: dict[str, str]) -> str:
    """A median in milliseconds, at least three digits."""
    value = 1e3 * float(row["median"])
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def ratio(row: dict[str, str]) -> str:
    """A median ratio and its range."""
    median, low, high = (float(row[name]) for name in ("median", "min", "max"))
    return f"{median:.2f} ({low:.2f}–{high:.2f})"


def spread(row: dict[str, str]) -> str:
    """A median and its range, one digit behind the point."""
    median, low, high = (float(row[name]) for name in ("median", "min", "max"))
    return f"{median:.1f} ({low:.1f}–{high:.1f})"


def plain(row: dict[str, str]) -> str:
    """A median, three digits or all before the point."""
    value = float(row["median"])
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def percent(row: dict[str, str]) -> str:
    """The largest of shares."""
    return f"{100 * float(row['max']):.2g}"


def signed(row: dict[str, str]) -> str:
    """A median with its sign."""
    return f"{float(row['median']):+.2f}"


def from_to(row: dict[str, str]) -> str:
    """The range of whole numbers, or the one that they all are."""
    low, high = (f"{float(row[name]):.0f}" for name in ("min", "max"))
    return low if low == high else f"{low}–{high}"


TABLES = {
    "epoch": (
        "speed",
        [
            ("ours, ms", "epoch, ours", seconds_as_ms),
            ("common, ms", "epoch, common", seconds_as_ms),
            ("common / ours", "epoch, common / epoch, ours", ratio),
            (
                "common without mask loop / ours",
                "epoch, common without mask loop / epoch, ours",
                ratio,
            ),
        ],
    ),
    "batches": (
        "speed",
        [
            ("ours, ms", "batches, ours", seconds_as_ms),
            ("loader and masks, ms", "batches, loader and masks", seconds_as_ms),
            (
                "loader and masks / ours",
                "batches, loader and masks / batches, ours",
                ratio,
            ),
            ("loader alone / ours", "batches, loader / batches, ours", ratio),
        ],
    ),
    "loss": (
        "speed",
        [
            ("fused, ms", "loss, fused", seconds_as_ms),
            ("general / fused", "loss, general / loss, fused", ratio),
            ("masks given / fused", "loss, masks given / loss, fused", ratio),
        ],
    ),
    "methods": (
        "methods",
        [
            ("ms", "loss", seconds_as_ms),
            ("beside ucl", "loss / ucl", ratio),
            ("beside ucl, all scores at once", "loss / ucl, all scores at once", ratio),
        ],
    ),
    "svm": (
        "svm_speed",
        [
            ("ours, s", "ours", plain),
            ("GridSearchCV, s", "GridSearchCV", plain),
            ("GridSearchCV / ours", "GridSearchCV / ours", ratio),
            ("GridSearchCV / solver alone", "GridSearchCV / bare solver", ratio),
        ],
    ),
    "probes": (
        "probes",
        [
            ("ours, CPU s", "newton", plain),
            ("L-BFGS / ours", "lbfgs / newton", ratio),
            (
                "L-BFGS above the optimum, at most, %",
                "largest excess of lbfgs",
                percent,
            ),
            ("other predictions, %", "predictions that differ", spread),
            ("splits with another C, %", "splits with another C", plain),
            ("the mean moves by", "mean score moves by", signed),
        ],
    ),
    "links": (
        "links",
        [
            ("sparse", "sparse", plain),
            ("dense", "dense", plain),
            ("dense / sparse", "dense / sparse", ratio),
        ],
    ),
    "image-step": (
        "images-*",
        [
            ("whole step, ms", "step, whole", plain),
            ("network alone, ms", "step, network alone", plain),
            ("overhead, %", "overhead of views and loss", spread),
            ("views alone, ms", "views", plain),
            ("loss alone, ms", "loss", plain),
            ("images a second", "images a second, step, whole", plain),
            ("peak, MB", "peak resident, step, whole", plain),
            ("peak, network alone, MB", "peak resident, step, network alone", plain),
        ],
    ),
    "image-loss": (
        "images-*",
        [
            ("ours, ms", "loss, ours", plain),
            ("published / ours", "loss, published / loss, ours", ratio),
            (
                "published without its loop / ours",
                "loss, published without the loop / loss, ours",
                ratio,
            ),
        ],
    ),
    "memory": (
        "memory",
        [
            ("N × G tensors at once", "loss, live N x G tensors", plain),
            ("peak of the loss, MB", "loss, peak of tensors", plain),
            ("peak of a step, MB", "step, peak of tensors", plain),
            ("resident before, MB", "process, resident before training", plain),
            ("peak resident, MB", "process, peak resident", plain),
        ],
    ),
    "ensemble-speed": (
        "ensembles",
        [
            ("one by one", "one process, plain", plain),
            ("P = 1", "one process, P = 1", plain),
            ("P = 4", "one process, P = 4", plain),
            ("P = 16", "one process, P = 16", plain),
            ("auto P", "one process, auto P", plain),
            ("best P / one by one", "one process, plain / one process, best P", ratio),
            ("auto P / one by one", "one process, plain / one process, auto P", ratio),
            ("P chosen", "models, one process, auto P", plain),
        ],
    ),
    "ensemble-two": (
        "ensembles",
        [
            ("one by one", "two processes, plain", plain),
            ("auto P", "two processes, auto P", plain),
            ("auto P / one by one", "two processes, plain / two processes, auto P", ratio),
            ("P chosen", "models, two processes, auto P", from_to),
        ],
    ),
    "ensemble-batches": (
        "ensembles",
        [
            ("batches of an epoch, ms", "batches of an epoch, made", seconds_as_ms),
            ("of 200 epochs, MB", "batches of 200 epochs", plain),
        ],
    ),
    "ensemble-step": (
        "ensembles-gpu",
        [
            ("P = 1, ms", "step, P = 1", seconds_as_ms),
            ("P = 64, ms", "step, P = 64", seconds_as_ms),
            ("P = 256, ms", "step, P = 256", seconds_as_ms),
            ("P = 64 / P = 1", "step, P = 64 / step, P = 1", ratio),
            ("P = 256 / P = 1", "step, P = 256 / step, P = 1", ratio),
        ],
    ),
    "tuning-batch": (
        "tuning*",
        [
            ("one by one", "one by one", plain),
            ("batched", "batched", plain),
            ("batched, two threads", "batched, two threads", plain),
            ("one by one / batched", "one by one / batched", ratio),
            ("one by one / two threads", "one by one / batched, two threads", ratio),
            ("trials at once", "trials at once", plain),
            ("scoring, % of batched", "scoring, batched", plain),
        ],
    ),
    "tuning-workers": (
        "tuning",
        [
            ("trials, one worker, s", "trials, one worker", plain),
            ("trials, two workers, s", "trials, two workers", plain),
            ("one / two", "trials, one worker / trials, two workers", ratio),
            ("whole commands, one / two", "command, one worker / command, two workers", ratio),
        ],
    ),
    "diagnostics": (
        "diagnostics",
        [
            ("a snapshot, ms", "a snapshot", seconds_as_ms),
            ("snapshots, % of training", "snapshots", spread),
            ("training with / without", "with / without", ratio),
        ],
    ),
    "tuning-overhead": (
        "tuning",
        [
            ("a trial, ms", "a trial", plain),
            ("a trial, 5 reports, ms", "a trial, 5 reports", plain),
            ("a trial, 5 reports, % of 10 s", "a trial, 5 reports, of 10 s", plain),
        ],
    ),
}


def table(name: str) -> Iterable[str]:
    """A table's Markdown lines."""
    benchmark, columns = TABLES[name]
    figures_by_case = figures(benchmark)
    yield "| case | " + " | ".join(head for head, _, _ in columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for case in cases(figures_by_case, columns[0][1]):
        rows = ((figures_by_case.get((case, metric)), show) for _, metric, show in columns)
        cells = ("–" if row is None else show(row) for row, show in rows)
        yield f"| {case} | " + " | ".join(cells) + " |"


def main() -> None:
    """Replace every table of the README."""
    path = HERE / "README.md"
    text = path.read_text(encoding="utf-8")
    for name in TABLES:
        block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        filled = "\n" + "\n".join(table(name)) + "\n\n"
        text, count = block.subn(lambda match, filled=filled: match[1] + filled + match[2], text)
        if count != 1:
            raise SystemExit(f"README.md needs one <!-- {name} --> … <!-- /{name} -->")
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
