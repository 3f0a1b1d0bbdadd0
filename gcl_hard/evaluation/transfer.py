"""Probes and scores of molecules on one split: ROC-AUC over tasks, RMSE, and paired bootstraps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gcl_hard.errors import InputError, check_at_least
from gcl_hard.evaluation.checks import Floats, Indices, as_array, check_indices, check_numbers
from gcl_hard.evaluation.folds import ThreeWaySplit
from gcl_hard.evaluation.significance import PairedTest, crossed_interval

EPS = float(np.finfo(np.float64).eps)
TINY = 1e-150  # squares of smaller numbers leave the range of double precision
C_GRID = (0.1, 1.0, 10.0, 100.0)
"""Penalties of a kernel machine."""
GAMMAS = (0.25, 1.0, 4.0)
"""Widths of an RBF kernel, times one over the number of dimensions."""
FEW = 10
"""Members of the rarer class below which a task's AUC says little."""
AT_A_TIME = 4_000_000
"""Draws times molecules of the largest set that a bootstrap scores at once."""
UNDEFINED = PairedTest(*[math.nan] * 6)
LARGE = 40_000
"""Training molecules times tasks from which the probe is linear."""


class TaskScores(NamedTuple):
    """ROC-AUC over tasks.

    Attributes:
        mean: mean over the tasks that have both classes and scores; NaN if none has.
        of_task: ROC-AUC of each task, NaN for the others.
        one_class: tasks with a single class or without scores, left out of the mean.
        few: tasks whose rarer class has fewer than ten members, included in the mean.
    """

    mean: float
    of_task: Floats
    one_class: tuple[int, ...]
    few: tuple[int, ...]


def roc_auc(y: ArrayLike, scores: ArrayLike) -> TaskScores:
    """Area under the ROC curve of each task over the molecules whose label is known, and its mean.

    Args:
        y: 0, 1 or NaN where unknown, [n] or [n, T].
        scores: higher for 1, of the same shape; NaN in tasks without scores.

    Raises:
        InputError: for shapes that differ, or other labels.

    Example:
        >>> roc_auc([[0, 1], [1, 1], [1, np.nan]], [[0.1, 0], [0.9, 0], [0.0, 0]])
        TaskScores(mean=0.5, of_task=array([0.5, nan]), one_class=(1,), few=(0,))
    """
    from scipy.stats import rankdata

    y, scores = _labels_and_scores(y, scores)
    known = np.isfinite(y)
    auc = np.full(y.shape[1], np.nan)
    one_class, few = [], []
    for task in range(y.shape[1]):
        is_positive, task_scores = y[known[:, task], task] == 1, scores[known[:, task], task]
        ones, zeros = int(is_positive.sum()), int((~is_positive).sum())
        rarer = min(ones, zeros)
        if rarer == 0 or np.isnan(task_scores).any():
            one_class.append(task)
            continue
        if rarer < FEW:
            few.append(task)
        above = (
            rankdata(task_scores)[is_positive].sum() - ones * (ones + 1) / 2
        )  # pairs in the right order
        auc[task] = above / (ones * zeros)
    mean = float(np.nanmean(auc)) if len(one_class) < len(auc) else float("nan")
    return TaskScores(mean, auc, tuple(one_class), tuple(few))


