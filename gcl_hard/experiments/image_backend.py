"""Images, as experiments ask for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.evaluation import inner_holdout
from gcl_hard.experiments import image_data, machine
from gcl_hard.experiments.image_cell import ImageCell
from gcl_hard.experiments.image_data import ImageData
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.place import Place, Running
from gcl_hard.experiments.seed_score import OnEpoch, Unscored
from gcl_hard.images import datasets
from gcl_hard.methods import method
from gcl_hard.training.loop import memory_for


class ImageBackend:
    """Image sets, ResNets and the one official split; methods as in ``Backend``."""

    def canonical_name(self, name: str) -> str:
        """As the set is commonly spelt."""
        return datasets.canonical_name(name)

    def key(self, cell: ImageCell) -> tuple[str, str, str, int | None]:
        """Data set, splits and subset."""
        return cell.dataset, cell.pretrain_split, cell.probe_split, cell.subset

    def load(
        self, cell: ImageCell, data_dir: Path | None, device: torch.device, running: Running
    ) -> ImageData:
        """The splits that the cell names, on the device; with workers only the test images."""
        with memory_for(
            lambda: (
                f"{cell.dataset} does not fit into the memory of {device}: --workers N keeps its "
                f"training images on the CPU"
            )
        ):
            return image_data.image_data(cell, data_dir, device, stay=running.workers > 0)

    def files(self, cell: ImageCell, data_dir: Path | None) -> list[Path]:
        """The archive, or the first files of a folder: of many thousands enough to tell."""
        path = datasets.locate(cell.dataset, data_dir=data_dir)
        if path is None:
            return []
        if path.is_dir():
            parts = (path / "train", path / "val", path / "val" / "val_annotations.txt")
            return sorted(
                [*(f for f in path.iterdir() if f.is_file()), *filter(Path.exists, parts)]
            )
        return [path]

    def facts(self, data: ImageData) -> dict[str, Any]:
        """Sizes and a digest."""
        return image_data.facts(data)

    def resolved(self, cell: ImageCell, facts: dict[str, Any]) -> dict[str, Any]:
        """The size of views and the stem that goes with it."""
        size = cell.size or int(facts["side"])
        if cell.is_floor and cell.method != "untrained":
            return {"size": size}
        return {"size": size, "stem": cell.stem_at(size)}

    def size(self, data: ImageData) -> tuple[int, int]:
        """Images to train on, and to score."""
        return len(data.pretrain), len(data.probe) + len(data.test)

    def check(self, cell: ImageCell, data: ImageData, *, inner: bool, device: torch.device) -> None:
        """Labels where they are read, batches that fit, a precision that the device has."""
        if inner:
            data = data.held_out(0)
        for name, part in ((cell.probe_split, data.probe), ("test", data.test)):
            if bool((part.labels < 0).any()):
                remedy = "remove these images" if name == "test" else "choose another --probe-split"
                raise InputError(
                    f"{cell.dataset}: split {name} has images without labels, and the probe reads "
                    f"labels; {remedy}"
                )
        _check_classes(cell, data)
        if cell.is_floor:
            return
        if cell.reads_labels and bool((data.pretrain.labels < 0).any()):
            raise InputError(
                f"{cell.dataset}: split {cell.pretrain_split} has images without labels, and "
                f"{cell.label_reader} reads labels in training; choose another --pretrain-split, "
                f"or train without labels (ucl, dcl, hucl or hcl, positives view, no class pairs, "
                f"no balanced batches)"
            )
        if method(cell.method).admit == "other_labels" and not _several(data.pretrain.labels):
            raise InputError(
                f"{cell.dataset}: split {cell.pretrain_split} is of one class only, and "
                f"{cell.method} takes its negatives from other classes"
            )
        if cell.batch_size > len(data.pretrain):
            raise InputError(
                f"batch-size {cell.batch_size} is larger than the {len(data.pretrain)} images of "
                f"{cell.dataset} to train on: lower it"
            )
        if cell.precision == "fp16" and device.type != "cuda":
            raise InputError("precision fp16 needs a CUDA device; bf16 works on CPUs too")

    def run(
        self, jobs: Sequence[Job], data: ImageData, place: Place, on_epochs: Sequence[OnEpoch]
    ) -> Iterator[Unscored]:
        """Train and score one after the other: a network fills the device by itself."""
        from gcl_hard.experiments import image_protocol

        machine.use_threads(place.threads or place.cores, 0, 0)
        for job, on_epoch in zip(jobs, on_epochs, strict=True):
            yield Unscored(job, image_protocol.run_seed(job, data, place, on_epoch))


def _check_classes(cell: ImageCell, data: ImageData) -> None:
    """What the probe would refuse hours later."""
    if not _several(data.probe.labels):
        raise InputError(f"{cell.dataset}: the training images are of one class only")
    strange = data.test.labels.cpu()[~torch.isin(data.test.labels.cpu(), data.probe.labels.cpu())]
    if len(strange):
        raise InputError(
            f"{cell.dataset}: class {int(strange[0])} is among the test images and not among the "
            f"{len(data.probe)} images of {cell.probe_split} that the probe is trained on"
        )
    chooses = cell.probe == "logistic" or len(cell.probe_lr) > 1
    if cell.method == "majority" or not chooses:
        return
    labels = data.probe.labels.cpu().numpy()
    try:
        inner_holdout(np.arange(len(labels)), labels, seed=0)
    except InputError as error:
        raise InputError(
            f"{cell.dataset}: the probe is chosen on a part of its {len(labels)} training images: "
            f"{error}; give more of them, or one --probe-lr, which needs no choice"
        ) from error


def _several(labels: Tensor) -> bool:
    """Whether there are two classes or more."""
    return bool((labels != labels[0]).any())
