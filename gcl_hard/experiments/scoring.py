"""Score embeddings under a protocol: arrays in, scores out, in any process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gcl_hard import evaluation

if TYPE_CHECKING:
    from gcl_hard.evaluation import Fold, FoldScore


class Scoring(NamedTuple):
    """What the SVMs of a seed need.

    Attributes:
        embeddings: float64 [G, d], of the one encoder or of each fold's own.
        labels: int64 [G].
        folds: of encoders of their own; None where one encoder serves all.
        seed: of the folds.
        n_folds: of the outer cross-validation.
        standardise: whether the SVM sees standardised embeddings.
    """

    embeddings: tuple[NDArray[np.float64], ...]
    labels: NDArray[np.int64]
    folds: tuple[Fold, ...] | None
    seed: int
    n_folds: int
    standardise: bool


def score(what: Scoring, n_jobs: int = 1) -> tuple[tuple[FoldScore, ...], float]:
    """Scores of the outer folds, and the seconds that they took.

    Args:
        what: embeddings and how they are scored.
        n_jobs: folds scored side by side.

    Returns:
        Scores in fold order, seconds.
    """
    start = time.perf_counter()
    if what.folds is None:
        found = evaluation.svm_cross_validation(
            what.embeddings[0], what.labels, seed=what.seed, n_folds=what.n_folds,
            standardise=what.standardise, n_jobs=n_jobs,
        ).folds  # fmt: skip
    else:
        found = tuple(
            evaluation.svm_fold(z, what.labels, fold, standardise=what.standardise, seed=what.seed)
            for z, fold in zip(what.embeddings, what.folds, strict=True)
        )
    return found, time.perf_counter() - start
