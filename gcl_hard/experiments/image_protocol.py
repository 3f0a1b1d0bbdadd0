"""The protocol of images: pretrain on the training images, probe, read the test images once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gcl_hard.errors import DivergenceError, InputError
from gcl_hard.evaluation import FoldScore, ProbeRecipe, inner_holdout, linear_probe, weighted_knn
from gcl_hard.experiments.diagnostics.images import KeptWatch
from gcl_hard.experiments.diagnostics.watch import Seen
from gcl_hard.experiments.image_cell import ImageCell
from gcl_hard.experiments.image_data import ImageData
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.place import Place
from gcl_hard.experiments.seed_score import Clock, OnEpoch, SeedScore, weights_from
from gcl_hard.images import (
    ImageContrast,
    Split,
    ViewPair,
    ViewPairs,
    Views,
    channel_statistics,
    resnet,
)
from gcl_hard.places import written_whole
from gcl_hard.seeds import seed_for
from gcl_hard.training.checkpoint import Checkpoint
from gcl_hard.training.loop import memory_for, train

Floats = NDArray[np.float32]

HALF = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
NEIGHBOURS, TEMPERATURE = 200, 0.5  # of HCL's and H-SCL's code
QUERIES, SHARE = 2_000, 0.1  # of the monitoring curve: at most so many images, and this share
PIXELS_AT_A_TIME = 4096  # images


See = Callable[[int, Callable[[], FoldScore]], None]
"""Called after an epoch with what scores the encoder as it is then; may raise to end training."""


@dataclass(frozen=True)
class Encoding:
    """A cell's model with the views that it sees.

    Attributes:
        model: the encoder, its head and its loss.
        views: with the channel statistics of the images trained on.
        view_seed: of the random views.
    """

    model: ImageContrast
    views: Views
    view_seed: int

    def embed(self, split: Split, cell: ImageCell) -> Floats:
        """Embeddings of the images of a split."""
        z = self.model.embed(split.images, self.views, precision=HALF[cell.precision])
        found: Floats = z.cpu().numpy()
        return found


def views_of(cell: ImageCell, data: ImageData) -> Views:
    """The views of a cell, normalised by the images that its encoder is trained on."""
    mean, std = channel_statistics(data.pretrain.images)
    return Views(cell.view_recipe(), size=cell.size or data.side, mean=mean, std=std)


def build(cell: ImageCell, data: ImageData, seed: int) -> Encoding:
    """The untrained model of a cell; the global random state is left as it was.

    Whatever the method, the encoder starts from the same weights.

    Args:
        cell: the settings.
        data: decides sizes and statistics.
        seed: of weights and views.

    Returns:
        The model, on the device of the images.
    """
    size = cell.size or data.side
    loss = ImageCell(method="ucl").loss() if cell.is_floor else cell.loss()
    with weights_from(seed, 0) as view_seed:
        model = ImageContrast(
            resnet(cell.encoder, stem=cell.stem_at(size)), loss=loss,
            one_forward=cell.forward == "fused", channels_last=cell.channels_last,
        )  # fmt: skip
    device = data.test.images.device
    encoding = Encoding(model.to(device), views_of(cell, data).to(device), view_seed)
    if cell.compile and not cell.is_floor:
        encoding.model.encoder.compile()
    return encoding


def run_seed(
    job: Job, data: ImageData, place: Place, on_epoch: OnEpoch, see: See | None = None
) -> SeedScore:
    """Train and score one seed of a cell.

    Args:
        job: a cell of images and a seed; ``inner`` scores a fifth of the training images, held
            out of all training, in the place of the test images.
        data: the images, on the device to train on.
        place: where checkpoints and encoders are kept.
        on_epoch: progress.
        see: whoever looks at the encoder while it trains.

    Returns:
        One score, what it cost, and the monitoring curve.

    Raises:
        DivergenceError: if a loss or an embedding is not finite.
        OutOfMemory: if the device's memory does not hold a batch.
    """
    cell = job.cell
    assert isinstance(cell, ImageCell)
    if job.inner:
        data = data.held_out(job.seed)
    if cell.method == "majority":
        return SeedScore((majority(data),), (), 0.0, 0.0)
    if cell.method == "pixels":
        clock = Clock()
        views = views_of(cell, data)
        score = _probe(job, data, *(pixels(views, part) for part in (data.probe, data.test)))
        clock.evaluate()
        return SeedScore((score,), (), clock.seconds_train, clock.seconds_eval)
    encoding = build(cell, data, job.seed)
    fitted = _Fitted(Clock(), [], [])
    if not cell.is_floor:
        fitted = _fit(job, data, encoding, place, on_epoch, see=see)
    score = _scored(job, data, encoding)
    fitted.clock.evaluate()
    if place.running.save_encoder and not cell.is_floor:
        save_encoder(job, encoding, place)
    return SeedScore(
        (score,), tuple(fitted.losses[-1:]), fitted.clock.seconds_train, fitted.clock.seconds_eval,
        tuple((int(epoch), accuracy) for epoch, accuracy in fitted.curve), fitted.seen,
    )  # fmt: skip


def _scored(job: Job, data: ImageData, encoding: Encoding) -> FoldScore:
    """The encoder as it is now, by the probe."""
    cell = job.cell
    assert isinstance(cell, ImageCell)
    with memory_for(
        lambda: f"out of memory in embedding ({job}): use precision bf16 or a smaller encoder"
    ):
        embeddings = [encoding.embed(part, cell) for part in (data.probe, data.test)]
    if not all(np.isfinite(z).all() for z in embeddings):
        raise DivergenceError(
            f"embeddings are not finite after epoch {cell.epochs} ({job}); nothing of this run was "
            f"saved. Lower lr or beta, raise temperature, or use precision fp32"
        )
    return _probe(job, data, *embeddings)


@dataclass
class _Fitted:
    clock: Clock
    losses: list[float]
    curve: list[tuple[int, float]]
    seen: Seen | None = None


def _fit(
    job: Job,
    data: ImageData,
    encoding: Encoding,
    place: Place,
    on_epoch: OnEpoch,
    *,
    see: See | None,
) -> _Fitted:
    """Train, from a checkpoint if there is one to go on from."""
    cell = job.cell
    assert isinstance(cell, ImageCell)
    running, device = place.running, data.test.images.device
    run = {**asdict(cell), "seed": job.seed, "inner": job.inner, "data": place.digest}
    every = 0 if job.inner else running.diagnostics
    if every:  # or looks would be missing
        run["diagnostics"] = every
    checkpoint = Checkpoint(
        place.checkpoint, run, resume=running.resume, every=60 * running.checkpoint_minutes
    )
    split, views = data.pretrain, encoding.views
    if running.workers:  # their views are made on the CPU
        split, views = split.to(torch.device("cpu")), views_of(cell, data)
    pairs = ViewPairs(
        split, views,
        batch_size=cell.batch_size, seed=encoding.view_seed, data_seed=cell.data_seed,
        balanced=cell.balanced, class_pairs=cell.class_pairs, workers=running.workers,
        device=device,
    )  # fmt: skip
    monitor = _Monitor(job, data, encoding, running.monitor_every)
    watch = None
    if every:
        watch = KeptWatch(cell, encoding.model, data.probe, views=encoding.views,
                          precision=HALF[cell.precision], every=every)  # fmt: skip
    clock, last_mean = Clock(), math.nan
    n_steps = len(data.pretrain) // cell.batch_size

    def batches(epoch: int) -> Iterator[ViewPair]:
        for step, pair in enumerate(pairs(epoch)):
            clock.train()
            clock.hand_over(checkpoint.notes)
            on_epoch(0, epoch - 1 + step / n_steps, last_mean)
            yield pair

    def ended(epoch: int, mean: float) -> None:
        nonlocal last_mean
        last_mean = mean
        clock.train()
        monitor.look(epoch, checkpoint.notes)
        clock.evaluate()
        if watch is not None:
            watch.look(epoch, checkpoint.notes)
            clock.pause()
        if see is not None:
            see(epoch, partial(_scored, job, data, encoding))
        clock.evaluate()
        clock.hand_over(checkpoint.notes)
        on_epoch(0, epoch, mean)

    losses = train(
        encoding.model, batches, cell.optimisation(), device=device, on_epoch=ended,
        setting=str(job), checkpoint=checkpoint,
    )  # fmt: skip
    clock.train()
    clock.hand_over(checkpoint.notes)
    notes = checkpoint.notes
    return _Fitted(Clock(*notes["seconds"]), losses, notes.get("curve", []),
                   None if watch is None else watch.seen(notes))  # fmt: skip


class _Monitor:
    """Nearest neighbours among training images, now and then; test images are not looked at."""

    def __init__(self, job: Job, data: ImageData, encoding: Encoding, every: int) -> None:
        assert isinstance(job.cell, ImageCell)
        self._cell, self._encoding, self._every = job.cell, encoding, every
        self._parts = [data.probe, data.test]
        self._device = data.test.images.device
        if job.inner:  # nobody looks at its curve
            self._every = 0
        if not self._every:
            return
        labels = data.probe.labels.cpu().numpy()
        share = min(SHARE, QUERIES / len(labels))
        try:
            fold = inner_holdout(np.arange(len(labels)), labels, seed=0, fraction=share)
        except InputError:  # a class too small to leave an image out: no reason not to train
            self._every = 0
        else:
            ids = [torch.from_numpy(part) for part in (fold.train, fold.test)]
            self._parts = [data.probe.take(part) for part in ids]

    def look(self, epoch: int, notes: dict[str, Any]) -> None:
        """Add a point to the curve in ``notes``, if this epoch has one."""
        last = epoch == self._cell.epochs
        if not self._every or (epoch % self._every and not last):
            return
        bank, queries = (self._encoding.embed(part, self._cell) for part in self._parts)
        known, asked = (part.labels.cpu().numpy() for part in self._parts)
        accuracy = weighted_knn(
            bank, known, queries, asked, k=min(NEIGHBOURS, len(bank)), temperature=TEMPERATURE,
            device=str(self._device),
        )  # fmt: skip
        notes.setdefault("curve", []).append((epoch, 100 * accuracy))


def _probe(job: Job, data: ImageData, train_z: Floats, test_z: Floats) -> FoldScore:
    cell = job.cell
    assert isinstance(cell, ImageCell)
    recipe = ProbeRecipe(
        solver=cell.probe, rates=cell.probe_lr, weight_decay=cell.probe_weight_decay,
        epochs=cell.probe_epochs, batch_size=cell.probe_batch_size,
    )  # fmt: skip
    known, asked = (part.labels.cpu().numpy() for part in (data.probe, data.test))
    device, seed = str(data.test.images.device), seed_for(job.seed, 1) % 2**32
    with memory_for(lambda: f"out of memory in the probe ({job}): lower probe-batch-size"):
        return linear_probe(train_z, known, test_z, asked, seed=seed, recipe=recipe, device=device)


def majority(data: ImageData) -> FoldScore:
    """Accuracy of naming the most frequent class of the training images, the first of several."""
    frequent = data.probe.labels.bincount().argmax()
    share = float((data.test.labels == frequent).double().mean())
    return FoldScore(share, None, len(data.probe), len(data.test), None)


def pixels(views: Views, split: Split) -> Floats:
    """Normalised pixels of images, one row each, float32 [n, 3 · S · S]."""
    rows = [
        views.plain(chunk).flatten(1).cpu().numpy()
        for chunk in torch.split(split.images, PIXELS_AT_A_TIME)
    ]
    found: Floats = np.concatenate(rows)
    return found


def save_encoder(job: Job, encoding: Encoding, place: Place) -> None:
    """Keep a trained encoder beside its record, as ``torch.load(…, weights_only=True)`` reads it.

    The file holds ``encoder`` (its state dict), ``config``, ``seed``, the ``stem`` and ``size`` of
    views that "auto" came to, and ``mean`` and ``std`` of the channels.
    """
    cell = job.cell
    assert isinstance(cell, ImageCell)
    state = {
        "encoder": encoding.model.encoder.state_dict(),
        "config": asdict(cell),
        "seed": job.seed,
        "stem": cell.stem_at(encoding.views.size),
        "size": encoding.views.size,
        "mean": encoding.views.mean.flatten().tolist(),
        "std": encoding.views.std.flatten().tolist(),
    }
    with written_whole(place.record.with_suffix(".pt")) as file:
        torch.save(state, file)
