"""Inner and outer scores of graphs, against splits, training and SVMs done by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from gcl_hard.evaluation import C_GRID
from gcl_hard.experiments.experiment import silent
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.trials import Inner
from gcl_hard.graphs import GraphSet, protocols
from gcl_hard.graphs import training as ensembles
from gcl_hard.graphs.experiment import GraphExperiment
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.graphs.training import Result
from gcl_hard.graphs.trials import GraphOuter, GraphPart, cut_graphs
from tests.reference.one_by_one import fit
from tests.tuning.scoring import accuracies, context, outer_accuracy, small

LR = 1e-5
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Split = tuple[Indices, Indices]


def splits(labels: Indices, folds: int, seed: int) -> list[Split]:
    everyone = np.arange(len(labels))
    if folds == 1:
        kept, held = train_test_split(
            everyone, test_size=0.2, stratify=labels, random_state=seed
        )  # fmt: skip
        return [(np.sort(kept), np.sort(held))]
    return list(StratifiedKFold(folds, shuffle=True, random_state=seed).split(labels, labels))


def by_sklearn(z: Floats, labels: Indices, split: Split, seed: int) -> float:
    search = GridSearchCV(
        make_pipeline(StandardScaler(), SVC()), {"svc__C": list(C_GRID)},
        cv=StratifiedKFold(5, shuffle=True, random_state=seed),
    )  # fmt: skip
    train, test = split
    return 100 * float(search.fit(z[train], labels[train]).score(z[test], labels[test]))


class Seen:
    """What is trained from now on: cells with their last losses and embeddings, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.encoders: list[tuple[GraphConfig, float, Floats]] = []
        self._losses: dict[int, float] = {}
        self._train, self._embed = ensembles.train_encoders, protocols.embeddings
        monkeypatch.setattr(ensembles, "train_encoders", self._trained)
        monkeypatch.setattr(protocols, "embeddings", self._embedded)

    def _trained(self, *arguments: Any, **settings: Any) -> Iterator[Result]:
        for result in self._train(*arguments, **settings):
            assert isinstance(result.loss, float)
            self._losses[id(result.model)] = result.loss
            yield result

    def _embedded(self, model: Any, graphs: GraphSet, cell: GraphConfig, seed: int) -> Floats:
        z = self._embed(model, graphs, cell, seed)
        self.encoders.append((cell, self._losses[id(model)], z))
        return z


def by_loop(
    cell: GraphConfig, graphs: GraphSet, train: Indices, seed: int, member: int, *, apart: bool
) -> tuple[float, Floats]:
    """Last loss, and embeddings of all graphs, of an encoder trained in the plain loop on some.

    Those are a set by themselves, or what is left of a whole set's batches.
    """
    if apart:
        model, losses = fit(cell, graphs.take(torch.from_numpy(train)), seed, member=member)
    else:
        hidden = torch.from_numpy(np.setdiff1d(np.arange(graphs.n_graphs), train))
        model, losses = fit(cell, graphs, seed, member=member, held_out=hidden)
    return losses[-1], model.embed(graphs.all()).double().numpy()


def check(
    trained: tuple[GraphConfig, float, Floats],
    graphs: GraphSet,
    train: Indices,
    seed: int,
    member: int = 0,
    *,
    apart: bool = False,
) -> None:
    """An encoder is that of the plain loop up to rounding, and of no other training.

    Adam makes steps of rounding: biases before a normalisation move by the learning rate, hence a
    small one.
    """
    cell, loss, z = trained
    assert cell.lr == LR

    def off(on: Indices) -> tuple[float, float]:
        plain_loss, plain = by_loop(cell, graphs, on, seed, member, apart=apart)
        return abs(loss / plain_loss - 1), float(np.linalg.norm(z - plain) / np.linalg.norm(plain))

    assert max(off(train)) < 4e-4
    everyone = np.arange(graphs.n_graphs)
    assert min(max(off(on)) for on in (everyone, everyone[: len(train)])) > 2e-3


