"""Seeded, stratified splits into samples to train on and samples to test on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import StratifiedKFold, train_test_split

from gcl_hard.errors import InputError
from gcl_hard.evaluation.checks import Indices, check_at_least, check_share


@dataclass(frozen=True, eq=False)
class Fold:
    """One split into samples to train on and samples to test on.

    Args:
        train: int64 [n_train], indices into the whole set.
        test: int64 [n_test], indices into the whole set, none of them in ``train``.

    Raises:
        InputError: a part is empty, is not a row of non-negative integers, or the parts overlap.

    Example:
        >>> Fold(np.array([0, 1, 3]), np.array([2])).train
        array([0, 1, 3])
    """

    train: Indices
    test: Indices

    def __post_init__(self) -> None:
        for name in ("train", "test"):
            part = np.asarray(getattr(self, name))
            if part.ndim != 1 or part.size == 0 or part.dtype.kind not in "iu" or part.min() < 0:
                raise InputError(
                    f"fold.{name}: expected a non-empty row of indices >= 0, "
                    f"got dtype {part.dtype} with shape {part.shape}"
                )
            object.__setattr__(self, name, part.astype(np.int64))
        both = np.intersect1d(self.train, self.test)
        if both.size:
            raise InputError(f"fold: sample {both[0]} is in both train and test; keep it in one")


def check_labels(labels: ArrayLike, n_samples: int | None = None, n_folds: int = 10) -> Indices:
    """Labels as an int64 array, checked to be fit for stratified folds.

    Args:
        labels: integers [n], one class per sample.
        n_samples: the length that labels must have; None accepts any.
        n_folds: every class needs this many members, one for each fold; at least 2.

    Returns:
        The labels, int64 [n].

    Raises:
        InputError: wrong dimension, dtype or length, one class only, or a class that is too small.

    Example:
        >>> check_labels([0, 1, 0, 1], n_folds=2)
        array([0, 1, 0, 1])
    """
    check_at_least("n_folds", n_folds, 2)
    array = np.asarray(labels)
    if array.ndim != 1:
        raise InputError(f"labels: expected one dimension [n], got shape {array.shape}")
    if array.dtype.kind not in "iu":
        raise InputError(f"labels: expected integers, got dtype {array.dtype}")
    if n_samples is not None and len(array) != n_samples:
        raise InputError(f"labels: expected {n_samples}, one per sample, got {len(array)}")
    classes, sizes = np.unique(array, return_counts=True)
    if len(classes) < 2:
        raise InputError(f"labels: expected two classes or more, got {classes.tolist()}")
    size = int(sizes.min())
    if size < n_folds:
        remedy = f"use at most {size} folds or leave that class out"
        raise InputError(
            f"labels: class {classes[sizes.argmin()]} has {size} member{'s' * (size > 1)}, fewer "
            f"than the {n_folds} folds; {remedy if size > 1 else 'leave that class out'}"
        )
    return array.astype(np.int64)


def outer_folds(labels: ArrayLike, *, seed: int, n_folds: int = 10) -> list[Fold]:
    """Stratified folds whose test parts cover every sample once; same seed, same folds.

    Args:
        labels: integers [n]; every class has at least ``n_folds`` members.
        seed: of the shuffle inside each class, >= 0.
        n_folds: number of folds, >= 2.

    Returns:
        ``n_folds`` folds, indices ascending.

    Raises:
        InputError: labels that cannot be stratified (see ``check_labels``), or a negative seed.

    Source: scikit-learn, ``sklearn.model_selection.StratifiedKFold``.

    Example:
        >>> folds = outer_folds([0, 1] * 5, seed=0, n_folds=5)
        >>> sorted(int(i) for fold in folds for i in fold.test)
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    check_at_least("seed", seed, 0)
    array = check_labels(labels, n_folds=n_folds)
    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    return [Fold(train, test) for train, test in splitter.split(array, array)]


def inner_holdout(train: ArrayLike, labels: ArrayLike, *, seed: int, fraction: float = 0.2) -> Fold:
    """Hold out part of a training fold, to score choices on.

    Args:
        train: indices [n_train] of the training fold, into the whole set.
        labels: integers [n] of the *whole* set.
        seed: of the split, >= 0.
        fraction: share of the training fold to hold out, in (0, 1).

    Returns:
        A stratified fold; ``train`` and ``test`` are ascending indices into the whole set.

    Raises:
        InputError: a fraction outside (0, 1) or too small for every class to be held out, or
            labels that cannot be split.

    Source: scikit-learn, ``sklearn.model_selection.train_test_split`` with ``stratify``.

    Example:
        >>> inner_holdout([0, 1, 2, 3, 6, 7], [0, 1] * 4, seed=0, fraction=0.34).test.size
        3
    """
    check_at_least("seed", seed, 0)
    check_share("fraction", fraction, usual=0.2)
    indices = np.asarray(train)
    inside = check_labels(np.asarray(labels)[indices], n_folds=2)
    try:
        kept, held_out = train_test_split(
            indices, test_size=fraction, stratify=inside, random_state=seed
        )
    except ValueError as error:
        raise InputError(
            f"fraction={fraction!r} of {len(indices)} samples leaves a class without a sample "
            f"in one of the parts: {error}"
        ) from error
    return Fold(np.sort(kept), np.sort(held_out))
