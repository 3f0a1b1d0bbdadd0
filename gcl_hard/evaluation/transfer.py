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
TINY = 1e-150  # squares of less leave the range of double precision
C_GRID = (0.1, 1.0, 10.0, 100.0)
"""Penalties of a kernel machine."""
GAMMAS = (0.25, 1.0, 4.0)
"""Widths of an RBF kernel, times one over the number of dimensions."""
FEW = 10
"""Members of the rarer class of a task, below which its AUC says little."""
AT_A_TIME = 4_000_000
"""Draws times molecules of the largest set that a bootstrap scores at a time."""
UNDEFINED = PairedTest(*[math.nan] * 6)
LARGE = 40_000
"""Training molecules times tasks from which a probe is linear."""


class TaskScores(NamedTuple):
    """ROC-AUC over tasks.

    Attributes:
        mean: mean over the tasks that have both classes and scores; NaN if none has.
        of_task: ROC-AUC of each task, NaN for the others.
        one_class: tasks with one class alone, or without scores, which are left out of the mean.
        few: tasks whose rarer class has fewer than ten members, which are in the mean.
    """

    mean: float
    of_task: Floats
    one_class: tuple[int, ...]
    few: tuple[int, ...]


def roc_auc(y: ArrayLike, scores: ArrayLike) -> TaskScores:
    """Area under the ROC curve of each task over the molecules whose label is known, and its mean.

    Args:
        y: 0, 1 or NaN where not known, [n] or [n, T].
        scores: higher for 1, of the same shape; NaN in tasks without scores.

    Raises:
        InputError: for shapes that differ, or labels that are none of these.

    Example:
        >>> roc_auc([[0, 1], [1, 1], [1, np.nan]], [[0.1, 0], [0.9, 0], [0.0, 0]])
        TaskScores(mean=0.5, of_task=array([0.5, nan]), one_class=(1,), few=(0,))
    """
    from scipy.stats import rankdata

    y, scores = _labels_and_scores(y, scores)
    known = np.isfinite(y)
    found = np.full(y.shape[1], np.nan)
    one_class, few = [], []
    for task in range(y.shape[1]):
        mine, of = y[known[:, task], task] == 1, scores[known[:, task], task]
        ones, zeros = int(mine.sum()), int((~mine).sum())
        rarer = min(ones, zeros)
        if rarer == 0 or np.isnan(of).any():
            one_class.append(task)
            continue
        if rarer < FEW:
            few.append(task)
        above = rankdata(of)[mine].sum() - ones * (ones + 1) / 2  # pairs in the right order
        found[task] = above / (ones * zeros)
    mean = float(np.nanmean(found)) if len(one_class) < len(found) else float("nan")
    return TaskScores(mean, found, tuple(one_class), tuple(few))


def resampled_auc(y: ArrayLike, scores: ArrayLike, ids: Indices) -> Floats:
    """The mean of :func:`roc_auc` on several draws of molecules.

    Args:
        y: 0, 1 or NaN where not known, [n] or [n, T].
        scores: in the same shape; NaN in tasks without scores.
        ids: molecules of each draw, [B, m].

    Returns:
        float64 [B], NaN for draws without a task of two classes.

    Raises:
        InputError: as of :func:`roc_auc`.

    Example:
        >>> resampled_auc([0, 1, 1], [0.1, 0.9, 0.0], np.array([[0, 1, 2], [0, 1, 1]]))
        array([0.5, 1. ])
    """
    y, scores = _labels_and_scores(y, scores)
    ids = as_array("ids", ids)
    times = np.stack([np.bincount(draw, minlength=len(y)) for draw in ids])
    total, defined = np.zeros(len(ids)), np.zeros(len(ids))
    for labels, of in zip(y.T, scores.T, strict=True):
        known = np.flatnonzero(np.isfinite(labels))
        known = known[np.argsort(of[known])]
        if np.isnan(of[known]).any():
            continue
        ones = np.flatnonzero(labels[known] == 1)
        drawn = times[:, known]
        zeros = np.concatenate(
            [np.zeros((len(ids), 1)), np.cumsum(drawn * (labels[known] == 0), axis=1)], axis=1
        )
        # Zeros below each one, and half of those that are level with it.
        below, upto = (
            zeros[:, np.searchsorted(of[known], of[known[ones]], side)]
            for side in ("left", "right")
        )
        right = (drawn[:, ones] * (below + upto)).sum(1) / 2
        pairs = drawn[:, ones].sum(1) * zeros[:, -1]
        total += right / np.maximum(pairs, 1)  # both are 0 without a pair
        defined += pairs > 0
    return np.where(defined > 0, total / np.maximum(defined, 1), np.nan)


