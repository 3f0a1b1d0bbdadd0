"""Inner and outer scores of images, against the runs of bench."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.model_selection import train_test_split
from torch import nn

from gcl_hard.errors import DivergenceError
from gcl_hard.evaluation import FoldScore
from gcl_hard.experiments.experiment import silent
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.trials import Candidate, Inner, Score
from gcl_hard.images import experiment as images
from gcl_hard.images import training as image_training
from gcl_hard.images.settings import ImageConfig
from gcl_hard.images.trials import ImageOuter, ImagePart
from tests.experiments.tiny_images import Tiny, few_digits, small
from tests.tuning.scoring import Notes, context, outer_accuracy, scores_of

FEW: dict[str, Any] = {"epochs": 5, "probe_epochs": 5, "lr_schedule": "constant"}


class Batches:
    """How many batches have been trained on."""

    def __init__(self) -> None:
        self.count = 0

    def encoder(self, name: str, stem: str, width: int | None) -> nn.Module:
        tiny = Tiny()
        tiny.register_forward_pre_hook(self._step)
        return tiny

    def _step(self, encoder: nn.Module, _: Any) -> None:
        self.count += encoder.training


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> Batches:
    batches = Batches()
    monkeypatch.setattr(image_training, "image_encoder", batches.encoder)
    return batches


def bench(config: ImageConfig, seed: int = 3, *, inner: bool = False) -> FoldScore:
    """The score of a run, as bench makes it."""
    experiment, run = images.ImageExperiment(), Run(config, seed, inner)
    with tempfile.TemporaryDirectory() as folder:
        where = replace(context(threads=1), output=Path(folder))
        (trained,) = experiment.train([run], few_digits(), where, silent)
    return image_training.score_run(trained, few_digits())


def scores(configs: list[ImageConfig], inner: Inner, notes: Notes | None = None) -> list[Score]:
    tried = [Candidate(10 * n, config) for n, config in enumerate(configs)]
    by_number = scores_of(ImagePart(few_digits(), inner), tried, inner, notes)
    assert [*by_number] == [candidate.number for candidate in tried]
    return [*by_number.values()]


def test_an_inner_score_is_that_of_benchs_inner_hold_out() -> None:
    cells = [small(probe_epochs=10), small(probe_epochs=10, method="ucl", lr=0.01)]
    inner_scores = scores(cells, Inner(seed=3))
    for cell, score in zip(cells, inner_scores, strict=True):
        fold = bench(cell, inner=True)
        assert score == Score(score.number, 100 * fold.accuracy)
    assert inner_scores[0].value != inner_scores[1].value


def test_an_outer_score_is_benchs_score_on_the_test_images() -> None:
    outer = ImageOuter(few_digits(), Inner(seed=3))
    fold = bench(small())
    assert outer.n_test == fold.n_test == 60
    assert outer_accuracy(outer, small(), 3, threads=1) == 100 * fold.accuracy


def test_hold_outs_are_a_fifth_hidden_from_training_and_drawn_anew() -> None:
    data = few_digits()
    inner = Inner(folds=3, seed=2)
    part = ImagePart(data, inner)
    labels = data.probe.labels.numpy()
    kept, hidden = train_test_split(
        np.arange(120), test_size=0.2, stratify=labels, random_state=2
    )  # fmt: skip
    first = part.folds[0]
    for split, ids in ((first.probe, kept), (first.pretrain, kept), (first.test, hidden)):
        assert torch.equal(split.images, data.probe.images[torch.from_numpy(np.sort(ids))])
    drawn = set()
    for fold in part.folds:
        assert (len(fold.pretrain), len(fold.probe), len(fold.test)) == (96, 96, 24)
        seen = {tuple(image.flatten().tolist()) for image in fold.pretrain.images}
        asked = frozenset(tuple(image.flatten().tolist()) for image in fold.test.images)
        assert not seen & asked
        drawn.add(asked)
    assert len(drawn) == 3
    assert part.n_scored(inner) == len(frozenset().union(*drawn))


def test_a_score_is_the_mean_over_hold_outs_each_reported_once() -> None:
    notes, inner = Notes(), Inner(folds=2, steps="folds")
    cells = [small(**FEW), small(**FEW, beta=5.0)]
    inner_scores = scores(cells, inner, notes)
    assert notes.steps == [(n, k) for n in (0, 10) for k in range(2)]
    for score in inner_scores:
        of_folds = [notes.reported[score.number, k] for k in range(2)]
        assert score.value == pytest.approx(np.mean(of_folds))
    assert inner_scores == scores(cells, Inner(folds=2))


def test_a_report_is_the_score_of_training_that_ended_there() -> None:
    notes, inner = Notes(), Inner(steps="epochs")
    (score,) = scores([small(**FEW)], inner, notes)
    assert notes.steps == [(0, epoch) for epoch in inner.report_epochs(5)]
    for (_, epoch), accuracy in notes.reported.items():
        fold = bench(small(**FEW | {"epochs": epoch}), 0, inner=True)
        assert accuracy == 100 * fold.accuracy
    assert [score] == scores([small(**FEW)], Inner())  # looking changes nothing


@pytest.mark.parametrize(
    ("inner", "step", "batches"),
    [(Inner(steps="epochs"), 2, 4), (Inner(folds=2, steps="folds"), 0, 10)],
)
def test_a_pruned_trial_trains_no_further_and_the_others_keep_their_scores(
    steps: Batches, inner: Inner, step: int, batches: int
) -> None:
    notes = Notes({0: step})
    first, second = scores([small(**FEW), small(**FEW, beta=5.0)], inner, notes)
    assert first == Score(0, None)
    assert steps.count == batches + 10 * inner.folds
    assert max(at for number, at in notes.steps if number == 0) == step
    assert second.value == scores([small(**FEW, beta=5.0)], inner)[0].value


@pytest.mark.parametrize("looking", [Inner(), Inner(steps="epochs")])
def test_a_trial_that_diverges_fails_alone(looking: Inner) -> None:
    cells = [small(**FEW, lr=lr) for lr in (1e-3, 1e30, 1e-2)]
    inner_scores = scores(cells, looking)
    assert isinstance(inner_scores[1].error, DivergenceError)
    assert inner_scores[1].value is None
    assert [inner_scores[0].value, inner_scores[2].value] == [
        scores([cell], Inner())[0].value for cell in (cells[0], cells[2])
    ]


def test_a_bug_is_not_taken_for_a_trial_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(image_training, "train_run", broken)
    with pytest.raises(ZeroDivisionError):
        scores([small()], Inner())
