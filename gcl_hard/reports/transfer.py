"""The page of transfer: scores of molecules by set, and paired differences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gcl_hard.evaluation.checks import Floats, Indices
from gcl_hard.evaluation.transfer import paired_bootstrap, rmse, roc_auc
from gcl_hard.io import atomic_write
from gcl_hard.reports.page import rendered

Result = dict[str, Any]
CONTROLS = ("untrained", "ecfp")
"""Rows that the others are compared with."""
WIDEST = 8
"""Most columns of a table."""
METRICS = {
    "auc": "ROC-AUC, %", "rmse": "RMSE", "cliff_rmse": "RMSE of molecules with an activity cliff",
}  # fmt: skip


def frame(results: Sequence[Result]) -> pd.DataFrame:
    """One row for each run and metric: ``row``, ``dataset``, ``split``, ``seed``, ``metric``,
    ``score``.
    """
    found = [
        {
            "row": one["row"], "dataset": one["dataset"], "split": one["split"],
            "seed": one["seed"], "metric": metric,
            "score": np.nan if one["score"][metric] is None else one["score"][metric],
        }
        for one in results
        for metric in METRICS
        if metric in one["score"]
    ]  # fmt: skip
    return pd.DataFrame(found, columns=["row", "dataset", "split", "seed", "metric", "score"])


def table(data: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Mean ± standard deviation over seeds and splits, by representation and set.

    Many sets are rows, few are columns.
    """
    mine = data[data["metric"] == metric]
    grouped = mine.groupby(["row", "dataset"], sort=False)["score"]
    digits = 1 if metric == "auc" else 3
    mean, deviation = grouped.mean(), grouped.std(ddof=1)
    spread = deviation.map(lambda one: "" if np.isnan(one) else f" ± {one:.{digits}f}")
    cells = mean.map(f"{{:.{digits}f}}".format) + spread
    found = cells.unstack("dataset").reindex(
        index=mine["row"].drop_duplicates(), columns=mine["dataset"].drop_duplicates()
    )  # fmt: skip
    means = mean.unstack("dataset").reindex(index=found.index)
    if found.shape[1] > 1:
        found.insert(0, "mean", means.mean(axis=1, skipna=False).map(f"{{:.{digits}f}}".format))
    found.index.name = None
    found.columns.name = None
    found = found.replace("nan", "–").fillna("–")
    return found if found.shape[1] <= WIDEST else found.T


def differences(results: Sequence[Result], metric: str) -> pd.DataFrame:
    """Each row less each control on the sets, splits and seeds that both have, with intervals."""
    by_row: dict[str, dict[tuple[str, str], list[Predictions]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for one in results:
        if one["score"].get(metric) is not None:
            by_row[one["row"]][one["dataset"], one["split"]].append(Predictions.of(one))
    found: dict[str, dict[str, str]] = {}
    digits = 1 if metric == "auc" else 3
    for row, cases in by_row.items():
        for control in CONTROLS:
            shared = [case for case in cases if case in by_row.get(control, {})]
            if row == control or not shared:
                continue
            sets = [
                (partial(_score, by_row[control][case], cases[case], metric),
                 len(cases[case][0].y))
                for case in shared
            ]  # fmt: skip
            got = paired_bootstrap(sets)
            text = f"{got.difference:+.{digits}f} [{got.low:+.{digits}f}, {got.high:+.{digits}f}]"
            found.setdefault(row, {})[f"− {control}"] = f"{text} ({len(shared)})"
    return pd.DataFrame.from_dict(found, orient="index").fillna("–")


class Predictions(NamedTuple):
    """Targets and predictions of a test part, [n, T], and which molecules have a cliff."""

    y: Floats
    predictions: Floats
    cliffs: Any

    @classmethod
    def of(cls, one: Result) -> Predictions:
        """Those of a result."""
        n = len(one["test"])
        y, predictions = (np.array(one[k], float).reshape(n, -1) for k in ("y", "predictions"))
        return cls(y, predictions, None if one["cliffs"] is None else np.array(one["cliffs"]))


def _score(
    first: list[Predictions], second: list[Predictions], metric: str, ids: Indices, which: int
) -> float:
    """The mean score over the seeds of one of two rows, on some test molecules."""
    return float(np.mean([_of(one, metric, ids) for one in (second if which else first)]))


def _of(one: Predictions, metric: str, ids: Indices) -> float:
    y, predictions = one.y[ids], one.predictions[ids]
    if metric == "auc":
        return 100 * roc_auc(y, predictions).mean
    which = one.cliffs[ids] if metric == "cliff_rmse" else None
    return rmse(y[:, 0], predictions[:, 0], which)


def write_page(
    path: Path,
    results: Sequence[Result],
    command: str,
    n_open: int,
    *,
    too_large: Sequence[str] = (),
) -> None:
    """Write the page.

    Args:
        path: page.md.
        results: finished runs.
        command: that makes it.
        n_open: number of runs that are not finished.
        too_large: runs that were left out because their sets are too large.
    """
    data = frame(results)
    metrics = [metric for metric in METRICS if (data["metric"] == metric).any()]
    parts = [
        {
            "title": METRICS[metric],
            "lower": metric != "auc",
            "table": table(data, metric).to_markdown(disable_numparse=True),
            "differences": differences(results, metric).to_markdown(disable_numparse=True),
        }
        for metric in metrics
    ]
    left_out = sorted({
        f"{one['dataset']} ({one['split']}): {', '.join(one['score']['one_class'])}"
        for one in results
        if one["score"].get("one_class")
    })  # fmt: skip
    few = sorted({
        f"{one['dataset']} ({one['split']}): {len(one['score']['few'])}"
        for one in results
        if one["score"].get("few")
    })  # fmt: skip
    invalid = sorted({f"{one['dataset']}: {one['invalid']}" for one in results if one["invalid"]})
    text = rendered(
        "transfer.md.j2", parts=parts, cliffs="cliff_rmse" in metrics, command=command,
        n_open=n_open, n=sum(one["row"] != one["choice"] for one in results),
        seeds=sorted(set(data["seed"])), splits=list(dict.fromkeys(data["split"])),
        left_out=left_out, too_large=too_large, few=few, invalid=invalid,
        devices=sorted({one["device"] for one in results}),
        days=sorted({one["finished"][:10] for one in results}),
        sources=sorted({one["versions"]["source"] for one in results}),
    )  # fmt: skip
    with atomic_write(path) as file:
        file.write(text.encode())
