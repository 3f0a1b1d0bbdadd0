"""Every function of the evaluation takes numbers of any kind and type as it takes float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from gcl_hard import InputError
from gcl_hard.evaluation import (
    AnswerRanks,
    Fold,
    ProbeRecipe,
    ThreeWaySplit,
    adjusted_mean_rank_index,
    average_ranks,
    check_labels,
    cliques,
    corrected_interval,
    corrected_t_test,
    critical_difference,
    crossed_interval,
    crossed_test,
    filtered_ranks,
    friedman,
    given_splits,
    hits,
    holm,
    inner_holdout,
    kernel_cross_validation,
    kernel_fold,
    knn_cross_validation,
    linear_cross_validation,
    linear_probe,
    majority_cross_validation,
    mean_reciprocal_rank,
    outer_folds,
    probe_fold,
    probe_splits,
    random_splits,
    scaffold_split,
    svm_cross_validation,
    svm_fold,
    weighted_knn,
    wilcoxon,
)
from gcl_hard.evaluation.metrics import METRICS
from gcl_hard.evaluation.transfer import (
    kernel_predictions,
    linear_predictions,
    nystroem_features,
    paired_bootstrap,
    rbf_kernels,
    resampled_auc,
    resampled_rmse,
    rmse,
    roc_auc,
    standardised,
)
from gcl_hard.theory.optimality import cone_distance, gradient_norm, stationarity_angle

Kind = Callable[[Any], Any]
RNG = np.random.default_rng(0)
N = 40
Y = np.arange(N) % 2
X = RNG.poisson(1.0 + 3 * (np.arange(6)[None] % 2 == Y[:, None])).astype(float)  # 0, 1, 2, …
K = np.minimum(X[:, None], X[None]).sum(2)  # a kernel of counts, symmetric
V, W = X[:, 0] + 2 * X[:, 1], X[:, 2]
FOLD = Fold(*(np.flatnonzero(np.arange(N) // 2 % 2 == half) for half in (0, 1)))
SPLIT = ThreeWaySplit(np.arange(16), np.arange(16, 28), np.arange(28, N))
IDS = np.array([[0, 1, 2, 3], [4, 4, 5, 7]])
FEW: dict[str, Any] = {"seed": 0, "n_folds": 2, "n_inner": 2}
QUICK: dict[str, Any] = {"C_grid": [1.0], "n_inner": 2}
RECIPE = ProbeRecipe(rates=(0.1,), epochs=2)

KINDS: dict[str, Kind] = {
    "lists": lambda x: x.tolist(),
    **{f"arrays of {dtype}": lambda x, dtype=dtype: x.astype(dtype)
       for dtype in ("float16", ">f4", "uint16", "int64")},
    "columns of a larger array": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    **{f"tensors of {dtype}": lambda x, dtype=dtype: torch.from_numpy(x).to(dtype)
       for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.uint8)},
    "tensors with a gradient": lambda x: torch.from_numpy(x).requires_grad_(),
    "sparse int64 of SciPy": lambda x: sparse.coo_array(x.astype(int)),
    "sparse bfloat16": lambda x: torch.from_numpy(x).bfloat16().to_sparse(),
    "sparse int64": lambda x: torch.from_numpy(x).long().to_sparse(),
}  # fmt: skip
TRUTH: dict[str, Kind] = {
    "lists": lambda x: (x > 1).tolist(),
    "arrays": lambda x: x > 1,
    "tensors": lambda x: torch.from_numpy(x > 1),
    "sparse of SciPy": lambda x: sparse.csr_array(x > 1) if x.ndim > 1 else sparse.coo_array(x > 1),
    "sparse": lambda x: torch.from_numpy(x > 1).to_sparse(),
}

EMBEDDINGS: dict[str, Callable[[Any], Any]] = {
    "svm_fold": lambda x: svm_fold(x, Y, FOLD, **QUICK),
    "svm_cross_validation": lambda x: svm_cross_validation(x, Y, **FEW, C_grid=[1.0]),
    "linear_cross_validation": lambda x: linear_cross_validation(x, Y, **FEW, C_grid=[1.0]),
    "knn_cross_validation": lambda x: knn_cross_validation(x, Y, **FEW, n_neighbors=[1, 3]),
    "probe_fold": lambda x: probe_fold(x, Y, FOLD, **QUICK),
    "nystroem": lambda x: probe_fold(x, Y, FOLD, probe="nystroem", **QUICK),
    "linear_probe": lambda x: linear_probe(x, Y, x, Y, seed=0, recipe=RECIPE),
    "weighted_knn": lambda x: weighted_knn(x, Y, x, Y, k=5),
    "probe_splits": lambda x: probe_splits(x, Y, [SPLIT], penalties=[4.0]),
    "crossed_interval": lambda x: crossed_interval(X[0], x),
    "crossed_test": lambda x: crossed_test(x, X + 1),
    "average_ranks": average_ranks,
    "friedman": friedman,
    "filtered_ranks": lambda x: filtered_ranks(x, Y, (Y, Y + 1)),
    "standardised": lambda x: standardised(x, SPLIT.train),
    "rbf_kernels": lambda x: rbf_kernels(x, SPLIT.train),
    "nystroem_features": lambda x: nystroem_features(x, SPLIT.train),
}
CONES: dict[str, Callable[[Any], Any]] = {
    "cone_distance": lambda x: cone_distance([1, 0, 2, 0, 1, 0], x),
    "stationarity_angle": lambda x: stationarity_angle([1, 0, 2, 0, 1, 0], x, 10.0),
    "gradient_norm": lambda x: gradient_norm([1, 0, 2, 0, 1, 0], x, X + 1, 10.0),
}
MATRICES = EMBEDDINGS | CONES
KERNELS: dict[str, Callable[[Any], Any]] = {
    "kernel_fold": lambda x: kernel_fold(x, Y, FOLD, **QUICK),
    "kernel_cross_validation": lambda x: kernel_cross_validation(x, Y, **FEW, C_grid=[1.0]),
    "svm_fold": lambda x: svm_fold(X, Y, FOLD, added=x, **QUICK),
    "kernel_predictions": lambda x: kernel_predictions([x], Y, SPLIT, classes=True),
}
ROWS: dict[str, Callable[[Any], Any]] = {
    "corrected_interval": lambda v: corrected_interval(v, test_share=0.1),
    "corrected_t_test": lambda v: corrected_t_test(v, W, test_share=0.1),
    "wilcoxon": lambda v: wilcoxon(v, W),
    "cliques": lambda v: cliques(v, 0.5),
    "roc_auc": lambda v: roc_auc(Y, v),
    "resampled_auc": lambda v: resampled_auc(Y, v, IDS),
    "rmse": lambda v: rmse(v, W),
    "rmse of predictions": lambda v: rmse(W, v),
    "resampled_rmse": lambda v: resampled_rmse(v, W, IDS),
    "numbers to predict": lambda v: linear_predictions([X], v, SPLIT, classes=False),
    "mean_reciprocal_rank": lambda v: mean_reciprocal_rank(AnswerRanks(v, V)),
    "hits": lambda v: hits(AnswerRanks(v, V), 3),
    "adjusted_mean_rank_index": lambda v: adjusted_mean_rank_index(AnswerRanks(v, v)),
    **{name: lambda v, by=metric: by.score(V, v) for name, metric in METRICS.items()
       if name not in ("auc", "average_precision") and metric.kind not in ("retrieval", "ood")},
    "auc": lambda v: METRICS["auc"].score(Y, v),
    "average_precision": lambda v: METRICS["average_precision"].score(Y, v),
    **{f"each of {name}": lambda v, name=name: METRICS[name].each(V, v)
       for name in ("accuracy", "mrr")},
}  # fmt: skip
LABELS: dict[str, Callable[[Any], Any]] = {
    "check_labels": lambda y: check_labels(y, N, 2),
    "outer_folds": lambda y: outer_folds(y, seed=0, n_folds=3),
    "inner_holdout": lambda y: inner_holdout(SPLIT.train, y, seed=0),
    "majority_cross_validation": lambda y: majority_cross_validation(y, seed=0, n_folds=3),
    "svm_fold": lambda y: svm_fold(X, y, FOLD, **QUICK),
    "kernel_fold": lambda y: kernel_fold(K, y, FOLD, **QUICK),
    "probe_fold": lambda y: probe_fold(X, y, FOLD, **QUICK),
    "linear_probe": lambda y: linear_probe(X, y, X, y, seed=0, recipe=RECIPE),
    "weighted_knn": lambda y: weighted_knn(X, y, X, y, k=5),
    "probe_splits": lambda y: probe_splits(X, y, [SPLIT], penalties=[4.0]),
    "random_splits": lambda y: random_splits(range(N), 2, labels=y),
}


def alike(actual: Any, expected: Any, error: float = 1e-9) -> bool:
    """Whether two results hold the same numbers."""
    if hasattr(expected, "__dataclass_fields__"):
        return alike([*vars(actual).values()], [*vars(expected).values()], error)
    if isinstance(expected, list | tuple):
        pairs = zip(actual, expected, strict=True)
        return all(alike(*pair, error) for pair in pairs)
    if expected is None or isinstance(expected, str):
        return bool(actual == expected)
    return np.allclose(actual, expected, rtol=error, atol=error, equal_nan=True)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize(
    ("call", "values"),
    [
        *(pytest.param(call, X, id=name) for name, call in MATRICES.items()),
        *(pytest.param(call, K, id=f"{name} of kernels") for name, call in KERNELS.items()),
        *(pytest.param(call, V + 1, id=f"{name} of rows") for name, call in ROWS.items()),
    ],
)
def test_numbers_of_any_kind_are_those_of_float64(call: Callable[[Any], Any], values: Any) -> None:
    expected = call(values)
    for name, kind in KINDS.items():
        assert alike(call(kind(values)), expected), name


@pytest.mark.parametrize(
    ("call", "values"),
    [
        *(pytest.param(call, X, id=name) for name, call in MATRICES.items()),
        *(pytest.param(call, V, id=f"{name} of rows") for name, call in ROWS.items()
          if "rank" not in name and name not in METRICS),
    ],
)  # fmt: skip
def test_truth_values_are_0_and_1(call: Callable[[Any], Any], values: Any) -> None:
    expected = call((values > 1).astype(float))
    for name, kind in TRUTH.items():
        assert alike(call(kind(values)), expected), name


def test_columns_of_any_kind_are_those_of_float64() -> None:
    """But for what single precision, and the solver of sparse columns, leave out."""
    expected = linear_predictions([X], W, SPLIT, classes=False)
    for name, kind in KINDS.items():
        predictions = linear_predictions([kind(X)], W, SPLIT, classes=False)
        assert alike(predictions, expected, 1e-3), name
    for wrong in (X.astype(str), X[0], np.where(X == 3, np.nan, X)):
        with pytest.raises(InputError):
            linear_predictions([wrong], W, SPLIT, classes=False)


@pytest.mark.parametrize("call", LABELS.values(), ids=LABELS)
def test_labels_are_integers_of_any_kind(call: Callable[[Any], Any]) -> None:
    expected = call(Y)
    for labels_ in (
        Y.tolist(), Y.astype(bool), Y.astype(np.uint8), Y.astype(">i4"), torch.from_numpy(Y),
        torch.from_numpy(Y).to(torch.int16), torch.from_numpy(Y).bool(),
        torch.from_numpy(Y).to_sparse(),
    ):  # fmt: skip
        assert alike(call(labels_), expected)
    spoilt = Y.astype(float)
    spoilt[3] = np.nan
    for wrong in (Y + 0.5, spoilt, spoilt.astype(str), Y[:, None], torch.from_numpy(Y).bfloat16()):
        with pytest.raises(InputError):
            call(wrong)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", [name for name in MATRICES if name != "filtered_ranks"])
def test_what_is_no_number_is_refused(name: str, value: float) -> None:
    spoilt = X.copy()
    spoilt[7, 2] = value
    for values_ in (spoilt, torch.from_numpy(spoilt).bfloat16(), sparse.csr_array(spoilt)):
        with pytest.raises(InputError):
            MATRICES[name](values_)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_what_is_no_matrix_of_numbers_is_refused(name: str) -> None:
    for wrong in (X[:0], X[0], X.astype(str), [[1, 2], [3]], X.astype(object)):
        with pytest.raises(InputError):
            EMBEDDINGS[name](wrong)


def test_matrices_are_left_as_they_are() -> None:
    """Those of SciPy may hold an entry in several parts, which sums add up in place."""
    twice = sparse.csr_array(
        (np.ones(4), np.array([1, 0, 1, 1]), np.array([0, 3, 4])), shape=(2, 2)
    )
    x = sparse.vstack([twice] * 20).tocsr()
    kept = x.copy()
    for values_ in (x, x.toarray()):
        probe_splits(values_, Y, [SPLIT])
    assert np.array_equal(x.indices, kept.indices)
    assert np.array_equal(x.data, kept.data)


def test_masks_are_truth_values() -> None:
    masks = [np.eye(6, dtype=bool)[2 * k : 2 * k + 2] for k in range(3)]
    expected = given_splits(*masks)
    for kind in (np.ndarray.tolist, lambda mask: mask.astype(float), torch.from_numpy,
                 lambda mask: torch.from_numpy(mask).bfloat16()):  # fmt: skip
        assert alike(given_splits(*map(kind, masks)), expected)
    for wrong in ([[0, 5], [2, 3]], np.full((2, 6), np.nan), masks[0][:, :5], masks[0][0]):
        with pytest.raises(InputError):
            given_splits(masks[0], wrong, masks[2])


@pytest.mark.parametrize("kind", [np.ndarray.tolist, torch.from_numpy, np.uint8])
def test_parts_of_a_split_are_of_any_kind(kind: Kind) -> None:
    split = ThreeWaySplit(*map(kind, SPLIT))
    expected = MATRICES["probe_splits"](X)
    assert alike(probe_splits(X, Y, [split], penalties=[4.0]), expected)
    kernels = rbf_kernels(X, SPLIT.train)
    assert alike(
        *(kernel_predictions(kernels, W, parts, classes=False) for parts in (split, SPLIT))
    )
    assert alike(Fold(kind(FOLD.train), kind(FOLD.test)), FOLD)


def test_targets_are_numbers_or_not_known() -> None:
    """An infinite one is no number, and is not left out as one that is not known."""
    spoilt, known = W.copy(), np.arange(N) != 3
    spoilt[3] = np.nan
    assert rmse(spoilt, V) == rmse(W, V, known)
    spoilt[3] = -np.inf
    for call in (
        lambda: rmse(spoilt, V), lambda: resampled_rmse(spoilt, V, IDS),
        lambda: rmse(W, V[:, None]),
        lambda: linear_predictions([X], spoilt, SPLIT, classes=False),
        lambda: kernel_predictions([K], W, SPLIT, classes=True),
    ):  # fmt: skip
        with pytest.raises(InputError):
            call()


@pytest.mark.parametrize(
    "name", [name for name, metric in METRICS.items() if metric.kind == "classes"]
)
def test_scores_of_classes_are_of_classes(name: str) -> None:
    score = METRICS[name].score
    assert score(Y.astype(float), Y) == 100
    for wrong in (Y + 0.5, np.full(N, np.nan), Y[:, None], Y[:5]):
        with pytest.raises(InputError):
            score(wrong, Y)
    with pytest.raises(InputError):
        score([], [])


EYE, SOLE = np.eye(N), np.zeros(N, int)
PARTS = {"train": X, "train_labels": Y, "test": X, "test_labels": Y, "seed": 0}
BANK = {"bank": X, "bank_labels": Y, "queries": X, "query_labels": Y, "k": 3}
RARE, GOOD = np.repeat([0, 7], [36, 4]), [0.8, 0.9, 0.7]
KNOWN = (torch.tensor([0, 1]), torch.tensor([1]))


def changed(x: Any, at: Any, value: float) -> Any:
    x = np.array(x, dtype=float)
    x[at] = value
    return x


REFUSED: list[tuple[str, Callable[[], Any]]] = [
    # of cross-validations
    *((name, lambda more=more: svm_cross_validation(X, Y, **{"seed": 0} | more)) for name, more in (
        ("C_grid", {"C_grid": []}), ("C_grid", {"C_grid": [1.0, 0.0]}),
        ("C_grid", {"C_grid": [np.inf]}), ("n_jobs", {"n_jobs": 0}), ("n_inner", {"n_inner": 1}),
        ("n_inner=19", {"n_inner": 19}), ("seed", {"seed": -3}), ("kernel", {"kernel": "lineer"}),
        ("added", {"added": EYE[:, :19]}), ("added", {"added": EYE[:9, :9]}),
        ("added", {"added": np.full((N, N), np.nan)}),
        ("symmetric", {"added": changed(EYE, (3, 4), 1e-5)}),
        ("weight", {"added": EYE, "weight": 0.0}), ("weight", {"weight": np.inf}),
    )),
    ("embeddings", lambda: svm_cross_validation(changed(X, (3, 1), -1e200), Y, seed=0)),
    ("class 7 has 4", lambda: svm_cross_validation(X, RARE, seed=0)),
    ("leave", lambda: outer_folds(changed(SOLE, 0, 1).astype(int), seed=0)),
    ("two classes", lambda: outer_folds(SOLE, seed=0)),
    ("n_folds", lambda: outer_folds(Y, seed=0, n_folds=1)),
    ("n_folds", lambda: outer_folds(Y, seed=0, n_folds=2.5)),
    *(("kernel", lambda K=K: kernel_cross_validation(K, Y, seed=0)) for K in (
        EYE[:, :19], np.ones(N), np.ones((0, 0)), EYE.astype(str), changed(EYE, (3, 4), np.nan),
        changed(EYE, (3, 3), -1e200), changed(EYE, (3, 4), 1e-5),
    )),
    ("probe", lambda: probe_fold(X, Y, FOLD, probe="svm")),
    ("C_grid", lambda: probe_fold(X, Y, FOLD, C_grid=[-1.0])),
    ("both train and test", lambda: Fold(np.array([0, 1, 2]), np.array([2, 3]))),
    ("fold.train", lambda: Fold(np.array([]), np.array([1]))),
    ("fold.test", lambda: Fold(np.array([0]), np.array([-1]))),
    ("fold.test", lambda: Fold(np.array([0]), np.array([0.5]))),
    ("metric", lambda: knn_cross_validation(X, Y, seed=0, metric="cosin")),
    # of official splits
    *((name, lambda more=more: linear_probe(**PARTS | more)) for name, more in (
        ("test:", {"test": np.ones((N, 3))}), ("test:", {"test": -1e16 * X}),
        ("train_labels", {"train_labels": SOLE}), ("test_labels", {"test_labels": Y + 7}),
        ("seed", {"seed": -1}),
    )),
    *((name, lambda more=more: weighted_knn(**BANK | more)) for name, more in (
        ("k=41", {"k": 41}), ("k", {"k": 0}), ("temperature", {"temperature": 0.0}),
        ("queries", {"queries": np.ones((N, 3))}), ("query_labels", {"query_labels": Y + 7}),
    )),
    *((next(iter(wrong)), lambda wrong=wrong: ProbeRecipe(**wrong)) for wrong in (
        {"solver": "adm"}, {"rates": ()}, {"rates": (0.1, -1.0)}, {"C_grid": (0.0,)},
        {"weight_decay": -1e-6}, {"epochs": 0}, {"batch_size": 1.5}, {"holdout": 1.0},
    )),
    # of splits
    *(("penalties", lambda c=c: probe_splits(X, Y, [SPLIT], penalties=c))
      for c in ([], [0.0], [-1, 1], [np.nan])),
    *((part, lambda ids=ids, part=part: probe_splits(X, Y, [SPLIT._replace(**{part: ids})]))
      for part in ("train", "valid") for ids in ([], [-1, 2], [3, N], [0.5, 2])),
    ("single class", lambda: probe_splits(X, SOLE, [SPLIT])),
    ("ROC-AUC", lambda: probe_splits(X, np.arange(N) % 3, [SPLIT], score="auc")),
    *(("", lambda ids=ids: random_splits(ids, 1))
      for ids in ([0.5, 1.5, 2.5] * 9, [np.nan] * 20, [], [[0, 1], [2, 3]])),
    ("empty", lambda: random_splits(range(9), 1, shares=(0.1, 0.05))),
    *(("", lambda train=train: inner_holdout(train, Y, seed=0))
      for train in ([0, 1, 2, 3, N], [-1, 0, 1, 2], [0.5, 1, 2, 3], [])),
    *(("shares", lambda shares=shares: scaffold_split(["a", "b", "c"] * 10, shares=shares))
      for shares in ((0.8, 0.2), (0.0, 0.5), (0.9, 0.2))),
    # of ranks
    *(("scores and answers", lambda y=y: filtered_ranks([[1.0, 3.0, 2.0], [1.0, 1.0, 5.0]], y))
      for y in ([2, 3], [-1, 0], [0.5, 1], [0, 1, 1], [[0, 1]], np.array([True, False]), 0)),
    *(("nonzero", lambda pairs=pairs: filtered_ranks(np.zeros((2, 3)), [0, 1], pairs))
      for pairs in (torch.zeros(2, 3).bool(), KNOWN, ([0], [3]), ([0], [-1]))),
    # of comparisons
    *((name, lambda more=more: corrected_t_test(**{"a": GOOD, "b": GOOD, "test_share": 0.1} | more))
      for name, more in (
          ("b:", {"a": GOOD[:2]}), ("a:", {"a": [0.8]}), ("b:", {"b": [GOOD]}),
          ("a:", {"a": ["0.8", "0.9", "0.7"]}), ("a:", {"a": [0.8, np.nan, 0.7]}),
          ("b:", {"b": [1e200, 0.9, 0.7]}), ("test_share", {"test_share": -1e-9}),
          ("test_share", {"test_share": np.nan}), ("level", {"level": 0}), ("level", {"level": 95}),
      )),
    ("values:", lambda: corrected_interval([0.8], test_share=0.1)),
    ("test_share", lambda: corrected_interval(GOOD, test_share=-0.5)),
    ("b:", lambda: wilcoxon(GOOD, GOOD[:2])),
    *(("p:", lambda p=p: holm(p)) for p in ([0.1, 1.2], [-0.1], [np.nan])),
    ("scores:", lambda: average_ranks(np.ones((0, 3)))),
    ("k", lambda: critical_difference(1, 5)),
    ("n_sets", lambda: critical_difference(3, 0)),
    ("cd", lambda: cliques(GOOD, -1.0)),
    ("ranks:", lambda: cliques([1.0, np.nan], 1.0)),
    ("", lambda: crossed_test([[1.0]])),
    *(("", lambda of=of: crossed_interval(*of)) for of in (
        ([], [[]]), ([1, 2], [[1, 2]]), ([1, 2], [[1], [2]]), ([1, np.nan], [[1, 2]] * 3),
        ([1], [1, 2]))),
    *(("", lambda sets=sets: paired_bootstrap(sets, draws=3)) for sets in (
        [], [(lambda ids, index: ids.mean(1), 0)], [(lambda ids, index: ids.mean(), 5)],
        [(lambda ids, index: ids, 5)])),
    *(("", lambda more=more: paired_bootstrap([(lambda ids, index: ids.mean(1), 5)], **more))
      for more in ({"draws": 1}, {"seeds": 0}, {"seeds": 2}, {"level": 1.0})),
]  # fmt: skip


@pytest.mark.parametrize(("name", "call"), REFUSED)
def test_what_has_no_meaning_is_refused_by_name(name: str, call: Callable[[], Any]) -> None:
    with pytest.raises(InputError, match=name or None):
        call()


def test_scores_of_lists_keep_their_digits() -> None:
    assert filtered_ranks([[1.0, 1.0 + 1e-12]], [0]).rank == 2
