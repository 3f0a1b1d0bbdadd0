"""Batches of images for snapshots of the theory's quantities."""

from __future__ import annotations

import torch
from torch import Tensor

from gcl_hard.core.seeds import seed_for, seeded
from gcl_hard.functional.negatives import all_finite
from gcl_hard.images.augment import Views
from gcl_hard.images.datasets import Split
from gcl_hard.images.models import ImageContrast
from gcl_hard.images.settings import ImageConfig
from gcl_hard.losses.pairing import ClassPairs
from gcl_hard.models import evaluating
from gcl_hard.theory.diagnostics import SALT, Batch, Sample, Sampler

ANCHORS = 1024
"""Embeddings in a snapshot; those of one batch if it has more."""


def image_sampler(
    config: ImageConfig, split: Split, views: Views, precision: torch.dtype
) -> Sampler[ImageContrast]:
    """Sampler of views of some images, and of other images of their classes.

    Positives come from augmentation and label, whatever the method.

    Args:
        config: its ``data_seed`` decides what is drawn: all methods and seeds are
            measured on the same views.
        split: labelled training images.
        views: with the normalisation of the training, on the device.
        precision: precision of the encoding.

    Returns:
        A function from a model to a :class:`Sample`.
    """
    draws = seeded(config.data_seed, SALT)
    batch_size = min(config.batch_size, len(split))
    n = min(max(1, ANCHORS // (2 * batch_size)), len(split) // batch_size)
    index = torch.randperm(len(split), generator=draws)[: n * batch_size]
    partners = ClassPairs(split.labels).draw(index, draws)
    device = views.mean.device
    images, labels = (part.to(device) for part in (split.images[index], split.labels[index]))
    both = torch.cat([images, split.images[partners].to(device)])
    view_parts = torch.split(views(both, seed=seed_for(config.data_seed, SALT, 1)), batch_size)

    def sample(model: ImageContrast) -> Sample | None:
        half = precision != torch.float32
        with evaluating(model), torch.autocast(device.type, dtype=precision, enabled=half):
            z: list[Tensor] = [model.project(view) for view in view_parts]
        embedded = model.embed(images, views, batch_size=batch_size, precision=precision)
        if not all_finite([embedded, *z]):
            return None
        batches = [
            Batch.two_view(model.loss, z1, z2, y)
            for z1, z2, y in zip(z[:n], z[n:], torch.split(labels, batch_size), strict=True)
        ]
        return Sample(batches, embedded, labels)

    return sample
