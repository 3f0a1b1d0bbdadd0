"""Experiments on graphs: how runs are trained, embedded and scored."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from gcl_hard.errors import DivergenceError, InputError
from gcl_hard.evaluation import Fold, inner_holdout, outer_folds, svm_cross_validation, svm_fold
from gcl_hard.experiments.run import Run
from gcl_hard.graphs import GraphClassifier, GraphSet, protocols
from gcl_hard.graphs.experiment import GraphExperiment
from gcl_hard.graphs.protocols import build, score_embeddings, setting_of
from gcl_hard.graphs.refinement import wl_kernel
from gcl_hard.graphs.settings import GRAPH_BASELINES, GraphConfig
from tests.experiments import small
from tests.experiments.made import (
    context,
    encoders,
    fixed_folds,
    mutag,
    same_bits,
    score,
    scored,
    train,
)
from tests.said import says

__all__ = ["mutag"]

CONTRASTS = ("local-global", "two-view")
PROBES: tuple[dict[str, Any], ...] = (
    {}, {"kernel": "linear", "c_grid": (0.1, 1.0)}, {"standardise": False}, {"c_grid": (0.1, 10.0)},
)  # fmt: skip


# Scores


def test_a_score_is_the_svms_on_the_embeddings_of_the_trained_encoder(
    mutag: GraphSet, tmp_path: Path
) -> None:
    run = Run(small(epochs=1), 2)
    (encoder,) = encoders(run, mutag, tmp_path)
    model = build(small(epochs=1), mutag.n_features, 2)
    model.load_state_dict({**model.state_dict(), **encoder.weights})
    z = model.embed(mutag.all()).double().numpy()
    expected = svm_cross_validation(z, mutag.y.numpy(), seed=2, n_folds=3)
    assert scored(run, mutag, tmp_path) == expected.folds


def test_an_inductive_score_is_of_each_folds_own_encoder(mutag: GraphSet, tmp_path: Path) -> None:
    run = Run(small(protocol="inductive"), 2)
    folds, y = scored(run, mutag, tmp_path), mutag.y.numpy()
    several = encoders(run, mutag, tmp_path, embed=True)
    assert not any(same_bits(a.weights, b.weights) for a, b in itertools.combinations(several, 2))
    for fold_score, encoder, fold in zip(
        folds, several, outer_folds(y, seed=2, n_folds=3), strict=True
    ):
        assert encoder.z is not None
        assert fold_score == svm_fold(encoder.z, y, fold, seed=2)


def test_an_inner_score_is_of_a_fifth_of_the_training_fold(mutag: GraphSet, tmp_path: Path) -> None:
    run = Run(small("hscl", protocol="inductive"), 4, inner=True)
    folds, y = scored(run, mutag, tmp_path), mutag.y.numpy()
    several = encoders(run, mutag, tmp_path, embed=True)
    for fold_score, encoder, fold in zip(
        folds, several, outer_folds(y, seed=4, n_folds=3), strict=True
    ):
        kept, held = train_test_split(
            fold.train, test_size=0.2, stratify=y[fold.train], random_state=4
        )
        assert encoder.z is not None
        assert fold_score == svm_fold(encoder.z, y, Fold(np.sort(kept), np.sort(held)), seed=4)


@pytest.mark.parametrize("probe", PROBES)
def test_the_svm_is_that_of_the_configuration(probe: dict[str, Any], mutag: GraphSet) -> None:
    config = small("ucl", "two-view", **probe)
    y = mutag.y.numpy()
    z = np.random.default_rng(0).normal(size=(188, 5)) * [1, 5, 25, 1, 1] + y[:, None]
    settings: dict[str, Any] = {
        "standardise": config.standardise,
        "kernel": config.kernel,
        "seed": 7,
    }
    if config.c_grid is not None:
        settings["C_grid"] = config.c_grid
    expected = score_embeddings(config, mutag, [z], None, seed=7)
    assert expected == svm_cross_validation(z, y, n_folds=3, **settings).folds
    folds = outer_folds(y, seed=7, n_folds=3)
    assert score_embeddings(config, mutag, [z], folds, seed=7, n_jobs=2) == expected
    several = score_embeddings(config, mutag, [z, 2 * z, z**2], folds, seed=7)
    parts = zip((z, 2 * z, z**2), folds, strict=True)
    assert several == tuple(svm_fold(part, y, fold, **settings) for part, fold in parts)


def test_a_wl_kernel_is_added_to_that_of_the_embeddings(mutag: GraphSet, tmp_path: Path) -> None:
    config = small("ucl", "two-view", kernel="rbf+wl-oa", c_grid=(0.5, 50.0), protocol="inductive")
    run, y = Run(config, 2), mutag.y.numpy()
    scores = scored(run, mutag, tmp_path)
    added = wl_kernel(mutag, optimal_assignment=True)
    several = encoders(run, mutag, tmp_path, embed=True)
    for fold_score, encoder, fold in zip(
        scores, several, outer_folds(y, seed=2, n_folds=3), strict=True
    ):
        z = encoder.z
        assert z is not None
        assert fold_score == svm_fold(z, y, fold, C_grid=(0.5, 50.0), seed=2, added=added)
        # By hand: the sum of two kernels, with the C that was chosen.
        z = (z - z[fold.train].mean(0)) / np.maximum(z[fold.train].std(0), 1e-12)
        squared = ((z[:, None] - z[None]) ** 2).sum(2)
        K = np.exp(-squared / (z.shape[1] * z[fold.train].var())) + added
        svm = SVC(kernel="precomputed", C=fold_score.chosen)
        svm.fit(K[np.ix_(fold.train, fold.train)], y[fold.train])
        right = svm.predict(K[np.ix_(fold.test, fold.train)]) == y[fold.test]
        assert fold_score.accuracy == pytest.approx(right.mean())


def test_supervised_accuracy_is_the_share_of_right_predictions_on_the_test_fold(
    mutag: GraphSet, tmp_path: Path
) -> None:
    config = small("supervised")
    scores = scored(Run(config, 2), mutag, tmp_path)
    several = encoders(Run(config, 2), mutag, tmp_path)
    folds = outer_folds(mutag.y.numpy(), seed=2, n_folds=3)
    for fold_score, encoder, fold in zip(scores, several, folds, strict=True):
        model = build(config, mutag.n_features, 2, n_classes=2)
        model.load_state_dict({**model.state_dict(), **encoder.weights})
        assert isinstance(model, GraphClassifier)
        model.eval()
        with torch.no_grad():
            z = model.encoder(mutag.x, mutag.edge_index, mutag.all().batch)[1]
            logits = model.classifier(z)
        expected = [int(logits[g].argmax()) for g in fold.test]
        np.testing.assert_array_equal(fold_score.predicted, expected)
        np.testing.assert_array_equal(fold_score.test, fold.test)
        assert fold_score.accuracy == np.mean(expected == mutag.y.numpy()[fold.test])
        assert (fold_score.n_train, fold_score.n_test) == (len(fold.train), len(fold.test))


@pytest.mark.parametrize(
    ("settings", "inner"),
    [
        *(({"method": method}, inner) for method in GRAPH_BASELINES for inner in (False, True)),
        *(({"protocol": "inductive"}, inner) for inner in (False, True)),
        *((probe, False) for probe in (*PROBES, {"probe": "logistic"}, {"probe": "nystroem"})),
    ],
)
def test_accuracies_are_those_of_the_predictions_of_the_test_graphs(
    settings: dict[str, Any], inner: bool, mutag: GraphSet, tmp_path: Path
) -> None:
    scores, y = scored(Run(small(**settings), 1, inner=inner), mutag, tmp_path), mutag.y.numpy()
    for fold_score, fold in zip(scores, outer_folds(y, seed=1, n_folds=3), strict=True):
        test = inner_holdout(fold.train, y, seed=1).test if inner else fold.test
        np.testing.assert_array_equal(fold_score.test, test)
        assert fold_score.accuracy == np.mean(fold_score.predicted == y[test])


@pytest.mark.parametrize("method", GRAPH_BASELINES)
def test_baselines_do_not_see_labels_of_their_test_fold(
    method: str, mutag: GraphSet, tmp_path: Path
) -> None:
    """Flipping the labels of a test fold turns its accuracy a into 1 - a, and changes no choice."""
    folds = outer_folds(mutag.y.numpy(), seed=1, n_folds=3)
    flipped = mutag.y.clone()
    flipped[folds[0].test] = 1 - flipped[folds[0].test]
    with fixed_folds(folds):
        run = Run(small(method, train_share=0.999), 1)  # scored on the folds given
        clean, other = (
            scored(run, graphs, tmp_path)[0] for graphs in (mutag, replace(mutag, y=flipped))
        )
    assert other.accuracy == pytest.approx(1 - clean.accuracy)
    assert other.chosen == clean.chosen


@pytest.mark.parametrize("method", ["wl-oa", "majority", "untrained", "graph-size", "supervised"])
def test_an_inner_run_of_a_baseline_sees_no_test_fold(
    method: str, mutag: GraphSet, tmp_path: Path
) -> None:
    """Other labels on a test fold move neither what is chosen nor what is scored."""
    folds = outer_folds(mutag.y.numpy(), seed=0, n_folds=3)
    flipped = mutag.y.clone()
    flipped[folds[0].test] = 1 - flipped[folds[0].test]
    run = Run(small(method), 0, inner=True)
    with fixed_folds(folds):
        clean, other = (
            scored(run, graphs, tmp_path)[0] for graphs in (mutag, replace(mutag, y=flipped))
        )
    assert clean == other
    assert clean.n_test == pytest.approx(0.2 * len(folds[0].train), abs=1)


# Training


@pytest.mark.parametrize("protocol", ["transductive", "inductive"])
def test_a_run_repeats_to_the_bit(protocol: str, mutag: GraphSet, tmp_path: Path) -> None:
    config = small(protocol=protocol, epochs=1)
    torch.manual_seed(1)
    (trained,) = train([Run(config, 1)], mutag, tmp_path)
    torch.manual_seed(2)
    (two, other) = train([Run(config, 1)], mutag, tmp_path) + train(
        [Run(config, 2)], mutag, tmp_path
    )
    assert trained.losses == two.losses != other.losses
    assert score(trained, mutag, tmp_path) == score(two, mutag, tmp_path)


@pytest.mark.parametrize(("protocol", "n"), [("transductive", 1), ("inductive", 3)])
def test_progress_rises_to_one_with_the_loss_of_every_epoch(
    protocol: str, n: int, mutag: GraphSet, tmp_path: Path
) -> None:
    shares: list[float] = []
    losses: list[float] = []

    def report(run: Run, share: float, loss: float) -> bool:
        shares.append(share)
        losses.append(loss)
        return run.seed == 5

    (trained,) = train([Run(small(protocol=protocol), 5)], mutag, tmp_path, report=report)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert set(shares) >= {k / n for k in range(1, n + 1)}
    assert len(trained.losses) == n
    assert losses[-1] == pytest.approx(trained.losses[-1])
    assert all(np.isfinite(losses))
    assert trained.seconds_train > 0
    assert trained.seconds_eval > 0


def test_training_that_is_asked_to_stop_ends_at_once(mutag: GraphSet, tmp_path: Path) -> None:
    reports: list[float] = []

    def report(run: Run, share: float, loss: float) -> bool:
        reports.append(share)
        return False

    with pytest.raises(KeyboardInterrupt):
        train([Run(small(epochs=9), 0)], mutag, tmp_path, report=report)
    assert reports == [1 / 9]


def test_runs_that_differ_in_scoring_alone_are_trained_once(
    mutag: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[int] = []
    real = protocols.build

    def build(config: GraphConfig, n_features: int, seed: int, *rest: Any, **more: Any) -> Any:
        built.append(seed)
        return real(config, n_features, seed, *rest, **more)

    monkeypatch.setattr(protocols, "build", build)
    runs = [Run(small("ucl", "two-view", **probe), 3) for probe in PROBES]
    trained = train(runs, mutag, tmp_path)
    assert set(built) == {3}
    once = len(built)
    assert [run.run for run in trained] == runs
    first, *others = trained
    for other in others:
        np.testing.assert_array_equal(other.embeddings[0], first.embeddings[0])
        assert other.losses == first.losses
    built.clear()
    train(runs[:1], mutag, tmp_path)
    assert len(built) == once


def test_each_run_of_a_group_has_what_it_has_alone_up_to_rounding(
    mutag: GraphSet, tmp_path: Path
) -> None:
    runs = [Run(small(method), seed) for method in ("ucl", "hscl") for seed in (0, 1)]
    together = train(runs, mutag, tmp_path)
    alone = [train([run], mutag, tmp_path)[0] for run in runs]
    for trained_run, other in zip(together, alone, strict=True):
        assert trained_run.run == other.run
        assert trained_run.losses == pytest.approx(other.losses, rel=1e-3)
    z = [run.embeddings[0] for run in alone]
    for k, trained_run in enumerate(together):
        off = [float(np.abs(trained_run.embeddings[0] - other).max()) for other in z]
        assert off[k] < 0.1 * min(o for j, o in enumerate(off) if j != k)


# What goes wrong


def test_a_loss_that_is_not_finite_names_epoch_batch_and_setting(
    mutag: GraphSet, tmp_path: Path
) -> None:
    config = small(lr=1e30, epochs=3)
    (trained,) = train([Run(config, 0)], mutag, tmp_path)
    assert isinstance(trained.error, DivergenceError)
    setting = "MUTAG hscl β=1 lr=1e+30"
    assert says(str(trained.error), "epoch 1", "batch 2", 3, setting)
    (trained,) = train([Run(replace(config, protocol="inductive"), 6)], mutag, tmp_path)
    assert f"({setting_of(replace(config, protocol='inductive'), 6, 0)})" in str(trained.error)


def test_embeddings_that_are_not_finite_are_no_result(mutag: GraphSet, tmp_path: Path) -> None:
    one_step = small(lr=1e30, epochs=1, batch_size=188)  # its only loss is that of the start
    (trained,) = train([Run(one_step, 0)], mutag, tmp_path)
    setting = "MUTAG hscl β=1 lr=1e+30"
    assert says(str(trained.error), "embeddings", "finite", setting)


def test_a_fold_that_diverges_fails_its_run_and_no_other_of_its_group(
    mutag: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = protocols.build

    def build(config: GraphConfig, n_features: int, seed: int, member: int = 0, **more: Any) -> Any:
        model = real(config, n_features, seed, member, **more)
        if (seed, member, config.method) == (1, 2, "hscl"):
            torch.nn.init.constant_(model.encoder.norms[0].bias, torch.nan)
        return model

    monkeypatch.setattr(protocols, "build", build)
    methods = ("hscl", "ucl")
    runs = [Run(small(m, protocol="inductive"), seed) for seed in (0, 1) for m in methods]
    trained = train(runs[:2], mutag, tmp_path) + train(runs[2:], mutag, tmp_path)
    assert [run.error is None for run in trained] == [True, True, False, True]
    assert "seed 1, fold 2)" in str(trained[2].error)


@pytest.mark.parametrize(
    ("settings", "inner", "message"),
    [
        ({"folds": 64}, False, r"class 0\D+63\D+64"),
        ({"protocol": "inductive", "folds": 64}, True, r"class 0\D+63\D+64"),
        ({}, True, r"\binner\b.*\bfold\b.*MUTAG hscl"),
    ],
)
def test_what_cannot_be_trained_or_scored_is_refused_before_training(
    settings: dict[str, Any], inner: bool, message: str, mutag: GraphSet
) -> None:
    with pytest.raises(InputError, match=message):
        GraphExperiment().check(small(**settings), mutag, context(Path()), inner=inner)
