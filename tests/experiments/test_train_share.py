"""A share of the training graphs: what it holds, who sees it, and floors scored on it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gcl_hard.experiments.floors import graph_size, wl_kernel
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.graph_seeds import run_seed, train_seeds
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.seed_score import SeedScore
from torch import Tensor

from gcl_hard.evaluation import (
    Fold,
    inner_holdout,
    kernel_fold,
    outer_folds,
    svm_cross_validation,
    svm_fold,
)
from gcl_hard.experiments import graph_seeds
from gcl_hard.experiments.ensembles import Encoder
from gcl_hard.experiments.protocols import folds_of, part_of
from gcl_hard.graphs import GraphSet
from tests.experiments.small_cells import mutag, small, two_view, weights

__all__ = ["mutag"]

LABELS = np.array([0] * 50 + [1] * 24 + [2] * 7 + [3] * 1)
WHOLE = Fold(np.setdiff1d(np.arange(82), [0, 1, 50, 74]), np.array([0, 1, 50, 74]))


@pytest.mark.parametrize("seed", range(5))
def test_parts_of_a_fold_are_stratified_nested_and_leave_the_test_part(seed: int) -> None:
    shares = (0.01, 0.25, 0.5, 0.77, 1.0)
    parts = [part_of(WHOLE, LABELS, seed=seed, share=share) for share in shares]
    for share, part in zip(shares, parts, strict=True):
        assert np.array_equal(part.test, WHOLE.test)
        assert np.array_equal(part.train, np.unique(part.train))
        assert set(part.train) <= set(WHOLE.train)
        sizes = np.bincount(LABELS[part.train], minlength=4)
        whole = np.bincount(LABELS[WHOLE.train], minlength=4)
        assert (sizes >= 1).all()
        assert (np.abs(sizes - np.maximum(share * whole, 1)) <= 0.5).all()
    for smaller, larger in itertools.pairwise(parts):
        assert set(smaller.train) < set(larger.train)
    assert np.array_equal(parts[-1].train, WHOLE.train)
    again = part_of(WHOLE, LABELS, seed=seed, share=0.5)
    assert np.array_equal(again.train, parts[2].train)
    assert not np.array_equal(part_of(WHOLE, LABELS, seed=seed + 100, share=0.5).train, again.train)


def test_folds_of_a_share_are_parts_of_the_folds(mutag: GraphSet) -> None:
    y = mutag.y.numpy()
    cell = two_view(protocol="inductive", train_share=0.5)
    whole = outer_folds(y, seed=3, n_folds=3)
    for fold, part in zip(whole, folds_of(cell, y, 3), strict=True):
        assert np.array_equal(part.train, part_of(fold, y, seed=3, share=0.5).train)
        assert np.array_equal(part.test, fold.test)
        assert abs(len(part.train) - len(fold.train) / 2) <= 1
    for fold, inner in zip(whole, folds_of(cell, y, 3, inner=True), strict=True):
        part = part_of(fold, y, seed=3, share=0.5)
        expected = inner_holdout(part.train, y, seed=3)
        assert np.array_equal(inner.train, expected.train)
        assert np.array_equal(inner.test, expected.test)
        assert not set(inner.train) & set(inner.test)
        assert not (set(inner.train) | set(inner.test)) & set(fold.test)


def with_garbage(graphs: GraphSet, ids: Sequence[int]) -> GraphSet:
    """The set with features that no graph has in some graphs."""
    x = graphs.x.clone()
    for g in ids:
        x[graphs.node_ptr[g] : graphs.node_ptr[g + 1]] = 7.0
    return replace(graphs, x=x)


@pytest.mark.parametrize("method", ["hscl", "supervised"])
def test_an_encoder_sees_its_share_and_nothing_else(
    method: str, mutag: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = two_view(method, protocol="inductive", train_share=0.5)
    if method == "supervised":
        cell = small(method, train_share=0.5)
    found: list[dict[str, Tensor]] = []
    real = graph_seeds.train_encoders

    def spy(*arguments: Any, **settings: Any) -> Any:
        for result in real(*arguments, **settings):
            found.append({k: v.clone() for k, v in weights([result])[result.number].items()})
            yield result

    monkeypatch.setattr(graph_seeds, "train_encoders", spy)
    part = folds_of(cell, mutag.y.numpy(), 4)[1]
    unseen = sorted(set(range(188)) - set(part.train.tolist()))
    (clean,) = train_seeds([Job(cell, 4)], mutag, [lambda *_: None])
    assert clean.score is not None
    list(train_seeds([Job(cell, 4)], with_garbage(mutag, unseen), [lambda *_: None]))
    list(train_seeds([Job(replace(cell, train_share=1.0), 4)], mutag, [lambda *_: None]))
    same = [
        [all(torch.equal(one[n], two[n]) for n in one) for one, two in zip(found[:3], other,
         strict=True)]
        for other in (found[3:6], found[6:])
    ]  # fmt: skip
    assert same[0][1] is True
    assert same[1] == [False, False, False]


# Floors


def floor_folds(cell: GraphCell, graphs: GraphSet, *, inner: bool) -> list[Fold]:
    """In the words of the protocol."""
    y, found = graphs.y.numpy(), []
    for fold in outer_folds(y, seed=5, n_folds=3):
        part = part_of(fold, y, seed=5, share=cell.train_share)
        found.append(inner_holdout(part.train, y, seed=5) if inner else part)
    return found


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_floors_are_scored_on_the_share_and_inside_hold_outs(
    share: float, *, inner: bool, mutag: GraphSet
) -> None:
    pytest.importorskip("grakel")
    y, grid = mutag.y.numpy(), (0.1, 10.0)
    K = wl_kernel(mutag, optimal_assignment=False)

    def of(method: str) -> tuple[GraphCell, SeedScore]:
        cell = small(method, train_share=share, c_grid=grid)
        return cell, run_seed(cell, mutag, 5, inner=inner)

    cell, found = of("wl")
    folds = floor_folds(cell, mutag, inner=inner)
    assert found.folds == tuple(kernel_fold(K, y, fold, C_grid=grid, seed=5) for fold in folds)
    assert {fold.chosen for fold in found.folds} <= set(grid)
    _, found = of("graph-size")
    X = graph_size(mutag)
    assert found.folds == tuple(svm_fold(X, y, fold, C_grid=grid, seed=5) for fold in folds)
    cell, found = of("untrained")
    z = Encoder(cell, mutag, 5).build().embed(mutag.all()).double().numpy()
    assert found.folds == tuple(svm_fold(z, y, fold, C_grid=grid, seed=5) for fold in folds)
    _, found = of("majority")  # has no share: its classes are as many times fewer
    whole = floor_folds(small("majority"), mutag, inner=inner)
    for one, fold in zip(found.folds, whole, strict=True):
        label = np.bincount(y[fold.train]).argmax()
        assert one.accuracy == pytest.approx((y[fold.test] == label).mean())


def test_untrained_of_all_graphs_is_scored_as_before(mutag: GraphSet) -> None:
    cell = small("untrained")
    z = Encoder(cell, mutag, 5).build().embed(mutag.all()).double().numpy()
    expected = svm_cross_validation(z, mutag.y.numpy(), seed=5, n_folds=3)
    assert run_seed(cell, mutag, 5).folds == expected.folds
