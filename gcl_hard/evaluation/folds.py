"""Stratified folds, the scores on them, and the nested cross-validation that all probes share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gcl_hard.errors import InputError, check_at_least
from gcl_hard.evaluation.checks import (
    Floats,
    Indices,
    as_array,
    check_classes,
    check_indices,
    check_share,
)

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

Predictions = Callable[[Indices, Indices, Sequence[float]], Iterable[Indices]]
"""Takes training and test indices, and values of a hyper-parameter; returns for each value the
predicted classes of the test samples."""


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
            part = check_indices(f"fold.{name}", getattr(self, name))
            object.__setattr__(self, name, part)
        both = np.intersect1d(self.train, self.test)
        if both.size:
            raise InputError(f"fold: sample {both[0]} is in both train and test; keep it in one")


def check_labels(labels: ArrayLike, n_samples: int | None = None, n_folds: int = 10) -> Indices:
    """Labels as an int64 array, checked to be fit for stratified folds.

    Args:
        labels: integers or booleans [n], one class per sample.
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
    array = check_classes("labels", labels, n_samples)
    classes, sizes = np.unique(array, return_counts=True)
    if len(classes) < 2:
        raise InputError(f"labels: expected two classes or more, got {classes.tolist()}")
    size = int(sizes.min())
    if size < n_folds:
        least = classes[sizes.argmin()]
        raise InputError(f"labels: class {least} has {size} of {n_folds} members: leave it out")
    return array


def outer_folds(labels: ArrayLike, *, seed: int, n_folds: int = 10) -> list[Fold]:
    """Stratified folds whose test parts cover every sample once; same seed, same folds.

    Args:
        labels: integers [n]; every class has at least ``n_folds`` members.
        seed: seed of the shuffle inside each class, >= 0.
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
    from sklearn.model_selection import StratifiedKFold

    check_at_least("seed", seed, 0)
    array = check_labels(labels, n_folds=n_folds)
    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    return [Fold(train, test) for train, test in splitter.split(array, array)]


def inner_folds(labels: Indices, *, n_inner: int, seed: int) -> list[Fold]:
    """Stratified folds inside one training fold.

    Args:
        labels: int64 [n_train], those of the training fold only.
        n_inner: number of inner folds, >= 2.
        seed: seed of the shuffle, >= 0.

    Returns:
        ``n_inner`` folds; indices are positions in the training fold, not in the whole set.

    Raises:
        InputError: a class has fewer than ``n_inner`` members in the training fold.

    Example:
        >>> [fold.test.size for fold in inner_folds(np.arange(8) % 2, n_inner=2, seed=0)]
        [4, 4]
    """
    try:
        return outer_folds(labels, seed=seed, n_folds=n_inner)
    except InputError as error:
        raise InputError(f"inner folds of a training fold (n_inner={n_inner}): {error}") from error


def inner_holdout(train: ArrayLike, labels: ArrayLike, *, seed: int, fraction: float = 0.2) -> Fold:
    """Hold out part of a training fold, to score choices on.

    Args:
        train: indices [n_train] of the training fold, into the whole set.
        labels: integers [n] of the *whole* set.
        seed: seed of the split, >= 0.
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
    from sklearn.model_selection import train_test_split

    check_at_least("seed", seed, 0)
    check_share("fraction", fraction, usual=0.2)
    classes = check_classes("labels", labels)
    indices = check_indices("train", train, len(classes))
    inside = check_labels(classes[indices], n_folds=2)
    try:
        kept, held_out = train_test_split(
            indices, test_size=fraction, stratify=inside, random_state=seed
        )
    except ValueError as error:
        raise InputError(f"fraction={fraction!r} of {len(indices)} samples: {error}") from error
    return Fold(np.sort(kept), np.sort(held_out))


VALIDATION = 0.1
"""Share of the training part held out for early stopping of supervised training."""


def stopping_holdout(train: ArrayLike, labels: ArrayLike, *, seed: int) -> Fold:
    """Hold out a tenth of a training part, at least a sample per class, for early stopping.

    Arguments, result and errors are those of :func:`inner_holdout`.

    Example:
        >>> stopping_holdout(range(40), [0, 1] * 30, seed=0).test.size
        4
    """
    inside = as_array("labels", labels)[as_array("train", train)]
    share = len(np.unique(inside)) / len(inside)
    return inner_holdout(train, labels, seed=seed, fraction=max(VALIDATION, share))


