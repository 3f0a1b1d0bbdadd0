"""Detection of items of classes that training has not seen: scores, and open-set predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gcl_hard.errors import InputError, check_at_least
from gcl_hard.evaluation.checks import (
    Floats,
    Indices,
    as_array,
    check_classes,
    check_grid,
    check_indices,
    check_numbers,
)
from gcl_hard.evaluation.folds import ThreeWaySplit
from gcl_hard.evaluation.metrics import OPEN
from gcl_hard.evaluation.splits import PENALTIES, chosen_regression, unit_rows
from gcl_hard.evaluation.transforms import class_means

NEIGHBOURS = 20
"""The number of neighbours, as scikit-learn's for the local outlier factor."""
KEPT = 0.95
"""Share of the validation items that a threshold takes for known."""


def knn_score(train: ArrayLike, z: ArrayLike, k: int = NEIGHBOURS) -> Floats:
    """Cosine distance to the k-th nearest training item; higher for items of other classes.

    Args:
        train: real numbers [n, d], of known classes.
        z: real numbers [m, d], to score.
        k: from 1 to n − 1.

    Returns:
        float64 [m].

    Source: Sun, Ming, Zhu and Li, *Out-of-Distribution Detection with Deep Nearest Neighbors*,
        2022.

    Example:
        >>> knn_score([[1, 0], [2, 0], [0, 1]], [[5, 0], [0, 5]], k=2).tolist()
        [0.0, 1.0]
    """
    from sklearn.neighbors import NearestNeighbors

    known, asked = _units(train, z, k)
    nearest = NearestNeighbors(n_neighbors=k, metric="cosine", algorithm="brute").fit(known)
    return np.asarray(nearest.kneighbors(asked)[0][:, -1])


def lof_score(train: ArrayLike, z: ArrayLike, k: int = NEIGHBOURS) -> Floats:
    """Local outlier factor of embeddings of length 1; higher for items of other classes.

    Args:
        train: real numbers [n, d], of known classes.
        z: real numbers [m, d], to score.
        k: number of neighbours, from 1 to n − 1.

    Returns:
        float64 [m].

    Source: Breunig, Kriegel, Ng and Sander, *LOF: Identifying Density-Based Local Outliers*, 2000;
        scikit-learn, ``LocalOutlierFactor(novelty=True)``.

    Example:
        >>> scores = lof_score([[9, 0], [9, 1], [9, 2], [9, 3]], [[9, 1.5], [0, 9]], k=2)
        >>> bool(scores[1] > scores[0])
        True
    """
    from sklearn.neighbors import LocalOutlierFactor

    known, asked = _units(train, z, k)
    return np.asarray(
        -LocalOutlierFactor(n_neighbors=k, novelty=True).fit(known).score_samples(asked)
    )


def mahalanobis_score(train: ArrayLike, y: ArrayLike, z: ArrayLike) -> Floats:
    r"""Mahalanobis distance to the nearest class, of embeddings of length 1.

    .. math:: \min_c \, (z - \mu_c)^\top \Sigma^{-1} (z - \mu_c)

    Σ is the covariance within classes, shrunk as Ledoit and Wolf do, so that it has an inverse.

    Args:
        train: real numbers [n, d].
        y: integers [n], the known classes.
        z: real numbers [m, d], to score.

    Returns:
        float64 [m], higher for items of other classes.

    Source: Lee, Lee, Lee and Shin, *A Simple Unified Framework for Detecting Out-of-Distribution
        Samples and Adversarial Attacks*, 2018; scikit-learn, ``LedoitWolf``.

    Example:
        >>> train = [[9, 0], [9, 1], [0, 9], [1, 9]]
        >>> scores = mahalanobis_score(train, [0, 0, 1, 1], [[9, 0.5], [-9, 0]])
        >>> bool(scores[1] > scores[0])
        True
    """
    from scipy.spatial.distance import cdist
    from sklearn.covariance import LedoitWolf

    known, asked = _units(train, z)
    classes, means = class_means(known, y)
    shrunk = LedoitWolf(assume_centered=True).fit(known - means[classes])
    values, vectors = np.linalg.eigh(shrunk.get_precision())
    root = vectors * np.sqrt(np.maximum(values, 0))
    return np.asarray(cdist(asked @ root, means @ root, "sqeuclidean").min(axis=1))


