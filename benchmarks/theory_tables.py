"""Write the tables of docs/research/theory.md from the numbers of its figures.

Run: python benchmarks/theory_tables.py [FOLDER] [--check]

FOLDER, docs/research/figures if not given, has the CSV files that ``python docs/draw.py FOLDER``
writes.
"""

from __future__ import annotations

import argparse
import csv
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "research" / "theory.md"
SETS = {
    "MUTAG-jsd": "MUTAG, JSD",
    "MUTAG-two-view": "MUTAG, two views",
    "PTC_MR-jsd": "PTC_MR, JSD",
    "PTC_MR-two-view": "PTC_MR, two views",
    "digits": "digits",
    "CIFAR100": "CIFAR100",
}
METHODS = ("ucl", "hucl", "scl", "hscl")
PANELS = {"l=-0.25": "l = −0.25", "l=-0.05": "l = −0.05", "beta=1": "β = 1", "beta=2": "β = 2"}

Row = dict[str, str]
Lines = Iterator[Sequence[str]]


def rows(folder: Path, figure: str, name: str, **where: str) -> list[Row]:
    """Rows of a figure's CSV with some values."""
    path = folder / f"{figure}-{name}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        return [row for row in reader if all(row[key] == value for key, value in where.items())]


def at(figure_rows: Sequence[Row], choose: Callable[[Sequence[int]], int]) -> list[Row]:
    """Rows of the first or the last epoch."""
    epoch = choose([int(row["epoch"]) for row in figure_rows])
    return [row for row in figure_rows if int(row["epoch"]) == epoch]


def mean(figure_rows: Sequence[Row], column: str) -> float:
    """Mean over the seeds with a value."""
    return statistics.fmean(float(row[column]) for row in figure_rows if row[column])


def assumption_1(folder: Path) -> Lines:
    """Shares in the last snapshot at β = 1, and their range over all snapshots."""
    yield ("data set", *(f"trained with {method}" for method in METHODS))
    for name, words in SETS.items():
        shown = []
        for method in METHODS:
            every = [row for row in rows(folder, "fig4", name, method=method) if row["fraction"]]
            beta_1 = [row for row in every if row["panel"] == "beta=1"]
            shares = [float(row["fraction"]) for row in every]
            shown.append(
                f"{mean(at(beta_1, max), 'fraction'):.2f} ({min(shares):.2f}–{max(shares):.2f})"
                if beta_1
                else "–"
            )
        if set(shown) != {"–"}:
            yield (words, *shown)


def lemma_1(folder: Path) -> Lines:
    """Number of snapshots whose mean H-SCL loss is at most the mean H-UCL loss, by training."""
    yield ("data set", "snapshots", *PANELS.values())
    for name, words in SETS.items():
        counts = []
        for panel in PANELS:
            held = {
                method: [row["hscl_at_most_hucl"] == "True" for row in
                         rows(folder, "fig5", name, method=method, panel=panel)]
                for method in ("hscl", "hucl")
            }  # fmt: skip
            (snapshots,) = {len(shares) for shares in held.values()}
            counts.append(", ".join(str(sum(shares)) for shares in held.values()))
        yield (words, str(snapshots), *counts)


def eq17(folder: Path) -> Lines:
    """Averages of both sides in the last snapshot, trained with hscl."""
    yield ("data set", "collisions", "hard negatives", "ratio")
    for name, words in SETS.items():
        if figure_rows := rows(folder, "geometry", name, method="hscl"):
            left, right = (mean(at(figure_rows, max), side) for side in ("collisions", "negatives"))
            yield words, f"{left:.2f}", f"{right:.2f}", f"{left / right:.2f}"


def geometry(folder: Path) -> Lines:
    """Geometry from the first snapshot to the last."""
    moving = {"overlap": "overlap", "nc1": "NC1", "cdnv": "CDNV"}
    still = {"same_label_weight": "own label", "effective_hscl": "negatives in effect"}
    yield ("data set", "trained with", *moving.values(), *still.values())
    for name, words in SETS.items():
        for method in METHODS:
            if figure_rows := rows(folder, "geometry", name, method=method):
                first, last = at(figure_rows, min), at(figure_rows, max)
                changes = (f"{mean(first, m):.3g}→{mean(last, m):.3g}" for m in moving)
                yield (words, method, *changes, *(f"{mean(last, m):.3g}" for m in still))


TABLES = {"assumption-1": assumption_1, "lemma-1": lemma_1, "eq-17": eq17, "geometry": geometry}


def filled(text: str, folder: Path) -> str:
    """The page with its tables filled from the figures."""
    for name, lines in TABLES.items():
        head, *body = lines(folder)
        table = [head, ["---"] * len(head), *body]
        drawn = "\n".join(f"| {' | '.join(line)} |" for line in table)
        block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text, count = block.subn(
            lambda match, drawn=drawn: f"{match[1]}\n{drawn}\n\n{match[2]}", text
        )
        if count != 1:
            raise SystemExit(f"theory.md needs one <!-- {name} --> … <!-- /{name} -->")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=PAGE.parent / "figures")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it would")
    arguments = parser.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    new = filled(text, arguments.folder)
    if arguments.check and new != text:
        raise SystemExit(
            "docs/research/theory.md is not what its figures say: run this without --check"
        )
    if new != text:
        PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
