"""Splits into training, validation and test parts, and a logistic regression on each split."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gcl_hard.errors import InputError, check_at_least, check_option
from gcl_hard.evaluation.checks import (
    Indices,
    as_array,
    check_classes,
    check_grid,
    check_indices,
    check_numbers,
    check_share,
    checked_shares,
)
from gcl_hard.evaluation.folds import ThreeWaySplit, outer_folds
from gcl_hard.evaluation.logistic import Regressions, logistic_regressions
from gcl_hard.evaluation.metrics import metric

SHARES = (0.1, 0.1)
"""Shares of the training and the validation part of random splits."""
CLASS_SHARES = (0.5, 0.15, 0.35)
"""Shares of the classes to train on, to choose on and to test on."""
PENALTIES = tuple(4.0**k for k in range(-5, 8))
"""Candidates for C, 2⁻¹⁰ to 2¹⁴."""
ProbeSolver = Literal["newton", "lbfgs"]
SPARSE = 0.2
"""Share of non-zero entries from which a matrix is treated as dense."""
CHANCE, ANEW = 1e-12, 1
"""Largest p-value at which a split is drawn again, and the second part of its seed then."""
MOST_STEPS = 5000
"""Steps of L-BFGS, many times more than it takes."""


def random_splits(
    items: ArrayLike,
    number: int,
    *,
    shares: tuple[float, float] = SHARES,
    labels: ArrayLike | None = None,
) -> list[ThreeWaySplit]:
    """Random splits of items, reproducible on any machine.

    Split k is a permutation drawn from the seed k, cut at the shares; classes are not balanced, as
    in the papers that report such splits. Labels may come from that permutation, too, as those of
    Minesweeper do: its mines are the first fifth of NumPy's permutation from the seed 0. A split
    whose classes depend on the part beyond chance (χ², p < 10⁻¹²) is drawn from another seed.

    Args:
        items: int [n], ids of the items to split, such as the nodes whose label is known.
        number: number of splits, at least 1.
        shares: shares of the training and the validation part.
        labels: int [n], classes of the items, to detect such splits; None to skip that.

    Returns:
        The splits, each with ascending ids.

    Raises:
        InputError: for invalid ids or labels, or shares that leave a part empty.

    Source:
        Shchur et al. (2018), *Pitfalls of Graph Neural Network Evaluation*, for random splits;
        Zhu et al. (2021), GCA, for the shares 10, 10 and 80 %.

    Example:
        >>> [split.train for split in random_splits(range(10), 2)]
        [array([4]), array([8])]
    """
    check_at_least("number", number, 1)
    check_share("shares[0]", shares[0], usual=SHARES[0])
    check_share("the sum of shares", sum(shares), usual=sum(SHARES))
    ids = check_indices("items", items)
    if labels is not None:
        labels = check_classes("labels", labels, len(ids))
    cuts = [round(shares[0] * len(ids)), round(sum(shares) * len(ids))]
    if not 0 < cuts[0] < cuts[1] < len(ids):
        raise InputError(f"{len(ids)} items split by {shares} would leave a part empty")
    splits = []
    for k in range(number):
        place = np.random.default_rng(k).permutation(len(ids))
        if labels is not None and _depends(labels[place], cuts):
            place = np.random.default_rng((k, ANEW)).permutation(len(ids))
        splits.append(ThreeWaySplit(*map(np.sort, np.split(ids[place], cuts))))
    return splits


def _depends(labels: NDArray[Any], cuts: Sequence[int]) -> bool:
    """Whether the classes of items in this order depend on the part beyond chance."""
    from scipy.stats.contingency import chi2_contingency, crosstab

    part = np.searchsorted(cuts, np.arange(len(labels)), side="right")
    return bool(chi2_contingency(crosstab(labels, part).count).pvalue < CHANCE)


def given_splits(train: ArrayLike, valid: ArrayLike, test: ArrayLike) -> list[ThreeWaySplit]:
    """Splits that come with the data.

    Args:
        train: bool [S, n], a row per split: items to train on.
        valid: likewise, to choose on.
        test: likewise.

    Raises:
        InputError: for masks of different shapes, or with values other than booleans, 1 and 0.

    Example:
        >>> given_splits([[True, False, False]], [[False, True, False]], [[False, False, True]])
        [ThreeWaySplit(train=array([0]), valid=array([1]), test=array([2]))]
    """
    parts = {"train": train, "valid": valid, "test": test}
    masks = {part: as_array(part, mask) for part, mask in parts.items()}
    for part, mask in masks.items():
        if mask.ndim != 2 or mask.shape != masks["train"].shape or not np.isin(mask, (0, 1)).all():
            raise InputError(f"{part}: expected booleans [S, n], got {mask.dtype} {mask.shape}")
    return [ThreeWaySplit(*map(np.flatnonzero, row)) for row in zip(*masks.values(), strict=True)]


def fold_splits(
    items: ArrayLike, number: int, *, folds: int, labels: ArrayLike
) -> list[ThreeWaySplit]:
    """Splits of a stratified cross-validation: one fold to test on, the next one to choose on.

    Split k tests on fold k of the folds, which the seed 0 draws; further ones are of the next
    seeds.

    Args:
        items: int [n], ids of the items to split.
        number: number of splits, at least 1; ``folds`` for each item to be tested once.
        folds: number of folds, at least 3.
        labels: int [n], classes of the items, each with ``folds`` members.

    Returns:
        The splits, each with ascending ids.

    Raises:
        InputError: for invalid ids or labels, fewer than 3 folds, or a class that is too small.

    Example:
        >>> splits = fold_splits(range(6), 3, folds=3, labels=[0, 1] * 3)
        >>> sorted(int(i) for split in splits for i in split.test)
        [0, 1, 2, 3, 4, 5]
    """
    check_at_least("number", number, 1)
    check_at_least("folds", folds, 3)
    ids, splits = check_indices("items", items), list[ThreeWaySplit]()
    for seed in range(-(-number // folds)):
        tests = [np.sort(ids[fold.test]) for fold in outer_folds(labels, seed=seed, n_folds=folds)]
        for k, test in enumerate(tests):
            valid = tests[(k + 1) % folds]
            train = np.setdiff1d(ids, np.concatenate([test, valid]))
            splits.append(ThreeWaySplit(train, valid, test))
    return splits[:number]


def class_draws(
    y: ArrayLike, number: int, *, shares: Sequence[float] = CLASS_SHARES, least: int = 2
) -> list[ThreeWaySplit]:
    """Draws of classes for training, validation and testing, reproducible on any machine.

    Draw k cuts the permutation of the classes from the seed k at the shares.

    Args:
        y: integers [n], classes; items of negative ones, which are not known, are in no part.
        number: number of draws, at least 1.
        shares: shares of the classes to train on, to choose on and to test on.
        least: the fewest items of a part, k + 1 for R@k.

    Returns:
        The items of the classes of each part, with ascending ids.

    Raises:
        InputError: for invalid classes or shares, a part with fewer than two classes or fewer items
            than ``least``.

    Example:
        >>> y = np.arange(12) // 2
        >>> [y[part].tolist() for part in class_draws(y, 1, shares=(0.4, 0.3, 0.3))[0]]
        [[2, 2, 3, 3], [4, 4, 5, 5], [0, 0, 1, 1]]
    """
    check_at_least("number", number, 1)
    return [class_draw(y, k, shares=shares, least=least) for k in range(number)]


def class_draw(
    y: ArrayLike, k: int, *, shares: Sequence[float] = CLASS_SHARES, least: int = 2
) -> ThreeWaySplit:
    """Draw k of :func:`class_draws`, which has the arguments and the errors."""
    labels, shares = check_classes("y", y), checked_shares("shares", shares)
    classes = np.unique(labels[labels >= 0])
    cuts = [round(shares[0] * len(classes)), round((shares[0] + shares[1]) * len(classes))]
    if min(np.diff([0, *cuts, len(classes)])) < 2:
        raise InputError(f"{len(classes)} classes split by {shares} leave a part fewer than two")
    parts = np.split(np.random.default_rng(k).permutation(classes), cuts)
    split = ThreeWaySplit(*(np.flatnonzero(np.isin(labels, part)) for part in parts))
    if (smallest := min(map(len, split))) < least:
        raise InputError(f"draw {k} of classes has a part of {smallest} items, fewer than {least}")
    return split


def known_draws(y: ArrayLike, splits: Sequence[ThreeWaySplit], share: float) -> list[ThreeWaySplit]:
    """Splits in which only some classes are known: items of others are to be tested on alone.

    Draw k takes the first of the permutation from the seed k of the classes in the training part
    of split k, so that with a larger share the same classes are known and more. Items of other
    classes in the training and the validation part are left out.

    Args:
        y: integers [n], classes; items of negative ones are in no part.
        splits: a split for each draw; an official one may be repeated.
        share: share of the classes that are known, between 0 and 1.

    Returns:
        The splits; those classes are known that the training part has.

    Raises:
        InputError: for invalid classes, parts or shares, or a draw with fewer than two known
            classes in a part, or without another one to test on.

    Source: Shu, Xu and Liu, *DOC: Deep Open Classification of Text Documents*, 2017.

    Example:
        >>> y = [0, 1, 2, 3] * 3
        >>> known_draws(y, [ThreeWaySplit(np.arange(4), np.arange(4, 8), np.arange(8, 12))], 0.5)
        [ThreeWaySplit(train=array([0, 2]), valid=array([4, 6]), test=array([ 8,  9, 10, 11]))]
    """
    check_share("share", share, usual=0.5)
    labels, draws = check_classes("y", y), list[ThreeWaySplit]()
    for k, split in enumerate(splits):
        train, valid, test = (
            ids[labels[ids] >= 0]
            for ids in (check_indices("a part of a split", part, len(labels)) for part in split)
        )
        order = np.random.default_rng(k).permutation(np.unique(labels[train]))
        known = order[: round(share * len(order))]
        train, valid = (ids[np.isin(labels[ids], known)] for ids in (train, valid))
        is_known = np.isin(labels[test], known)
        fewest = min(len(np.unique(labels[ids])) for ids in (train, valid, test[is_known]))
        if fewest < 2 or is_known.all():
            raise InputError(
                f"draw {k}: {len(known)} of {len(order)} classes known leave a part fewer than two "
                f"of them, or no other class to test on"
            )
        draws.append(ThreeWaySplit(train, valid, test))
    return draws


class ProbedSplit(NamedTuple):
    """Predictions of the probe of one split.

    Attributes:
        predicted: int64 [n], the class of every item; under ``auc`` float64, decision values of
            class 1.
        validation: the score of the validation part, in the unit of the metric.
        chosen: C.
    """

    predicted: NDArray[Any]
    validation: float
    chosen: float


def probe_splits(
    x: Any,
    y: ArrayLike,
    splits: Sequence[ThreeWaySplit],
    *,
    score: str = "accuracy",
    penalties: Sequence[float] = PENALTIES,
    solver: ProbeSolver = "newton",
) -> list[ProbedSplit]:
    r"""Predictions by logistic regressions on embeddings of length 1, one for each split.

    .. math:: \min_{W, b} \; \frac{1}{2} \lVert W \rVert^2
              - C \sum_{i \in \text{train}} \log \operatorname{softmax}(W \hat z_i + b)_{y_i},
              \qquad \hat z_i = z_i / \lVert z_i \rVert

    C is the one with the best score on the validation part, on a tie the smallest; the regression
    is fitted to the training part alone.

    Args:
        x: real numbers or booleans [n, d], dense or sparse, of SciPy or PyTorch; zero rows stay
            zero.
        y: int [n], classes; those of test items and of items in no part are not read.
        splits: the splits, whose training and validation parts are not empty.
        score: ``"accuracy"``, or ``"auc"`` of two classes 0 and 1.
        penalties: values of C, each > 0.
        solver: ``"newton"``, the optimum (:func:`~gcl_hard.evaluation.logistic_regressions`), or
            ``"lbfgs"``, where scikit-learn's L-BFGS ends, as in results before it.

    Returns:
        The predictions and the chosen C of each split.

    Raises:
        InputError: for invalid numbers, classes, parts or values of C, a training part of one
            class, or ``"auc"`` of classes other than 0 and 1.

    Source:
        The protocol of GRACE and GCA.

    Example:
        >>> x = np.array([[1.0, 0.1], [0.1, 1.0]] * 10)
        >>> y = np.arange(20) % 2
        >>> (probed,) = probe_splits(x, y, random_splits(range(20), 1, shares=(0.4, 0.2)))
        >>> probed.validation, bool((probed.predicted == y).all())
        (100.0, True)
    """
    rows = unit_rows(x).astype(np.float64)
    classes, penalties = check_classes("y", y, rows.shape[0]), check_grid("penalties", penalties)
    results: list[ProbedSplit] = []
    for split in splits:
        best = chosen_regression(
            rows, classes, split, score=score, penalties=penalties, solver=solver
        )
        results.append(ProbedSplit(best.predict(rows, score), best.validation, best.chosen))
    return results


class Regression(NamedTuple):
    """A logistic regression.

    Attributes:
        weights: float64 [C, d], or [1, d] for two classes.
        offsets: float64 [C] or [1].
        classes: int64 [C].
        chosen: its penalty.
        validation: its score on the validation part.
    """

    weights: NDArray[Any]
    offsets: NDArray[Any]
    classes: NDArray[Any]
    chosen: float
    validation: float = math.nan

    def logits(self, x: Any) -> NDArray[Any]:
        """Logits of rows, [n, C]; of two classes they are opposite numbers."""
        logits = x @ self.weights.T + self.offsets
        return np.hstack([-logits, logits]) / 2 if logits.shape[1] == 1 else logits

    def predict(self, x: Any, score: str = "accuracy") -> NDArray[Any]:
        """Classes of rows, [n]; under ``"auc"`` decision values of the second class."""
        return self.decided(x @ self.weights.T + self.offsets, score)

    def decided(self, values: NDArray[Any], score: str) -> NDArray[Any]:
        """The same of x Wᵀ + b, [n, C] or [n, 1]."""
        if score == "auc":
            return values[:, 0]
        return self.classes[values.argmax(1) if len(self.classes) > 2 else (values[:, 0] > 0) * 1]


def chosen_regression(
    rows: Any,
    y: Indices,
    split: ThreeWaySplit,
    *,
    score: str,
    penalties: Sequence[float],
    solver: ProbeSolver = "newton",
) -> Regression:
    """The regression on the training part with the best score on the validation part.

    Args:
        rows: as of :func:`unit_rows`; rows in neither part are not read.
        y: int64 [n], classes.
        split: the parts.
        score: as for :func:`probe_splits`.
        penalties: values of C in ascending order.
        solver: as for :func:`probe_splits`.
    """
    check_option("solver", solver, get_args(ProbeSolver))
    train, valid = (
        check_indices(f"{part} of a split", getattr(split, part), len(y))
        for part in ("train", "valid")
    )
    _check_classes(y, split._replace(train=train, valid=valid), score)
    columns, known = dense_if_full(rows[train]).astype(np.float64), y[train]
    weights, offsets = SOLVERS[solver](columns, known, penalties)
    names, measure = np.unique(known), metric(score)
    candidates = [
        Regression(w, b, names, penalty)
        for w, b, penalty in zip(weights, offsets, penalties, strict=True)
    ]
    values = rows[valid] @ weights.reshape(-1, rows.shape[1]).T  # of all penalties at once
    values = values.reshape(-1, *offsets.shape) + offsets
    scores = [
        measure.score(y[valid], candidate.decided(values[:, k], score))
        for k, candidate in enumerate(candidates)
    ]
    best = int(np.argmax(scores))
    return candidates[best]._replace(validation=scores[best])


def unit_rows(x: Any) -> Any:
    """Rows of a dense or sparse matrix, scaled to length 1; zero rows stay zero.

    Single precision is kept, and all else becomes double.

    Example:
        >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
        array([[0.6, 0.8],
               [0. , 0. ]])
    """
    from scipy.sparse import diags_array, issparse

    x = check_numbers("x", x, dtype=None, sparse=True)
    if issparse(x):
        exact = x.astype(np.float64)  # squares of large numbers have no single precision
        norms = np.sqrt(np.asarray(exact.multiply(exact).sum(1)).ravel())
        return (diags_array(1 / np.where(norms == 0, 1, norms)) @ exact).tocsr().astype(x.dtype)
    norms = np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True)
    return (x / np.where(norms == 0, 1, norms)).astype(x.dtype)


def dense_if_full(x: Any) -> Any:
    """A sparse matrix with many non-zero entries as a dense one; any other unchanged.

    Example:
        >>> from scipy.sparse import eye_array
        >>> type(dense_if_full(eye_array(3))).__name__, dense_if_full(eye_array(10)).nnz
        ('ndarray', 10)
    """
    from scipy.sparse import issparse

    full = issparse(x) and x.nnz >= SPARSE * math.prod(x.shape)
    return x.toarray() if full else x


def _approximations(x: Any, y: Indices, penalties: Sequence[float]) -> Regressions:
    """The regressions where scikit-learn's L-BFGS ends, above the optimum at large C."""
    from scipy.sparse import issparse
    from sklearn.linear_model import LogisticRegression

    basis = None
    if not issparse(x) and x.shape[1] > x.shape[0]:
        # x = U S Vᵀ: the norm of W and its products with x are those of VᵀW with U S.
        left, lengths, right = np.linalg.svd(x, full_matrices=False)
        kept = lengths >= lengths[0] * max(x.shape) * np.finfo(np.float64).eps
        x, basis = left[:, kept] * lengths[kept], right[kept]
    model = LogisticRegression(max_iter=MOST_STEPS, tol=1e-5, warm_start=True)
    fits = []
    for penalty in penalties:
        with warnings.catch_warnings():
            # If no step lowers the loss any more, this is the minimum.
            warnings.filterwarnings("ignore", ".*ABNORMAL")
            model.set_params(C=penalty).fit(x, y)
        fits.append((model.coef_ if basis is None else model.coef_ @ basis, model.intercept_))
    return Regressions(*map(np.stack, zip(*fits, strict=True)))


SOLVERS = {"newton": logistic_regressions, "lbfgs": _approximations}


def _check_classes(y: Indices, split: ThreeWaySplit, score: str) -> None:
    known, held_out = (np.unique(y[part]).tolist() for part in (split.train, split.valid))
    if len(known) < 2:
        raise InputError(f"the training part of {len(split.train)} items has a single class")
    if score == "auc" and not known == held_out == [0, 1]:
        raise InputError(
            f"the ROC-AUC needs the classes 0 and 1 in training and validation, got {known} and "
            f"{held_out}: score by accuracy"
        )
