"""Nested SVM evaluation: ours against GridSearchCV of the same SVC, one thread, equal results.

Run: python benchmarks/svm_speed.py [--out results.csv] [--pairs 3]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pairs import Table, Values, ratios, timed
from sklearn import config_context
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from gcl_hard.evaluation import C_GRID, outer_folds, svm_cross_validation

CASES = ((188, 2), (600, 6), (1000, 2))
SEED = 0

FloatMatrix = NDArray[np.float64]
Labels = NDArray[np.int64]
Outcome = list[tuple[float, float]]


def random_gin_readouts(n: int, n_classes: int, d: int = 96) -> tuple[FloatMatrix, Labels]:
    """Positive, heavy-tailed, correlated columns that grow with the graph, as sum readouts do."""
    rng = np.random.default_rng(SEED)
    labels = rng.permutation(np.arange(n) % n_classes)
    latent = rng.standard_normal((n_classes, 6))[labels] + 1.5 * rng.standard_normal((n, 6))
    size = rng.lognormal(3.0, 0.4, (n, 1))
    X = size * np.exp(0.3 * latent @ rng.standard_normal((6, d)))
    return X * rng.lognormal(0.0, 1.0, d), labels


def grid_search(X: FloatMatrix, y: Labels, standardise: bool) -> Outcome:
    """(accuracy, C) of each outer fold, as usually written with scikit-learn."""
    svc = SVC(kernel="rbf", gamma="scale")
    model = make_pipeline(StandardScaler(), svc) if standardise else svc
    grid = {"svc__C" if standardise else "C": C_GRID}
    outcome = []
    for fold in outer_folds(y, seed=SEED):
        inner = StratifiedKFold(5, shuffle=True, random_state=SEED)
        search = GridSearchCV(model, grid, cv=inner, n_jobs=1).fit(X[fold.train], y[fold.train])
        (C,) = search.best_params_.values()
        outcome.append((search.score(X[fold.test], y[fold.test]), C))
    return outcome


def ours(X: FloatMatrix, y: Labels, standardise: bool) -> Outcome:
    scores = svm_cross_validation(X, y, seed=SEED, standardise=standardise).folds
    return [(score.accuracy, score.chosen) for score in scores]


def bare_solver_seconds(X: FloatMatrix, y: Labels, standardise: bool, chosen: list[float]) -> float:
    """Fit and predict alone, on kernels built outside the clock: a lower bound for ours."""
    seconds = 0.0
    for fold, C in zip(outer_folds(y, seed=SEED), chosen, strict=True):
        inner = StratifiedKFold(5, shuffle=True, random_state=SEED)
        splits = inner.split(fold.train, y[fold.train])
        jobs = [(fold.train[a], fold.train[b], C_GRID) for a, b in splits]
        for train, test, grid in [*jobs, (fold.train, fold.test, (C,))]:
            Z = X[np.concatenate([train, test])]
            Z = StandardScaler().fit(X[train]).transform(Z) if standardise else Z
            fit = Z[: len(train)]
            squared = np.square(Z).sum(1)[:, None] + np.square(fit).sum(1) - 2 * Z @ fit.T
            kernel = np.exp(-np.maximum(squared, 0) / (fit.shape[1] * fit.var()))
            with config_context(assume_finite=True, skip_parameter_validation=True):
                start = time.perf_counter()
                for value in grid:
                    machine = SVC(C=value, kernel="precomputed").fit(kernel[: len(train)], y[train])
                    machine.predict(kernel[len(train) :])
                seconds += time.perf_counter() - start
    return seconds


def measure(n: int, n_classes: int, standardise: bool, pairs: int) -> Values:
    """Times and ratios of interleaved runs: A B A B, so that both meet the same machine."""
    X, y = random_gin_readouts(n, n_classes)
    seconds: Values = {"GridSearchCV": [], "ours": [], "bare solver": []}
    for _ in range(pairs):
        theirs, expected = timed(lambda: grid_search(X, y, standardise))
        spent, got = timed(lambda: ours(X, y, standardise))
        assert got == expected, f"n={n}: results differ: {got} against {expected}"
        seconds["GridSearchCV"].append(theirs)
        seconds["ours"].append(spent)
        chosen = [C for _, C in got]
        seconds["bare solver"].append(bare_solver_seconds(X, y, standardise, chosen))
    reference = "GridSearchCV"
    return seconds | ratios(seconds, [(reference, name) for name in ("ours", "bare solver")])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="CSV file to write")
    parser.add_argument("--pairs", type=int, default=3, help="interleaved runs of each (3)")
    arguments = parser.parse_args()
    table = Table("svm_speed")
    for n, n_classes in CASES:
        for standardise in (False, True):
            case = f"n={n} classes={n_classes} {'standardised' if standardise else 'raw'}"
            with threadpool_limits(1):
                table.add(case, measure(n, n_classes, standardise, arguments.pairs))
    table.write(arguments.out)


if __name__ == "__main__":
    main()