def resampled_auc(y: ArrayLike, scores: ArrayLike, ids: Indices) -> Floats:
    """The mean of :func:`roc_auc` on several draws of molecules.

    Args:
        y: 0, 1 or NaN where unknown, [n] or [n, T].
        scores: in the same shape; NaN in tasks without scores.
        ids: molecules of each draw, [B, m].

    Returns:
        float64 [B], NaN for draws without a task of two classes.

    Raises:
        InputError: as for :func:`roc_auc`.

    Example:
        >>> resampled_auc([0, 1, 1], [0.1, 0.9, 0.0], np.array([[0, 1, 2], [0, 1, 1]]))
        array([0.5, 1. ])
    """
    y, scores = _labels_and_scores(y, scores)
    ids = as_array("ids", ids)
    times = np.stack([np.bincount(draw, minlength=len(y)) for draw in ids])
    total, defined = np.zeros(len(ids)), np.zeros(len(ids))
    for labels, task_scores in zip(y.T, scores.T, strict=True):
        known = np.flatnonzero(np.isfinite(labels))
        known = known[np.argsort(task_scores[known])]
        if np.isnan(task_scores[known]).any():
            continue
        ones = np.flatnonzero(labels[known] == 1)
        drawn = times[:, known]
        zeros = np.concatenate(
            [np.zeros((len(ids), 1)), np.cumsum(drawn * (labels[known] == 0), axis=1)], axis=1
        )
        # Negatives below each positive, and half of those that tie with it.
        below, upto = (
            zeros[:, np.searchsorted(task_scores[known], task_scores[known[ones]], side)]
            for side in ("left", "right")
        )
        right = (drawn[:, ones] * (below + upto)).sum(1) / 2
        pairs = drawn[:, ones].sum(1) * zeros[:, -1]
        total += right / np.maximum(pairs, 1)  # both are 0 without a pair
        defined += pairs > 0
    return np.where(defined > 0, total / np.maximum(defined, 1), np.nan)


def resampled_rmse(
    y: ArrayLike, predicted: ArrayLike, ids: Indices, mask: ArrayLike | None = None
) -> Floats:
    """:func:`rmse` on several draws of molecules.

    Args:
        y: as for :func:`rmse`, like ``predicted`` and ``mask``.
        predicted: [n].
        ids: molecules of each draw, [B, m].
        mask: bool [n].

    Returns:
        float64 [B], NaN for draws without a molecule that counts.

    Example:
        >>> resampled_rmse([0, 1, 4], [0, 0, 0], np.array([[0, 0, 1], [2, 2, 2]]))
        array([0.57735027, 4.        ])
    """
    difference, counts = _differences(y, predicted, mask)
    square, ids = np.where(counts, difference**2, 0.0), as_array("ids", ids)
    n = counts[ids].sum(1)
    return np.where(n > 0, np.sqrt(square[ids].sum(1) / np.maximum(n, 1)), np.nan)


def rmse(y: ArrayLike, predicted: ArrayLike, mask: ArrayLike | None = None) -> float:
    r"""Root of the mean squared error, :math:`\sqrt{\frac{1}{n} \sum_i (y_i - \hat y_i)^2}`.

    Args:
        y: [n], NaN where unknown.
        predicted: [n].
        mask: bool [n], molecules that count, such as those with an activity cliff; None for all.

    Returns:
        The error; NaN over no molecules.

    Raises:
        InputError: for shapes that differ, or targets that are not finite.

    Example:
        >>> rmse([0, 0, 5], [3, 4, 5], mask=[True, True, False])
        3.5355339059327378
    """
    difference, counts = _differences(y, predicted, mask)
    return float(np.sqrt(np.mean(difference[counts] ** 2))) if counts.any() else float("nan")


def _differences(
    y: ArrayLike, predicted: ArrayLike, mask: ArrayLike | None
) -> tuple[Floats, NDArray[np.bool_]]:
    """Targets less predictions, and which of them count."""
    y, predicted = _targets(y), _floats("predicted", predicted)
    _check_shapes(y, predicted)
    counts = np.isfinite(y)
    if mask is not None:
        counts &= as_array("mask", mask).astype(bool)
    return y - predicted, counts


def rbf_kernels(x: ArrayLike, train: Indices, gammas: Sequence[float] = GAMMAS) -> list[Floats]:
    r"""RBF kernels of embeddings, standardised over the training part, one for each width.

    .. math:: k_{ij} = \exp\Big(-\frac{\gamma}{d} \lVert \tilde x_i - \tilde x_j \rVert^2\Big)

    Args:
        x: [n, d].
        train: ids of the training part.
        gammas: γ.

    Returns:
        float64 [n, n] each.
    """
    z = standardised(x, train)
    square = (z**2).sum(1)
    distance = square[:, None] + square[None]
    distance -= 2 * z @ z.T
    np.maximum(distance, 0, out=distance)
    distance /= z.shape[1]
    kernels = [-gamma * distance for gamma in gammas]
    return [np.exp(kernel, out=kernel) for kernel in kernels]


