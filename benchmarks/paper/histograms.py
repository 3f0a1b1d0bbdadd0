"""Cosines of pairs of one label and of two, at the last snapshot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pandas as pd
import torch

from gcl_hard.errors import InputError
from gcl_hard.experiments.record import RunResult
from gcl_hard.reports import theme
from gcl_hard.reports.rendering import caption
from gcl_hard.reports.runs import RERUN, by_config, labels, require_snapshots, subject, versions
from gcl_hard.reports.tables import between
from gcl_hard.reports.theme import Drawn, themed
from gcl_hard.theory.similarity import overlap

KINDS = {"same": "pairs of one label", "different": "pairs of two labels"}


def histogram_data(records: Sequence[RunResult]) -> pd.DataFrame:
    """The numbers of :func:`histograms`: cosines of pairs at the last snapshot.

    Args:
        records: with snapshots.

    Returns:
        A row for each line, kind of pairs and bin: the count over all seeds, the density of
        cosines (its integral over [−1, 1] is 1), and the overlap coefficient of the two kinds,
        mean and standard deviation over seeds.

    Raises:
        InputError: if a last snapshot has no histograms, or only one kind of pair.
    """
    rows, called = [], labels(by_config(records))
    for config, config_records in by_config(records).items():
        each = [_histograms(record) for record in config_records]
        shares = [
            overlap(*(torch.from_numpy(histogram[k]) for k in KINDS)).item() for histogram in each
        ]
        std = stdev(shares) if len(shares) > 1 else math.nan
        for kind in KINDS:
            counts = np.sum([histogram[kind] for histogram in each], axis=0)
            edges = np.linspace(-1, 1, len(counts) + 1)
            rows.append(pd.DataFrame({
                "dataset": config.dataset, "method": config.method, "line": called[config],
                "pairs": kind, "cosine_from": edges[:-1], "cosine_to": edges[1:], "count": counts,
                "density": counts / counts.sum() * len(counts) / 2, "seeds": len(config_records),
                "overlap_mean": fmean(shares), "overlap_std": std,
            }))  # fmt: skip
    return pd.concat(rows, ignore_index=True)


def _histograms(record: RunResult) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    stored = record.diagnostics[-1].get("histograms")
    counts = {kind: np.array(stored[kind] if stored else 0, dtype=np.int64) for kind in KINDS}
    if not all(kind_counts.sum() for kind_counts in counts.values()):
        raise InputError(
            f"the last snapshot of {record.run} lacks pairs of one label or of two, or its "
            f"embeddings were not finite: leave it out with --only, or {RERUN}"
        )
    return counts


@themed
def histograms(records: Sequence[RunResult]) -> Drawn:
    """Densities of cosines at the last snapshot, one column per variant.

    Every column shows a variant and the reference: ucl, or else the first of the least β.

    Args:
        records: runs of one data set, protocol, contrast and objective.

    Returns:
        The figure, a row for each bin, and of which embeddings it is.

    Raises:
        InputError: if runs have no snapshots, the variants are more than six, or a run has
            only one kind of pair.

    Source: Robinson et al. (2021), Fig. 3 and 4, which show the overlap without a number.
    """
    require_snapshots(records)
    data, called = histogram_data(records), labels(by_config(records))
    first = called[min(called, key=lambda config: (config.method != "ucl", config.beta or 0.0))]
    variants = [name for name in called.values() if name != first] or [first]
    if len(variants) > 6:
        raise InputError(
            f"at most 6 variants can be laid over {first}, and these are {len(variants)}: "
            f"{', '.join(variants)}; choose with --only"
        )
    words = {
        line: f"overlap {line_rows['overlap_mean'].iloc[0]:.2f}"
        + (f" ± {line_rows['overlap_std'].iloc[0]:.2f}" if line_rows["seeds"].iloc[0] > 1 else "")
        for line, line_rows in data.groupby("line")
    }
    n = len(variants)
    figure, panels = theme.panels(2 * n, across=n, height=1.9, sharex=True, sharey="row")
    for index, panel in enumerate(panels):
        kind, line = [*KINDS][index // n], variants[index % n]
        panel.set_title("" if index // n else f"{line}\n{words[line]}")
        for shown in dict.fromkeys((first, line)):
            line_rows = data[(data["line"] == shown) & (data["pairs"] == kind)]
            edges = np.linspace(-1, 1, len(line_rows) + 1)
            over = shown == line
            hue = theme.colour(line_rows["method"].iloc[0]) if over else theme.GREY
            panel.stairs(
                line_rows["density"], edges, color=hue, fill=not over, alpha=1 if over else 0.4,
                lw=1.6, label="over" if over else "under",
            )  # fmt: skip
        if not index % n:
            panel.set_ylim(0, 1.05 * data.loc[data["pairs"] == kind, "density"].max())
            panel.set_ylabel(f"density,\n{KINDS[kind]}")
        panel.locator_params(axis="x", nbins=3)
    held = data[data["count"] > 0]
    panels[0].set_xlim(held["cosine_from"].min() - 0.02, held["cosine_to"].max() + 0.02)
    figure.supxlabel("cosine", fontsize=theme.TEXT)
    if variants != [first]:
        theme.legend(
            figure,
            [{"color": theme.GREY, "alpha": 0.4, "linewidth": 8,
              "label": f"in all columns: {first}, {words[first]}"},
             {"color": theme.INK, "linewidth": 1.6, "label": "line: as the column says"}],
        )  # fmt: skip
    last = between(int(record.diagnostics[-1]["epoch"]) for record in records)
    theme.heading(
        figure, f"Cosines of pairs of one label and of two. {subject(records)}, epoch {last}"
    )
    return Drawn(
        figure,
        data,
        caption("histograms", folder=Path(__file__).parent, versions=versions(records)),
    )
