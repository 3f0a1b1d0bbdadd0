"""The trials of a search on images: training images, of which a fifth serves as test images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from gcl_hard.evaluation.folds import inner_holdout
from gcl_hard.experiments.experiment import RunContext
from gcl_hard.experiments.protocols import UNSEEN
from gcl_hard.experiments.trials import (
    Candidate,
    Inner,
    Outer,
    Part,
    Score,
    Scoring,
    TrialSplit,
    hold_out_seeds,
)
from gcl_hard.images.experiment import ImageExperiment
from gcl_hard.images.parts import ImageData
from gcl_hard.images.settings import ImageConfig


def outer_parts(
    config: ImageConfig, data: ImageData, context: RunContext, inner: Inner, n_folds: int
) -> Sequence[Outer]:
    """The training images, and the official test images; of unseen classes a draw."""
    ImageExperiment().check(config, data, context, inner=True)
    if config.protocol == UNSEEN:
        return (Outer(Part(ImageExperiment(), data), data, None),)
    return (ImageOuter(data, inner),)


class ImagePart(Part):
    """Training images, of which a fifth serves as test images.

    Args:
        data: the images; their test images are not kept.
        inner: seed and number of hold-outs, each drawn afresh.
    """

    by_epochs: ClassVar[bool] = True
    searched: ClassVar[str] = "20 %"

    def __init__(self, data: ImageData, inner: Inner) -> None:
        seeds = hold_out_seeds(inner)
        self.folds = [data.held_out(seed) for seed in seeds]
        super().__init__(ImageExperiment(), self.folds)
        labels = data.probe.labels.cpu().numpy()
        tests = [inner_holdout(np.arange(len(labels)), labels, seed=seed).test for seed in seeds]
        self._n_scored = len(np.unique(np.concatenate(tests)))

    def splits(self, inner: Inner) -> Sequence[TrialSplit]:
        """The hold-outs; all trials start from the same weights."""
        return [TrialSplit(fold, inner.seed) for fold in self.folds]

    def n_scored(self, inner: Inner) -> int:
        """Images that an inner score is over; those of several hold-outs once."""
        return self._n_scored

    def scores(self, candidates: Sequence[Candidate], scoring: Scoring) -> Iterator[Score]:
        """Inner scores, one candidate after the other: a single network fills the device."""
        for candidate in candidates:
            yield from super().scores([candidate], scoring)


class ImageOuter(Outer):
    """Training images to search in, and the official test images.

    Args:
        data: the images, on the device to train on.
        inner: the hold-outs, made once.
    """

    scored_on: ClassVar[str] = "the official test images"

    def __init__(self, data: ImageData, inner: Inner) -> None:
        super().__init__(ImagePart(data, inner), data, len(data.test))
