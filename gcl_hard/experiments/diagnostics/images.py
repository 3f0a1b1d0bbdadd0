"""What a look at an image encoder sees: batches of labelled training images, always the same."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from gcl_hard.experiments.diagnostics.sample import SALT, Batch, Sample, finite
from gcl_hard.experiments.diagnostics.settings import looked_at
from gcl_hard.experiments.diagnostics.watch import Sampler, Seen, Watch
from gcl_hard.experiments.image_cell import ImageCell
from gcl_hard.images import ClassPairs, ImageContrast, Split, Views
from gcl_hard.models import evaluating
from gcl_hard.seeds import seed_for, seeded

ANCHORS = 1024
"""Embeddings of a look, or those of one batch if that has more."""


def image_sampler(
    cell: ImageCell, split: Split, views: Views, precision: torch.dtype
) -> Sampler[ImageContrast]:
    """Look at views of some images, and of others of their classes.

    So positives come from augmentation and label, whatever the method.

    Args:
        cell: of the encoder; its ``data_seed`` decides what is drawn, so that all methods and seeds
            are looked at by the same views.
        split: labelled training images.
        views: with the normalisation of the training, on the device.
        precision: to encode in.

    Returns:
        What makes a :class:`Sample` of a model.
    """
    draws = seeded(cell.data_seed, SALT)
    size = min(cell.batch_size, len(split))
    n = min(max(1, ANCHORS // (2 * size)), len(split) // size)
    index = torch.randperm(len(split), generator=draws)[: n * size]
    partners = ClassPairs(split.labels).draw(index, draws)
    device = views.mean.device
    images, labels = (part.to(device) for part in (split.images[index], split.labels[index]))
    both = torch.cat([images, split.images[partners].to(device)])
    made = torch.split(views(both, seed=seed_for(cell.data_seed, SALT, 1)), size)

    def sample(model: ImageContrast) -> Sample | None:
        half = precision != torch.float32
        with evaluating(model), torch.autocast(device.type, dtype=precision, enabled=half):
            z: list[Tensor] = [model.project(view) for view in made]
        embedded = model.embed(images, views, batch_size=size, precision=precision)
        if not finite(embedded, *z):
            return None
        batches = [
            Batch.two_view(
                z1, z2, y, temperature=model.loss.temperature, objective=model.loss.objective
            )
            for z1, z2, y in zip(z[:n], z[n:], torch.split(labels, size), strict=True)
        ]
        return Sample(batches, embedded, labels)

    return sample


class KeptWatch:
    """Looks at an image encoder that are kept with its checkpoint.

    Args:
        cell: of the encoder.
        model: in training.
        split: labelled training images.
        views: with the normalisation of the training, on the device.
        precision: to encode in.
        every: epochs between looks, ≥ 1.
    """

    def __init__(
        self,
        cell: ImageCell,
        model: ImageContrast,
        split: Split,
        *,
        views: Views,
        precision: torch.dtype,
        every: int,
    ) -> None:
        self._model, self._epochs = model, looked_at(every, cell.epochs)
        self._watch = Watch(cell.epochs, partial(image_sampler, cell, split, views, precision))

    def look(self, epoch: int, notes: dict[str, Any]) -> None:
        """Look after an epoch, if it is one to look after.

        Args:
            epoch: from 1.
            notes: of the checkpoint, with the looks before.
        """
        if epoch not in self._epochs:
            return
        watch = self._watch
        watch.looks, watch.seconds = notes.get("diagnostics", ([], 0.0))
        watch.look(epoch, self._model, self._model.loss.sampler.current)
        notes["diagnostics"] = [watch.looks, watch.seconds]

    def seen(self, notes: dict[str, Any]) -> Seen:
        """What there is after the last epoch, which may have ended before a resumption."""
        looks, seconds = notes["diagnostics"]
        sample = None if self._watch.points else self._watch.sample(self._model)
        points = self._watch.points if sample is None else sample.batches[0].points()
        return Seen(looks, seconds, points)