def resampled_rmse(
    y: ArrayLike, predicted: ArrayLike, ids: Indices, which: ArrayLike | None = None
) -> Floats:
    """:func:`rmse` on several draws of molecules.

    Args:
        y: as of :func:`rmse`, like ``predicted`` and ``which``.
        predicted: [n].
        ids: molecules of each draw, [B, m].
        which: bool [n].

    Returns:
        float64 [B], NaN for draws without a molecule that counts.

    Example:
        >>> resampled_rmse([0, 1, 4], [0, 0, 0], np.array([[0, 0, 1], [2, 2, 2]]))
        array([0.57735027, 4.        ])
    """
    difference, counts = _differences(y, predicted, which)
    square, ids = np.where(counts, difference**2, 0.0), as_array("ids", ids)
    n = counts[ids].sum(1)
    return np.where(n > 0, np.sqrt(square[ids].sum(1) / np.maximum(n, 1)), np.nan)


def rmse(y: ArrayLike, predicted: ArrayLike, which: ArrayLike | None = None) -> float:
    r"""Root of the mean squared error, :math:`\sqrt{\frac{1}{n} \sum_i (y_i - \hat y_i)^2}`.

    Args:
        y: [n], NaN where not known.
        predicted: [n].
        which: bool [n], molecules that count, such as those with an activity cliff; None for all.

    Returns:
        The error; NaN over no molecules.

    Raises:
        InputError: for shapes that differ, or targets that are not finite.

    Example:
        >>> rmse([0, 0, 5], [3, 4, 5], which=[True, True, False])
        3.5355339059327378
    """
    difference, counts = _differences(y, predicted, which)
    return float(np.sqrt(np.mean(difference[counts] ** 2))) if counts.any() else float("nan")


def _differences(
    y: ArrayLike, predicted: ArrayLike, which: ArrayLike | None
) -> tuple[Floats, NDArray[np.bool_]]:
    """Targets less predictions, and which of them count."""
    y, predicted = _targets(y), _floats("predicted", predicted)
    _check_shapes(y, predicted)
    counts = np.isfinite(y)
    if which is not None:
        counts &= as_array("which", which).astype(bool)
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
    """What a probe predicts.

    Attributes:
        test: decision values, or predicted numbers, of the test part, [n_test] or [n_test, T];
            NaN for tasks of which the training part knows nothing, or one class alone.
        validation: ROC-AUC or RMSE of the validation part by the chosen settings, mean over the
            tasks in which it is defined; NaN if there is none.
    """

    test: Floats
    validation: float


