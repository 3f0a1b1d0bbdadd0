"""The H-SCL paper's Fig. 5: four losses on one encoder, epoch by epoch."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FormatStrFormatter, SymmetricalLogLocator

from gcl_hard.experiments.config import GraphConfig, RunConfig
from gcl_hard.experiments.figures import axes, epochs, notes
from gcl_hard.experiments.figures.naming import labels, settings, subject
from gcl_hard.experiments.figures.runs import Run, by_cell, looked, measured, versions
from gcl_hard.experiments.figures.written import Drawn, title
from gcl_hard.experiments.reporting.figures.drawing import COLOURS, TEXT

LOSSES = {"ucl": "UCL", "hucl": "H-UCL", "scl": "SCL", "hscl": "H-SCL"}
USUAL = ("hscl", "hucl")
"""Methods whose training is shown: the paper's, and that of its published script."""

WIDE = 24
"""Letters of a row's name in a line."""
SPAN = 10
"""From where a row's axis is logarithmic: the highest mean over the lowest last one, in nats."""


def draw(runs: Sequence[Run], *, every: bool = False) -> Drawn:
    """UCL, H-UCL, SCL and H-SCL on one encoder against epoch: a column a setting.

    A row is the method that the encoder was trained with; lines are means over seeds, with bands
    from the lowest to the highest.

    Args:
        runs: of one data set, protocol, contrast and objective.
        every: whether all methods have a row, and not hscl and hucl alone where they are there.

    Returns:
        The figure; its rows hold every seed, epoch and setting.

    Raises:
        InputError: if a run has no looks, or no anchor of any of them has all four losses.

    Source: H-SCL paper, section V-B and Fig. 5.
    """
    usual = [run for method in USUAL for run in runs if run.cell.method == method]
    runs = usual if usual and not every else runs
    looked(runs)
    epochs.defined(runs, "common", "with all four losses")
    runs, left_out = epochs.several(runs)
    cells, shown = by_cell(runs), epochs.titles(runs)
    figure, grid = axes.panels(len(cells), len(shown), height=2.0, sharey="row")
    styles, cut = _styles(), list[str]()
    for line, (cell, own) in zip(grid, cells.items(), strict=True):
        drawn, means = [], []
        for panel, name in zip(line, shown, strict=True):
            for index, (loss, style) in enumerate(styles.items()):
                values = epochs.series(own, name, "losses", loss)
                drawn.append(values)
                means.append([mean for mean in values.mean if not math.isnan(mean)])
                axes.plot(panel, values, style, place=index / len(styles))
        top = axes.top(means)
        wide = _is_wide([[min(mean, top) for mean in one] for one in means])
        if wide:
            _logarithmic(line[0])
        if math.isfinite(top):
            line[0].set_ylim((None, top) if wide else axes.limits(drawn, top))
            cut.append(f"{labels(cells)[cell]}, up to {max(map(max, means)):.2g}")
        words = textwrap.fill(labels(cells)[cell], WIDE)
        scale = ", logarithmic" * wide
        line[0].set_ylabel(f"trained with\n{words}\nloss, nats{scale}", fontsize=TEXT)
    for panel, words in zip(grid[0], shown.values(), strict=True):
        panel.set_title(words, fontsize=TEXT)
    axes.key(figure, list(styles.values()))
    title(figure, f"Four losses of one encoder. {subject(runs)}, {notes.anchors(runs)}")
    note = _note(cells, left_out) + notes.beyond(cut) + versions(runs)
    return Drawn(figure, _rows(cells), note)


def _is_wide(means: Sequence[Sequence[float]]) -> bool:
    """Whether a linear axis would hide where lines end: they begin at many times as much."""
    highest = max((max(line) for line in means if line), default=0.0)
    last = min((line[-1] for line in means if line), default=0.0)
    return highest > SPAN * max(last, 1.0)


def _logarithmic(panel: Axes) -> None:
    """From 1 nat on; below, where a JSD loss may be negative, it is linear."""
    panel.set_yscale("symlog", linthresh=1.0)
    panel.yaxis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=1, subs=[1, 2, 5]))
    panel.yaxis.set_major_formatter(FormatStrFormatter("%g"))


def _styles() -> dict[str, dict[str, Any]]:
    return {
        name: {"color": COLOURS[name], "label": words, "linestyle": dashes, "marker": marker}
        for (name, words), dashes, marker in zip(
            LOSSES.items(), (":", "--", "-.", "-"), axes.MARKERS, strict=False
        )
    }


def _holds(found: Mapping[str, Any]) -> bool | None:
    """Whether the mean H-SCL loss is at most the mean H-UCL loss; None if there is neither."""
    losses = found["losses"]
    if losses["hscl"] is None or losses["hucl"] is None:
        return None
    return bool(losses["hscl"] <= losses["hucl"])


def _rows(cells: Mapping[RunConfig, Sequence[Run]]) -> list[dict[str, object]]:
    trained_with, rows = settings(cells), []
    for cell, runs in cells.items():
        for run in runs:
            for look in run.looks:
                for name in epochs.SETTINGS:
                    found = measured(look, name)
                    rows.append({
                        "dataset": cell.dataset, "method": cell.method,
                        "trained_with": trained_with[cell], "seed": run.seed,
                        "epoch": look["epoch"], "panel": name,
                        **{loss: found["losses"][loss] for loss in LOSSES},
                        "common": found["common"], "anchors": look["anchors"],
                        "hscl_at_most_hucl": _holds(found),
                    })  # fmt: skip
    return rows


def _note(cells: Mapping[RunConfig, Sequence[Run]], left_out: str) -> str:
    runs = [run for own in cells.values() for run in own]
    last = [run.looks[-1] for run in runs]
    common = notes.between([measured(x, n)["common"] for x in last for n in epochs.SETTINGS])
    total = notes.between([look["anchors"] for look in last])
    said = [_held(label, cells[cell]) for cell, label in labels(cells).items()]
    cell = runs[0].cell
    nodes = isinstance(cell, GraphConfig) and cell.contrast == "local-global"
    positives = "positive, the node's own graph" if nodes else "positives, by view and label"
    return (
        "Means over the anchors that have all four losses "
        f"({common} of {total} at the last look), with the same {positives}, and the same M for "
        f"all four. UCL and SCL depend on no setting; where they differ between panels, the "
        f"anchors that have all four do. {notes.encoder(runs)}{notes.lines(cells)}{left_out}"
        f"{notes.in_effect(runs, epochs.SETTINGS)}H-SCL ≤ H-UCL, of epochs × seeds, trained with "
        f"{'; '.join(said)}."
    )


def _held(label: str, runs: Sequence[Run]) -> str:
    """At how many looks Lemma 1's means are in order, by setting where settings differ."""
    counts = {}
    for name in epochs.SETTINGS:
        found = [_holds(measured(look, name)) for run in runs for look in run.looks]
        defined = [held for held in found if held is not None]
        counts[name] = f"{sum(defined)} of {len(defined)}"
    if len(set(counts.values())) == 1:
        return f"{label}: {counts.popitem()[1]} in each panel"
    each = ", ".join(f"{count} ({name.replace('beta', 'β')})" for name, count in counts.items())
    return f"{label}: {each}"
