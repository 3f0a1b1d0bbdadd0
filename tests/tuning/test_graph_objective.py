"""Scores of graphs: ensembles, intermediate scores, and failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gcl_hard.errors import DivergenceError, InputError, OutOfMemory
from gcl_hard.experiments.trials import Inner, Steps
from gcl_hard.graphs import GraphSet
from gcl_hard.graphs import training as ensembles
from gcl_hard.graphs.trials import GraphPart, cut_graphs
from tests.said import says
from tests.tuning.scoring import Notes, accuracies, candidates, scores_of, small

VARIED = (
    small(beta=10.0), small(method="ucl", lr=0.001), small(layers=1), small(dim=4, lr=0.1),
    small(layers=1, beta=500.0),
)  # fmt: skip


# Neighbours


def test_a_score_does_not_depend_on_what_is_beside_it(fewer: GraphSet) -> None:
    inner = Inner(seed=3)
    alone = [accuracies(fewer, [cell], inner)[0] for cell in VARIED]
    assert len(set(alone)) > 1
    for ensemble_size in (1, None):
        assert accuracies(fewer, VARIED, inner, ensemble_size=ensemble_size) == alone
    assert accuracies(fewer, VARIED[::-1], inner, ensemble_size=2) == alone[::-1]


def test_those_of_one_shape_are_one_ensemble(
    fewer: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    real = ensembles.train_encoders

    def train(encoders: Sequence[Any], *arguments: Any, **settings: Any) -> Iterator[Any]:
        asked.append(len(encoders))
        return real(encoders, *arguments, **settings)

    monkeypatch.setattr(ensembles, "train_encoders", train)
    cells = [small(beta=1.0), small(beta=2.0, lr=0.1), small(layers=1), small(method="ucl")]
    cells.append(small(contrast="two-view"))
    accuracies(fewer, cells, Inner(), ensemble_size=None)
    assert sorted(asked) == [1, 1, 3]


# Intermediate scores


def test_by_folds_each_fold_is_reported_once_and_the_score_is_their_mean(fewer: GraphSet) -> None:
    notes, cells = Notes(), VARIED[:3]
    scores = accuracies(fewer, cells, Inner(folds=2, steps="folds"), notes, 2)
    numbers = [candidate.number for candidate in candidates(*cells)]
    assert sorted(notes.steps) == [(number, k) for number in numbers for k in range(2)]
    for number, accuracy in zip(numbers, scores, strict=True):
        of_folds = [notes.reported[number, k] for k in range(2)]
        assert accuracy == pytest.approx(np.mean(of_folds), abs=1e-9)
    assert accuracies(fewer, cells, Inner(folds=2)) == scores


@pytest.mark.parametrize("epochs", [1, 3, 7])
def test_by_epochs_reports_come_when_they_are_due_four_at_most(
    fewer: GraphSet, epochs: int
) -> None:
    notes, cells = Notes(), [small(epochs=epochs), small(epochs=epochs, method="scl")]
    inner = Inner(steps="epochs", seed=1)
    scores = accuracies(fewer, cells, inner, notes, 2)
    due = {round(epochs * fifth / 5) for fifth in (1, 2, 3, 4)} - {0, epochs}
    assert sorted(notes.steps) == [(n, epoch) for n in (3, 10) for epoch in sorted(due)]
    assert accuracies(fewer, cells, Inner(seed=1)) == scores  # looking changes nothing


def test_a_report_is_the_score_of_training_that_ended_there(fewer: GraphSet) -> None:
    notes, inner = Notes(), Inner(steps="epochs")
    accuracies(fewer, [small(epochs=7), small(epochs=7, beta=10.0)], inner, notes, 2)
    assert len(notes.steps) == 8
    for epoch in sorted({epoch for _, epoch in notes.steps}):
        cells = [small(epochs=epoch), small(epochs=epoch, beta=10.0)]
        shorter = accuracies(fewer, cells, Inner(), ensemble_size=2)
        assert [notes.reported[3, epoch], notes.reported[10, epoch]] == shorter


@pytest.mark.parametrize(
    ("folds", "steps", "step"), [(1, "epochs", 2), (2, "folds", 0), (2, "folds", 1)]
)
def test_a_pruned_trial_has_no_score_and_the_others_keep_theirs(
    fewer: GraphSet, folds: int, steps: Steps, step: int
) -> None:
    cells = [small(epochs=5, beta=beta) for beta in (1.0, 2.0, 10.0)]
    inner, notes = Inner(folds=folds, steps=steps), Notes({10: step})
    scores = scores_of(GraphPart(fewer), candidates(*cells), inner, notes, 3)
    assert scores[10].value is None
    assert scores[10].error is None
    assert max(at for number, at in notes.steps if number == 10) == step
    everyone = accuracies(fewer, cells, Inner(folds=folds), ensemble_size=3)
    assert [scores[3].value, scores[17].value] == [everyone[0], everyone[2]]


def test_progress_rises_to_the_whole_over_folds_and_epochs(fewer: GraphSet) -> None:
    notes = Notes()
    accuracies(fewer, VARIED[:2], Inner(folds=2), notes)
    for shares in notes.shares.values():
        assert shares == [0.25, 0.5, 0.75, 1.0]


# What fails


@pytest.mark.parametrize("steps", ["none", "epochs"])
@pytest.mark.parametrize("ensemble_size", [1, 3])
def test_a_trial_that_diverges_fails_alone(
    fewer: GraphSet, steps: Steps, ensemble_size: int
) -> None:
    """The others score as without it, at rates at which rounding moves no prediction."""
    cells = [small(epochs=5, lr=lr) for lr in (1e-4, 1e30, 1e-5)]
    scores = scores_of(
        GraphPart(fewer), candidates(*cells), Inner(steps=steps), ensemble_size=ensemble_size
    )
    assert isinstance(scores[10].error, DivergenceError)
    assert scores[10].value is None
    sane = accuracies(fewer, [cells[0], cells[2]], Inner())
    assert [scores[3].value, scores[17].value] == sane


class Nothing(nn.Module):
    """Trains well, but embeds nothing finite in evaluation."""

    out_dim = 4

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(n_features, 4)

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, **_: Any
    ) -> tuple[Tensor, Tensor]:
        nodes = self.linear(x) * (1.0 if self.training else torch.nan)
        return nodes, nodes.new_zeros(int(batch.max()) + 1, 4).index_add(0, batch, nodes)


@pytest.mark.parametrize("steps", ["none", "epochs", "folds"])
def test_embeddings_that_are_not_finite_are_a_failure(fewer: GraphSet, steps: Steps) -> None:
    inner = Inner(folds=2 if steps == "folds" else 1, steps=steps)
    notes = Notes()
    tried = candidates(small(), make=Nothing)
    (score,) = scores_of(GraphPart(fewer), tried, inner, notes).values()
    assert isinstance(score.error, DivergenceError)
    assert says(str(score.error), "embeddings", "finite", "seed 0", "lr", "beta")
    assert notes.steps == []


def test_out_of_memory_fails_the_group_that_it_is_in(
    fewer: GraphSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ensembles.train_encoders

    def train(encoders: Sequence[Any], *arguments: Any, **settings: Any) -> Iterator[Any]:
        results = real(encoders, *arguments, **settings)
        if encoders[0].config.dim == 4:
            yield next(results)  # one has ended before
            raise OutOfMemory("train fewer at a time")
        yield from results

    monkeypatch.setattr(ensembles, "train_encoders", train)
    cells = [small(), small(dim=4, beta=2.0), small(dim=4, beta=3.0), small(layers=1)]
    scores = scores_of(GraphPart(fewer), candidates(*cells), Inner())
    assert isinstance(scores[17].error, OutOfMemory)
    monkeypatch.undo()
    sane = accuracies(fewer, cells, Inner())
    assert [scores[n].value for n in (3, 10, 17, 24)] == [sane[0], sane[1], None, sane[3]]


def test_a_class_too_small_for_the_folds_is_refused_before_training(fewer: GraphSet) -> None:
    with pytest.raises(InputError, match=r"\bclass 0\b.*\b19\b.*\b64\b"):
        GraphPart(fewer).n_scored(Inner(folds=64))
    with pytest.raises(InputError, match=r"\bclass 0\b.*\b19\b.*\b64\b"):
        cut_graphs(fewer, 64, seed=0)