def energy_score(logits: ArrayLike) -> Floats:
    """Energy −log Σ_c exp(logit_c) of a classifier of the known classes.

    Args:
        logits: real numbers [m, C].

    Returns:
        float64 [m], higher for items of other classes.

    Source: Liu, Wang, Owens and Li, *Energy-based Out-of-distribution Detection*, 2020.

    Example:
        >>> energy_score([[9.0, 0.0], [0.1, 0.0]]).round(2).tolist()
        [-9.0, -0.74]
    """
    from scipy.special import logsumexp

    return np.asarray(-logsumexp(check_numbers("logits", logits), axis=1))


class OpenSet(NamedTuple):
    """Test items of known and of other classes, and predictions for them.

    Attributes:
        targets: int64 [n, 1 + D], the class in each column, −1 for one that is not known.
        predicted: float64 [n, 1 + D]: the class that a probe of the known ones predicts, then the
            score of each detector less its threshold, so that items above 0 are called unknown;
            columns are in the order of ``DETECTORS``.
        validation: accuracy of the probe on the validation part, percent.
        chosen: C of the probe.
    """

    targets: Indices
    predicted: Floats
    validation: float
    chosen: float


def open_set(
    z: ArrayLike,
    y: ArrayLike,
    split: ThreeWaySplit,
    *,
    k: int = NEIGHBOURS,
    penalties: Sequence[float] = PENALTIES,
) -> OpenSet:
    """Score the test items of a split by each detector, fitted to its training part.

    The threshold of a detector is the smallest score that 95 % of the validation items do not
    exceed. The probe is the logistic regression of :func:`probe_splits`, whose C the validation
    part chooses; its logits have the energy.

    Args:
        z: real numbers [n, d]; rows in no part are not read.
        y: integers [n], classes from 0; those of the training part are the known ones.
        split: such as one of :func:`known_draws`; validation items are of known classes.
        k: neighbours of the detectors ``knn`` and ``lof``.
        penalties: values of C, each > 0.

    Returns:
        What the metrics of kind ``"ood"`` take, such as ``auroc_knn``.

    Raises:
        InputError: for invalid numbers, classes or parts, or validation items of other classes.

    Example:
        >>> draws = np.random.default_rng(0)
        >>> y = np.arange(120) % 3
        >>> z = draws.normal(size=(120, 3)) + 9 * np.eye(3)[y]
        >>> known = np.flatnonzero(y < 2)
        >>> split = ThreeWaySplit(known[:40], known[40:60], np.arange(90, 120))
        >>> from gcl_hard.evaluation.metrics import metric
        >>> metric("auroc_knn").score(*open_set(z, y, split)[:2])
        100.0
    """
    rows = as_array("z", z)
    classes = check_classes("y", y, len(rows))
    parts = [
        check_indices(f"{name} of a split", ids, len(rows)) for name, ids in split._asdict().items()
    ]
    (known, held_out, asked) = (unit_rows(rows[ids]).astype(np.float64) for ids in parts)
    train_classes, valid_classes, test_classes = (classes[ids] for ids in parts)
    if train_classes.min() < 0 or not np.isin(valid_classes, train_classes).all():
        raise InputError("items to train and to validate on must be of known classes, from 0")
    train, valid = np.split(np.arange(len(known) + len(held_out)), [len(known)])
    probe = chosen_regression(
        np.concatenate([known, held_out]), np.concatenate([train_classes, valid_classes]),
        ThreeWaySplit(train, valid, valid[:0]),
        score="accuracy", penalties=check_grid("penalties", penalties),
    )  # fmt: skip
    others = np.concatenate([held_out, asked])
    scores = np.stack([
        knn_score(known, others, k), lof_score(known, others, k),
        mahalanobis_score(known, train_classes, others), energy_score(probe.logits(others)),
    ], axis=1)  # fmt: skip
    thresholds = np.quantile(scores[: len(held_out)], KEPT, axis=0, method="inverted_cdf")
    predicted = np.column_stack([probe.predict(asked), scores[len(held_out) :] - thresholds])
    target = np.where(np.isin(test_classes, train_classes), test_classes, OPEN)
    return OpenSet(
        np.repeat(target[:, None], predicted.shape[1], axis=1),
        predicted,
        probe.validation,
        probe.chosen,
    )


def _units(train: ArrayLike, z: ArrayLike, k: int = 1) -> tuple[Floats, Floats]:
    known, asked = (unit_rows(check_numbers(name, x)) for name, x in (("train", train), ("z", z)))
    check_at_least("k", k, 1)
    if k >= len(known):
        raise InputError(f"k={k}: expected fewer than the {len(known)} training items")
    return known, asked
