"""The protocols of unseen and of unknown classes: what they score, and what no encoder sees."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import t
from sklearn.metrics import f1_score, roc_auc_score

from gcl_hard import InputError, bench, evaluate
from gcl_hard.reports.rows import rows
from gcl_hard.vectors import VectorSet
from gcl_hard.vectors.experiment import VectorExperiment
from gcl_hard.vectors.items import splits_of
from gcl_hard.vectors.settings import VectorConfig
from tests.said import says
from tests.vectors.sets import blobs, context, npz, ran, with_split

TRAINED = ("ucl", "hscl", "supervised", "untrained")
ROWS = ("raw", "whitened", "whitened-within", "lda", *TRAINED)
UNSEEN: dict[str, Any] = {"protocol": "unseen", "epochs": 1, "splits": 2, "hidden": 8}
OOD: dict[str, Any] = {**UNSEEN, "protocol": "ood"}


def rankings(z: NDArray[Any], y: NDArray[Any]) -> tuple[float, float]:
    """R@1 and MAP@R in percent, by loops."""
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    first, precisions = [], []
    for i in range(len(z)):
        others = [j for j in range(len(z)) if j != i]
        order = sorted(others, key=lambda j, i=i: -float(unit[i] @ unit[j]))  # type: ignore[misc]
        same = [y[j] == y[i] for j in order]
        r = sum(same)
        if r:
            first.append(same[0])
            precisions.append(sum(sum(same[: k + 1]) / (k + 1) for k in range(r) if same[k]) / r)
    return 100 * float(np.mean(first)), 100 * float(np.mean(precisions))


def test_raw_vectors_of_unseen_classes_are_ranked_as_loops_do(tmp_path: Path) -> None:
    vectors = blobs(20)
    config = VectorConfig("blobs", "raw", **UNSEEN)
    _, scored = ran(config, vectors, tmp_path)
    for k, split in enumerate(splits_of(config, vectors)):
        recall, precision = rankings(vectors.x[split.test], vectors.y[split.test])
        assert scored.folds[k].score("recall_1") == pytest.approx(recall)
        assert scored.folds[k].score("map_at_r") == pytest.approx(precision)
        valid = rankings(vectors.x[split.valid], vectors.y[split.valid])
        assert scored.validation[k] == pytest.approx(valid[1])


@pytest.mark.parametrize("method", ROWS)
def test_items_of_test_classes_change_no_bit_of_what_is_trained_or_chosen(
    method: str, tmp_path: Path
) -> None:
    """And those of validation classes none of the encoder."""
    config = VectorConfig("blobs", method, scale="standardised", patience=0, **UNSEEN)
    clean = blobs(20)
    (split, _) = splits_of(config, clean)
    runs = []
    for part in ((), split.test, split.valid):
        x = clean.x.copy()
        x[np.asarray(part, int)] *= -3
        runs.append(ran(replace(config, splits=1), replace(clean, x=x), tmp_path))
    (_, scored), (_, other_test), _ = runs
    assert scored.validation == other_test.validation
    assert scored.chosen == other_test.chosen
    assert len({trained.losses for trained, _ in runs}) == 1
    if method in TRAINED:
        kept = np.concatenate([split.train])
        z = [(run.embeddings or run.scores)[0][kept] for run, _ in runs]
        assert np.array_equal(z[0], z[1])
        assert np.array_equal(z[0], z[2])


@pytest.mark.parametrize("method", ROWS)
def test_unknown_items_in_training_and_validation_change_no_bit(
    method: str, tmp_path: Path
) -> None:
    config = VectorConfig("blobs", method, scale="standardised", noise=0.1, **OOD)
    clean = blobs(8, 40)
    draws = splits_of(config, clean)
    used = np.unique(np.concatenate([part for split in draws for part in split]))
    left_out = np.setdiff1d(np.arange(len(clean)), used)
    assert len(left_out) > 10
    x = clean.x.copy()
    x[left_out] = np.nan
    (trained, scored), (poisoned, other) = (
        ran(config, vectors, tmp_path) for vectors in (clean, replace(clean, x=x))
    )
    for fold, other_fold in zip(scored.folds, other.folds, strict=True):
        assert np.array_equal(fold.predicted, other_fold.predicted)
    assert (scored.validation, scored.chosen) == (other.validation, other.chosen)
    assert trained.losses == poisoned.losses
    for split in draws:
        known = np.unique(clean.y[split.train])
        assert len(known) == 4
        assert np.isin(clean.y[split.valid], known).all()
        assert len(np.unique(clean.y[split.test])) == 8


def test_scores_of_unknown_classes_are_those_of_scikit_learn(tmp_path: Path) -> None:
    vectors = blobs(8, 40)
    config = VectorConfig("blobs", "raw", **OOD)
    _, scored = ran(config, vectors, tmp_path)
    for k, split in enumerate(splits_of(config, vectors)):
        train, test = (
            vectors.x[ids] / np.linalg.norm(vectors.x[ids], axis=1, keepdims=True)
            for ids in (split.train, split.test)
        )
        is_open = ~np.isin(vectors.y[split.test], vectors.y[split.train])
        distance = np.sort(1 - test @ train.T, axis=1)[:, 19]
        expected = 100 * roc_auc_score(is_open, distance)
        assert scored.folds[k].score("auroc_knn") == pytest.approx(expected, abs=1e-3)
        fold = scored.folds[k]
        predicted = np.where(fold.predicted[:, 1] > 0, -1, fold.predicted[:, 0])
        truth = np.where(is_open, -1, vectors.y[split.test])
        expected = 100 * f1_score(truth, predicted, average="macro", zero_division=0)
        assert fold.score("open_f1_macro_knn") == pytest.approx(expected)


def test_larger_shares_know_the_same_classes_and_more() -> None:
    vectors = with_split(blobs(8, 40))
    known = []
    for share in (0.25, 0.5, 0.75):
        config = VectorConfig("blobs", "raw", known=share, split="given", **OOD)
        known.append([{*vectors.y[split.train].tolist()} for split in splits_of(config, vectors)])
    for few, more, most in zip(*known, strict=True):
        assert few < more < most
    assert known[0][0] != known[0][1]  # draws of classes, though the split is given


def test_given_classes_are_disjoint_and_some_of_training_are_for_validation() -> None:
    vectors = blobs(20)
    config = VectorConfig("blobs", "raw", protocol="unseen", split="given")
    assert config.splits == 1
    split = np.where(vectors.y < 12, 0, 2).astype(np.int8)
    (drawn,) = splits_of(config, replace(vectors, split=split))
    parts = [{*vectors.y[ids].tolist()} for ids in drawn]
    assert parts[0] | parts[1] == {*range(12)}
    assert parts[2] == {*range(12, 20)}
    assert not parts[0] & parts[1]
    split[np.flatnonzero(vectors.y == 3)[0]] = 2
    with pytest.raises(InputError) as caught:
        splits_of(config, replace(vectors, split=split))
    assert says(str(caught.value), "3")


def few(classes: int = 20, each: int = 10) -> VectorSet:
    return blobs(classes, each)


@pytest.mark.parametrize(
    ("vectors", "settings"),
    [
        (few(3), UNSEEN),  # a part has one class
        (few(20, 1), UNSEEN),  # R@8 needs nine items
        (few(2, 40), OOD),
        (few(4, 15), OOD),  # detectors take twenty neighbours
        (few(40, 1), {**UNSEEN, "splits": 1}),  # no class has two items
    ],
)
def test_too_few_classes_or_items_are_refused_in_a_sentence(
    vectors: VectorSet, settings: dict[str, Any], tmp_path: Path
) -> None:
    config = VectorConfig("blobs", "raw", **settings)
    with pytest.raises(InputError) as caught:
        VectorExperiment().check(config, vectors, context(tmp_path), inner=False)
    assert "\n" not in str(caught.value)


def test_items_alone_in_their_class_are_counted(tmp_path: Path) -> None:
    vectors = blobs(20)
    y = vectors.y.copy()
    config = VectorConfig("blobs", "raw", **UNSEEN)
    alone = [np.flatnonzero(y == k) for k in range(20)]
    y[np.concatenate([ids[1:] for ids in alone[::2]])] = -1
    _, scored = ran(config, replace(vectors, y=y), tmp_path)
    n = 0
    for split in splits_of(config, replace(vectors, y=y)):
        n += int((np.unique(y[split.test], return_counts=True)[1] == 1).sum())
    assert n > 0
    assert says(scored.facts["remarks"][0], n, "alone")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GCL_HARD_DATA", "")
    npz(blobs(16, 30), tmp_path / "mine.npz")
    return tmp_path


def run_bench(*arguments: str) -> list[dict[str, Any]]:
    usual = ["--dataset=mine.npz", "--output=out", "--json=table.json", "--epochs=1", "--hidden=8"]
    assert bench.main([*usual, "--splits=3", *arguments]) == 0
    table: dict[str, Any] = json.loads(Path("table.json").read_text())
    return table["configs"]


def test_the_interval_over_draws_of_classes_is_corrected_for_shared_ones(tmp_path: Path) -> None:
    evaluation = evaluate(
        "mlp", blobs(16, 30), "hscl", protocol="unseen", splits=3, seeds=2, epochs=1, hidden=8,
        output=tmp_path, progress=False,
    )  # fmt: skip
    by_method = {row.config.method: row.scores for row in rows(evaluation.results)}
    assert {*by_method} == {"hscl", "raw", "untrained", "supervised"}  # and no most frequent class
    scores = by_method["hscl"]
    assert scores is not None
    assert np.shape(scores.folds) == (2, 3)
    values, share = np.mean(scores.folds, axis=0), 6 / 8  # classes to test on, and to train on
    half = t.ppf(0.975, 2) * np.sqrt((1 / 3 + share) * values.var(ddof=1))
    assert scores.interval is not None
    assert scores.interval.high - scores.interval.mean == pytest.approx(half)
    record = next(iter(evaluation.results.records.values()))
    assert (record.data["train_classes"], record.data["test_classes"]) == (8, 6)
    assert {"map_at_r", "recall_1", "recall_8"} <= {*record.scores}


def test_several_shares_of_known_classes_are_rows_scored_by_any_detector(folder: Path) -> None:
    configs = run_bench(
        "--protocol=ood", "--known=0.25,0.5", "--method=raw,scl", "--seeds=1",
        "--metric=auroc_energy,open_f1_lof", "--report=page.md",
    )  # fmt: skip
    assert {(c["method"], c["config"]["known"]) for c in configs} == {
        (method, share) for method in ("raw", "scl") for share in (0.25, 0.5)
    }
    frame = pd.read_csv("page.csv")
    assert "best" not in {*frame["kind"]}  # of two tasks
    scl, raw = (
        frame[frame["method"] == method].set_index(["metric", "choice"])
        for method in ("scl", "raw")
    )
    assert raw["vs_scl"].to_numpy() == pytest.approx(raw["mean"] - scl["mean"], abs=1e-3)


def test_labels_are_not_needed_to_train(folder: Path) -> None:
    for protocol in ("unseen", "ood"):
        assert run_bench(f"--protocol={protocol}", "--method=ucl,hucl", "--seeds=1")
