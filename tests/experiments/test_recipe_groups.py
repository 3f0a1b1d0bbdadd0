"""Cells of recipes that train together: which these are, and that no bit of any changes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from gcl_hard.experiments.graph_seeds import run_seed, train_seeds
from gcl_hard.experiments.scoring import score
from torch import Tensor

from gcl_hard.evaluation import outer_folds
from gcl_hard.experiments import ensembles, graph_seeds
from gcl_hard.experiments.ensembles import Encoder, Trained, train_encoders
from gcl_hard.experiments.groups import groups
from gcl_hard.experiments.protocols import build
from gcl_hard.experiments.runs import Run
from gcl_hard.graphs import GraphSet
from tests.experiments.small_cells import (
    assert_each_its_own,
    mutag,
    scored,
    two_view,
    weights,
)

__all__ = ["mutag"]


# Groups


@pytest.mark.parametrize(
    "apart",
    [
        {"strength": 0.1}, {"augmentations": ("drop-nodes",)}, {"jk": "last"},
        {"edge_labels": True}, {"virtual_node": True}, {"readout": "both"},
        {"encodings": ("degree",)}, {"contrast": "local-global"}, {"dim": 8},
        {"protocol": "inductive"},
    ],
)  # fmt: skip
def test_other_views_and_encoders_train_apart(apart: dict[str, Any]) -> None:
    other = replace(two_view("ucl"), objective=None, temperature=None, **apart)
    cells = [two_view("ucl"), other, two_view("scl", lr=0.1, objective="jsd")]
    found = groups([Run(cell, 0) for cell in cells])
    assert [[job.cell for job in group] for group in found] == [[cells[0], cells[2]], [other]]


def test_shares_of_training_graphs_train_apart() -> None:
    cells = [two_view(protocol="inductive", train_share=share) for share in (1.0, 0.5)]
    assert len(groups([Run(cell, 0) for cell in cells])) == 2


def test_jobs_that_differ_in_scoring_alone_are_one_member_of_a_pack() -> None:
    cells = [cell for row in zip(scored("ucl"), scored("hscl"), strict=True) for cell in row]
    todo = [Run(cell, seed) for seed in (0, 1) for cell in cells]
    for members, sizes in ((2, [8, 8]), (1, [4, 4, 4, 4]), (3, [8, 8])):
        found = groups(todo, members=members)
        assert [len(group) for group in found] == sizes
        assert set(itertools.chain(*found)) == set(todo)
        for group in found:
            assert len({job.trained for job in group}) <= members


# Training


@pytest.fixture
def populations(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Kinds and sizes of what is trained from now on."""
    seen: list[tuple[str, int]] = []
    real = ensembles.train_ensemble

    def train(population: Any, *arguments: Any, **settings: Any) -> Any:
        seen.append((type(population).__name__, len(population.models)))
        return real(population, *arguments, **settings)

    monkeypatch.setattr(ensembles, "train_ensemble", train)
    return seen


@pytest.mark.parametrize("extra", [{}, {"edge_labels": True, "virtual_node": True, "jk": "last"}])
def test_two_view_encoders_in_ensembles_are_those_trained_one_by_one(
    extra: dict[str, Any], mutag: GraphSet, populations: list[tuple[str, int]]
) -> None:
    folds = outer_folds(mutag.y.numpy(), seed=0, n_folds=3)[:2]
    cells = [two_view("ucl", epochs=1, **extra), two_view("hscl", lr=0.1, **extra)]
    encoders = [Encoder(cell, mutag, seed) for cell in cells for seed in (0, 1)]
    inductive = [replace(cell, protocol="inductive") for cell in cells]
    encoders += [
        Encoder.of_fold(cell, mutag, 0, k, fold) for cell in inductive for k, fold in
        enumerate(folds)
    ]  # fmt: skip
    together = weights(list(train_encoders(encoders, mutag, size=16)))
    assert sorted(populations) == [("Ensemble", 2)] * 4
    alone = weights(list(train_encoders(encoders, mutag, size=1)))
    assert together.keys() == alone.keys() == set(range(8))
    assert_each_its_own(together, alone)
    assert len({state["projection.0.weight"].sum().item() for state in together.values()}) == 8


