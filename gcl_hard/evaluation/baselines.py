"""The majority class: the baseline of every table of accuracies."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gcl_hard.evaluation.nested import CrossValidation, FoldScore
from gcl_hard.evaluation.splits import Fold, check_labels, outer_folds


def majority_cross_validation(
    labels: ArrayLike, *, seed: int, n_folds: int = 10
) -> CrossValidation:
    """Accuracy of always predicting the training fold's most frequent class.

    The folds are those of ``svm_cross_validation`` with the same labels and seed; the smallest
    label of several equally frequent ones is predicted.

    Args:
        labels: integers [n]; every class has at least ``n_folds`` members.
        seed: of the folds, >= 0.
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


def majority_fold(y: NDArray[np.int64], fold: Fold) -> FoldScore:
    """Accuracy on one fold of predicting the most frequent class of its training part.

    Args:
        y: int64 [n].
        fold: the samples to train on and to test on.

    Returns:
        The fold's score; ``chosen`` is the class, the smallest of several equally frequent ones.

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
    )