@dataclass(frozen=True)
class FoldScore:
    """The score of one fold.

    Args:
        accuracy: share of the test samples classified correctly, in [0, 1].
        chosen: the hyper-parameter chosen inside the training fold: C of the SVM and of the
            linear probe, k of the nearest neighbours; None if nothing was chosen.
        n_train: samples trained on.
        n_test: samples tested on.
        inner_accuracy: mean inner accuracy of ``chosen``, in [0, 1]; None likewise.
        test: int64 [n_test], the test samples: indices into the whole set, or rows of the test
            part of an official split. Not compared, nor is ``predicted``.
        predicted: int64 [n_test], the class predicted for each of ``test``, numbered as in the
            labels; ``accuracy`` is the share that is right.

    Example:
        >>> FoldScore(0.9, chosen=10.0, n_train=90, n_test=10, inner_accuracy=0.8).chosen
        10.0
    """

    accuracy: float
    chosen: float | None
    n_train: int
    n_test: int
    inner_accuracy: float | None
    test: Indices | None = field(default=None, compare=False, repr=False)
    predicted: Indices | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class CrossValidation:
    """The scores of all outer folds, in the order of ``outer_folds``.

    Args:
        folds: one score per outer fold.

    Example:
        >>> scores = (FoldScore(0.5, 1.0, 9, 1, 0.8), FoldScore(1.0, 1.0, 9, 1, 0.8))
        >>> CrossValidation(scores).accuracy
        0.75
    """

    folds: tuple[FoldScore, ...]

    @property
    def fold_accuracies(self) -> tuple[float, ...]:
        """Test accuracy of each fold, in [0, 1]."""
        return tuple(score.accuracy for score in self.folds)

    @property
    def accuracy(self) -> float:
        """Mean test accuracy over the folds, with equal weights."""
        return float(np.mean(self.fold_accuracies))

    @property
    def fold_std(self) -> float:
        """Sample standard deviation of the test accuracy over the folds."""
        return float(np.std(self.fold_accuracies, ddof=1))


def cross_validate(
    score_fold: Callable[[Fold], FoldScore], folds: Sequence[Fold], *, n_jobs: int = 1
) -> CrossValidation:
    """Score every fold, ``n_jobs`` at a time; order and scores do not depend on it.

    Threads, not processes: libsvm and BLAS release the interpreter's lock, so two threads are as
    fast as two processes from a few hundred samples on, and no array is copied.

    Args:
        score_fold: trains on ``fold.train`` and scores on ``fold.test``.
        folds: the outer folds.
        n_jobs: folds scored at a time, >= 1.

    Returns:
        The scores, in the order of ``folds``.

    Raises:
        InputError: ``n_jobs`` below 1.

    Example:
        >>> fold = Fold(np.arange(3), np.array([3]))
        >>> score = FoldScore(1.0, 1.0, 3, 1, 1.0)
        >>> cross_validate(lambda _: score, [fold, fold], n_jobs=2).accuracy
        1.0
    """
    check_at_least("n_jobs", n_jobs, 1)
    if n_jobs == 1:
        return CrossValidation(tuple(map(score_fold, folds)))
    with ThreadPoolExecutor(n_jobs) as pool:
        return CrossValidation(tuple(pool.map(score_fold, folds)))


