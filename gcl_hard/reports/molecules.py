"""What pages of molecules have beside those of all domains: cliffs, learning curves, remarks."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import pandas as pd
from matplotlib.figure import Figure

from gcl_hard.evaluation.metrics import metric
from gcl_hard.reports import theme
from gcl_hard.reports.result_figures import learning_curves
from gcl_hard.reports.rows import Row
from gcl_hard.settings.molecules import CHIRALITY, UNTRAINED

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
FOUND = {
    "one_class": "left out of the mean, with one class alone, or none, in the training or the test "
    "part",
    "few": "tasks whose rarer class has fewer than ten test molecules",
    "invalid": "SMILES that are no molecules",
    "tasks": "targets",
}
"""Facts of records that pages tell."""


def remarks(rows: Sequence[Row]) -> list[str]:
    """Targets, what is left out of scores and data, and what splits take for one scaffold."""
    records = [record for row in rows if row.sets == 1 for record in row.records]
    found: dict[str, dict[str, None]] = {}
    for record in records:
        for name in FOUND:
            if facts := record.data.get(name):
                shown = _listed(facts) if isinstance(facts, list) else str(facts)
                where = f"{record.run.config.set_name} ({record.data['split']}): {shown}"
                found.setdefault(name, {})[where] = None
    said = [f"{FOUND[name][0].upper()}{FOUND[name][1:]}: {'; '.join(found[name])}."
            for name in FOUND if name in found]  # fmt: skip
    if any(CHIRALITY in row.split for row in rows):
        said.append(
            f"Splits whose name ends with {CHIRALITY} take mirror images for different scaffolds, "
            f"as DeepChem and MoleculeNet do not."
        )
    if any(row.common_splits for row in rows):
        said.append("Splits overlap, so that intervals over several are too narrow.")
    return said


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
    return _curves(
        shown, "training molecules", [row.name for row in shown],
        [statistics.fmean(record.data["sizes"][0] for record in row.records) for row in shown],
        {row.name: row.representation if row.method == UNTRAINED else row.method for row in shown},
    )  # fmt: skip


def size_figure(rows: Sequence[Row]) -> Figure | None:
    """Scores of frozen encoders against the number of molecules that they were pre-trained on, mean
    and standard deviation, beside an untrained encoder.

    Args:
        rows: of one protocol and metric.

    Returns:
        The figure, of sets with encoders of several sizes, one of each; None if there is none.
    """
    sizes: dict[str, dict[int, list[Row]]] = {}
    for row in rows:
        if row.scores and row.sets == 1 and row.method == UNTRAINED and not row.config.joined:
            size = row.records[0].data["pretrained"]
            sizes.setdefault(row.dataset, {}).setdefault(size, []).append(row)
    drawn = {name: of for name, of in sizes.items() if len({*of} - {0}) > 1}
    if not drawn or any(len(same) > 1 for of in drawn.values() for same in of.values()):
        return None
    points = [
        (row, other, "pre-trained" if size else UNTRAINED)
        for of in drawn.values()
        for size, (row,) in of.items()
        for other in ([size] if size else {*of} - {0})  # untrained: a level at all sizes
    ]
    shown, at, names = zip(*points, strict=True)
    colours = {"pre-trained": "hucl", UNTRAINED: UNTRAINED}
    return _curves(shown, "molecules of pre-training", names, at, colours)


def _curves(
    rows: Sequence[Row],
    counted: str,
    names: Sequence[str],
    at: Sequence[float],
    colours: dict[str, str],
) -> Figure | None:
    """Curves of rows by name, over a number of molecules; colours are those of methods."""
    data = pd.DataFrame({
        "dataset": [row.dataset for row in rows], "method": names, "graphs": at,
        "mean": [row.scores.mean if row.scores else None for row in rows],
        "half": [row.scores.std if row.scores else None for row in rows],
    }).sort_values("graphs", kind="stable")  # fmt: skip
    if data.duplicated(["dataset", "method", "graphs"]).any():
        return None
    return learning_curves(
        data.astype({"half": float}), value=metric(rows[0].metric).label, training=counted,
        styles=theme.line_styles({name: colours[name] for name in dict.fromkeys(names)}),
    )  # fmt: skip


FIGURES: dict[str, Callable[[Sequence[Row]], Figure | None]] = {
    "cliffs": cliff_figure, "learning": learning_figure, "size": size_figure,
}  # fmt: skip
"""By the suffix of their files."""
ALT = {
    "cliffs": "RMSE on molecules with an activity cliff, less that of scl",
    "learning": "{title} against the number of training molecules",
    "size": "{title} against the number of molecules of pre-training",
}
"""What they show, of a metric with a title."""
