"""Folds: disjoint, covering, stratified, seeded; and what is said when labels cannot be split."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcl_hard.errors import InputError
from gcl_hard.evaluation import check_labels, inner_holdout, outer_folds

class_sizes = st.lists(st.integers(10, 40), min_size=2, max_size=6)


def shuffled_labels(sizes: list[int], seed: int) -> np.ndarray:
    labels = np.repeat(np.arange(len(sizes)) * 3 - 1, sizes)
    return np.random.default_rng(seed).permutation(labels)


@settings(max_examples=25, deadline=None)
@given(sizes=class_sizes, seed=st.integers(0, 1000), n_folds=st.integers(2, 10))
def test_outer_folds_cover_once_and_keep_class_shares(sizes, seed, n_folds):
    labels = shuffled_labels(sizes, seed)
    folds = outer_folds(labels, seed=seed, n_folds=n_folds)
    assert len(folds) == n_folds
    assert sorted(np.concatenate([fold.test for fold in folds])) == list(range(len(labels)))
    for fold in folds:
        assert sorted([*fold.train, *fold.test]) == list(range(len(labels)))
        for label, size in zip(np.unique(labels), sizes, strict=True):
            assert abs(np.sum(labels[fold.test] == label) - size / n_folds) < 1


def test_same_seed_same_folds_other_seed_other_folds():
    labels = shuffled_labels([30, 50], 0)
    first, again, other = (
        [fold.test.tolist() for fold in outer_folds(labels, seed=seed)] for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


@settings(max_examples=25, deadline=None)
@given(sizes=class_sizes, seed=st.integers(0, 1000), fraction=st.sampled_from([0.2, 0.34, 0.5]))
def test_inner_holdout_splits_the_training_fold_alone(sizes, seed, fraction):
    labels = shuffled_labels(sizes, seed)
    train = outer_folds(labels, seed=seed)[0].train
    fold = inner_holdout(train, labels, seed=seed, fraction=fraction)
    assert sorted([*fold.train, *fold.test]) == sorted(train)
    assert len(fold.test) == np.ceil(fraction * len(train))
    for label in np.unique(labels):
        share = fraction * np.sum(labels[train] == label)
        assert abs(np.sum(labels[fold.test] == label) - share) < 2
    again = inner_holdout(train, labels, seed=seed, fraction=fraction)
    np.testing.assert_array_equal(fold.test, again.test)


def test_labels_of_wrong_length_are_refused_and_fewer_folds_accept_a_small_class():
    with pytest.raises(InputError, match=r"labels.*\b21\b.*\b20\b"):
        check_labels(np.repeat([0, 1], 10), 21)
    assert check_labels(np.repeat([0, 1], [20, 4]).astype(np.uint8), n_folds=4).dtype == np.int64


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.2, 1e-3, 0.999])
def test_holdout_fraction_that_leaves_a_side_empty_is_refused(fraction):
    with pytest.raises(InputError, match=f"fraction.*{fraction}"):
        inner_holdout(np.arange(20), np.repeat([0, 1], 10), seed=0, fraction=fraction)
