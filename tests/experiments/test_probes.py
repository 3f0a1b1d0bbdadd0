"""The SVM of a cell: its kernel, its penalties, and that a search scores by it too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gcl_hard.experiments.graph_seeds import run_seed
from sklearn.svm import SVC

from gcl_hard.evaluation import outer_folds, svm_cross_validation, svm_fold
from gcl_hard.evaluation.kernels import C_GRID
from gcl_hard.experiments.baselines import probe_of, wl_kernel
from gcl_hard.experiments.config import GraphConfig
from gcl_hard.experiments.ensembles import Encoder, Trained, train_encoders
from gcl_hard.graphs import GraphSet
from gcl_hard.tuning.graph_part import accuracy_of
from tests.experiments.small_cells import PROBES, mutag, two_view

__all__ = ["mutag"]


def test_a_probe_is_that_of_the_cell(mutag: GraphSet) -> None:
    assert probe_of(GraphConfig(), mutag) == {"kernel": "rbf", "C_grid": C_GRID, "added": None}
    linear = GraphConfig(kernel="linear", c_grid=(2.0,))
    assert probe_of(linear, mutag) == {"kernel": "linear", "C_grid": (2.0,), "added": None}


@pytest.mark.parametrize("name", ["wl", "wl-oa"])
def test_the_wl_kernel_of_a_probe_ignores_encodings(name: str, mutag: GraphSet) -> None:
    pytest.importorskip("grakel")
    graphs = mutag.take(torch.arange(30))
    cell = GraphConfig(kernel=f"rbf+{name}")  # type: ignore[arg-type]
    expected = wl_kernel(graphs, optimal_assignment=name == "wl-oa")
    for encodings in ([], ["random-walk", "cycles"]):
        probe = probe_of(cell, encoded(graphs, encodings))
        assert probe["kernel"] == "rbf"
        assert probe["added"] is not None
        np.testing.assert_array_equal(probe["added"], expected)
    unlike = replace(encoded(graphs, ["random-walk"]), n_encoded=0)  # as if they were features
    added = probe_of(cell, unlike)["added"]
    assert added is not None
    assert np.abs(added - expected).max() > 0.01


@pytest.mark.parametrize("probe", PROBES)
def test_a_search_scores_by_the_same_probe(probe: dict[str, Any], mutag: GraphSet) -> None:
    cell = two_view("ucl", **probe)
    y, fold = mutag.y.numpy(), outer_folds(mutag.y.numpy(), seed=0, n_folds=3)[0]
    z = np.random.default_rng(0).normal(size=(188, 5)) * [1, 5, 25, 1, 1] + y[:, None]
    how: dict[str, Any] = {"standardise": cell.standardise, "seed": 7, "kernel": cell.kernel}
    how["C_grid"] = cell.c_grid or C_GRID
    expected = 100 * svm_fold(z, y, fold, **how).accuracy
    assert accuracy_of(z, cell, mutag, seed=7, fold=fold) == expected
    expected = 100 * svm_cross_validation(z, y, n_folds=3, **how).accuracy
    assert accuracy_of(z, cell, mutag, seed=7, fold=None) == expected


def test_embeddings_meet_the_probe_of_their_cell(mutag: GraphSet) -> None:
    pytest.importorskip("grakel")
    cell = two_view("ucl", kernel="rbf+wl-oa", c_grid=(0.5, 50.0), protocol="inductive")
    found = run_seed(cell, mutag, 2)
    added = wl_kernel(mutag, optimal_assignment=True)
    y = mutag.y.numpy()
    for k, fold in enumerate(outer_folds(y, seed=2, n_folds=3)):
        (result,) = train_encoders([Encoder.of_fold(cell, mutag, 2, k, fold)], mutag)
        assert isinstance(result.trained, Trained)
        z = result.trained.model.embed(mutag.all()).double().numpy()
        expected = svm_fold(z, y, fold, C_grid=(0.5, 50.0), seed=2, added=added)
        assert found.folds[k] == expected
        # By hand: the sum of two kernels, with the C that was chosen.
        z = (z - z[fold.train].mean(0)) / np.maximum(z[fold.train].std(0), 1e-12)
        squared = ((z[:, None] - z[None]) ** 2).sum(2)
        K = np.exp(-squared / (z.shape[1] * z[fold.train].var())) + added
        svm = SVC(kernel="precomputed", C=expected.chosen)
        svm.fit(K[np.ix_(fold.train, fold.train)], y[fold.train])
        right = svm.predict(K[np.ix_(fold.test, fold.train)]) == y[fold.test]
        assert expected.accuracy == pytest.approx(right.mean())
