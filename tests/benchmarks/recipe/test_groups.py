"""Runs of recipes that train together: which these are, and that each is itself."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from gcl_hard.evaluation import outer_folds
from gcl_hard.experiments import ensembles
from gcl_hard.experiments import graphs as graph_experiment
from gcl_hard.experiments.ensembles import Encoder, TrainedEncoder, train_encoders
from gcl_hard.experiments.graphs import GraphExperiment, fold_scores
from gcl_hard.experiments.protocols import build
from gcl_hard.graphs import GraphSet
from gcl_hard.runs.plan import Run, groups_of
from tests.experiments.made import context, go_on
from tests.runs.small_cells import (
    assert_each_its_own,
    float64,
    mutag,
    scored,
    two_view,
    weights,
)

__all__ = ["float64", "mutag"]


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
    configs = [two_view("ucl"), other, two_view("scl", lr=0.1, objective="jsd")]
    found = groups_of([Run(config, 0) for config in configs])
    assert [[run.config for run in group] for group in found] == [[configs[0], configs[2]], [other]]


def test_shares_of_training_graphs_train_apart() -> None:
    configs = [two_view(protocol="inductive", train_share=share) for share in (1.0, 0.5)]
    assert len(groups_of([Run(config, 0) for config in configs])) == 2


def test_runs_that_differ_in_scoring_alone_are_one_model_of_a_group() -> None:
    configs = [config for row in zip(scored("ucl"), scored("hscl"), strict=True) for config in row]
    todo = [Run(config, seed) for seed in (0, 1) for config in configs]
    for size, sizes in ((2, [8, 8]), (1, [4, 4, 4, 4]), (3, [8, 8])):
        found = groups_of(todo, size=size)
        assert [len(group) for group in found] == sizes
        assert set(itertools.chain(*found)) == set(todo)
        for group in found:
            assert len({run.training for run in group}) <= size


# Training


@pytest.fixture
def trained_ensembles(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Kinds and sizes of what is trained from now on."""
    seen: list[tuple[str, int]] = []
    real = ensembles.train_ensemble

    def train(ensemble: Any, *arguments: Any, **settings: Any) -> Any:
        seen.append((type(ensemble).__name__, len(ensemble.models)))
        return real(ensemble, *arguments, **settings)

    monkeypatch.setattr(ensembles, "train_ensemble", train)
    return seen


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("extra", [{}, {"edge_labels": True, "virtual_node": True, "jk": "last"}])
def test_two_view_encoders_in_ensembles_are_those_trained_one_by_one(
    extra: dict[str, Any], mutag: GraphSet, trained_ensembles: list[tuple[str, int]]
) -> None:
    graphs = replace(mutag, x=mutag.x.double(), edge_attr=mutag.edge_attr.double())
    folds = outer_folds(mutag.y.numpy(), seed=0, n_folds=3)[:2]
    configs = [two_view("ucl", epochs=1, **extra), two_view("hscl", lr=0.1, **extra)]
    encoders = [Encoder(config, graphs, seed) for config in configs for seed in (0, 1)]
    inductive = [replace(config, protocol="inductive") for config in configs]
    encoders += [
        Encoder.of_fold(config, graphs, 0, k, fold) for config in inductive for k, fold in
        enumerate(folds)
    ]  # fmt: skip
    together = weights(list(train_encoders(encoders, graphs, size=16)))
    assert sorted(trained_ensembles) == [("Ensemble", 2)] * 4
    alone = weights(list(train_encoders(encoders, graphs, size=1)))
    assert together.keys() == alone.keys() == set(range(8))
    assert_each_its_own(together, alone)
    assert len({state["projection.0.weight"].sum().item() for state in together.values()}) == 8


