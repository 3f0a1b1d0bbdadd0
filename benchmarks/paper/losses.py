"""The four losses on one encoder, against the epoch."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.ticker import FormatStrFormatter, SymmetricalLogLocator

from gcl_hard.experiments.record import RunResult
from gcl_hard.reports import theme
from gcl_hard.reports.rendering import caption
from gcl_hard.reports.runs import LOSSES, over_seeds, subject, versions
from gcl_hard.reports.snapshot_figures import (
    anchors_text,
    check_defined,
    diagnostics,
    epoch_panels,
    panel_titles,
    plot_line,
)
from gcl_hard.reports.theme import Drawn, themed
from gcl_hard.theory.snapshots import SETTINGS


def losses_data(frame: pd.DataFrame) -> pd.DataFrame:
    """The numbers of :func:`fig5`: four losses of every seed, epoch and hardening.

    Args:
        frame: output of :func:`gcl_hard.reports.runs.snapshots`.

    Returns:
        The rows; ``hscl_at_most_hucl`` says whether Lemma 1 holds of the means, None if there
        are none.
    """
    frame = frame[frame["panel"].isin(SETTINGS)]
    holds = (frame["hscl"] <= frame["hucl"]).astype(object)
    holds[frame[["hscl", "hucl"]].isna().any(axis=1)] = None
    columns = ["dataset", "method", "trained_with", "seed", "epoch", "panel", *LOSSES, "common",
               "anchors", "hscl_at_most_hucl"]  # fmt: skip
    return frame.assign(hscl_at_most_hucl=holds)[columns].reset_index(drop=True)


@themed
def fig5(records: Sequence[RunResult], *, every: bool = False) -> Drawn:
    """UCL, H-UCL, SCL and H-SCL on one encoder against epoch: one column per hardening.

    A row is the method that the encoder was trained with; lines are means over seeds, with bands
    from the lowest to the highest.

    Args:
        records: runs of one data set, protocol, contrast and objective.
        every: whether all methods have a row, not only hscl and hucl if they are there.

    Returns:
        The figure; its rows hold every seed, epoch and hardening.

    Raises:
        InputError: if a run has no snapshots, or no anchor of any of them has all four losses.

    Source: H-SCL paper, section V-B and Fig. 5.
    """
    usual = [
        record
        for name in ("hscl", "hucl")
        for record in records
        if record.run.config.method == name
    ]
    frame, records, methods, facts = diagnostics(usual if usual and not every else records)
    check_defined(frame, "common", "with all four losses")
    data, titles = losses_data(frame), panel_titles(records)
    figure, panels = epoch_panels(4 * len(methods), 4, 2.0, "row")
    styles = {
        name: {"color": theme.colour(name), "label": label, "linestyle": dashes, "marker": marker}
        for (name, label), dashes, marker in zip(
            (("ucl", "UCL"), ("hucl", "H-UCL"), ("scl", "SCL"), ("hscl", "H-SCL")),
            (":", "--", "-.", "-"), theme.MARKERS, strict=False,
        )
    }  # fmt: skip
    for row, line in enumerate(methods):
        line_frame, drawn = frame[frame["line"] == line], []
        for panel, (name, title) in zip(panels[4 * row :], titles.items(), strict=False):
            panel.set_title("" if row else title)
            for index, loss in enumerate(LOSSES):
                drawn.append(over_seeds(line_frame[line_frame["panel"] == name], loss))
                plot_line(panel, drawn[-1], styles[loss], index / len(LOSSES))
        first = panels[4 * row]
        means = [curve["mean"].dropna() for curve in drawn if curve["mean"].notna().any()]
        # a linear axis would hide where lines end that begin at many times as much
        last = min(float(curve.iloc[-1]) for curve in means)
        wide = float(max(map(max, means))) > 10 * max(1.0, last)
        if wide:
            first.set_yscale("symlog", linthresh=1.0)
            first.yaxis.set_major_locator(
                SymmetricalLogLocator(base=10, linthresh=1, subs=[1, 2, 5])
            )
            first.yaxis.set_major_formatter(FormatStrFormatter("%g"))
        first.set_ylabel(
            f"trained with\n{textwrap.fill(line, 24)}\nloss, nats{', logarithmic' * wide}"
        )
    theme.legend(figure, list(styles.values()))
    theme.heading(figure, f"Four losses of one encoder. {subject(records)}, {anchors_text(frame)}")
    note = caption(
        "fig5", folder=Path(__file__).parent, facts=facts,
        last=frame[frame["last"] & frame["panel"].isin(SETTINGS)],
        held={line: held(frame[frame["line"] == line]) for line in methods},
        versions=versions(records),
    )  # fmt: skip
    return Drawn(figure, data, note)


def held(frame: pd.DataFrame) -> dict[str, str]:
    """Number of snapshots with Lemma 1's order of means, by hardening: ``117 of 120``."""
    ordered = losses_data(frame).dropna(subset="hscl_at_most_hucl")
    counts = ordered.groupby("panel")["hscl_at_most_hucl"].agg(["sum", "count"])
    counts = counts.reindex(list(SETTINGS), fill_value=0)
    return {str(name): f"{int(row['sum'])} of {row['count']}" for name, row in counts.iterrows()}