def nested_score(
    fold: Fold,
    labels: Indices,
    values: Sequence[float],
    predictions: Predictions,
    *,
    n_inner: int,
    seed: int,
) -> FoldScore:
    """Choose a hyper-parameter inside the training fold, refit on all of it, score the test part.

    Args:
        fold: the samples to train on and to test on.
        labels: int64 [n] of the whole set.
        values: the candidates; on a tie the first is chosen.
        predictions: returns the predictions of each candidate, all fitted to the same samples.
        n_inner: inner folds, >= 2.
        seed: seed of the inner folds, >= 0.

    Returns:
        The fold's score.

    Raises:
        InputError: a fold beyond the set, or a class has fewer than ``n_inner`` members in the
            training fold.

    Example:
        >>> fold = Fold(np.arange(0, 8), np.arange(8, 10))
        >>> right = lambda train, test, values: [test % 2 for _ in values]
        >>> nested_score(fold, np.arange(10) % 2, [1, 2], right, n_inner=2, seed=0).chosen
        1.0
    """
    inner = []
    for part in inner_folds(labels[fold.train], n_inner=n_inner, seed=seed):
        train, test = fold.train[part.train], fold.train[part.test]
        inner.append(
            [
                _accuracy(predicted_classes, labels[test])
                for predicted_classes in predictions(train, test, values)
            ]
        )
    # Summed in GridSearchCV's order, so that ties are the same to the last bit.
    means = np.array(inner).T.copy().mean(axis=1)
    best = int(means.argmax())
    (predicted,) = predictions(fold.train, fold.test, [values[best]])
    return FoldScore(
        accuracy=_accuracy(predicted, labels[fold.test]),
        chosen=float(values[best]),
        n_train=len(fold.train),
        n_test=len(fold.test),
        inner_accuracy=float(means[best]),
        test=fold.test,
        predicted=predicted,
    )


def _accuracy(predicted: Indices, truth: Indices) -> float:
    return float(np.mean(predicted == truth))


def grid_search(
    model: BaseEstimator,
    grid: Mapping[str, Sequence[float]],
    embeddings: Floats,
    labels: Indices,
    *,
    seed: int,
    n_folds: int,
    n_inner: int,
    n_jobs: int,
) -> CrossValidation:
    """Nested cross-validation that chooses one hyper-parameter inside each training fold.

    Args:
        model: a scikit-learn classifier or pipeline.
        grid: one parameter's name and its values; on a tie the first is chosen.
        embeddings: float64 [n, d].
        labels: int64 [n].
        seed: seed of the outer and of the inner folds, >= 0.
        n_folds: outer folds, >= 2.
        n_inner: inner folds, >= 2.
        n_jobs: outer folds scored at a time, >= 1.

    Returns:
        One score per outer fold, in the order of ``outer_folds``.

    Raises:
        InputError: settings that cannot be used, or a class that is too small for the folds.

    Source: as scikit-learn's ``GridSearchCV`` inside ``cross_val_score``.

    Example:
        >>> from sklearn.neighbors import KNeighborsClassifier
        >>> x, y = np.arange(12.0)[:, None], np.arange(12) // 6
        >>> model, grid = KNeighborsClassifier(), {"n_neighbors": (1, 3)}
        >>> grid_search(model, grid, x, y, seed=0, n_folds=3, n_inner=2, n_jobs=1).accuracy
        1.0
    """
    from sklearn.base import clone

    ((name, values),) = grid.items()

    def predictions(
        train: Indices, test: Indices, candidates: Sequence[float]
    ) -> Iterator[Indices]:
        # Not GridSearchCV: its warning filters fail in two threads at once.
        for value in candidates:
            fitted: Any = clone(model).set_params(**{name: value})
            yield fitted.fit(embeddings[train], labels[train]).predict(embeddings[test])

    def score(fold: Fold) -> FoldScore:
        return nested_score(fold, labels, values, predictions, n_inner=n_inner, seed=seed)

    return cross_validate(score, outer_folds(labels, seed=seed, n_folds=n_folds), n_jobs=n_jobs)


def majority_cross_validation(
    labels: ArrayLike, *, seed: int, n_folds: int = 10
) -> CrossValidation:
    """Accuracy of always predicting the training fold's most frequent class.

    The folds are those of ``svm_cross_validation`` with the same labels and seed; on a tie the
    smallest label is predicted.

    Args:
        labels: integers [n]; every class has at least ``n_folds`` members.
        seed: seed of the folds, >= 0.
        n_folds: outer folds, >= 2.

    Returns:
        One score per outer fold, in the order of ``outer_folds``; ``chosen`` is the label
        predicted, ``inner_accuracy`` its share of the training fold.

    Raises:
        InputError: labels, a seed or a number of folds that cannot be used.

    Source: scikit-learn, ``sklearn.dummy.DummyClassifier(strategy="most_frequent")``.

    Example:
        >>> majority_cross_validation([0, 1, 1, 1] * 5, seed=0, n_folds=5).accuracy
        0.75
    """
    y = check_labels(labels, n_folds=n_folds)
    folds = outer_folds(y, seed=seed, n_folds=n_folds)
    return CrossValidation(tuple(majority_fold(y, fold) for fold in folds))


