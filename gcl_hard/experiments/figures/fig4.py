"""The H-SCL paper's Fig. 4: at how many anchors Assumption 1 holds, epoch by epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gcl_hard.experiments.config import RunConfig
from gcl_hard.experiments.diagnostics import OWN
from gcl_hard.experiments.figures import axes, epochs, notes
from gcl_hard.experiments.figures.naming import labels, settings, subject
from gcl_hard.experiments.figures.runs import Run, by_cell, looked, measured, versions
from gcl_hard.experiments.figures.written import Drawn, title
from gcl_hard.experiments.reporting.figures.drawing import INK, TEXT

CLAIMED = 0.95
"""The paper's "over 95 % of all anchors across all epochs" (section V-B, CIFAR100)."""
RULE = f"the paper, CIFAR100: above {CLAIMED}"
COUNTS = ("defined", "alone", "spared", "unopposed")


def draw(runs: Sequence[Run]) -> Drawn:
    """The share of anchors that satisfy Assumption 1 against epoch, a panel a setting.

    A line is a training method: mean over seeds, with a band from the lowest to the highest seed.
    Shares are of the anchors at which the assumption says something; a look without any is a gap.

    Args:
        runs: of one data set, protocol, contrast and objective.

    Returns:
        The figure; its rows hold every seed, epoch and setting.

    Raises:
        InputError: if a run has no looks, or none of them defines the share at any anchor.

    Source: H-SCL paper, section V-B and Fig. 4.
    """
    looked(runs)
    epochs.defined(runs, "defined", "at which Assumption 1 says something")
    runs, left_out = epochs.several(runs)
    shown, cells = epochs.titles(runs), by_cell(runs)
    if all(any(OWN in look["settings"] for look in run.looks) for run in runs):
        shown[OWN] = _own(runs)
    figure, grid = axes.panels(1, len(shown), height=2.4, sharey="all")
    styles, drawn = axes.styles(labels(cells)), []
    for panel, (name, words) in zip(grid[0], shown.items(), strict=True):
        panel.set_title(words, fontsize=TEXT)
        panel.axhline(CLAIMED, color=INK, linewidth=1, linestyle=(0, (2, 2)))
        for index, (cell, own) in enumerate(cells.items()):
            drawn.append(epochs.series(own, name, "assumption_1"))
            axes.plot(panel, drawn[-1], styles[cell], place=index / len(cells))
    lows = [low for values in drawn for low in values.low if not math.isnan(low)]
    bottom = max((edge for edge in (0.0, 0.5, 0.8) if edge < min(lows, default=0.0)), default=0.0)
    grid[0, 0].set_ylim(bottom, 1 + 0.02 * (1 - bottom))
    grid[0, 0].set_ylabel("share of anchors", fontsize=TEXT)
    rule = {"color": INK, "linestyle": (0, (2, 2)), "label": RULE}
    axes.key(figure, [*styles.values(), rule], "trained with")
    title(figure, f"Assumption 1 while training. {subject(runs)}, {notes.anchors(runs)}")
    note = _note(cells, list(shown), bottom, left_out) + versions(runs)
    return Drawn(figure, _rows(cells, list(shown)), note)


def _own(runs: Sequence[Run]) -> str:
    """The title of the panel of what was trained with."""
    looks = [look["settings"][OWN] for r in runs for look in r.looks if OWN in look["settings"]]
    found = {str(look["setting"]) for look in looks}
    words = f": {found.pop()}" if len(found) == 1 else ""
    return "as trained" + words.replace("beta=", "β = ").replace("l=", "l = ")


def _rows(
    cells: Mapping[RunConfig, Sequence[Run]], shown: Sequence[str]
) -> list[dict[str, object]]:
    trained_with, rows = settings(cells), []
    for cell, runs in cells.items():
        for run in runs:
            for look in run.looks:
                for name in shown:
                    found = measured(look, name)
                    panel = f"own ({found['setting']})" if "setting" in found else name
                    rows.append({
                        "dataset": cell.dataset, "method": cell.method,
                        "trained_with": trained_with[cell], "seed": run.seed,
                        "epoch": look["epoch"], "panel": panel, "fraction": found["assumption_1"],
                        **{count: found[count] for count in COUNTS}, "anchors": look["anchors"],
                        "lemma_1": found["lemma_1"],
                    })  # fmt: skip
    return rows


def _note(
    cells: Mapping[RunConfig, Sequence[Run]], shown: Sequence[str], bottom: float, left_out: str
) -> str:
    runs = [run for own in cells.values() for run in own]
    last = [(run.looks[-1], measured(run.looks[-1], name)) for run in runs for name in shown]
    epoch = notes.between([int(look["epoch"]) for look, _ in last])
    defined = notes.between([found["defined"] for _, found in last])
    total = notes.between([look["anchors"] for look, _ in last])
    why = [
        f"{words} ({notes.between(numbers)})"
        for name, words in REASONS.items()
        if max(numbers := [found[name] for _, found in last])
    ]
    said = (
        "Share of the anchors at which collisions, weighed by the hardening, lie no farther than "
        "hard negatives of other labels. "
        f"{notes.encoder(runs)}{notes.lines(cells)}{left_out}At the last look (epoch {epoch}) it "
        f"is defined at {defined} of {total} anchors"
    )
    said += f"; at others there is {', or '.join(why)}. " if why else ". "
    said += notes.in_effect(runs, shown)
    every = [measured(look, n) for run in runs for look in run.looks for n in shown]
    shares = [found["assumption_1"] for found in every if found["assumption_1"] is not None]
    above = sum(share > CLAIMED for share in shares)
    said += f"Above {CLAIMED} at {above} of {len(shares)} epochs × seeds × panels"
    said += f"; the least is {min(shares):.3f}."
    return said + (f" The axis starts at {bottom:g}." if bottom else "")


REASONS = {
    "alone": "no other of the label",
    "spared": "none of the label that the hardening takes",
    "unopposed": "none of another label that the hardening takes",
}