def kernel_predictions(
    kernels: Sequence[Floats], y: ArrayLike, split: ThreeWaySplit, *, classes: bool
) -> Probed:
    """Scores of the test part by a kernel machine that is fitted to the training part.

    An SVM for classes, and support vector regression, of standardised values, for numbers. The
    kernel and C are those with the best AUC or RMSE on the validation part, each task by itself.

    Args:
        kernels: candidates, real numbers [n, n] over all molecules.
        y: [n] or [n, T], NaN where not known.
        split: the parts.
        classes: whether y is 0 and 1.

    Raises:
        InputError: without kernels, or for numbers or classes that cannot be used.
    """
    if not kernels:
        raise InputError("a kernel probe needs at least one kernel")
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
        columns: candidates, [n, d] over all molecules, dense or sparse, of one scale, such as
            those of :func:`standardised`.
        y: [n] or [n, T], NaN where not known.
        split: the parts.
        classes: whether y is 0 and 1.

    Raises:
        InputError: without columns, or for numbers or classes that cannot be used.
    """
    if not columns:
        raise InputError("a linear probe needs at least one matrix of columns")
    columns = [check_numbers("columns", x, dtype=None, sparse=True) for x in columns]
    from scipy.sparse import issparse
    from sklearn.linear_model import LogisticRegression, Ridge

    def make(choice: tuple[Any, float], train: Indices, target: Floats) -> Any:
        x, penalty = choice
        if classes:
            # Newton takes few steps, and each costs n d²: too much for fingerprints.
            solver = "lbfgs" if issparse(x) else "newton-cholesky"
            of_classes = LogisticRegression(C=penalty, max_iter=500, solver=solver)
            of_classes.fit(x[train], target)
            return lambda rows: of_classes.decision_function(x[rows])
        of_numbers = Ridge(alpha=1 / penalty).fit(x[train], target)
        return lambda rows: of_numbers.predict(x[rows])

    choices = [(x, penalty) for x in columns for penalty in (1e-4, 1e-3, 1e-2, 1e-1, 1.0)]
    return _probe(choices, make, y, split, classes=classes)


def nystroem_features(
    x: ArrayLike, train: Indices, gammas: Sequence[float] = GAMMAS
) -> list[Floats]:
    """Columns whose inner products are nearly :func:`rbf_kernels`, for sets too large for those.

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
    made = [Nystroem(gamma=gamma / z.shape[1], n_components=n, random_state=0) for gamma in gammas]
    return [one.fit(z[train]).transform(z) for one in made]


def _probe(
    choices: Sequence[Any],
    make: Callable[[Any, Indices, Floats], Callable[[Indices], Floats]],
    y: ArrayLike,
    split: ThreeWaySplit,
    *,
    classes: bool,
) -> Probed:
    """Fit every choice task by task, keep the one that is best on validation, and predict."""
    targets = _columns(_targets(y))
    if classes:
        _check_binary(targets)
    split = ThreeWaySplit(*(as_array("a part of the split", part) for part in split))
    found = np.full((len(split.test), targets.shape[1]), np.nan)
    scores = []
    for task in range(targets.shape[1]):
        column = targets[:, task]
        train, valid = (part[np.isfinite(column[part])] for part in (split.train, split.valid))
        known = column[train]
        if len(known) == 0 or (classes and known.min() == known.max()):
            continue  # nothing to learn, and so no scores
        mean, deviation = (0.0, 1.0) if classes else (known.mean(), float(_deviation(known)))
        best, score_of_best = -np.inf, float("nan")
        for choice in choices:
            predict = make(choice, train, (known - mean) / deviation)
            score = math.nan
            if len(valid):
                predicted = predict(valid) * deviation + mean
                score = roc_auc(column[valid], predicted).mean if classes else rmse(
                    column[valid], predicted
                )  # fmt: skip
            # Where validation cannot tell, all choices are alike.
            gain = 0.0 if np.isnan(score) else score if classes else -score
            if gain > best:
                best, score_of_best = gain, score
                found[:, task] = predict(split.test) * deviation + mean
        scores.append(score_of_best)
    defined = [one for one in scores if not np.isnan(one)]
    validation = float(np.mean(defined)) if defined else float("nan")
    return Probed(found[:, 0] if np.ndim(y) == 1 else found, validation)