def test_two_view_models_that_share_nothing_train_alone(
    mutag: GraphSet, trained_ensembles: list[tuple[str, int]]
) -> None:
    config = two_view("ucl")

    class Own(torch.nn.Module):
        out_dim = 7

        def forward(
            self, x: Tensor, edge_index: Tensor, batch: Tensor, **_: Tensor
        ) -> tuple[Tensor, Tensor]:
            return x, torch.zeros(int(batch.max()) + 1, 7).index_add_(0, batch, x)

    named = replace(config, encoder="Own@0", dim=32, layers=3)
    own = Encoder(named, mutag, 0, parts={"Own@0": lambda _: Own()})
    encoders = [own, Encoder(config, mutag, 1)]
    results = list(train_encoders(encoders[:1], mutag)) + list(train_encoders(encoders[1:], mutag))
    assert all(isinstance(result.trained, TrainedEncoder) for result in results)
    assert trained_ensembles == [("Ensemble", 1), ("Ensemble", 1)]


@pytest.mark.parametrize("protocol", ["transductive", "inductive"])
def test_scorings_of_one_training_are_what_each_gives_by_itself(
    protocol: str, mutag: GraphSet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"protocol": protocol, "folds": 2, "epochs": 1}
    configs = [*scored("ucl", **settings), two_view("hscl", **settings)]
    runs = [Run(config, 1) for config in configs]
    trained: list[int] = []
    real = graph_experiment.train_encoders

    def counted(encoders: Sequence[Encoder], *arguments: Any, **options: Any) -> Any:
        trained.append(len(encoders))
        return real(encoders, *arguments, **options)

    monkeypatch.setattr(graph_experiment, "train_encoders", counted)
    shares: dict[Run, list[float]] = {run: [] for run in runs}

    def report(run: Run, share: float, loss: float) -> bool:
        shares[run].append(share)
        return True

    experiment, where = GraphExperiment(), context(tmp_path, ensemble_size=1)
    found = {one.run: one for one in experiment.train(runs, mutag, where, report)}
    assert trained == [2 * configs[0].encoders]
    assert found.keys() == set(runs)
    assert len({tuple(of_run) for of_run in shares.values()}) == 1  # each one's bar moves
    assert all(shares.values())
    accuracies = set()
    for run in runs:
        (alone,) = experiment.train([run], mutag, where, go_on)
        mine, own = (fold_scores(one, mutag, where) for one in (found[run], alone))
        assert (mine, found[run].losses) == (own, alone.losses)
        accuracies.add(tuple((fold.accuracy, fold.chosen) for fold in mine))
    assert len(accuracies) >= 3  # the scorings differ


def test_a_diverged_training_is_the_error_of_all_its_scorings(
    mutag: GraphSet, tmp_path: Path
) -> None:
    bad = [Run(config, 0) for config in scored("ucl", lr=1e30)]
    good = Run(two_view("scl"), 0)
    where = context(tmp_path, ensemble_size=4)
    found = list(GraphExperiment().train([*bad, good], mutag, where, go_on))
    assert {one.run for one in found if one.error is not None} == set(bad)
    assert [one.run for one in found if one.error is None] == [good]


@pytest.mark.parametrize("edge_labels", [False, True])
def test_build_takes_edges_only_where_they_are_asked_for_and_there(
    *, edge_labels: bool, mutag: GraphSet
) -> None:
    config = two_view(edge_labels=edge_labels, jk="last", readout="both", virtual_node=True)
    for edge_dim in (None, 4):
        gin: Any = build(config, 7, 0, edge_dim=edge_dim).encoder
        assert gin.edge_dim == (edge_dim if edge_labels else None)
        assert (gin.jk, gin.readout, len(gin.virtual), gin.out_dim) == ("last", "both", 1, 8)
    without = replace(mutag, edge_attr=None)
    first = weights(list(train_encoders([Encoder(config, without, 0)], without)))[0]
    plain = replace(config, edge_labels=False)
    second = weights(list(train_encoders([Encoder(plain, without, 0)], without)))[0]
    assert all(torch.equal(first[name], second[name]) for name in first)
