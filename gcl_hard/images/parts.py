"""The images of an experiment: for pretraining, for the probe, and for the test."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gcl_hard.core.seeds import seeded
from gcl_hard.errors import InputError
from gcl_hard.evaluation import inner_holdout
from gcl_hard.images import KNOWN, ImageSet, Split
from gcl_hard.images.datasets import load
from gcl_hard.images.settings import ImageConfig

SUBSET_SEED = 0
NOISE_SALT = 7


@dataclass(frozen=True, eq=False)
class ImageData:
    """Images of an experiment; the test images are on the training device.

    Attributes:
        name: name of the set.
        pretrain: images that the encoder is trained on.
        probe: images that the probe is trained on; the same object as ``pretrain`` for the same
            split.
        test: images that the probe is scored on, once.
        shared: int64 [n_probe], position of each probe image in ``pretrain``; −1 if not there.
        class_names: names of the classes, by label.
    """

    name: str
    pretrain: Split
    probe: Split
    test: Split
    shared: Tensor
    class_names: tuple[str, ...]

    @property
    def n_classes(self) -> int:
        """C."""
        return len(self.class_names)

    @property
    def side(self) -> int:
        """Side of an image in pixels."""
        return self.test.images.shape[-1]

    @cached_property
    def seen_tests(self) -> int:
        """Test images that are training images, of the encoder or of the probe, pixel by pixel."""
        parts = [self.pretrain] if self.probe is self.pretrain else [self.pretrain, self.probe]
        seen = {name for part in parts for name in _digests(part.images)}
        return sum(name in seen for name in _digests(self.test.images))

    def held_out(self, seed: int) -> ImageData:
        """The data with a fifth of the probe's images as test images, hidden from training.

        Raises:
            InputError: if a class is too small to be split.
        """
        labels = self.probe.labels.cpu().numpy()
        fold = inner_holdout(np.arange(len(labels)), labels, seed=seed)
        kept, hidden = torch.from_numpy(fold.train), torch.from_numpy(fold.test)
        seen = torch.ones(len(self.pretrain), dtype=torch.bool)
        positions = self.shared[hidden]
        seen[positions[positions >= 0]] = False
        probe = self.probe.take(kept)
        same = self.pretrain is self.probe
        return replace(
            self,
            pretrain=probe if same else self.pretrain.take(seen.nonzero().flatten()),
            probe=probe,
            test=self.probe.take(hidden).to(self.test.images.device),
            shared=torch.full((len(kept),), -1),
        )


def _digests(images: Tensor) -> Iterator[bytes]:
    """A digest of each image."""
    return (hashlib.blake2b(image.tobytes()).digest() for image in images.cpu().numpy())


def image_data(
    config: ImageConfig,
    data_dir: Path | None,
    device: torch.device,
    *,
    on_cpu: bool = False,
    own: ImageSet | None = None,
) -> ImageData:
    """The images of a configuration.

    Args:
        config: names the set, its splits and classes, how many training images to keep, and the
            share of wrong labels among those that training reads.
        data_dir: an offline mirror, or None.
        device: for the images.
        on_cpu: whether all but the test images stay on the CPU, for lack of memory on the device.
        own: the user's own set, in place of a named one.

    Returns:
        The images; a subset is the same stratified draw for every configuration.

    Raises:
        InputError: if the set is not available, or lacks the splits or images of the configuration.
    """
    names = dict.fromkeys((config.pretrain_split, config.probe_split, "test"))
    found = own or load(config.dataset, data_dir=data_dir, splits=tuple(names))
    if config.classes is not None:
        found = _of_classes(found, config.classes)
    kept = {
        name: _subset(found, name, config.subset)
        for name in (config.pretrain_split, config.probe_split)
    }
    parts = {
        name: found.split(name) if index is None else found.split(name).take(index)
        for name, index in kept.items()
    }
    if not on_cpu:
        parts = {name: part.to(device) for name, part in parts.items()}
    pretrain, probe = parts[config.pretrain_split], parts[config.probe_split]
    if config.label_noise:
        pretrain = replace(
            pretrain,
            labels=mislabelled(
                pretrain.labels, config.label_noise, found.n_classes, seed=config.data_seed
            ),
        )
    return ImageData(
        name=found.name, pretrain=pretrain, probe=probe, test=found.split("test").to(device),
        shared=_shared(config, found, kept), class_names=found.class_names,
    )  # fmt: skip


def _of_classes(found: ImageSet, n: int) -> ImageSet:
    """The images of the first n classes, and those without a label."""
    if n > found.n_classes:
        raise InputError(f"classes {n} is more than the {found.n_classes} of {found.name}")
    splits = {
        name: part.take(torch.where(part.labels < n)[0]) for name, part in found.splits.items()
    }
    return replace(found, splits=splits, class_names=found.class_names[:n])


def mislabelled(labels: Tensor, share: float, n_classes: int, *, seed: int) -> Tensor:
    """Labels of which a share is wrong, each another class, all equally likely.

    Args:
        labels: int64 [n]; −1, no label, stays.
        share: share of the labelled images, in [0, 1); rounded to whole images.
        n_classes: C ≥ 2.
        seed: ≥ 0, of the images and their classes.

    Returns:
        int64 [n], on the same device.

    Example:
        >>> labels = torch.arange(10) % 2
        >>> int((mislabelled(labels, 0.4, 2, seed=0) != labels).sum())
        4
    """
    generator = seeded(seed, NOISE_SALT)
    labelled = (labels >= 0).nonzero().flatten().cpu()
    order = labelled[torch.randperm(len(labelled), generator=generator)]
    chosen = order[: round(share * len(labelled))].to(labels.device)
    shift = torch.randint(1, n_classes, (len(chosen),), generator=generator).to(labels.device)
    found = labels.clone()
    found[chosen] = (labels[chosen] + shift) % n_classes
    return found


def _subset(found: ImageSet, name: str, n: int | None) -> Tensor | None:
    """Ids of a stratified draw, ascending; None for all."""
    if n is None:
        return None
    labels = found.split(name).labels
    if n > len(labels):
        raise InputError(f"subset {n} is more than the {len(labels)} images of {name}")
    if n == len(labels):
        return None
    from sklearn.model_selection import train_test_split

    try:
        ids, _ = train_test_split(
            np.arange(len(labels)), train_size=n, stratify=labels.numpy(), random_state=SUBSET_SEED
        )
    except ValueError as error:
        raise InputError(f"subset {n} of {len(labels)} images: {error}") from error
    return torch.from_numpy(np.sort(ids))


def _shared(config: ImageConfig, found: ImageSet, kept: dict[str, Tensor | None]) -> Tensor:
    """Positions of the probe's images in the pretraining split."""
    n_probe = len(found.split(config.probe_split))
    probe = kept[config.probe_split]
    probe = torch.arange(n_probe) if probe is None else probe
    if config.pretrain_split == config.probe_split:
        return torch.arange(len(probe))
    if not config.pretrain_split.startswith(f"{config.probe_split}+"):
        return torch.full((len(probe),), -1)
    position = torch.full((len(found.split(config.pretrain_split)),), -1)  # "a+b" begins with "a"
    pretrain = kept[config.pretrain_split]
    pretrain = torch.arange(len(position)) if pretrain is None else pretrain
    position[pretrain] = torch.arange(len(pretrain))
    return position[probe]


HASHED = 2**12
"""Images that are hashed at a time, which may be mapped from the disk."""


def digest_of_images(*parts: Split) -> str:
    """Sixteen hexadecimal digits of the SHA-256 of the pixels and labels of some images."""
    digest = hashlib.sha256()
    for part in parts:
        for piece in torch.split(part.images, HASHED):
            digest.update(piece.cpu().contiguous().numpy().data)
        digest.update(part.labels.cpu().numpy().data)
    return digest.hexdigest()[:16]


def image_facts(data: ImageData) -> dict[str, Any]:
    """Sizes and a digest of the images themselves.

    ``n_official`` and ``n_official_test`` are how many training and test images the whole set has,
    where that is known; ``classes`` are the names of those of other sets.
    """
    parts = {id(part): part for part in (data.pretrain, data.probe, data.test)}
    known = KNOWN.get(data.name)
    return {
        "n_pretrain": len(data.pretrain),
        "n_train": len(data.probe),
        "n_test": len(data.test),
        "n_official": None if known is None else known.n_train,
        "n_official_test": None if known is None else known.n_test,
        "n_classes": data.n_classes,
        **({} if known else {"classes": [*data.class_names]}),
        "side": data.side,
        "digest": digest_of_images(*parts.values()),
    }