class Probed(NamedTuple):
    """Predictions of a probe.

    Attributes:
        test: decision values, or predicted numbers, of the test part, [n_test] or [n_test, T];
            NaN for tasks without known labels, or with a single class, in the training part.
        validation: ROC-AUC or RMSE of the validation part with the chosen settings, averaged over
            the tasks for which it is defined; NaN if there are none.
    """

    test: Floats
    validation: float


def kernel_predictions(
    kernels: Sequence[Floats], y: ArrayLike, split: ThreeWaySplit, *, classes: bool
) -> Probed:
    """Scores of the test part by a kernel machine that is fitted to the training part.

    An SVM for classes, and support vector regression of standardised values for numbers. The
    kernel and C are those with the best AUC or RMSE on the validation part, chosen per task.

    Args:
        kernels: candidates, real numbers [n, n] over all molecules.
        y: [n] or [n, T], NaN where unknown.
        split: the parts.
        classes: whether y is 0 and 1.

    Raises:
        InputError: without kernels, or for invalid numbers or classes.
    """
    kernels = [check_numbers("kernels", kernel, ("n", "n")) for kernel in kernels]
    from sklearn.svm import SVC, SVR

    def make(choice: tuple[Floats, float], train: Indices, target: Floats) -> Any:
        kernel, penalty = choice
        machine = SVC(C=penalty, kernel="precomputed") if classes else SVR(
            C=penalty, kernel="precomputed"
        )  # fmt: skip
        machine.fit(kernel[np.ix_(train, train)], target)
        predict = machine.decision_function if classes else machine.predict
        return lambda rows: predict(kernel[np.ix_(rows, train)])

    choices = [(kernel, penalty) for kernel in kernels for penalty in C_GRID]
    return _probe(choices, make, y, split, classes=classes)


def linear_predictions(
    columns: Sequence[Any], y: ArrayLike, split: ThreeWaySplit, *, classes: bool
) -> Probed:
    """As :func:`kernel_predictions`, by logistic or ridge regression, for many tasks or molecules,
    where kernels take too long.

    Args:
        columns: candidates, [n, d] over all molecules, dense or sparse, equally scaled, such as
            by :func:`standardised`.
        y: [n] or [n, T], NaN where unknown.
        split: the parts.
        classes: whether y is 0 and 1.

    Raises:
        InputError: without columns, or for invalid numbers or classes.
    """
    columns = [check_numbers("columns", x, dtype=None, sparse=True) for x in columns]
    from scipy.sparse import issparse
    from sklearn.linear_model import LogisticRegression, Ridge

    def make(choice: tuple[Any, float], train: Indices, target: Floats) -> Any:
        x, penalty = choice
        if classes:
            # Newton takes few steps, and each costs n d²: too much for fingerprints.
            solver = "lbfgs" if issparse(x) else "newton-cholesky"
            model = LogisticRegression(C=penalty, max_iter=500, solver=solver)
            model.fit(x[train], target)
            return lambda rows: model.decision_function(x[rows])
        model = Ridge(alpha=1 / penalty).fit(x[train], target)
        return lambda rows: model.predict(x[rows])

    choices = [(x, penalty) for x in columns for penalty in (1e-4, 1e-3, 1e-2, 1e-1, 1.0)]
    return _probe(choices, make, y, split, classes=classes)


def nystroem_features(
    x: ArrayLike, train: Indices, gammas: Sequence[float] = GAMMAS
) -> list[Floats]:
    """Columns whose inner products approximate :func:`rbf_kernels`, for sets too large for those.

    Args:
        x: [n, d].
        train: ids of the training part, of which up to 500 are drawn as landmarks.
        gammas: γ.

    Returns:
        float64 [n, landmarks] each.

    Source:
        Williams & Seeger (2000), *Using the Nyström Method to Speed Up Kernel Machines*.
    """
    from sklearn.kernel_approximation import Nystroem

    from gcl_hard.evaluation.probes import LANDMARKS

    z, train = standardised(x, train), as_array("train", train)
    n = min(LANDMARKS, len(train))
    transformers = [
        Nystroem(gamma=gamma / z.shape[1], n_components=n, random_state=0) for gamma in gammas
    ]
    return [transformer.fit(z[train]).transform(z) for transformer in transformers]


