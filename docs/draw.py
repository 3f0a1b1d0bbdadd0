"""Draw the figures of theory and of pre-training from the committed results: PNG, SVG and CSV.

Run: python docs/draw.py [FOLDER]

FOLDER is docs/research/figures if not given. No data set is needed, and nothing is trained.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from gcl_hard.commands.figures import FIGURES
from gcl_hard.experiments.record import RunResult
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.store import Store
from gcl_hard.figures import main
from gcl_hard.molecules.settings import representation
from gcl_hard.reports.frame import Scores
from gcl_hard.reports.rendering import write_files
from gcl_hard.reports.result_figures import size_curves
from gcl_hard.reports.rows import Row

ROOT = Path(__file__).parents[1]
MEASURED = ROOT / "benchmarks/results/figures"
TABLES = ROOT / "benchmarks/results/tables"
NODES = ROOT / "benchmarks/results/nodes"
TRANSFER = ROOT / "benchmarks/results/transfer"
GRAPHS = ("MUTAG", "PTC_MR")
IMAGES = ("digits", "CIFAR100")
FOUR = "method=ucl,hucl,scl,hscl"
JSD = ("contrast=local-global", "protocol=transductive")
TWO_VIEWS = ("contrast=two-view",)
INDUCTIVE = ("protocol=inductive",)


def figures() -> Iterator[tuple[str, Path, str, tuple[str, ...], str]]:
    """Of each figure its kind, its results, its data set, what else is selected, and its name."""
    for kind in ("fig4", "fig5", "geometry", "histograms"):
        for name in GRAPHS:
            yield kind, MEASURED, name, (*JSD, "beta=1,none"), f"{kind}-{name}-jsd"
            yield kind, MEASURED, name, TWO_VIEWS, f"{kind}-{name}-two-view"
        for name in IMAGES:
            yield kind, MEASURED, name, (), f"{kind}-{name}"
    for name in GRAPHS:
        own = (*JSD, "method=hucl,ucl")
        yield "histograms", MEASURED, name, own, f"histograms-{name}-jsd-beta"
        own = (*INDUCTIVE, "beta=1,none", FOUR)
        yield "fig1", MEASURED, name, own, f"fig1-{name}-jsd-inductive"
    own = (*INDUCTIVE, "epochs=200")
    yield "beta", MEASURED, "MUTAG", own, "beta-MUTAG-jsd-inductive"
    own = (*INDUCTIVE, "contrast=local-global", "seed=0,1,2")
    yield "beta", TABLES, "PTC_MR", own, "beta-PTC_MR-jsd-inductive"
    for name in ("Cora", "CiteSeer", "Photo", "CS", "Minesweeper"):
        longest = ("epochs=100",) * (name == "CS")  # it has shorter runs, on parts of the graph
        yield "beta", NODES, name, ("method=hucl,ucl", *longest), f"beta-{name}"
    for name in IMAGES:
        yield "fig1", MEASURED, name, (), f"fig1-{name}"


def draw(folder: Path) -> int:
    """Draw all figures; the exit status is 0, or 2 if a figure cannot be drawn."""
    sys.path.insert(0, str(ROOT))
    from benchmarks.paper.__main__ import main as paper

    status = 0
    for kind, where, dataset, only, name in figures():
        selected = [f"--only={condition}" for condition in (f"dataset={dataset}", *only)]
        draws = main if kind in FIGURES else paper
        status |= draws([kind, str(where), "-o", str(folder), "--name", name, *selected])
    for name in (*GRAPHS, "digits"):
        status |= paper(["fig3", "--dataset", name, "-o", str(folder)])
    for metric in ("auc", "rmse"):
        figure = size_figure(frozen(metric))
        assert figure is not None
        write_files({}, {folder / f"pretraining-size-{metric}.png": figure})
    return status


def size_figure(rows: Sequence[Row]) -> Figure | None:
    """Scores of frozen encoders against the number of molecules that they were pre-trained on.

    Mean and standard deviation, beside an untrained encoder, of sets with encoders of several
    sizes.
    """
    sizes: dict[str, list[tuple[int, Row]]] = {}
    for row in rows:
        if not row.config.joined:
            size = row.records[0].data.get("pretrained", 0)
            sizes.setdefault(row.dataset, []).append((size, row))
    points: list[tuple[str, float, Row]] = []
    for of_set in sizes.values():
        trained = {size for size, _ in of_set if size}
        if len(trained) > 1:
            points += [("pre-trained", size, row) for size, row in of_set if size]
            points += [("untrained", x, row) for size, row in of_set if not size for x in trained]
    methods = {"pre-trained": "hucl", "untrained": "untrained"}
    return size_curves(points, "molecules of pre-training", methods)


def frozen(metric: str) -> list[Row]:
    """Rows of untrained encoders and of those that one method pre-trained, one for each size."""
    records: dict[tuple[str, str], list[RunResult]] = {}
    for record in Store(TRANSFER).rows():
        config = record.run.config
        name = re.sub(r"-\d+$", "", representation(config))  # of a seed's file
        whole = (config.split, config.train_share) == ("scaffold-chirality", 1)
        known = config.method == "untrained" and re.fullmatch(r"untrained|moses\d+[km]", name)
        if known and whole and record.metric == metric:
            records.setdefault((experiment_of(config).set_name(config), name), []).append(record)
    return [
        Row(dataset, "untrained", "split", "baseline", "", Scores.of_records(of, config), len(of),
            metric=metric, config=config, records=tuple(of))
        for (dataset, _), of in records.items() for config in [of[0].run.config]
    ]  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs/research/figures",
                        metavar="FOLDER")  # fmt: skip
    sys.exit(draw(parser.parse_args().folder))
