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
)
from gcl_hard.evaluation.folds import ThreeWaySplit, outer_folds
from gcl_hard.evaluation.logistic import Regressions, logistic_regressions
from gcl_hard.evaluation.metrics import metric

SHARES = (0.1, 0.1)
"""Shares of the training and the validation part of random splits."""
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
    check_option("solver", solver, get_args(ProbeSolver))
    chosen_metric, rows = metric(score), unit_rows(x).astype(np.float64)
    classes, penalties = check_classes("y", y, rows.shape[0]), check_grid("penalties", penalties)
    results: list[ProbedSplit] = []
    for parts in splits:
        train, valid = (
            check_indices(f"{part} of a split", getattr(parts, part), len(classes))
            for part in ("train", "valid")
        )
        split = parts._replace(train=train, valid=valid)
        _check_classes(classes, split, score)
        columns, known = dense_if_full(rows[split.train]), classes[split.train]
        fits, names = SOLVERS[solver](columns, known, penalties), np.unique(known)

        def decided(logits: Any, names: Indices = names) -> Any:
            if score == "auc":
                return logits[:, 0]
            return names[logits.argmax(1) if len(names) > 2 else (logits[:, 0] > 0) * 1]

        queries, held_out = rows[split.valid], classes[split.valid]
        logits = queries @ fits.weights.reshape(-1, rows.shape[1]).T
        logits = logits.reshape(-1, *fits.offsets.shape) + fits.offsets
        values = [
            chosen_metric.score(held_out, decided(logits[:, k])) for k in range(len(penalties))
        ]
        best = int(np.argmax(values))
        predicted = decided(rows @ fits.weights[best].T + fits.offsets[best])
        results.append(ProbedSplit(predicted, values[best], penalties[best]))
    return results


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