def test_two_view_models_that_share_nothing_train_alone(
    mutag: GraphSet, populations: list[tuple[str, int]]
) -> None:
    cell = two_view("ucl")

    class Own(torch.nn.Module):
        out_dim = 7

        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
            return x, torch.zeros(int(batch.max()) + 1, 7).index_add_(0, batch, x)

    encoders = [Encoder(cell, mutag, 0, make=lambda _: Own()), Encoder(cell, mutag, 1)]
    results = list(train_encoders(encoders[:1], mutag)) + list(train_encoders(encoders[1:], mutag))
    assert all(isinstance(result.trained, Trained) for result in results)
    assert populations == [("Ensemble", 1), ("Ensemble", 1)]


@pytest.mark.parametrize("protocol", ["paper", "inductive"])
def test_scorings_of_one_training_are_what_each_gives_by_itself(
    protocol: str, mutag: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"protocol": protocol, "folds": 2, "epochs": 1}
    cells = [*scored("ucl", **settings), two_view("hscl", **settings)]
    jobs = [Run(cell, 1) for cell in cells]
    trained: list[int] = []
    real = graph_seeds.train_encoders

    def counted(encoders: Sequence[Encoder], *arguments: Any, **options: Any) -> Any:
        trained.append(len(encoders))
        return real(encoders, *arguments, **options)

    monkeypatch.setattr(graph_seeds, "train_encoders", counted)
    epochs: dict[Run, list[float]] = {job: [] for job in jobs}
    told = [lambda k, epoch, loss, beside=1, job=job: epochs[job].append(epoch) for job in jobs]
    found = {one.job: one for one in train_seeds(jobs, mutag, told, size=1)}
    assert trained == [2 * cells[0].encoders]
    assert found.keys() == set(jobs)
    assert len({tuple(of_job) for of_job in epochs.values()}) == 1  # each one's bar moves
    assert all(epochs.values())
    accuracies = set()
    for cell, job in zip(cells, jobs, strict=True):
        one = found[job]
        assert one.scoring is not None
        mine, alone = one.finished(*score(one.scoring)), run_seed(cell, mutag, 1)
        assert (mine.folds, mine.final_losses) == (alone.folds, alone.final_losses)
        accuracies.add(tuple((fold.accuracy, fold.chosen) for fold in mine.folds))
    assert len(accuracies) >= 3  # the scorings differ


def test_a_diverged_training_is_the_error_of_all_its_scorings(mutag: GraphSet) -> None:
    bad = [Run(cell, 0) for cell in scored("ucl", lr=1e30)]
    good = Run(two_view("scl"), 0)
    found = list(train_seeds([*bad, good], mutag, [lambda *_: None] * 5, size=4))
    assert {one.job for one in found if one.error is not None} == set(bad)
    assert [one.job for one in found if one.score is not None] == [good]


@pytest.mark.parametrize("edge_labels", [False, True])
def test_build_takes_edges_only_where_they_are_asked_for_and_there(
    *, edge_labels: bool, mutag: GraphSet
) -> None:
    cell = two_view(edge_labels=edge_labels, jk="last", readout="both", virtual_node=True)
    for edge_dim in (None, 4):
        gin: Any = build(cell, 7, 0, edge_dim=edge_dim).encoder
        assert gin.edge_dim == (edge_dim if edge_labels else None)
        assert (gin.jk, gin.readout, len(gin.virtual), gin.out_dim) == ("last", "both", 1, 8)
    without = replace(mutag, edge_attr=None)
    first = weights(list(train_encoders([Encoder(cell, without, 0)], without)))[0]
    plain = replace(cell, edge_labels=False)
    second = weights(list(train_encoders([Encoder(plain, without, 0)], without)))[0]
    assert all(torch.equal(first[name], second[name]) for name in first)