def _probe(
    choices: Sequence[Any],
    make: Callable[[Any, Indices, Floats], Callable[[Indices], Floats]],
    y: ArrayLike,
    split: ThreeWaySplit,
    *,
    classes: bool,
) -> Probed:
    """Fit every choice task by task, keep the best on validation, and predict."""
    targets = _columns(_targets(y))
    if classes:
        _check_binary(targets)
    split = ThreeWaySplit(*(as_array("a part of the split", part) for part in split))
    predictions = np.full((len(split.test), targets.shape[1]), np.nan)
    scores = []
    for task in range(targets.shape[1]):
        column = targets[:, task]
        train, valid = (part[np.isfinite(column[part])] for part in (split.train, split.valid))
        known = column[train]
        if len(known) == 0 or (classes and known.min() == known.max()):
            continue  # nothing to learn, and so no scores
        mean, deviation = (0.0, 1.0) if classes else (known.mean(), float(_deviation(known)))
        best, best_score = -np.inf, float("nan")
        for choice in choices:
            predict = make(choice, train, (known - mean) / deviation)
            score = math.nan
            if len(valid):
                predicted = predict(valid) * deviation + mean
                score = roc_auc(column[valid], predicted).mean if classes else rmse(
                    column[valid], predicted
                )  # fmt: skip
            # Without a validation score all choices tie.
            gain = 0.0 if np.isnan(score) else score if classes else -score
            if gain > best:
                best, best_score = gain, score
                predictions[:, task] = predict(split.test) * deviation + mean
        scores.append(best_score)
    defined = [value for value in scores if not np.isnan(value)]
    validation = float(np.mean(defined)) if defined else float("nan")
    return Probed(predictions[:, 0] if np.ndim(y) == 1 else predictions, validation)


Score = Callable[[Indices, int], Floats]
"""Scores of the first (0) or the second (1) on several draws of test molecules, int64 ids [B, n]:
float64 [B], or [B, S] of S seeds."""


