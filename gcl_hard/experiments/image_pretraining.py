"""Pre-training: an encoder of images, of a folder without labels, or of some."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path, PurePath
from typing import Any, cast

import numpy as np
import torch

from gcl_hard.errors import DivergenceError, InputError
from gcl_hard.experiments.custom import UserParts
from gcl_hard.experiments.image_data import ImageData, digest_of_images
from gcl_hard.experiments.image_training import build, check_encoder, encoder_state, fit_run
from gcl_hard.experiments.pretraining import SCHEMA_VERSION, drawn, trained_once, without_folder
from gcl_hard.images import Split
from gcl_hard.images.datasets import load, load_folder
from gcl_hard.images.folders import UNLABELLED
from gcl_hard.io import atomic_write
from gcl_hard.methods import method
from gcl_hard.runs import hardware
from gcl_hard.runs.engine import on_interrupt
from gcl_hard.runs.experiment import RunContext, RunOptions, TrainedRun
from gcl_hard.runs.logs import opened_log
from gcl_hard.runs.plan import Run
from gcl_hard.runs.progress import bar_of
from gcl_hard.settings.base import defaults
from gcl_hard.settings.images import RESNETS, ImageConfig
from gcl_hard.settings.pretraining import IMAGE_OTHERS, PretrainOptions
from gcl_hard.stored import load_torch
from gcl_hard.training.checkpoint import Checkpoint

CHECKED = 64
"""Images whose embeddings are checked before an encoder is saved."""


def pretrain_images(options: PretrainOptions) -> None:
    """Train an encoder of images, or go on from its checkpoint, and save it.

    All images of a folder are trained on, none is split off, and no probe is trained. Labels are
    read where the method reads some: the folders' names, or a file of labels, by which the others
    are images of no known class.

    Args:
        options: what to train, and where to save it.

    Raises:
        InputError: for images that are not available, labels that are missing, or a file of other
            settings.
        DivergenceError: if a loss, or an embedding at the end, is not finite.
    """
    own = options.parts or UserParts()
    config = cast("ImageConfig", own.resolved(cast("ImageConfig", options.config)))
    hardware.use_threads(options.threads, math.inf, 1, hardware.available_cores())
    split, names = _images(config, options)
    chosen = drawn(len(split), options.subset, config.data_seed, "images")
    if len(chosen) < len(split):
        split = split.take(chosen)
    _check(config, split)
    print(_told(config, options, split, names))
    device = hardware.choose_device(options.device)
    data_digest = digest_of_images(split)
    read = {k: v for k, v in asdict(config).items() if k not in IMAGE_OTHERS}
    run = {
        "config": without_folder(read), "seed": options.seed, "n": len(split), "data": data_digest,
    }  # fmt: skip
    on_cpu = options.loader_workers > 0
    part = split if on_cpu else split.to(device)
    test = split.take(torch.arange(min(CHECKED, len(split)))).to(device)
    data = ImageData(
        config.dataset, part, part, test, torch.arange(len(split)), names or ("unlabelled",)
    )
    if config.encoder not in RESNETS:
        check_encoder(config, data, own.parts)
    trained_once(options, run, _run_of, lambda: _train(options, config, data, run, own))


def _images(config: ImageConfig, options: PretrainOptions) -> tuple[Split, tuple[str, ...]]:
    """The images to train on, with the names of their classes, if any."""
    path, reads = Path(options.source), config.reads_labels
    if path.is_dir():
        classes = reads and options.labels is None
        found = load_folder(path, labels=options.labels, classes=classes)
    elif options.source.endswith("/"):
        raise InputError(f"there is no folder {options.source}")
    elif options.labels is not None:
        raise InputError(
            f"labels are of the images of a folder, and {options.source} is a set with its own"
        )
    else:
        wanted = (config.pretrain_split,)
        found = load(config.dataset, data_dir=options.data_dir, splits=wanted)
    (split,) = found.splits.values()
    return split, found.class_names


def _check(config: ImageConfig, split: Split) -> None:
    """Refuse a batch that is too large, and labels that are missing where all are read."""
    labels = split.labels
    if config.batch_size > len(split):
        raise InputError(
            f"batch-size {config.batch_size} is larger than the {len(split)} images to train on: "
            f"lower it"
        )
    if not config.reads_labels:
        return
    known = labels[labels != UNLABELLED]
    if not bool((known != known[:1]).any()):
        raise InputError(
            f"{config.label_reader} reads labels, and the images have "
            f"{'one class' if len(known) else 'none'}: give --labels FILE.csv, or a method without "
            f"labels, such as hucl"
        )
    if len(known) < len(labels) and (config.class_pairs or config.balanced):
        raise InputError(
            f"{len(labels) - len(known)} of {len(labels)} images have no label, and class-pairs "
            f"and balanced batches need those of all: leave them out"
        )


def _told(
    config: ImageConfig, options: PretrainOptions, split: Split, names: tuple[str, ...]
) -> str:
    """What the images and their labels were taken for."""
    said = f"{options.source}: {len(split)} images of {split.images.shape[-1]} pixels"
    if not config.reads_labels:
        return f"{said}; {config.method} reads no labels"
    known = int((split.labels != UNLABELLED).sum())
    some = ", ".join(names[:5]) + ", …" * (len(names) > 5)
    return f"{said}; labels of {known}, {len(names)} classes ({some})"


def _run_of(path: Path) -> dict[str, Any]:
    """What an earlier command trained."""
    saved = load_torch(path, "a pre-trained encoder of images", {"about": dict[str, Any]})
    run: dict[str, Any] = saved["about"].get("run", {})
    usual = {name: one for name, one in defaults(ImageConfig).items() if name not in IMAGE_OTHERS}
    return {**run, "config": usual | run.get("config", {})}


def _train(
    options: PretrainOptions,
    config: ImageConfig,
    data: ImageData,
    identity: dict[str, Any],
    own: UserParts,
) -> None:
    run = Run(config, options.seed)
    found = TrainedRun(run)
    unknown = UNLABELLED if method(config.method).label_aware else None
    encoding = build(config, data, options.seed, own.parts, unknown=unknown)
    checkpoint = Checkpoint(
        options.output.with_suffix(".ckpt"), identity, resume=not options.force,
        every=60 * options.checkpoint_minutes,
    )  # fmt: skip
    context = RunContext(
        output=options.output.absolute().parent, data_dir=options.data_dir,
        device=str(data.test.images.device), threads=options.threads, cores=1, versions={},
        experiment_of=_no_experiment, options=RunOptions(
            monitor_every=0, loader_workers=options.loader_workers
        ),
    )  # fmt: skip
    total = config.epochs * len(data.pretrain)
    with (
        opened_log(options.log or (), options.output.absolute().parent, options.logger) as log,
        bar_of("training", " images", total) as bar,
        on_interrupt(lambda *_: checkpoint.stop()),
    ):

        def report(_: Run, share: float, loss: float) -> bool:
            bar.update(round(share * total) - bar.n)
            log.epoch(options.output.stem, share * config.epochs, loss)
            if not math.isnan(loss):
                bar.set_postfix(loss=f"{loss:.3f}")
            return True

        fit_run(
            found, data, encoding, context, report=report, on_epoch_end=None, checkpoint=checkpoint
        )
    if not np.isfinite(encoding.embed(data.test, config)).all():
        checkpoint.remove()
        raise DivergenceError(
            f"after the last step the embeddings are not finite ({run}); no encoder was saved. "
            f"Lower lr or beta, or raise temperature"
        )
    content = encoder_state(run, encoding, data.side) | {
        "schema_version": SCHEMA_VERSION,
        "data": identity["data"],
        "about": {
            "run": identity, "losses": [*found.losses], "n": len(data.pretrain),
            "class_names": [*data.class_names], "device": hardware.device_name(
                data.test.images.device
            ),
            "versions": hardware.versions(),
        },
    }  # fmt: skip
    content["config"]["dataset"] = PurePath(config.dataset).name
    with atomic_write(options.output) as file:
        torch.save(content, file)
    checkpoint.remove()
    print(
        f"{options.output}: {len(data.pretrain)} images, {config.epochs} epochs, loss "
        f"{found.losses[-1]:.3f}"
    )


def _no_experiment(config: Any) -> Any:
    raise AssertionError(config)
