"""Tests of random splits and of the regression on each, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from gcl_hard.errors import InputError
from gcl_hard.evaluation import (
    ThreeWaySplit,
    class_draws,
    given_splits,
    probe_splits,
    random_splits,
)
from gcl_hard.evaluation.splits import PENALTIES


def problem(n: int, d: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(seed)
    y = draws.integers(classes, size=n)
    return draws.normal(size=(n, d)) + 1.5 * np.eye(classes, d)[y], y


def test_random_splits_are_parts_of_the_items_and_grow_in_number_alone() -> None:
    items = np.arange(100, 300)
    three, five = random_splits(items, 3), random_splits(items, 5)
    for a, b in zip(three, five[:3], strict=True):
        assert all(map(np.array_equal, a, b))
    assert [[*map(len, split)] for split in five] == [[20, 20, 160]] * 5
    for split in five:
        assert np.array_equal(np.sort(np.concatenate(split)), items)
    assert len({tuple(split.train) for split in five}) == 5


def test_labels_made_by_the_draw_of_a_split_get_another() -> None:
    """As those of Minesweeper: the first fifth of a permutation from the seed 0."""
    y = np.zeros(1000, int)
    y[np.random.default_rng(0).permutation(1000)[:200]] = 1
    plain, redrawn = random_splits(range(1000), 3), random_splits(range(1000), 3, labels=y)
    assert y[plain[0].train].all()
    assert not y[plain[0].test].any()
    for part in redrawn[0]:
        assert 0.1 < y[part].mean() < 0.3
    for split, other in zip(plain[1:], redrawn[1:], strict=True):
        assert all(map(np.array_equal, split, other))


@pytest.mark.parametrize("seed", range(5))
def test_labels_of_their_own_change_no_split(seed: int) -> None:
    y = np.random.default_rng(100 + seed).integers(0, 30, 300)
    for split, other in zip(random_splits(range(300), 9), random_splits(range(300), 9, labels=y),
                          strict=True):  # fmt: skip
        assert all(map(np.array_equal, split, other))


def test_given_splits_are_the_masks() -> None:
    masks = np.eye(6, dtype=bool)
    train, valid, test = masks[:2], masks[2:4], masks[4:]
    splits = given_splits(train, valid, test)
    assert [[part.tolist() for part in split] for split in splits] == [
        [[0], [2], [4]],
        [[1], [3], [5]],
    ]


def slow(x: np.ndarray, y: np.ndarray, split: ThreeWaySplit, *, auc: bool) -> tuple[float, ...]:
    """Every C by itself, and the score of the test part."""
    z = x / np.linalg.norm(x, axis=1, keepdims=True)
    best, chosen, test = -1.0, 0.0, 0.0
    for c in PENALTIES:
        model = LogisticRegression(C=c, max_iter=10_000, tol=1e-8).fit(
            z[split.train], y[split.train]
        )

        def score(ids: np.ndarray, model: LogisticRegression = model) -> float:
            if auc:
                return float(100 * roc_auc_score(y[ids], model.decision_function(z[ids])))
            return float(100 * np.mean(model.predict(z[ids]) == y[ids]))

        if (value := score(split.valid)) > best + 1e-9:
            best, chosen, test = value, c, score(split.test)
    return best, chosen, test


@pytest.mark.parametrize(("d", "sparse"), [(6, False), (120, False), (6, True)])
@pytest.mark.parametrize(("classes", "score"), [(4, "accuracy"), (2, "accuracy"), (2, "auc")])
def test_the_probe_is_scikit_learns_with_c_chosen_on_validation(
    d: int,
    sparse: bool,
    classes: int,
    score: str,
) -> None:
    x, y = problem(400, d, classes)
    splits = random_splits(range(400), 2)
    probed = probe_splits(csr_array(x) if sparse else x, y, splits, score=score)
    for result, split in zip(probed, splits, strict=True):
        best, _, test = slow(x, y, split, auc=score == "auc")
        assert result.validation == pytest.approx(best, abs=0.6)
        predicted = result.predicted[split.test]
        got = (
            roc_auc_score(y[split.test], predicted)
            if score == "auc"
            else np.mean(predicted == y[split.test])
        )
        assert 100 * got == pytest.approx(test, abs=1.5)


def test_labels_of_test_items_and_of_none_are_not_read() -> None:
    x, y = problem(300, 5, 3)
    (split,) = random_splits(range(200), 1)
    poisoned = y.copy()
    poisoned[split.test], poisoned[200:] = 77, -1
    (a,), (b,) = (probe_splits(x, labels, [split]) for labels in (y, poisoned))
    assert np.array_equal(a.predicted, b.predicted)
    assert a.chosen == b.chosen


def test_rows_of_zeros_stay() -> None:
    x, y = problem(200, 5, 2)
    x[::7] = 0
    (probed,) = probe_splits(x, y, random_splits(range(200), 1))
    assert len(set(probed.predicted[::7].tolist())) == 1


@pytest.mark.parametrize("shares", [(0.5, 0.15, 0.35), (0.4, 0.3, 0.3)])
def test_draws_of_classes_are_disjoint_and_whole(shares: tuple[float, float, float]) -> None:
    y = np.random.default_rng(0).integers(-1, 40, size=2000)
    three, five = class_draws(y, 3, shares=shares), class_draws(y, 5, shares=shares)
    for a, b in zip(three, five[:3], strict=True):
        assert all(map(np.array_equal, a, b))
    for draw in five:
        parts = [{*y[ids].tolist()} for ids in draw]
        assert [len(part) / 40 for part in parts] == pytest.approx(shares, abs=1 / 40)
        assert set.union(*parts) == {*range(40)}
        assert sum(map(len, parts)) == 40
        assert np.array_equal(np.sort(np.concatenate(draw)), np.flatnonzero(y >= 0))
    assert len({tuple(draw.test) for draw in five}) == 5
    relabelled = class_draws(np.where(y < 0, y, 3 * y), 1, shares=shares)  # the order of classes
    assert all(map(np.array_equal, relabelled[0], five[0]))


def test_draws_of_classes_refuse_small_parts() -> None:
    y = np.arange(60) // 2
    class_draws(y, 1, least=10)
    for refused in (
        lambda: class_draws(y, 1, least=11),  # the smallest part has 5 classes of 2 items
        lambda: class_draws(y[:12], 1),
        lambda: class_draws(y, 1, shares=(0.5, 0.5, 0.0)),
        lambda: class_draws(y, 1, shares=(0.5, 0.2, 0.2)),
        lambda: class_draws(y, 0),
    ):
        with pytest.raises(InputError):
            refused()
