"""The images of an experiment: for pretraining, probe and test."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from gcl_hard.core.seeds import seeded
from gcl_hard.errors import InputError
from gcl_hard.evaluation.folds import ThreeWaySplit, inner_holdout
from gcl_hard.evaluation.retrieval import KS
from gcl_hard.evaluation.splits import class_draw
from gcl_hard.experiments.protocols import UNSEEN
from gcl_hard.experiments.run import Run
from gcl_hard.images import KNOWN
from gcl_hard.images.datasets import ImageSet, Split, load_images
from gcl_hard.images.settings import ImageConfig

SUBSET_SEED = 0
NOISE_SALT = 7


@dataclass(frozen=True, eq=False)
class ImageData:
    """Images of an experiment; the test images are on the training device.

    Attributes:
        name: name of the set.
        pretrain: training images of the encoder.
        probe: training images of the probe; the same object as ``pretrain`` for the same split.
        test: test images of the probe.
        shared: int64 [n_probe], position of each probe image in ``pretrain``; −1 if absent.
        class_names: names of the classes, by label.
        valid: test images of the classes to choose on, of a draw of classes; else None.
    """

    name: str
    pretrain: Split
    probe: Split
    test: Split
    shared: Tensor
    class_names: tuple[str, ...]
    valid: Split | None = None

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
        """Number of test images identical to a training image of the encoder or the probe."""
        parts = [self.pretrain] if self.probe is self.pretrain else [self.pretrain, self.probe]
        seen = {name for part in parts for name in _digests(part.images)}
        return sum(name in seen for name in _digests(self.test.images))

    @property
    def embedded(self) -> dict[str, Split]:
        """The images that are embedded after training."""
        first = {"train": self.probe} if self.valid is None else {"valid": self.valid}
        return {**first, "test": self.test}

    def of_run(self, run: Run) -> ImageData:
        """The images of a run; of an inner one without the test images.

        Under ``unseen``, training images of the classes to train on, and test images of others.

        Raises:
            InputError: for too few classes or images to draw from.
        """
        if run.config.protocol != UNSEEN:
            return self.held_out(run.seed) if run.inner else self
        draw = self.draw(run)
        valid, test = (self.test.take(torch.from_numpy(ids)) for ids in draw[1:])
        seen = self.test.labels[torch.from_numpy(draw.train)].to(self.pretrain.labels.device)
        train = self.pretrain.take(torch.isin(self.pretrain.labels, seen).nonzero().flatten())
        if not len(train):
            raise InputError(f"{self.name}: no training images have classes of the test images")
        return replace(
            self, pretrain=train, probe=train, test=valid if run.inner else test, valid=valid,
            shared=torch.arange(len(train)),
        )  # fmt: skip

    def draw(self, run: Run) -> ThreeWaySplit:
        """Ids of test images of the classes to train on, to choose on and to test on, of a run
        under ``unseen``: draw k is that of the seed k.
        """
        shares = cast("ImageConfig", run.config).shares
        assert shares is not None
        labels = self.test.labels.cpu().numpy()
        return class_draw(labels, run.seed, shares=shares, least=max(KS) + 1)

    def held_out(self, seed: int) -> ImageData:
        """The data with a fifth of the probe's images as test images, hidden from training.

        Raises:
            InputError: if a class is too small to split.
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
    image_set: ImageSet | None = None,
) -> ImageData:
    """The images of a configuration.

    Args:
        config: names the set, its splits and classes, the number of training images, and the share
            of wrong training labels.
        data_dir: an offline mirror, or None.
        device: device of the images.
        on_cpu: whether all but the test images stay on the CPU, to save device memory.
        image_set: a user-defined set, in place of a named one.

    Returns:
        The images; a subset is the same stratified draw for every configuration.

    Raises:
        InputError: if the set is not available, or lacks the splits or images of the configuration.
    """
    names = dict.fromkeys((config.pretrain_split, config.probe_split, "test"))
    image_set = image_set or load_images(config.dataset, data_dir=data_dir, splits=tuple(names))
    if config.classes is not None:
        image_set = _with_classes(image_set, config.classes)
    kept = {
        name: _subset(image_set, name, config.subset)
        for name in (config.pretrain_split, config.probe_split)
    }
    parts = {name: image_set.split(name) for name in kept}
    if config.subset is not None:
        parts = {name: part.take(kept[name]) for name, part in parts.items()}
    if not on_cpu:
        parts = {name: part.to(device) for name, part in parts.items()}
    pretrain, probe = parts[config.pretrain_split], parts[config.probe_split]
    if config.label_noise:
        pretrain = replace(
            pretrain,
            labels=mislabelled(
                pretrain.labels, config.label_noise, image_set.n_classes, seed=config.data_seed
            ),
        )
    return ImageData(
        name=image_set.name, pretrain=pretrain, probe=probe,
        test=image_set.split("test").to(device), shared=_shared(config, kept),
        class_names=image_set.class_names,
    )  # fmt: skip


