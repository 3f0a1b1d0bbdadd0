"""Pre-training on images of a folder, with or without labels, or of a set."""

from __future__ import annotations

import math
from pathlib import Path
from typing import cast

import torch

from gcl_hard.errors import InputError
from gcl_hard.experiments import hardware
from gcl_hard.experiments.custom import UserParts
from gcl_hard.experiments.pretraining import CHECKED, Prepared, Pretraining, drawn
from gcl_hard.experiments.pretraining_settings import PretrainOptions
from gcl_hard.experiments.run import Run
from gcl_hard.images.datasets import Split, load_folder, load_images
from gcl_hard.images.folders import UNLABELLED
from gcl_hard.images.parts import ImageData, digest_of_images
from gcl_hard.images.settings import RESNETS, ImageConfig
from gcl_hard.images.training import build, check_encoder, encoder_state, pairs_of
from gcl_hard.losses.methods import method


def describe(options: PretrainOptions) -> Pretraining:
    """The images to train an encoder on.

    All images of a folder are used: none is split off, and no probe is trained. If the method reads
    labels, they are the names of the folders, or come from a file, whose missing images have an
    unknown class.

    Raises:
        InputError: for images that are not available, or labels that are missing.
    """
    user = options.parts or UserParts()
    config = cast("ImageConfig", user.resolved(cast("ImageConfig", options.config)))
    hardware.use_threads(options.threads, math.inf, 1, hardware.available_cores())
    split, names = _images(config, options)
    chosen = drawn(len(split), options.subset, config.data_seed, "images")
    if len(chosen) < len(split):
        split = split.take(chosen)
    _check(config, split)
    known = int((split.labels != UNLABELLED).sum())
    print(
        f"{options.source}: {len(split)} images of {split.images.shape[-1]} pixels; labels of "
        f"{known}, {len(names)} classes"
    )
    run, digest = Run(config, options.seed), digest_of_images(split)
    names = names or ("unlabelled",)

    def prepare(device: torch.device) -> Prepared:
        part = split if options.loader_workers else split.to(device)
        checked = split.take(torch.arange(min(CHECKED, len(split)))).to(device)
        data = ImageData(config.dataset, part, part, checked, torch.arange(len(split)), names)
        if config.encoder not in RESNETS:
            check_encoder(config, data, user.parts)
        unknown = UNLABELLED if method(config.method).label_aware else None
        encoding = build(config, data, options.seed, user.parts, unknown=unknown)
        return Prepared(
            encoding.model, pairs_of(config, data, part, encoding, options.loader_workers),
            len(split) // config.batch_size, encoding.view_seed,
            lambda: encoding.embed(checked, config),
            lambda: encoder_state(run, encoding, data.side) | {"data": digest},
        )  # fmt: skip

    return Pretraining(run, "images", len(split), digest, prepare, facts={"class_names": [*names]})


def _images(config: ImageConfig, options: PretrainOptions) -> tuple[Split, tuple[str, ...]]:
    """The images to train on, with the names of their classes, if any."""
    path, reads = Path(options.source), config.reads_labels
    if path.is_dir():
        classes = reads and options.labels is None
        image_set = load_folder(path, labels=options.labels, classes=classes)
    elif options.source.endswith("/"):
        raise InputError(f"there is no folder {options.source}")
    elif options.labels is not None:
        raise InputError(
            f"labels are of the images of a folder, and {options.source} is a set with its own"
        )
    else:
        wanted = (config.pretrain_split,)
        image_set = load_images(config.dataset, data_dir=options.data_dir, splits=wanted)
    (split,) = image_set.splits.values()
    return split, image_set.class_names


def _check(config: ImageConfig, split: Split) -> None:
    """Refuse images of which no two classes are known, if labels are read."""
    labels = split.labels
    if not config.reads_labels:
        return
    known = labels[labels != UNLABELLED]
    if not bool((known != known[:1]).any()):
        raise InputError(
            f"{config.method} with these settings reads labels, and the images have "
            f"{'one class' if len(known) else 'none'}: give --labels FILE.csv, or a method without "
            f"labels, such as hucl"
        )