def majority_fold(y: Indices, fold: Fold) -> FoldScore:
    """Accuracy on one fold of predicting the most frequent class of its training part.

    Args:
        y: int64 [n].
        fold: the samples to train on and to test on.

    Returns:
        The fold's score; ``chosen`` is the class, on a tie the smallest.

    Example:
        >>> majority_fold(np.array([0, 1, 1, 1]), Fold(np.arange(3), np.array([3]))).accuracy
        1.0
    """
    classes, sizes = np.unique(y[fold.train], return_counts=True)
    label = classes[sizes.argmax()]
    return FoldScore(
        accuracy=float(np.mean(y[fold.test] == label)),
        chosen=float(label),
        n_train=len(fold.train),
        n_test=len(fold.test),
        inner_accuracy=float(sizes.max() / len(fold.train)),
        test=fold.test,
        predicted=np.full_like(fold.test, label),
    )


class ThreeWaySplit(NamedTuple):
    """Samples to train on, to choose on and to test on, int64 [n] each, ascending."""

    train: Indices
    valid: Indices
    test: Indices


def scaffold_split(
    scaffolds: Sequence[str], *, shares: tuple[float, float] = (0.8, 0.1), seed: int | None = None
) -> ThreeWaySplit:
    """A split that keeps samples of one scaffold together.

    Scaffolds come in descending order of size, equal ones in descending order of their first
    sample; with a seed they come in a random order, but those first that would fill more than half
    of the smaller of the other parts. Each goes to the training part if that then has at most its
    share, else to the validation part if both then have at most theirs, else to the test part.

    Args:
        scaffolds: the scaffold of each sample, or any name of a group; the source's are
            :func:`gcl_hard.molecules.scaffolds` without chirality.
        shares: shares of the training and the validation part.
        seed: seed of the random order; None for the order by size.

    Returns:
        The parts.

    Raises:
        InputError: for shares that leave no test part, or if a part has no samples.

    Source:
        Ramsundar et al. (2019), DeepChem's ``ScaffoldSplitter``; Wu et al. (2018), *MoleculeNet*.
        Random orders as chemprop balances them.

    Example:
        >>> scaffold_split(["a", "b", "a", "c", "a"], shares=(0.6, 0.2))
        ThreeWaySplit(train=array([0, 2, 4]), valid=array([3]), test=array([1]))
    """
    check_share("shares[0]", shares[0], usual=0.8)
    check_share("the sum of shares", sum(shares), usual=0.9)
    names, group = np.unique(as_array("scaffolds", scaffolds), return_inverse=True)
    n = len(group)
    members = [np.flatnonzero(group == i) for i in range(len(names))]
    if seed is None:
        members.sort(key=lambda samples: (len(samples), samples[0]), reverse=True)
    else:
        members.sort(key=lambda samples: int(samples[0]))
        order = np.random.default_rng(seed).permutation(len(members))
        half = min(shares[1], 1 - sum(shares)) * n / 2
        members = sorted((members[i] for i in order), key=lambda samples: len(samples) <= half)
    most_train, most_both = shares[0] * n, sum(shares) * n
    parts: tuple[list[Indices], list[Indices], list[Indices]] = ([], [], [])
    sizes = [0, 0, 0]
    for samples in members:
        if sizes[0] + len(samples) <= most_train:
            part = 0
        else:
            part = 1 if sizes[0] + sizes[1] + len(samples) <= most_both else 2
        parts[part].append(samples)
        sizes[part] += len(samples)
    if 0 in sizes:
        raise InputError(f"{len(names)} scaffolds of {n} samples leave parts of {sizes}")
    return ThreeWaySplit(*(np.sort(np.concatenate(part)) for part in parts))