def paired_bootstrap(
    sets: Sequence[tuple[Score, int]],
    *,
    seeds: int = 1,
    level: float = 0.95,
    draws: int = 500,
    seed: int = 0,
) -> PairedTest:
    """The difference of two scores on the same test molecules, mean over sets, and its interval.

    From each set molecules are drawn with replacement, the same for both and for all seeds; draws
    without a defined score are left out. The interval is that of :func:`crossed_interval`.

    Args:
        sets: for each set a function from ids [B, n] and 0 or 1, the first or the second, to the
            scores [B], or [B, S] of several seeds, and n, its number of test molecules.
        seeds: S, number of seeds.
        level: level of confidence, in (0, 1).
        draws: number of draws, >= 2.
        seed: seed of the draws.

    Returns:
        The second score less the first, NaN if it is not defined.

    Raises:
        InputError: without sets, for too few draws, seeds or molecules, or for a function whose
            number of scores differs from the number of draws.

    Source:
        Efron & Tibshirani (1993), *An Introduction to the Bootstrap*, chapter 6.

    Example:
        >>> a, b = np.zeros(50), np.ones(50)
        >>> test = paired_bootstrap([(lambda ids, second: (b if second else a)[ids].mean(1), 50)])
        >>> test.difference, test.low, test.high
        (1.0, 1.0, 1.0)
    """
    check_at_least("the number of sets", len(sets), 1)
    check_at_least("seeds", seeds, 1)
    check_at_least("draws", draws, 2)
    for _, n in sets:
        check_at_least("the number of molecules of a set", n, 1)
    generator = np.random.default_rng(seed)

    def differences(ids: Iterable[Indices]) -> Floats:
        """Differences of some draws, [B, sets, S]."""
        set_differences = []
        for (score, _), draw_ids in zip(sets, ids, strict=True):
            shape = (len(draw_ids),) if seeds == 1 else (len(draw_ids), seeds)
            both = [_floats("scores", score(draw_ids, index)) for index in (0, 1)]
            if any(seed_scores.shape != shape for seed_scores in both):
                got = " and ".join(str([*seed_scores.shape]) for seed_scores in both)
                raise InputError(f"scores of {len(draw_ids)} draws are {[*shape]}, got {got}")
            set_differences.append((both[1] - both[0]).reshape(len(draw_ids), seeds))
        return np.stack(set_differences, axis=1)

    (whole,) = differences(np.arange(n)[None] for _, n in sets)
    if not np.isfinite(whole).all():
        return UNDEFINED
    at_a_time = max(1, AT_A_TIME // max(n for _, n in sets))
    parts = []
    for start in range(0, draws, at_a_time):
        several = range(start, min(start + at_a_time, draws))
        drawn = [[generator.integers(n, size=n) for _, n in sets] for _ in several]
        parts.append(
            differences(np.stack(set_draws) for set_draws in zip(*drawn, strict=True)).mean(1)
        )
    drawn_by_seed = np.concatenate(parts)
    drawn_by_seed = drawn_by_seed[np.isfinite(drawn_by_seed).all(axis=1)]
    if len(drawn_by_seed) < 2:
        return UNDEFINED
    return crossed_interval(whole.mean(axis=0), drawn_by_seed, level=level)


def standardised(x: ArrayLike, train: Indices, *, sparse: bool = False) -> Any:
    """Columns standardised over the training part; constant columns are only centred.

    Columns that are constant but for rounding in their type count as constant: they span at most
    8ε of their largest value, or 8ε of double precision, as ±1e-17 around 0 does.

    Args:
        x: [n, d].
        train: ids of the training part.
        sparse: whether to divide by the deviation alone and return a sparse matrix: for counts and
            bits that are mostly 0, whose means an intercept absorbs.

    Raises:
        InputError: for values that are not finite numbers, or invalid ids.
    """
    from scipy.sparse import csr_matrix

    values = as_array("x", x)
    z: Floats = check_numbers("x", values)
    train = check_indices("train", train, len(z))
    eps = np.finfo(values.dtype if values.dtype.kind == "f" else np.float64).eps
    scale = _deviation(z[train], eps=float(eps), least=8 * EPS)
    return csr_matrix(z / scale) if sparse else (z - z[train].mean(0)) / scale


def _deviation(x: Floats, *, eps: float = EPS, least: float = TINY) -> Floats:
    """Standard deviation of columns; 1 if values are equal up to rounding.

    Args:
        x: [n, d] or [n].
        eps: relative rounding error of the values.
        least: smallest span of unequal values.
    """
    low, high = x.min(0), x.max(0)
    alike = high - low <= np.maximum(least, 8 * eps * np.maximum(np.abs(low), np.abs(high)))
    return np.where(alike, 1.0, x.std(0))


def _labels_and_scores(y: ArrayLike, scores: ArrayLike) -> tuple[Floats, Floats]:
    """Both as columns; InputError for shapes that differ, or invalid labels."""
    y, scores = _columns(_targets(y)), _columns(_floats("scores", scores))
    _check_shapes(y, scores)
    _check_binary(y)
    return y, scores


def _targets(y: ArrayLike) -> Floats:
    """Targets [n] or [n, T], NaN where unknown."""
    array = as_array("y", y)
    names = ("n", "T")[: max(array.ndim, 1)]
    return check_numbers("y", array, names, least=0, missing=True)


def _floats(name: str, values: ArrayLike) -> Floats:
    """Numbers that may be infinite or NaN, such as scores."""
    return as_array(name, values).astype(np.float64, copy=False)


def _columns(values: Floats) -> Floats:
    return values[:, None] if values.ndim == 1 else values


def _check_shapes(y: Floats, scores: Floats) -> None:
    if y.shape != scores.shape:
        raise InputError(f"y is {[*y.shape]} and scores are {[*scores.shape]}; expected the same")


def _check_binary(y: Floats) -> None:
    if not np.isin(y[np.isfinite(y)], (0, 1)).all():
        raise InputError("y of ROC-AUC must be 0, 1, or NaN where unknown")
