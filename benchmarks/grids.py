"""Draw scores and effective negatives over temperature and β, of a page of results.

Run: python -m benchmarks.grids PAGE [-o docs/research/figures]

PAGE is a name in benchmarks/pages.yaml; nothing is trained. The figure is PAGE-grid.png.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
from pathlib import Path
from statistics import fmean

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from rich.console import Console

from benchmarks.pages import commands
from gcl_hard.commands.bench import parse_bench
from gcl_hard.commands.execute import execute
from gcl_hard.evaluation.metrics import metric
from gcl_hard.experiments.choice import inner_scores, metric_of
from gcl_hard.experiments.custom import UserParts
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.reports import theme
from gcl_hard.reports.frame import Results, set_name
from gcl_hard.reports.grid import PAIRS, effective

EFFECTIVE = "effective negatives, %"


def grid(results: Results) -> pd.DataFrame:
    """Scores of ucl, hucl, scl and hscl by temperature γ and β, which is 0 of ucl and scl.

    Those by which settings were chosen, of the shorter runs, where there are such runs; else those
    on the test data.

    Args:
        results: results of a command.

    Returns:
        ``dataset``, ``metric``, ``pair`` (``ucl, hucl`` or ``scl, hscl``), ``gamma``, ``beta``,
        ``score``, mean over seeds, and ``effective``: the effective number of negatives after the
        last epoch in percent of their number, NaN without ``--diagnostics``. A cell that only
        differs in other settings is left out with all its like.
    """
    lines = []
    for config in results.shorter or results.configs:
        pair = next((p for p in PAIRS.items() if config.method in p), None)
        compared = [results.shorter[config]] if results.shorter else results.runs(config)
        records = [results.records[run] for run in compared if run in results.records]
        if pair is None or not records or config.temperature is None:
            continue
        scores = [inner_scores(record) if results.shorter else record.values for record in records]
        if not all(scores):
            continue
        lines.append({
            "dataset": set_name(config), "metric": metric_of(records), "pair": ", ".join(pair),
            "gamma": config.temperature, "beta": config.beta or 0.0,
            "score": fmean(map(fmean, scores)), "effective": effective(records[0], config),
            "others": _others(config),
        })  # fmt: skip
    columns = ["dataset", "metric", "pair", "gamma", "beta", "score", "effective", "others"]
    data = pd.DataFrame(lines, columns=columns)
    several = data.groupby("dataset")["others"].transform("nunique") > 1
    return data[~several].drop(columns="others")


def _others(config: RunConfig) -> str:
    """The other settings, as text."""
    of_grid = ("method", "beta", "temperature", "positives")
    return str({k: v for k, v in config.values.items() if k not in of_grid})


@theme.themed
def grid_figure(data: pd.DataFrame) -> Figure | None:
    """Heat maps of :func:`grid`, and the score against γ / (1 + β), one below the other.

    With q ∝ e^(β t), t = s / γ, constant to the gradient, negatives weigh e^((1 + β) t) in it, as
    those of ucl and scl at the temperature γ / (1 + β). Where the gradient flows through q too,
    they weigh (1 + β) p − β p', with p at γ / (1 + β) and p' at γ / β. Where the lines of all β
    coincide, hardness is no more than a temperature.

    Args:
        data: from :func:`grid`.

    Returns:
        The figure; None with fewer than two temperatures or two β.
    """
    if data["gamma"].nunique() < 2 or data["beta"].nunique() < 2:
        return None
    quantities = [name for name in ("score", "effective") if data[name].notna().any()]
    maps = [(d, p) for (d, p), _ in data.groupby(["dataset", "pair"], sort=False)]
    across = len(maps)
    figure, panels = theme.panels(
        across * (len(quantities) + 1), across=across, height=0.9 + 0.24 * data["gamma"].nunique()
    )
    betas = sorted(data["beta"].unique())
    styles = [
        {"color": colour, "marker": marker, "label": f"β = {beta:g}"}
        for beta, colour, marker in zip(
            betas, sns.color_palette("viridis", len(betas)), itertools.cycle(theme.MARKERS),
            strict=False,
        )
    ]  # fmt: skip
    for index, panel in enumerate(panels):
        dataset, pair = maps[index % across]
        cells = data[(data["dataset"] == dataset) & (data["pair"] == pair)]
        measure = metric(cells["metric"].iloc[0])
        if index // across == len(quantities):
            for beta, style in zip(betas, styles, strict=True):
                line = cells[cells["beta"] == beta].sort_values("gamma")
                panel.plot(line["gamma"] / (1 + beta), line["score"], **style)
            panel.set(xscale="log", xlabel="γ / (1 + β)",
                      ylabel=measure.label if index % across == 0 else "")  # fmt: skip
            panel.set_xticks(ticks := (0.03, 0.1, 0.3, 1.0), [f"{x:g}" for x in ticks])
            panel.minorticks_off()
            continue
        quantity = quantities[index // across]
        shown = cells.pivot(index="gamma", columns="beta", values=quantity)
        sns.heatmap(
            shown, ax=panel, annot=True,
            fmt=f".{measure.digits if quantity == 'score' else 1}f", cmap="viridis", cbar=False,
            annot_kws={"size": theme.SMALL}, linewidths=0.5,
            xticklabels=[f"{b:g}" for b in shown.columns],
            yticklabels=[f"{g:g}" for g in shown.index],
        )  # fmt: skip
        panel.set_title(f"{dataset}: {pair}\n{measure.label if quantity == 'score' else EFFECTIVE}")
        panel.set(xlabel="β", ylabel="temperature γ" if index % across == 0 else "")
        panel.tick_params(length=0, rotation=0)
    theme.legend(figure, styles)
    return figure


def main() -> None:
    """Draw the grid of a page."""
    known = commands()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("page", choices=known, metavar="PAGE", help=f"one of {', '.join(known)}")
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/research/figures"))
    asked = parser.parse_args()
    options = parse_bench([*shlex.split(known[asked.page])[1:], "--report-only"])
    figure = grid_figure(grid(execute(options, UserParts(), Console())[0]))
    if figure is None:
        parser.error(f"{asked.page} has fewer than two temperatures or two β")
    theme.save(figure, asked.output / f"{asked.page}-grid.png")


if __name__ == "__main__":
    main()