Score = Callable[[Indices, int], Floats]
"""Scores on several draws of test molecules, int64 ids [B, n], of the first (0) or the second (1):
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
    on which a score is not defined are left out. The interval is that of :func:`crossed_interval`.

    Args:
        sets: for each set a function from ids [B, n] and 0 or 1, the first or the second, to their
            scores [B], or [B, S] of several seeds, and n, its number of test molecules.
        seeds: S, number of seeds.
        level: level of confidence, in (0, 1).
        draws: number of draws, >= 2.
        seed: seed of the draws.

    Returns:
        The second score less the first, NaN if it is not defined.

    Raises:
        InputError: without sets, for too few draws, seeds or molecules, or for a function that
            returns another number of scores than it was given draws.

    Source:
        Efron & Tibshirani (1993), *An Introduction to the Bootstrap*, chapter 6.

    Example:
        >>> a, b = np.zeros(50), np.ones(50)
        >>> test = paired_bootstrap([(lambda ids, which: (b if which else a)[ids].mean(1), 50)])
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
        """Of some draws, [B, sets, S]."""
        of_sets = []
        for (score, _), of in zip(sets, ids, strict=True):
            shape = (len(of),) if seeds == 1 else (len(of), seeds)
            both = [_floats("scores", score(of, which)) for which in (0, 1)]
            if any(one.shape != shape for one in both):
                got = " and ".join(str([*one.shape]) for one in both)
                raise InputError(f"scores of {len(of)} draws are {[*shape]}, got {got}")
            of_sets.append((both[1] - both[0]).reshape(len(of), seeds))
        return np.stack(of_sets, axis=1)

    (whole,) = differences(np.arange(n)[None] for _, n in sets)
    if not np.isfinite(whole).all():
        return UNDEFINED
    at_a_time = max(1, AT_A_TIME // max(n for _, n in sets))
    parts = []
    for start in range(0, draws, at_a_time):
        several = range(start, min(start + at_a_time, draws))
        drawn = [[generator.integers(n, size=n) for _, n in sets] for _ in several]
        parts.append(differences(np.stack(of_set) for of_set in zip(*drawn, strict=True)).mean(1))
    drawn_by_seed = np.concatenate(parts)
    drawn_by_seed = drawn_by_seed[np.isfinite(drawn_by_seed).all(axis=1)]
    if len(drawn_by_seed) < 2:
        return UNDEFINED
    return crossed_interval(whole.mean(axis=0), drawn_by_seed, level=level)


def standardised(x: ArrayLike, train: Indices, *, sparse: bool = False) -> Any:
    """Columns by mean and deviation of the training part; constant columns are centred alone.

    So are those that are constant but for rounding in the type that they come in: they span at most
    8ε of their largest value, or 8ε of double precision, as ±1e-17 around 0 does.

    Args:
        x: [n, d].
        train: ids of the training part.
        sparse: whether they are divided by the deviation alone and returned as a sparse matrix:
            for counts and bits that are mostly 0, of which an intercept takes the means.

    Raises:
        InputError: for values that are not finite numbers, or ids that are none.
    """
    from scipy.sparse import csr_matrix

    values = as_array("x", x)
    z: Floats = check_numbers("x", values)
    train = check_indices("train", train, len(z))
    eps = np.finfo(values.dtype if values.dtype.kind == "f" else np.float64).eps
    scale = _deviation(z[train], eps=float(eps), least=8 * EPS)
    return csr_matrix(z / scale) if sparse else (z - z[train].mean(0)) / scale


def _deviation(x: Floats, *, eps: float = EPS, least: float = TINY) -> Floats:
    """Standard deviation of columns; 1 where values are equal but for rounding.

    Args:
        x: [n, d] or [n].
        eps: relative rounding error of the values.
        least: what values span at least that are not equal.
    """
    low, high = x.min(0), x.max(0)
    alike = high - low <= np.maximum(least, 8 * eps * np.maximum(np.abs(low), np.abs(high)))
    found: Floats = np.where(alike, 1.0, x.std(0))
    return found


def _labels_and_scores(y: ArrayLike, scores: ArrayLike) -> tuple[Floats, Floats]:
    """Both as columns; InputError for shapes that differ, or labels that are none."""
    y, scores = _columns(_targets(y)), _columns(_floats("scores", scores))
    _check_shapes(y, scores)
    _check_binary(y)
    return y, scores


def _targets(y: ArrayLike) -> Floats:
    """Targets [n] or [n, T], NaN where not known."""
    array = as_array("y", y)
    names = ("n", "T")[: max(array.ndim, 1)]
    found: Floats = check_numbers("y", array, names, least=0, missing=True)
    return found


def _floats(name: str, values: ArrayLike) -> Floats:
    """Numbers that may be infinite or NaN, such as scores."""
    found: Floats = as_array(name, values).astype(np.float64, copy=False)
    return found


def _columns(values: Floats) -> Floats:
    return values[:, None] if values.ndim == 1 else values


def _check_shapes(y: Floats, scores: Floats) -> None:
    if y.shape != scores.shape:
        raise InputError(f"y is {[*y.shape]} and scores are {[*scores.shape]}; expected the same")


def _check_binary(y: Floats) -> None:
    if not np.isin(y[np.isfinite(y)], (0, 1)).all():
        raise InputError("y of ROC-AUC must be 0, 1, or NaN where not known")
