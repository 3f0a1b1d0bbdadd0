"""Baselines on graphs: their values by scikit-learn, by counting, and by other libraries."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.dummy import DummyClassifier
from torch_geometric.data import Data

from gcl_hard.evaluation import (
    Fold,
    inner_holdout,
    kernel_fold,
    outer_folds,
    svm_cross_validation,
    svm_fold,
)
from gcl_hard.experiments.run import Run
from gcl_hard.graphs import GraphSet, encoded, protocols
from gcl_hard.graphs.protocols import build, graph_size, part_of, probe_of
from gcl_hard.graphs.refinement import wl_kernel
from gcl_hard.graphs.settings import GraphConfig
from tests.experiments import small
from tests.experiments.made import mutag, scored, train
from tests.graphs.test_wl import tiny

__all__ = ["mutag"]


def test_majority_is_scikit_learns_dummy(mutag: GraphSet, tmp_path: Path) -> None:
    y = mutag.y.numpy()
    expected = []
    for fold in outer_folds(y, seed=1, n_folds=3):
        dummy = DummyClassifier(strategy="most_frequent").fit(fold.train, y[fold.train])
        expected.append(float(dummy.score(fold.test, y[fold.test])))
    folds = scored(Run(small("majority"), 1), mutag, tmp_path)
    assert [fold.accuracy for fold in folds] == pytest.approx(expected)
    assert train([Run(small("majority"), 1)], mutag, tmp_path)[0].losses == ()


@pytest.mark.parametrize("method", ["graph-size", "label-histogram"])
def test_descriptions_are_counted_and_go_through_the_svm(
    method: str, mutag: GraphSet, tmp_path: Path
) -> None:
    rows = []
    for (start, stop), (first, last) in zip(
        pairwise(mutag.node_ptr.tolist()), pairwise(mutag.edge_ptr.tolist()), strict=True
    ):
        labels = mutag.x[start:stop].argmax(1).tolist()
        size = [stop - start, (last - first) / 2]
        rows.append(size if method == "graph-size" else [labels.count(i) for i in range(7)])
    expected = svm_cross_validation(np.array(rows), mutag.y.numpy(), seed=1, n_folds=3)
    assert scored(Run(small(method), 1), mutag, tmp_path) == expected.folds


def test_untrained_is_the_svm_on_what_training_starts_from(mutag: GraphSet, tmp_path: Path) -> None:
    z = build(small("hscl"), mutag.n_features, 1).embed(mutag.all()).double().numpy()
    expected = svm_cross_validation(z, mutag.y.numpy(), seed=1, n_folds=3)
    assert scored(Run(small("untrained"), 1), mutag, tmp_path) == expected.folds


@pytest.mark.parametrize("method", ["wl", "wl-oa"])
def test_kernels_are_computed_once_for_all_seeds(
    method: str, mutag: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = scored(Run(small(method), 1), mutag, tmp_path)
    monkeypatch.setattr(protocols, "wl_kernel", None)
    assert scored(Run(small(method), 1), mutag, tmp_path) == first
    assert scored(Run(small(method), 2), mutag, tmp_path) != first


def rings(sizes: list[int]) -> GraphSet:
    """Rings of nodes without features, of which WL sees no two apart."""
    graphs = [Data(edge_index=ring(n), num_nodes=n, y=n % 2) for n in sizes]
    return GraphSet.from_graphs(graphs, name="rings")


def ring(n: int) -> torch.Tensor:
    pairs = [(i, (i + 1) % n) for i in range(n)]
    return torch.tensor([*pairs, *((b, a) for a, b in pairs)]).T


def apart(n: int) -> GraphSet:
    """Graphs of one node, of a label of its own each."""
    graphs = [
        Data(torch.eye(n)[[i]], torch.empty(2, 0).long(), num_nodes=1, y=i % 2) for i in range(n)
    ]
    return replace(GraphSet.from_graphs(graphs, name="apart"), features="labels")


@pytest.mark.parametrize(
    ("method", "graphs", "blind"),
    [
        ("wl", rings([3, 4, 5] * 10), True),
        ("wl-oa", rings([5] * 20 + [5] * 10), True),
        ("graph-size", rings([4] * 15 + [4] * 15), True),
        ("label-histogram", rings([3] * 30), True),
        ("wl", apart(30), True),
        ("wl-oa", apart(30), True),
        ("wl-oa", rings([3, 4, 5] * 10), False),
        ("graph-size", rings([3, 4, 5] * 10), False),
        ("label-histogram", rings([3, 4, 5] * 10), False),
    ],
)
def test_a_baseline_that_sees_no_difference_is_the_majority_and_chooses_no_c(
    method: str,
    graphs: GraphSet,
    blind: bool,
    tmp_path: Path,
) -> None:
    graphs = replace(graphs, y=(torch.arange(30) >= 17).long(), n_classes=2)
    scores = scored(Run(small(method), 1), graphs, tmp_path)
    dummy = DummyClassifier(strategy="most_frequent")
    y = graphs.y.numpy()
    assert all(fold.chosen is None for fold in scores) == blind
    if not blind:
        return
    for score, fold in zip(scores, outer_folds(y, seed=1, n_folds=3), strict=True):
        of_majority = dummy.fit(fold.train, y[fold.train]).predict(fold.test)
        np.testing.assert_array_equal(score.predicted, of_majority)
        assert score.accuracy == np.mean(of_majority == y[fold.test])


def expected_folds(share: float, graphs: GraphSet, *, inner: bool) -> list[Fold]:
    """In the words of the protocol."""
    y, folds = graphs.y.numpy(), []
    for fold in outer_folds(y, seed=5, n_folds=3):
        part = part_of(fold, y, seed=5, share=share)
        folds.append(inner_holdout(part.train, y, seed=5) if inner else part)
    return folds


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_baselines_are_scored_on_the_share_and_inside_hold_outs(
    share: float, *, inner: bool, mutag: GraphSet, tmp_path: Path
) -> None:
    y, grid = mutag.y.numpy(), (0.1, 10.0)
    folds = expected_folds(share, mutag, inner=inner)

    def scores_of(method: str) -> object:
        config = small(method, train_share=share, c_grid=grid)
        return scored(Run(config, 5, inner=inner), mutag, tmp_path)

    K = wl_kernel(mutag, optimal_assignment=False)
    assert scores_of("wl") == tuple(kernel_fold(K, y, fold, C_grid=grid, seed=5) for fold in folds)
    X = graph_size(mutag)
    assert scores_of("graph-size") == tuple(
        svm_fold(X, y, fold, C_grid=grid, seed=5) for fold in folds
    )
    z = build(small("untrained"), mutag.n_features, 5).embed(mutag.all()).double().numpy()
    assert scores_of("untrained") == tuple(
        svm_fold(z, y, fold, C_grid=grid, seed=5) for fold in folds
    )
    whole = expected_folds(1.0, mutag, inner=inner)  # of majority: it has no share
    scores = scored(Run(small("majority", train_share=share), 5, inner=inner), mutag, tmp_path)
    for score, fold in zip(scores, whole, strict=True):
        label = np.bincount(y[fold.train]).argmax()
        assert score.accuracy == pytest.approx((y[fold.test] == label).mean())


@pytest.mark.parametrize("name", ["wl", "wl-oa"])
def test_the_wl_kernel_of_a_probe_ignores_encodings(name: str, mutag: GraphSet) -> None:
    graphs = mutag.take(torch.arange(30))
    config = GraphConfig(kernel=f"rbf+{name}")  # type: ignore[arg-type]
    expected = wl_kernel(graphs, optimal_assignment=name == "wl-oa")
    for encodings in ([], ["random-walk", "cycles"]):
        probe = probe_of(config, encoded(graphs, encodings))
        assert probe["kernel"] == "rbf"
        assert probe["added"] is not None
        np.testing.assert_array_equal(probe["added"], expected)
    unlike = replace(encoded(graphs, ["random-walk"]), n_encoded=0)  # as if they were features
    added = probe_of(config, unlike)["added"]
    assert added is not None
    assert np.abs(added - expected).max() > 0.01


# Descriptions


def test_an_edge_of_one_direction_is_half_an_edge() -> None:
    assert graph_size(tiny())[1:4].tolist() == [[4, 1], [1, 0], [3, 0]]