def _with_classes(image_set: ImageSet, n: int) -> ImageSet:
    """The images of the first n classes, and unlabelled ones."""
    if n > image_set.n_classes:
        raise InputError(f"classes {n} is more than the {image_set.n_classes} of {image_set.name}")
    splits = {
        name: part.take(torch.where(part.labels < n)[0]) for name, part in image_set.splits.items()
    }
    return replace(image_set, splits=splits, class_names=image_set.class_names[:n])


def mislabelled(labels: Tensor, share: float, n_classes: int, *, seed: int) -> Tensor:
    """Labels of which a share is replaced by another class, all equally likely.

    Args:
        labels: int64 [n]; −1, no label, is kept.
        share: share of the labelled images, in [0, 1); rounded to whole images.
        n_classes: C ≥ 2.
        seed: seed of the draw, ≥ 0.

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
    noisy = labels.clone()
    noisy[chosen] = (labels[chosen] + shift) % n_classes
    return noisy


def _subset(image_set: ImageSet, name: str, n: int | None) -> Tensor:
    """Ids of a stratified draw, ascending."""
    labels = image_set.split(name).labels
    if n is None or n == len(labels):
        return torch.arange(len(labels))
    if n > len(labels):
        raise InputError(f"subset {n} is more than the {len(labels)} images of {name}")
    from sklearn.model_selection import train_test_split

    try:
        ids, _ = train_test_split(
            np.arange(len(labels)), train_size=n, stratify=labels.numpy(), random_state=SUBSET_SEED
        )
    except ValueError as error:
        raise InputError(f"subset {n} of {len(labels)} images: {error}") from error
    return torch.from_numpy(np.sort(ids))


def _shared(config: ImageConfig, kept: dict[str, Tensor]) -> Tensor:
    """Positions of the probe's images in the pretraining split; "a+b" begins with "a"."""
    pretrain, probe = kept[config.pretrain_split], kept[config.probe_split]
    if not f"{config.pretrain_split}+".startswith(f"{config.probe_split}+"):
        return torch.full((len(probe),), -1)
    at = torch.searchsorted(pretrain, probe).clamp(max=len(pretrain) - 1)
    return torch.where(pretrain[at] == probe, at, -1)


HASHED = 2**12
"""Images hashed at a time; they may be memory-mapped."""


def digest_of_images(*parts: Split) -> str:
    """Sixteen hexadecimal digits of the SHA-256 of pixels and labels."""
    digest = hashlib.sha256()
    for part in parts:
        for piece in torch.split(part.images, HASHED):
            digest.update(piece.cpu().contiguous().numpy().data)
        digest.update(part.labels.cpu().numpy().data)
    return digest.hexdigest()[:16]


def image_facts(data: ImageData) -> dict[str, Any]:
    """Sizes and a digest of the images.

    ``n_official`` and ``n_official_test`` are the official numbers of training and test images, if
    known; ``classes`` are the class names of other sets.
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
