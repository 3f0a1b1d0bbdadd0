"""What share of an anchor's negatives has weight under each scale of hardness, while training.

Run: python -m gcl_hard.bench --dataset MUTAG,PTC --method hscl,hscl-tau --beta 0.5,1,2
         --hardness-scale rank,anchor,cosine,batch-max --seeds 2 --diagnostics 10 --output DIR
     python benchmarks/hardness.py DIR [--out results.csv] [--figure hardness.png]

The effective number of negatives is 1 / Σ q², its share that of the admitted ones; an emptied
anchor has no negative left. Of 256 nodes of two batches, by encoders in evaluation mode.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
import seaborn as sns

from gcl_hard.experiments.store import Store
from gcl_hard.reports import theme

SCALES = ["rank", "anchor", "cosine", "batch-max"]
KEYS = ["dataset", "method", "hardness_scale", "beta", "epoch"]


def measured(folder: Path) -> pd.DataFrame:
    """A row for each snapshot, means over seeds."""
    rows = []
    for run in Store(folder).rows():
        config = run.config
        for snapshot in run.diagnostics:
            settings = snapshot["settings"]
            name = "own" if "own" in settings else f"beta={config['beta']:g}"
            seen = settings[name]
            rows.append({
                "dataset": config["dataset"], "method": config["method"],
                "hardness_scale": config["hardness_scale"], "beta": config["beta"],
                "epoch": snapshot["epoch"],
                "share": (seen["effective_hscl"] or float("nan")) / seen["other_labels"],
                "emptied": seen["unopposed"] / snapshot["anchors"],
            })  # fmt: skip
    table = pd.DataFrame(rows)
    return table.groupby(KEYS, dropna=False, as_index=False).mean().round(4)


@theme.themed
def drawn(table: pd.DataFrame, path: Path) -> None:
    """The shares of hscl against the epoch."""
    grid = sns.relplot(
        table[table["method"] == "hscl"], x="epoch", y="share", hue="hardness_scale",
        hue_order=SCALES, row="dataset", col="beta", kind="line", height=2.2, aspect=1.2,
    )  # fmt: skip
    grid.set(ylim=(0, 1.03))
    grid.set_titles("{row_name}, β = {col_name:g}")
    grid.set_axis_labels("epoch", "share of negatives in effect")
    grid.legend.set_title("hardness scale")
    grid.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="runs with --diagnostics")
    parser.add_argument("--out", type=Path, help="CSV file to write")
    parser.add_argument("--figure", type=Path, help="PNG file to write")
    arguments = parser.parse_args()
    table = measured(arguments.folder)
    last = table[table["epoch"] == table["epoch"].max()]
    print(last.to_string(index=False))
    if arguments.out:
        table.to_csv(arguments.out, index=False)
    if arguments.figure:
        drawn(table, arguments.figure)


if __name__ == "__main__":
    main()
