"""What pages of molecules have beside those of all domains: cliffs, learning curves, remarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from gcl_hard.evaluation.metrics import metric
from gcl_hard.molecules.settings import CHIRALITY, UNTRAINED
from gcl_hard.reports import theme
from gcl_hard.reports.frame import set_name
from gcl_hard.reports.rows import Row
from gcl_hard.reports.tables import names

PUBLISHED = pd.DataFrame(
    {
        "": ["SVM, ECFP", "LSTM, SMILES", "GCN", "GAT", "MPNN"],
        "rmse": [0.669, 0.738, 0.909, 0.942, 1.118],
        "cliff_rmse": [0.758, 0.882, 0.983, 1.011, 1.145],
    }
)
"""Means over twenty of the thirty sets of van Tilborg, Alenicheva & Grisoni (2022), *Exposing the
Limitations of Molecular Machine Learning with Activity Cliffs*."""
TWENTY = 20
"""Sets that the published means are over."""
FACTS = {
    "tasks": "targets",
    "one_class": "left out of the mean, with one class alone, or none, in the training or the test "
    "part",
    "few": "tasks whose rarer class has fewer than ten test molecules",
    "invalid": "SMILES that are no molecules",
}
"""Facts of records that pages tell."""
OF_SPLITS = ("one_class", "few")
"""Those that depend on the split."""


def remarks(rows: Sequence[Row]) -> list[str]:
    """Targets, splits, and what is left out of scores and data."""
    records = [record for row in rows if row.sets == 1 for record in row.records]
    splits = dict.fromkeys(str(record.data.get("split")) for record in records)
    facts: dict[str, dict[str, None]] = {}
    for record in records:
        for name, words in FACTS.items():
            if fact := record.data.get(name):
                where = set_name(record.run.config)
                where += f" ({record.data.get('split')})" if name in OF_SPLITS else ""
                text = _listed(fact) if isinstance(fact, list) else str(fact)
                facts.setdefault(words, {})[f"{where}: {text}"] = None
    lines = [f"{words[0].upper()}{words[1:]}: {'; '.join(of_sets)}."
             for words, of_sets in facts.items()]  # fmt: skip
    if len(splits) > 1:
        lines.append(f"Splits ({', '.join(splits)}) overlap, so that intervals are too narrow.")
    if any(split.endswith(CHIRALITY) for split in splits):
        lines.append(
            f"Splits whose name ends with {CHIRALITY} take mirror images for different scaffolds, "
            f"as DeepChem and MoleculeNet do not."
        )
    return lines


def _listed(names: Sequence[str], most: int = 12) -> str:
    """Names in a line; if there are many, the first and their number."""
    return ", ".join(names[:most]) + (f" … ({len(names)})" if len(names) > most else "")


def published(rows: Sequence[Row]) -> pd.DataFrame | None:
    """Published means beside those of rows over the same twenty sets; None of other rows."""
    name = rows[0].metric
    if name not in PUBLISHED or all(row.sets != TWENTY for row in rows):
        return None
    shown = PUBLISHED[["", name]].rename(columns={name: metric(name).label})
    return shown.map(lambda value: value if isinstance(value, str) else metric(name).text(value))


@theme.themed
def cliff_figure(rows: Sequence[Row]) -> Figure | None:
    """Differences from scl on molecules with an activity cliff: sets from the smallest share of
    such molecules upwards, a panel for each row.

    Args:
        rows: of one protocol and metric.

    Returns:
        The figure; None of another metric, or without sets that both have been scored on.
    """
    compared = [row for row in rows if row.sets == 1 and "scl" in row.tests]
    compared = [row for row in compared if row.kind == "inside"] or compared
    if not compared or compared[0].metric != "cliff_rmse":
        return None
    share = {
        row.dataset: float(row.records[0].tested()[0].masks["cliffs"].mean()) for row in compared
    }
    sets, labels = sorted(share, key=lambda name: share[name]), {row.label for row in compared}
    figure, panels = theme.panels(
        len(labels), height=1.2 + 0.19 * len(sets), top=0.3, grid="x", sharey=True
    )
    for panel, label in zip(panels, sorted(labels), strict=True):
        shown = [row for row in compared if row.label == label]
        y, hue = [sets.index(row.dataset) for row in shown], theme.colour(shown[0].method)
        tests = [row.tests["scl"] for row in shown]
        panel.axvline(0, color=theme.INK, linewidth=0.8)
        panel.hlines(y, [test.low for test in tests], [test.high for test in tests], color=hue)
        panel.plot([test.mean for test in tests], y, "o", color=hue, markersize=4.5)
        panel.set_title(label.replace(" ", "\n", 1))
        panel.locator_params(axis="x", nbins=5)  # more run into each other where panels are narrow
    panels[0].set_yticks(range(len(sets)), [f"{name}, {100 * share[name]:.0f} %" for name in sets])
    panels[0].set_ylim(-0.6, len(sets) - 0.4)
    figure.supxlabel(
        "RMSE on molecules with an activity cliff (their share of the test part), less that of scl",
        fontsize=theme.TEXT,
    )
    return figure


def learning_figure(rows: Sequence[Row]) -> Figure | None:
    """Scores against the number of training molecules, mean and standard deviation.

    Args:
        rows: of one protocol and metric.

    Returns:
        The figure; None of rows with one share of the training part, or several of one name.
    """
    shown = [row for row in rows if row.scores and row.sets == 1 and row.kind != "best"]
    if len({row.share for row in shown}) < 2:
        return None
    points = [
        (row.name, fmean(record.data["sizes"][0] for record in row.records), row) for row in shown
    ]
    methods = {
        row.name: row.representation if row.method == UNTRAINED else row.method for row in shown
    }
    return _curves(points, "training molecules", methods)


def size_figure(rows: Sequence[Row]) -> Figure | None:
    """Scores of frozen encoders against the number of molecules that they were pre-trained on, mean
    and standard deviation, beside an untrained encoder.

    Args:
        rows: of one protocol and metric.

    Returns:
        The figure, of sets with encoders of several sizes, one of each; None if there is none.
    """
    sizes: dict[str, list[tuple[int, Row]]] = {}
    for row in rows:
        if row.scores and row.sets == 1 and row.method == UNTRAINED and not row.config.joined:
            size = row.records[0].data.get("pretrained", 0)
            sizes.setdefault(row.dataset, []).append((size, row))
    points: list[tuple[str, float, Row]] = []
    for of_set in sizes.values():
        trained = {size for size, _ in of_set if size}
        if len(trained) > 1:
            points += [("pre-trained", size, row) for size, row in of_set if size]
            points += [(UNTRAINED, x, row) for size, row in of_set if not size for x in trained]
    methods = {"pre-trained": "hucl", UNTRAINED: UNTRAINED}
    return _curves(points, "molecules of pre-training", methods) if points else None


@theme.themed
def _curves(
    points: Sequence[tuple[str, float, Row]], counted: str, methods: dict[str, str]
) -> Figure | None:
    """One panel per data set, one curve per name, over a number of molecules.

    Args:
        points: the curve, the number, and the row.
        counted: what is counted.
        methods: by the name of a curve, the method whose colour it has.

    Returns:
        The figure; None with two rows in one place.
    """
    places = {(row.dataset, *place): row for *place, row in points}
    if len(places) < len(points):
        return None
    sets, styles = names((row for *_, row in points), "dataset"), theme.line_styles(methods)
    figure, panels = theme.panels(len(sets), height=2.4)
    for panel, dataset in zip(panels, sets, strict=True):
        placed = [(x, curve, row.scores) for curve, x, row in points if row.dataset == dataset]
        placed.sort(key=lambda place: place[0])
        for index, (curve, style) in enumerate(styles.items()):
            line = [(x * 1.03 ** (index - 2), scores.mean, scores.std or 0.0)
                    for x, name, scores in placed if name == curve and scores]  # fmt: skip
            if line:
                x, mean, half = zip(*line, strict=True)
                panel.errorbar(x, mean, half, elinewidth=0.7, markersize=3, linewidth=1.3,
                               **style | {"label": None})  # fmt: skip
        ticks = sorted({x for x, *_ in placed})
        panel.set_title(dataset)
        panel.set_xscale("log")
        thousands = EngFormatter(sep="")
        panel.set_xticks(ticks, [f"{n:.0f}" if n % 1000 else thousands(n) for n in ticks])
        panel.minorticks_off()
    figure.supxlabel(counted, fontsize=theme.TEXT)
    figure.supylabel(metric(points[0][2].metric).label, fontsize=theme.TEXT)
    theme.legend(figure, list(styles.values()))
    return figure


FIGURES: dict[str, Callable[[Sequence[Row]], Figure | None]] = {
    "cliffs": cliff_figure, "learning": learning_figure, "size": size_figure,
}  # fmt: skip
"""By the suffix of their files."""
ALT = {
    "cliffs": ("RMSE on molecules with an activity cliff, less that of scl", ""),
    "learning": ("{title} against the number of training molecules", ""),
    "size": ("{title} against the number of molecules of pre-training", ""),
}
"""What they show, of a metric with a title, and how to read them."""
