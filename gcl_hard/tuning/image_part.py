"""Images to search in, and the official test images, which the best settings are scored on once."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from gcl_hard.errors import DivergenceError, OutOfMemory
from gcl_hard.evaluation import FoldScore, inner_holdout
from gcl_hard.experiments import hardware
from gcl_hard.experiments.config import ImageConfig
from gcl_hard.experiments.experiment import OnEpoch
from gcl_hard.experiments.image_data import ImageData
from gcl_hard.experiments.images import See, run_seed
from gcl_hard.experiments.place import Place, Running
from gcl_hard.experiments.runs import Run
from gcl_hard.seeds import seed_for
from gcl_hard.tuning.part import Candidate, Inner, Local, Score, Watch

PLAIN = Running(monitor_every=0, checkpoint_minutes=math.inf)
"""A trial that is stopped is begun again, so that it needs no checkpoint."""


class _Leaves(Exception):  # noqa: N818
    """Whoever looks on has seen enough."""


class ImagePart:
    """Training images, a fifth of them at a time in the place of the test images; as in ``Part``.

    Args:
        data: the images; their test images are let go of.
        local: the machine.
        inner: seed and number of hold-outs, each drawn anew.
    """

    def __init__(self, data: ImageData, local: Local, inner: Inner) -> None:
        self._local = local
        seeds = [inner.seed, *(seed_for(inner.seed, k) % 2**32 for k in range(1, inner.folds))]
        self._folds = [data.held_out(seed) for seed in seeds]
        labels = data.probe.labels.cpu().numpy()
        held = [inner_holdout(np.arange(len(labels)), labels, seed=seed).test for seed in seeds]
        self._n_held = len(np.unique(np.concatenate(held)))

    def n_scored(self, inner: Inner) -> int:
        """Images that an inner score is over; those of several hold-outs once."""
        return self._n_held

    def scores(
        self, candidates: Sequence[Candidate], inner: Inner, watch: Watch
    ) -> Iterator[Score]:
        """Train candidates one after the other: a network fills a device by itself."""
        for candidate in candidates:
            try:
                accuracies = self._accuracies(candidate, inner, watch)
            except _Leaves:
                yield Score(candidate.number, None)
            except (DivergenceError, OutOfMemory) as error:
                yield Score(candidate.number, None, error)
            else:
                yield Score(candidate.number, float(np.mean(accuracies)))

    def _accuracies(self, candidate: Candidate, inner: Inner, watch: Watch) -> list[float]:
        number, epochs, n = candidate.number, candidate.cell.epochs, len(self._folds)
        looks, found = inner.looks(epochs), list[float]()

        def report(step: int, accuracy: float) -> None:
            if not watch.report(number, step, accuracy):
                raise _Leaves

        for k, data in enumerate(self._folds):

            def told(encoder: int, epoch: float, loss: float, beside: int = 1, k: int = k) -> None:
                watch.progress(number, (k + epoch / epochs) / n)

            def see(epoch: int, score: Callable[[], FoldScore]) -> None:
                if epoch in looks:
                    report(epoch, 100 * score().accuracy)

            found.append(_train(candidate, data, inner.seed, self._local, on_epoch=told, see=see))
            if inner.steps == "folds":
                report(k, found[-1])
        return found


class ImageOuter:
    """Training images to search in and the official test images; as in ``Outer``.

    Args:
        data: the images, on the device to train on.
        local: the machine.
        inner: the hold-outs, made once.
    """

    def __init__(self, data: ImageData, local: Local, inner: Inner) -> None:
        self._data, self._local = data, local
        self.part = ImagePart(data, local, inner)
        self.n_test = len(data.test)

    def score(self, candidate: Candidate, seed: int) -> float:
        """Train on all training images, score on the test images."""
        return _train(candidate, self._data, seed, self._local, on_epoch=_silent)


def _silent(encoder: int, epoch: float, loss: float, beside: int = 1) -> None:
    """Nobody waits for a word."""


def _train(
    candidate: Candidate,
    data: ImageData,
    seed: int,
    local: Local,
    *,
    on_epoch: OnEpoch,
    see: See | None = None,
) -> float:
    """Accuracy in percent."""
    cell = cast("ImageConfig", candidate.cell)
    hardware.use_threads(local.threads or local.cores, 0, 0)
    with tempfile.TemporaryDirectory() as folder:
        place = Place(
            Path(folder) / "trial.json", local.device, local.threads, local.cores, PLAIN, ""
        )
        found = run_seed(Run(cell, seed), data, place, on_epoch, see)
    return 100 * found.folds[0].accuracy
