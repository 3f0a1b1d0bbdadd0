"""Score embeddings under a protocol; needs no PyTorch, so that processes for it start at once."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gcl_hard.evaluation import Fold, FoldScore, svm_cross_validation, svm_fold


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
        found = svm_cross_validation(
            what.embeddings[0], what.labels, seed=what.seed, n_folds=what.n_folds,
            standardise=what.standardise, n_jobs=n_jobs,
        ).folds  # fmt: skip
    else:
        found = tuple(
            svm_fold(z, what.labels, fold, standardise=what.standardise, seed=what.seed)
            for z, fold in zip(what.embeddings, what.folds, strict=True)
        )
    return found, time.perf_counter() - start
