"""The figure of a search for a recipe: what each alternative gains."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from benchmarks.recipe.search import Chosen, said
from gcl_hard.reports import theme
from gcl_hard.reports.result_figures import DIAMOND

HELPS, HARMS, NEITHER = "#117733", "#882255", "#888888"
"""Interval above 0, below, and around it."""


def gains(chosen: Chosen) -> pd.DataFrame:
    """Gains of settings over the start: combined ones first, then single ones, best first.

    Args:
        chosen: outcome of a search.

    Returns:
        ``settings``, ``mean``, ``low`` and ``high`` in points of inner score over all sets, and a
        column for each baseline.
    """
    joined = chosen.joined[-1:] if len(chosen.joined) > 1 else []
    alone = sorted(chosen.alternatives, key=lambda one: -one.gain.mean)
    return pd.DataFrame(
        [
            {"settings": said(one.settings) + " (joined)" * (one in joined),
             "mean": one.gain.mean, "low": one.gain.low, "high": one.gain.high,
             **{name: one.by_method[name].mean for name in chosen.search.baselines}}
            for one in (*joined, *alone)
        ]
    )  # fmt: skip


@theme.themed
def forest(chosen: Chosen) -> Figure | None:
    """Gains over all sets with their intervals, best first, next to those of baselines.

    Args:
        chosen: outcome of a search.

    Returns:
        The figure, combined settings above single ones; None if nothing was tried.
    """
    data = gains(chosen)
    if data.empty:
        return None
    figure, (axes,) = theme.panels(1, height=0.19 * len(data), top=1.0, grid="x")
    axes.axvline(0, color=theme.INK, linewidth=0.8)
    for y, row in enumerate(theme.rows(data)):
        hue = HELPS if row.low > 0 else HARMS if row.high < 0 else NEITHER
        axes.plot([row.low, row.high], [y, y], color=hue, linewidth=1.4)
        axes.plot([row.mean], [y], "o", color=hue, markersize=4.5)
    baselines = {**DIAMOND, "color": theme.GREY, "label": ", ".join(chosen.search.baselines)}
    for name in chosen.search.baselines:
        axes.plot(data[name], range(len(data)), **baselines)
    if data["settings"].iloc[0].endswith("(joined)"):
        axes.axhline(0.5, color=theme.RULE, linewidth=0.8)
    axes.set_yticks(range(len(data)), data["settings"])
    axes.set_ylim(len(data) - 0.4, -0.6)
    axes.set_xlabel("gain in inner score over the start, points, mean over sets")
    axes.spines["left"].set_visible(False)
    axes.tick_params(left=False)
    deciding = ", ".join(chosen.search.deciding)
    keys = [
        {"color": hue, "marker": "o", "label": f"{deciding}: interval {where} 0"}
        for hue, where in ((HELPS, "above"), (HARMS, "below"), (NEITHER, "around"))
    ]
    theme.legend(figure, [*keys, *([baselines] if chosen.search.baselines else [])])
    return figure