@pytest.mark.parametrize(("folds", "seed"), [(1, 5), (2, 1)])
def test_an_inner_score_is_that_of_split_loop_and_svm_by_hand(
    fewer: GraphSet, monkeypatch: pytest.MonkeyPatch, folds: int, seed: int
) -> None:
    cells, labels = (small(beta=2.0, lr=LR), small(method="ucl", lr=LR)), fewer.y.numpy()
    seen, inner = Seen(monkeypatch), Inner(folds=folds, seed=seed)
    scores = accuracies(fewer, cells, inner, ensemble_size=None)
    parts = splits(labels, folds, seed)
    for cell, accuracy in zip(cells, scores, strict=True):
        by_hand = []
        mine = [encoder for encoder in seen.encoders if encoder[0] is cell]
        for k, (split, trained) in enumerate(zip(parts, mine, strict=True)):
            check(trained, fewer, split[0], seed, k)
            by_hand.append(by_sklearn(trained[2], labels, split, seed))
        assert accuracy == pytest.approx(np.mean(by_hand), abs=1e-9)
    assert GraphPart(fewer).n_scored(inner) == sum(len(test) for _, test in parts)


@pytest.mark.parametrize("n_folds", [1, 3])
def test_an_outer_score_trains_on_the_part_by_itself_and_tests_outside(
    fewer: GraphSet, monkeypatch: pytest.MonkeyPatch, n_folds: int
) -> None:
    labels = fewer.y.numpy()
    folds = cut_graphs(fewer, n_folds, seed=2)
    if n_folds == 1:
        train, test = train_test_split(
            np.arange(len(labels)), test_size=0.3, stratify=labels, random_state=2
        )
        expected = [(np.sort(train), np.sort(test))]
    else:
        expected = splits(labels, n_folds, 2)
    assert len(folds) == len(expected)
    fold, split = folds[-1], expected[-1]
    np.testing.assert_array_equal(fold.train, split[0])
    np.testing.assert_array_equal(fold.test, split[1])
    seen, outer = Seen(monkeypatch), GraphOuter(fewer, fold)
    assert outer.n_test == len(split[1])
    accuracy = outer_accuracy(outer, small(lr=LR, beta=5.0), 2)
    (trained,) = seen.encoders
    check(trained, fewer, split[0], 2, apart=True)
    assert accuracy == pytest.approx(by_sklearn(trained[2], labels, split, 2), abs=1e-9)


def test_under_the_papers_protocol_a_score_is_the_mean_over_its_test_folds(mutag: GraphSet) -> None:
    cells = tuple(small(protocol="paper", folds=3, beta=beta) for beta in (1.0, 10.0))
    outer = GraphOuter(mutag, None)
    scores = accuracies(outer.part, cells, Inner(seed=4))  # as trained below, to the bit
    for cell, accuracy in zip(cells, scores, strict=True):
        experiment, run = GraphExperiment(), Run(cell, 4)
        (trained,) = experiment.train([run], mutag, context(), silent)
        scored = experiment.score(trained, mutag, context())
        assert accuracy == pytest.approx(np.mean(scored.scores(["accuracy"])["accuracy"]), abs=1e-9)
    assert outer.n_test == 0
    assert outer.part.n_scored(Inner()) == mutag.n_graphs


@pytest.mark.parametrize("outside", [True, False])
def test_scalar_degrees_are_scaled_by_what_the_encoder_is_trained_on(
    fewer: GraphSet, monkeypatch: pytest.MonkeyPatch, *, outside: bool
) -> None:
    """In training, and where it embeds."""
    scaled = replace(fewer, features="degree-scalar").standardised_on(torch.arange(fewer.n_graphs))
    seen, cell = Seen(monkeypatch), small(lr=LR)
    if outside:
        (fold,) = cut_graphs(scaled, 1, seed=0)
        outer_accuracy(GraphOuter(scaled, fold), cell, 0)
        train = fold.train
    else:
        accuracies(scaled, [cell], Inner())
        ((train, _),) = splits(scaled.y.numpy(), 1, 0)
    expected = scaled.standardised_on(torch.from_numpy(train))
    assert not torch.equal(expected.x, scaled.x)
    check(seen.encoders[0], expected, train, 0, apart=outside)
