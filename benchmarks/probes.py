"""Probes of nodes: our regressions against scikit-learn's L-BFGS, C chosen, whole `probe_splits`.

Run: python benchmarks/probes.py [--out results.csv] [--pairs 5] [--splits 5] [--names Cora]

CPU seconds of a split on features propagated twice (as sgc's), how many of its test predictions
differ, how much the mean of all splits moves and how many choose another C, and the largest
distance from the optimum over splits and C, relative to it. The sets are read from `GCL_HARD_DATA`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from pairs import Table, Values, ratios
from threadpoolctl import threadpool_limits

from gcl_hard.evaluation import probe_splits, random_splits
from gcl_hard.evaluation.folds import ThreeWaySplit
from gcl_hard.evaluation.metrics import metric
from gcl_hard.evaluation.splits import (
    PENALTIES,
    SOLVERS,
    ProbedSplit,
    Regressions,
    dense_if_full,
    unit_rows,
)
from gcl_hard.nodes import load_nodes, published_metric
from gcl_hard.nodes.encoders import normalised_adjacency
from gcl_hard.nodes.experiment import to_scipy


def objectives(x: np.ndarray, y: np.ndarray, fits: Regressions) -> np.ndarray:
    """Of each C."""
    logits = np.einsum("ij,pkj->pik", x, fits.weights) + fits.offsets[:, None]
    if logits.shape[2] == 1:
        logits = np.concatenate([np.zeros_like(logits), logits], 2)
    misfits = np.logaddexp.reduce(logits, 2) - logits[:, np.arange(len(y)), y]
    return np.square(fits.weights).sum((1, 2)) / 2 + np.array(PENALTIES) * misfits.sum(1)


def changes(
    labels: np.ndarray,
    splits: list[ThreeWaySplit],
    results: dict[str, list[ProbedSplit]],
    score: str,
) -> Values:
    """What newton's optimum changes of L-BFGS's results, in percent."""
    parts = [
        (labels[split.test], *(part.predicted[split.test] for part in pair))
        for split, *pair in zip(splits, results["lbfgs"], results["newton"], strict=True)
    ]
    moved = [metric(score).score(y, b) - metric(score).score(y, a) for y, a, b in parts]
    classes = [(a > 0, b > 0) if score == "auc" else (a, b) for _, a, b in parts]
    chosen = ([part.chosen for part in probed] for probed in results.values())
    return {
        "predictions that differ": [100 * float(np.mean(a != b)) for a, b in classes],
        "mean score moves by": [float(np.mean(moved))],
        "splits with another C": [100 * float(np.mean(np.not_equal(*chosen)))],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="CSV file to write")
    parser.add_argument("--pairs", type=int, default=5, help="interleaved runs of each (5)")
    parser.add_argument("--splits", type=int, default=5, help="splits (5)")
    parser.add_argument("--names", default="Cora,CiteSeer,Minesweeper,Photo", help="sets of nodes")
    options = parser.parse_args()
    table = Table("probes", options)
    for name in table.each(options.names.split(",")):
        data = load_nodes(name)
        by = to_scipy(normalised_adjacency(data.edge_index, data.edge_weight, data.n_nodes))
        raw, y = to_scipy(data.normalised().x), data.y.numpy()
        score, ids = published_metric(name), np.flatnonzero(y >= 0)
        splits = random_splits(ids, options.splits, labels=y[ids])
        for kind, x in (("raw", raw), ("propagated", dense_if_full(by @ dense_if_full(by @ raw)))):
            seconds: Values = {"lbfgs": [], "newton": []}
            results: dict[str, list[ProbedSplit]] = {}
            with threadpool_limits(1):
                probe_splits(x, y, splits[:1], score=score)
                for _ in range(options.pairs):
                    for solver, spent in seconds.items():
                        start = time.process_time()
                        results[solver] = probe_splits(
                            x,
                            y,
                            splits,
                            score=score,
                            solver=solver,  # type: ignore[arg-type]
                        )
                        spent.append((time.process_time() - start) / len(splits))
            table.add(f"{name} {kind}", seconds | ratios(seconds, [("lbfgs", "newton")]))
            table.add(f"{name} {kind}", changes(y, splits, results, score), unit="%")
            rows, above = unit_rows(x).astype(np.float64), []
            for split in splits:
                z, labels = (
                    dense_if_full(rows[split.train]),
                    np.unique(y[split.train], return_inverse=True)[1],
                )
                dense = z.toarray() if hasattr(z, "toarray") else z
                newton, lbfgs = (
                    objectives(dense, labels, SOLVERS[solver](z, labels, PENALTIES))
                    for solver in ("newton", "lbfgs")
                )
                above.append((lbfgs / newton - 1).max())
            table.add(f"{name} {kind}", {"largest excess of lbfgs": above}, unit="of the optimum")
    table.write(options.out)


if __name__ == "__main__":
    main()
