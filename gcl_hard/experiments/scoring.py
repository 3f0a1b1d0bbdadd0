"""Score embeddings under a protocol: arrays in, scores out, in any process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gcl_hard import evaluation
from gcl_hard.evaluation.kernels import C_GRID  # without scikit-learn

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
        kernel: of the embeddings, "rbf" or "linear".
        C_grid: candidates for the SVM's penalty.
        added: float64 [G, G], a kernel to add to the embeddings', or None.
    """

    embeddings: tuple[NDArray[np.float64], ...]
    labels: NDArray[np.int64]
    folds: tuple[Fold, ...] | None
    seed: int
    n_folds: int
    standardise: bool
    kernel: str = "rbf"
    C_grid: tuple[float, ...] = C_GRID
    added: NDArray[np.float64] | None = None


def score(what: Scoring, n_jobs: int = 1) -> tuple[tuple[FoldScore, ...], float]:
    """Scores of the outer folds, and the seconds that they took.

    Args:
        what: embeddings and how they are scored.
        n_jobs: folds scored side by side.

    Returns:
        Scores in fold order, seconds.
    """
    start = time.perf_counter()
    settings: dict[str, Any] = {
        name: getattr(what, name) for name in ("seed", "standardise", "kernel", "C_grid", "added")
    }
    if what.folds is None:
        found = evaluation.svm_cross_validation(
            what.embeddings[0], what.labels, n_folds=what.n_folds, n_jobs=n_jobs, **settings
        ).folds
    else:
        found = tuple(
            evaluation.svm_fold(z, what.labels, fold, **settings)
            for z, fold in zip(what.embeddings, what.folds, strict=True)
        )
    return found, time.perf_counter() - start
