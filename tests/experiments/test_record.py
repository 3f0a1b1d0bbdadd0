"""Records of predictions that are numbers: their scores are those of what is stored."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, root_mean_squared_error

from gcl_hard.evaluation.metrics import metric
from gcl_hard.experiments import record
from gcl_hard.experiments.record import RunResult, Scored
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import as_json
from gcl_hard.experiments.store import COMPACT, Store
from gcl_hard.molecules.settings import MoleculeConfig

RUN = Run(MoleculeConfig(method="ecfp"), 0)
IDS = np.arange(3, 43)


def result_of(scored: Scored, *metrics: str, seed: int = 0) -> RunResult:
    test, predicted = scored.packed()
    return RunResult(
        as_json(RUN.config), seed, scored.scores(metrics), 1.0, 1.0, {"split": "scaffold"}, "cpu",
        {}, "2026-01-01", domain="molecules", metric=metrics[0], test=test, predicted=predicted,
        validation=list(scored.validation),
    )  # fmt: skip


def read_again(result: RunResult) -> RunResult:
    return RunResult.read(json.loads(json.dumps(result.stored(), allow_nan=False)), checked=True)


def test_several_tasks_with_unknown_targets_keep_predictions_of_known_ones() -> None:
    rng = np.random.default_rng(0)
    targets = rng.integers(0, 2, (40, 3)).astype(float)
    targets[rng.random((40, 3)) < 0.3] = np.nan
    targets[:, 2] = np.where(np.isfinite(targets[:, 2]), 1.0, np.nan)  # one class
    predicted = rng.normal(size=(40, 3))
    result = read_again(result_of(Scored((record.Tested(IDS, targets, predicted),)), "auc"))
    (fold,) = result.tested()
    known = np.isfinite(targets)
    assert fold.items.tolist() == IDS.tolist()
    np.testing.assert_array_equal(fold.targets, targets)
    np.testing.assert_allclose(fold.predicted[known], predicted[known], rtol=1e-6)
    assert np.isnan(fold.predicted[~known]).all()
    aucs = [
        roc_auc_score(targets[known[:, k], k], fold.predicted[known[:, k], k]) for k in range(2)
    ]
    assert result.scores["auc"] == [pytest.approx(100 * np.mean(aucs), rel=1e-12)]


def test_errors_are_over_all_and_over_those_of_a_mask_and_come_from_what_is_stored() -> None:
    rng = np.random.default_rng(1)
    targets, predicted, cliffs = rng.normal(size=40), rng.normal(size=40), rng.random(40) < 0.5
    fold = record.Tested(IDS, targets, predicted, {"cliffs": cliffs})
    result = read_again(result_of(Scored((fold,), validation=(0.25,)), "rmse", "cliff_rmse"))
    (again,) = result.tested()
    assert again.masks["cliffs"].tolist() == cliffs.tolist()
    for name, rows in (("rmse", slice(None)), ("cliff_rmse", cliffs)):
        expected = root_mean_squared_error(again.targets[rows], again.predicted[rows])
        assert result.scores[name] == [pytest.approx(expected, rel=1e-12)]
        assert not metric(name).higher
    assert result.validation == [0.25]
    assert (predicted.astype(np.float32) == again.predicted).all()


@pytest.mark.parametrize("offset", [1e6, -2_012_742.0, 1e9])
def test_a_constant_added_to_all_numbers_changes_no_error(offset: float) -> None:
    rng = np.random.default_rng(2)
    targets, predicted = rng.normal(size=40), rng.normal(size=40)
    plain, moved = (
        Scored((record.Tested(IDS, targets + by, predicted + by),)).scores(["rmse"])["rmse"][0]
        for by in (0.0, offset)
    )
    assert moved == pytest.approx(plain, rel=1e-6)


def test_folds_with_masks_are_taken_apart_again() -> None:
    folds = tuple(
        record.Tested(IDS[k::2], IDS[k::2] / 7, IDS[k::2] / 8, {"cliffs": IDS[k::2] % 3 == 0})
        for k in (0, 1)
    )
    tested = result_of(Scored(folds), "rmse", "cliff_rmse").tested()
    assert [fold.items.tolist() for fold in tested] == [fold.items.tolist() for fold in folds]
    for fold, other in zip(tested, folds, strict=True):
        assert fold.masks["cliffs"].tolist() == other.masks["cliffs"].tolist()


def test_a_score_that_is_not_defined_is_stored_as_none_and_trusted(tmp_path: Path) -> None:
    fold = record.Tested(IDS, np.zeros(40, int), np.linspace(0, 1, 40))  # one class
    result = result_of(Scored((fold,), validation=(math.nan,)), "auc")
    assert math.isnan(result.scores["auc"][0])
    store = Store(tmp_path)
    store.put(RUN, result)
    content = json.loads(store.path(RUN).read_text(encoding="utf-8"))
    assert (content["scores"], content["validation"]) == ({"auc": [None]}, [None])
    stored = store.get(RUN)
    assert stored is not None
    assert math.isnan(stored.scores["auc"][0])
    assert store.problem(RUN) is None


def test_the_compact_form_states_targets_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    targets, store = rng.normal(size=2000), Store(tmp_path)
    sizes = []
    for n, seeds in ((1, [0]), (3, [1, 2])):
        for seed in seeds:
            fold = record.Tested(np.arange(2000), targets, rng.normal(size=2000),
                                 {"cliffs": targets > 0})  # fmt: skip
            scored = Scored((fold,))
            store.put(RUN._replace(seed=seed), result_of(scored, "rmse", "cliff_rmse", seed=seed))
        assert store.compact() == n
        sizes.append((tmp_path / COMPACT).stat().st_size)
    text = gzip.decompress((tmp_path / COMPACT).read_bytes()).decode()
    assert text.count(scored.packed()[0]["targets"]) == 1
    assert sizes[1] - sizes[0] < 2 * 4 * 2000 * 1.1
    assert all(record.values for record in Store(tmp_path).rows())


def split_folds(
    n: int, n_folds: int, share: float, targets: np.ndarray, predict: Callable[[np.ndarray], Any]
) -> tuple[record.Tested, ...]:
    """Random splits, whose test parts overlap."""
    rng = np.random.default_rng(4)
    tests = [np.sort(rng.permutation(n)[: round(share * n)]) for _ in range(n_folds)]
    return tuple(record.Tested(test, targets[test], predict(test)) for test in tests)


def same(tested: Iterable[record.Tested], folds: Iterable[record.Tested]) -> bool:
    pairs = zip(tested, folds, strict=True)
    return all(
        np.array_equal(array, other, equal_nan=True)
        for pair in pairs
        for array, other in zip(pair[0][:3], pair[1][:3], strict=True)
    )


RNG = np.random.default_rng(5)
CLASSES = RNG.integers(0, 15, 200)
REAL = np.where(RNG.random((200, 2)) < 0.2, np.nan, np.round(RNG.normal(size=(200, 2)) * 64) / 64)


@pytest.mark.parametrize(
    ("targets", "predict"),
    [
        (CLASSES, lambda test: CLASSES[test]),
        (CLASSES, lambda test: (CLASSES[test] + (test % 5 == 0)) % 15),
        (CLASSES, lambda test: np.full(len(test), 300)),
        (CLASSES, lambda test: CLASSES[test] - 3),
        (CLASSES - 5, lambda test: CLASSES[test]),
        (CLASSES % 2, lambda test: test / 256),
        (REAL, lambda test: np.where(np.isnan(REAL[test]), np.nan, 0.5)),
        (CLASSES * 0, lambda test: test * 0),
    ],
)
@pytest.mark.parametrize("share", [0.8, 0.3, 0.02, 1.0])
def test_test_parts_that_overlap_are_read_as_they_were(
    share: float, targets: np.ndarray, predict: Callable[[np.ndarray], Any]
) -> None:
    folds = split_folds(200, 4, share, targets, predict)
    if targets is REAL:
        assert same(read_again(result_of(Scored(folds), "rmse")).tested(), folds)
        return
    result = result_of(Scored(folds), "accuracy")
    assert same(read_again(result).tested(), folds)
    assert result.scores["accuracy"] == [
        pytest.approx(100 * np.mean(fold.targets == fold.predicted)) for fold in folds
    ]


def test_items_in_any_order_and_with_other_targets_in_other_folds_are_kept() -> None:
    folds = split_folds(50, 3, 0.8, CLASSES, lambda test: CLASSES[test] // 2)
    turned = tuple(record.Tested(*(array[::-1] for array in fold[:3])) for fold in folds)
    moved = tuple(fold._replace(targets=(fold.targets + k) % 15) for k, fold in enumerate(folds))
    far = tuple(fold._replace(items=fold.items * 10**6) for fold in folds)
    for changed in (turned, moved, far):
        assert same(result_of(Scored(changed), "accuracy").tested(), changed)


def test_twenty_splits_of_many_nodes_take_little_room() -> None:
    n, rng = 18_333, np.random.default_rng(6)
    targets = rng.integers(0, 15, n)

    def predict(test: np.ndarray) -> np.ndarray:
        wrong = rng.random(len(test)) < 0.08
        return (targets[test] + wrong * rng.integers(1, 15, len(test))) % 15

    folds = split_folds(n, 20, 0.8, targets, predict)
    result = result_of(Scored(folds), "accuracy")
    assert same(result.tested(), folds)
    assert len(gzip.compress(json.dumps([result.test, result.predicted]).encode())) < 80 * 1024
