"""The trials of a search on images: training images, of which a fifth serves as test images."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gcl_hard.errors import DivergenceError, OutOfMemory
from gcl_hard.evaluation import FoldScore, inner_holdout
from gcl_hard.experiments import hardware
from gcl_hard.experiments.experiment import RunContext
from gcl_hard.experiments.record import Scored
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.trials import (
    Candidate,
    Inner,
    Part,
    Score,
    Scoring,
    Trial,
    hold_out_seeds,
)
from gcl_hard.images import training
from gcl_hard.images.experiment import ImageExperiment
from gcl_hard.images.parts import ImageData
from gcl_hard.images.settings import ImageConfig
from gcl_hard.images.training import OnEpochEnd


def outer_parts(
    config: ImageConfig, data: ImageData, context: RunContext, inner: Inner, n_folds: int
) -> Sequence[ImageOuter]:
    """The training images, and the official test images."""
    ImageExperiment().check(config, data, context, inner=True)
    return (ImageOuter(data, inner),)


class _Pruned(Exception):  # noqa: N818
    """Raised to end the training of a pruned trial."""


class ImagePart(Part):
    """Training images, of which a fifth serves as test images.

    Args:
        data: the images; their test images are not kept.
        inner: seed and number of hold-outs, each drawn afresh.
    """

    def __init__(self, data: ImageData, inner: Inner) -> None:
        seeds = hold_out_seeds(inner)
        self.folds = [data.held_out(seed) for seed in seeds]
        labels = data.probe.labels.cpu().numpy()
        held = [inner_holdout(np.arange(len(labels)), labels, seed=seed).test for seed in seeds]
        self._n_held = len(np.unique(np.concatenate(held)))

    def _folds(self, inner: Inner) -> Sequence[ImageData]:
        return self.folds

    def n_scored(self, inner: Inner) -> int:
        """Images that an inner score is over; those of several hold-outs once."""
        return self._n_held

    def scores(self, candidates: Sequence[Candidate], scoring: Scoring) -> Iterator[Score]:
        """Inner scores, one candidate after the other: a single network fills the device."""
        for candidate in candidates:
            yield from super().scores([candidate], scoring)

    def _train(self, trials: list[Trial], k: int, fold: ImageData) -> None:
        (trial,) = trials
        epochs = trial.scoring.inner.report_epochs(trial.config.epochs)

        def on_epoch_end(epoch: int, score: Callable[[], FoldScore]) -> None:
            if epoch in epochs:
                trial.intermediate(epoch, _value(trial, score(), fold))
                if trial.pruned:
                    raise _Pruned

        _train_images(trial, fold, on_epoch_end)


class ImageOuter:
    """Training images to search in, and the official test images.

    Args:
        data: the images, on the device to train on.
        inner: the hold-outs, made once.
    """

    def __init__(self, data: ImageData, inner: Inner) -> None:
        self._data = data
        self.part = ImagePart(data, inner)
        self.n_test = len(data.test)

    def score(self, candidate: Candidate, scoring: Scoring) -> Score:
        """Train on all training images, score on the test images; see :class:`GraphOuter`."""
        trial = Trial(candidate, scoring)
        _train_images(trial, self._data)
        return trial.score()

    def name(self, n_folds: int) -> str:
        """What scores the best settings, in words."""
        return "the official test images"


def _value(trial: Trial, score: FoldScore, data: ImageData) -> float:
    return trial.scoring.inner.value(Scored.of([score], data.test.labels.cpu().numpy()))


def _train_images(trial: Trial, data: ImageData, on_epoch_end: OnEpochEnd | None = None) -> None:
    """Train an encoder and its probe."""

    def report(run: Run, share: float, loss: float) -> bool:
        trial.progress(share)
        return True

    context, run = trial.scoring.context, Run(trial.config, trial.scoring.inner.seed)
    hardware.use_threads(context.threads, math.inf, 1, context.cores)
    try:
        trained = training.train_run(run, data, context, report, on_epoch_end)
        trial.values.append(_value(trial, training.score_run(trained, data), data))
    except _Pruned:
        pass
    except (DivergenceError, OutOfMemory) as error:
        trial.error = error
